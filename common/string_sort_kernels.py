"""Sorts many strings by code points, in kernels that do not block other threads.

`list.sort` keeps the interpreter for as long as it takes, half a second for a million texts.

Few strings are sorted by merging, comparing most of them by their first eight bytes. Comparing very
many would read them in random order from memory, so these are sorted as integers, which is an order
of magnitude faster: first by eight bytes, then those that tie by (the strings that they tie with,
the next bytes), level by level. What ties to the end is merged.

    order     aaaaaaaab  aaaaaaaac | b | cccccccc  cccccccca      sorted by eight bytes: two ties
    packed    0b         0c              1·        1a             tie, next bytes (· is 0)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from common.kernels.decorator import arguments, kernel
from common.kernels.intrinsics import prefetch
from common.kernels.types import U32, I64Array, U32Array, U64Array, uint32, uint64

if TYPE_CHECKING:
    from numpy.typing import NDArray

_RUN = 8
"""Keys per run that insertion sort puts in order before runs are merged."""
_MANY = 4_096
"""From this many keys on, sorting them as integers is faster."""
_LEVELS_MAX = 8
"""Levels at which keys are sorted by their next bytes: 40 bytes and more."""
_PREFETCHED = 16
"""How many keys ahead of the one that is read are prefetched."""


@arguments
class _Keys(NamedTuple):
    """Working arrays of a sort.

    Attributes:
        keys: their bytes, one key after the other.
        offsets: where each begins, with a sentinel.
        prefixes: the first eight bytes of each as a big-endian integer, zero-padded.
    """

    keys: NDArray[np.uint8]
    offsets: NDArray[np.int64]
    prefixes: NDArray[np.uint64]


@kernel(allocates=False)
def _is_less(sorted_keys: _Keys, left: U32, right: U32) -> bool:
    """Return whether key `left` sorts before key `right` in byte (= code point) order."""
    keys, offsets, prefixes = sorted_keys
    if prefixes[left] != prefixes[right]:
        return bool(prefixes[left] < prefixes[right])
    left_length = offsets[left + 1] - offsets[left]
    right_length = offsets[right + 1] - offsets[right]
    for position in range(8, min(left_length, right_length)):
        left_byte = keys[offsets[left] + position]
        right_byte = keys[offsets[right] + position]
        if left_byte != right_byte:
            return bool(left_byte < right_byte)
    return bool(left_length < right_length)


@kernel(allocates=False)
def _merge_runs(
    keys: _Keys, order: U32Array, begin: int, middle: int, end: int, scratch: U32Array
) -> None:
    """Merge the sorted runs order[begin:middle] and order[middle:end] in place."""
    if begin >= middle or middle >= end or not _is_less(keys, order[middle], order[middle - 1]):
        return
    # Only the left run needs a copy: merging never overtakes the right one.
    for i in range(begin, middle):
        scratch[i] = order[i]
    left = begin
    right = middle
    at = begin
    while left < middle and right < end:
        if _is_less(keys, order[right], scratch[left]):
            order[at] = order[right]
            right += 1
        else:
            order[at] = scratch[left]
            left += 1
        at += 1
    while left < middle:
        order[at] = scratch[left]
        left += 1
        at += 1


@kernel(allocates=False)
def _sort_range(keys: _Keys, order: U32Array, begin: int, end: int, scratch: U32Array) -> None:
    """Sort order[begin:end] by key.

    Bottom-up merge sort. Most comparisons end at the first eight bytes (big-endian, so that
    integers compare as bytes do).
    """
    for first in range(begin, end, _RUN):
        for i in range(first + 1, min(first + _RUN, end)):
            number = order[i]
            at = i
            while at > first and _is_less(keys, number, order[at - 1]):
                order[at] = order[at - 1]
                at -= 1
            order[at] = number
    width = _RUN
    while width < end - begin:
        for first in range(begin, end, 2 * width):
            middle = min(first + width, end)
            _merge_runs(keys, order, first, middle, min(middle + width, end), scratch)
        width *= 2


@kernel(allocates=False)
def _sort_ties(keys: _Keys, order: U32Array, starts: I64Array, scratch: U32Array) -> None:
    """Sort each order[starts[i]:starts[i + 1]] by key."""
    for i in range(len(starts) - 1):
        _sort_range(keys, order, starts[i], starts[i + 1], scratch)


@kernel(allocates=False)
def _pack_ties(
    sorted_keys: _Keys,
    numbers: U32Array,
    ties: U32Array,
    first_byte: int,
    num_bytes: int,
    packed: U64Array,
) -> None:
    """Write the number of its tie, and the next bytes of each key, zero-padded.

    Args:
        sorted_keys: the keys.
        numbers: of the keys that tie.
        ties: number of the tie of each.
        first_byte: how many bytes have been compared.
        num_bytes: how many are next.
        packed: output.
    """
    keys, offsets, _ = sorted_keys
    for i in range(len(numbers)):
        if i + _PREFETCHED < len(numbers):
            prefetch(keys, offsets[numbers[i + _PREFETCHED]] + first_byte)
        number = numbers[i]
        start = offsets[number] + first_byte
        end = offsets[number + uint32(1)]
        word = uint64(ties[i])
        for position in range(start, start + num_bytes):
            byte = uint64(keys[position]) if position < end else uint64(0)
            word = (word << uint64(8)) | byte
        packed[i] = word


@kernel(allocates=False)
def _fill_prefixes(sorted_keys: _Keys) -> None:
    keys, offsets, prefixes = sorted_keys
    for number in range(len(prefixes)):
        prefix = uint64(0)
        start = offsets[number]
        length = offsets[number + 1] - start
        for position in range(8):
            byte = uint64(keys[start + position]) if position < length else uint64(0)
            prefix = (prefix << uint64(8)) | byte
        prefixes[number] = prefix


def sort_keys(
    keys: NDArray[np.uint8],
    offsets: NDArray[np.int64],
    known: NDArray[np.uint32] | None = None,
) -> NDArray[np.uint32]:
    """Return the numbers of keys in code point order.

    Args:
        keys: byte arena, UTF-8.
        offsets: key n is keys[offsets[n]:offsets[n + 1]]; shape (num_keys + 1,).
        known: the order of the first len(known) keys, if computed before.

    Returns:
        Permutation of [0, num_keys), uint32. Equal keys keep their order.

    Cost: 0.1 s for 1 M keys of a dozen bytes; n comparisons if only a few are new.
    """
    num_keys = len(offsets) - 1
    num_known = 0 if known is None else len(known)
    sorted_keys = _Keys(keys, offsets, np.empty(num_keys, np.uint64))
    _fill_prefixes(sorted_keys)
    order = np.arange(num_keys, dtype=np.uint32)
    scratch = np.empty(num_keys, np.uint32)
    if num_keys - num_known < _MANY:
        _sort_range(sorted_keys, order, num_known, num_keys, scratch)
    else:
        _sort_many(sorted_keys, order[num_known:], scratch)
    if known is not None:
        order[:num_known] = known
        _merge_runs(sorted_keys, order, 0, num_known, num_keys, scratch)
    return order


def _sort_many(sorted_keys: _Keys, order: NDArray[np.uint32], scratch: NDArray[np.uint32]) -> None:
    """Sort ascending numbers by key; see the module."""
    prefixes = sorted_keys.prefixes[order]
    by_prefix = np.argsort(prefixes)
    order[:] = order[by_prefix]
    prefixes = prefixes[by_prefix]
    is_first = np.ones(len(order) + 1, np.bool_)  # of its tie, by place in `order`
    np.not_equal(prefixes[1:], prefixes[:-1], out=is_first[1:-1])
    tied = np.flatnonzero(~(is_first[:-1] & is_first[1:]))
    first_byte = 8
    for _ in range(_LEVELS_MAX):
        if len(tied) < _MANY:
            break
        numbers = order[tied]
        ties = np.cumsum(is_first[tied], dtype=np.uint32)
        num_bytes = (64 - int(ties[-1]).bit_length()) // 8
        packed = np.empty(len(tied), np.uint64)
        _pack_ties(sorted_keys, numbers, ties, first_byte, num_bytes, packed)
        by_next = np.argsort(packed)
        order[tied] = numbers[by_next]
        packed = packed[by_next]
        is_first[tied[1:]] = packed[1:] != packed[:-1]
        tied = tied[~(is_first[tied] & is_first[tied + 1])]
        first_byte += num_bytes
    # The rest by number, so that equal keys keep their order, then by merging.
    ties = np.cumsum(is_first[tied], dtype=np.uint64)
    packed = ties << np.uint64(32) | order[tied].astype(np.uint64)
    packed.sort()
    numbers = packed.astype(np.uint32)
    starts = np.append(np.flatnonzero(is_first[tied]), len(tied))
    _sort_ties(sorted_keys, numbers, starts, scratch)
    order[tied] = numbers
