"""Bucket counts: matching documents by interval, cell, node or looked up value.

    bounds     given intervals      each one a Range filter, intersected with the matches: exact for
                                    numbers beyond 2^53, texts, several values, overlaps; a cached
                                    filter costs 2 µs
    interval   histogram            bucket number floor(value / interval): `histograms`
    rings      distances            from a point, of every point that a document has: `geo_counts`
    zoom       cells of a grid      of such points
    calendar   year, week, hour …   the beginning of ISO dates: each distinct text is parsed once,
                                    then codes are counted by bucket
    values     of any field         by facet key, for fields that are not facets

A document counts once per bucket, however many of its values are in it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from common.distinct_values import without_repeats
from common.errors import PayloadTooLarge
from common.protocol.messages import RangeCounts, RangeRequest, SearchRequest, elements_of
from common.query_syntax_tree import And, Exists, Filter, Not, Range, Same
from shard.collect.facets.calendar_buckets import calendar_buckets
from shard.collect.facets.geo_counts import count_points
from shard.collect.facets.histograms import (
    BucketCounts,
    added_up,
    count_intervals,
    encoded_numbers,
)
from shard.collect.facets.match_value_pairs import are_among, distinct_pairs, field_values
from shard.collect.facets.tree_counts import count_nodes
from shard.query.filters.filter_bitsets import resolve
from shard.query.matches import Matches
from shard.segment.columns.text_ordinal_columns import text_column
from shard.segment.doc_sets import count_docs

if TYPE_CHECKING:
    from shard.collect.facets.drill_sideways import CountedMatches, Scope
    from shard.segment.snapshot import Snapshot

_VALUES_CHARS_MAX: Final = 32 << 20
"""Characters of the values of a field that is not a facet, among the matches: all are sent, and the
coordinator needs several times as many bytes to add up those of all shards."""


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
    field = snapshot.registry.number(request.field)
    parts = [part for part in matches if part.count] if field is not None else []
    missing = _count_missing(snapshot, request, matches) if request.wants_missing else 0
    if request.tree is not None or request.is_of_values or request.calendar is not None:
        by_key: Counter[str] = Counter()
        for part in parts:
            assert field is not None, "parts without the field"
            by_key.update(_count_keys(snapshot, part, field, request))
        if request.is_of_values:
            _check_size(request, by_key)
        keys = tuple(sorted(by_key))
        counts = np.array([by_key[key] for key in keys], np.uint32)
        return RangeCounts(request.field, keys, counts.tobytes(), missing)
    num_given = len(request.bounds or request.rings)
    given = BucketCounts(np.arange(num_given), np.zeros(num_given, np.int64))
    counted = [given] if num_given else []
    for part in parts:
        assert field is not None, "parts without the field"
        counted.append(_count_numbers(snapshot, part, field, request))
    total = added_up(counted)
    encoded = total.counts.astype(np.uint32).tobytes()
    return RangeCounts(request.field, encoded_numbers(total.numbers), encoded, missing)


def _check_size(request: RangeRequest, keys: Iterable[str]) -> None:
    """Refuse to send too many characters of values."""
    if sum(map(len, keys)) > _VALUES_CHARS_MAX:
        raise PayloadTooLarge(
            f"the hits have more than {_VALUES_CHARS_MAX >> 20} million characters of different "
            f"values of {request.field!r} on one shard, too many to count for one request; name "
            "it in the configuration's aggregations"
        )


def _count_numbers(
    snapshot: Snapshot, part: Matches, field: int, request: RangeRequest
) -> BucketCounts:
    """Return how many matches of one segment are in each interval, ring or cell that has any."""
    if request.rings or request.zoom is not None:
        return count_points(part, field, request)
    if request.interval is not None:
        return count_intervals(snapshot, part, field, request)
    return _count_bounds(snapshot, part, request)


def _count_keys(
    snapshot: Snapshot, part: Matches, field: int, request: RangeRequest
) -> dict[str, int]:
    """Return how many matches of one segment have each node, value or date that any has."""
    if request.tree is not None:
        return count_nodes(snapshot, part, field, request)
    if request.is_of_values:
        return _count_values(snapshot, part, field)
    return _count_dates(snapshot, part, field, request)


def _count_missing(snapshot: Snapshot, request: RangeRequest, matches: Sequence[Matches]) -> int:
    """Return how many matches do not have the field."""
    missing = 0
    field = snapshot.registry.number(request.field)
    for part in matches:
        if part.count and request.is_of_values:
            missing += part.count
            if field is not None:
                docs = field_values(snapshot, part.view, field).pairs.docs
                missing -= len(without_repeats(docs[are_among(part, docs)]))
        elif part.count:
            missing += int(
                count_docs(part.bitset & resolve(snapshot, part.view, lacks_field(request)))
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


def _count_bounds(snapshot: Snapshot, part: Matches, request: RangeRequest) -> BucketCounts:
    counts = []
    for lower, upper in request.bounds:
        bitset = resolve(snapshot, part.view, in_bounds(request, lower, upper))
        counts.append(int(count_docs(bitset & part.bitset)))
    return BucketCounts(np.arange(len(counts)), np.array(counts, np.int64))


def _count_values(snapshot: Snapshot, part: Matches, field: int) -> dict[str, int]:
    keys, pairs = field_values(snapshot, part.view, field)
    counts = np.bincount(pairs.codes[are_among(part, pairs.docs)], minlength=len(keys))
    return {keys[code]: int(counts[code]) for code in np.flatnonzero(counts).tolist()}


def _count_dates(
    snapshot: Snapshot, part: Matches, field: int, request: RangeRequest
) -> dict[str, int]:
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
        buckets = distinct_pairs(docs[is_match], buckets).codes
    counts = np.bincount(buckets, minlength=1)
    counts[0] = 0
    return {keys[bucket - 1]: int(counts[bucket]) for bucket in np.flatnonzero(counts).tolist()}
