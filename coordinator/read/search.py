"""READ PATH: one search over all shards, from parameters to result.

    parameters ─▶ 1 parse      query text → clauses (text/query_parser)
                  2 score      words → document frequencies over all shards → weights
                               (text/scoring); words that occur nowhere are ignored
                  3 plan       the counts that each facet needs (facets/plan)
                  4 scatter    SearchRequest to every shard (fan_out) ─▶ shard/read/searcher.py
                  5 learn      fetch what facet dictionaries have grown by, once (facets/memory)
                  6 merge      hits by order (merge), counts by addition (facets/merged_counts)
                  7 fetch      documents of the page that did not come with the hits
                  8 render     projection, marks, scores (rendering) ─▶ SearchResult

    steps 1-5  scatter.py         6  paging.py, facets/listing.py        7-8  stored_items.py

A search fixes one horizon at the start and sends it with every call, so hits, facets and total
describe the same state whatever is written meanwhile. Step 2 costs a round trip only for words not
yet seen at this horizon, step 5 only after a write added a facet value, step 7 only for deep pages
and highlighting. Steps 4-6 are repeated when the shards sent too few hits (merge.lacks_hits). Some
parameters send the shards a second request, which depends on the hits or buckets (follow_ups).
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Awaitable, Sequence
from dataclasses import replace
from functools import partial

import msgspec

from common.analysis.analyzer import Analyzer
from common.deadline import Deadline
from common.errors import InvalidRequest
from common.limits import Limits
from common.process.loop_scheduler import LoopScheduler
from common.protocol.messages import TermsRequest, TermsResponse
from coordinator.cluster.catalog import Catalog, Index
from coordinator.cluster.cluster import Cluster
from coordinator.cluster.leases import Leases
from coordinator.parameters.curation import CompiledRule, compile_rules, curated
from coordinator.parameters.parse import FacetParameters, SearchParameters
from coordinator.read.cursor import Cursor, search_hash
from coordinator.read.facets.listing import BUCKETS_FAST_MAX, FacetListing
from coordinator.read.facets.merged_counts import Answers
from coordinator.read.facets.ranges import merge_ranges
from coordinator.read.facets.trees import merge_trees
from coordinator.read.fair_share import FairShare
from coordinator.read.field_checks import check_exclusions, field_warnings
from coordinator.read.follow_ups import joint_counts, with_group_hits, with_value_statistics
from coordinator.read.index_memory import IndexMemories
from coordinator.read.merge import Hit
from coordinator.read.paging import Paging, next_cursor
from coordinator.read.results import (
    FacetPage,
    FacetResult,
    HitOrder,
    ItemsOf,
    SearchResult,
    ShardSummary,
    Timings,
)
from coordinator.read.scatter import Retrieval, Scatter, SearchOutcome
from coordinator.read.searched_state import SearchedState, now
from coordinator.read.similar import SimilarItems
from coordinator.read.stored_items import page_items, read_items
from coordinator.read.suggest.beginnings import BestItems
from coordinator.read.suggest.best_items import best_items
from coordinator.read.suggest.memory import SuggestionMemory
from coordinator.read.text.near_terms import NearTerms, Scope
from coordinator.read.text.query_parser import QueryDictionary
from coordinator.read.text.scoring import is_long_text
from coordinator.read.text.spelling import DidYouMean, Spelling
from coordinator.read.text.statistics import StatisticsMemory


class Search:
    """Runs searches; one instance per coordinator.

    Args:
        cluster: the shards.
        catalog: of the indexes.
        limits: in force.
        scheduler: lets long steps yield the event loop.
        leases: of cursors; None: of this coordinator's own.
    """

    def __init__(
        self,
        cluster: Cluster,
        catalog: Catalog,
        limits: Limits,
        scheduler: LoopScheduler,
        leases: Leases | None = None,
    ) -> None:
        self._cluster = cluster
        self._scheduler = scheduler
        self._limits = limits
        self._analyzer = analyzer = Analyzer()
        self._leases = Leases(cluster, limits) if leases is None else leases
        self._memories = IndexMemories(cluster, catalog, analyzer)
        self._scatter = Scatter(cluster, self._memories, analyzer, limits, scheduler)
        self._paging = Paging(cluster, self._scatter)
        self._facet_listing = FacetListing(cluster, analyzer, scheduler)
        near = NearTerms(cluster)
        self._share = FairShare()
        self._similar = SimilarItems(near, self._scheduled_search, analyzer, limits)
        self._did_you_mean = DidYouMean(Spelling(near), self._scheduled_search, analyzer)

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
            ConfigurationSwitched: the index has changed configuration, or is about to.
        """
        deadline = Deadline.after_ms(parameters.timeout_ms)
        search = partial(self._scheduled_search, index, parameters, horizon, deadline)
        return self._share.run(index.number, deadline, search)

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
            return self._scheduler.run_coroutine(index.number, search)
        return search

    async def _search(
        self, index: Index, requested: SearchParameters, horizon: int | None, deadline: Deadline
    ) -> SearchResult:
        """Run one search; every step is short, or cut by the scheduler."""
        started = time.perf_counter()
        cursor = (
            None if requested.cursor is None else self._cursor(index, requested, requested.cursor)
        )
        timestamp = now() if cursor is None else cursor.timestamp
        with self._cluster.reading(index.number) as newest:
            if cursor is not None:
                horizon = cursor.horizon
            elif horizon is None:
                horizon = newest
            parameters = requested
            if requested.similar_to is not None:
                parameters = await self._similar.query_for(
                    index, requested, horizon, deadline, self.stop_words(index)
                )
            parameters, rules = self._curated(index, parameters, timestamp)
            state = SearchedState(index, horizon, timestamp, deadline)
            if cursor is not None:
                cursor = await self._paging.continued(parameters, state, cursor)
            parameters, outcome, hits = await self._find(parameters, state, cursor)
            items: list[bytes] = []
            if not parameters.keeps_order:
                items = await self._items(parameters, outcome, hits)
            facets: list[FacetResult] = []
            if parameters.facets or parameters.field_facets:
                facets = await self._listed_facets(parameters, outcome)
            cube = None
            if parameters.cube is not None:
                cube = await joint_counts(self._scatter, self._limits, parameters, outcome, facets)
            meant = None
            if requested.query and cursor is None and requested.did_you_mean is not False:
                meant = await self._correction(requested, parameters, state, outcome)
            warnings = () if cursor is not None else await self._warnings(requested, state)
        answers = outcome.answers
        return SearchResult(
            page=parameters.page,
            per_page=parameters.per_page,
            total=outcome.total,
            items=items,
            facets=facets,
            ranges=merge_ranges(parameters.ranges, answers) if parameters.ranges else [],
            trees=merge_trees(parameters.trees, len(parameters.ranges), answers)
            if parameters.trees
            else {},
            cube=cube,
            seq=horizon,
            ignored_words=outcome.scored.ignored_words,
            shards=ShardSummary(self._cluster.num_shards, len(answers)),
            timings=_timings(started, answers),
            cursor=None if cursor is None else next_cursor(index.number, cursor, requested, hits),
            rules=rules,
            match=parameters.match if requested.match == "auto" and requested.query else None,
            num_words_cut=outcome.scored.num_words_cut,
            order=_order_of(hits, parameters) if parameters.keeps_order else [],
            items_of=self._items_of(parameters, outcome, hits) if parameters.keeps_order else None,
            did_you_mean=meant,
            warnings=warnings,
        )

    async def _warnings(
        self, parameters: SearchParameters, state: SearchedState
    ) -> tuple[str, ...]:
        """Return what a request probably means otherwise."""
        if not (
            parameters.shown_fields or parameters.excluded_fields or parameters.names_search_fields
        ):
            return parameters.warnings
        memory = self._memories.of(state.index)
        return (*parameters.warnings, *await field_warnings(memory, parameters, state))

    async def _find(
        self, parameters: SearchParameters, state: SearchedState, cursor: Cursor | None
    ) -> tuple[SearchParameters, SearchOutcome, list[Hit]]:
        """Find the hits of a page, by the first match mode that has hits other than pinned ones.

        Returns:
            The parameters with this mode; the shards' responses; the hits.
        """
        matches = self._matches(parameters)
        for match in matches:
            if match != parameters.match:
                parameters = msgspec.structs.replace(parameters, match=match)
            outcome, hits = await self._paging.find(parameters, state, cursor)
            if match == matches[-1] or outcome.has_others:
                break
        return parameters, outcome, hits

    async def _items(
        self, parameters: SearchParameters, outcome: SearchOutcome, hits: Sequence[Hit]
    ) -> list[bytes]:
        """Return the items of hits as the search shows them."""
        items = await page_items(self._cluster, parameters, outcome, hits)
        if parameters.group_hits is None:
            return items
        return await with_group_hits(self._cluster, self._scatter, parameters, outcome, hits, items)

    def _items_of(
        self, parameters: SearchParameters, outcome: SearchOutcome, hits: Sequence[Hit]
    ) -> ItemsOf:
        return lambda ranks: self._items(parameters, outcome, [hits[rank] for rank in ranks])

    async def _listed_facets(
        self, parameters: SearchParameters, outcome: SearchOutcome
    ) -> list[FacetResult]:
        """Return the facets of a search, with statistics of numbers by value if requested."""
        facets = await self._facet_listing.listed(parameters, outcome)
        if not parameters.sums_up_fields:
            return facets
        return await with_value_statistics(
            self._scatter, self._scheduler, parameters, outcome, facets
        )

    async def _correction(
        self,
        requested: SearchParameters,
        parameters: SearchParameters,
        state: SearchedState,
        outcome: SearchOutcome,
    ) -> str | None:
        """Return another spelling of a query, if requested or if the query found little.

        Args:
            requested: the search as requested.
            parameters: the search that was run.
            state: the searched state.
            outcome: of the search.
        """
        has_fewer_words = requested.match == "auto" and parameters.match != "all"
        num_hits: int | None = 0 if has_fewer_words else outcome.total
        if num_hits and not outcome.has_others:
            num_hits = None  # the pinned ones say nothing about the words
        if not requested.did_you_mean and num_hits and not outcome.scored.ignored_words:
            return None
        filters = tuple([clause.filter for clause in parameters.filters])
        scope = Scope(state.index, state.horizon, filters, state.deadline)
        stop_words = self.stop_words(state.index)
        return await self._did_you_mean.propose(requested, scope, num_hits, stop_words)

    async def select(
        self, index: Index, parameters: SearchParameters, horizon: int
    ) -> tuple[list[Hit], str | None]:
        """Return the next page of a cursor's hits, without their items.

        Args:
            index: the index to search.
            parameters: must hold a cursor; its own horizon is ignored and needs no lease.
            horizon: the state to search, which the caller keeps readable.

        Returns:
            The hits, and the cursor of the next page if there may be one.

        Raises:
            As `search`.
        """
        assert parameters.cursor is not None
        cursor = Cursor.decode(parameters.cursor, index.revision, len(parameters.sort))
        cursor = replace(cursor, horizon=horizon)
        deadline = Deadline.after_ms(parameters.timeout_ms)
        state = SearchedState(index, horizon, cursor.timestamp, deadline)
        if not cursor.num_seen:
            await check_exclusions(self._memories.of(index), parameters, state)
        cursor = await self._paging.continued(parameters, state, cursor)
        outcome, hits = await self._paging.find(parameters, state, cursor, may_be_inline=False)
        if outcome.scored.num_words_cut:
            # Dropping words may match more items: fine for a search, not for a change.
            raise InvalidRequest(
                f"query has more words than {self._limits.shown('query_words_max')}",
                code="query_too_long",
                param="query",
            )
        return hits, next_cursor(index.number, cursor, parameters, hits)

    def read(
        self,
        index: Index,
        hits: Sequence[Hit],
        horizon: int,
        timeout_ms: int,
        *,
        wants_ids: bool = False,
    ) -> AsyncGenerator[list[tuple[Hit, bytes | None]], None]:
        """Yield hits with their stored items, in order, some megabytes at a time (`read_items`)."""
        return read_items(self._cluster, index, hits, horizon, timeout_ms, wants_ids=wants_ids)

    def facet(self, index: Index, parameters: FacetParameters) -> Awaitable[FacetPage]:
        """Return one page of one facet's buckets.

        Raises:
            As `search`.
        """
        deadline = Deadline.after_ms(parameters.search.timeout_ms)
        page = partial(self._facet, index, parameters, deadline)
        return self._share.run(index.number, deadline, page)

    def items_and_terms(
        self, index: Index, parameters: SearchParameters, horizon: int, terms: TermsRequest | None
    ) -> Awaitable[tuple[BestItems, list[TermsResponse]]]:
        """Return only the items of a search, and words that the shards list along with it, if any.

        Raises:
            As `search`.
        """
        deadline = Deadline.after_ms(parameters.timeout_ms)
        state = SearchedState(index, horizon, now(), deadline)
        found = partial(self._items_and_terms, parameters, state, terms)
        return self._share.run(index.number, deadline, found)

    async def _items_and_terms(
        self, parameters: SearchParameters, state: SearchedState, terms: TermsRequest | None
    ) -> tuple[BestItems, list[TermsResponse]]:
        outcome, hits = await self._paging.find(parameters, state, None, terms=terms)
        items = await page_items(self._cluster, parameters, outcome, hits)
        best = best_items(outcome, hits, items)
        return best, [one.terms for _, one in outcome.answers if one.terms is not None]

    def facet_counts(
        self, index: Index, parameters: SearchParameters, horizon: int
    ) -> Awaitable[SearchOutcome]:
        """Return the counts of a search's facets, for `facets`; known ones take no round trip.

        Raises:
            As `search`.
        """
        deadline = Deadline.after_ms(parameters.timeout_ms)
        state = SearchedState(index, horizon, now(), deadline)
        counted = partial(self._scatter.search, parameters, state, Retrieval(wants_total=False))
        return self._share.run(index.number, deadline, counted)

    async def facets(
        self, parameters: SearchParameters, outcome: SearchOutcome
    ) -> list[FacetResult]:
        """Return the facets of a search, counted before for one that differs in typos only."""
        return await self._facet_listing.listed(parameters, outcome)

    async def _facet(
        self, index: Index, parameters: FacetParameters, deadline: Deadline
    ) -> FacetPage:
        started = time.perf_counter()
        facet, timestamp = parameters.facet, now()
        every_bucket = Retrieval(wants_all_buckets=True)
        search, _ = self._curated(index, parameters.search, timestamp)
        with self._cluster.reading(index.number) as horizon:
            state = SearchedState(index, horizon, timestamp, deadline)
            for match in self._matches(search):
                search = msgspec.structs.replace(search, match=match)
                outcome = await self._scatter.search(search, state, every_bucket)
                if outcome.has_others:
                    break
            warnings = await self._warnings(search, state)
        total, buckets = await self._facet_listing.page(parameters, search, outcome)
        return FacetPage(
            page=parameters.page,
            per_page=parameters.per_page,
            facet=FacetResult(facet.field, facet.title, facet.position, buckets, None),
            total=total,
            seq=horizon,
            shards=ShardSummary(self._cluster.num_shards, len(outcome.answers)),
            timings=_timings(started, outcome.answers),
            warnings=warnings,
        )

    def statistics(self, index: Index) -> StatisticsMemory:
        """Return the cached read state of an index, for all items."""
        return self._memories.of(index).statistics

    def suggestions(self, index: Index) -> SuggestionMemory:
        """Return the suggestions of an index that are remembered."""
        return self._memories.of(index).suggestions

    def stop_words(self, index: Index) -> frozenset[str]:
        """Return the folded words that items need not have."""
        return self.dictionary(index).stop_words

    def dictionary(self, index: Index) -> QueryDictionary:
        """Return the folded stop words and synonyms of an index."""
        return self._memories.of(index).vocabulary

    def _matches(self, parameters: SearchParameters) -> tuple[str, ...]:
        """Return the match modes to try, in order, until one has hits."""
        if parameters.match != "auto":
            return (parameters.match,)
        has_several = len(self._analyzer.tokenize(parameters.query)) > 1
        return ("all", "last", "any") if has_several else ("all",)

    def _curated(
        self, index: Index, parameters: SearchParameters, timestamp: int
    ) -> tuple[SearchParameters, list[str]]:
        """Apply the curation rules that match a search; return the new search and their names."""
        if parameters.rules is None:
            rules: Sequence[CompiledRule] = self._memories.of(index).rules
        else:
            rules = compile_rules(
                parameters.rules, index.configuration, self._analyzer, self._limits
            )
        return curated(parameters, rules, self._analyzer, timestamp)

    def narrowed(self, index: Index, parameters: SearchParameters) -> SearchParameters:
        """Return a search without the items that the index's rules leave out for any query."""
        rules = self._memories.of(index).narrowing_rules
        return curated(parameters, rules, self._analyzer, now())[0] if rules else parameters

    def _cursor(self, index: Index, parameters: SearchParameters, text: str) -> Cursor:
        """Decode a request's cursor, and lease or renew the state it reads."""
        self._leases.check_ours()
        cursor = Cursor.decode(text, index.revision, len(parameters.sort))
        if cursor.is_start:
            return replace(cursor, horizon=self._leases.begin(index.number), timestamp=now())
        cursor.check(search_hash(index.number, parameters))
        self._leases.go_on(index.number, cursor.horizon)
        return cursor


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


def _timings(started: float, answers: Answers) -> Timings:
    """Return the time of each phase; a shard phase takes as long as on the slowest shard."""
    search, facets, sort = map(max, zip(*[answer.timings_us for _, answer in answers], strict=True))
    total = int((time.perf_counter() - started) * 1_000_000)
    return Timings(total, search, facets, sort)
