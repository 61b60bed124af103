"""Positions: where in a field a term occurs, counted in words. For phrases and proximity.

One byte array, in the order of the posting entries; an entry of term frequency n has n numbers:

    text.positions        uint8[…]      varints: the first position, then differences
    text.position_starts  int64[V + 1]  where each term's numbers begin

A varint has 7 bits a byte, lowest first; the top bit says that more follow. There is no count: the
entry's frequency says how many belong to it. To find the numbers of entry i of a block, start at
the block (its skip row, or the term's start) and skip the numbers of the entries before.

Positions count the words of one field of one document. Each element of an array, and each value
that shares the field's path, begins `POSITION_GAP` after the one before, so that no phrase and no
proximity window reaches across.

Costs: 1.05 bytes a word; decoding 1 ns a number, skipping 1 ns for eight.

Worked example: a word at positions 3, 4 and 200 of a title: bytes 03, 01, C4 01.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from common.kernels.decorator import arguments, kernel
from common.kernels.intrinsics import count_ones, load_u64
from common.kernels.types import U8Array, int64, uint64

if TYPE_CHECKING:
    from numpy.typing import NDArray

POSITION_GAP: Final = 32
"""Greater than the proximity window."""
POSITION_BYTES_MAX: Final = 5

_TOP_BITS: Final = uint64(0x8080_8080_8080_8080)


@arguments
class Positions(NamedTuple):
    """The positions of a segment's words; `skip_positions` is by block, see `postings`."""

    positions: NDArray[np.uint8]
    position_starts: NDArray[np.int64]
    skip_positions: NDArray[np.uint32]


@kernel(inline=True, allocates=False)
def encode_varint(out: U8Array, cursor: int, number: int) -> int:
    """Write a number; return the cursor after it."""
    while number >= 128:
        out[cursor] = number & 127 | 128
        number >>= 7
        cursor += 1
    out[cursor] = number
    return cursor + 1


@kernel(inline=True, allocates=False)
def decode_varint(positions: U8Array, cursor: int) -> tuple[int, int]:
    """Return the number at the cursor, and the cursor after it."""
    byte = int64(positions[cursor])
    cursor += 1
    if byte < 128:
        return byte, cursor
    number = byte & 127
    shift = 7
    while True:
        byte = int64(positions[cursor])
        cursor += 1
        number |= (byte & 127) << shift
        if byte < 128:
            return number, cursor
        shift += 7


@kernel(allocates=False)
def are_bytes(positions: U8Array, cursor: int, count: int) -> bool:
    """Return whether each of the next `count` numbers takes one byte."""
    more = uint64(0)
    end = cursor + count
    while cursor + 8 <= end:
        more |= load_u64(positions, cursor)
        cursor += 8
    while cursor < end:
        more |= uint64(positions[cursor])
        cursor += 1
    return more & _TOP_BITS == 0


@kernel(inline=True, allocates=False)
def copy_varints(
    positions: U8Array, cursor: int, count: int, out: U8Array, out_cursor: int
) -> tuple[int, int]:
    """Copy `count` numbers as they are; return both cursors after them."""
    while count > 0:
        byte = positions[cursor]
        out[out_cursor] = byte
        count -= byte < 128  # the last byte of a number
        cursor += 1
        out_cursor += 1
    return cursor, out_cursor


@kernel(inline=True, allocates=False)
def skip_varints(positions: U8Array, cursor: int, count: int) -> int:
    """Skip `count` numbers; return the cursor after them."""
    if count < 8 and cursor + 8 <= len(positions):
        # Mostly each of these few takes one byte.
        ends = ~load_u64(positions, cursor) & _TOP_BITS
        few = (uint64(1) << uint64(8 * count)) - uint64(1)
        if ends & few == _TOP_BITS & few:
            return cursor + count
    while count >= 8:  # at most eight numbers end in eight bytes: count their final bytes
        count -= count_ones(~load_u64(positions, cursor) & _TOP_BITS)
        cursor += 8
    while count > 0:
        count -= positions[cursor] < 128
        cursor += 1
    return cursor
