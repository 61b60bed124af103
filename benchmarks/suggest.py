"""Suggestions while people type: a request per keystroke, and what is written in between.

    python -m benchmarks.suggest
    python -m benchmarks.suggest --items 200000 --reuse
    python -m benchmarks.suggest --before ../facetd-of-last-month

Texts are drawn with a seed: half of them short queries, half titles of items, some much more often
than others, as people type them. Each is typed letter by letter by one client; an item is written
after every `--write-every` keystrokes. "First" are beginnings that no client has typed since the
last write, "again" are all others. Titles, all four facets and the last word are completed, by
price.

`--before` names another checkout with its `.venv`, which is measured in turns with this one; its
answers must be the same.
"""

from __future__ import annotations

import argparse
import json
import socket
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import numpy as np

from benchmarks import corpus, processes, results
from benchmarks.corpus import Shape
from benchmarks.peers.facetd import CONFIGURATION, INDEX, Facetd
from benchmarks.queries import make_queries
from benchmarks.search_as_you_type_relevance import LETTERS_MIN
from benchmarks.writes import other_items

SUGGESTIONS: Final = {"fields": ["title"], "facets": list(corpus.FACETS), "popularity": "price"}
NUM_TEXTS: Final = 1_000
"""Different texts that are typed, of each kind."""
WORDS_MAX: Final = 3
"""Of a title: few people type the whole."""
RECEIVED_BYTES: Final = 1 << 16
KINDS: Final = ("first", "again")


def texts(shape: Shape, num_items: int) -> list[str]:
    """Return short queries and beginnings of titles, in random order."""
    rng = np.random.default_rng([shape.seed, 6])
    queries = [query.text for query in make_queries(shape, num_items, NUM_TEXTS)["Q1"]]
    items = corpus.block(shape, 0).first(num_items)
    words = corpus.words(shape)
    starts = [0, *items.title_ends.tolist()]
    titles = [
        " ".join([words[number] for number in items.title[start:end][:WORDS_MAX].tolist()])
        for start, end in pairwise(starts[: NUM_TEXTS + 1])
    ]
    drawn = [*queries, *titles]
    return [drawn[i] for i in rng.permutation(len(drawn)).tolist()]


def keystrokes(drawn: Sequence[str], count: int, seed: int) -> Iterator[str]:
    """Yield what stands in the search box after each letter, of texts some of which are popular."""
    rng = np.random.default_rng([seed, 7])
    weights = 1.0 / (np.arange(len(drawn)) + 10.0)
    weights /= weights.sum()
    while True:
        text = drawn[int(rng.choice(len(drawn), p=weights))]
        for end in range(LETTERS_MIN, len(text) + 1):
            if not text[end - 1].isspace():
                if count == 0:
                    return
                count -= 1
                yield text[:end]


class Connection:
    """One connection that is kept, without the time that a general HTTP client takes."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def suggest(self, text: str) -> bytes:
        """Return the suggestions for a text, as they came."""
        target = f"/{INDEX}/suggest?query={quote(text)}"
        self._socket.sendall(f"GET {target} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode())
        received = bytearray()
        size = -1
        while size < 0 or len(received) < size:
            piece = self._socket.recv(RECEIVED_BYTES)
            if not piece:
                raise ConnectionError("the service has closed the connection")
            received += piece
            end = received.find(b"\r\n\r\n")
            if size < 0 <= end:
                size = end + 4 + _content_length(bytes(received[:end]))
        if not received.startswith(b"HTTP/1.1 200 "):
            raise AssertionError(received.decode())
        return bytes(received[received.index(b"\r\n\r\n") + 4 :])

    def close(self) -> None:
        """End the connection."""
        self._socket.close()


def _content_length(head: bytes) -> int:
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            return int(value)
    raise AssertionError(f"no content-length in {head!r}")


class Typing:
    """What one version of the service takes.

    Args:
        service: runs, with all items.
        write_every: keystrokes between two writes.
    """

    def __init__(self, service: Facetd, write_every: int) -> None:
        self.service = service
        self.ms: dict[str, list[float]] = {kind: [] for kind in KINDS}
        self.processor: dict[str, float] = {}
        self._write_every = write_every
        self._typed: set[str] = set()
        self._num_typed = 0
        self._items = other_items(1_000_000)
        shards = service.shard_pids()
        self._pids = {f"shard {i}": [pid] for i, pid in enumerate(shards)}
        self._pids["coordinator"] = [pid for pid in service.pids() if pid not in shards]

    def type(self, beginnings: Sequence[str]) -> list[Any]:
        """Type some beginnings; return the suggestions for each."""
        connection = Connection(self.service.port)
        meters = {name: processes.ProcessorMeter(pids) for name, pids in self._pids.items()}
        answers = []
        for text in beginnings:
            if self._num_typed and self._num_typed % self._write_every == 0:
                self._write()
            self._num_typed += 1
            started = time.perf_counter()
            answer = connection.suggest(text)
            ms = (time.perf_counter() - started) * 1_000
            self.ms["again" if text in self._typed else "first"].append(ms)
            self._typed.add(text)
            answers.append(json.loads(answer)["data"]["suggestions"])
        connection.close()
        for name, meter in meters.items():
            self.processor[name] = self.processor.get(name, 0.0) + sum(meter.seconds().values())
        return answers

    def _write(self) -> None:
        item = next(self._items).encode()
        self.service.client.ask(
            "POST", f"/{INDEX}/items", b"[" + item + b"]", {"content-type": "application/json"}
        )
        self._typed.clear()

    def summary(self) -> dict[str, Any]:
        """Return what was measured."""
        measured: dict[str, Any] = {}
        for kind, ms in self.ms.items():
            if ms:
                median, p90, p99 = np.percentile(ms, [50, 90, 99]).tolist()
                measured[kind] = {"count": len(ms), "p50": median, "p90": p90, "p99": p99}
        count = sum(map(len, self.ms.values()))
        measured["processor us"] = {
            name: seconds / count * 1e6 for name, seconds in self.processor.items()
        }
        return measured


def begin(options: argparse.Namespace, checkout: Path | None) -> Facetd:
    """Start a version of the service on a folder of its own with all items."""
    service = Facetd(options.items, num_shards=options.shards, checkout=checkout)
    suffix = "" if checkout is None else "-before"
    service.folder = service.folder.with_name(f"{service.folder.name}-suggest{suffix}")
    if options.reuse and service.folder.exists():
        service.open()
    else:
        path = corpus.path(Shape(), options.items)
        service.load(corpus.write(path, Shape(), options.items))
    service.configure({**CONFIGURATION, "suggestions": SUGGESTIONS})
    processes.wait_for_rest(service.pids())
    return service


def run(options: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """Type into each version in turns; return what was measured, by version."""
    drawn = texts(Shape(), options.items)
    versions = {"now": begin(options, None)}
    try:
        if options.before is not None:
            versions["before"] = begin(options, options.before)
        typing = {name: Typing(service, options.write_every) for name, service in versions.items()}
        beginnings = list(keystrokes(drawn, options.keystrokes, options.seed))
        step = max(1, len(beginnings) // options.turns)
        for start in range(0, len(beginnings), step):
            part = beginnings[start : start + step]
            answers = [one.type(part) for one in typing.values()]
            for text, *same in zip(part, *answers, strict=True):
                if any(one != same[0] for one in same):
                    raise AssertionError(f"{text!r}: {same}")
        return {name: one.summary() for name, one in typing.items()}
    finally:
        for service in versions.values():
            service.close()


def table(measured: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the table of all versions."""
    rows: list[list[results.Cell]] = []
    for name, summary in measured.items():
        for kind in KINDS:
            one = summary.get(kind)
            if one is not None:
                figures = [one[column] for column in ("p50", "p90", "p99")]
                rows.append([f"{kind}, {name}", str(one["count"]), *figures])
    head = ["beginnings", "keystrokes", "p50, ms", "p90, ms", "p99, ms"]
    lines = [results.table(head, rows)]
    for name, summary in measured.items():
        shares = ", ".join(f"{who} {us:.0f}" for who, us in summary["processor us"].items())
        lines.append(f"processor time a keystroke, {name}, µs: {shares}")
    return "\n\n".join(lines)


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    made = argparse.ArgumentParser("benchmarks.suggest")
    made.add_argument("--items", type=int, default=1_000_000)
    made.add_argument("--shards", type=int, default=2)
    made.add_argument("--keystrokes", type=int, default=10_000)
    made.add_argument("--write-every", type=int, default=2_000, help="keystrokes")
    made.add_argument("--turns", type=int, default=10)
    made.add_argument("--seed", type=int, default=1)
    made.add_argument("--reuse", action="store_true", help="the items of a former run")
    made.add_argument("--before", type=Path, help="another checkout, to compare with")
    return made


def main(arguments: Sequence[str] | None = None) -> Path:
    """Measure, print, save."""
    options = parser().parse_args(arguments)
    machine = processes.machine()
    measured = run(options)
    sys.stdout.write(f"{results.describe(machine)}\n\n{table(measured)}\n")
    return results.save(
        "suggest", {"machine": machine, "options": _plain(options), "measured": measured}
    )


def _plain(options: argparse.Namespace) -> dict[str, Any]:
    return {
        name: value if isinstance(value, int | float | bool) else str(value)
        for name, value in vars(options).items()
    }


if __name__ == "__main__":
    main()
