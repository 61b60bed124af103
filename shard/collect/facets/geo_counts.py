"""Grids and rings: in which cell of a map, or at which distance, each point of the matches is.

    zoom     cells of a grid      row * 2^zoom + column: degrees, halved once a level
    rings    distances            from a point, of every point that a document has

As with histograms, few points are looked at one by one, and the cells of all of a segment's points
become a column where many are counted.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING

import numpy as np

from common.protocol.messages import RangeRequest
from shard.caches.lru_cache import COLUMN_CACHE
from shard.collect.facets.histograms import (
    BucketColumn,
    BucketCounts,
    count_histogram,
    keep_histogram,
    numbered,
    pays_off,
    tally,
)
from shard.collect.facets.match_value_pairs import are_among, distinct_pairs
from shard.query.matches import Matches
from shard.segment.columns.geo_columns import geo_column

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from shard.segment.segment import Segment


def count_points(part: Matches, field: int, request: RangeRequest) -> BucketCounts:
    """Count documents by the rings or cells of their points."""
    segment = part.view.segment
    if request.zoom is not None and pays_off(part, _grid_key(segment, field, request.zoom)):
        grid = _grid_of(segment, field, request.zoom)
        if grid is not None:
            return count_histogram(part, grid)
    docs, buckets = points_by_bucket(part, field, request)
    if (docs[1:] <= docs[:-1]).any():
        buckets = distinct_pairs(docs, buckets).codes
    return tally(buckets)


def points_by_bucket(
    part: Matches, field: int, request: RangeRequest
) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
    """Return the ring or cell of each point of the matches that is in one, and its document."""
    column = geo_column(part.view.segment, field)
    if column is None:
        return np.zeros(0, np.uint32), np.zeros(0, np.int64)
    docs: NDArray[np.uint32] = part.docs
    points = docs
    if not column.is_one_each:
        points = np.flatnonzero(are_among(part, column.docs)).astype(np.uint32)
        docs = column.docs[points]
    if request.origin is not None:
        distances = column.distances(points, *request.origin)
        buckets = np.searchsorted(np.array(request.rings), distances, side="right") - 1
        docs, buckets = docs[buckets >= 0], buckets[buckets >= 0]
    else:
        assert request.zoom is not None, "neither rings nor cells"
        buckets = cells(column.lats[points], column.lngs[points], request.zoom)
    return docs, buckets


def cells(lats: NDArray[np.float64], lngs: NDArray[np.float64], zoom: int) -> NDArray[np.int64]:
    """Return the cell of each point: row * 2^zoom + column, from 180° west and the north pole."""
    num_rows = 1 << zoom
    columns = np.floor((lngs + 180.0) / (360.0 / num_rows)).astype(np.int64)
    rows = np.floor((90.0 - lats) / (180.0 / num_rows)).astype(np.int64)
    # The south pole belongs to the last row; rounding may push a point past the eastern end.
    return np.minimum(rows, num_rows - 1) * num_rows + np.minimum(columns, num_rows - 1)


def _grid_key(segment: Segment, field: int, zoom: int) -> Hashable:
    return ("grid", segment.uid, field, zoom)


def has_grid(segment: Segment, field: int, zoom: int) -> bool:
    """Return whether the cells of a field are at hand as a column."""
    return COLUMN_CACHE.get(_grid_key(segment, field, zoom)) is not None


def _grid_of(segment: Segment, field: int, zoom: int) -> BucketColumn | None:
    """Return the cells of all points of a field, cached; None if a segment has no points.

    Cost: 30 ns a point to build, 1-4 bytes a point kept.
    """
    key = _grid_key(segment, field, zoom)
    grid: BucketColumn | None = COLUMN_CACHE.get(key)
    column = geo_column(segment, field)
    if grid is None and column is not None:
        numbers, codes = numbered(cells(column.lats, column.lngs, zoom))
        grid = keep_histogram(segment, key, column.docs, codes, numbers)
    return grid
