"""A large index on a small machine: load, merge, start, kill, search, write; memory is limited.

    python -m benchmarks.large_index --items 10000000 --memory-mb 4096
    python -m benchmarks.large_index --items 10000000 --memory-mb 4096 --reuse --classes Q2,Q4
    python -m benchmarks.large_index --items 10000000 --copies 5

load              the whole corpus in one request, until every item is durable and searchable; with
                  `--copies 5` five such requests, with other ids, so that the index has five times
                  the items of the corpus, and a word or value five times the documents
merging           p99 of Q2 with one client, in runs of two seconds right after the load until the
                  merges are done, beside up to twenty such runs at rest: the medians of both, and
                  the greatest; the greatest anonymous memory of a shard meanwhile
start             from the start of the processes to the first correct response: after SIGTERM, and
                  after everything was killed; the files are not in the page cache
classes           each class: the first pass over requests not seen before, right after a start;
                  then median, p99 with one client, requests/s with sixteen
single items      16 clients, each POST has one item; answered when on disk and visible

`--memory-mb` puts the service's processes into a control group of their own, whose limit counts the
page cache along with anonymous memory, as on a machine that has no more. It needs root, or a
delegated group; without `--memory-mb` nothing is limited.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from benchmarks import processes, results, wrk
from benchmarks.compare import Workload
from benchmarks.peers.facetd import CONFIGURATION, Facetd
from benchmarks.queries import CLASSES, Query
from benchmarks.writes import measure_single_items

GROUP: Final = "facetd-benchmarks"
NUM_CLIENTS: Final = 16
NUM_FIRST: Final = 100
RESTING_RUNS: Final = 3
IDLE_RUNS_MAX: Final = 20
MERGING_RUN_SECONDS: Final = 2
SAMPLE_SECONDS: Final = 0.5
MERGE_SECONDS_MAX: Final = 1_800.0
NUM_SINGLE_ITEMS: Final = 200_000
CLASSES_WANTED: Final = "Q1,Q2,Q4,Q5,Q7,Q8,Q11,Q12,Q14,Q15"
TARGETS: Final[Mapping[str, str]] = {
    "load, items/s": "≥ 80,000",
    "merging: anonymous memory of a shard, MB": "≤ 256 over rest",
    "Q2 while merging: p99 over idle": "≤ 8",
    "disk over JSON": "≤ 0.9",
    "start after SIGTERM, s": "≤ 2",
    "start after a kill, s": "≤ 2",
    "Q2 median, ms": "≤ 3",
    "Q2 p99, ms": "≤ 30",
    "Q4 median, ms": "≤ 0.6",
    "single items/s": "≥ 2,000",
}


class MemoryLimit:
    """A control group that bounds what processes hold, page cache included (v1 or v2).

    Args:
        num_bytes: the limit; 0: there is none.
    """

    def __init__(self, num_bytes: int) -> None:
        self.num_bytes = num_bytes
        root = Path("/sys/fs/cgroup")
        is_unified = (root / "cgroup.controllers").exists()
        self.folder = (root if is_unified else root / "memory") / GROUP
        self._limit = "memory.max" if is_unified else "memory.limit_in_bytes"
        self._peak = "memory.peak" if is_unified else "memory.max_usage_in_bytes"

    def __enter__(self) -> MemoryLimit:
        if self.num_bytes:
            self.folder.mkdir(exist_ok=True)
            (self.folder / self._limit).write_text(str(self.num_bytes))
        return self

    def __exit__(self, *_: object) -> None:
        if self.num_bytes:
            with contextlib.suppress(OSError):  # a process is still in it
                self.folder.rmdir()

    def launcher(self) -> tuple[str, ...]:
        """Return the words in front of a command that start it, and its children, in the group."""
        if not self.num_bytes:
            return ()
        return ("sh", "-c", f'echo $$ > {self.folder}/cgroup.procs && exec "$@"', "sh")

    def peak_mb(self) -> float | None:
        """Return the greatest use so far in MB, None where nothing is limited."""
        if not self.num_bytes:
            return None
        return int((self.folder / self._peak).read_text()) / 1e6


class AnonymousPeak:
    """Watches the greatest anonymous memory of one process among some, in MB."""

    def __init__(self, pids: Sequence[int]) -> None:
        self._pids = pids
        self._is_ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self.mb = 0.0

    def _watch(self) -> None:
        while True:
            self.mb = max(self.mb, *map(_anonymous_mb, self._pids))
            if self._is_ended.wait(SAMPLE_SECONDS):
                return

    def __enter__(self) -> AnonymousPeak:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_ended.set()
        self._thread.join()


class Measured(NamedTuple):
    """One line of the table."""

    name: str
    seen: float
    target: str = ""


class Large:
    """Measures one service."""

    def __init__(self, options: argparse.Namespace, limit: MemoryLimit) -> None:
        self.workload = Workload(options.items, seed=options.seed)
        self.service = Facetd(options.items, num_shards=options.shards)
        self.service.folder = self.service.home / "data" / f"large-{options.copies * options.items}"
        self.service.launcher = limit.launcher()
        self.copies: int = options.copies
        self.seconds: float = options.seconds
        self.classes: list[str] = options.classes.split(",")
        self.limit = limit
        self.rows: list[Measured] = []

    def note(self, name: str, seen: float) -> None:
        """Add a line to the table, and show it at once."""
        self.rows.append(Measured(name, seen, TARGETS.get(name, "")))
        print(f"{name}: {results.show(seen)}  {self.rows[-1].target}", file=sys.stderr, flush=True)

    # --- the service

    def start(self) -> float:
        """Start within the limit and ask once; returns the seconds to the answer."""
        forget_files(self.service.folder)
        started = time.monotonic()
        self.service.start_service()
        _answer_ms(self.service, self.workload.queries["Q2"][0])
        return time.monotonic() - started

    def is_merging(self) -> bool:
        """Return whether any shard is merging segments."""
        shards = self.service.shards()
        return any(index["merging"] for shard in shards for index in shard["indexes"])

    def run(self, name: str, *, clients: int = 1, seconds: float = 0) -> wrk.Load:
        """Send the requests of a class in a cycle."""
        queries = self.workload.queries[name]
        return self.service.measure(
            f"large-{name}", queries, clients=clients, seconds=seconds or self.seconds
        )

    # --- what is measured

    def load(self) -> None:
        """Load into an empty folder, and search until the merges are done."""
        service = self.service
        service.empty_folder()
        service.start_service()
        service.configure(CONFIGURATION)
        with AnonymousPeak(self.service.shard_pids()) as peak:
            began = time.monotonic()
            for copy in range(self.copies):
                started = time.monotonic()
                service.load_file(self.workload.file, copy=copy)
                if self.copies > 1:
                    per_second = self.workload.num_items / (time.monotonic() - started)
                    self.note(f"load of copy {copy + 1}, items/s", per_second)
            num_items = self.copies * self.workload.num_items
            self.note("load, items/s", num_items / (time.monotonic() - began))
        self.note("loading: anonymous memory of a shard, MB", peak.mb)
        started = time.monotonic()
        with AnonymousPeak(self.service.shard_pids()) as peak:
            busy = list(self.searched_while_merging())
        self.note("merging after the load, s", time.monotonic() - started)
        self.note("merging: anonymous memory of a shard, MB", peak.mb)
        rest = max(map(_anonymous_mb, self.service.shard_pids()))
        self.note("at rest: anonymous memory of a shard, MB", rest)
        if busy:
            self.note_merging([load.p99_ms for load in busy])
        self.note("disk, MB", processes.settled_disk_bytes(service.folder) / 1e6)
        json_mb = self.copies * self.workload.file.stat().st_size / 1e6
        self.note("disk over JSON", self.rows[-1].seen / json_mb)

    def note_merging(self, busy_ms: Sequence[float]) -> None:
        """Compare the p99 of runs during merges with those of as many runs at rest.

        The greatest of many runs is compared with the greatest of many: that of one run at rest
        would be the smaller for being alone.
        """
        num_idle = min(len(busy_ms), IDLE_RUNS_MAX)
        idle_ms = [self.run_shortly("Q2").p99_ms for _ in range(num_idle)]
        self.note("Q2 while merging: runs", len(busy_ms))
        self.note("Q2 while merging: median p99, ms", statistics.median(busy_ms))
        self.note("Q2 while merging: greatest p99, ms", max(busy_ms))
        self.note("Q2 at rest: median p99, ms", statistics.median(idle_ms))
        self.note("Q2 at rest: greatest p99, ms", max(idle_ms))
        ratio = statistics.median(busy_ms) / statistics.median(idle_ms)
        self.note("Q2 while merging: p99 over idle", ratio)

    def run_shortly(self, name: str) -> wrk.Load:
        """Send the requests of a class in a cycle, for as long as a run during merges."""
        return self.run(name, seconds=min(MERGING_RUN_SECONDS, self.seconds))

    def searched_while_merging(self) -> Iterator[wrk.Load]:
        """Search for as long as any shard merges; a merge may follow another."""
        until = time.monotonic() + MERGE_SECONDS_MAX
        num_resting = 0
        while num_resting < RESTING_RUNS and time.monotonic() < until:
            is_merging = self.is_merging()
            load = self.run_shortly("Q2")
            num_resting = 0 if is_merging else num_resting + 1
            if is_merging:
                yield load

    def starts(self) -> None:
        """Stop in order and start; kill everything and start."""
        self.service.close()
        self.note("start after SIGTERM, s", self.start())
        measure_single_items(self.service, 1, NUM_SINGLE_ITEMS, "k")
        self.service.kill()
        self.note("start after a kill, s", self.start())

    def searches(self) -> None:
        """Measure each class, cold and warm."""
        for name in self.classes:
            queries = self.workload.queries[name]
            first = [_answer_ms(self.service, query) for query in queries[:NUM_FIRST]]
            self.note(f"{name} first pass, median, ms", statistics.median(first))
            self.run(name)
            load = self.run(name)
            self.note(f"{name} median, ms", load.median_ms)
            self.note(f"{name} p99, ms", load.p99_ms)
            many = self.run(name, clients=NUM_CLIENTS)
            self.note(f"{name} requests/s, {NUM_CLIENTS} clients", many.per_second)

    def writes(self) -> None:
        """Measure single items, then the processes' memory."""
        load = measure_single_items(self.service, self.seconds, NUM_SINGLE_ITEMS)
        self.note("single items/s", load.per_second)
        self.note("single items: p99, ms", load.p99_ms)
        memory = processes.memory(self.service.pids())
        self.note("memory, own, MB", memory.own / 1e6)
        self.note("memory, mapped files, MB", memory.files / 1e6)
        if (peak := self.limit.peak_mb()) is not None:
            self.note("memory, page cache included, peak, MB", peak)


def forget_files(folder: Path) -> None:
    """Drop the files of a folder from the page cache."""
    subprocess.run(["sync", "-f", str(folder)], check=False)
    for path, _, names in os.walk(folder):
        for name in names:
            descriptor = os.open(os.path.join(path, name), os.O_RDONLY)
            try:
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(descriptor)


def _anonymous_mb(pid: int) -> float:
    return processes.status_bytes(pid, "RssAnon") / 1e6


def _answer_ms(service: Facetd, query: Query) -> float:
    request = service.request(query)
    started = time.monotonic()
    service.client.ask(request.method, request.target, request.body.encode(), request.headers)
    return (time.monotonic() - started) * 1_000


def main(arguments: Sequence[str] | None = None) -> Path:
    """Measure, print, save."""
    parser = argparse.ArgumentParser(prog="benchmarks.large_index")
    parser.add_argument("--items", type=int, default=1_000_000)
    parser.add_argument(
        "--copies", type=int, default=1, choices=range(1, 10), help="of the corpus, in the index"
    )
    parser.add_argument("--memory-mb", type=int, default=0, help="limit of all processes")
    parser.add_argument("--shards", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=5, help="of each run of wrk")
    parser.add_argument("--classes", default=CLASSES_WANTED)
    parser.add_argument("--seed", type=int, default=7, help="of the queries")
    parser.add_argument("--reuse", action="store_true", help="take what an earlier run has loaded")
    options = parser.parse_args(arguments)
    if unknown := set(options.classes.split(",")) - set(CLASSES):
        parser.error(f"no such classes: {', '.join(sorted(unknown))}")
    machine = processes.machine()
    with MemoryLimit(options.memory_mb << 20) as limit:
        large = Large(options, limit)
        try:
            if not options.reuse:
                large.load()
            large.starts()
            large.searches()
            large.writes()
        finally:
            large.service.close()
    limited = f"{options.memory_mb:,} MB for all processes" if options.memory_mb else "no limit"
    table = results.table(["what", "seen", "target at 10,000,000"], [list(x) for x in large.rows])
    title = f"{options.copies * options.items:,} items, {limited}; {results.describe(machine)}"
    sys.stdout.write(f"{title}\n\n{table}\n")
    seen = {row.name: row.seen for row in large.rows}
    return results.save("large_index", {"machine": machine, "options": vars(options), "seen": seen})


if __name__ == "__main__":
    try:
        main()
    except wrk.MissingTool as missing_tool:
        sys.exit(str(missing_tool))
