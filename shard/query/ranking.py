"""The best of many scores: the k-th greatest, and those that reach it.

Scores are int64 in units of 2^-32. Few are wanted of many, so the k-th greatest is found by a heap
in one pass (1 ns a score: hardly one is greater than the least of the heap), and those that reach
it are picked in another. Deep pages want thousands: then numpy's selection is faster.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from common.heaps import replace_least
from common.kernels import kernel

if TYPE_CHECKING:
    from numpy.typing import NDArray

HEAP_MAX: Final = 128
"""The greatest k for which the heap is used."""
_LEAST: Final = np.iinfo(np.int64).min
_GREATEST: Final = np.iinfo(np.int64).max


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


@kernel("(uint32[::1], int64[::1], int64, int64)")
def _pick(docs: Any, scores: Any, least: Any, greatest: Any) -> Any:
    """Return the documents with scores from `least` to `greatest`, and these."""
    size = 0
    for score in scores:
        size += (score >= least) & (score <= greatest)
    picked_docs = np.empty(size + 1, np.uint32)
    picked_scores = np.empty(size + 1, np.int64)
    at = 0
    for i in range(len(scores)):
        score = scores[i]
        picked_docs[at] = docs[i]
        picked_scores[at] = score
        at += (score >= least) & (score <= greatest)
    return picked_docs[:size], picked_scores[:size]


def kth_greatest(scores: NDArray[np.int64], k: int) -> int:
    """Return the k-th greatest of at least k scores; k is at least 1."""
    if k <= HEAP_MAX:
        return int(heap_kth_greatest(scores, k, np.empty(k, np.int64)))
    at = len(scores) - k
    return int(np.partition(scores, at)[at])


def pick(
    docs: NDArray[np.uint32], scores: NDArray[np.int64], least: int, below: int | None = None
) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
    """Return the documents, and their scores, that have at least one score but less than another.

    Args:
        docs: ascending; their order stays.
        scores: of each.
        least: the lowest score that is picked.
        below: the lowest that is too high; None: none is.
    """
    picked: tuple[NDArray[np.uint32], NDArray[np.int64]] = _pick(
        docs, scores, least, _GREATEST if below is None else below - 1
    )
    return picked
