"""READ PATH of a shard: pure functions of a snapshot and a message.

    SearchRequest ─▶ 1 plan      which clauses count for everything, which leave out a facet
                     2 match     per segment: filters → bitset, query → scored documents
                     3 count     facets and ranges, each over the matches that it wants
                     4 select    the best hits over all segments (top_k)
                     5 harvest   insertion numbers, scores, records, sort values, first documents

A search holds one snapshot from start to end and never waits: all it reads is memory or the page
cache. It takes 20-1,000 µs, so it runs on the event loop. `is_slow` predicts which searches take
longer (a text column must be built first, or the query has many words); these run on a thread.
Between segments, clauses and counts a search checks whether the caller is still waiting.

Disjunctive facets. A clause that is marked with a facet does not narrow that facet's own counts:

    common clauses            tags = drama            narrow everything
    group "country"           country ∈ {US, UK}      narrows hits and all facets but `country`
    group "year"              year ∈ {1994}           narrows hits and all facets but `year`

If the search does not count a group's facet, the group's clauses are common ones.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import numpy as np

from common.analysis.languages import Languages
from common.deadline import check_call
from common.errors import InternalError
from common.placement import hash_id
from common.protocol.messages import (
    FACET_VALUES_MAX,
    DistinctCounts,
    FacetRequest,
    FacetValuesRequest,
    FacetValuesResponse,
    FetchRequest,
    FetchResponse,
    FieldStatistics,
    GetRequest,
    GetResponse,
    Pin,
    RangeCounts,
    RangeRequest,
    SearchRequest,
    SearchResponse,
    StatisticsRequest,
    StatisticsResponse,
    elements_of,
)
from common.query import NUM_MATCH_KINDS, Filter, MatchKind, Word
from common.values import ValueKind
from shard.caches.derived import derived
from shard.collect.distinct import needs_numbering, select_distinct
from shard.collect.elements import matching_elements
from shard.collect.facet_counts import count_facets
from shard.collect.facet_cube import count_cube
from shard.collect.groups import GroupCounter, select_groups
from shard.collect.range_counts import count_ranges, group_of, leaves_out
from shard.collect.top_k import Hits, hits_of, select_hits, sort_values
from shard.collect.value_statistics import value_statistics
from shard.query import boosting, filters
from shard.query.bm25f import SCRATCH
from shard.query.boosting import boosted, explain_boosts
from shard.query.explanation import explain_score
from shard.query.filter_matches import match_filters, narrow, resolve_groups
from shard.query.matches import Matches, both, leave_out_each
from shard.query.near_terms import is_slow_to_list, near_terms
from shard.query.pinning import PinnedDocs, find_pinned, scores_of, united
from shard.query.pinning import without as without_docs
from shard.query.prepared import PreparedQuery
from shard.query.spacings import cut_freqs, cut_freqs_among, spacing_freq, spacing_freq_among
from shard.query.statistics import doc_freqs, field_statistics, freqs_of_near_words
from shard.query.text_cost import is_slow_text, num_matches_max, words_of
from shard.query.text_search import match_text, score_docs
from shard.query.visible import (
    Visible,
    visible_doc_freqs,
    visible_docs,
    visible_field_statistics,
)
from shard.query.whole_fields import whole_freq, whole_freq_among
from shard.read.highlight import mark_documents
from shard.segment.external_ids import find_live, is_item_of, shown_id_of
from shard.segment.presence import Aspect, presence_of
from shard.segment.sort_columns import needs_column

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from shard.segment.snapshot import SegmentView, Snapshot

VALUES_FAST_MAX: Final = 200_000
"""Counting facets of more values than this takes milliseconds, whatever the hits are."""
JOINT_FAST_MAX: Final = 20_000
"""Joint counts and sums over more documents than this take milliseconds."""
KEYS_FAST_MAX: Final = 200
"""So do those of more values: 10 µs each."""
DISTINCT_FAST_MAX: Final = 50_000
"""So does telling this many matches apart by their values."""
HITS_FAST_MAX: Final = 20_000
"""Ordering and encoding more hits than this takes milliseconds."""
MARKED_FAST_BYTES: Final = 8_000
"""Marking this many bytes of documents takes 2-4 ms."""


class _Plan(NamedTuple):
    """A search's clauses, by what they narrow."""

    common: tuple[Filter, ...]
    groups: Mapping[str, tuple[Filter, ...]]
    """By the facet whose own counts leave them out."""


NO_CLAUSES: Final = _Plan((), {})


class _Matched(NamedTuple):
    """The matches of a search, by segment of the snapshot."""

    hits: list[Matches]
    ranked: list[Matches]
    """Those that the best hits are selected from; with scores, if there is a query."""
    without: Mapping[str, list[Matches]]
    """By facet: the documents that pass everything but the facet's own clauses."""
    pinned: list[_Pinned]
    """The pinned hits, if the request wants them apart."""

    def for_counting(self, field: str, leaves_out_own: bool) -> list[Matches]:
        """Return the matches that a facet, or range, counts within."""
        return self.without.get(field, self.hits) if leaves_out_own else self.hits


class _Pinned(NamedTuple):
    """The pinned hits of one segment."""

    view: int
    pins: PinnedDocs
    scores: NDArray[np.float64] | None


NO_PIN_NUMBERS: Final[tuple[int, ...]] = ()
NO_PINNED: Final = PinnedDocs(np.zeros(0, np.int64), np.zeros(0, np.uint32))


# --- search -------------------------------------------------------------------------------------


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
    groups = None
    if request.distinct is not None and request.distinct.counts_groups:
        groups = GroupCounter(snapshot, request, found.for_counting)
    facets, facet_counts = count_facets(
        snapshot, request.facets, found.for_counting if groups is None else groups.ungrouped
    )
    ranges: list[RangeCounts] = []
    for one in request.ranges:
        check_call()
        matches = found.for_counting(group_of(one), leaves_out(one))
        ranges.append(count_ranges(snapshot, one, matches))
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
        documents=tuple(snapshot.read_documents(hits.records[: request.num_documents])),
        facets=facets,
        ranges=tuple(ranges),
        explanations=_explain(snapshot, request, hits) if request.wants_explanation else (),
        timings_us=(
            (matched - started) // 1_000,
            (counted - matched) // 1_000,
            (ordered - counted) // 1_000,
        ),
        facet_counts=facet_counts,
        elements=matching_elements(snapshot, hits, [clause.filter for clause in request.filters])
        if request.wants_elements
        else (),
        pinned=pinned,
        pin_numbers=pin_numbers,
        distinct=distinct,
        facet_groups=()
        if groups is None
        else tuple([groups.pairs(facet) for facet in request.facets]),
        value_statistics=value_statistics(snapshot, request.value_statistics, found.for_counting)
        if request.value_statistics
        else (),
        statistics=absent,
        cube=None
        if request.cube is None
        else count_cube(snapshot, request.cube, found.for_counting),
        terms=None if request.terms is None else near_terms(snapshot, request.terms),
    )


def _only(snapshot: Snapshot, ids: Sequence[bytes]) -> Snapshot:
    """Return a snapshot with only the items that have one of some ids (or the hash of one)."""
    hashes = np.array([hash_id(id) for id in ids], np.uint64)
    views = []
    for view in snapshot.views:
        _, docs = find_live(view.segment, view.live_mask, hashes)
        views.append(view.only(docs.tolist()))
    return snapshot.with_views(tuple(views))


def is_slow(snapshot: Snapshot, request: SearchRequest) -> bool:
    """Return whether a search is likely to take more than a few milliseconds."""
    if request.num_hits > HITS_FAST_MAX:
        return True
    if request.terms is not None and is_slow_to_list(snapshot, request.terms):
        return True
    if request.distinct is not None and _is_slow_to_tell_apart(snapshot, request):
        return True
    if request.facets:
        lengths = snapshot.dictionary_lengths
        if sum([lengths.get(one.field, 0) for one in request.facets]) > VALUES_FAST_MAX:
            return True
    query = request.query
    if query is not None:
        words = words_of([*[one.clause for one in query.clauses], *query.excluded])
        absent = request.assumed_absent
        num_others = 0 if absent is None else _num_others(absent)
        if is_slow_text(snapshot, words, _languages(snapshot), num_others):
            return True
    is_joint = request.value_statistics or request.cube is not None
    if (request.ranges or is_joint) and _is_slow_to_range(snapshot, request):
        return True
    if request.sort or request.ranges or is_joint or request.distinct is not None:
        for path, collation in _ordered_fields(request):
            field = snapshot.registry.number(path)
            for view in snapshot.views:
                if field is not None and needs_column(snapshot, view, field, collation):
                    return True
    for boost in request.boosts:
        for view in snapshot.views:
            if boosting.is_slow(snapshot, view, boost):
                return True
    for clause in request.filters:
        for view in snapshot.views:
            if filters.is_slow(snapshot, view, clause.filter):
                return True
    return False


def _is_slow_to_tell_apart(snapshot: Snapshot, request: SearchRequest) -> bool:
    """Return whether distinct hits are likely to take milliseconds: all matches are counted."""
    assert request.distinct is not None
    if needs_numbering(snapshot, request.distinct.field):
        return True
    if snapshot.num_docs <= DISTINCT_FAST_MAX:
        return False
    num_matches = num_matches_max(snapshot, request.query, _languages(snapshot))
    return num_matches > DISTINCT_FAST_MAX


def _is_slow_to_range(snapshot: Snapshot, request: SearchRequest) -> bool:
    """Return whether ranges, joint counts and sums are likely to take milliseconds."""
    if snapshot.num_docs > filters.KEYS_FAST_MAX and any(
        one.calendar is not None or one.is_of_values for one in _ranges(request)
    ):
        return True
    is_joint = request.value_statistics or request.cube is not None
    return bool(is_joint) and (
        snapshot.num_docs > JOINT_FAST_MAX or _num_joint_keys(request) > KEYS_FAST_MAX
    )


def _num_joint_keys(request: SearchRequest) -> int:
    """Return how many values of facets are counted jointly with others."""
    facets = request.value_statistics if request.cube is None else request.cube.facets
    return sum([len(one.keys) for one in facets])


def is_slow_to_count(snapshot: Snapshot, request: StatisticsRequest) -> bool:
    """Return whether `statistics` is likely to take more than a few milliseconds."""
    languages = _languages(snapshot)
    return is_slow_text(snapshot, list(request.words), languages, _num_others(request))


def _num_others(request: StatisticsRequest) -> int:
    """Return how many document frequencies other than those of words are to be counted."""
    return len(request.spacings) + len(request.wholes) + 4 * len(request.cuts)


def _ordered_fields(request: SearchRequest) -> list[tuple[str, str]]:
    """Return the fields whose sort columns a search needs, with their collations."""
    fields = [
        (key.field, key.collation)
        for key in request.sort
        if key.field is not None and key.point is None and key.within is None
    ]
    fields += [
        (one.field, "") for one in _ranges(request) if one.calendar is not None or one.is_of_values
    ]
    if request.distinct is not None:
        fields.append((request.distinct.field, ""))
    return fields


def _group_of(request: FacetRequest | RangeRequest) -> str:
    """Return the facet whose clauses these counts leave out."""
    return group_of(request) if isinstance(request, RangeRequest) else request.field


def _ranges(request: SearchRequest) -> Sequence[RangeRequest]:
    """Return all ranges that a search counts."""
    return request.ranges if request.cube is None else (*request.ranges, *request.cube.ranges)


def _plan(request: SearchRequest) -> _Plan:
    """Sort the clauses of a search by what they narrow."""
    if not request.filters:
        return NO_CLAUSES
    facets = [*request.facets, *[one.facet for one in request.value_statistics]]
    if request.cube is not None:
        facets += [one.facet for one in request.cube.facets]
    counted: Sequence[FacetRequest | RangeRequest] = (*facets, *_ranges(request))
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
        prepared = PreparedQuery(request.query, snapshot.registry, _languages(snapshot))
    hits: list[Matches] = []
    ranked: list[Matches] = []
    without: dict[str, list[Matches]] = {facet: [] for facet in plan.groups}
    pinned: list[_Pinned] = []
    for ordinal, view in enumerate(snapshot.views):
        check_call()
        pins = NO_PINNED if not request.pins else find_pinned(snapshot, view, request.pins)
        if prepared is None:
            matches, best, others, pins = _match_no_query(snapshot, view, request, plan, pins)
        else:
            matches, best, others, pins = _match_query(
                snapshot, view, request, prepared, plan, pins
            )
        if len(pins.docs) and request.has_pins_apart:
            pinned.append(_Pinned(ordinal, pins, scores_of(best, pins.docs)))
            best = without_docs(best, pins.docs)
        hits.append(matches)
        ranked.append(best)
        for facet, part in others.items():
            without[facet].append(part)
    return _Matched(hits, ranked, without, pinned)


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
    if _scores_late(request):
        found = ranked = match_text(view, prepared, allowed, 0).found
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


def _score(
    view: SegmentView, prepared: PreparedQuery, docs: NDArray[np.uint32]
) -> NDArray[np.float64]:
    """Return the scores of some matches of a segment, ascending."""
    try:
        return score_docs(view, prepared, docs)
    except BaseException:
        SCRATCH.counts = np.zeros(0, np.uint16)  # as in `_match`
        raise


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
    """Return the pinned hits, of which there are some, in order of their numbers; the numbers."""
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
        documents=tuple(snapshot.read_documents(hits.records)) if request.num_documents else (),
        facets=(),
        ranges=(),
        explanations=explanations,
        timings_us=(0, 0, 0),
        elements=matching_elements(snapshot, hits, [clause.filter for clause in request.filters])
        if request.wants_elements
        else (),
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
        prepared = PreparedQuery(request.query, snapshot.registry, _languages(snapshot))
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


@derived
def _languages(snapshot: Snapshot) -> Languages:
    """Return the languages of the fields."""
    configuration = snapshot.configuration
    return Languages(
        configuration.language,
        configuration.field_languages,
        configuration.field_typo_lengths,
        configuration.infix_fields,
    )


# --- documents ----------------------------------------------------------------------------------


def fetch(snapshot: Snapshot, request: FetchRequest) -> FetchResponse:
    """Return stored documents by record, without marks; or their sort values."""
    if request.sort:
        return FetchResponse((), (), _sort_values_of(snapshot, request))
    documents = snapshot.read_documents(np.frombuffer(request.records, np.uint64))
    return FetchResponse(tuple(documents), ())


def with_marks(snapshot: Snapshot, request: FetchRequest, fetched: FetchResponse) -> FetchResponse:
    """Return fetched documents with the marks that the request wants."""
    assert request.highlight is not None
    documents = [one for one in fetched.documents if one is not None]
    assert len(documents) == len(fetched.documents), "only `fetch_some` leaves some out"
    marks = mark_documents(snapshot, documents, request.query, request.highlight)
    return FetchResponse(fetched.documents, marks)


def is_slow_to_mark(fetched: FetchResponse) -> bool:
    """Return whether `with_marks` is likely to take more than a few milliseconds."""
    num_bytes = sum([len(one) for one in fetched.documents if one is not None])
    return num_bytes > MARKED_FAST_BYTES


def _sort_values_of(snapshot: Snapshot, request: FetchRequest) -> tuple[tuple[Any, ...], ...]:
    """Return, by sort key, the value of each record."""
    records = np.frombuffer(request.records, np.uint64)
    views, docs, places = [], [], []
    for record in records:
        for position, view in enumerate(snapshot.views):
            found = np.flatnonzero(view.segment["docs.record"] == record)
            if len(found):
                views.append(position)
                docs.append(found[0])
                places.append(view.segment["docs.place"][found[0]])
                break
        else:
            raise InternalError(f"record {record} is in no segment")
    hits = Hits(
        np.array(views, np.int64),
        np.array(docs, np.uint32),
        np.array(places, np.uint64),
        records,
        None,
    )
    return tuple(sort_values(snapshot, hits, key) for key in request.sort)


def fetch_some(snapshot: Snapshot, request: FetchRequest) -> FetchResponse:
    """Return the first stored documents of some records, or their ids; see `FetchRequest`."""
    records = np.frombuffer(request.records, np.uint64).tolist()
    documents = snapshot.documents.read_some(records, request.bytes_max)
    if request.wants_ids:
        documents = [None if one is None else shown_id_of(one) for one in documents]
    return FetchResponse(tuple(documents), ())


def get(snapshot: Snapshot, request: GetRequest) -> GetResponse:
    """Return the live document that has an id.

    The hash finds candidates, newest segment first; the stored document confirms the id.
    """
    hashes = np.array([hash_id(request.id)], np.uint64)
    for view in reversed(snapshot.views):
        _, docs = find_live(view.segment, view.live_mask, hashes)
        if not len(docs):
            continue
        for document in snapshot.read_documents(view.segment["docs.record"][docs]):
            if is_item_of(document, request.id):
                return GetResponse(document)
    return GetResponse(None)


# --- statistics and dictionaries ----------------------------------------------------------------


def statistics(snapshot: Snapshot, request: StatisticsRequest) -> StatisticsResponse:
    """Return what scoring needs to know about the live documents."""
    languages = _languages(snapshot)
    visible = []
    if request.filters:
        visible = [visible_docs(snapshot, view, request.filters) for view in snapshot.views]
    freqs = []
    near: list[tuple[tuple[int, str, int], ...]] = []
    for word in request.words:
        check_call()
        sums = np.zeros(NUM_MATCH_KINDS, np.int64)
        if request.filters:
            for part in visible:
                sums += visible_doc_freqs(part, word, languages)
        else:
            for view in snapshot.views:
                sums += doc_freqs(view, word, languages)
        freqs.append(tuple(sums.tolist()))
        near.append(())
        if languages.used and word.is_stemmed and word.typos and not any(sums[: MatchKind.TYPO_1]):
            near[-1] = _near_words(snapshot, visible, request, word, languages)
    spacing_freqs = tuple(
        [
            sum([spacing_freq_among(part.view.segment, words, part.docs) for part in visible])
            if request.filters
            else sum([spacing_freq(view, words) for view in snapshot.views])
            for words in request.spacings
        ]
    )
    whole_freqs = tuple(
        [
            sum([whole_freq_among(part.view.segment, words, part.docs) for part in visible])
            if request.filters
            else sum([whole_freq(view, words) for view in snapshot.views])
            for words in request.wholes
        ]
    )
    cut_freqs = tuple([_cut_freqs(snapshot, visible, request, word) for word in request.cuts])
    if not request.needs_fields:
        num_docs = sum(len(part.docs) for part in visible) if request.filters else snapshot.num_docs
        return StatisticsResponse(
            num_docs, (), tuple(freqs), (), (), spacing_freqs, whole_freqs, cut_freqs, tuple(near)
        )
    if request.filters:
        num_docs = sum(len(part.docs) for part in visible)
        fields = _text_fields(snapshot, map(visible_field_statistics, visible))
    else:
        num_docs = snapshot.num_docs
        fields = _all_text_fields(snapshot)
    scalar = _scalar_fields(snapshot)
    return StatisticsResponse(
        num_docs,
        fields,
        tuple(freqs),
        tuple(scalar),
        tuple(scalar.values()),
        spacing_freqs,
        whole_freqs,
        cut_freqs,
        tuple(near),
    )


def _near_words(
    snapshot: Snapshot,
    visible: Sequence[Visible],
    request: StatisticsRequest,
    word: Word,
    languages: Languages,
) -> tuple[tuple[int, str, int], ...]:
    """Return kind, term and documents of the terms that a word may be a misspelling of."""
    counted: list[tuple[SegmentView, NDArray[np.uint32] | None]]
    counted = [*visible] if request.filters else [(view, None) for view in snapshot.views]
    sums: Counter[tuple[int, str]] = Counter()
    for view, docs in counted:
        sums.update(freqs_of_near_words(view, word, languages, docs))
    return tuple([(kind, term, freq) for (kind, term), freq in sorted(sums.items())])


def _cut_freqs(
    snapshot: Snapshot, visible: Sequence[Visible], request: StatisticsRequest, word: str
) -> tuple[tuple[int, int], ...]:
    """Return the documents that have a word in two parts, by the length of the first."""
    check_call()
    sums: dict[int, int] = {}
    counts = (
        [cut_freqs_among(part.view.segment, word, part.docs) for part in visible]
        if request.filters
        else [cut_freqs(view, word) for view in snapshot.views]
    )
    for freqs in counts:
        for cut, freq in freqs.items():
            if freq:
                sums[cut] = sums.get(cut, 0) + freq
    return tuple(sums.items())


@derived
def _all_text_fields(snapshot: Snapshot) -> tuple[FieldStatistics, ...]:
    """Return the lengths of all text fields, by path, in all items."""
    return _text_fields(snapshot, map(field_statistics, snapshot.views))


def _text_fields(
    snapshot: Snapshot, parts: Iterable[Mapping[int, tuple[int, int]]]
) -> tuple[FieldStatistics, ...]:
    """Return the lengths of all text fields, by path, summed over all segments."""
    sums: dict[int, tuple[int, int]] = {}
    for part in parts:
        for field, (num_docs, length) in part.items():
            before = sums.get(field, (0, 0))
            sums[field] = (before[0] + num_docs, before[1] + length)
    paths = snapshot.registry.paths
    found = (FieldStatistics(paths[field], *pair) for field, pair in sums.items() if pair[0])
    return tuple(sorted(found, key=lambda one: one.path))


@derived
def _scalar_fields(snapshot: Snapshot) -> dict[str, int]:
    """Return the kinds of values by path, for paths that have, or had, any to sort or filter by.

    In order of the paths.
    """
    kinds: dict[str, int] = {}
    for view in snapshot.views:
        presence = presence_of(view.segment)
        for field in presence.fields:
            path = snapshot.registry.paths[field]
            kinds[path] = kinds.get(path, 0) | presence.kinds(field)
    return {path: kinds[path] for path in sorted(kinds) if kinds[path]}


def fields_of(snapshot: Snapshot) -> tuple[dict[str, Any], ...]:
    """Return every field with the number of its documents and the kinds of its values.

    Deleted documents count until they are merged away.
    """
    counts: dict[int, int] = {}
    kinds: dict[int, int] = {}
    for view in snapshot.views:
        presence = presence_of(view.segment)
        for field in presence.fields:
            count = presence.count(field, Aspect.EXISTS)
            counts[field] = counts.get(field, 0) + count
            kinds[field] = kinds.get(field, 0) | presence.kinds(field)
    paths = snapshot.registry.paths
    return tuple(
        {
            "path": paths[field],
            "num_docs": counts[field],
            "kinds": [kind.name.lower() for kind in ValueKind if kinds[field] >> kind & 1],
        }
        for field in sorted(counts, key=paths.__getitem__)
    )


def facet_values(snapshot: Snapshot, request: FacetValuesRequest) -> FacetValuesResponse:
    """Return the next values of a facet dictionary from `start` on; for another epoch, from 0."""
    dictionary = snapshot.dictionaries.get(request.field)
    if dictionary is None:
        return FacetValuesResponse(0, 0, ())
    start = request.start if request.epoch == dictionary.epoch else 0
    end = min(start + FACET_VALUES_MAX, len(dictionary))
    return FacetValuesResponse(dictionary.epoch, start, tuple(dictionary.values(start, end)))
