"""Joint counts: matches by bin of one numeric field and by value of other fields.

A page that lets people drag a range of prices knows, with these counts, every facet and histogram
for every range, and need not ask again:

    price            0-10  10-20  20-30
    all matches        4      2      1
    brand  acme        3      -      1
           bit         1      2      -
    year   1990-99     2      2      -

A document is in one bin (`cube_bins`); one with numbers in several has no joint counts, and is an
error. What is counted by the bins is a *dimension* of a segment (`cube_grid`):

    facet        its column; a row for each wanted value
    histogram    a column of bucket numbers, made once for an interval
    calendar     the column of texts; the row of a text is that of its bucket
    tree         the column of nodes
    others       pairs (document, row) of the matches

Cost: 1-2 ns a match and dimension, more where a document has several values.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from common.deadline import check_call
from common.protocol.messages import CubeCounts, CubeFacet, CubeRange, CubeRequest, RangeRequest
from shard.collect.facets.bucket_counts import in_bounds, lacks_field, scope_of_range
from shard.collect.facets.calendar_buckets import calendar_buckets
from shard.collect.facets.cube_bins import bins_of
from shard.collect.facets.cube_grid import BinnedPart, CubeGrid, Dimension, count_by_bin
from shard.collect.facets.drill_sideways import CountedMatches, Scope
from shard.collect.facets.geo_counts import points_by_bucket
from shard.collect.facets.histograms import histogram_of, intervals_of, intervals_within, numbers_of
from shard.collect.facets.match_value_pairs import (
    MatchValuePairs,
    are_among,
    field_values,
    match_value_pairs,
)
from shard.collect.facets.tree_counts import nodes_of
from shard.query.filters.filter_bitsets import resolve
from shard.segment.columns.facet_columns import FacetColumn, facet_column
from shard.segment.columns.text_ordinal_columns import text_column

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from shard.segment.snapshot import Snapshot

_LISTED_PER_CODE: Final = 1.5
"""Listing a document of a stored set and counting it takes this many times as long as a code."""


def count_cube(
    snapshot: Snapshot,
    request: CubeRequest,
    counted: CountedMatches,
) -> CubeCounts:
    """Return the joint counts of a search.

    Args:
        snapshot: to search.
        request: the bins, and the facets and ranges to count by them.
        counted: the matches to count within: of all clauses but those on the binned field.

    Raises:
        InvalidRequest: a match has numbers in several bins, an interval is too small for the
            values, or there are more counts than allowed.
    """
    num_bins = request.num_bins
    binned: dict[Scope, list[BinnedPart]] = {}

    def parts_in(scope: Scope) -> list[BinnedPart]:
        if scope not in binned:
            binned[scope] = [
                BinnedPart(one, bins_of(snapshot, request, one))
                for one in counted.within(scope)
                if one.count
            ]
        return binned[scope]

    total = np.zeros(num_bins + 1, np.int64)
    for part in parts_in(None):
        total += count_by_bin(part, num_bins)
    facets = []
    for facet in request.facets:
        check_call()
        grid = CubeGrid(request, facet.keys)
        for part in parts_in(counted.scope_of_facet(facet.facet)):
            _add_facet(snapshot, facet, part, grid)
        facets.append(grid.counts.tobytes())
    ranges = []
    for one in request.ranges:
        check_call()
        grid = CubeGrid(request, range(len(one.bounds or one.rings)))
        without = np.zeros((1, num_bins), np.uint32)
        for part in parts_in(scope_of_range(counted, one)):
            _add_range(snapshot, one, part, grid)
            if one.wants_missing:
                without += _count_without(snapshot, request, one, part)
        missing = without.tobytes() if one.wants_missing else b""
        ranges.append(CubeRange(tuple(grid.rows), grid.counts.tobytes(), missing))
    return CubeCounts(total[1:].astype(np.uint32).tobytes(), tuple(facets), tuple(ranges))


# --- dimensions -----------------------------------------------------------------------------------


def _add_facet(snapshot: Snapshot, facet: CubeFacet, part: BinnedPart, grid: CubeGrid) -> None:
    """Count the requested values of a facet, or of any other field."""
    name = facet.facet.field
    field = snapshot.registry.number(name)
    if field is None:
        return
    dictionary = snapshot.dictionaries.get(name)
    if dictionary is None:
        _add_field(snapshot, facet, field, part, grid)
        return
    length = snapshot.dictionary_lengths[name]
    rows = np.zeros(length + 1, np.uint32)  # by code
    for row, key in enumerate(facet.keys):
        number = dictionary.number(key, length)
        if number is not None:
            rows[number + 1] = row + 1
    if facet.facet.within is not None:
        pairs = match_value_pairs(snapshot, facet.facet, part.matches)
        wanted = rows[pairs.codes]
        grid.add_pairs(part, MatchValuePairs(pairs.docs[wanted > 0], wanted[wanted > 0]))
        return
    column = facet_column(part.matches.view.segment, field)
    if column is not None:
        _add_column(column, rows, part, grid)


def _add_field(
    snapshot: Snapshot, facet: CubeFacet, field: int, part: BinnedPart, grid: CubeGrid
) -> None:
    """Count the requested values of a field that is not a facet."""
    keys, every = field_values(snapshot, part.matches.view, field)
    rows = np.zeros(len(keys), np.uint32)  # by code
    known = {key: code for code, key in enumerate(keys)}
    for row, key in enumerate(facet.keys):
        if key in known:
            rows[known[key]] = row + 1
    grid.add_pairs(part, _counted(part, every.docs, rows[every.codes]))


def _add_column(
    column: FacetColumn, rows: NDArray[np.uint32], part: BinnedPart, grid: CubeGrid
) -> None:
    """Count the values of a facet that have a row, by their stored sets where that takes less."""
    row_of = {int(code) - 1: int(rows[code]) - 1 for code in np.flatnonzero(rows)}
    if column.has_sets:
        num_listed = sum([count for _, count in column.stored_sets(row_of)])
        if num_listed * _LISTED_PER_CODE < part.matches.count * column.codes_per_doc:
            grid.add_sets(part, column, row_of)
            return
    grid.add(part, Dimension(column.codes, column.starts, rows))


def _counted(
    part: BinnedPart, docs: NDArray[np.uint32], rows: NDArray[np.uint32]
) -> MatchValuePairs:
    """Return those pairs (document, row + 1) that have a row and match."""
    has_row = rows > 0
    docs, rows = docs[has_row], rows[has_row]
    is_match = are_among(part.matches, docs)
    return MatchValuePairs(docs[is_match], rows[is_match])


def _add_range(snapshot: Snapshot, request: RangeRequest, part: BinnedPart, grid: CubeGrid) -> None:
    """Count the intervals of a field."""
    field = snapshot.registry.number(request.field)
    if field is None:
        return
    matches = part.matches
    segment = matches.view.segment
    if request.bounds:
        for row, (lower, upper) in enumerate(request.bounds):
            inside = in_bounds(request, lower, upper)
            grid.add_docs(part, row, resolve(snapshot, matches.view, inside))
    elif request.rings or request.zoom is not None:
        docs, buckets = points_by_bucket(matches, field, request)
        grid.add_buckets(part, docs, buckets, lambda numbers: numbers.tolist())
    elif request.tree is not None:
        nodes = nodes_of(snapshot, segment, field, request)
        if nodes is not None:
            grid.add_present(part, nodes.column, nodes.names)
    elif request.calendar is not None:
        texts = text_column(snapshot, matches.view, field)
        if texts is not None:
            grid.add_present(part, texts.column, *calendar_buckets(texts, request, segment))
    elif request.within is not None:
        docs, numbers = intervals_within(snapshot, matches, field, request, request.within)
        grid.add_buckets(part, docs, numbers, numbers_of)
    else:
        histogram = histogram_of(segment, field, request)
        if histogram is not None:
            grid.add_present(part, histogram.column, numbers_of(histogram.numbers))
        else:
            docs, numbers, _ = intervals_of(matches, field, request)
            grid.add_buckets(part, docs, numbers, numbers_of)


def _count_without(
    snapshot: Snapshot, cube: CubeRequest, request: RangeRequest, part: BinnedPart
) -> NDArray[np.uint32]:
    """Count the matches without the field of a range; uint32, one row by bin."""
    grid = CubeGrid(cube, [""])
    grid.add_docs(part, 0, resolve(snapshot, part.matches.view, lacks_field(request)))
    return grid.counts
