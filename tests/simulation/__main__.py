"""Run simulations: `python -m tests.simulation SEED` shows one, `FIRST LAST` runs many."""

from __future__ import annotations

import sys
import time

from tests.simulation.simulation import SimulationFailed, simulate


def main() -> int:
    """Return the number of seeds that fail (1 at most)."""
    first, *rest = map(int, sys.argv[1:])
    if not rest:
        print(simulate(first, is_verbose=True))
        return 0
    failed = []
    started = time.monotonic()
    for seed in range(first, rest[0]):
        try:
            outcome = simulate(seed)
        except SimulationFailed as error:
            failed.append(seed)
            print(str(error).splitlines()[0][:1500], flush=True)
        else:
            print(f"{seed} {time.monotonic() - started:.1f} s {outcome}", flush=True)
    print(f"failed: {failed}")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
