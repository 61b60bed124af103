"""The values of a facet with the greatest counts: one pass with a heap of as many as are wanted.

Equal counts are ordered by the *rank* of their values as texts, which is known for those that
existed when the numbering was last sorted (`global_ordinals`).
"""

from __future__ import annotations

import numpy as np

from common.kernels.decorator import kernel
from common.kernels.top_k_heap import replace_least
from common.kernels.types import I64Array, U32Array, int64
from common.protocol.packed_counts import EVERY


@kernel
def select_greatest(
    counts: I64Array,
    touched: U32Array,
    num_touched: int,
    ranks: U32Array,
    by_rank: U32Array,
    best: I64Array,
) -> int:
    """Write the k values with the greatest counts, best first; the lower rank wins a tie.

    One pass with a min-heap of k keys: count in the upper half, inverted rank in the lower.

    Args:
        counts: by number; less than 2^31.
        touched: the numbers that may have a count.
        num_touched: how many, or `EVERY`.
        ranks: by number; may be shorter than `counts`.
        by_rank: the number at each rank.
        best: output of k elements: their numbers.

    Returns:
        How many values were written. Negative if unranked values are among the k best or tie with
        the last of them: minus the k-th greatest count.
    """
    k = len(best)
    low_half = int64(0xFFFFFFFF)
    heap = np.empty(k, np.int64)
    size = 0
    floor = 0
    greatest_unranked = 0
    num_seen = len(counts) if num_touched == EVERY else num_touched
    for i in range(num_seen):
        number = int64(i) if num_touched == EVERY else int64(touched[i])
        count = counts[number]
        if count <= floor:
            continue
        key = count << 32
        if number < len(ranks):
            key |= low_half - int64(ranks[number])
        else:
            greatest_unranked = max(greatest_unranked, count)
        if size < k:
            at = size
            size += 1
            while at > 0 and heap[(at - 1) >> 1] > key:
                heap[at] = heap[(at - 1) >> 1]
                at = (at - 1) >> 1
            heap[at] = key
        elif key > heap[0]:
            replace_least(heap, k, key)
        if size == k:
            floor = (heap[0] >> 32) - 1
    if greatest_unranked > floor:
        return -(floor + 1)
    for i in range(size - 1, -1, -1):
        key = heap[0]
        best[i] = int64(by_rank[low_half - (key & low_half)])
        replace_least(heap, i, heap[i])
    return size


@kernel
def list_at_least(
    counts: I64Array, touched: U32Array, num_touched: int, threshold: int, chosen: I64Array
) -> int:
    """Write the numbers of all values whose count is at least the threshold.

    Returns:
        How many numbers were written, or -1 if they did not fit.
    """
    num = 0
    num_seen = len(counts) if num_touched == EVERY else num_touched
    for i in range(num_seen):
        number = int64(i) if num_touched == EVERY else int64(touched[i])
        if counts[number] >= threshold:
            if num == len(chosen):
                return -1
            chosen[num] = number
            num += 1
    return num
