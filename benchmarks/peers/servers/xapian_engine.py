"""Xapian: terms with positions, facets by match spies over value slots (tags in six of them)."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.peers.servers.thin_server import Found, Search

orjson: Any = import_module("orjson")
xapian: Any = import_module("xapian")

SINGLE = ("brand", "category", "country")
TAG_SLOTS = range(3, 9)
PRICE_SLOT = 9
COMMIT_ITEMS = 200_000


def build(items: str, folder: str) -> None:
    """Load and commit."""
    database = xapian.WritableDatabase(folder + "/db", xapian.DB_CREATE_OR_OVERWRITE)
    with Path(items).open("rb") as file:
        for count, line in enumerate(file, 1):
            source = line.rstrip(b"\n")
            item = orjson.loads(source)
            document = xapian.Document()
            document.set_data(source)
            for position, word in enumerate(f"{item['title']} {item['description']}".split(), 1):
                document.add_posting(word, position)
            for slot, name in enumerate(SINGLE):
                document.add_boolean_term(f"X{name.upper()}:{item[name]}")
                document.add_value(slot, item[name])
            for slot, tag in zip(TAG_SLOTS, item["tags"], strict=False):
                document.add_boolean_term(f"XTAGS:{tag}")
                document.add_value(slot, tag)
            document.add_value(PRICE_SLOT, xapian.sortable_serialise(item["price"]))
            database.replace_document(item["id"], document)
            if count % COMMIT_ITEMS == 0:
                database.commit()
    database.commit()
    database.close()


class Engine:
    """One opened database."""

    def __init__(self, folder: str) -> None:
        self.database = xapian.Database(folder + "/db")

    def _query(self, search: Search) -> Any:
        query = xapian.Query
        words = [query(word) for word in search.words]
        if words and search.is_prefix:
            words[-1] = query(query.OP_WILDCARD, search.words[-1])
        whole = query(query.OP_AND, words) if words else query.MatchAll
        for name, values in search.filters:
            terms = [f"X{name.upper()}:{value}" for value in values]
            whole = query(query.OP_FILTER, whole, query(query.OP_OR, terms))
        return whole

    def search(self, search: Search) -> Found:
        """Search with a spy for each facet."""
        enquire = xapian.Enquire(self.database)
        enquire.set_query(self._query(search))
        if search.sort:
            enquire.set_weighting_scheme(xapian.BoolWeight())
            enquire.set_sort_by_value(PRICE_SLOT, True)
        spies: dict[str, list[Any]] = {}
        for name in search.facets:
            slots = TAG_SLOTS if name == "tags" else [SINGLE.index(name)]
            spies[name] = [xapian.ValueCountMatchSpy(slot) for slot in slots]
            for spy in spies[name]:
                enquire.add_matchspy(spy)
        everything = self.database.get_doccount()
        matches = enquire.get_mset(search.offset, search.per_page, everything)
        facets = {name: _top(some) for name, some in spies.items()}
        items = [match.document.get_data() for match in matches]
        return Found(matches.get_matches_estimated(), facets, items)

    def item(self, number: int) -> bytes:
        """Return one item."""
        source: bytes = self.database.get_document(number).get_data()
        return source


def _top(spies: list[Any]) -> list[tuple[str, int]]:
    """Add the counts of the slots of one facet."""
    if len(spies) == 1:
        return [(t.term.decode(), t.termfreq) for t in spies[0].top_values(10)]
    counts: dict[bytes, int] = {}
    for spy in spies:
        for term in spy.values():
            counts[term.term] = counts.get(term.term, 0) + term.termfreq
    best = sorted(counts.items(), key=lambda entry: -entry[1])[:10]
    return [(key.decode(), count) for key, count in best]
