"""Predicts which reads take longer than a few milliseconds: these run on a thread.

A column may have to be built first, or the query has many words. The figures are the limits beyond
which a read takes milliseconds.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from common.protocol.messages import (
    FilterClause,
    FilterFactor,
    RangeRequest,
    SearchRequest,
    SortKey,
    StatisticsRequest,
    TextQuery,
)
from shard.caches.derived_values import derived
from shard.collect.facets.bucket_counts import all_ranges
from shard.collect.facets.geo_counts import has_grid
from shard.collect.facets.histograms import has_histogram
from shard.collect.facets.tree_counts import needs_nodes
from shard.collect.grouping.distinct_hits import num_values_at_hand
from shard.collect.nested.element_order import needs_element_order
from shard.query.filters import filter_bitsets
from shard.query.pruning.single_term_top_k import DEEP_HITS_MIN
from shard.query.scoring import boosting
from shard.query.spelling.completions_and_near_spellings import is_slow_to_list
from shard.query.text.text_cost import is_slow_text, num_matches_max, words_of
from shard.query.text.whole_field_matches import is_slow_to_find
from shard.read.field_classes_of_snapshot import field_classes_of
from shard.read.matching import needs_all_scores
from shard.segment.columns.geo_columns import geo_column
from shard.segment.columns.sort_columns import needs_column

if TYPE_CHECKING:
    from shard.segment.snapshot import Snapshot

VALUES_FAST_MAX: Final = 200_000
"""Counting facets of more values than this takes milliseconds, whatever the hits are."""
JOINT_FAST_MAX: Final = 20_000
"""Joint counts and sums over more documents than this take milliseconds."""
JOINT_KEYS_FAST_MAX: Final = 200
"""Statistics of more values are slow: 10 µs each."""
NUMBERED_FAST_MAX: Final = 100_000
"""Numbering the intervals or cells of more documents than this is slow: 10 to 30 ns each."""
DISTANCES_FAST_MAX: Final = 30_000
"""Measuring the distances of more documents takes milliseconds: 100 ns each."""
DISTINCT_FAST_MAX: Final = 50_000
"""Scoring more matches than this, to tell them apart by value, is slow."""
DISTINCT_ORDERED_FAST_MAX: Final = 200_000
"""The same where a field orders them: they are counted by value, and few are scored."""
DISTINCT_VALUES_FAST_MAX: Final = 50_000
"""Counting matches by more values than this is slow, however few they are."""
BOOSTED_FAST_MAX: Final = 100_000
"""Multiplying more scores than this by factors is slow: 10-25 ns each."""
HITS_FAST_MAX: Final = 20_000
"""Ordering and encoding more hits than this takes milliseconds."""


def is_slow(snapshot: Snapshot, request: SearchRequest) -> bool:
    """Return whether a search is likely to take more than a few milliseconds."""
    if request.num_hits > HITS_FAST_MAX:
        return True
    if request.terms is not None and is_slow_to_list(snapshot, request.terms):
        return True
    if request.distinct is not None:
        num_values = num_values_at_hand(snapshot, request.distinct.field)
        if num_values is None or num_values > DISTINCT_VALUES_FAST_MAX:
            return True
    if request.facets and _num_values(snapshot) > VALUES_FAST_MAX:
        lengths = snapshot.dictionary_lengths
        if sum([lengths.get(one.field, 0) for one in request.facets]) > VALUES_FAST_MAX:
            return True
    query = request.query
    if query is not None:
        if _is_slow_to_match(snapshot, request, query):
            return True
        if query.whole and _is_slow_to_find(snapshot, (query.whole,)):
            return True
    is_joint = request.value_statistics or request.cube is not None
    if (request.ranges or is_joint) and _is_slow_to_range(snapshot, request):
        return True
    for key in request.sort:
        if _is_slow_to_order(snapshot, key):
            return True
    if request.is_boosted or request.distinct is not None:
        if _are_many_matches_scored(snapshot, request):
            return True
        for boost in request.boosts:
            for view in snapshot.views:
                if boosting.is_slow(snapshot, view, boost):
                    return True
    conditions: tuple[FilterClause | FilterFactor, ...] = (*request.filters, *request.factors)
    for one in conditions:
        for view in snapshot.views:
            if filter_bitsets.is_slow(snapshot, view, one.filter):
                return True
    return False


def _is_slow_to_match(snapshot: Snapshot, request: SearchRequest, query: TextQuery) -> bool:
    """Return whether the words of a query, and what is counted along, likely take milliseconds."""
    absent = request.assumed_absent
    words = words_of(query.clauses)
    num_needed = len(words) if query.required >= len(query.clauses) else 0
    if query.excluded:
        words += words_of((), query.excluded)
    num_others = 0 if absent is None else _num_others(absent)
    return is_slow_text(
        snapshot,
        words,
        field_classes_of(snapshot),
        num_others,
        num_needed,
        is_best_only=_wants_best_only(request),
    )


def _wants_best_only(request: SearchRequest) -> bool:
    """Return whether of the hits only some of the best by score are wanted, and their number."""
    if needs_all_scores(request) or request.has_counts:
        return False
    is_narrowed = request.filters or request.ids or request.pins
    num_best = request.num_hits + (request.num_skipped or 0)
    return num_best < DEEP_HITS_MIN and not is_narrowed


@derived
def _num_values(snapshot: Snapshot) -> int:
    """Return how many values all facets have."""
    return sum(snapshot.dictionary_lengths.values())


def _are_many_matches_scored(snapshot: Snapshot, request: SearchRequest) -> bool:
    """Return whether telling all matches apart, or boosting them, likely takes milliseconds."""
    limit = snapshot.num_docs
    distinct = request.distinct
    if distinct is not None:
        is_ordered = bool(request.sort) and not distinct.counts_groups and request.groups is None
        limit = min(limit, DISTINCT_ORDERED_FAST_MAX if is_ordered else DISTINCT_FAST_MAX)
    num_factors = len(request.boosts) + len(request.factors)
    if num_factors:
        limit = min(limit, BOOSTED_FAST_MAX // num_factors)
    if snapshot.num_docs <= limit:
        return False
    return num_matches_max(snapshot, request.query, field_classes_of(snapshot)) > limit


def _is_slow_to_order(snapshot: Snapshot, key: SortKey) -> bool:
    """Return whether the order of a field, of distances or of elements has to be made first."""
    field = None if key.field is None else snapshot.registry.number(key.field)
    if field is None:
        return False
    for view in snapshot.views:
        if key.within is not None:
            is_slow = needs_element_order(view, field, key)
        elif key.point is not None:
            column = geo_column(view.segment, field)
            is_slow = column is not None and column.is_slow_to_order(
                is_descending=key.is_descending
            )
        else:
            is_slow = needs_column(snapshot, view, field, key.collation)
        if is_slow:
            return True
    return False


def _is_slow_to_range(snapshot: Snapshot, request: SearchRequest) -> bool:
    """Return whether ranges, joint counts and sums are likely to take milliseconds."""
    for one in all_ranges(request):
        if one.calendar is not None or one.is_of_values:
            field = snapshot.registry.number(one.field)
            for view in snapshot.views:
                if field is not None and needs_column(snapshot, view, field):
                    return True
    if snapshot.num_docs > filter_bitsets.KEYS_FAST_MAX and any(
        one.calendar is not None or one.is_of_values for one in all_ranges(request)
    ):
        return True
    for one in all_ranges(request):
        if one.tree is not None:
            for view in snapshot.views:
                num_docs = view.segment.num_docs
                if num_docs > filter_bitsets.KEYS_FAST_MAX and needs_nodes(
                    snapshot, view.segment, one
                ):
                    return True
        elif _is_slow_to_number(snapshot, one):
            return True
    is_joint = request.value_statistics or request.cube is not None
    return bool(is_joint) and (
        snapshot.num_docs > JOINT_FAST_MAX or _num_joint_keys(request) > JOINT_KEYS_FAST_MAX
    )


def _is_slow_to_number(snapshot: Snapshot, request: RangeRequest) -> bool:
    """Return whether the intervals or cells of matches are likely to take milliseconds."""
    interval, zoom = request.interval, request.zoom
    field = snapshot.registry.number(request.field)
    if field is not None and request.origin is not None:
        return snapshot.num_docs > DISTANCES_FAST_MAX
    if field is None or (interval is None and zoom is None):
        return False
    num_docs = 0
    for view in snapshot.views:
        segment = view.segment
        if request.within is None and (
            has_histogram(segment, field, request)
            if zoom is None
            else has_grid(segment, field, zoom)
        ):
            continue
        num_docs += segment.num_docs
    return num_docs > NUMBERED_FAST_MAX


def _num_joint_keys(request: SearchRequest) -> int:
    """Return how many values of facets are counted jointly with others."""
    facets = request.value_statistics if request.cube is None else request.cube.facets
    return sum([len(one.keys) for one in facets])


def is_slow_to_count(snapshot: Snapshot, request: StatisticsRequest) -> bool:
    """Return whether `statistics` is likely to take more than a few milliseconds."""
    classes = field_classes_of(snapshot)
    return is_slow_text(snapshot, request.words, classes, _num_others(request)) or _is_slow_to_find(
        snapshot, request.wholes
    )


def _is_slow_to_find(snapshot: Snapshot, wholes: Iterable[tuple[str, ...]]) -> bool:
    """Return whether fields that are nothing but some words take milliseconds to find."""
    return any(is_slow_to_find(view.segment, one) for one in wholes for view in snapshot.views)


def _num_others(request: StatisticsRequest) -> int:
    """Return the number of document frequencies to count, other than those of words."""
    return len(request.spacings) + len(request.wholes) + 4 * len(request.cuts)
