"""Run simulations: `python -m tests.simulation SEED` shows one, `FIRST LAST` runs many.

`hosts` or `placed` before the numbers: of several hosts that hold everything, or some shards each;
`busy`: of hosts that hold everything and fall behind, because many clients write.
`moves`: of shards that move between placed hosts while nothing fails. `power`: of placed hosts that
start after a power cut without the log.
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable
from functools import partial

from tests.simulation.placed_hosts import simulate_moves, simulate_placed
from tests.simulation.power_cut import simulate_power_cut
from tests.simulation.several_hosts import simulate_hosts
from tests.simulation.simulation import SimulationFailed, simulate


def main() -> int:
    """Return the number of seeds that fail (1 at most)."""
    kinds: dict[str, Callable[..., object]] = {
        "hosts": simulate_hosts,
        "busy": partial(simulate_hosts, is_busy=True),
        "placed": simulate_placed,
        "moves": simulate_moves,
        "power": simulate_power_cut,
    }
    words = sys.argv[1:]
    simulation = kinds[words.pop(0)] if words[0] in kinds else simulate
    first, *rest = map(int, words)
    if not rest:
        print(simulation(first, is_verbose=True))
        return 0
    failed = []
    started = time.monotonic()
    for seed in range(first, rest[0]):
        try:
            outcome = simulation(seed)
        except SimulationFailed as error:
            failed.append(seed)
            print(str(error).splitlines()[0][:1500], flush=True)
        else:
            print(f"{seed} {time.monotonic() - started:.1f} s {outcome}", flush=True)
        gc.collect()
    print(f"failed: {failed}")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
