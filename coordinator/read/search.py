"""READ PATH: one search over all shards, from parameters to result.

    parameters ─▶ 1 parse      query text → clauses (text/query_parser)
                  2 score      words → document frequencies over all shards → weights
                               (text/query_weighting); words that occur nowhere are ignored
                  3 plan       the counts that each facet needs (facets/facet_count_plan)
                  4 scatter    SearchRequest to every shard (fan_out) ─▶ shard/read/searcher.py
                  5 learn      facet values that are new to us (facets/facet_cache)
                  6 merge      hits by order (hit_merging), counts by addition
                               (facets/summed_counts)
                  7 fetch      documents of the page that did not come with the hits
                  8 render     projection, marks, scores (hit_rendering) ─▶ SearchResult

    steps 1-5  scatter.py      6  paging.py, facets/facet_scheduling.py      7-8  stored_items.py

A search fixes one horizon at the start and sends it with every call, so hits, facets and total
describe the same state whatever is written meanwhile. Step 2 costs a round trip only for words not
yet seen at this horizon, step 5 only after a write added a facet value, step 7 only for deep pages
and for long items to highlight. Steps 4-6 are repeated when the shards sent too few hits
(`lacks_hits`). Some parameters send the shards a second request, which depends on the hits or
buckets (group_hits_and_bucket_statistics).
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from common.curation_rules import Rule
from common.deadline import Deadline
from coordinator.catalog.catalog import Index
from coordinator.cluster.cursor_leases import Leases
from coordinator.cluster.searched_state import SearchedState, now
from coordinator.parameters.parsed_parameters import SearchParameters
from coordinator.read.curated_search import NO_RULES, curated_search, has_rules
from coordinator.read.cursor import START, Cursor, search_hash
from coordinator.read.did_you_mean import DidYouMean
from coordinator.read.facets.facet_result_types import FacetResult, RangeResult
from coordinator.read.facets.facet_scheduling import BUCKETS_FAST_MAX
from coordinator.read.facets.range_merging import BUCKETS_FAST_MAX as RANGE_BUCKETS_FAST_MAX
from coordinator.read.facets.range_merging import merge_ranges, num_keys
from coordinator.read.facets.tree_merging import merge_trees
from coordinator.read.field_checks import CheckedSearch, search_warnings
from coordinator.read.group_hits_and_bucket_statistics import (
    joint_counts,
    with_group_hits,
    with_value_statistics,
)
from coordinator.read.hit_merging import Hit
from coordinator.read.more_like_this import SimilarItems
from coordinator.read.paging import FoundPage, next_cursor
from coordinator.read.read_services import ReadServices
from coordinator.read.scatter import SearchOutcome
from coordinator.read.search_results import HitOrder, ItemsOf, SearchResult, ShardSummary
from coordinator.read.stored_items import page_items
from coordinator.read.text.completions_and_near_spellings import NearTerms, Scope
from coordinator.read.text.query_respelling import Spelling
from coordinator.read.text.query_weighting import is_long_text


class _FoundSearch(NamedTuple):
    """A search whose hits are found.

    Attributes:
        requested: its parameters as requested; `outcome` has those that were searched with.
        rules: the curation rules that applied.
        cursor: of its page; None: pages are numbered.
        outcome: the shards' responses.
        hits: of the page, best first.
        started: when it began, by `time.perf_counter`.
    """

    requested: SearchParameters
    rules: Sequence[Rule]
    cursor: Cursor | None
    outcome: SearchOutcome
    hits: list[Hit]
    started: float


class Search:
    """Runs searches; one instance per coordinator.

    Args:
        services: what all kinds of searches share.
        leases: of cursors.
    """

    def __init__(self, services: ReadServices, leases: Leases) -> None:
        self._services = services
        self._cluster = services.cluster
        self._leases = leases
        near = NearTerms(services.cluster)
        self._similar = SimilarItems(
            near, self._scheduled_search, services.analyzer, services.limits
        )
        self._did_you_mean = DidYouMean(Spelling(near), self._scheduled_search, services.analyzer)

    def search(
        self, index: Index, parameters: SearchParameters, horizon: int | None = None
    ) -> Awaitable[SearchResult]:
        """Run one search, once the fair share admits it.

        Args:
            index: the index to search.
            parameters: validated, except for what depends on the data.
            horizon: the state to search, which the caller keeps readable; None: the newest.

        Raises:
            InvalidRequest: a filter or sort field has no scalar value anywhere, or the cursor has
                expired.
            Unavailable: a shard is down or late (unless partial results are allowed).
            StaleRequest: the index changes configuration, or a shard was restarted.
        """
        deadline = Deadline.after_ms(parameters.timeout_ms)
        search = partial(self._scheduled_search, index, parameters, horizon, deadline)
        return self._services.share.run(index.number, deadline, search)

    def _scheduled_search(
        self,
        index: Index,
        parameters: SearchParameters,
        horizon: int | None = None,
        deadline: Deadline | None = None,
    ) -> Awaitable[SearchResult]:
        """Run one search, or one on behalf of another; long ones yield the event loop."""
        deadline = deadline or Deadline.after_ms(parameters.timeout_ms)
        search = self._search(index, parameters, horizon, deadline)
        if is_long_text(parameters.query) or parameters.num_buckets_max > BUCKETS_FAST_MAX:
            return self._services.scheduler.run_coroutine(index.number, search)
        return search

    async def _search(
        self, index: Index, requested: SearchParameters, horizon: int | None, deadline: Deadline
    ) -> SearchResult:
        """Run one search; every step is short, or cut by the scheduler."""
        started = time.perf_counter()
        cursor = None
        if requested.cursor is None:
            timestamp = now()
        else:
            cursor = self._cursor(index, requested, requested.cursor)
            horizon, timestamp = cursor.horizon, cursor.timestamp
        with self._cluster.reading(index.number) as newest:
            if horizon is None:
                horizon = newest
            state = SearchedState(index, horizon, timestamp, deadline)
            parameters, rules = requested, NO_RULES
            if requested.similar_to is not None or has_rules(index, requested):
                parameters, rules = await self._resolved(requested, state)
            if cursor is not None:
                cursor = await self._services.paging.continued(parameters, state, cursor)
            found = await self._find(parameters, state, cursor)
            return await self._result(_FoundSearch(requested, rules, cursor, *found, started))

    async def _result(self, found: _FoundSearch) -> SearchResult:
        """Return the result of a search whose hits are found, with all that comes with them."""
        requested, rules, cursor, outcome, hits, started = found
        parameters, answers = outcome.parameters, outcome.answers
        items: list[bytes] = []
        if not parameters.keeps_order:
            items = await self._items(outcome, hits)
        facets: list[FacetResult] = []
        if parameters.facets or parameters.field_facets:
            facets = await self._listed_facets(outcome)
        cube = None
        if parameters.cube is not None:
            cube = await joint_counts(self._services, outcome, facets)
        did_you_mean: str | None = None
        warnings: tuple[str, ...] = ()
        next_page = None
        if cursor is None:
            did_you_mean, warnings = await self._advice(requested, outcome)
        else:
            next_page = self._next_page(requested, outcome, cursor, hits)
        return SearchResult(
            page=parameters.page,
            per_page=parameters.per_page,
            total=outcome.total,
            items=items,
            facets=facets,
            ranges=await self._ranges(outcome) if parameters.ranges else [],
            trees=merge_trees(parameters.trees, len(parameters.ranges), answers)
            if parameters.trees
            else {},
            cube=cube,
            seq=outcome.state.horizon,
            ignored_words=outcome.scored.ignored_words,
            shards=ShardSummary(self._cluster.num_shards, len(answers)),
            timings=outcome.timings(started),
            cursor=next_page,
            rules=[rule.name for rule in rules] if rules else [],
            rule_data=_rule_data(rules) if rules else [],
            match=parameters.match if requested.match == "auto" and requested.query else None,
            dropped_words=outcome.scored.dropped_words,
            num_words_cut=outcome.scored.num_words_cut,
            order=_order_of(hits, parameters) if parameters.keeps_order else [],
            items_of=self._items_of(outcome, hits) if parameters.keeps_order else None,
            did_you_mean=did_you_mean,
            warnings=warnings,
        )

    async def _resolved(
        self, requested: SearchParameters, state: SearchedState
    ) -> tuple[SearchParameters, Sequence[Rule]]:
        """Return the search to run, with a query for similar items and with rules applied.

        Returns:
            Its parameters; the rules that apply.
        """
        index = state.index
        parameters = requested
        if requested.similar_to is not None:
            caches = self._services.caches
            statistics = caches.statistics(caches.of(index), requested.key_filter)
            parameters = await self._similar.query_for(
                requested,
                state,
                caches.stop_words(index),
                statistics.at(state.horizon).num_docs,
            )
        return await curated_search(self._services, index, parameters, state.timestamp)

    async def _find(
        self, parameters: SearchParameters, state: SearchedState, cursor: Cursor | None
    ) -> FoundPage:
        """Find the hits of a page, by the first way to match that has hits other than pinned."""
        paging = self._services.paging
        if parameters.match != "auto":
            return await paging.find(parameters, state, cursor)
        for relaxed in self._services.relaxed(state.index, parameters):
            found = await paging.find(relaxed, state, cursor)
            if found.outcome.has_others:
                break
        return found

    async def _items(self, outcome: SearchOutcome, hits: Sequence[Hit]) -> list[bytes]:
        """Return the items of hits as the search shows them."""
        items = await page_items(self._cluster, outcome, hits)
        if outcome.parameters.group_hits is None:
            return items
        return await with_group_hits(self._services, outcome, hits, items)

    async def _ranges(self, outcome: SearchOutcome) -> list[RangeResult]:
        """Return the counts of the requested ranges; many yield the event loop."""
        requests, answers = outcome.parameters.ranges, outcome.answers
        steps = merge_ranges(requests, answers, self._services.limits)
        is_long = num_keys(answers, len(requests)) > RANGE_BUCKETS_FAST_MAX
        lane = outcome.state.index.number
        return await self._services.scheduler.run(lane, steps, is_long=is_long)

    def _items_of(self, outcome: SearchOutcome, hits: Sequence[Hit]) -> ItemsOf:
        return lambda ranks: self._items(outcome, [hits[rank] for rank in ranks])

    async def _listed_facets(self, outcome: SearchOutcome) -> list[FacetResult]:
        """Return the facets of a search, with statistics of numbers by value if requested."""
        facets = await self._services.facet_listing.listed(outcome.parameters, outcome.counted)
        if not outcome.parameters.sums_up_fields:
            return facets
        return await with_value_statistics(self._services, outcome, facets)

    async def _advice(
        self, requested: SearchParameters, outcome: SearchOutcome
    ) -> tuple[str | None, tuple[str, ...]]:
        """Return what to search for instead: another spelling of the query; and warnings."""
        did_you_mean: str | None = None
        if requested.query and requested.did_you_mean is not False:
            did_you_mean = await self._correction(requested, outcome)
        warnings = requested.warnings
        if requested.may_need_warnings:
            state = outcome.state
            cache = self._services.caches.of(state.index)
            warnings = await search_warnings(CheckedSearch(cache, requested, state))
        return did_you_mean, warnings

    async def _correction(self, requested: SearchParameters, outcome: SearchOutcome) -> str | None:
        """Return another spelling of a query, if requested or if the query found little.

        Args:
            requested: the search as requested, with a query.
            outcome: of the search that was run.
        """
        parameters, state = outcome.parameters, outcome.state
        has_fewer_words = requested.match == "auto" and parameters.match != "all"
        num_hits: int | None = 0 if has_fewer_words else outcome.total
        if num_hits and parameters.pins and not outcome.has_others:
            num_hits = None  # the pinned ones say nothing about the words
        if not requested.did_you_mean and num_hits and not outcome.scored.ignored_words:
            return None
        filters = tuple([clause.filter for clause in parameters.filters])
        scope = Scope(state, filters)
        stop_words = self._services.caches.stop_words(state.index)
        return await self._did_you_mean.propose(requested, scope, num_hits, stop_words)

    def _cursor(self, index: Index, parameters: SearchParameters, text: str) -> Cursor:
        """Decode a request's cursor, and lease or renew the state it reads."""
        self._leases.check_ours()
        cursor = Cursor.decode(text, index.revision, len(parameters.sort))
        if cursor.is_start:
            return replace(cursor, horizon=self._leases.begin(index.number), timestamp=now())
        cursor.check(search_hash(index.number, parameters))
        self._leases.renew(index.number, cursor.horizon)
        return cursor

    def _next_page(
        self,
        requested: SearchParameters,
        outcome: SearchOutcome,
        cursor: Cursor,
        hits: Sequence[Hit],
    ) -> str | None:
        """Return the cursor of the next page, None if this is the last; note that it was read."""
        number = outcome.state.index.number
        following = next_cursor(number, cursor, requested, hits)
        text = None if requested.cursor == START else requested.cursor
        self._leases.note_page(number, cursor.horizon, text, has_next=following is not None)
        return following


def _rule_data(rules: Sequence[Rule]) -> list[dict[str, Any]]:
    """Return the data of rules; rules that differ in their conditions alone say it once."""
    found: list[tuple[str, dict[str, Any]]] = []
    for rule in rules:
        if rule.data is not None and (rule.name, rule.data) not in found:
            found.append((rule.name, rule.data))
    return [data for _, data in found]


def _order_of(hits: Sequence[Hit], parameters: SearchParameters) -> list[HitOrder]:
    """Return the sort keys of hits, comparable across merged searches."""
    return [
        HitOrder(
            hit.score,
            hit.sort_values,
            None if hit.pin is None else parameters.pins[hit.pin].position,
        )
        for hit in hits
    ]
