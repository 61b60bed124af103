"""An index for each tenant: the cost of thousands, and whether one starves the others.

    python -m benchmarks.tenants --indexes 10000 --items 200
    python -m benchmarks.tenants --indexes 10000 --grow; … --indexes 10000 --reuse
    python -m benchmarks.tenants --indexes 100 --noisy-items 100000 --seconds 20

create            each index made by its own request, at the first and at the last of them
idle memory       PSS of all processes after a restart, less that of a service with one index
SIGTERM           to the end of the last process, after writes to some of the indexes
start             from the start of the processes to `/_ready` with every index listed, all items
                  counted; after SIGTERM, and after everything was killed while indexes were written
shard back        from kill -9 of a shard to `/_ready`
cold search       the first search of an index since the start, by one client, on random indexes
noisy tenant      p99 of searches of small indexes by one client, alone and beside 16 clients that
                  ask one large index for its most expensive searches; `--rounds` in turns, medians
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import signal
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, NamedTuple

from benchmarks import corpus, processes, results, wrk
from benchmarks.corpus import Shape
from benchmarks.http_client import JSON, TEXT, HttpClient, HttpRequest
from benchmarks.peers.facetd import CONFIGURATION, Facetd
from benchmarks.writes import other_items

NUM_COLD: Final = 300
"""Indexes that are searched for the first time."""
NUM_WRITTEN: Final = 20
"""Indexes that are written to right before the service is stopped or killed."""
NUM_TIMED: Final = 100
"""Indexes that are made by one client, at the beginning and at the end."""
NUM_LOADERS: Final = 8
"""Clients that make the others."""
NUM_NOISY_CLIENTS: Final = 16
NUM_QUIET: Final = 20
"""Small indexes that are searched beside the noisy one."""
NOISY: Final = "noisy"


class Row(NamedTuple):
    """One line of the table."""

    name: str
    seen: float | str
    target: str = ""


class Tenants:
    """A service with an index for each tenant."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.num_indexes: int = options.indexes
        self.num_items: int = options.items
        self.seconds: float = options.seconds
        self.rounds: int = options.rounds
        self.num_noisy_items: int = options.noisy_items
        self.service = Facetd(options.items, num_shards=options.shards)
        self.service.folder = self.service.home / "data" / "tenants"
        self.rows: list[Row] = []
        self.num_added = 0
        self.random = random.Random(24)
        lines = list(other_items(options.items))
        self.body = "\n".join(lines).encode() + b"\n"
        word = json.loads(lines[0])["title"].split()[0]
        self.search = json.dumps(
            {"query": word, "typo": 0, "prefix": "none", "facet_fields": ["brand"]}
        )

    def note(self, name: str, seen: float | str, target: str = "") -> None:
        """Add a line to the table, and show it at once."""
        self.rows.append(Row(name, seen, target))
        print(f"{name}: {results.show(seen)}  {target}", file=sys.stderr, flush=True)

    # --- one index

    def create(self, name: str) -> float:
        """Make an index; returns the milliseconds."""
        return _ms(lambda: self.service.configure(CONFIGURATION, name))

    def load(self, name: str) -> float:
        """Load its items; returns the milliseconds."""
        return _ms(lambda: self.service.client.ask("POST", f"/{name}/index", self.body, TEXT))

    def ask(self, name: str) -> float:
        """Search an index; returns the milliseconds."""
        return _ms(
            lambda: self.service.client.ask("POST", f"/{name}/search", self.search.encode(), JSON)
        )

    def add_some(self) -> None:
        """Write an item to some indexes, so that they have data that is in no file yet."""
        for number in self.random.sample(
            range(self.num_indexes), min(self.num_indexes, NUM_WRITTEN)
        ):
            self.num_added += 1
            item = json.dumps([{"id": f"added-{self.num_added}", "title": "one more"}]).encode()
            self.service.client.ask("POST", f"/{_name(number)}/items", item, JSON)

    # --- the service

    def start(self, when: str) -> None:
        """Start; note the seconds until all acknowledged items are there."""
        self._start(when)
        self.check()

    def _start(self, when: str, target: str = "3") -> None:
        seconds = _ms(self.service.start_service) / 1_000
        processor = sum(processes.processor_seconds(self.service.pids()).values())
        self.note(f"start {when}, s", seconds, target)
        self.note(f"start {when}: processor s", processor)

    def rows_of_indexes(self) -> list[dict[str, Any]]:
        """Return the indexes with their sizes."""
        listed: list[dict[str, Any]] = json.loads(self.service.client.ask("GET", "/_indexes"))[
            "indexes"
        ]
        return listed

    def check(self) -> None:
        """Compare the list of indexes with what was written."""
        listed = self.rows_of_indexes()
        num_items = sum(one["items"] for one in listed)
        wanted = self.num_indexes * self.num_items + self.num_added
        if len(listed) != self.num_indexes or num_items != wanted:
            raise AssertionError(
                f"{len(listed)} indexes, {num_items} items; not {self.num_indexes} and {wanted}"
            )

    def stop(self) -> float:
        """Stop in order; returns the seconds."""
        return _ms(self.service.close) / 1_000

    # --- what is measured

    def measure_rest(self, one: float) -> None:
        """Measure a service that has its indexes; it runs afterwards."""
        self.measure_shape()
        self.add_some()
        self.note("SIGTERM, s", self.stop())
        self.start("after SIGTERM")
        processes.wait_for_rest(self.service.pids())
        self.note_memory("after a start", one)
        self.measure_cold()
        self.measure_shape()
        self.measure_shard_back()
        self.measure_snapshot()
        self.add_some()
        self.service.kill()
        self.start("after kill -9")

    def measure_one(self) -> float:
        """Return the idle PSS of a service with one index."""
        service = self.service
        folder, service.folder = service.folder, service.folder.with_name("tenants-one")
        try:
            service.empty_folder()
            service.start_service()
            self.create(_name(0))
            self.load(_name(0))
            service.close()
            self._start("with one index", "")
            self.ask(_name(0))
            processes.wait_for_rest(service.pids())
            return processes.memory(service.pids()).total
        finally:
            service.close()
            service.empty_folder()
            service.folder = folder

    def measure_growth(self, one: float) -> None:
        """Make and load the indexes: the first and the last ones by one client, others by many."""
        self.service.start_service()
        # (A run that was ended may have left one without items.)
        known = {one["name"] for one in self.rows_of_indexes() if one["items"] >= self.num_items}
        numbers = [number for number in range(self.num_indexes) if _name(number) not in known]
        first, last = numbers[:NUM_TIMED], numbers[NUM_TIMED:][-NUM_TIMED:]
        self._grow("first", first)
        others = numbers[len(first) : len(numbers) - len(last)]
        with ThreadPoolExecutor(NUM_LOADERS) as pool:
            for client in [
                pool.submit(self._grow_quietly, others[start::NUM_LOADERS])
                for start in range(NUM_LOADERS)
            ]:
                client.result()
        processes.wait_for_rest(self.service.pids())
        self._grow("last", last)
        processes.wait_for_rest(self.service.pids())
        self.note_memory("after the loads", one)

    def _grow(self, which: str, numbers: Sequence[int]) -> None:
        if numbers:
            created = [self.create(_name(number)) for number in numbers]
            loaded = [self.load(_name(number)) for number in numbers]
            target = "50" if which == "last" else ""
            self.note(f"create, {which}: p50 ms", statistics.median(created), target)
            self.note(f"create, {which}: p99 ms", _p99(created), target)
            self.note(f"load, {which}: p50 ms", statistics.median(loaded))

    def _grow_quietly(self, numbers: Sequence[int]) -> None:
        client = HttpClient(self.service.port)
        configuration = json.dumps(CONFIGURATION).encode()
        for number in numbers:
            client.ask("POST", f"/{_name(number)}/configuration", configuration, JSON)
            client.ask("POST", f"/{_name(number)}/index", self.body, TEXT)
        client.close()

    def note_memory(self, when: str, one: float) -> None:
        """Note the memory of all processes for each index, above that of a service with one."""
        pids = self.service.pids()
        for name, num_bytes in _by_name(pids).items():
            self.note(f"{name}, {when}: PSS MB", num_bytes / 1e6)
        more = processes.memory(pids).total - one
        self.note(f"idle memory an index, {when}: KB", more / self.num_indexes / 1e3, "50")

    def measure_shape(self) -> None:
        """Note address space, descriptors, threads, files and disk."""
        pids = self.service.pids()
        space = sum(_status(pid, "VmSize") for pid in pids)
        self.note("address space of all processes, GB", space / 1e6)
        self.note("greatest address space, GB", max(_status(pid, "VmSize") for pid in pids) / 1e6)
        self.note("descriptors", float(sum(len(os.listdir(f"/proc/{pid}/fd")) for pid in pids)))
        self.note("threads", float(sum(_status(pid, "Threads") for pid in pids)))
        num_files = sum(len(files) for _, _, files in os.walk(self.service.folder))
        self.note("files an index", num_files / self.num_indexes)
        disk = processes.settled_disk_bytes(self.service.folder)
        self.note("disk an index, KB", disk / self.num_indexes / 1e3)

    def measure_cold(self) -> None:
        """Note the first searches of indexes; then those of the same ones again."""
        chosen = self.random.sample(range(self.num_indexes), min(self.num_indexes, NUM_COLD))
        self.ask(_name(chosen.pop()))
        cold = [self.ask(_name(number)) for number in chosen]
        self.note("cold search: p50 ms", statistics.median(cold), "10")
        self.note("cold search: p99 ms", _p99(cold), "10")
        again = [self.ask(_name(number)) for number in chosen[-100:]]
        self.note("the same again: p50 ms", statistics.median(again))

    def measure_shard_back(self) -> None:
        """Kill a shard; note when all serve again."""
        self.add_some()
        pid = self.service.shard_pids()[0]
        running = self.service.running
        assert running is not None
        started = time.monotonic()
        os.kill(pid, signal.SIGKILL)
        running.wait_until(lambda: not self.answers("/_ready"))
        running.wait_until(lambda: self.answers("/_ready"))
        self.note("shard back, s", time.monotonic() - started, "2")
        self.check()

    def answers(self, target: str) -> bool:
        """Return whether a request succeeds."""
        return self.service.client.request("GET", target)[0] == 200

    def measure_snapshot(self) -> None:
        """Note how long a snapshot of all takes."""
        body = json.dumps({"name": "all"}).encode()
        took = _ms(lambda: self.service.client.ask("POST", "/_snapshots", body, JSON))
        self.note("snapshot, s", took / 1_000)

    def measure_noise(self) -> None:
        """Note what a noisy tenant does to the quiet ones."""
        shape = Shape()
        file = corpus.write(corpus.path(shape, self.num_noisy_items), shape, self.num_noisy_items)
        self.service.configure(CONFIGURATION, NOISY)
        self.service.load_file(file, NOISY)
        folder = self.service.home / "requests"
        quiet = wrk.write_requests(
            folder / "tenants-quiet.txt",
            (
                HttpRequest(f"/{_name(number)}/search", "POST", JSON, self.search)
                for number in range(min(self.num_indexes, NUM_QUIET))
            ),
        )
        processes.wait_for_rest(self.service.pids())
        port = self.service.port
        for kind, requests in noises(shape).items():
            noisy = wrk.write_requests(folder / f"tenants-{kind}.txt", requests)
            alone, beside, noise = [], [], []
            for _ in range(self.rounds):
                wrk.run(port, quiet, connections=1, seconds=1)
                alone.append(wrk.run(port, quiet, connections=1, seconds=self.seconds))
                loud = wrk.start(
                    port, noisy, connections=NUM_NOISY_CLIENTS, seconds=self.seconds + 2
                )
                time.sleep(1)
                beside.append(wrk.run(port, quiet, connections=1, seconds=self.seconds))
                noise.append(wrk.read(*loud.communicate()))
                if any(load[-1].num_errors for load in (alone, beside, noise)):
                    raise AssertionError("some searches failed")
            for name, loads in (("alone", alone), (f"beside {kind}", beside)):
                self.note(f"quiet, {name}: p50 ms", _median(loads, "median_ms"))
                self.note(f"quiet, {name}: p99 ms", _median(loads, "p99_ms"))
            ratio = _median(beside, "p99_ms") / _median(alone, "p99_ms")
            self.note(f"quiet beside {kind}: p99 ÷ alone", ratio, "2")
            self.note(f"{kind}: requests/s", _median(noise, "per_second"))
            self.note(f"{kind}: p50 ms", _median(noise, "median_ms"))


def noises(shape: Shape) -> dict[str, list[HttpRequest]]:
    """Return the requests of noisy tenants, by what makes them expensive."""
    words = corpus.words(shape)
    facets = ["brand", "category", "tags", "country"]

    def request(**body: Any) -> HttpRequest:
        return HttpRequest(f"/{NOISY}/search", "POST", JSON, json.dumps(body))

    return {
        "facets and prefixes": [
            request(query=f"{words[i]} {words[i + 1]} {words[i + 2][:2]}", facet_fields=facets)
            for i in range(0, 60, 3)
        ],
        "long queries": [
            request(query=" ".join(words[i : i + 200]), typo=1, facet_fields=facets)
            for i in range(0, 4_000, 200)
        ],
        "deep pages": [
            request(query=words[i], page=200, per_page=50, facet_fields=facets) for i in range(20)
        ],
    }


def _name(number: int) -> str:
    return f"tenant-{number}"


def _ms(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return (time.perf_counter() - started) * 1_000


def _p99(values: Sequence[float]) -> float:
    return sorted(values)[int(len(values) * 0.99)]


def _median(loads: Sequence[wrk.Load], name: str) -> float:
    return float(statistics.median(getattr(load, name) for load in loads))


def _status(pid: int, name: str) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1])
    return 0


def _by_name(pids: Sequence[int]) -> dict[str, int]:
    """Return the PSS of each process, by what it is."""
    sizes: dict[str, int] = {}
    for pid in pids:
        with contextlib.suppress(OSError):
            words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
            name = next(
                (
                    name
                    for name, mark in (
                        ("coordinator", "--takeover-pipe"),
                        ("coordinator", "--lock"),
                        ("shards", "--shard-id"),
                        ("fork server", "common.process.fork_server"),
                    )
                    if mark in words
                ),
                "supervisor",
            )
            sizes[name] = sizes.get(name, 0) + processes.memory([pid]).total
    return sizes


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--indexes", type=int, default=1_000)
    parser.add_argument("--items", type=int, default=200)
    parser.add_argument("--shards", type=int, default=2)
    parser.add_argument("--grow", action="store_true", help="only make the indexes, for --reuse")
    parser.add_argument("--reuse", action="store_true", help="go on with what --grow has made")
    parser.add_argument("--noisy-items", type=int, default=0, help="0: no noisy tenant")
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--rounds", type=int, default=3)
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print the table."""
    options = _parse(arguments)
    machine = processes.machine()
    tenants = Tenants(options)
    try:
        one = tenants.measure_one()
        if not options.reuse:
            tenants.service.empty_folder()
        tenants.measure_growth(one)
        if not options.grow:
            tenants.measure_rest(one)
            if options.noisy_items:
                tenants.measure_noise()
    finally:
        tenants.service.close()
        if not options.grow:
            tenants.service.empty_folder()
    rows = [[row.name, row.seen, row.target and f"≤ {row.target}"] for row in tenants.rows]
    print("; ".join(machine.values()))
    print(f"{options.indexes:,} indexes of {options.items} items, {options.shards} shards\n")
    print(results.table(["", "seen", "target"], rows))
    results.save("tenants", {"machine": machine, "options": vars(options), "rows": rows})
    return 0


if __name__ == "__main__":
    sys.exit(main())
