"""A player of the query game: one engine in this process, one thread; see `benchmarks/game`.

    python -m benchmarks.peers.servers.game_player ENGINE build ITEMS FOLDER
    python -m benchmarks.peers.servers.game_player ENGINE play FOLDER QUERIES

A player says "ready" with a description of its index, then takes a command a line (COUNT, TOP_10,
…). It runs all queries once, in order, and writes a line for each: nanoseconds of processor time of
its thread, the number of hits or -1, and the scores of the best hits; or just "-" for what the
engine does not offer. An empty line ends a turn.
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import NamedTuple, Protocol

COMMANDS = {"COUNT": 0, "TOP_10": 10, "TOP_10_COUNT": 10, "TOP_100_COUNT": 100}
"""Command to the number of hits that it wants."""


class GameQuery(NamedTuple):
    """One query: a term, an intersection, a union or a phrase of some words."""

    kind: str
    words: tuple[str, ...]


class Played(NamedTuple):
    """What came of one query."""

    nanoseconds: int
    total: int
    """Number of hits; -1 if the command does not ask for it."""
    scores: Sequence[float]


class Engine(Protocol):
    """One opened index."""

    description: str

    def prepare(self, query: GameQuery, command: str) -> Callable[[], tuple[int, Sequence[float]]]:
        """Return what runs a query, all that can be made beforehand being made.

        Raises:
            NotImplementedError: the engine does not offer it.
        """


def play(engine: Engine, queries: Sequence[GameQuery], command: str) -> Iterator[Played | None]:
    """Run all queries once."""
    clock = time.thread_time_ns
    for query in queries:
        try:
            run = engine.prepare(query, command)
        except NotImplementedError:
            yield None
            continue
        started = clock()
        total, scores = run()
        yield Played(clock() - started, total, scores)


def read_queries(path: Path) -> list[GameQuery]:
    """Read a file of queries, one a line: the kind, a tab, the words."""
    rows = [line.split("\t") for line in path.read_text().splitlines()]
    return [GameQuery(kind, tuple(words.split())) for kind, words in rows]


def main(arguments: Sequence[str]) -> None:
    """Build an index, or play until the input ends."""
    engine_name, action, *paths = arguments
    module = import_module(f"benchmarks.peers.servers.game_{engine_name}")
    if action == "build":
        module.build(*map(Path, paths))
        return
    engine = module.Engine(Path(paths[0]))
    queries = read_queries(Path(paths[1]))
    gc.collect()
    gc.freeze()
    sys.stdout.write(f"ready {engine.description}\n")
    sys.stdout.flush()
    for line in sys.stdin:
        for one in getattr(module, "play", play)(engine, queries, line.strip()):
            row = "-"
            if one is not None:
                row = " ".join(map(str, (one.nanoseconds, one.total, *one.scores)))
            sys.stdout.write(row + "\n")
        sys.stdout.write("\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
