"""Selects the best k of some matches by the levels of an order, later levels for ties only.

    keys of all candidates ─▶ k-th smallest T ─▶ below T: in        equal to T: candidates of the
                                                                     next level, for the rest of k

Cost: one pass over the keys of a level to find T, with a heap where k is small, and one to split
them; `segment_top_k` has times.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from common.kernels.decorator import kernel
from common.kernels.top_k_heap import replace_least
from common.kernels.types import U64, I64Array, U64Array, int64, uint64
from shard.segment.columns.sort_keys import MISSING_KEY

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from shard.collect.top_hits.sort_levels import Level

_HEAP_MAX = 128
"""Up to this k, a heap finds the k-th smallest key: one pass, with hardly a misprediction."""
_BLOCK_KEYS = 64
_ALL_ONES = uint64(MISSING_KEY)
_TOP_BIT = uint64(1 << 63)
_LEAST = np.iinfo(np.int64).min


@kernel
def _kth_smallest_heap(keys: U64Array, k: int) -> U64:
    """Return the k-th smallest of more than k keys: the k-th greatest of all inverted ones."""
    heap = np.full(k, int64(_LEAST))
    kth = _ALL_ONES
    for key in keys:
        if key < kth:
            replace_least(heap, k, int64(~key ^ _TOP_BIT))
            kth = ~(uint64(heap[0]) ^ _TOP_BIT)
    return kth


@kernel(allocates=False)
def _split_at(keys: U64Array, threshold: U64, below: I64Array, equal: I64Array) -> tuple[int, int]:
    """Write the positions of the keys below a threshold, and of those equal to it.

    Both arrays need room for one more. Mostly few keys are as small, so whole blocks are passed
    over; in others the writes are unconditional and the numbers advance if they count: no branch.
    """
    num_below = 0
    num_equal = 0
    for start in range(0, len(keys), _BLOCK_KEYS):
        end = min(start + _BLOCK_KEYS, len(keys))
        num_small = 0
        for position in range(start, end):
            num_small += keys[position] <= threshold
        if num_small == 0:
            continue
        for position in range(start, end):
            below[num_below] = position
            num_below += keys[position] < threshold
            equal[num_equal] = position
            num_equal += keys[position] == threshold
    return num_below, num_equal


def choose(
    levels: Sequence[Level], count: int, positions: NDArray[np.int64] | None, k: int
) -> NDArray[np.int64]:
    """Return the positions of the best k of some matches (all if None), in any order."""
    below, ties, num_left = split_by(levels, count, positions, k)
    if ties is None:
        return np.arange(count)
    return np.concatenate([*below, ties[:num_left]]) if below else ties[:num_left]


def split_by(
    levels: Iterable[Level],
    count: int,
    positions: NDArray[np.int64] | None,
    k: int,
    enough: int = 0,
) -> tuple[list[NDArray[np.int64]], NDArray[np.int64] | None, int]:
    """Return which of some matches (all if None) are the best k by some levels, as far as known.

    Further levels are compared only while more than `enough` matches tie.

    Returns:
        (positions of those that are; positions of those that tie for the others, in their given
        order, None: all matches; how many others there are).
    """
    below: list[NDArray[np.int64]] = []
    ties = positions
    for level in levels:
        num_candidates = count if ties is None else len(ties)
        if num_candidates <= max(k, enough):
            break
        keys = level.keys(ties)
        threshold = _kth_smallest(keys, k)
        less = np.empty(k + 1, np.int64)
        equal = np.empty(num_candidates + 1, np.int64)
        num_less, num_equal = _split_at(keys, threshold, less, equal)
        less, equal = less[:num_less], equal[:num_equal]
        # Keys below the threshold are in; ties are decided by the next level.
        below.append(less if ties is None else ties[less])
        ties = equal if ties is None else ties[equal]
        k -= num_less
    return below, ties, k


def _kth_smallest(keys: NDArray[np.uint64], k: int) -> Any:
    """Return the k-th smallest of more than k keys."""
    return _kth_smallest_heap(keys, k) if k <= _HEAP_MAX else np.partition(keys, k - 1)[k - 1]
