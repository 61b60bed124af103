"""Items whose keys are data: what 60,000 field names cost, and that a rebuild is rid of them.

    python -m benchmarks.field_names
    python -m benchmarks.field_names --names 2000 --items 100000

Two indexes of one service have the same items and search all their text fields. One of them then
gets items that have hundreds of names each, which no other item has; these are deleted; at last its
configuration is posted again, unchanged, which rebuilds it without the dead names. After each step,
every kind of request is sent to both indexes in turns:

search            of known words, with four facets
named fields      the same in two fields, as `search_fields` names them
new words         of words that were not searched since the last write
after a write     the first search that follows a write
write             a single item

A cell is the median at this index over that at the other one, so other work on the machine hardly
moves it. The service runs with a higher limit of names than it has by default.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks import corpus, processes, results
from benchmarks.corpus import FACETS, Shape
from benchmarks.http_client import JSON
from benchmarks.peers.facetd import Facetd
from benchmarks.queries import make_queries
from benchmarks.writes import other_items

PLAIN: Final = "plain"
NAMED: Final = "named"
NAMES_AN_ITEM: Final = 500
"""An item may have 512 keys."""
CONFIGURATION: Final[Mapping[str, Any]] = {"aggregations": {name: {"size": 10} for name in FACETS}}
KINDS: Final = ("search", "named fields", "new words", "after a write", "write")
MEMORY: Final = "memory of all processes, MB"


def named_items(num_names: int) -> Iterator[dict[str, Any]]:
    """Yield items that have so many names in all, each a text."""
    for item, start in enumerate(range(0, num_names, NAMES_AN_ITEM)):
        names = range(start, min(start + NAMES_AN_ITEM, num_names))
        yield {"id": f"named-{item}", **{f"name{number}": f"said {number}" for number in names}}


class FieldNames:
    """A service with the two indexes."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._num_items: int = options.items
        self._num_names: int = options.names
        self._requests: int = options.requests
        self.service = Facetd(options.items, num_shards=options.shards)
        self.service.folder = self.service.home / "data" / "field-names"
        # Those of all other items, and some to spare.
        self.service.launcher = ("env", f"FACETD_LIMIT_INDEX_FIELDS_MAX={self._num_names + 100}")
        queries = make_queries(Shape(), options.items, options.requests)["Q2"]
        self._texts = [query.text for query in queries]
        words = corpus.words(Shape())
        self._new_words = itertools.cycle(map(" ".join, zip(words[::2], words[1::2], strict=True)))
        self._items = other_items(1_000_000)
        self.stages: dict[str, dict[str, Any]] = {}

    def run(self) -> None:
        """Load, then go through the stages."""
        self.service.empty_folder()
        self.service.start_service()
        file = corpus.write(corpus.path(Shape(), self._num_items), Shape(), self._num_items)
        for index in (PLAIN, NAMED):
            self.service.configure(CONFIGURATION, index)
            self.service.load_file(file, index)
        self._measure("without them")
        named = list(named_items(self._num_names))
        self._ask("POST", f"/{NAMED}/items", named)
        self._measure(f"with {self._num_names:,} names")
        for item in named:
            self._ask("DELETE", f"/{NAMED}/items/{item['id']}")
        self._measure("their items deleted")
        self.service.configure(CONFIGURATION, NAMED)
        self._measure("configuration posted again")

    def _measure(self, stage: str) -> None:
        """Send the requests to both indexes; keep the medians in milliseconds."""
        processes.wait_for_rest(self.service.pids())
        took: dict[str, dict[str, list[float]]] = {kind: {PLAIN: [], NAMED: []} for kind in KINDS}
        for _ in range(self._requests):
            self._one_turn(took)
        medians = {
            kind: {index: statistics.median(ms) for index, ms in both.items()}
            for kind, both in took.items()
        }
        memory = processes.memory(self.service.pids()).total / 1e6
        self.stages[stage] = {**medians, MEMORY: memory}
        print(f"{stage}: {json.dumps(self.stages[stage])}", file=sys.stderr, flush=True)

    def _one_turn(self, took: Mapping[str, Mapping[str, list[float]]]) -> None:
        """Send one request of each kind to both indexes."""
        text = self._texts[len(took["search"][PLAIN]) % len(self._texts)]
        known, new = {"query": text}, {"query": next(self._new_words)}
        two = {**known, "search_fields": ["title", "description"]}
        item = [json.loads(next(self._items))]
        for index in (PLAIN, NAMED):
            search = f"/{index}/search"
            ms = {
                "write": self._ask("POST", f"/{index}/items", item),
                "after a write": self._ask("POST", search, _body(known)),
                "search": self._ask("POST", search, _body(known)),
                "new words": self._ask("POST", search, _body(new)),
            }
            self._ask("POST", search, _body(two))
            ms["named fields"] = self._ask("POST", search, _body(two))
            for kind, one in ms.items():
                took[kind][index].append(one)

    def _ask(self, method: str, target: str, body: Any = None) -> float:
        """Send a request that must succeed; returns the milliseconds."""
        encoded = None if body is None else json.dumps(body).encode()
        started = time.perf_counter()
        self.service.client.ask(method, target, encoded, {} if body is None else JSON)
        return (time.perf_counter() - started) * 1_000

    def table(self) -> str:
        """Return the table: a row for each kind, a column for each stage."""
        return results.table(["", f"{PLAIN}, ms", *self.stages], list(self._rows()))

    def _rows(self) -> Iterable[list[results.Cell]]:
        first = next(iter(self.stages.values()))
        for kind in KINDS:
            ratios = [stage[kind][NAMED] / stage[kind][PLAIN] for stage in self.stages.values()]
            yield [kind, first[kind][PLAIN], *ratios]
        yield [MEMORY, "", *[stage[MEMORY] for stage in self.stages.values()]]


def _body(search: Mapping[str, Any]) -> dict[str, Any]:
    return {**search, "typo": 0, "prefix": "none", "facet_fields": list(FACETS)}


def main(arguments: Sequence[str] | None = None) -> Path:
    """Measure, print, save."""
    parser = argparse.ArgumentParser("benchmarks.field_names")
    parser.add_argument("--items", type=int, default=10_000)
    parser.add_argument("--names", type=int, default=59_900, help="at most 59,900")
    parser.add_argument("--shards", type=int, default=2)
    parser.add_argument("--requests", type=int, default=100, help="of each kind, after each step")
    options = parser.parse_args(arguments)
    machine = processes.machine()
    measured = FieldNames(options)
    try:
        measured.run()
    finally:
        measured.service.close()
        measured.service.empty_folder()
    sys.stdout.write(f"{results.describe(machine)}\n\n{measured.table()}\n")
    return results.save(
        "field-names", {"machine": machine, "options": vars(options), "stages": measured.stages}
    )


if __name__ == "__main__":
    main()
