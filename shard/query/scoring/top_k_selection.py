"""Selection: the k-th greatest of many scores, the documents that reach it, and joining those.

Scores are int64 in units of 2^-32. An ordinary page wants few of many, so a heap finds the k-th
greatest in one pass (1 ns a score: hardly any beats the least of the heap), and a second pass picks
the scores that reach it. A deep page wants thousands; then a radix selection counts the scores by
their leading digits, and those that share the digits of the k-th greatest by the next ones (2 ns a
score; Knuth, The art of computer programming, vol. 3, 5.2.5). The scores of a word take few
distinct values, on which numpy's selection took 3 to 5 times as long.

Doubles that are not negative are in the order of their bits, so they can be selected as integers.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from common.kernels.decorator import kernel
from common.kernels.order_checks import expect_ascending
from common.kernels.top_k_heap import replace_least
from common.kernels.types import I64Array, U32Array, int64, uint64

GREATEST: Final = np.iinfo(np.int64).max
"""No score is greater."""
_LEAST: Final = np.iinfo(np.int64).min
_HEAP_MAX: Final = 128
"""Up to this k, a heap finds the k-th greatest."""
_DIGIT_BITS: Final = 11
"""Bits counted at a time: counters of 16 KB fit the first-level cache."""


@kernel
def _kth_by_heap(scores: I64Array, k: int) -> int:
    """Return the k-th greatest, by a min-heap of the k greatest so far."""
    heap = np.full(k, _LEAST)
    for score in scores:
        if score > heap[0]:
            replace_least(heap, k, score)
    return heap[0]


@kernel
def _kth_by_digits(scores: I64Array, k: int) -> int:
    """Return the k-th greatest, by radix selection from the most significant digit."""
    least = scores[0]
    greatest = scores[0]
    for score in scores:
        least = min(least, score)
        greatest = max(greatest, score)
    # Digits are of the difference from the least score: the first digit then varies.
    base = uint64(least)
    span = uint64(greatest) - base
    shift = int64(0)
    while span >> uint64(shift + _DIGIT_BITS) != 0:
        shift += 1
    counts = np.empty(1 << _DIGIT_BITS, np.int64)
    left = scores
    num_missing = k
    while True:
        # Count by digit, and walk down from the top to the digit of the k-th greatest.
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
        # Keep only the scores with that digit for the next one.
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
    # Count first, so that the arrays have the exact size plus one for the write without a branch.
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
    """Return the k best documents, with all ties for the k-th place, in order, and their scores."""
    if k >= len(docs):
        return docs.copy(), scores.copy()
    return pick(docs, scores, kth_greatest(scores, k), GREATEST, scores)


@kernel
def first_best_of(docs: U32Array, scores: I64Array, k: int) -> tuple[U32Array, I64Array]:
    """Return the k best documents, of those with the k-th score the first, and their scores.

    Args:
        docs: in an order that the result keeps.
        scores: of each.
        k: at most as many.
    """
    least = kth_greatest(scores, k)
    num_ties = k
    for score in scores:
        num_ties -= score > least
    best_docs = np.empty(k, np.uint32)
    best_scores = np.empty(k, np.int64)
    at = 0
    for i in range(len(scores)):
        score = scores[i]
        if score < least:
            continue
        if score == least:
            if num_ties == 0:
                continue
            num_ties -= 1
        best_docs[at] = docs[i]
        best_scores[at] = score
        at += 1
    return best_docs, best_scores


@kernel
def join(
    docs: U32Array, scores: I64Array, more_docs: U32Array, more_scores: I64Array
) -> tuple[U32Array, I64Array]:
    """Merge two ascending lists of documents, with their scores."""
    expect_ascending(docs)
    expect_ascending(more_docs)
    size = len(docs) + len(more_docs)
    all_docs = np.empty(size, np.uint32)
    all_scores = np.empty(size, np.int64)
    i = 0
    j = 0
    for at in range(size):
        if j == len(more_docs) or (i < len(docs) and docs[i] < more_docs[j]):
            all_docs[at] = docs[i]
            all_scores[at] = scores[i]
            i += 1
        else:
            all_docs[at] = more_docs[j]
            all_scores[at] = more_scores[j]
            j += 1
    return all_docs, all_scores
