"""The best of many scores: the k-th greatest, and those that reach it.

Scores are int64 in units of 2^-32. Of a usual page few are wanted of many, so the k-th greatest is
found by a heap in one pass (1 ns a score: hardly one is greater than the least of the heap), and
those that reach it are picked in another. Of a deep page thousands are wanted; then scores are
counted by their leading binary digits, and those with the digits of the k-th greatest by the next
ones (2 ns a score; selection by digits: Knuth, The art of computer programming, vol. 3, 5.2.5).
Scores of a word have few different values, and numpy's selection took 3 to 5 times as long of them.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from common.kernels.decorator import kernel
from common.kernels.heaps import replace_least
from common.kernels.types import I64Array, U32Array, int64, uint64

GREATEST: Final = np.iinfo(np.int64).max
"""No score is greater."""
_LEAST: Final = np.iinfo(np.int64).min
_HEAP_MAX: Final = 128
"""Up to this k the k-th greatest is found with a heap."""
_DIGIT_BITS: Final = 11
"""Of what is counted at a time: counters of 16 KB."""


@kernel
def _kth_by_heap(scores: I64Array, k: int) -> int:
    """Return the k-th greatest, with a min-heap of the k greatest so far."""
    heap = np.full(k, _LEAST)
    for score in scores:
        if score > heap[0]:
            replace_least(heap, k, score)
    return heap[0]


@kernel
def _kth_by_digits(scores: I64Array, k: int) -> int:
    """Return the k-th greatest, one digit after the other."""
    least = scores[0]
    greatest = scores[0]
    for score in scores:
        least = min(least, score)
        greatest = max(greatest, score)
    base = uint64(least)
    span = uint64(greatest) - base
    shift = int64(0)
    while span >> uint64(shift + _DIGIT_BITS) != 0:
        shift += 1
    counts = np.empty(1 << _DIGIT_BITS, np.int64)
    left = scores
    num_missing = k
    while True:
        counts[:] = 0
        for score in left:
            counts[(uint64(score) - base) >> uint64(shift)] += 1
        digit = (1 << _DIGIT_BITS) - 1
        while counts[digit] < num_missing:
            num_missing -= counts[digit]
            digit -= 1
        base += uint64(digit) << uint64(shift)
        if shift == 0:
            return int64(base)
        same = np.empty(counts[digit] + 1, np.int64)
        count = 0
        for score in left:
            same[count] = score
            count += (uint64(score) - base) >> uint64(shift) == 0
        left = same[:count]
        shift = max(int64(0), shift - _DIGIT_BITS)


@kernel
def kth_greatest(scores: I64Array, k: int) -> int:
    """Return the k-th greatest of at least k scores; k is at least 1."""
    return _kth_by_heap(scores, k) if k <= _HEAP_MAX else _kth_by_digits(scores, k)


@kernel
def pick(
    docs: U32Array, scores: I64Array, least: int, greatest: int, values: I64Array
) -> tuple[U32Array, I64Array]:
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


@kernel
def best_of(docs: U32Array, scores: I64Array, k: int) -> tuple[U32Array, I64Array]:
    """Return the k best documents, and all that are their equals, as they stand; their scores."""
    if k >= len(docs):
        return docs.copy(), scores.copy()
    return pick(docs, scores, kth_greatest(scores, k), GREATEST, scores)
