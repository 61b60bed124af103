"""READ PATH of a shard: pure functions of a snapshot and a message.

    SearchRequest ─▶ 1 plan      which clauses count for everything, which leave out a facet
                     2 match     per segment: filters → bitset, query → scored documents
                     3 count     facets and ranges, each over the matches that it wants
                     4 select    the best hits over all segments (top_k)
                     5 harvest   insertion numbers, scores, records, sort values, first documents

A search holds one snapshot from start to end and never waits: all it reads is memory or the page
cache. It takes 20-1,000 µs, so it runs on the event loop; a search that `search_cost` predicts to
take longer runs on a thread. Between segments, clauses and counts a search checks whether the
caller is still waiting.

Disjunctive facets. A clause that is marked with a facet does not narrow that facet's own counts:

    common clauses            tags = drama            narrow everything
    group "country"           country ∈ {US, UK}      narrows hits and all facets but `country`
    group "year"              year ∈ {1994}           narrows hits and all facets but `year`

If the search does not count a group's facet, the group's clauses are common ones.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import numpy as np

from common.deadline import check_call
from common.errors import PayloadTooLarge
from common.page_size import PAGE_BYTES_MAX
from common.placement import hash_id
from common.protocol.messages import (
    DistinctCounts,
    FacetCounts,
    FacetRequest,
    Pin,
    RangeCounts,
    RangeRequest,
    SearchRequest,
    SearchResponse,
    elements_of,
)
from common.query import Filter
from shard.collect.counted_matches import CountedMatches
from shard.collect.distinct import select_distinct
from shard.collect.facet_counts import count_facets
from shard.collect.facet_cube import count_cube
from shard.collect.groups import GroupCounter, select_groups
from shard.collect.hits import Hits, hits_of, sort_values
from shard.collect.nested_elements import matching_elements
from shard.collect.range_counts import all_ranges, count_ranges, group_of, scope_of_range
from shard.collect.segment_order import first_docs_by
from shard.collect.top_k import select_hits
from shard.collect.value_statistics import value_statistics
from shard.query.bm25f import SCRATCH
from shard.query.boosting import boosted, explain_boosts
from shard.query.explanation import explain_score
from shard.query.filter_matches import match_filters, narrow, resolve_groups
from shard.query.languages import languages_of
from shard.query.matches import Matches, both, leave_out_each
from shard.query.near_terms import near_terms
from shard.query.pinning import PinnedDocs, find_pinned, scores_of, united
from shard.query.pinning import without as without_docs
from shard.query.prepared import PreparedQuery
from shard.query.text_search import match_among, match_text, num_hits_expected
from shard.read.corpus_statistics import statistics
from shard.segment.doc_sets import pick_docs
from shard.segment.external_ids import find_live

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from shard.segment.snapshot import SegmentView, Snapshot

_INSPECTED_MORE: Final = 3
"""Documents to look at for hits, times those expected to suffice."""
_INSPECTED_COST: Final = 20
"""Inspecting one costs as much as this many posting list entries, times the value above."""


class _Plan(NamedTuple):
    """A search's clauses, grouped by the counts that they narrow."""

    common: tuple[Filter, ...]
    groups: Mapping[str, tuple[Filter, ...]]
    """By the facet whose own counts leave them out."""


NO_CLAUSES: Final = _Plan((), {})


class _Matched(NamedTuple):
    """The matches of a search, by segment of the snapshot."""

    hits: list[Matches]
    ranked: list[Matches]
    """Those that the best hits are selected from; with scores, if there is a query."""
    counted: CountedMatches
    """The hits, and by facet the documents that pass everything but the facet's own clauses."""
    pinned: list[_Pinned]
    """The pinned hits, if the request wants them separately."""
    num_pinned: int
    """How many there are, separate or not."""


class _Counts(NamedTuple):
    """The facet and range counts of a search.

    Attributes:
        facets: what to report of each facet besides its counts.
        packed: the counts of all facets, as they are sent.
        ranges: of the requested ranges.
        groups: what counts the groups by facet value, if groups are counted; facet counts are then
            those of hits that are in no group.
    """

    facets: tuple[FacetCounts, ...]
    packed: bytes
    ranges: tuple[RangeCounts, ...]
    groups: GroupCounter | None


class _Pinned(NamedTuple):
    """The pinned hits of one segment."""

    view: int
    pins: PinnedDocs
    scores: NDArray[np.float64] | None


NO_PIN_NUMBERS: Final[tuple[int, ...]] = ()
NO_PINNED: Final = PinnedDocs(np.zeros(0, np.int64), np.zeros(0, np.uint32))


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
    found = _match(snapshot, request)
    total = sum([part.count for part in found.hits])
    matched = time.perf_counter_ns()
    counts = _count(snapshot, request, found.counted)
    counted = time.perf_counter_ns()
    check_call()
    hits, distinct = _select(snapshot, request, found.ranked)
    pinned, pin_numbers = None, NO_PIN_NUMBERS
    if found.pinned:
        pinned, pin_numbers = _pinned_answer(snapshot, request, found.pinned)
    ordered = time.perf_counter_ns()
    return SearchResponse(
        total=total,
        places=hits.places.tobytes(),
        scores=b"" if hits.scores is None else hits.scores.tobytes(),
        records=hits.records.tobytes(),
        sort_values=tuple([sort_values(snapshot, hits, key) for key in request.sort]),
        documents=_sent_along(snapshot, hits.records[: request.num_documents])
        if request.num_documents
        else (),
        facets=counts.facets,
        ranges=counts.ranges,
        explanations=_explain(snapshot, request, hits) if request.wants_explanation else (),
        timings_us=(
            (matched - started) // 1_000,
            (counted - matched) // 1_000,
            (ordered - counted) // 1_000,
        ),
        facet_counts=counts.packed,
        elements=_elements_of(snapshot, request, hits) if request.wants_elements else (),
        pinned=pinned,
        pin_numbers=pin_numbers,
        distinct=distinct,
        facet_groups=()
        if counts.groups is None
        else tuple([counts.groups.pairs(facet) for facet in request.facets]),
        value_statistics=value_statistics(snapshot, request.value_statistics, found.counted)
        if request.value_statistics
        else (),
        statistics=absent,
        cube=None if request.cube is None else count_cube(snapshot, request.cube, found.counted),
        terms=None if request.terms is None else near_terms(snapshot, request.terms),
        num_pinned=found.num_pinned,
    )


def _count(snapshot: Snapshot, request: SearchRequest, counted: CountedMatches) -> _Counts:
    """Count the facets and ranges of a search."""
    groups = None
    if request.distinct is not None and request.distinct.counts_groups:
        groups = GroupCounter(snapshot, request, counted)
    facets, packed = count_facets(
        snapshot, request.facets, counted if groups is None else groups.ungrouped
    )
    ranges: list[RangeCounts] = []
    for one in request.ranges:
        check_call()
        matches = counted.within(scope_of_range(counted, one))
        ranges.append(count_ranges(snapshot, one, matches))
    return _Counts(facets, packed, tuple(ranges), groups)


def _only(snapshot: Snapshot, ids: Sequence[bytes]) -> Snapshot:
    """Return a snapshot with only the items that have one of some ids (or the hash of one)."""
    hashes = np.array([hash_id(id) for id in ids], np.uint64)
    views = []
    for view in snapshot.views:
        _, docs = find_live(view.segment, view.live_mask, hashes)
        views.append(view.only(docs.tolist()))
    return snapshot.with_views(tuple(views))


def _group_of(request: FacetRequest | RangeRequest) -> str:
    """Return the facet whose clauses these counts leave out."""
    return group_of(request) if isinstance(request, RangeRequest) else request.field


def _plan(request: SearchRequest) -> _Plan:
    """Group the clauses of a search by the counts that they narrow."""
    if not request.filters:
        return NO_CLAUSES
    facets = [*request.facets, *[one.facet for one in request.value_statistics]]
    if request.cube is not None:
        facets += [one.facet for one in request.cube.facets]
    counted: Sequence[FacetRequest | RangeRequest] = (*facets, *all_ranges(request))
    wanted = {_group_of(one) for one in counted if one.leaves_out_own}
    wanted |= {elements_of(one.within.field) for one in counted if one.within is not None}
    common: list[Filter] = []
    groups: dict[str, list[Filter]] = {}
    for clause in request.filters:
        if clause.facet is not None and clause.facet in wanted:
            groups.setdefault(clause.facet, []).append(clause.filter)
        else:
            common.append(clause.filter)
    return _Plan(tuple(common), {facet: tuple(parts) for facet, parts in groups.items()})


def _match(snapshot: Snapshot, request: SearchRequest) -> _Matched:
    """Find the documents that match; a search abandoned midway leaves no dirty scratch data."""
    try:
        return _match_views(snapshot, request)
    except BaseException:
        SCRATCH.counts = np.zeros(0, np.uint16)  # forces new scratch arrays: these may be dirty
        raise


def _match_views(snapshot: Snapshot, request: SearchRequest) -> _Matched:
    """Find the matching documents of every segment."""
    plan = _plan(request)
    prepared = None
    if request.query is not None:
        prepared = PreparedQuery(request.query, snapshot.registry, languages_of(snapshot))
    hits: list[Matches] = []
    ranked: list[Matches] = []
    without: dict[str, list[Matches]] = {facet: [] for facet in plan.groups}
    pinned: list[_Pinned] = []
    num_pinned = 0
    for ordinal, view in enumerate(snapshot.views):
        check_call()
        pins = NO_PINNED if not request.pins else find_pinned(snapshot, view, request.pins)
        if prepared is None:
            matches, best, others, pins = _match_no_query(snapshot, view, request, plan, pins)
        else:
            matches, best, others, pins = _match_query(
                snapshot, view, request, prepared, plan, pins
            )
        num_pinned += len(pins.docs)
        if len(pins.docs) and request.has_pins_apart:
            pinned.append(_Pinned(ordinal, pins, scores_of(best, pins.docs)))
            best = without_docs(best, pins.docs)
        hits.append(matches)
        ranked.append(best)
        for facet, part in others.items():
            without[facet].append(part)
    return _Matched(hits, ranked, CountedMatches.of(hits, without), pinned, num_pinned)


_MatchedView: TypeAlias = tuple[Matches, Matches, dict[str, Matches], PinnedDocs]
"""All matches; those that can be among the best, with scores if any; by facet, the matches without
its own clauses; the pinned documents that pass all filters."""


def _match_no_query(
    snapshot: Snapshot, view: SegmentView, request: SearchRequest, plan: _Plan, pins: PinnedDocs
) -> _MatchedView:
    """Match what passes the filters, and reaches the score threshold if boosts give scores."""
    matches, others = match_filters(snapshot, view, plan.common, plan.groups)
    all_pins = pins
    if len(pins.docs):
        pins = pins.among(matches.words)
    if not request.is_boosted or not (request.num_hits or request.min_score is not None):
        return matches, matches, others, pins
    best = boosted(snapshot, matches, request)
    if request.min_score is None:
        return matches, best, others, pins
    reaching = {}
    for facet, part in others.items():
        kept = _at_least(boosted(snapshot, part, request), request.min_score)
        reaching[facet] = united(kept, all_pins.among(part.words).docs)
    matches = united(_at_least(best, request.min_score), pins.docs)
    return matches, matches, reaching, pins


def _match_query(
    snapshot: Snapshot,
    view: SegmentView,
    request: SearchRequest,
    prepared: PreparedQuery,
    plan: _Plan,
    pins: PinnedDocs,
) -> _MatchedView:
    """Match the query among the documents that pass the filters.

    Facets that leave out their own clauses need the query's matches among more documents. Those are
    matched a second time without exact scores, which are the expensive part.
    """
    base = narrow(snapshot, view, view.live_mask, plan.common)
    groups = resolve_groups(snapshot, view, plan.groups)
    needs_all_scores = (
        request.sort
        or request.after
        or request.distinct
        or request.wants_explanation
        or request.is_boosted
        or (request.pins and request.num_hits)
        or request.min_score is not None
    )
    allowed = base
    for words in groups.values():
        allowed = both(allowed, words)
    if _scores_late(request) or not request.needs_scores:
        first = None
        if not groups and _needs_few(request):
            first = _first_by_key(snapshot, view, request, prepared, allowed)
        if first is not None:
            return first, first, {}, pins
        found = ranked = match_text(view, prepared, allowed, 0).found
        if request.has_scores:
            ranked.scorer = partial(_score, view, prepared)
    else:
        num_ranked = None if needs_all_scores else request.num_hits
        found, ranked = match_text(view, prepared, allowed, num_ranked)
    if request.is_boosted:
        ranked = boosted(snapshot, ranked, request)
    if request.min_score is not None:
        found = ranked = _at_least(ranked, request.min_score)
    # Pins join the matches, if they pass the filters.
    if request.pins:
        wider_pins, pins = pins.among(base), pins.among(allowed)
        found, ranked = united(found, pins.docs), united(ranked, pins.docs)
    if not groups:
        return found, ranked, {}, pins
    # The second, wider match, for facets that leave out their own clauses.
    if request.min_score is None:
        wider = match_text(view, prepared, base, 0).found
    else:
        scored = match_text(view, prepared, base, None).ranked
        wider = _at_least(boosted(snapshot, scored, request), request.min_score)
    if request.pins:
        wider = united(wider, wider_pins.docs)
    return found, ranked, leave_out_each(view, wider.docs, groups), pins


def _scores_late(request: SearchRequest) -> bool:
    """Return whether scores only break ties of the first sort key: then few hits need one."""
    if not request.sort or request.after or request.wants_explanation or request.is_boosted:
        return False
    first = request.sort[0]
    is_of_values = first.field is not None and first.point is None and first.within is None
    return (
        is_of_values and request.groups is None and request.min_score is None and not request.pins
    )


def _needs_few(request: SearchRequest) -> bool:
    """Return whether the best hits of a search suffice: nothing counts or groups all hits."""
    counts = request.facets or request.ranges or request.value_statistics or request.cube
    return not (request.wants_total or counts or request.distinct is not None)


def _first_by_key(
    snapshot: Snapshot,
    view: SegmentView,
    request: SearchRequest,
    prepared: PreparedQuery,
    allowed: NDArray[np.uint64] | None,
) -> Matches | None:
    """Return the matches among the first documents by the first key, more than requested.

    A frequent word has hits among the first few documents. All its hits need not be found.

    Returns:
        None if too few can be expected there, or too few are there.
    """
    num_wanted = request.num_hits
    num_expected = num_hits_expected(view, prepared)
    num_docs = view.segment.num_docs
    if num_expected * num_expected < _INSPECTED_COST * num_wanted * num_docs:
        return None
    num_inspected = _INSPECTED_MORE * num_wanted * num_docs // max(num_expected, 1)
    docs = first_docs_by(snapshot, view, request.sort[0], num_inspected)
    if docs is None:
        return None
    if allowed is not None:
        picked = np.empty(len(docs), np.uint32)
        docs = picked[: pick_docs(docs, allowed, picked)]
    try:
        docs, scores = match_among(view, prepared, docs)
    except BaseException:
        SCRATCH.counts = np.zeros(0, np.uint16)  # as in `_match`
        raise
    if len(docs) <= num_wanted:
        return None
    return Matches(view, docs=docs, scores=scores)


def _score(
    view: SegmentView, prepared: PreparedQuery, docs: NDArray[np.uint32]
) -> NDArray[np.float64]:
    """Return the scores of some matches of a segment, ascending."""
    try:
        found, scores = match_among(view, prepared, docs)
    except BaseException:
        SCRATCH.counts = np.zeros(0, np.uint16)  # as in `_match`
        raise
    assert len(found) == len(docs), "all of them match"
    return scores


def _at_least(matches: Matches, min_score: float) -> Matches:
    """Return the matches whose score reaches a threshold."""
    assert matches.scores is not None, "a threshold without scores"
    is_kept = matches.scores >= min_score
    return Matches(matches.view, docs=matches.docs[is_kept], scores=matches.scores[is_kept])


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
    snapshot: Snapshot, request: SearchRequest, pinned: Sequence[_Pinned]
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


def _sent_along(snapshot: Snapshot, records: NDArray[np.uint64]) -> tuple[bytes, ...]:
    """Return documents that go along with the hits; none if they are large, to be fetched."""
    try:
        return tuple(snapshot.read_documents(records, PAGE_BYTES_MAX))
    except PayloadTooLarge:
        return ()


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
    return SearchResponse(
        total=len(hits.docs),
        places=hits.places.tobytes(),
        scores=b"" if hits.scores is None else hits.scores.tobytes(),
        records=hits.records.tobytes(),
        sort_values=tuple([sort_values(snapshot, hits, key) for key in request.sort]),
        documents=_sent_along(snapshot, hits.records) if request.num_documents else (),
        facets=(),
        ranges=(),
        explanations=explanations,
        timings_us=(0, 0, 0),
        elements=_elements_of(snapshot, request, hits) if request.wants_elements else (),
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
        prepared = PreparedQuery(request.query, snapshot.registry, languages_of(snapshot))
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
