"""The order of documents by distance from a point: a sort column computed per search, never stored.

A document's distance is that of its nearest point; documents without a point count as missing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from shard.segment.columns.geo_columns import geo_column
from shard.segment.columns.permutations import Permutation
from shard.segment.columns.sort_columns import SortColumn
from shard.segment.columns.sort_keys import MISSING_KEY, ordered_keys

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from shard.segment.segment import Segment


class DistanceColumn(SortColumn):
    """Distances of one segment's documents from a point, for one search."""

    __slots__ = ("_column", "_point")

    def __init__(self, segment: Segment, field: int, point: tuple[float, float]) -> None:
        super().__init__(segment.num_docs)
        self._column = geo_column(segment, field)
        self._point = point

    def keys(
        self, docs: NDArray[np.uint32], *, is_descending: bool, is_missing_first: bool
    ) -> NDArray[np.uint64]:
        """Return the keys of some documents; see `SortColumn.keys`. Cost: 40 ns a point."""
        distances = self._distances(docs)
        keys = ordered_keys(distances, is_descending=is_descending)
        missing_key = np.uint64(0 if is_missing_first else MISSING_KEY)
        return np.where(np.isnan(distances), missing_key, keys)

    def values(self, docs: NDArray[np.uint32]) -> list[Any]:
        """Return the distances of documents in metres, None for those without a point."""
        return [None if one != one else one for one in self._distances(docs).tolist()]

    def closest(self, docs: NDArray[np.uint32], k: int) -> NDArray[np.uint32]:
        """Return the given documents, ascending, that can be among the k closest."""
        return docs if self._column is None else self._column.closest(docs, *self._point, k)

    def permutation(self) -> Permutation | None:
        """Return None: no point is used often enough for a permutation to pay off."""
        return None

    def _distances(self, docs: NDArray[np.uint32]) -> NDArray[np.float64]:
        if self._column is None:
            return np.full(len(docs), np.nan)
        return self._column.nearest(docs, *self._point)
