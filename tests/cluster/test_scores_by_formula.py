"""Scores are those of the formula in docs/searching.md, computed from the items alone."""

from __future__ import annotations

import math
import random
from functools import cache
from typing import Any, Final

import pytest

from tests.cluster.conftest import SHARD_COUNTS, Index, Services

WORDS: Final = (
    *("sea", "green", "mile", "night", "star", "wars"),
    *("dark", "knight", "film", "water", "drama", "lamp"),
)
WEIGHTS: Final = {"name": 2.0, "text": 1.0, "note": 1.0}
K1: Final = 0.8
B: Final = 0.68
PROXIMITY: Final = 0.2
QUERIES: Final = (
    *("sea", "night", "lamp", "dark knight", "green mile"),
    *("star wars", "wars star", "film sea", "water drama", "mile lamp"),
)


def made_up_items() -> list[dict[str, Any]]:
    chance = random.Random(7)
    frequent = [len(WORDS) - at for at in range(len(WORDS))]

    def text(longest: int) -> str:
        return " ".join(chance.choices(WORDS, frequent, k=chance.randint(0, longest)))

    return [
        {"id": number, "name": text(4), "text": text(30), "note": "" if number % 5 else text(9)}
        for number in range(200)
    ]


class Formula:
    """Scores queries of one or two different words, of which any is enough.

    Args:
        items: all of them.
    """

    def __init__(self, items: list[dict[str, Any]]) -> None:
        self.items = [{path: item[path].split() for path in WEIGHTS} for item in items]
        totals = {path: sum(len(item[path]) for item in self.items) for path in WEIGHTS}
        filled = {path: sum(bool(item[path]) for item in self.items) for path in WEIGHTS}
        own = {path: totals[path] / filled[path] for path in WEIGHTS}
        self.weights = {
            path: weight * (max(own.values()) / own[path]) ** 0.55
            for path, weight in WEIGHTS.items()
        }
        self.average = {path: totals[path] / min(len(items), 3 * filled[path]) for path in WEIGHTS}

    def weight(self, word: str) -> float:
        """Return what a word is worth by its rarity."""
        count = sum(any(word in text for text in item.values()) for item in self.items)
        idf = math.log(1 + (len(self.items) - count + 0.5) / (count + 0.5))
        return max(idf - 0.25, idf / 10)

    def score(self, number: int, query: str) -> float:
        item, words = self.items[number], query.split()
        score = 0.0
        for word in words:
            occurrences = sum(
                text.count(word) * self.weights[path] / (1 - B + B * len(text) / self.average[path])
                for path, text in item.items()
            )
            score += self.weight(word) * occurrences / (occurrences + K1)
        weights = [self.weight(word) for word in words]
        if len(words) == 2:
            first, second = words
            nearest = max(pair_factor(first, second, text) for text in item.values())
            score += PROXIMITY * min(weights) * nearest
        if words in item.values():
            score += sum(weights) / 2
        return score


def pair_factor(first: str, second: str, text: list[str]) -> float:
    """Return how close together two neighbours of the query are."""
    steps = [
        there - here
        for here, word in enumerate(text)
        for there, other in enumerate(text)
        if (word, other) == (first, second) and abs(there - here) <= 8
    ]
    return max([1 / step if step > 0 else 0.5 / -step for step in steps], default=0.0)


@cache
def expected_scores() -> dict[str, dict[int, float]]:
    """Return the scores above zero, by query and item."""
    items = made_up_items()
    formula = Formula(items)
    every = {
        query: {number: formula.score(number, query) for number in range(len(items))}
        for query in QUERIES
    }
    return {query: {id: one for id, one in found.items() if one} for query, found in every.items()}


@pytest.mark.parametrize("num_shards", SHARD_COUNTS)
def test_scores_are_those_of_the_formula(services: Services, num_shards: int) -> None:
    index = Index(services(num_shards).client(), "by-formula")
    items = made_up_items()
    index.configure({"searchable_fields": ["name^2", "text", "note"]})
    index.put(items)
    for query in QUERIES:
        asked = {"query": query, "match": "any", "prefix": "none", "typo": 0}
        answer = index.search(**asked, show=["score"], per_page=len(items))
        scores = {item["id"]: item["_score"] for item in answer["data"]["items"]}
        assert scores == pytest.approx(expected_scores()[query], rel=1e-6)
        assert list(scores.values()) == sorted(scores.values(), reverse=True)
    index.client.delete(index.path)
    index.client.close()
