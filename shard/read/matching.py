"""The matches of a search in every segment of a snapshot: plan, filters, query, pins.

Disjunctive facets. A clause that is marked with a facet does not narrow that facet's own counts:

    common clauses            tags = drama            narrow everything
    group "country"           country ∈ {US, UK}      narrows hits and all facets but `country`
    group "year"              year ∈ {1994}           narrows hits and all facets but `year`

If the search does not count a group's facet, the group's clauses are common ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from common.deadline import check_call
from common.protocol.messages import FacetRequest, RangeRequest, SearchRequest, elements_of
from common.query_syntax_tree import Filter
from shard.collect.facets.bucket_counts import all_ranges, group_of
from shard.collect.facets.drill_sideways import CountedMatches
from shard.collect.top_hits.segment_top_k import are_places_ascending, first_docs_by
from shard.query.filters.disjunctive_facets import intersection, leave_out_each
from shard.query.filters.filter_intersection import narrow, resolve_groups
from shard.query.filters.filter_only_matches import match_filters
from shard.query.matches import Matches
from shard.query.scoring.boosting import boosted
from shard.query.scoring.pinned_docs import (
    PinnedDocs,
    find_pinned,
    scores_of,
    with_docs,
    with_scored_docs,
    without_docs,
)
from shard.query.scoring.scratch_arrays import SCRATCH
from shard.query.text.prepared_query import PreparedQuery
from shard.query.text.text_search import (
    find_text,
    match_among,
    match_text,
    match_to_sort,
    num_hits_expected,
)
from shard.read.field_classes_of_snapshot import field_classes_of
from shard.segment.doc_sets import pick_docs

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from shard.segment.snapshot import SegmentView, Snapshot

_INSPECTED_MORE: Final = 3
"""How many times the documents expected to suffice are inspected for hits."""
_INSPECTED_COST: Final = 20
"""What inspecting a document costs, in posting list entries, times `_INSPECTED_MORE`."""


class _Plan(NamedTuple):
    """A search's clauses, grouped by the counts that they narrow."""

    common: Sequence[Filter]
    groups: Mapping[str, Sequence[Filter]]
    """By the facet whose own counts leave them out."""


_NO_CLAUSES: Final = _Plan((), {})


class SearchMatches(NamedTuple):
    """The matches of a search, by segment of the snapshot."""

    total: int
    """How many hits there are."""
    ranked: list[Matches]
    """Those of the hits that the best are selected from; with scores, if there is a query."""
    counted: CountedMatches
    """The hits, and by facet the documents that pass everything but the facet's own clauses."""
    pinned: list[PinnedHits]
    """The pinned hits, if the request wants them separately."""
    num_pinned: int
    """How many there are, separate or not."""


class PinnedHits(NamedTuple):
    """The pinned hits of one segment."""

    view: int
    pins: PinnedDocs
    scores: NDArray[np.float64] | None


_NO_PINNED: Final = PinnedDocs(np.zeros(0, np.int64), np.zeros(0, np.uint32))


def match(snapshot: Snapshot, request: SearchRequest) -> SearchMatches:
    """Find the documents that match."""
    with SCRATCH:
        return _match_views(snapshot, request)


def _left_out(request: SearchRequest) -> Iterator[str]:
    """Yield the facets, and other groups of clauses, that some counts leave out."""
    counted: list[FacetRequest | RangeRequest] = [*request.facets, *all_ranges(request)]
    counted += [one.facet for one in request.value_statistics]
    if request.cube is not None:
        counted += [one.facet for one in request.cube.facets]
    for one in counted:
        if one.leaves_out_own:
            yield group_of(one) if isinstance(one, RangeRequest) else one.field
        if one.within is not None:
            yield elements_of(one.within.field)


def _plan(request: SearchRequest) -> _Plan:
    """Group the clauses of a search by the counts that they narrow."""
    if not request.filters:
        return _NO_CLAUSES
    common: list[Filter] = []
    groups: dict[str, list[Filter]] = {}
    left_out: set[str] | None = None  # looked for if some clause is marked with a facet
    for clause in request.filters:
        if clause.facet is not None and left_out is None:
            left_out = set(_left_out(request))
        if left_out and clause.facet in left_out:
            groups.setdefault(clause.facet, []).append(clause.filter)
        else:
            common.append(clause.filter)
    return _Plan(common, groups)


def _match_views(snapshot: Snapshot, request: SearchRequest) -> SearchMatches:
    """Find the matching documents of every segment."""
    plan = _plan(request)
    prepared = None
    if request.query is not None:
        prepared = PreparedQuery(request.query, snapshot.registry, field_classes_of(snapshot))
    hits: list[Matches] = []
    ranked: list[Matches] = []
    without: dict[str, list[Matches]] = {}
    pinned: list[PinnedHits] = []
    total = num_pinned = 0
    pins = _NO_PINNED
    for ordinal, view in enumerate(snapshot.views):
        check_call()
        if request.pins:
            pins = find_pinned(snapshot, view, request.pins)
        if prepared is None:
            matched = _match_no_query(snapshot, view, request, plan, pins)
        else:
            matched = _match_query(snapshot, view, request, prepared, plan, pins)
        matches, best, others, found_pins = matched
        if request.pins:
            num_pinned += len(found_pins.docs)
            if len(found_pins.docs) and request.has_pins_apart:
                pinned.append(PinnedHits(ordinal, found_pins, scores_of(best, found_pins.docs)))
                best = without_docs(best, found_pins.docs)
        total += matches.count
        hits.append(matches)
        ranked.append(best)
        for facet, part in others.items():
            without.setdefault(facet, []).append(part)
    return SearchMatches(total, ranked, CountedMatches.of(hits, without), pinned, num_pinned)


class _MatchedView(NamedTuple):
    """The matches of one segment.

    Attributes:
        hits: all of them.
        ranked: those that can be among the best, with scores if any.
        others: by facet, the matches without its own clauses.
        pins: the pinned documents that pass all filters.
    """

    hits: Matches
    ranked: Matches
    others: Mapping[str, Matches]
    pins: PinnedDocs


def _match_no_query(
    snapshot: Snapshot, view: SegmentView, request: SearchRequest, plan: _Plan, pins: PinnedDocs
) -> _MatchedView:
    """Match what passes the filters, and reaches the score threshold if boosts give scores."""
    matches, others = match_filters(snapshot, view, plan.common, plan.groups)
    all_pins = pins
    if len(pins.docs):
        pins = pins.among(matches.bitset)
    if not request.is_boosted or not (request.num_hits or request.min_score is not None):
        return _MatchedView(matches, matches, others, pins)
    best = boosted(snapshot, matches, request)
    if request.min_score is None:
        return _MatchedView(matches, best, others, pins)
    reaching = {}
    for facet, part in others.items():
        kept = _at_least(boosted(snapshot, part, request), request.min_score)
        reaching[facet] = with_docs(kept, all_pins.among(part.bitset).docs)
    matches = with_docs(_at_least(best, request.min_score, pins), pins.docs)
    return _MatchedView(matches, matches, reaching, pins)


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
    groups = resolve_groups(snapshot, view, plan.groups) if plan.groups else {}
    allowed = base
    for bitset in groups.values():
        allowed = intersection(allowed, bitset)
    is_scored_late = _is_scored_late(request)
    if is_scored_late and not groups and _needs_few(request):
        first = _first_by_key(snapshot, view, request, prepared, allowed)
        if first is not None:
            return _MatchedView(first, first, {}, pins)
    num_ranked = None
    if request.num_skipped is not None and not needs_all_scores(request):
        num_ranked = request.num_hits + request.num_skipped + len(pins.docs)
    if is_scored_late and request.has_scores:
        found = ranked = match_to_sort(view, prepared, allowed)
    elif is_scored_late or (num_ranked is not None and request.num_hits == 0):
        found = ranked = find_text(view, prepared, allowed)
    elif num_ranked is not None and _are_first_best(view, prepared):
        found = find_text(view, prepared, allowed)
        docs, scores = match_among(view, prepared, found.first_docs(num_ranked))
        ranked = Matches(view, docs=docs, scores=scores)
    else:
        found, ranked = match_text(view, prepared, allowed, num_ranked)
    if request.is_boosted:
        ranked = boosted(snapshot, ranked, request)
    if request.min_score is not None:
        found = ranked = _at_least(ranked, request.min_score, pins)
    # Pins join the matches, if they pass the filters.
    if request.pins:
        wider_pins, pins = pins.among(base), pins.among(allowed)
        found = with_docs(found, pins.docs)
        if ranked.scores is not None and num_ranked is not None:
            ranked = with_scored_docs(ranked, *match_among(view, prepared, pins.docs))
        ranked = with_docs(ranked, pins.docs)
    if not groups:
        return _MatchedView(found, ranked, {}, pins)
    # The second, wider match, for facets that leave out their own clauses.
    if request.min_score is None:
        wider = find_text(view, prepared, base)
    else:
        scored = match_text(view, prepared, base, None).ranked
        wider = _at_least(boosted(snapshot, scored, request), request.min_score)
    if request.pins:
        wider = with_docs(wider, wider_pins.docs)
    return _MatchedView(found, ranked, leave_out_each(view, wider.docs, groups), pins)


def _are_first_best(view: SegmentView, prepared: PreparedQuery) -> bool:
    """Return whether the first documents are the best: the query only excludes, all hits tie."""
    return not prepared.query.clauses and are_places_ascending(view)


def needs_all_scores(request: SearchRequest) -> bool:
    """Return whether the scores of the best hits do not suffice."""
    return bool(
        request.sort
        or request.num_skipped is None
        or request.distinct
        or request.wants_explanation
        or request.is_boosted
        or request.min_score is not None
    )


def _is_scored_late(request: SearchRequest) -> bool:
    """Return whether the best hits are found without scores, or with those of few hits.

    The latter is so if scores only break ties of the first sort key.
    """
    if not request.needs_scores:
        return True
    if not request.sort or request.wants_explanation or request.is_boosted:
        return False
    if request.num_skipped is None:
        return False
    first = request.sort[0]
    is_of_values = first.field is not None and first.point is None and first.within is None
    return (
        is_of_values and request.groups is None and request.min_score is None and not request.pins
    )


def _needs_few(request: SearchRequest) -> bool:
    """Return whether some of the first hits in order suffice: nothing needs all, or later ones."""
    if request.wants_total or not request.num_hits or request.after or request.pins:
        return False
    return request.distinct is None and not request.has_counts


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
    docs, scores = match_among(view, prepared, docs)
    if len(docs) <= num_wanted:
        return None
    return Matches(view, docs=docs, scores=scores)


def _at_least(matches: Matches, min_score: float, pins: PinnedDocs = _NO_PINNED) -> Matches:
    """Return the matches whose score reaches a threshold; pinned ones need not."""
    assert matches.scores is not None, "a threshold without scores"
    is_kept = matches.scores >= min_score
    if len(pins.docs):
        is_kept |= np.isin(matches.docs, pins.docs)
    return Matches(matches.view, docs=matches.docs[is_kept], scores=matches.scores[is_kept])
