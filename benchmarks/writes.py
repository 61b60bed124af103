"""Writing: single durable items by many writers, and searching while a load runs.

python -m benchmarks.writes --items 100000 --seconds 10

single items     16 clients, each POST has one new item; answered when on disk, visible, counted;
                 right after the load, while its segments are merged, and when that is done
bulk             the corpus in one request: items per second until it is answered
Q2 idle, loading p99 of full text + 4 facets with one client, before and during a bulk load
disk             what a commit waits for: 16 KiB written in place and synced, by as many threads at
                 once as there are shards; a group of single items costs each shard two such syncs
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import corpus, processes, results, wrk
from benchmarks.compare import Workload
from benchmarks.corpus import Shape
from benchmarks.http_client import JSON, HttpRequest
from benchmarks.peers.facetd import INDEX, Facetd

NUM_WRITERS = 16
SINGLE_ITEMS = 200_000
SYNC_BYTES = 16_384
OTHER_SEED = 77


def other_items(num_items: int, prefix: str = "w") -> Iterator[str]:
    """Yield items that the corpus does not have, with ids of their own ("w7").

    Args:
        num_items: how many.
        prefix: of their ids; items of another prefix are new, too.
    """
    shape = Shape(seed=OTHER_SEED)
    for items in corpus.generate(shape, num_items):
        for line in corpus.lines(shape, items):
            with_id = line.replace('{"id":', f'{{"id":"{prefix}', 1)
            yield with_id.replace(',"title"', '","title"', 1)


def write_other_items(path: Path, num_items: int) -> Path:
    """Write such items as newline-delimited JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="ascii") as file:
        file.writelines(item + "\n" for item in other_items(num_items))
    return path


def measure_single_items(
    service: Facetd, seconds: float, num_items: int, prefix: str = "s"
) -> wrk.Load:
    """Let sixteen writers add single items.

    Args:
        service: to write to.
        seconds: how long.
        num_items: after so many the first ones are replaced.
        prefix: of their ids, which another call must not have had.
    """
    file = service.home / "requests" / "facetd-single-items.txt"
    target = f"/{INDEX}/items"
    items = other_items(num_items, prefix)
    wrk.write_requests(file, (HttpRequest(target, "POST", JSON, f"[{item}]") for item in items))
    return wrk.run(service.port, file, connections=NUM_WRITERS, seconds=seconds)


class Loading:
    """Loads items into the searched index at full speed, repeatedly, until it is stopped."""

    def __init__(self, service: Facetd, items: Path) -> None:
        self.service = service
        self.items = items
        self.num_loads = 0
        self.failure: Exception | None = None
        self._is_ended = threading.Event()
        self._thread = threading.Thread(target=self._load)

    def _load(self) -> None:
        loader = Facetd(self.service.num_items, self.service.home)
        loader.port = loader.client.port = self.service.port
        try:
            while not self._is_ended.is_set():
                loader.load_file(self.items)
                self.num_loads += 1
        except Exception as error:  # reported to the caller that joins the thread
            self.failure = error
        finally:
            loader.client.close()

    def __enter__(self) -> Loading:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_ended.set()
        self._thread.join()
        if self.failure is not None:
            raise self.failure


class Disk(NamedTuple):
    """The time of a durable write on the disk itself."""

    median_ms: float
    p99_ms: float
    max_ms: float
    per_second: float


def measure_disk(folder: Path, num_threads: int, seconds: float = 1.0) -> Disk:
    """Write in place and sync in a loop, each thread in a file of its own."""
    took: list[float] = []

    def write() -> None:
        page = os.urandom(SYNC_BYTES)
        with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
            file.write(bytes(SYNC_BYTES))
            os.fsync(file.fileno())
            while time.monotonic() < end:
                started = time.monotonic()
                os.pwrite(file.fileno(), page, 0)
                os.fdatasync(file.fileno())
                took.append(time.monotonic() - started)

    end = time.monotonic() + seconds
    threads = [threading.Thread(target=write) for _ in range(num_threads)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    *_, p99 = statistics.quantiles(took, n=100)
    return Disk(
        median_ms=round(1e3 * statistics.median(took), 3),
        p99_ms=round(1e3 * p99, 3),
        max_ms=round(1e3 * max(took), 3),
        per_second=round(len(took) / seconds, 1),
    )


def main(arguments: Sequence[str] | None = None) -> Path:
    """Measure, print, save."""
    parser = argparse.ArgumentParser(prog="benchmarks.writes")
    parser.add_argument("--items", type=int, default=100_000)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--shards", type=int, default=2)
    options = parser.parse_args(arguments)
    machine = processes.machine()
    workload = Workload(options.items, seed=7)
    service = Facetd(options.items, num_shards=options.shards)
    requests = service.home / "requests" / "facetd-writes-Q2.txt"
    wrk.write_requests(requests, (service.request(query) for query in workload.queries["Q2"]))
    try:
        bulk_seconds = service.load(workload.file)
        others = write_other_items(service.home / "corpus" / "others.ndjson", options.items)
        idle = wrk.run(service.port, requests, connections=1, seconds=options.seconds)
        with Loading(service, others) as loading:
            busy = wrk.run(service.port, requests, connections=1, seconds=options.seconds)
        num_singles = min(SINGLE_ITEMS, 2 * options.items)
        merging = measure_single_items(service, options.seconds / 2, num_singles, "m")
        processes.wait_for_rest(service.pids())
        singles = measure_single_items(service, options.seconds, num_singles)
        disk = measure_disk(service.folder, options.shards)
    finally:
        service.close()
    loads = {
        "Q2 idle": idle,
        "Q2 while loading": busy,
        "single items while merging": merging,
        "single items": singles,
    }
    measured: dict[str, wrk.Load | Disk] = {**loads, "disk": disk}
    rows: list[list[results.Cell]] = [
        [name, one.median_ms, one.p99_ms, one.max_ms, one.per_second]
        for name, one in measured.items()
    ]
    head = ["what", "median ms", "p99 ms", "max ms", "per second"]
    bulk_per_second = options.items / bulk_seconds
    rows.append(["bulk, items", None, None, None, bulk_per_second])
    report = [
        f"{options.items:,} items; {results.describe(machine)}",
        results.table(head, rows),
        f"p99 of Q2 while loading: {busy.p99_ms / max(idle.p99_ms, 1e-3):.1f} x idle "
        f"({loading.num_loads} whole loads meanwhile); "
        f"errors: {sum(one.num_errors for one in loads.values())}",
    ]
    sys.stdout.write("\n\n".join(report) + "\n")
    raw: dict[str, Any] = {name: one._asdict() for name, one in measured.items()}
    raw["bulk"] = {"per_second": bulk_per_second}
    return results.save("writes", {"machine": machine, "options": vars(options), **raw})


if __name__ == "__main__":
    try:
        main()
    except wrk.MissingTool as missing_tool:
        sys.exit(str(missing_tool))
