"""The queries Q1-Q16, seeded and of many shapes.

Q1  full text, top 10              words log-uniform in rank, one or two, all required
Q2  Q1 + the 10 greatest values of each of 4 facets
Q3  tags = a AND country in (b, c) + 4 facets, counted within the hits
Q4  everything + 4 facets
Q5  category = a, sorted by price, dearest first
Q6  one item by id
Q7  page 1,000 of a one-word search
Q8  as Q1, the last word half typed (a prefix)
Q9  as Q1, a word misspelled by one edit
Q10 3 facets with 3 values selected each (any of them) + 4 facets, where each of the three
    leaves its own selection out of its own counts
Q11 a phrase of two to five words that some item has
Q12 one word, the dearest item of each category, dearest first
Q13 one rare word
Q14 three common words, all required
Q15 a range of prices + 4 facets, counted within the hits
Q16 one word, tags = a AND country in (b, c, d), dearest first

Every engine runs Q1-Q10; the others run where the adapter supports them (`Peer.classes`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from benchmarks.corpus import FACETS, Items, Shape, block, words

CLASSES: Mapping[str, str] = {
    "Q1": "text, top 10",
    "Q2": "text + 4 facets",
    "Q3": "filter + 4 facets",
    "Q4": "all + 4 facets",
    "Q5": "filter, by price",
    "Q6": "item by id",
    "Q7": "page 1,000",
    "Q8": "prefix",
    "Q9": "one typo",
    "Q10": "disjunctive facets",
    "Q11": "phrase",
    "Q12": "best of each category",
    "Q13": "rare word",
    "Q14": "three common words",
    "Q15": "price range + 4 facets",
    "Q16": "word + 2 filters, by price",
}
BASIC_CLASSES = tuple(CLASSES)[:10]

ALPHABET = "abcdefghijklmnopqrstuvwxyz"
DEEP_PAGE = 1_000
TYPO_LETTERS_MIN = 5
PHRASE_WORDS = (2, 3, 4, 5)
PHRASE_SHARES = (0.4, 0.3, 0.15, 0.15)
RANGE_SHARES = (0.005, 0.25)
"""Least and greatest share of the items whose price is in a range."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """One query, in no engine's language."""

    text: str = ""
    filters: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Field to values, any of which an item must have."""
    facets: tuple[str, ...] = ()
    sort: str | None = None
    """Number field, greatest first."""
    page: int = 1
    per_page: int = 10
    item_id: int | None = None
    is_prefix: bool = False
    """Whether the last word is only the beginning of one."""
    num_typos: int = 0
    """Edits that each word may be away from the words it finds."""
    is_disjunctive: bool = False
    """Whether a facet's own counts leave out its own filter."""
    is_phrase: bool = False
    """Whether the words must stand next to each other, in this order, in one field."""
    distinct: str = ""
    """Facet of which each value gives its best item only; `total` counts the values."""
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """Number field to the least and the greatest value."""


def make_queries(
    shape: Shape, num_items: int, count: int = 400, seed: int = 7
) -> dict[str, list[Query]]:
    """Draw `count` queries of each class (Q4 is one query, Q7 are ten)."""
    rng = np.random.default_rng([shape.seed, 3, seed])
    vocabulary = words(shape)
    known = frozenset(vocabulary)

    def rank(low: int, high: int) -> int:
        return _rank(rng, low, high, len(vocabulary))

    def text(low: int = 10, high: int = 5_000) -> list[str]:
        if rng.random() < 0.5:
            return [vocabulary[rank(low, high)]]
        first = second = rank(low, 1_000)
        while first == second:
            second = rank(low, 1_000)
        return [vocabulary[first], vocabulary[second]]

    def some(facet: str, top: int, number: int) -> tuple[str, ...]:
        values = shape.values(facet)
        picked = rng.choice(min(top, len(values)), number, replace=False)
        return tuple(values[i] for i in picked.tolist())

    asked: dict[str, list[Query]] = {name: [] for name in CLASSES}
    tags, categories = shape.values("tags"), shape.values("category")
    for _ in range(count):
        asked["Q1"].append(Query(text=" ".join(text())))
        asked["Q2"].append(Query(text=" ".join(text()), facets=FACETS))
        filters = {
            "tags": (tags[min(rank(1, 200), len(tags) - 1)],),
            "country": some("country", 30, 2),
        }
        asked["Q3"].append(Query(filters=filters, facets=FACETS))
        category = categories[int(rng.integers(len(categories)))]
        asked["Q5"].append(Query(filters={"category": (category,)}, sort="price"))
        asked["Q6"].append(Query(item_id=int(rng.integers(1, num_items + 1))))
        typed = text()
        typed[-1] = typed[-1][: int(rng.integers(2, len(typed[-1]) - 1))]
        asked["Q8"].append(Query(text=" ".join(typed), is_prefix=True))
        misspelled = text(high=20_000)
        misspelled[-1] = misspell(misspelled[-1], rng, known)
        asked["Q9"].append(Query(text=" ".join(misspelled), num_typos=1))
        selected = {
            "brand": some("brand", 30, 3),
            "category": some("category", 30, 3),
            "country": some("country", 30, 3),
        }
        asked["Q10"].append(Query(filters=selected, facets=FACETS, is_disjunctive=True))
    asked["Q4"].append(Query(facets=FACETS))
    page = min(DEEP_PAGE, max(1, num_items // 100))
    asked["Q7"].extend(Query(text=vocabulary[i], page=page) for i in range(10))
    return asked | _make_further(shape, num_items, count, seed)


def _make_further(shape: Shape, num_items: int, count: int, seed: int) -> dict[str, list[Query]]:
    """Draw the classes that came later, from numbers of their own: Q1-Q10 stay what they are."""
    rng = np.random.default_rng([shape.seed, 4, seed])
    vocabulary = words(shape)
    num_words = len(vocabulary)
    tags, countries = shape.values("tags"), shape.values("country")
    items = block(shape, 0).first(num_items)
    prices = np.sort(items.price)

    def two_filters() -> dict[str, tuple[str, ...]]:
        picked = rng.choice(min(30, len(countries)), 3, replace=False)
        tag = tags[min(_rank(rng, 1, 50, len(tags)), len(tags) - 1)]
        return {"tags": (tag,), "country": tuple(countries[i] for i in picked.tolist())}

    def price_range() -> tuple[float, float]:
        least, greatest = RANGE_SHARES
        share = math.exp(rng.uniform(math.log(least), math.log(greatest)))
        width = max(1, int(share * len(prices)))
        low = int(rng.integers(max(1, len(prices) - width)))
        return float(prices[low]), float(prices[min(low + width, len(prices)) - 1])

    def common() -> str:
        ranks: set[int] = set()
        while len(ranks) < 3:
            ranks.add(_rank(rng, 5, 300, num_words))
        return " ".join(vocabulary[i] for i in sorted(ranks))

    asked: dict[str, list[Query]] = {name: [] for name in CLASSES if name not in BASIC_CLASSES}
    for _ in range(count):
        phrase = " ".join(vocabulary[word] for word in _draw_phrase(rng, items))
        asked["Q11"].append(Query(text=phrase, is_phrase=True))
        word = vocabulary[_rank(rng, 10, 2_000, num_words)]
        asked["Q12"].append(Query(text=word, distinct="category", sort="price"))
        asked["Q13"].append(
            Query(text=vocabulary[_rank(rng, num_words // 10, num_words, num_words)])
        )
        asked["Q14"].append(Query(text=common()))
        asked["Q15"].append(Query(ranges={"price": price_range()}, facets=FACETS))
        word = vocabulary[_rank(rng, 10, 500, num_words)]
        asked["Q16"].append(Query(text=word, filters=two_filters(), sort="price"))
    return asked


def _rank(rng: np.random.Generator, low: int, high: int, num_words: int) -> int:
    """Draw the rank of a word, uniform in its logarithm, from `low` to below `high`."""
    high = max(low + 1, min(high, num_words))
    return int(math.exp(rng.uniform(math.log(low), math.log(high))))


def _draw_phrase(rng: np.random.Generator, items: Items) -> list[int]:
    """Draw consecutive words of one item's title or description."""
    while True:
        number = int(rng.integers(len(items)))
        is_title = rng.random() < 0.5
        column = items.title if is_title else items.description
        ends = items.title_ends if is_title else items.description_ends
        start, end = int(ends[number - 1]) if number else 0, int(ends[number])
        size = int(rng.choice(PHRASE_WORDS, p=PHRASE_SHARES))
        if end - start >= size:
            at = int(rng.integers(start, end - size + 1))
            return [int(word) for word in column[at : at + size]]


def misspell(
    word: str, rng: np.random.Generator, known: frozenset[str], *, transposes: bool = False
) -> str:
    """Make one random edit that gives no known word; without transpositions unless asked for."""
    while True:
        kind = int(rng.integers(4 if transposes else 3))
        at = int(rng.integers(len(word)))
        letter = ALPHABET[int(rng.integers(26))]
        if kind == 0:
            edited = word[:at] + letter + word[at:]
        elif kind == 1:
            edited = word[:at] + letter + word[at + 1 :]
        elif kind == 2:
            edited = word[:at] + word[at + 1 :]
        else:
            edited = word[:at] + word[at + 1 : at + 2] + word[at : at + 1] + word[at + 2 :]
        if edited != word and edited not in known and len(edited) >= TYPO_LETTERS_MIN:
            return edited
