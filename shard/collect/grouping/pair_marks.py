"""Distinct pairs of a facet's value and a group, found by marking a bit for each.

    match   values      group           bits: 0 1 2 3 (groups)      pairs, in the order of matches
    5       drama       2        ─▶     drama   . 1 1 .       ─▶    drama 2, crime 2, drama 1
    8       drama crime 1, 2, 2         crime   . . 1 .
    …

The bits of a thread stay, all zeros, and each use clears just what it has marked: 3 to 5 ns for
each value of a match. Sorting the pairs takes five times as long.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from common.kernels.decorator import arguments, kernel
from common.kernels.types import U32Array, U64Array, int64, uint64
from shard.segment.columns.code_counting import Codes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from shard.query.matches import Matches
    from shard.segment.columns.facet_columns import FacetColumn

BITS_MAX: Final = 1 << 25
"""Pairs of more values and groups are sorted instead: the bits of a thread take 4 MB at most."""


@arguments
class Pairs(NamedTuple):
    """Pairs of a value and a group, each once."""

    codes: NDArray[np.uint32]
    """Number of the value + 1; 0: the match has none."""
    groups: NDArray[np.uint32]


@kernel(allocates=False)
def _add_pairs(
    docs: U32Array,
    groups: U32Array,
    codes: Codes,
    starts: U32Array,
    takes_missing: bool,
    num_groups: int,
    bits: U64Array,
    pairs: Pairs,
    num_pairs: int,
) -> int:
    """Add the pairs of the documents of a segment that are not marked yet, and mark them.

    Args:
        docs: ascending.
        groups: of each, counted from 1; 0: it is in none.
        codes: of the facet's column.
        starts: of the column.
        takes_missing: whether documents without a value have the pair of code 0.
        num_groups: of all matches.
        bits: by code and group.
        pairs: written, with room for one more than there are.
        num_pairs: how many there are already.

    Returns:
        How many there are now.
    """
    for i in range(len(docs)):
        if groups[i] == 0:
            continue
        group = groups[i] - 1
        begin = int64(docs[i])
        end = begin + 1
        is_missing = False
        if len(starts) == 0:
            is_missing = codes[begin] == 0
        else:
            end = int64(starts[begin + 1])
            begin = int64(starts[begin])
            is_missing = begin == end
        if is_missing:
            end = begin + int64(takes_missing)
        for position in range(begin, end):
            code = 0 if is_missing else int64(codes[position])
            at = code * num_groups + int64(group)
            mark = uint64(1) << uint64(at & 63)
            word = bits[at >> 6]
            bits[at >> 6] = word | mark
            pairs.codes[num_pairs] = code
            pairs.groups[num_pairs] = group
            num_pairs += 1 if word & mark == 0 else 0
    return num_pairs


@kernel(allocates=False)
def _clear(pairs: Pairs, num_pairs: int, num_groups: int, bits: U64Array) -> None:
    """Clear the bits of the pairs."""
    for i in range(num_pairs):
        at = int64(pairs.codes[i]) * num_groups + int64(pairs.groups[i])
        bits[at >> 6] = 0


class _Marks(threading.local):
    """The bits of a thread."""

    def __init__(self) -> None:
        self.bits: NDArray[np.uint64] = np.zeros(0, np.uint64)


_MARKS: Final = _Marks()


def marked_pairs(
    matches: Sequence[tuple[Matches, NDArray[np.uint32], FacetColumn]],
    num_values: int,
    num_groups: int,
    *,
    takes_missing: bool,
) -> Pairs:
    """Return the distinct pairs of the matches of all segments, in the order of the first matches.

    Args:
        matches: by segment; with the group of each from 1 (0: none), and the facet's column.
        num_values: of the facet's dictionary.
        num_groups: of all matches; `(num_values + 1) * num_groups` is at most `BITS_MAX`.
        takes_missing: whether matches without a value have the code 0.
    """
    length = ((num_values + 1) * num_groups + 63) >> 6
    if len(_MARKS.bits) < length:
        _MARKS.bits = np.zeros(length, np.uint64)
    capacity = 1
    for part, _, column in matches:
        capacity += part.count if column.is_single else part.count + len(column.codes)
    capacity = min(capacity, (num_values + 1) * num_groups + 1)
    pairs = Pairs(np.empty(capacity, np.uint32), np.empty(capacity, np.uint32))
    count = 0
    for part, groups, column in matches:
        count = _add_pairs(
            part.docs,
            groups,
            column.codes,
            column.starts,
            takes_missing,
            num_groups,
            _MARKS.bits,
            pairs,
            count,
        )
    _clear(pairs, count, num_groups, _MARKS.bits)
    return Pairs(pairs.codes[:count], pairs.groups[:count])
