"""Histograms: the bucket of an interval that each number of the matches is in, counted.

Bucket number floor(value / interval); for numbers beyond 2^53 in long doubles (64 bits of mantissa)
if the interval is whole, of the double below if it is not. Few matches: one sort of their buckets;
many: the segment's buckets are made a column once, and its codes are counted:

    price, interval 10       7.5    12     19     none
    bucket                   0      1      1      –
    codes of the column      1      2      2      0       numbers 0, 1

A page shows the same histogram with every search, so a column is also made once enough documents
were counted by several searches.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from common.distinct_values import distinct_values
from common.errors import InvalidRequest
from common.protocol.messages import RangeRequest
from common.query_syntax_tree import Same
from shard.caches.derived_values import derived
from shard.caches.lru_cache import COLUMN_CACHE
from shard.collect.facets.match_value_pairs import are_among, distinct_pairs
from shard.collect.nested.passing_elements import list_passing
from shard.query.filters.filter_bitsets import element_view
from shard.query.matches import Matches
from shard.segment.columns.code_counting import count_codes
from shard.segment.columns.facet_column_builder import build_column
from shard.segment.columns.facet_columns import FacetColumn
from shard.segment.columns.number_columns import int64_residuals, number_column

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from shard.segment.segment import Segment
    from shard.segment.snapshot import Snapshot

_COUNTED_PER_BUCKET: Final = 8
"""Buckets whose numbers span less than this many times their number are counted by an array."""
_HISTOGRAM_SHARE: Final = 8
"""A histogram is made a column once searches have counted 1 / `_HISTOGRAM_SHARE` of a segment's
documents by it."""
_TALLIES_MAX: Final = 64
"""Histograms of a segment whose counted documents are added up."""
_SPAN_MAX: Final = 1 << 20
"""Bucket numbers that span less than this are deduplicated by an array, others by a sort."""
_EXACT_END: Final = 2.0**53
_INTEGER_END: Final = 2.0**63
"""Bucket numbers from twice this on (or below minus this) are sent as floats."""


class BucketCounts(NamedTuple):
    """How many matches are in each bucket that has any."""

    numbers: NDArray[Any]
    """Of the buckets, ascending: int64, or whole floats."""
    counts: NDArray[np.int64]


def count_intervals(
    snapshot: Snapshot, part: Matches, field: int, request: RangeRequest
) -> BucketCounts:
    """Return how many matches of a segment are in each bucket that has any.

    Raises:
        InvalidRequest: the interval is too small for the numbers.
    """
    if request.within is not None:
        docs, buckets = intervals_within(snapshot, part, field, request, request.within)
        return tally(distinct_pairs(docs, buckets).codes)
    if pays_off(part, _histogram_key(part.view.segment, field, request)):
        histogram = histogram_of(part.view.segment, field, request)
        if histogram is not None:
            return count_histogram(part, histogram)
    docs, buckets, is_single = intervals_of(part, field, request)
    if not is_single:
        buckets = distinct_pairs(docs, buckets).codes
    return tally(buckets)


def tally(buckets: NDArray[Any]) -> BucketCounts:
    """Return how many times each distinct bucket occurs."""
    if not len(buckets):
        return BucketCounts(buckets, np.zeros(0, np.int64))
    lowest = buckets.min()
    if buckets.max() - lowest >= _COUNTED_PER_BUCKET * len(buckets):
        return BucketCounts(*np.unique(buckets, return_counts=True))
    counts = np.bincount((buckets - lowest).astype(np.int64))
    present = np.flatnonzero(counts)
    return BucketCounts(present + lowest, counts[present])


def added_up(parts: Sequence[BucketCounts]) -> BucketCounts:
    """Add up the counts of several segments."""
    if len(parts) == 1:
        return parts[0]
    if not parts:
        return BucketCounts(np.zeros(0, np.int64), np.zeros(0, np.int64))
    numbers = distinct_values(np.concatenate([part.numbers for part in parts]))
    counts = np.zeros(len(numbers), np.int64)
    for part in parts:
        counts[np.searchsorted(numbers, part.numbers)] += part.counts
    return BucketCounts(numbers, counts)


class BucketColumn(NamedTuple):
    """The buckets of all numbers of a field of a segment."""

    column: FacetColumn
    """Codes are the position of the number + 1."""
    numbers: NDArray[Any]
    """Of the buckets, ascending."""


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
        raise InvalidRequest(
            f"the interval {request.interval:g} is too small for the values of {request.field!r}",
            code="invalid_facet_ranges",
            param=f"facet_ranges.{request.field}.interval",
        )
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


def numbers_of(buckets: NDArray[np.floating[Any]]) -> list[int | float]:
    """Return numbers of buckets as they are sent."""
    return [
        int(key) if -_INTEGER_END <= key < 2 * _INTEGER_END else float(key)
        for key in buckets.tolist()
    ]


def encoded_numbers(numbers: NDArray[Any]) -> bytes | tuple[int | float, ...]:
    """Return numbers of buckets as the keys of `RangeCounts`."""
    if numbers.dtype == np.int64:
        return numbers.tobytes()
    if ((numbers >= -_INTEGER_END) & (numbers < _INTEGER_END)).all():
        return numbers.astype(np.int64).tobytes()
    return tuple(numbers_of(numbers))


def _histogram_key(segment: Segment, field: int, request: RangeRequest) -> Hashable:
    return ("histogram", segment.uid, field, request.interval)


def has_histogram(segment: Segment, field: int, request: RangeRequest) -> bool:
    """Return whether the buckets of a field are at hand as a column."""
    return COLUMN_CACHE.get(_histogram_key(segment, field, request)) is not None


def histogram_of(segment: Segment, field: int, request: RangeRequest) -> BucketColumn | None:
    """Return the buckets of all numbers of a field, cached.

    Returns:
        None if the segment has no numbers there, or some for which the interval is too small.

    Cost: 10 ns a number to build, 1-2 bytes a document kept.
    """
    key = _histogram_key(segment, field, request)
    histogram: BucketColumn | None = COLUMN_CACHE.get(key)
    if histogram is not None:
        return histogram
    column = number_column(segment, field)
    if column is None:
        return None
    docs, doubles, residuals = column.pairs()
    buckets = _buckets(doubles, residuals, request)
    if not len(docs) or not np.isfinite(buckets).all():
        return None
    distinct, codes = numbered(buckets)
    return keep_histogram(segment, key, docs, codes, distinct)


def numbered(buckets: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.uint32]]:
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


def keep_histogram(
    segment: Segment,
    key: Hashable,
    docs: NDArray[np.uint32],
    codes: NDArray[np.uint32],
    numbers: NDArray[Any],
) -> BucketColumn:
    """Make a histogram of pairs (document, position of a bucket in `numbers`), and cache it."""
    arrays = build_column(docs, codes, segment.num_docs)
    histogram = BucketColumn(FacetColumn(arrays, segment.num_docs), numbers)
    num_bytes = sum(array.nbytes for array in arrays.values()) + numbers.nbytes
    COLUMN_CACHE.put(key, histogram, num_bytes, segment)
    return histogram


def count_histogram(part: Matches, histogram: BucketColumn) -> BucketCounts:
    """Return how many matches are in each bucket that has any."""
    by_code = np.zeros(len(histogram.numbers) + 1, np.uint32)
    count_codes(part.docs, histogram.column.codes, histogram.column.starts, by_code)
    present = np.flatnonzero(by_code[1:])
    return BucketCounts(histogram.numbers[present], by_code[present + 1].astype(np.int64))


@derived
def _tallies(_: Segment) -> dict[Hashable, int]:
    """Return how many documents were counted since a column was made last, by its key."""
    return {}


def pays_off(part: Matches, key: Hashable) -> bool:
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
