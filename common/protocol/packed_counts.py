"""The wire format of facet counts: those of all facets of a search, concatenated.

    packed   uint16[]        | facet | facet | …               numbers of two units: low half first

    facet    | form | 0 | length, 2 units | content |

    form     content                                           used where
    0        count of value 0, 1, …          1 unit each       many values have a count
    1        count of value 0, 1, …          2 units each      … and one of them is 65,536 or more
    2        (number, count) pairs           1 + 1 units       most values have none
    3        (number, count) pairs           2 + 2 units       … and one number or count is as great

`length` is the number of counts or pairs. Pairs come in any order, each number once, its count
greater than 0. Sixteen bits are enough for nearly all facets, and the counts are copied five times
on the way to the sum, so narrow forms save more than distinguishing them costs.

A count array that is packed has index code = number + 1; index 0 counts what has no value. Packing
sets it back to zeros, so that it can be used again without a pass of its own.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from common.kernels.decorator import kernel
from common.kernels.intrinsics import load_u32
from common.kernels.types import (
    BoolArray,
    I64Array,
    ReadOnly,
    Rows,
    U16Array,
    U32Array,
    int64,
    uint16,
    uint32,
)

HEADER_UNITS: Final = 4
NARROW_END: Final = 1 << 16
"""The first number or count that needs two units."""

_NARROW_COUNTS: Final = 0
_WIDE_COUNTS: Final = 1
_NARROW_PAIRS: Final = 2
_WIDE_PAIRS: Final = 3

EVERY: Final = -1
"""Stands for the number of touched values: any value may have a count."""


def units_max(num_values: int) -> int:
    """Return how many units the counts of a facet take at most while they are packed."""
    return HEADER_UNITS + 4 * (num_values + 1)


@kernel(inline=True)
def _write_wide(packed: U16Array, at: int, number: int) -> None:
    packed[at] = uint16(number & 0xFFFF)
    packed[at + 1] = uint16(number >> 16)


@kernel(inline=True)
def _write_header(packed: U16Array, at: int, form: int, length: int) -> None:
    packed[at] = uint16(form)
    packed[at + 1] = uint16(0)
    _write_wide(packed, at + 2, length)


@kernel
def pack_counts(counts: U32Array, num_values: int, packed: U16Array, at: int) -> tuple[int, int]:
    """Write the counts of a facet in its shortest form, by a walk over all of its values.

    Args:
        counts: by code; zeros afterwards.
        num_values: codes are [0, num_values].
        packed: output, with room for `units_max(num_values)` more units.
        at: where to begin.

    Returns:
        Where the facet ends, and how many of its values have a count.
    """
    # Choose the form: how many values have a count, and how large is the greatest?
    num_present = 0
    greatest = uint32(0)
    for code in range(1, num_values + 1):
        num_present += 1 if counts[code] != 0 else 0
        greatest = max(greatest, counts[code])
    begin = at + HEADER_UNITS
    if 2 * num_present >= num_values:
        if greatest < NARROW_END:
            _write_header(packed, at, _NARROW_COUNTS, num_values)
            for number in range(num_values):
                packed[begin + number] = uint16(counts[number + 1])
            end = begin + num_values
        else:
            _write_header(packed, at, _WIDE_COUNTS, num_values)
            for number in range(num_values):
                _write_wide(packed, begin + 2 * number, int64(counts[number + 1]))
            end = begin + 2 * num_values
    elif greatest < NARROW_END and num_values <= NARROW_END:
        _write_header(packed, at, _NARROW_PAIRS, num_present)
        end = begin
        for number in range(num_values):
            count = counts[number + 1]
            # Write every pair, keep those with a count: no branch that mispredicts.
            packed[end] = uint16(number)
            packed[end + 1] = uint16(count)
            end += 2 if count != 0 else 0
    else:
        _write_header(packed, at, _WIDE_PAIRS, num_present)
        end = begin
        for number in range(num_values):
            count = counts[number + 1]
            if count != 0:
                _write_wide(packed, end, number)
                _write_wide(packed, end + 2, int64(count))
                end += 4
    counts[: num_values + 1] = 0
    return end, num_present


@kernel
def pack_touched(
    counts: U32Array,
    touched: U32Array,
    num_touched: int,
    num_values: int,
    packed: U16Array,
    at: int,
) -> tuple[int, int]:
    """Write the counts of a facet as pairs, looking at some codes only.

    Args:
        counts: by code; zeros afterwards.
        touched: the codes that have a count, each once.
        num_touched: how many.
        num_values: codes are [0, num_values].
        packed: output, with room for `units_max(num_values)` more units.
        at: where to begin.

    Returns:
        As `pack_counts`.
    """
    # Code 0 is not a value; the greatest count decides the width of all pairs.
    greatest = uint32(0)
    num_present = num_touched
    for i in range(num_touched):
        if touched[i] == 0:
            num_present -= 1
        else:
            greatest = max(greatest, counts[touched[i]])
    is_wide = greatest >= NARROW_END or num_values > NARROW_END
    _write_header(packed, at, _WIDE_PAIRS if is_wide else _NARROW_PAIRS, num_present)
    end = at + HEADER_UNITS
    for i in range(num_touched):
        code = int64(touched[i])
        count = counts[code]
        counts[code] = 0
        if code != 0:
            if is_wide:
                _write_wide(packed, end, code - 1)
                _write_wide(packed, end + 2, int64(count))
                end += 4
            else:
                packed[end] = uint16(code - 1)
                packed[end + 1] = uint16(count)
                end += 2
    return end, num_present


@kernel(inline=True)
def _read_wide(packed: ReadOnly[U16Array], at: int) -> int:
    return int64(load_u32(packed, at))


@kernel
def add_packed(
    packed: ReadOnly[U16Array],
    ends: I64Array,
    shards: I64Array,
    to_number: Rows[np.uint32],
    is_same: BoolArray,
    sums: I64Array,
    touched: U32Array,
) -> int:
    """Add one facet of all shards' packed counts to sums that are zeros.

    Args:
        packed: the counts of some shards, concatenated.
        ends: by response: where the facet begins; its end afterwards.
        shards: by response: which shard sent it.
        to_number: by shard: our number of each of its numbers.
        is_same: by shard: whether these are the same.
        sums: by our number.
        touched: output, the numbers that have a sum; one element longer than there are values.

    Returns:
        The number of touched values, or `EVERY` if any may have a sum.
    """
    num_touched: Any = 0
    for i in range(len(ends)):
        shard = shards[i]
        at = ends[i]
        form = int64(packed[at])
        length = _read_wide(packed, at + 2)
        at += HEADER_UNITS
        # Plain counts may give every value a sum: then there is no list of touched ones.
        if form < _NARROW_PAIRS:
            num_touched = EVERY
        # Where the shard numbers values as we do, the narrow form is one vector addition.
        if form == _NARROW_COUNTS and is_same[shard]:
            for number in range(length):
                sums[number] += int64(packed[at + number])
            ends[i] = at + length
        elif form == _NARROW_COUNTS:
            for number in range(length):
                sums[to_number[shard, number]] += int64(packed[at + number])
            ends[i] = at + length
        elif form == _WIDE_COUNTS:
            for number in range(length):
                sums[to_number[shard, number]] += _read_wide(packed, at + 2 * number)
            ends[i] = at + 2 * length
        else:
            units = 2 if form == _NARROW_PAIRS else 4
            for pair in range(at, at + units * length, units):
                if form == _NARROW_PAIRS:
                    target: Any = int64(to_number[shard, packed[pair]])
                    count: Any = int64(packed[pair + 1])
                else:
                    target = int64(to_number[shard, _read_wide(packed, pair)])
                    count = _read_wide(packed, pair + 2)
                # Write always, count only a new one: cheaper than a branch that mispredicts.
                if num_touched != EVERY:
                    touched[num_touched] = target
                    num_touched += 1 if sums[target] == 0 else 0
                sums[target] += count
            ends[i] = at + units * length
    return int(num_touched)


@kernel
def clear_sums(sums: I64Array, num_values: int, touched: U32Array, num_touched: int) -> None:
    """Set the sums that `add_packed` has made back to zeros."""
    if num_touched == EVERY:
        sums[:num_values] = 0
    else:
        for i in range(num_touched):
            sums[touched[i]] = 0
