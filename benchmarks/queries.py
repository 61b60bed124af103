"""The queries Q1-Q10 that every engine is asked, seeded and of many shapes.

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
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from benchmarks.corpus import FACETS, Shape, words

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
}

ALPHABET = "abcdefghijklmnopqrstuvwxyz"
DEEP_PAGE = 1_000
TYPO_LETTERS_MIN = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """What is asked, in no engine's language."""

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


def make_queries(
    shape: Shape, num_items: int, count: int = 400, seed: int = 7
) -> dict[str, list[Query]]:
    """Draw `count` queries of each class (Q4 is one query, Q7 are ten)."""
    rng = np.random.default_rng([shape.seed, 3, seed])
    vocabulary = words(shape)

    def rank(low: int, high: int) -> int:
        high = max(low + 1, min(high, len(vocabulary)))
        return int(math.exp(rng.uniform(math.log(low), math.log(high))))

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
        misspelled[-1] = misspell(misspelled[-1], rng, frozenset(vocabulary))
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
    return asked


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
