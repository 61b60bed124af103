"""PISA in the query game, through `pyterrier-pisa`.

The binding ranks only: it neither counts nor knows phrases. Its call for many queries is used,
because a call for one costs more than most queries; a query's time is that between the binding
asking for it and asking for the next, and includes looking up the words and naming the hits.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.peers.servers.game_player import COMMANDS, GameQuery, Played

K1, B = 1.2, 0.75
ALGORITHMS = {
    "term": "block_max_wand",
    "union": "block_max_wand",
    "intersection": "block_max_ranked_and",
}
PLAIN = {"stemmer": "none", "stops": "none", "threads": 1}


def build(items: Path, folder: Path) -> None:
    """Index with one thread."""
    pisa: Any = import_module("pyterrier_pisa")

    def documents() -> Iterator[dict[str, str]]:
        with items.open("rb") as file:
            for line in file:
                item = json.loads(line)
                yield {"docno": str(item["id"]), "text": item["text"]}

    pisa.PisaIndex(str(folder / "index"), "text", **PLAIN).index(documents())


class Engine:
    """One opened index."""

    description = "one inverted index, block_simdbp"

    def __init__(self, folder: Path) -> None:
        pisa: Any = import_module("pyterrier_pisa")
        index = pisa.PisaIndex(str(folder / "index"), "text", **PLAIN)
        self.context = index.bm25(K1, B)._ctxt


class _Timed:
    """Queries of one kind, with the time when each was asked for."""

    def __init__(self, queries: Sequence[GameQuery]) -> None:
        self.queries = queries
        self.times: list[int] = []

    def __len__(self) -> int:
        return len(self.queries)

    def __iter__(self) -> Iterator[tuple[int, str]]:
        for i, query in enumerate(self.queries):
            pair = i, " ".join(query.words)
            self.times.append(time.thread_time_ns())
            yield pair
        self.times.append(time.thread_time_ns())


def play(engine: Engine, queries: Sequence[GameQuery], command: str) -> Iterator[Played | None]:
    """Run all queries once, those of a kind together."""
    binding: Any = import_module("pyterrier_pisa")._pisathon
    num_hits = COMMANDS[command]
    played: dict[GameQuery, Played] = {}
    for kind, algorithm in ALGORITHMS.items() if command == "TOP_10" else ():
        timed = _Timed([one for one in queries if one.kind == kind])
        size = len(timed) * num_hits
        numbers, ranks = np.zeros(size, np.int32), np.zeros(size, np.int32)
        names, scores = np.empty(size, object), np.zeros(size, np.float32)
        found = binding.retrieve(
            engine.context,
            algorithm,
            timed,
            k=num_hits,
            threads=1,
            result_qidxs=numbers,
            result_docnos=names,
            result_ranks=ranks,
            result_scores=scores,
        )
        for i, query in enumerate(timed.queries):
            of_query = scores[:found][numbers[:found] == i].tolist()
            played[query] = Played(timed.times[i + 1] - timed.times[i], -1, of_query)
    for query in queries:
        yield played.get(query)
