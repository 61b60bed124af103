"""READ PATH of a shard: pure functions of a snapshot and a message.

    SearchRequest ─▶ 1 plan      which clauses count for everything, which leave out a facet
                     2 match     by segment: filters → bitset, query → scored documents (`matching`)
                     3 count     facets and ranges, each over the matches that it wants
                     4 select    the best hits over all segments (top_k)
                     5 harvest   insertion numbers, scores, records, sort values, first documents

A search holds one snapshot from start to end and never waits: all it reads is memory or the page
cache. It takes 20-1,000 µs, so it runs on the event loop; a search that `search_cost` predicts to
take longer runs on a thread. Between segments, clauses and counts a search checks whether the
caller is still waiting.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from common.deadline import check_call
from common.errors import PayloadTooLarge
from common.hits_page_byte_limit import PAGE_BYTES_MAX
from common.item_placement import hash_id
from common.protocol.messages import (
    DistinctCounts,
    Pin,
    RangeCounts,
    RangeRequest,
    SearchRequest,
    SearchResponse,
)
from shard.collect.facets.bucket_counts import count_ranges, scope_of_range
from shard.collect.facets.drill_sideways import CountedMatches
from shard.collect.facets.facet_counts import count_facets
from shard.collect.facets.facet_cube import count_cube
from shard.collect.facets.statistics_by_facet_value import value_statistics
from shard.collect.grouping.distinct_hits import select_distinct
from shard.collect.grouping.group_sizes_hits_and_counts import GroupCounter, select_groups
from shard.collect.nested.matching_elements import matching_elements
from shard.collect.top_hits.hits_and_sort_values import Hits, hits_of, packed_sort_values
from shard.collect.top_hits.top_k import select_hits
from shard.query.matches import Matches
from shard.query.scoring.boosting import explain_boosts
from shard.query.spelling.completions_and_near_spellings import near_terms
from shard.query.text.prepared_query import PreparedQuery
from shard.query.text.score_explanation import explain_score
from shard.read.corpus_statistics import statistics
from shard.read.field_classes_of_snapshot import field_classes_of
from shard.read.highlight import is_slow_to_mark, mark_documents
from shard.read.matching import PinnedHits, match
from shard.segment.columns.external_ids import find_live

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from shard.segment.snapshot import Snapshot


_NO_PIN_NUMBERS: Final[tuple[int, ...]] = ()


def search(snapshot: Snapshot, request: SearchRequest) -> SearchResponse:
    """Run one search over one snapshot.

    Raises:
        DeadlineExceeded: the caller has stopped waiting.
    """
    started = time.perf_counter_ns()
    absent = None
    if request.assumed_absent is not None:
        absent = statistics(snapshot, request.assumed_absent)
        if absent.has_any:
            return SearchResponse(
                0, b"", b"", b"", (), (), (), (), (), (0, 0, 0), statistics=absent
            )
    if request.ids:
        snapshot = _only(snapshot, request.ids)
    found = match(snapshot, request)
    matched = time.perf_counter_ns()
    groups = None
    if request.distinct is not None and request.distinct.counts_groups:
        groups = GroupCounter(snapshot, request, found.counted)
    facets, packed_counts = count_facets(
        snapshot, request.facets, found.counted if groups is None else groups.ungrouped
    )
    ranges = _count_ranges(snapshot, request.ranges, found.counted) if request.ranges else ()
    counted = time.perf_counter_ns()
    check_call()
    hits, distinct = _select(snapshot, request, found.ranked)
    pinned, pin_numbers = None, _NO_PIN_NUMBERS
    if found.pinned:
        pinned, pin_numbers = _pinned_answer(snapshot, request, found.pinned)
    ordered = time.perf_counter_ns()
    documents, marks = _sent_along(snapshot, request, hits.records[: request.num_documents])
    return SearchResponse(
        found.total,
        *_hit_columns(snapshot, request, hits),
        documents=documents,
        facets=facets,
        ranges=ranges,
        explanations=_explain(snapshot, request, hits) if request.wants_explanation else (),
        timings_us=(
            (matched - started) // 1_000,
            (counted - matched) // 1_000,
            (ordered - counted) // 1_000,
        ),
        facet_counts=packed_counts,
        elements=_elements_of(snapshot, request, hits) if request.wants_elements else (),
        pinned=pinned,
        pin_numbers=pin_numbers,
        distinct=distinct,
        facet_groups=() if groups is None else tuple(map(groups.pairs, request.facets)),
        value_statistics=value_statistics(snapshot, request.value_statistics, found.counted)
        if request.value_statistics
        else (),
        statistics=absent,
        cube=None if request.cube is None else count_cube(snapshot, request.cube, found.counted),
        terms=None if request.terms is None else near_terms(snapshot, request.terms),
        num_pinned=found.num_pinned,
        marks=marks,
    )


def _count_ranges(
    snapshot: Snapshot, requests: Sequence[RangeRequest], counted: CountedMatches
) -> tuple[RangeCounts, ...]:
    """Count the ranges of a search."""
    ranges: list[RangeCounts] = []
    for one in requests:
        check_call()
        matches = counted.within(scope_of_range(counted, one))
        ranges.append(count_ranges(snapshot, one, matches))
    return tuple(ranges)


def _only(snapshot: Snapshot, ids: Sequence[bytes]) -> Snapshot:
    """Return a snapshot with only the items whose ids have the hash of one of these."""
    hashes = np.array([hash_id(id) for id in ids], np.uint64)
    views = []
    for view in snapshot.views:
        _, docs = find_live(view.segment, view.live_mask, hashes)
        views.append(view.only(docs))
    return snapshot.with_views(tuple(views))


def _select(
    snapshot: Snapshot, request: SearchRequest, matches: list[Matches]
) -> tuple[Hits, DistinctCounts | None]:
    """Return the requested hits, best first."""
    if request.distinct is None:
        return select_hits(snapshot, matches, request, request.num_hits), None
    if request.groups is not None:
        return select_groups(snapshot, request, matches)
    return select_distinct(snapshot, request, matches)


def _pinned_answer(
    snapshot: Snapshot, request: SearchRequest, pinned: Sequence[PinnedHits]
) -> tuple[SearchResponse | None, tuple[int, ...]]:
    """Return the pinned hits, at least one, in order of their numbers, and the numbers."""
    views = np.concatenate([np.full(len(part.pins.docs), part.view) for part in pinned])
    docs = np.concatenate([part.pins.docs for part in pinned])
    numbers = np.concatenate([part.pins.numbers for part in pinned])
    scores = None
    if request.has_scores:
        scores = np.concatenate(
            [np.zeros(len(part.pins.docs)) if part.scores is None else part.scores
             for part in pinned]
        )  # fmt: skip
    hits = hits_of(snapshot, views, docs, scores).take(np.argsort(numbers))
    ordered = tuple(np.sort(numbers).tolist())
    explanations = _explain(snapshot, request, hits, [request.pins[one] for one in ordered])
    return _answer_of(snapshot, request, hits, explanations), ordered


_HitColumns: TypeAlias = tuple[bytes, bytes, bytes, tuple[bytes | tuple[Any, ...], ...]]
"""Places, scores, records and sort values of hits, best first, as they are sent."""


def _hit_columns(snapshot: Snapshot, request: SearchRequest, hits: Hits) -> _HitColumns:
    """Return the columns of some hits."""
    _, _, places, records, scores = hits
    return (
        places.tobytes(),
        b"" if scores is None else scores.tobytes(),
        records.tobytes(),
        tuple(map(partial(packed_sort_values, snapshot, hits), request.sort)),
    )


def _sent_along(
    snapshot: Snapshot, request: SearchRequest, records: NDArray[np.uint64]
) -> tuple[tuple[bytes, ...], tuple[dict[str, Any], ...]]:
    """Return the documents of some hits, and the marks of each if requested.

    None if they are too large, or too large to be marked on the event loop: they are fetched then.
    """
    if not len(records):
        return (), ()
    try:
        documents = tuple(snapshot.read_documents(records, PAGE_BYTES_MAX))
    except PayloadTooLarge:
        return (), ()
    if request.highlight is None:
        return documents, ()
    if is_slow_to_mark(documents):
        return (), ()
    return documents, mark_documents(snapshot, documents, request.query, request.highlight)


def _elements_of(
    snapshot: Snapshot, request: SearchRequest, hits: Hits
) -> tuple[dict[str, list[int]], ...]:
    """Return the elements of nested fields for which each hit passed."""
    filters = [clause.filter for clause in request.filters]
    return matching_elements(snapshot, hits.views, hits.docs, filters)


def _answer_of(
    snapshot: Snapshot, request: SearchRequest, hits: Hits, explanations: tuple[Any, ...]
) -> SearchResponse:
    """Return a response with hits only."""
    num_documents = len(hits.docs) if request.num_documents else 0
    documents, marks = _sent_along(snapshot, request, hits.records[:num_documents])
    return SearchResponse(
        len(hits.docs),
        *_hit_columns(snapshot, request, hits),
        documents=documents,
        facets=(),
        ranges=(),
        explanations=explanations,
        timings_us=(0, 0, 0),
        elements=_elements_of(snapshot, request, hits) if request.wants_elements else (),
        marks=marks,
    )


def _explain(
    snapshot: Snapshot, request: SearchRequest, hits: Hits, pins: Sequence[Pin] = ()
) -> tuple[Any, ...]:
    """Return the parts of each hit's score, if requested.

    Args:
        snapshot: that was searched.
        request: the search.
        hits: of the search.
        pins: the pin of each hit; empty for hits that are not pinned.
    """
    if not request.wants_explanation or not (request.has_scores or pins):
        return ()
    prepared = None
    if request.query is not None:
        prepared = PreparedQuery(request.query, snapshot.registry, field_classes_of(snapshot))
    explanations = []
    for i, (ordinal, doc) in enumerate(zip(hits.views.tolist(), hits.docs.tolist(), strict=True)):
        check_call()
        view = snapshot.views[ordinal]
        explanation: dict[str, Any] = {"score": 0.0, "parts": []}
        # A pinned item that the query does not match scores 0.
        if hits.scores is not None and hits.scores[i] > 0:
            of_words = None if prepared is None else explain_score(view, prepared, doc)
            if of_words is not None:
                explanation = of_words
            if request.is_boosted:
                explanation = explain_boosts(snapshot, view, doc, request, of_words)
        if pins:
            explanation["parts"].append(
                {
                    "kind": "pin",
                    "score": 0.0,
                    "rule": pins[i].rule,
                    "position": pins[i].position,
                }
            )
        explanations.append(explanation)
    return tuple(explanations)
