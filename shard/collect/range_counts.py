"""Range counts: matching documents by interval of their values.

    bounds     given intervals      each one a Range filter, intersected with the matches: exact for
                                    numbers beyond 2^53, texts, several values, overlaps; a cached
                                    filter costs 2 µs
    interval   histogram            bucket number floor(value / interval); for numbers beyond 2^53
                                    in long doubles (64 bits of mantissa) if the interval is whole,
                                    of the double below if it is not. Few matches: one sort of their
                                    buckets; many: the segment's buckets are made a column once,
                                    whose codes are counted
    rings      distances            from a point, of every point that a document has
    zoom       cells of a grid      row * 2^zoom + column: degrees, halved once a level
    calendar   year, week, hour …   the beginning of ISO dates: each distinct text is parsed once,
                                    then codes are counted by bucket
    values     of any field         by facet key, for fields that are not facets

A document counts once per bucket, however many of its values are in it.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import numpy as np

from common.errors import PayloadTooLarge
from common.protocol.messages import RangeCounts, RangeRequest, SearchRequest, elements_of
from common.query import And, Exists, Filter, Not, Range, Same
from shard.caches.derived import derived
from shard.caches.lru_cache import COLUMN_CACHE
from shard.collect.calendars import bucket_of
from shard.collect.facet_pairs import are_among, field_values
from shard.collect.nested_elements import list_passing
from shard.collect.trees import count_nodes
from shard.query.filters import element_view, resolve
from shard.query.matches import Matches
from shard.segment.code_counts import count_codes
from shard.segment.doc_sets import count_docs
from shard.segment.facet_columns import FacetColumn, build_column
from shard.segment.geo_columns import geo_column
from shard.segment.number_columns import int64_residuals, number_column
from shard.segment.text_columns import TextColumn, text_column

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from shard.collect.counted_matches import CountedMatches, Scope
    from shard.segment.segment import Segment
    from shard.segment.snapshot import Snapshot

_Counts: TypeAlias = dict[int | float | str, int]
"""By position of the bounds, number of the bucket, or date."""
_COUNTED_PER_POINT: Final = 8
"""If cell numbers stay below this many times the points, an array counts them; otherwise a sort."""
_HISTOGRAM_SHARE: Final = 8
"""Once 1 / `_HISTOGRAM_SHARE` of a segment's documents were counted, by one search or by several,
their histogram is made a column."""
_TALLIES_MAX: Final = 64
"""Histograms for which a segment notes this."""
_NAME_BYTES: Final = 100
"""Bytes of the name of a bucket."""
_VALUES_CHARS_MAX: Final = 32 << 20
"""Characters of the values of a field that is not a facet, among the matches: all are sent, and the
coordinator needs several times as many bytes to add up those of all shards."""
_SPAN_MAX: Final = 1 << 20
"""Bucket numbers that span less than this are deduplicated by an array, others by a sort."""
_EXACT_END: Final = 2.0**53
_INTEGER_END: Final = 2.0**63
"""Bucket numbers from twice this on (or below minus this) are sent as floats."""


def count_ranges(
    snapshot: Snapshot, request: RangeRequest, matches: Sequence[Matches]
) -> RangeCounts:
    """Return how many matches have a value in each interval.

    Args:
        snapshot: to search.
        request: field and intervals.
        matches: by segment of the snapshot.

    Returns:
        For given bounds a count for each, by position; otherwise the buckets that have documents,
        ascending.

    Raises:
        InvalidRequest: an interval is too small for the values.
        PayloadTooLarge: the values of a field that is not a facet are too long, or too many.
    """
    counts: _Counts = dict.fromkeys(range(len(request.bounds or request.rings)), 0)
    field = snapshot.registry.number(request.field)
    for part in matches:
        if field is not None and part.count:
            for key, count in _count_part(snapshot, part, field, request).items():
                counts[key] = counts.get(key, 0) + count
    if request.is_of_values and sum(map(len, map(str, counts))) > _VALUES_CHARS_MAX:
        raise PayloadTooLarge(
            f"the hits have more than {_VALUES_CHARS_MAX >> 20} million characters of different "
            f"values of {request.field!r} on one shard, too many to count for one request; name "
            "it in the configuration's aggregations"
        )
    keys = sorted(counts)
    missing = _count_missing(snapshot, request, matches) if request.wants_missing else 0
    return RangeCounts(request.field, tuple(keys), tuple(counts[key] for key in keys), missing)


def _count_part(snapshot: Snapshot, part: Matches, field: int, request: RangeRequest) -> _Counts:
    """Return how many matches of one segment have a value in each interval that has any."""
    if request.tree is not None:
        return count_nodes(snapshot, part, field, request)
    if request.rings or request.zoom is not None:
        return _count_points(part, field, request)
    if request.interval is not None:
        return _count_intervals(snapshot, part, field, request)
    if request.is_of_values:
        return _count_values(snapshot, part, field)
    if request.calendar is not None:
        return _count_dates(snapshot, part, field, request)
    return _count_bounds(snapshot, part, request)


def _count_missing(snapshot: Snapshot, request: RangeRequest, matches: Sequence[Matches]) -> int:
    """Return how many matches do not have the field."""
    missing = 0
    field = snapshot.registry.number(request.field)
    for part in matches:
        if part.count and request.is_of_values:
            missing += part.count
            if field is not None:
                docs = field_values(snapshot, part.view, field).pairs.docs
                missing -= len(np.unique(docs[are_among(part, docs)]))
        elif part.count:
            missing += int(
                count_docs(part.words & resolve(snapshot, part.view, lacks_field(request)))
            )
    return missing


def all_ranges(request: SearchRequest) -> Sequence[RangeRequest]:
    """Return all ranges that a search counts."""
    return request.ranges if request.cube is None else (*request.ranges, *request.cube.ranges)


def group_of(request: RangeRequest) -> str:
    """Return what the clauses are marked with that the counts leave out."""
    if request.within is not None:
        return elements_of(request.within.field)
    return request.tree or request.field


def scope_of_range(counted: CountedMatches, request: RangeRequest) -> Scope:
    """Return the scope of the counts; of elements, without the clauses on these."""
    leaves_out_own = request.leaves_out_own or request.within is not None
    return counted.scope(group_of(request), leaves_out_own=leaves_out_own)


def in_bounds(request: RangeRequest, lower: Any, upper: Any) -> Filter:
    """Return what the documents counted between two bounds pass."""
    inside = Range(request.field, lower, False, upper, True)
    if request.within is None:
        return inside
    return Same(request.within.field, And((request.within.condition, inside)))


def lacks_field(request: RangeRequest) -> Filter:
    """Return what the documents without the field pass; of elements, none that counts has it."""
    has_field = Exists(request.field)
    if request.within is None:
        return Not(has_field)
    field, condition = request.within.field, request.within.condition
    return And((request.within, Not(Same(field, And((condition, has_field))))))


def _count_bounds(snapshot: Snapshot, part: Matches, request: RangeRequest) -> _Counts:
    counts: _Counts = {}
    for position, (lower, upper) in enumerate(request.bounds):
        words = resolve(snapshot, part.view, in_bounds(request, lower, upper))
        counts[position] = int(count_docs(words & part.words))
    return counts


def _count_points(part: Matches, field: int, request: RangeRequest) -> _Counts:
    """Count documents by the rings or cells of their points."""
    grid = None
    if request.zoom is not None and _pays_off(
        part, _grid_key(part.view.segment, field, request.zoom)
    ):
        grid = grid_of(part.view.segment, field, request.zoom)
    if grid is not None:
        return _count_histogram(part, grid)
    docs, buckets = points_by_bucket(part, field, request)
    if (docs[1:] <= docs[:-1]).any():
        buckets = _distinct_pairs(docs, buckets)
    if int(buckets.max(initial=0)) < _COUNTED_PER_POINT * len(buckets):
        counts = np.bincount(buckets)
        numbers = np.flatnonzero(counts)
        counts = counts[numbers]
    else:
        numbers, counts = np.unique(buckets, return_counts=True)
    return dict(zip(numbers.tolist(), counts.tolist(), strict=True))


@derived
def _tallies(_: Segment) -> dict[Hashable, int]:
    """Return how many documents were counted since a column was made last, by its key."""
    return {}


def _pays_off(part: Matches, key: Hashable) -> bool:
    """Return whether to count by a column of buckets: it is there, or many documents are counted.

    A page that shows the same histogram with every search finds it in a column even if each search
    finds little.
    """
    if COLUMN_CACHE.get(key) is not None:
        return True
    segment = part.view.segment
    tallies = _tallies(segment)
    counted = tallies.pop(key, 0) + part.count
    if counted * _HISTOGRAM_SHARE >= segment.num_docs:
        return True
    if len(tallies) < _TALLIES_MAX:
        tallies[key] = counted
    return False


def _grid_key(segment: Segment, field: int, zoom: int) -> Hashable:
    return ("grid", segment.uid, field, zoom)


def _histogram_key(segment: Segment, field: int, request: RangeRequest) -> Hashable:
    return ("histogram", segment.uid, field, request.interval)


def grid_of(segment: Segment, field: int, zoom: int) -> _Histogram | None:
    """Return the cells of all points of a field, cached; None if a segment has no points.

    Cost: 30 ns a point to build, 1-4 bytes a point kept.
    """
    key = _grid_key(segment, field, zoom)
    grid: _Histogram | None = COLUMN_CACHE.get(key)
    column = geo_column(segment, field)
    if grid is None and column is not None:
        numbers, codes = _numbered(cells(column.lats, column.lngs, zoom))
        grid = _keep_histogram(segment, key, column.docs, codes, numbers.tolist())
    return grid


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


def _count_intervals(
    snapshot: Snapshot, part: Matches, field: int, request: RangeRequest
) -> _Counts:
    if request.within is not None:
        docs, buckets = intervals_within(snapshot, part, field, request, request.within)
        keys, counts = np.unique(_distinct_pairs(docs, buckets), return_counts=True)
        return dict(zip(numbers_of(keys), counts.tolist(), strict=True))
    if _pays_off(part, _histogram_key(part.view.segment, field, request)):
        histogram = histogram_of(part.view.segment, field, request)
        if histogram is not None:
            return _count_histogram(part, histogram)
    docs, buckets, is_single = intervals_of(part, field, request)
    if not is_single:
        buckets = _distinct_pairs(docs, buckets)
    if not len(buckets):
        return {}
    lowest = buckets.min()
    if buckets.max() - lowest < _COUNTED_PER_POINT * len(buckets):
        counts = np.bincount((buckets - lowest).astype(np.int64))
        present = np.flatnonzero(counts)
        keys, counts = present + lowest, counts[present]
    else:
        keys, counts = np.unique(buckets, return_counts=True)
    return dict(zip(numbers_of(keys), counts.tolist(), strict=True))


def intervals_of(
    part: Matches, field: int, request: RangeRequest
) -> tuple[NDArray[np.uint32], NDArray[np.floating[Any]], bool]:
    """Return the number of the bucket of each number of the matches.

    Returns:
        (documents, numbers, whether each document has one number only).

    Raises:
        InvalidRequest: the interval is too small for the numbers.
    """
    column = number_column(part.view.segment, field)
    if column is None:
        return np.zeros(0, np.uint32), np.zeros(0), True
    docs: NDArray[np.uint32]
    if column.is_dense and column.residuals is None:
        docs, values = part.docs, column.values[part.docs]
        has_number = (
            ~np.isnan(values) if values.dtype.kind == "f" else values != np.iinfo(values.dtype).min
        )
        docs, buckets = docs[has_number], _buckets(values[has_number], None, request)
    else:
        docs, doubles, residuals = column.pairs()
        is_match = are_among(part, docs)
        docs = docs[is_match]
        buckets = _buckets(
            doubles[is_match], None if residuals is None else residuals[is_match], request
        )
    if not np.isfinite(buckets).all():
        raise request.too_small_interval()
    return docs, buckets, column.is_dense


def intervals_within(
    snapshot: Snapshot, part: Matches, field: int, request: RangeRequest, within: Same
) -> tuple[NDArray[np.uint32], NDArray[np.floating[Any]]]:
    """Return the number of the bucket of each number of the elements that pass, and its document.

    Raises:
        InvalidRequest: the interval is too small for the numbers.
    """
    elements = element_view(snapshot, part.view.segment, within.field)
    if elements is None:
        return np.zeros(0, np.uint32), np.zeros(0)
    passing = list_passing(snapshot, elements, within.condition)
    passing = passing[are_among(part, elements.docs[passing])]
    of_elements, buckets, _ = intervals_of(Matches(elements.view, docs=passing), field, request)
    return elements.docs[of_elements], buckets


class _Histogram(NamedTuple):
    """The buckets of all numbers of a field of a segment."""

    column: FacetColumn
    """Codes are the position of the key + 1."""
    keys: list[int | float]
    """Numbers of the buckets, ascending."""


def histogram_of(segment: Segment, field: int, request: RangeRequest) -> _Histogram | None:
    """Return the buckets of all numbers of a field, cached.

    Returns:
        None if the segment has no numbers there, or some for which the interval is too small.

    Cost: 10 ns a number to build, 1-2 bytes a document kept.
    """
    key = _histogram_key(segment, field, request)
    histogram: _Histogram | None = COLUMN_CACHE.get(key)
    if histogram is not None:
        return histogram
    column = number_column(segment, field)
    if column is None:
        return None
    docs, doubles, residuals = column.pairs()
    buckets = _buckets(doubles, residuals, request)
    if not len(docs) or not np.isfinite(buckets).all():
        return None
    distinct, codes = _numbered(buckets)
    return _keep_histogram(segment, key, docs, codes, numbers_of(distinct))


def _numbered(buckets: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.uint32]]:
    """Return the distinct buckets, ascending, and each bucket's position among these.

    Args:
        buckets: at least one.
    """
    lowest = buckets.min()
    if buckets.max() - lowest >= _SPAN_MAX:
        distinct, positions = np.unique(buckets, return_inverse=True)
        return distinct, positions.reshape(-1).astype(np.uint32)
    offsets = (buckets - lowest).astype(np.int64)
    present = np.flatnonzero(np.bincount(offsets))
    position_of = np.zeros(int(present[-1]) + 1, np.uint32)
    position_of[present] = np.arange(len(present), dtype=np.uint32)
    return present + lowest, position_of[offsets]


def _keep_histogram(
    segment: Segment,
    key: Hashable,
    docs: NDArray[np.uint32],
    codes: NDArray[np.uint32],
    keys: list[int | float],
) -> _Histogram:
    """Make a histogram of pairs (document, position of a bucket among `keys`), and cache it."""
    arrays = build_column(docs, codes, segment.num_docs)
    histogram = _Histogram(FacetColumn(arrays, segment.num_docs), keys)
    num_bytes = sum(array.nbytes for array in arrays.values()) + 40 * len(keys)
    COLUMN_CACHE.put(key, histogram, num_bytes, segment)
    return histogram


def _count_histogram(part: Matches, histogram: _Histogram) -> _Counts:
    """Return how many matches are in each bucket that has any."""
    by_code = np.zeros(len(histogram.keys) + 1, np.uint32)
    count_codes(part.docs, histogram.column.codes, histogram.column.starts, by_code)
    return {
        histogram.keys[code]: int(by_code[code + 1])
        for code in np.flatnonzero(by_code[1:]).tolist()
    }


def numbers_of(buckets: NDArray[np.floating[Any]]) -> list[int | float]:
    """Return numbers of buckets as they are sent."""
    return [
        int(key) if -_INTEGER_END <= key < 2 * _INTEGER_END else float(key)
        for key in buckets.tolist()
    ]


def _buckets(
    values: NDArray[Any], residuals: NDArray[np.int16] | None, request: RangeRequest
) -> NDArray[np.floating[Any]]:
    """Return the number of each value's bucket; infinite if the interval is too small for it.

    Args:
        values: integers, or doubles.
        residuals: by how much each number exceeds its double; None: all are exact.
        request: with an interval.
    """
    assert request.interval is not None, "no histogram"
    with np.errstate(over="ignore"):
        doubles = values.astype(np.float64)
        if isinstance(request.interval, float):
            if values.dtype == np.int64:
                residuals = int64_residuals(values, doubles)
            if residuals is not None:
                # Edges are doubles: they divide numbers as they divide the doubles below these.
                doubles = np.where(residuals < 0, np.nextafter(doubles, -np.inf), doubles)
        buckets: NDArray[np.floating[Any]] = np.floor(doubles / request.interval)
        if values.dtype.kind == "f" or isinstance(request.interval, float):
            # The edges that are sent are rounded products; the quotients are rounded otherwise.
            buckets -= doubles < buckets * request.interval
            buckets += doubles >= (buckets + 1) * request.interval
    if isinstance(request.interval, int) and values.dtype.itemsize == 8:
        is_long = np.abs(values) >= _EXACT_END
        if is_long.any():
            numbers = values[is_long].astype(np.longdouble)
            if residuals is not None:
                numbers += residuals[is_long]
            buckets = buckets.astype(np.longdouble)
            buckets[is_long] = np.floor(numbers / request.interval)
    return buckets


def _count_values(snapshot: Snapshot, part: Matches, field: int) -> _Counts:
    keys, pairs = field_values(snapshot, part.view, field)
    counts = np.bincount(pairs.codes[are_among(part, pairs.docs)], minlength=len(keys))
    return {keys[code]: int(counts[code]) for code in np.flatnonzero(counts).tolist()}


def _count_dates(snapshot: Snapshot, part: Matches, field: int, request: RangeRequest) -> _Counts:
    texts = text_column(snapshot, part.view, field)
    if texts is None:
        return {}
    keys, bucket_of_code = calendar_buckets(texts, request, part.view.segment)
    column = texts.column
    if column.is_single:
        buckets = bucket_of_code[column.codes[part.docs]]
    else:
        docs = np.repeat(np.arange(column.num_docs), np.diff(column.starts))
        is_match = are_among(part, docs)
        buckets = bucket_of_code[column.codes[is_match]]
        buckets = _distinct_pairs(docs[is_match], buckets)
    counts = np.bincount(buckets, minlength=1)
    counts[0] = 0
    return {keys[bucket - 1]: int(counts[bucket]) for bucket in np.flatnonzero(counts).tolist()}


def calendar_buckets(
    texts: TextColumn, request: RangeRequest, segment: Segment
) -> tuple[list[str], NDArray[np.int64]]:
    """Return the keys of the buckets, and by code the bucket's position + 1 (0: no date).

    Cached with the segment that first needed them.
    """
    assert request.calendar is not None, "no calendar"
    memo_key = ("calendar", texts.identity, request.calendar, request.time_zone)
    known: tuple[list[str], NDArray[np.int64]] | None = COLUMN_CACHE.get(memo_key)
    if known is not None:
        return known
    positions: dict[str, int] = {}
    bucket_of_code = np.zeros(texts.num_values + 1, np.int64)
    for number, key in enumerate(texts.all_keys()):
        name = bucket_of(key.decode("utf-8", "replace"), request.calendar, request.time_zone)
        if name is not None:
            bucket = positions.setdefault(name, len(positions) + 1)
            bucket_of_code[number + 1] = bucket
    buckets = list(positions), bucket_of_code
    num_bytes = bucket_of_code.nbytes + _NAME_BYTES * len(positions)
    COLUMN_CACHE.put(memo_key, buckets, num_bytes, segment)
    return buckets


def _distinct_pairs(docs: NDArray[Any], buckets: NDArray[Any]) -> NDArray[Any]:
    """Return the bucket of each distinct (document, bucket) pair."""
    order = np.lexsort((buckets, docs))
    docs, buckets = docs[order], buckets[order]
    is_new = np.ones(len(docs), np.bool_)
    is_new[1:] = (docs[1:] != docs[:-1]) | (buckets[1:] != buckets[:-1])
    return buckets[is_new]
