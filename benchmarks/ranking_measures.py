"""Measures of ranked retrieval, as trec_eval defines them.

    ndcg@10      gains are the grades, discount 1 / log2(rank + 1), ideal order of all judged items
    map          mean over the relevant items of the precision at their ranks
    p@10         relevant among the first ten, divided by ten even if fewer were found
    mrr          1 / rank of the first relevant item
    recall@100   share of the relevant items among the first hundred

Relevant means grade 1 or more. A query without judgments does not count; a judged query without
results counts as 0. `pytrec_eval` does the same in C; a test compares the two where it is there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean
from types import MappingProxyType

Grades = Mapping[str, int]
"""Item to grade, for one query."""


def ndcg_at_10(ranked: Sequence[str], grades: Grades) -> float:
    """Return the normalized discounted cumulated gain of the first ten."""
    ideal = _gain(sorted((g for g in grades.values() if g > 0), reverse=True)[:10])
    found = _gain([max(0, grades.get(item, 0)) for item in ranked[:10]])
    return found / ideal if ideal else 0.0


def _gain(grades: Sequence[int]) -> float:
    return sum(grade / math.log2(rank + 1) for rank, grade in enumerate(grades, 1))


def average_precision(ranked: Sequence[str], grades: Grades) -> float:
    """Return the mean precision at the ranks of the relevant items."""
    num_found, total = 0, 0.0
    for rank, item in enumerate(ranked, 1):
        if grades.get(item, 0) > 0:
            num_found += 1
            total += num_found / rank
    num_relevant = _num_relevant(grades)
    return total / num_relevant if num_relevant else 0.0


def precision_at_10(ranked: Sequence[str], grades: Grades) -> float:
    """Return the share of relevant items among ten."""
    return sum(grades.get(item, 0) > 0 for item in ranked[:10]) / 10


def reciprocal_rank(ranked: Sequence[str], grades: Grades) -> float:
    """Return 1 / rank of the first relevant item."""
    return next((1 / r for r, item in enumerate(ranked, 1) if grades.get(item, 0) > 0), 0.0)


def recall_at_100(ranked: Sequence[str], grades: Grades) -> float:
    """Return the share of the relevant items that the first hundred hold."""
    return _recall(ranked[:100], grades)


def recall_at_1(ranked: Sequence[str], grades: Grades) -> float:
    """Return the share of the relevant items that the first place holds."""
    return _recall(ranked[:1], grades)


def _recall(ranked: Sequence[str], grades: Grades) -> float:
    num_relevant = _num_relevant(grades)
    found = sum(grades.get(item, 0) > 0 for item in ranked)
    return found / num_relevant if num_relevant else 0.0


def _num_relevant(grades: Grades) -> int:
    return sum(grade > 0 for grade in grades.values())


MEASURES: Mapping[str, Callable[[Sequence[str], Grades], float]] = MappingProxyType(
    {
        "ndcg@10": ndcg_at_10,
        "map": average_precision,
        "p@10": precision_at_10,
        "mrr": reciprocal_rank,
        "recall@100": recall_at_100,
        "recall@1": recall_at_1,
    }
)


def evaluate(
    runs: Mapping[str, Sequence[str]], judgments: Mapping[str, Grades]
) -> dict[str, float]:
    """Return the mean of every measure over all judged queries.

    A query for which no item was judged relevant counts as 0, as a query without results does:
    published figures are means over all queries.
    """
    return {
        name: fmean(measure(runs.get(query, ()), grades) for query, grades in judgments.items())
        for name, measure in MEASURES.items()
    }
