"""Groups the values of a batch by column: the first step of every builder of columns.

An extraction has the values of a batch in document order, all fields mixed. A column needs those of
its field, of certain kinds, in document order. One counting sort serves all columns at once: two
passes of 1.5 ns a value, however many columns there are.

    field   3 7 3 5 7      group_of_field  3 → 0, 7 → 1, others -1
    values  0 1 2 3 4      selection [0 2 | 1 4]     offsets [0 2 4]
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from common.kernels.decorator import kernel
from common.kernels.types import I32Array, I64Array, int64
from common.value_kinds_and_facet_keys import FACET_KEY_BYTES_MAX, Shape, ValueKind
from shard.segment.items.value_extraction import Extraction

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

_NESTED = int(Shape.NESTED)
_STRING = int(ValueKind.STRING)
_BYTES_MAX = FACET_KEY_BYTES_MAX

NUMBER_KINDS = (1 << ValueKind.INTEGER) | (1 << ValueKind.FLOAT)
"""Bit set of `ValueKind`: numbers."""
KEY_KINDS = NUMBER_KINDS | (1 << ValueKind.STRING) | (1 << ValueKind.TRUE) | (1 << ValueKind.FALSE)
"""Bit set of `ValueKind`: those with a facet key (texts that are empty or too long have none)."""
TEXT_KINDS = 1 << ValueKind.STRING


class Groups(NamedTuple):
    """Positions of the selected values, group by group."""

    selection: NDArray[np.int64]
    """Positions in the extraction, ascending within a group."""
    offsets: NDArray[np.int64]
    """Group g is selection[offsets[g]:offsets[g + 1]]."""


@kernel(inline=True, allocates=False)
def _is_selected(extraction: Extraction, value: int, kinds: int) -> bool:
    """Return whether a value is of one of the kinds, not nested, and no text without a key."""
    kind = extraction.kind[value]
    if (kinds >> int64(kind)) & 1 == 0 or extraction.shape[value] == _NESTED:
        return False
    num_bytes = extraction.end[value] - extraction.start[value]
    return kind != _STRING or 0 < num_bytes <= _BYTES_MAX


@kernel(allocates=False)
def _count_groups(
    extraction: Extraction, group_of_field: I32Array, kinds: int, counts: I64Array
) -> None:
    for i in range(len(extraction.field)):
        if extraction.field[i] < len(group_of_field):
            group = group_of_field[extraction.field[i]]
            if group >= 0 and _is_selected(extraction, i, kinds):
                counts[group + 1] += 1


@kernel(allocates=False)
def _fill_groups(
    extraction: Extraction,
    group_of_field: I32Array,
    kinds: int,
    cursors: I64Array,
    selection: I64Array,
) -> None:
    for i in range(len(extraction.field)):
        if extraction.field[i] < len(group_of_field):
            group = group_of_field[extraction.field[i]]
            if group >= 0 and _is_selected(extraction, i, kinds):
                selection[cursors[group]] = i
                cursors[group] += 1


def group_values(extraction: Extraction, fields: Sequence[int], kinds: int) -> Groups:
    """Select the values of some fields that filters, facets and sorting use.

    Values nested deeper than the elements of an array, and texts that are empty or longer than
    `FACET_KEY_BYTES_MAX`, are left out.

    Args:
        extraction: the values of a batch.
        fields: field numbers; a field's position here is its group.
        kinds: bit set of `ValueKind`.

    Returns:
        Positions of the values by group.
    """
    group_of_field = np.full(max(fields, default=-1) + 1, -1, np.int32)
    group_of_field[list(fields)] = np.arange(len(fields), dtype=np.int32)
    offsets = np.zeros(len(fields) + 1, np.int64)
    _count_groups(extraction, group_of_field, kinds, offsets)
    np.cumsum(offsets, out=offsets)
    selection = np.empty(int(offsets[-1]), np.int64)
    _fill_groups(extraction, group_of_field, kinds, offsets[:-1].copy(), selection)
    return Groups(selection, offsets)
