"""Bins of a cube: in which range of its binned field each document of a segment is.

    edges 0, 10, 20, 30      price 12 → bin 2 (numbered from 1), 35 → 0: in none
                             prices 5 and 25 → `_SEVERAL`: no joint counts

They are computed for all documents of a segment at once and cached: a page asks with the same edges
at every step.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from common.errors import InvalidRequest
from common.kernels.decorator import kernel
from common.kernels.types import F64Array, U16Array, uint16
from common.protocol.messages import CubeRequest
from shard.caches.lru_cache import COLUMN_CACHE
from shard.segment.columns.number_columns import NumberColumn, number_column

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from shard.query.matches import Matches
    from shard.segment.segment import Segment
    from shard.segment.snapshot import Snapshot

_SEVERAL: Final = 0xFFFF
"""Stands for a bin: the document has numbers in several bins."""
_EXACT_END: Final = 2.0**53


@kernel(allocates=False)
def _find_bins(numbers: F64Array, edges: F64Array, bins: U16Array) -> None:
    """Write the bin + 1 of each number, 0 if it is in no bin; bin i is [edge i, edge i + 1).

    A binary search without branches: the steps are the same for all numbers.
    """
    num_edges = len(edges)
    for i in range(len(numbers)):
        number = numbers[i]
        first = 0
        size = num_edges
        while size > 1:
            half = size >> 1
            first += half if edges[first + half] <= number else 0
            size -= half
        is_in = (edges[0] <= number) & (number < edges[num_edges - 1])
        bins[i] = uint16(first + 1 if is_in else 0)


def bins_of(snapshot: Snapshot, request: CubeRequest, part: Matches) -> NDArray[np.uint16]:
    """Return the bin + 1 of each document of a segment, 0 if it is in none."""
    field = snapshot.registry.number(request.field)
    segment = part.view.segment
    column = None if field is None else number_column(segment, field)
    if column is None:
        return np.zeros(segment.num_docs, np.uint16)
    bins = COLUMN_CACHE.get_or_make(
        ("bins", segment.uid, field, request.edges),
        lambda: _bins_by_doc(column, request.edges, segment),
        lambda made: made.nbytes,
        segment,
    )
    if not column.is_dense and (bins[part.docs] == _SEVERAL).any():
        raise InvalidRequest(
            f"facet_cube needs at most one number in {request.field!r} of an item: some have "
            "several, in different bins",
            code="invalid_facet_cube",
            param="facet_cube.field",
        )
    return bins


def _bins_by_doc(
    column: NumberColumn, edges: Sequence[int | float], segment: Segment
) -> NDArray[np.uint16]:
    """Return the bin + 1 of each document of a segment."""
    if column.is_dense and column.is_exact_as_double:
        values = column.values
        bins = np.zeros(len(values), np.uint16)
        numbers = values.astype(np.float64)
        _find_bins(numbers, _doubles_from(edges), bins)
        if values.dtype.kind != "f":
            bins[values == np.iinfo(values.dtype).min] = 0
        return bins
    docs, doubles, residuals = column.pairs()
    found = np.zeros(len(docs), np.uint16)
    if residuals is None and max(map(abs, edges)) < _EXACT_END:
        _find_bins(doubles, _doubles_from(edges), found)
    else:
        numbers = doubles.astype(np.longdouble)
        if residuals is not None:
            numbers += residuals
        bin_numbers = np.searchsorted(np.array(edges, np.longdouble), numbers, side="right")
        found[:] = np.where(bin_numbers == len(edges), 0, bin_numbers)
    by_doc = np.zeros(segment.num_docs, np.uint16)
    inside = found > 0
    docs, found = docs[inside], found[inside]
    by_doc[docs] = found
    by_doc[docs[by_doc[docs] != found]] = _SEVERAL
    return by_doc


def _doubles_from(edges: Sequence[int | float]) -> NDArray[np.float64]:
    """Return the least double that is not below each edge: the same doubles are in the bins."""
    doubles = [float(edge) for edge in edges]
    return np.array(
        [
            math.nextafter(double, math.inf) if double < edge else double
            for double, edge in zip(doubles, edges, strict=True)
        ]
    )
