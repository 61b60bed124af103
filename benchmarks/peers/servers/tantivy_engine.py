"""tantivy: term queries over two text fields, facets by terms aggregations on fast fields."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.peers.servers.thin_server import Found, Search

orjson: Any = import_module("orjson")
tantivy: Any = import_module("tantivy")

FACETS = ("brand", "category", "country", "tags")
TEXTS = ("title", "description")
HEAP_BYTES = 1_000_000_000
SEGMENT_SIZE = 6_000
"""Values that a segment may return: more than any facet has, so that counts are exact."""


def _schema() -> Any:
    builder = tantivy.SchemaBuilder()
    builder.add_integer_field("id", stored=False, indexed=True, fast=True)
    for name in TEXTS:
        builder.add_text_field(
            name, stored=False, tokenizer_name="whitespace", index_option="position"
        )
    for name in FACETS:
        builder.add_text_field(
            name, stored=False, tokenizer_name="raw", index_option="basic", fast=True
        )
    builder.add_float_field("price", fast=True)
    builder.add_float_field("rating", fast=True)
    builder.add_integer_field("year", fast=True)
    builder.add_boolean_field("in_stock", indexed=True)
    builder.add_bytes_field("source", stored=True)
    return builder.build()


def build(items: str, folder: str) -> None:
    """Load, commit and wait for the merges."""
    index = tantivy.Index(_schema(), path=folder)
    writer = index.writer(heap_size=HEAP_BYTES, num_threads=2)
    with Path(items).open("rb") as file:
        for line in file:
            source = line.rstrip(b"\n")
            item = orjson.loads(source)
            document = tantivy.Document()
            document.add_integer("id", item["id"])
            for name in ("title", "description", "brand", "category", "country"):
                document.add_text(name, item[name])
            for tag in item["tags"]:
                document.add_text("tags", tag)
            document.add_float("price", item["price"])
            document.add_float("rating", item["rating"])
            document.add_integer("year", item["year"])
            document.add_boolean("in_stock", item["in_stock"])
            document.add_bytes("source", source)
            writer.add_document(document)
    writer.commit()
    writer.wait_merging_threads()


class Engine:
    """One opened index."""

    def __init__(self, folder: str) -> None:
        index = tantivy.Index.open(folder)
        self.searcher = index.searcher()
        self.schema = index.schema

    def _word(self, word: str, search: Search, *, is_last: bool) -> Any:
        query = tantivy.Query
        either = []
        for name in TEXTS:
            if search.num_typos:
                one = query.fuzzy_term_query(
                    self.schema, name, word, distance=search.num_typos, transposition_cost_one=True
                )
            elif search.is_prefix and is_last:
                one = query.regex_query(self.schema, name, word + ".*")
            else:
                one = query.term_query(self.schema, name, word)
            either.append((tantivy.Occur.Should, one))
        return query.boolean_query(either)

    def _query(self, search: Search) -> Any:
        query, must, should = tantivy.Query, tantivy.Occur.Must, tantivy.Occur.Should
        if search.is_phrase:
            either = [query.phrase_query(self.schema, n, list(search.words)) for n in TEXTS]
            parts = [(must, query.boolean_query([(should, one) for one in either]))]
        else:
            parts = [
                (must, self._word(word, search, is_last=i == len(search.words) - 1))
                for i, word in enumerate(search.words)
            ]
        for name, low, high in search.ranges:
            one = query.range_query(self.schema, name, tantivy.FieldType.Float, low, high)
            parts.append((must, query.const_score_query(one, 0.0)))
        for name, values in search.filters:
            terms = [query.term_query(self.schema, name, value) for value in values]
            one = terms[0]
            if len(terms) > 1:
                one = query.boolean_query([(should, term) for term in terms])
            parts.append((must, query.const_score_query(one, 0.0)))
        return query.boolean_query(parts) if parts else query.all_query()

    def search(self, search: Search) -> Found:
        """Search, then aggregate."""
        query = self._query(search)
        order = {"order_by_field": search.sort} if search.sort else {}
        total, items = 0, []
        if search.per_page:
            result = self.searcher.search(
                query, limit=search.per_page, offset=search.offset, count=True, **order
            )
            total = result.count
            items = [self.searcher.doc(address)["source"][0] for _, address in result.hits]
        facets = {}
        if search.facets:
            wanted = {
                name: {"terms": {"field": name, "size": 10, "segment_size": SEGMENT_SIZE}}
                for name in search.facets
            }
            counted = self.searcher.aggregate(query, wanted)
            facets = {
                name: [(b["key"], b["doc_count"]) for b in counted[name]["buckets"]]
                for name in search.facets
            }
        return Found(total, facets, items)

    def item(self, number: int) -> bytes | None:
        """Return one item."""
        query = tantivy.Query.term_query(self.schema, "id", number)
        hits = self.searcher.search(query, limit=1, count=False).hits
        source: bytes | None = self.searcher.doc(hits[0][1])["source"][0] if hits else None
        return source
