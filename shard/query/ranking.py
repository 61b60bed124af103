"""The best of many scores: the k-th greatest, and those that reach it.

Scores are int64 in units of 2^-32. Few are wanted of many, so the k-th greatest is found by a heap
in one pass (1 ns a score: hardly one is greater than the least of the heap), and those that reach
it are picked in another. Deep pages want thousands: then numpy's selection is faster.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from common.heaps import replace_least
from common.kernels import kernel

HEAP_MAX: Final = 128
"""The greatest number of best documents that kernels look for."""
GREATEST: Final = np.iinfo(np.int64).max
"""No score is greater."""
_LEAST: Final = np.iinfo(np.int64).min


@kernel("int64(int64[::1], int64, int64[::1])", allocates=False)
def heap_kth_greatest(scores: Any, k: Any, heap: Any) -> Any:
    """Return the k-th greatest of at least k scores, with a min-heap of the k greatest so far.

    Args:
        scores: in any order.
        k: at least 1.
        heap: scratch, room for k.
    """
    heap[:k] = _LEAST
    for score in scores:
        if score > heap[0]:
            replace_least(heap, k, score)
    return heap[0]


@kernel("int64(int64[::1], int64)")
def kth_greatest(scores: Any, k: Any) -> Any:
    """Return the k-th greatest of at least k scores; k is at least 1."""
    return heap_kth_greatest(scores, k, np.empty(k, np.int64))


@kernel("(uint32[::1], int64[::1], int64, int64, int64[::1])")
def pick(docs: Any, scores: Any, least: Any, greatest: Any, values: Any) -> Any:
    """Return the documents with scores from `least` to `greatest`, in order, and their values.

    Args:
        docs: any.
        scores: of each.
        least: the lowest score that is picked.
        greatest: the greatest.
        values: of each, for example the scores.
    """
    size = 0
    for score in scores:
        size += (score >= least) & (score <= greatest)
    picked_docs = np.empty(size + 1, np.uint32)
    picked_values = np.empty(size + 1, np.int64)
    at = 0
    for i in range(len(scores)):
        score = scores[i]
        picked_docs[at] = docs[i]
        picked_values[at] = values[i]
        at += (score >= least) & (score <= greatest)
    return picked_docs[:size], picked_values[:size]


@kernel("(uint32[::1], int64[::1], int64)")
def best_of(docs: Any, scores: Any, k: Any) -> Any:
    """Return the k best documents, and all that are their equals, as they stand; their scores."""
    if k >= len(docs):
        return docs.copy(), scores.copy()
    return pick(docs, scores, kth_greatest(scores, k), GREATEST, scores)
