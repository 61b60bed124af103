"""The floor: the cost of the service's HTTP stack and fan-out without a search.

    python -m benchmarks.floor --rounds 3 --seconds 3 --shards 1,2,4,8

    nothing     aiohttp handler that answers at once
    item        handler, one call to one echo shard, 490 bytes back            (floor of Q6)
    fan-out N   handler, a search to N echo shards, 10 hits and 4 facets spliced (of the others)

Every other measurement is also reported as a multiple of "fan-out 2" of the same run.
"""

from __future__ import annotations

import argparse
import socket
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from benchmarks import processes, results, wrk
from benchmarks.http_client import JSON, HttpClient, HttpRequest
from benchmarks.processes import ProcessorMeter, Running

SERVERS = "benchmarks.floor_servers"
BODY = '{"query":"wijox","facet_fields":["brand","category","country","tags"]}'
REQUESTS = {
    "nothing": HttpRequest("/nothing"),
    "item": HttpRequest("/item"),
    "fan-out": HttpRequest("/search", "POST", JSON, BODY),
}
NUM_CLIENTS = 16


@contextmanager
def serving(num_shards: int) -> Iterator[tuple[int, list[int]]]:
    """Run a front with echo shards; yields its port and the processes."""
    log = processes.home() / "logs" / "floor.txt"
    with ExitStack() as stack:
        pids: list[int] = []

        def run(role: str, *ports: int) -> Running:
            command = [processes.python(), "-m", SERVERS, role, *map(str, ports)]
            running = stack.enter_context(Running(command, log))
            pids.append(running.process.pid)
            return running

        shard_ports = [processes.free_port() for _ in range(num_shards)]
        for port in shard_ports:
            run("shard", port).wait_until(lambda port=port: _is_open(port))  # type: ignore[misc]
        port = processes.free_port()
        client = HttpClient(port)
        run("front", port, *shard_ports).wait_until(
            lambda: client.request("GET", "/nothing")[0] == 200
        )
        yield port, pids
        client.close()


def _is_open(port: int) -> bool:
    with socket.create_connection(("127.0.0.1", port), timeout=1):
        return True


def measure(kind: str, num_shards: int, seconds: float) -> tuple[wrk.Load, wrk.Load]:
    """Measure one floor with one client and with sixteen."""
    file = processes.home() / "requests" / f"floor-{kind}.txt"
    wrk.write_requests(file, [REQUESTS[kind]])
    with serving(num_shards) as (port, pids):
        wrk.run(port, file, connections=NUM_CLIENTS, seconds=1)
        meter = ProcessorMeter(pids)
        one = wrk.run(port, file, connections=1, seconds=seconds)
        one = one._replace(processor_us=meter.us_per(one.num_requests))
        return one, wrk.run(port, file, connections=NUM_CLIENTS, seconds=seconds)


def kinds(shards: Sequence[int]) -> dict[str, tuple[str, int]]:
    """Return the floors by name, each with its request and its number of shards."""
    named = {"nothing": ("nothing", 0), "item": ("item", 1)}
    return named | {f"fan-out {n}": ("fan-out", n) for n in shards}


def main(arguments: Sequence[str] | None = None) -> Path:
    """Measure all floors in rounds and print them."""
    parser = argparse.ArgumentParser(prog="benchmarks.floor")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--shards", default="1,2,4,8")
    options = parser.parse_args(arguments)
    shards = [int(number) for number in options.shards.split(",")]
    machine = processes.machine()
    measured: dict[str, list[tuple[wrk.Load, wrk.Load]]] = {}
    for _ in range(options.rounds):
        for name, (kind, num_shards) in kinds(shards).items():
            measured.setdefault(name, []).append(measure(kind, num_shards, options.seconds))
    rows: list[list[results.Cell]] = []
    for name, rounds in measured.items():
        rows.append(
            [
                name,
                results.median(one.median_ms for one, _ in rounds),
                results.median(one.p99_ms for one, _ in rounds),
                results.median(one.processor_us for one, _ in rounds),
                results.median(many.per_second for _, many in rounds),
            ]
        )
    head = ["floor", "median ms, 1 client", "p99 ms", "processor µs a request"]
    head.append(f"requests/s, {NUM_CLIENTS} clients")
    sys.stdout.write(f"{results.describe(machine)}\n\n{results.table(head, rows)}\n")
    loads = {
        name: [{"one": one._asdict(), "many": many._asdict()} for one, many in rounds]
        for name, rounds in measured.items()
    }
    return results.save("floor", {"machine": machine, "floors": loads})


if __name__ == "__main__":
    main()
