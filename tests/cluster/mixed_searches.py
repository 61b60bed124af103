"""Draws items and searches that combine everything: each feature with each of the others.

The naive models know what each answer must be, but only of the features that they have. Here a
search may ask for all of them together: what its answer must be is unknown, and it must be the same
wherever the items are, and however they came there (`test_mixed_searches`).
"""

from __future__ import annotations

import random
from typing import Any, Final

Document = dict[str, Any]

NUM_IDS: Final = 400
WORDS: Final = (
    *("apple", "apples", "appel", "banana", "bananas", "cherry", "date", "élan", "elan", "naïve"),
    *("straße", "strasse", "wi-fi", "wifi", "hp364", "hp 364", "router", "outer", "red", "reads"),
    *("Ärger", "zürich", "10", "2", "日本語", "日本", "x1y", "to", "the"),
)
BRANDS: Final[tuple[Any, ...]] = (
    "A",
    "B",
    "c",
    "Ä",
    "z10",
    "z9",
    ["A", "B"],
    [],
    None,
    1,
    1.0,
    "1",
    True,
    "",
)
NUMBERS: Final[tuple[Any, ...]] = (0, 1, 2, 5, 10, -3, 2.5, None, "7", 1e9, [1, 5], 2**53 + 1)
DATES: Final = (
    *("2024-02-29", "2023-12-31T23:30:00-05:00", "2024", "2024-03", "0001-01-01", "x"),
    *("9999-12-31T23:59:59Z", ["2024-01-01", "2024-06-30T12:00:00Z"]),
)
PATHS: Final = ("H > G", "H > G > P", "H", "T > C", "T", ["H > G", "T"], "H > GG")
_BOX: Final = {"top_right": {"lat": 50, "lng": 100}, "bottom_left": {"lat": -50, "lng": -100}}
FACETS: Final = ("brand", "tags", "v.c", "v.s", "v.p", "cat", "n")


class MixedSearches:
    """Draws configurations, items and requests.

    Args:
        seed: of everything.
    """

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)

    def _text(self, num_words_max: int) -> str:
        chance = self.chance
        return " ".join(chance.choice(WORDS) for _ in range(chance.randrange(num_words_max + 1)))

    def _is(self, probability: float) -> bool:
        return self.chance.random() < probability

    # --- what is stored

    def configuration(self) -> Document:
        """Return a configuration with all kinds of facets."""
        chance = self.chance
        chosen: Document = {
            "aggregations": {
                "brand": {"conjunction": self._is(0.3), "size": chance.choice((3, 10))},
                "tags": {"sort": chance.choice(("count", "term"))},
                "v.c": {"conjunction": False},
                "v.s": {},
                "v.p": {"conjunction": self._is(0.5)},
                "cat": {"conjunction": self._is(0.5)},
                "n": {"show_facet_stats": True},
            },
            "nested": ["v"],
            "hierarchies": {"cat": {"path": "cat", "separator": " > "}},
            "searchable_fields": ["title^3", "body", "tags"],
            "synonyms": [["cherry", "date"], ["wifi", "router"]],
        }
        if self._is(0.4):
            chosen["language"] = "en"
        if self._is(0.6):
            chosen["collation"] = chance.choice(("de+numeric", "root", "sv"))
        if self._is(0.3):
            chosen["infix"] = ["tags"]
        if self._is(0.2):
            chosen["stop_words"] = ["red", "the"]
        if self._is(0.3):
            chosen["boost"] = {"n": {"log": 0.2}}
        return chosen

    def item(self, number: int) -> Document:
        """Return an item; half of the ids are texts."""
        chance = self.chance
        item: Document = {
            "id": number if number % 2 else f"é/{number}",
            "title": self._text(3),
            "body": self._text(12),
        }
        if self._is(0.8):
            item["n"] = chance.choice(NUMBERS)
        if self._is(0.7):
            item["brand"] = chance.choice(BRANDS)
        if self._is(0.7):
            item["tags"] = [chance.choice(WORDS) for _ in range(chance.randrange(4))]
        if self._is(0.5):
            point = {"lat": chance.uniform(-80, 80), "lng": chance.uniform(-180, 180)}
            item["_geo"] = point if self._is(0.8) else [point, {"lat": 10, "lng": 20}]
        if self._is(0.6):
            item["v"] = [
                {"c": chance.choice("rgb"), "s": chance.choice("SML"), "p": chance.randrange(30)}
                for _ in range(chance.randrange(4))
            ]
        if self._is(0.7):
            item["cat"] = chance.choice(PATHS)
        if self._is(0.7):
            item["d"] = chance.choice(DATES)
        return item

    def id(self) -> int | str:
        """Return the id of an item that may be there."""
        number = self.chance.randrange(NUM_IDS)
        return number if number % 2 else f"é/{number}"

    # --- what is asked

    def search(self) -> Document:
        """Return a search of some parameters; a few of these are refused."""
        chance = self.chance
        found: Document = {
            "per_page": chance.choice((0, 3, 10, 50)),
            "page": chance.choice((1, 1, 2, 3)),
        }
        if self._is(0.65):
            words = [chance.choice(WORDS)[: chance.choice((2, 3, 9, 9))] for _ in range(3)]
            query = " ".join(words[: chance.randrange(1, 4)])
            found["query"] = chance.choice(("-", '"')) + query if self._is(0.1) else query
        elif self._is(0.3):
            found["similar_to"] = self.id()
        for probability, name, choices in self._choices():
            if self._is(probability):
                found[name] = chance.choice(choices)
        if self._is(0.25):
            pins = [
                {"id": self.id(), "position": chance.randrange(1, 12)},
                {"id": self.id(), "position": chance.randrange(1, 12)},
                self.id(),
            ]
            found["rules"] = [
                {"name": "pins", "pin": pins, "hide": [self.id()]},
                {
                    "name": "moves",
                    "boost": [{"filter": "n > 1", "factor": 3}],
                    "bury": ["brand = A"],
                },
            ]
        if self._is(0.15):
            found["cursor"] = "*"
            del found["page"]
        return found

    def divided_search(self) -> tuple[Document, str]:
        """Return a search whose counts add up over a condition and its opposite; the condition."""
        search = self.search()
        kept = {name: search[name] for name in _DIVIDED if name in search}
        if kept.get("match") == "auto":  # which looks at the number of hits
            del kept["match"]
        counts = {
            "per_page": 0,
            "facet_mode": "strict",
            "facet_fields": [*FACETS, "d"],
            "facets": {name: {"size": 10_000, "hide_zero": True} for name in (*FACETS, "d")},
            "facet_ranges": self.chance.choice(self._ranges()),
        }
        return kept | counts, self.chance.choice(self._expressions())

    def _choices(self) -> tuple[tuple[float, str, tuple[Any, ...]], ...]:
        buckets, number = self.chance.randint(1, 9), self.chance.randint(0, 9)
        return (
            (0.3, "match", ("all", "any", "last", "auto", "50%")),
            (0.2, "typo", (0, 1, 2)),
            (0.2, "prefix", ("none", "all")),
            (0.15, "infix", (True,)),
            (0.15, "typo_lengths", ([3, 5], [2, 3])),
            (0.15, "search_fields", (["body"], ["tags^2", "title"], ["body^2", "*"], ["*"])),
            (0.35, "sort", self._orders(buckets, number)),
            (0.25, "boost", self._boosts()),
            (0.3, "distinct", self._distinct()),
            (0.15, "min_score", (0.1, 0.5, 1, 2, 5)),
            (0.4, "filters", self._filters()),
            (0.2, "not_filters", ({"brand": ["B"]}, {"cat": ["H > G"]}, {"v.c": ["r"]})),
            (0.2, "filter", self._expressions()),
            (0.35, "facet_ranges", self._ranges()),
            (0.3, "trees", (["cat"], {"cat": {"size": 2, "open": ["H", "H > G"]}})),
            (0.3, "facets", self._facet_options()),
            (0.2, "facet_fields", (["d", "title", "brand"], ["v.c", "v.p"], [])),
            (0.2, "highlight", ({"fields": ["title", "tags"]}, True)),
            (0.2, "snippet", ({"fields": ["body:4"]},)),
            (0.3, "show", (["score", "score_details"], ["elements"], ["score", "elements"])),
            (0.2, "did_you_mean", (True,)),
            (0.2, "facet_cube", ({"field": "n", "edges": [0, 1, 5, 20]},
                                 {"field": "v.p", "interval": 10})),
            (0.15, "facet_mode", ("strict",)),
            (0.15, "fields", (["id", "v.c"], ["title"])),
            (0.1, "exclude_fields", (["v.p", "body"],)),
        )  # fmt: skip

    @staticmethod
    def _orders(buckets: int, number: int) -> tuple[Any, ...]:
        return (
            ["n:desc"],
            ["brand:asc", "n:asc:missing=first"],
            [f"_score:buckets={buckets}:desc", "n:asc"],
            [f"_random:{number}"],
            ["v.p:asc"],
            ["v.p:desc", "_score:desc"],
            ["_geo(10,20):asc"],
            ["title:collation=de:asc"],
            ["d:desc"],
            ["_score:asc"],
        )

    @staticmethod
    def _boosts() -> tuple[Any, ...]:
        return (
            {"n": {"log": 0.3}},
            {"n": {"linear": 1}},
            {"n": {"saturation": 5, "weight": 2}},
            {"n": {"reciprocal": 5, "origin": 3}},
            {"_geo": {"decay": 2_000_000, "origin": {"lat": 1, "lng": 2}}},
            {},
        )

    @staticmethod
    def _distinct() -> tuple[Any, ...]:
        return (
            {"field": "brand"},
            {"field": "brand", "limit": 2, "hits": 3, "sizes": True},
            {"field": "tags", "facets_by": "groups", "hits": 2},
            {"field": "brand", "facets_by": "groups"},
            {"field": "v.c"},
            {"field": "n", "limit": 3},
            {"field": "cat", "sizes": True},
        )

    @staticmethod
    def _filters() -> tuple[Any, ...]:
        return (
            {"brand": ["A", "Ä"]},
            {"v": {"same": {"c": ["r"], "s": ["M"]}}},
            {"v": {"same": {"c": ["r", "g"], "p": {"gte": 5, "lt": 20}}}, "v.s": ["L"]},
            {"n": {"gte": 1}},
            {"cat": ["H > G", "T"]},
            {"cat": ["H"], "brand": ["A", "c"]},
            {"tags": ["apple"]},
            {"tags": {"count": {"gte": 2}}},
            {"v.c": ["r", "g"], "cat": ["H > G"]},
            {"_geo": {"box": _BOX}},
            {"brand": {"none": ["A"], "exists": True}},
        )

    @staticmethod
    def _expressions() -> tuple[Any, ...]:
        return (
            "v{c = r AND p < 12} OR n = 2",
            "NOT n EXISTS",
            "title CONTAINS app",
            "brand STARTS WITH z",
            "_geoRadius(10,20,5000000)",
            "n IS NULL OR tags IS EMPTY",
            "_count(tags) >= 2 AND NOT v{s = S}",
        )

    @staticmethod
    def _ranges() -> tuple[Any, ...]:
        return (
            {"n": {"interval": 2}},
            {"n": [{"to": 2}, {"from": 2}]},
            {"d": {"calendar": "week"}},
            {"d": {"calendar": "month", "time_zone": "Asia/Tokyo"}},
            {"d": {"calendar": "year"}, "v.p": {"interval": 5}},
            {"_geo": {"grid": 3}},
            {"v.p": {"interval": 5}},
            {"n": {"interval": 2, "missing": True}},
        )

    @staticmethod
    def _facet_options() -> tuple[Any, ...]:
        return (
            {"brand": {"size": 1, "stats": ["n"]}, "tags": {"sort": "key", "size": 5, "offset": 2}},
            {"tags": {"sort": "term", "size": 3}, "n": {"percentiles": [5, 50, 95]}},
            {"n": {"cardinality": True, "missing": True}, "v.c": {"stats": ["v.p"]}},
            {"brand": {"size": 3, "missing": True, "cardinality": True}},
        )

    def other(self, index: str) -> tuple[str, Document]:
        """Return the path and body of a request that is not a search."""
        chance = self.chance
        kind = chance.randrange(4)
        word = chance.choice(WORDS)
        if kind == 0:
            size = chance.choice((1, 5, 20))
            return f"/{index}/suggest", {"query": word[: chance.randrange(6)], "size": size}
        if kind == 1:
            body = {
                "name": chance.choice(FACETS),
                "per_page": chance.choice((1, 3, 100)),
                "page": chance.choice((1, 2)),
                "search_query": chance.choice(("", word)),
            }
            if self._is(0.5):
                body |= chance.choice(
                    ({"facet_query": word[:3]}, {"query": word[:2] + "*"}, {"query": word + " *"})
                )
            if self._is(0.3):
                body["filters"] = chance.choice(self._filters())
            return f"/{index}/facet", body
        if kind == 2:
            search = self.search()
            kept = {name: search[name] for name in _EXPLAINED if name in search}
            return f"/{index}/explain", {"id": self.id(), **kept}
        searches = []
        for _ in range(3):
            search = self.search()
            searches.append({"index": index} | {n: search[n] for n in _MERGED if n in search})
        merge = {"page": chance.choice((1, 2)), "per_page": chance.choice((5, 20))}
        return "/_search", {"searches": searches, "merge": merge}


_EXPLAINED: Final[tuple[str, ...]] = (
    *("query", "filters", "filter", "match", "min_score", "rules", "similar_to", "not_filters"),
    *("boost", "typo", "prefix", "infix", "search_fields"),
)
_DIVIDED: Final[tuple[str, ...]] = (
    *("query", "match", "typo", "prefix", "infix", "typo_lengths", "search_fields"),
    *("filters", "not_filters", "boost", "min_score"),
)
_MERGED: Final[tuple[str, ...]] = (
    "query",
    "filters",
    "filter",
    "boost",
    "match",
    "facet_ranges",
    "rules",
)
