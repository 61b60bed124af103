"""More cores: requests/s of a service on one core, on two, and with several coordinators.

    python -m benchmarks.cores --items 1000000 --classes Q1,Q2,Q5,Q6,Q13

All processes of the service, and the load generator with its sixteen clients, run on the cores of a
setting (`taskset`). The corpus is loaded once; every round starts each setting in turn on it. The
table has the medians of the rounds, and the ratio to one core; processor time is that of the
service's processes for each request.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from benchmarks import processes, results, wrk
from benchmarks.compare import Workload
from benchmarks.peers.facetd import Facetd
from benchmarks.queries import CLASSES

NUM_CLIENTS: Final = 16
WARM_SECONDS: Final = 1.0


class Setting(NamedTuple):
    """Where a service runs, and with how many coordinators."""

    num_cores: int
    num_coordinators: int

    def __str__(self) -> str:
        cores = "one core" if self.num_cores == 1 else f"{self.num_cores} cores"
        if self.num_coordinators == 1:
            return cores
        return f"{cores}, {self.num_coordinators} coordinators"

    @property
    def launcher(self) -> tuple[str, ...]:
        """Words in front of a command that keep it on the cores."""
        cores = sorted(os.sched_getaffinity(0))[: self.num_cores]
        return ("taskset", "--cpu-list", ",".join(map(str, cores)))


class Seen(NamedTuple):
    """What one class took in one setting and round."""

    per_second: float
    processor_us: float


def settings() -> list[Setting]:
    """Return the settings to compare on this machine: one core first, then all."""
    num_cores = len(os.sched_getaffinity(0))
    if num_cores == 1:
        return [Setting(1, 1)]
    return [Setting(1, 1), Setting(num_cores, 1), Setting(num_cores, 2)]


def measure(
    service: Facetd, workload: Workload, setting: Setting, classes: Sequence[str], seconds: float
) -> dict[str, Seen]:
    """Start a service on loaded data, and send it each class."""
    service.launcher = setting.launcher
    service.serve_options = ("--coordinators", str(setting.num_coordinators))
    service.open()
    seen = {}
    try:
        for name in classes:
            file = service.home / "requests" / f"cores-{name}.txt"
            wrk.write_requests(file, map(service.request, workload.queries[name]))
            for length in (WARM_SECONDS, seconds):
                meter = processes.ProcessorMeter(service.pids())
                load = wrk.run(
                    service.port,
                    file,
                    connections=NUM_CLIENTS,
                    seconds=length,
                    launcher=setting.launcher,
                )
            if load.num_errors:
                raise RuntimeError(f"{load.num_errors} errors in {name}, {setting}")
            seen[name] = Seen(load.per_second, meter.us_per(load.num_requests))
    finally:
        service.close()
    return seen


def main(arguments: Sequence[str] | None = None) -> Path:
    """Measure, print, save."""
    parser = argparse.ArgumentParser(prog="benchmarks.cores")
    parser.add_argument("--items", type=int, default=1_000_000)
    parser.add_argument("--shards", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3, help="of each run of wrk")
    parser.add_argument("--classes", default="Q1,Q2,Q5,Q6,Q13")
    parser.add_argument("--seed", type=int, default=7, help="of the queries")
    parser.add_argument("--reuse", action="store_true", help="take what an earlier run has loaded")
    options = parser.parse_args(arguments)
    classes = options.classes.split(",")
    if unknown := set(classes) - set(CLASSES):
        parser.error(f"no such classes: {', '.join(sorted(unknown))}")
    machine = processes.machine()
    workload = Workload(options.items, options.seed)
    service = Facetd(options.items, num_shards=options.shards)
    if not options.reuse:
        service.load(workload.file)
        processes.wait_for_rest(service.pids())
        service.close()
    seen = defaultdict(list)
    for _ in range(options.rounds):
        for setting in settings():
            one = measure(service, workload, setting, classes, options.seconds)
            for name, figures in one.items():
                seen[name, setting].append(figures)
    rows: list[list[results.Cell]] = []
    for name in classes:
        alone = statistics.median([one.per_second for one in seen[name, settings()[0]]])
        for setting in settings():
            in_rounds = seen[name, setting]
            per_second = statistics.median([one.per_second for one in in_rounds])
            processor_us = statistics.median([one.processor_us for one in in_rounds])
            rows.append([name, str(setting), per_second, per_second / alone, processor_us])
    head = ["class", "service and clients on", "requests/s", "÷ one core", "processor µs a request"]
    title = f"{options.items:,} items, {options.rounds} rounds; {results.describe(machine)}"
    sys.stdout.write(f"{title}\n\n{results.table(head, rows)}\n")
    return results.save(
        "cores", {"machine": machine, "options": vars(options), "rows": [list(x) for x in rows]}
    )


if __name__ == "__main__":
    try:
        main()
    except wrk.MissingTool as missing_tool:
        sys.exit(str(missing_tool))
