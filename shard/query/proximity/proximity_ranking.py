"""The best documents with proximity, reading the positions of those only that can be among them.

A document's proximity score is bounded, so most documents need no look at their positions. The k-th
best score without proximity is a lower bound for the k-th best with it; a document that cannot
reach that even with the maximum stays out of the top k. Only the others' positions are read, and
the order of the top k is exact. Adding proximity to the documents in front first makes the
threshold tight:

    score without proximity   ◀── 9.1  8.8 … 8.2 │ 8.1 …… 7.6 │ 7.5 … ──
                                  in front:      │ can reach  │ cannot reach the
                                  measured first │ the k-th   │ k-th best so far

If not all words must match, most documents have few of them, so the maximum of each is that of the
pairs that it has (`proximity_bounds.py`).

Where a word says little, as one letter that half of all documents have does, the maximum is so
small that few of these are left.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from common.kernels.decorator import kernel
from common.kernels.types import I64Array, U32Array
from shard.query.postings.term_lists import TermLists
from shard.query.proximity import proximity_bounds
from shard.query.proximity.proximity_scores import Proximity, proximity_scores
from shard.query.scoring.bm25f import ScoredLists
from shard.query.scoring.top_k_selection import GREATEST, best_of, join, kth_greatest, pick

if TYPE_CHECKING:
    from numpy.typing import NDArray

_FIRST_FACTOR: Final = 4
"""Documents that get their proximity first, for each requested one; see `num_first`."""
_FIRST_MORE_MAX: Final = 384
"""Most of them beyond the requested ones."""
_FIRST_MIN: Final = 32
"""Least of them."""


@kernel(inline=True, allocates=False)
def num_first(k: int) -> int:
    """Return how many documents get their proximity first, to find the k best."""
    return max(min(_FIRST_FACTOR * k, k + _FIRST_MORE_MAX), _FIRST_MIN)


@kernel
def _in_reach(
    docs: U32Array, totals: I64Array, most: int, k: int
) -> tuple[U32Array, I64Array, int]:
    """Return the documents that proximity can bring among the k best, their scores, the least.

    A pair of which one word says little (a letter or two) leaves few.
    """
    least = kth_greatest(totals, k) - most
    near, near_totals = pick(docs, totals, least, GREATEST, totals)
    return near, near_totals, least


def in_reach_by_pairs(
    lists: TermLists,
    proximity: Proximity,
    docs: NDArray[np.uint32],
    totals: NDArray[np.int64],
    k: int,
) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
    """Return the documents that proximity can bring among the k best, and their scores.

    Args:
        lists: of the segment.
        proximity: of the query's words.
        docs: ascending.
        totals: their scores without proximity.
        k: how many of the best are wanted, at least 1.
    """
    first = num_first(k)
    if len(docs) <= max(k, 2 * first):
        return docs, totals
    front, front_totals = pick(docs, totals, kth_greatest(totals, first), GREATEST, totals)
    front, front_totals = front[:first], front_totals[:first]
    bonus = proximity_scores(lists.fields.lists, proximity, front)
    least = kth_greatest(front_totals + bonus, k)
    docs, totals = pick(docs, totals, least - proximity.most, GREATEST, totals)
    if proximity_bounds.pays_off(lists, proximity, len(docs)):
        docs, totals = proximity_bounds.pick_in_reach(lists, proximity, docs, totals, least)
    return docs, totals


@kernel
def rank_front(
    scored: ScoredLists, proximity: Proximity, docs: U32Array, totals: I64Array, k: int
) -> tuple[U32Array, I64Array, int, int]:
    """Add proximity to the scored documents that lead without it.

    Args:
        scored: the posting lists.
        proximity: of the query's words.
        docs: ascending, `num_first(k)` at least.
        totals: their scores without proximity.
        k: how many of the best to return.

    Returns:
        The documents in front; their scores with proximity; the least score without proximity that
        is in front; the least score without proximity that can still reach the k best.
    """
    front = kth_greatest(totals, num_first(k))
    near, near_totals = pick(docs, totals, front, GREATEST, totals)
    near, near_totals, least = _in_reach(near, near_totals, proximity.most, k)
    front = max(front, least)
    near_totals += proximity_scores(scored, proximity, near)
    return near, near_totals, front, kth_greatest(near_totals, k) - proximity.most


@kernel
def rank_others(
    scored: ScoredLists,
    proximity: Proximity,
    near: U32Array,
    near_totals: I64Array,
    others: U32Array,
    other_totals: I64Array,
    k: int,
) -> tuple[U32Array, I64Array]:
    """Add proximity to the others too; return the best of all, with their scores."""
    other_totals += proximity_scores(scored, proximity, others)
    docs, totals = join(near, near_totals, others, other_totals)
    return best_of(docs, totals, k)


@kernel
def rank_by_proximity(
    scored: ScoredLists, proximity: Proximity, docs: U32Array, totals: I64Array, k: int
) -> tuple[U32Array, I64Array]:
    """Return the best documents, with their full scores.

    Args:
        scored: the posting lists.
        proximity: of the query's words.
        docs: ascending.
        totals: their scores without proximity.
        k: how many of the best to return, at least 1.

    Returns:
        Ascending documents with scores that include proximity: the k best, with all ties for the
        k-th place.
    """
    if len(proximity.pair_weights) == 0:
        return best_of(docs, totals, k)
    if len(docs) <= max(k, 2 * num_first(k)):
        if len(docs) > k:
            docs, totals, _ = _in_reach(docs, totals, proximity.most, k)
        return best_of(docs, totals + proximity_scores(scored, proximity, docs), k)
    near, near_totals, front, reach = rank_front(scored, proximity, docs, totals, k)
    others, other_totals = pick(docs, totals, reach, front - 1, totals)
    return rank_others(scored, proximity, near, near_totals, others, other_totals, k)
