"""A load generator for Redis' protocol: python -m … PORT FILE CLIENTS SECONDS.

FILE has a JSON list of queries, each a list of commands that travel as one pipeline. Commands are
packed once; replies are parsed by hiredis (C) and thrown away. One process up to 1 client, four
beyond, each with its share of the clients as threads.
"""

from __future__ import annotations

import json
import multiprocessing
import socket
import sys
import threading
import time
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

NUM_PROCESSES = 4
READ_BYTES = 1 << 16


def pack(commands: Sequence[Sequence[str]]) -> bytes:
    """Pack commands as arrays of bulk strings."""
    parts = []
    for command in commands:
        parts.append(b"*%d\r\n" % len(command))
        for word in command:
            raw = word.encode()
            parts.append(b"$%d\r\n%b\r\n" % (len(raw), raw))
    return b"".join(parts)


def _client(
    port: int, queries: Sequence[tuple[bytes, int]], first: int, until: float, seen: list[float]
) -> None:
    hiredis: Any = import_module("hiredis")
    reader = hiredis.Reader()
    at = first % len(queries)
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while time.monotonic() < until:
            packed, num_replies = queries[at]
            started = time.perf_counter()
            connection.sendall(packed)
            while num_replies:
                reader.feed(connection.recv(READ_BYTES))
                while num_replies and reader.gets() is not False:
                    num_replies -= 1
            seen.append(time.perf_counter() - started)
            at = (at + 1) % len(queries)


def _process(arguments: tuple[int, str, int, int, float]) -> list[float]:
    port, file, first, num_clients, seconds = arguments
    queries = [(pack(commands), len(commands)) for commands in json.loads(Path(file).read_text())]
    seen: list[float] = []
    until = time.monotonic() + seconds
    threads = [
        threading.Thread(target=_client, args=(port, queries, first + 37 * i, until, seen))
        for i in range(num_clients)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return seen


def main(port: int, file: str, num_clients: int, seconds: float) -> None:
    """Make the load and write what was seen as JSON."""
    if num_clients == 1:
        times = _process((port, file, 0, 1, seconds))
    else:
        share = num_clients // NUM_PROCESSES
        work = [(port, file, 101 * i, share, seconds) for i in range(NUM_PROCESSES)]
        with multiprocessing.Pool(NUM_PROCESSES) as pool:
            times = [t for part in pool.map(_process, work) for t in part]
    times.sort()
    load = {
        "median_ms": 1_000 * times[len(times) // 2],
        "p99_ms": 1_000 * times[int(len(times) * 0.99)],
        "max_ms": 1_000 * times[-1],
        "per_second": round(len(times) / seconds, 1),
        "num_requests": len(times),
        "num_errors": 0,
    }
    sys.stdout.write(json.dumps(load))


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), float(sys.argv[4]))
