"""tantivy in the query game, through its Python binding.

The binding converts the hits to Python objects, and cannot count alone: COUNT keeps one hit.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.peers.servers.game_player import COMMANDS, GameQuery

tantivy: Any = import_module("tantivy")

HEAP_BYTES = 4_000_000_000
"""Enough for all items in one segment: the binding cannot merge."""


def build(items: Path, folder: Path) -> None:
    """Index with one thread, in one segment."""
    schema = tantivy.SchemaBuilder()
    schema.add_text_field(
        "text", stored=False, tokenizer_name="whitespace", index_option="position"
    )
    index = tantivy.Index(schema.build(), path=str(folder))
    writer = index.writer(heap_size=HEAP_BYTES, num_threads=1)
    with items.open("rb") as file:
        for line in file:
            document = tantivy.Document()
            document.add_text("text", json.loads(line)["text"])
            writer.add_document(document)
    writer.commit()
    writer.wait_merging_threads()


class Engine:
    """One opened index."""

    def __init__(self, folder: Path) -> None:
        index = tantivy.Index.open(str(folder))
        self.searcher = index.searcher()
        self.schema = index.schema
        self.description = f"segments: {self.searcher.num_segments}"

    def prepare(self, query: GameQuery, command: str) -> Callable[[], tuple[int, Sequence[float]]]:
        """Return what runs a query."""
        asked = self._query(query)
        num_hits = COMMANDS[command]
        counts = command != "TOP_10"

        def run() -> tuple[int, Sequence[float]]:
            found = self.searcher.search(asked, max(num_hits, 1), counts)
            if num_hits == 0:
                return found.count, ()
            return found.count if counts else -1, [score for score, _ in found.hits]

        return run

    def _query(self, asked: GameQuery) -> Any:
        query = tantivy.Query
        if asked.kind == "phrase":
            return query.phrase_query(self.schema, "text", list(asked.words))
        terms = [query.term_query(self.schema, "text", word) for word in asked.words]
        if len(terms) == 1:
            return terms[0]
        occur = tantivy.Occur.Must if asked.kind == "intersection" else tantivy.Occur.Should
        return query.boolean_query([(occur, term) for term in terms])
