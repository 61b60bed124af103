"""Sorting many texts without holding up the event loop: a kernel, which other threads run beside.

`list.sort` holds the interpreter for as long as it takes, half a second for a million texts. The
kernel sorts their UTF-8, whose order is that of code points: a merge sort of their numbers, which
looks at the first eight bytes of two texts, and at the others only if these are equal.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from common.kernels.decorator import kernel
from common.kernels.types import I64Array, U8Array, U32Array, U64Array, int64, uint32, uint64

if TYPE_CHECKING:
    from numpy.typing import NDArray

_INSERTED_MAX: Final = 256
"""Up to this many new texts are inserted into the order one by one, 5 µs each."""
_ENCODED_TEXTS: Final = 4_096
"""Texts that are encoded at a time."""


@kernel(allocates=False)
def _is_before(texts: U8Array, ends: I64Array, heads: U64Array, left: int, right: int) -> bool:
    """Return whether a text comes before another one, or is equal to it."""
    if heads[left] != heads[right]:
        return bool(heads[left] < heads[right])
    left_start = int64(0) if left == 0 else ends[left - 1]
    right_start = int64(0) if right == 0 else ends[right - 1]
    left_size = ends[left] - left_start
    right_size = ends[right] - right_start
    for i in range(8, min(left_size, right_size)):
        one = texts[left_start + i]
        other = texts[right_start + i]
        if one != other:
            return bool(one < other)
    return bool(left_size <= right_size)


@kernel
def sort_texts(texts: U8Array, ends: I64Array) -> U32Array:
    """Return the numbers of texts in ascending order; equal ones in the order of their numbers.

    Args:
        texts: all of them, one after the other.
        ends: where each of them ends.
    """
    num_texts = len(ends)
    heads = np.zeros(num_texts, np.uint64)
    start = int64(0)
    for i in range(num_texts):
        head = uint64(0)
        for k in range(8):
            head <<= uint64(8)
            if start + k < ends[i]:
                head |= uint64(texts[start + k])
        heads[i] = head
        start = ends[i]
    order = np.empty(num_texts, np.uint32)
    other = np.empty(num_texts, np.uint32)
    for i in range(num_texts):
        order[i] = uint32(i)
    width = 1
    while width < num_texts:
        for begin in range(0, num_texts, 2 * width):
            middle = min(begin + width, num_texts)
            end = min(begin + 2 * width, num_texts)
            left, right = begin, middle
            for at in range(begin, end):
                if right == end or (
                    left < middle
                    and _is_before(texts, ends, heads, int64(order[left]), int64(order[right]))
                ):
                    other[at] = order[left]
                    left += 1
                else:
                    other[at] = order[right]
                    right += 1
        order, other = other, order
        width *= 2
    return order


def sorted_numbers(
    texts: Sequence[str], num_texts: int, known: NDArray[np.uint32]
) -> NDArray[np.uint32]:
    """Return the numbers of the first `num_texts` different texts, in order of code points.

    Args:
        texts: may grow meanwhile.
        num_texts: how many to order.
        known: the order of the first few of them; empty: not known.
    """
    num_known = len(known)
    if num_texts - num_known <= _INSERTED_MAX and num_known:
        fresh = sorted(range(num_known, num_texts), key=texts.__getitem__)
        places = [bisect_left(known, texts[number], key=texts.__getitem__) for number in fresh]
        inserted: NDArray[np.uint32] = np.insert(known, places, np.array(fresh, np.uint32))
        return inserted
    pieces: list[bytes] = []
    sizes = np.empty(num_texts, np.int64)
    for start in range(0, num_texts, _ENCODED_TEXTS):
        end = min(start + _ENCODED_TEXTS, num_texts)
        encoded = [text.encode("utf-8", "surrogatepass") for text in texts[start:end]]
        sizes[start:end] = [len(one) for one in encoded]
        pieces.append(b"".join(encoded))
    joined = np.frombuffer(bytearray(b"".join(pieces)), np.uint8)
    order: NDArray[np.uint32] = sort_texts(joined, np.cumsum(sizes))
    return order
