"""A naive model of what a shop does to its hits, and searches that combine all of it.

Rules (pins, hidden items, factors, filters), boosts, thresholds, filters, groups, orders and the
explanation of items follow from the scores of the words alone. These are not modelled but asked
for: a plain search of the same words says which items match, with what scores.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tests.oracle.boosts import factor_of
from tests.oracle.curation import with_pinned
from tests.oracle.distinct import distinct_of
from tests.oracle.filters import passes
from tests.oracle.items import Item, Json, exists, is_number, keys_of, values_of
from tests.oracle.orders import SortKey, sorted_by

Scores = Mapping[str, float]
"""By id, in the order of insertion."""

WORDS: Final = ("lamp", "desk", "table", "chair", "oak", "red", "blue", "light", "stand", "shelf")
BRANDS: Final[tuple[Any, ...]] = ("A", "B", "c", ["A", "B"], [], None, 1, "1", True, "")
NUMBERS: Final = (0, 1, 2, 5, 10, -3, 2.5, None, "7", 1e300, [1, 5], 2**53 + 1, -1e9, True)
FACETS: Final = {"brand": False, "tags": True, "parts.color": False}
"""Whether each is conjunctive."""
CONFIGURATION: Final[Json] = {
    "aggregations": {
        name: {"conjunction": is_conjunctive, "size": 100, "hide_zero_doc_count": True}
        for name, is_conjunctive in FACETS.items()
    },
    "nested": ["parts"],
    "searchable_fields": ["title^3", "body"],
}
FILTERS: Final[tuple[Json, ...]] = (
    {"brand": ["A"]},
    {"brand": ["A", "c"]},
    {"tags": ["x", "y"]},
    {"price": {"gte": 1}},
    {"brand": ["1"], "tags": ["z"]},
    {"brand": {"none": ["A"]}},
    {"parts.color": ["r", "g"]},
    {"stock.num": {"lt": 3, "gt": -5}},
)
NOT_FILTERS: Final[tuple[Json, ...]] = ({"brand": ["B"]}, {"tags": ["u"]}, {"parts.color": ["b"]})
BOOSTS: Final[tuple[Json, ...]] = (
    {"price": {"log": 0.3}},
    {"price": {"linear": 1}},
    {"stock.num": {"saturation": 5, "weight": 2}},
    {"price": {"decay": 3, "origin": 2}},
    {"price": {"log": 1}, "stock.num": {"linear": 2}},
    {},
)
ORDERS: Final = (
    ["price:desc"],
    ["title:asc", "price:desc"],
    ["_score:desc"],
    ["_score:asc"],
    ["_score:buckets=3:desc", "price:asc"],
    ["_score:buckets=5:asc", "stock.num:desc"],
)


def _numbers(item: Item, name: str) -> list[Any]:
    return [value for value in values_of(item, name) if is_number(value)]


EXPRESSIONS: Final[Mapping[str, Callable[[Item], bool]]] = {
    "price > 1": lambda item: any(one > 1 for one in _numbers(item, "price")),
    "NOT price EXISTS": lambda item: not exists(item, "price"),
    "tags = x OR tags = y": lambda item: not {"x", "y"}.isdisjoint(keys_of(item, "tags")),
    "stock.num <= 2": lambda item: any(one <= 2 for one in _numbers(item, "stock.num")),
    "parts{color = r AND size < 5}": lambda item: any(
        one["color"] == "r" and one["size"] < 5 for one in item.get("parts", ())
    ),
}


class ShopSearches:
    """Draws items and searches.

    Args:
        seed: of everything.
    """

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)

    def words(self, least: int, most: int) -> str:
        count = self.chance.randint(least, most)
        return " ".join(self.chance.choice(WORDS) for _ in range(count))

    def item(self, number: int) -> Item:
        """Return an item; every third id is a text."""
        chance = self.chance
        item: Item = {"id": number if number % 3 else f"é{number}"}
        item |= {"title": self.words(1, 3), "body": self.words(0, 6)}
        for name, probability, draw in (
            ("brand", 0.8, lambda: chance.choice(BRANDS)),
            ("price", 0.8, lambda: chance.choice(NUMBERS)),
            ("stock", 0.6, lambda: {"num": chance.choice(NUMBERS)}),
            ("tags", 0.7, lambda: chance.choices("xyzuvw", k=chance.randint(0, 3))),
            ("parts", 0.6, self._parts),
        ):
            if chance.random() < probability:
                item[name] = draw()
        return item

    def _parts(self) -> list[Json]:
        chance = self.chance
        return [
            {"color": chance.choice("rgb"), "size": chance.randrange(9)}
            for _ in range(chance.randint(0, 3))
        ]

    def search(self, ids: list[str]) -> Json:
        """Return a search of some of the items with these ids."""
        chance = self.chance
        found: Json = {"query": self.words(1, 3) if chance.random() < 0.7 else ""}
        found |= {"typo": 0, "prefix": "none", "boost": chance.choice(BOOSTS)}
        found["rules"] = [self._rule(ids, number) for number in range(chance.choice((0, 0, 1, 3)))]
        for name, probability, choices in (
            ("match", 0.35, ("all", "any", "auto", "last", "50%")),
            ("filters", 0.4, FILTERS),
            ("not_filters", 0.2, NOT_FILTERS),
            ("filter", 0.2, tuple(EXPRESSIONS)),
            ("min_score", 0.25, (0.5, 1, 1.0001, 1.5, 3, 8)),
            ("sort", 0.35, ORDERS),
        ):
            if chance.random() < probability:
                found[name] = chance.choice(choices)
        if chance.random() < 0.3:
            field = chance.choice(("brand", "price", "tags", "stock.num"))
            found["distinct"] = {"field": field, "limit": chance.choice((1, 1, 2))}
        if "sort" not in found and chance.random() < 0.15:
            found["order"] = "desc"
        return found

    def _rule(self, ids: list[str], number: int) -> Json:
        chance = self.chance
        rule: Json = {"name": f"rule {number}", "bury": [chance.choice(tuple(EXPRESSIONS))]}
        if chance.random() < 0.5:
            when = ({"query": {"contains": chance.choice(WORDS)}}, {"filters": {"brand": ["A"]}})
            rule["when"] = chance.choice(when)
        if chance.random() < 0.6:
            rule["pin"] = [
                {"id": id, "position": chance.choice((1, 1, 2, 3, 5, 9, 40))}
                for id in chance.sample(ids, chance.randint(1, 4))
            ]
        if chance.random() < 0.4:
            rule["hide"] = chance.sample(ids, chance.randint(1, 3))
        if chance.random() < 0.3:
            factor = chance.choice((2, 3, 10))
            rule["boost"] = [{"filter": chance.choice(tuple(EXPRESSIONS)), "factor": factor}]
        if chance.random() < 0.2:
            rule["filter"] = chance.choice(tuple(EXPRESSIONS))
        return rule


@dataclass(frozen=True)
class ShopAnswer:
    """What a search must answer."""

    listed: list[str]
    """Ids in order, over all pages."""
    facets: dict[str, dict[str, int]]
    rules: list[str]
    match: str
    scores: Scores
    """Of all items that the words match, those below the threshold too."""
    passing: frozenset[str]
    """Items that are hits, whatever `distinct` shows."""


class ShopModel:
    """One index, and one search of it.

    Args:
        items: in the order of insertion, by id.
        search: parameters.
        scores_of: takes a match mode; scores of the items that match the words.
    """

    def __init__(
        self, items: Mapping[str, Item], search: Json, scores_of: Callable[[str], Scores]
    ) -> None:
        self.items = items
        self.search = search
        self.words = search["query"].split()
        self.rules = [rule for rule in search["rules"] if self._applies(rule)]
        self.pins: dict[object, int] = {}
        for rule in self.rules:
            for pin in rule.get("pin", ()):
                self.pins.setdefault(pin["id"], pin["position"])
        self.factors = [
            pair
            for rule in self.rules
            for pair in (
                *[(one["filter"], float(one["factor"])) for one in rule.get("boost", ())],
                *[(one, 0.001) for one in rule["bury"]],
            )
        ]
        self.sort: list[str] = search.get("sort", [])
        self.match = search.get("match", "all")
        modes = ("all", "last", "any") if len(self.words) > 1 else ("all",)
        for mode in modes if self.match == "auto" else (self.match,):
            self.match = mode
            self.scores = self._boosted(scores_of(mode) if self.words else dict.fromkeys(items, 1))
            if any(self.is_hit(id) and id not in self.pins for id in items):
                break

    def _applies(self, rule: Json) -> bool:
        when = rule.get("when", {})
        if "query" in when and when["query"]["contains"] not in self.words:
            return False
        chosen = self.search.get("filters", {})
        return all(
            isinstance(chosen.get(name), list) and set(keys) <= set(chosen[name])
            for name, keys in when.get("filters", {}).items()
        )

    @property
    def has_scores(self) -> bool:
        """Whether anything gives items a score."""
        return bool(self.words or self.search["boost"] or self.factors)

    @property
    def orders_by_score(self) -> bool:
        """Whether scores order hits, or those that are equal otherwise."""
        if self.words or not self.has_scores:
            return bool(self.words)
        if self.sort:
            return any(key.startswith("_score") for key in self.sort)
        return self.search.get("order") != "desc"

    def _boosted(self, scores: Scores) -> Scores:
        return {id: self._score(self.items[id], score) for id, score in scores.items()}

    def _score(self, item: Item, score: float) -> float:
        factors = [
            *[factor_of(item, {name: one}) for name, one in self.search["boost"].items()],
            *[factor for text, factor in self.factors if EXPRESSIONS[text](item)],
        ]
        for factor in factors:
            score = max(1, min(round(score * 2**32 * factor), 2**900)) / 2**32
        return score

    def reasons(self, id: str, without: str | None = None) -> set[str]:
        """Return what keeps an item out, except the filter of one facet."""
        item, search, found = self.items[id], self.search, set[str]()
        for name, wanted in search.get("filters", {}).items():
            is_any = not FACETS.get(name, False)
            if name != without and not passes(item, name, wanted, any_will_do=is_any):
                found.add(f"filters.{name}")
        for name, unwanted in search.get("not_filters", {}).items():
            if passes(item, name, unwanted, any_will_do=True):
                found.add(f"not_filters.{name}")
        if "filter" in search and not EXPRESSIONS[search["filter"]](item):
            found.add("filter")
        for rule in self.rules:
            narrowing = rule.get("filter")
            is_out = narrowing is not None and not EXPRESSIONS[narrowing](item)
            if is_out or id in rule.get("hide", ()):
                found.add(rule["name"])
        if id not in self.pins:
            if id not in self.scores:
                found.add("word")
            elif not found and self.has_scores and self.scores[id] < search.get("min_score", 0):
                found.add("min_score")
        return found

    def is_hit(self, id: str, without: str | None = None) -> bool:
        return not self.reasons(id, without)

    def answer(self) -> ShopAnswer:
        """Return what the search must answer."""
        hits = [item for id, item in self.items.items() if self.is_hit(id)]
        listed = self._ordered(hits)
        if not self.sort:
            # Pinned items stand apart from the groups.
            pinned = [item for item in listed if str(item["id"]) in self.pins]
            listed = [item for item in listed if str(item["id"]) not in self.pins]
            listed = with_pinned([*pinned, *self._grouped(listed)], self.pins)
        else:
            listed = self._grouped(listed)
        return ShopAnswer(
            [str(item["id"]) for item in listed],
            {name: self._counts(name) for name in FACETS},
            [rule["name"] for rule in self.rules],
            self.match,
            self.scores,
            frozenset(str(item["id"]) for item in hits),
        )

    def _ordered(self, hits: list[Item]) -> list[Item]:
        def score(item: Item) -> float:
            return self.scores.get(str(item["id"]), 0.0)

        if self.orders_by_score:
            hits = sorted(hits, key=lambda item: -score(item))
        elif self.search.get("order") == "desc":
            hits = hits[::-1]
        best = max((score(item) for item in hits), default=0.0)
        for key in reversed(self.sort):
            name, *options, direction = key.split(":")
            if name != "_score":
                hits = sorted_by(hits, SortKey(name, direction == "desc"))
            elif self.orders_by_score:
                height = 2.0**-32
                if options:
                    num_buckets = int(options[0].removeprefix("buckets="))
                    height = (best * 2**32 // num_buckets + 1) / 2**32
                hits = sorted(hits, key=lambda item: score(item) // height,
                              reverse=direction == "desc")  # fmt: skip
        return hits

    def _grouped(self, hits: list[Item]) -> list[Item]:
        distinct = self.search.get("distinct")
        return distinct_of(hits, **distinct) if distinct else hits

    def _counts(self, name: str) -> dict[str, int]:
        without = None if FACETS[name] else name
        counts: dict[str, int] = {}
        for id, item in self.items.items():
            if self.is_hit(id, without):
                for key in keys_of(item, name):
                    counts[key] = counts.get(key, 0) + 1
        return counts
