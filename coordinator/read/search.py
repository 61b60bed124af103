"""READ PATH: one search over all shards, from parameters to result.

    parameters ─▶ 1 parse      query text → clauses (query_parser)
                  2 score      words → document frequencies over all shards → weights
                               (text_scoring); words that occur nowhere are ignored
                  3 plan       the counts that each facet needs (facets)
                  4 scatter    SearchRequest to every shard (fan_out) ─▶ shard/read/searcher.py
                  5 learn      fetch what facet dictionaries have grown by, once (facets)
                  6 merge      hits by order (merge), counts by addition (facets, facet_values)
                  7 fetch      documents of the page that did not come with the hits
                  8 render     projection, marks, scores (rendering) ─▶ SearchResult

A search fixes one horizon at the start and sends it with every call, so hits, facets and total
describe the same state whatever is written meanwhile. Step 2 costs a round trip only for words not
yet seen at this horizon, step 5 only after a write added a facet value, step 7 only for deep pages
and highlighting. Steps 4-6 are repeated when the shards sent too few hits (merge.lacks_hits).
"""

from __future__ import annotations

import asyncio
import heapq
import time
from collections import deque
from collections.abc import AsyncGenerator, Generator, Iterable, Sequence
from dataclasses import replace
from typing import Any, Final

import msgspec
import numpy as np
import orjson
from msgspec import Struct

from common.analysis.analyzer import Analyzer
from common.configuration import IndexConfiguration
from common.deadline import Deadline
from common.errors import DeadlineExceeded, InvalidRequest, NotFound, Unavailable
from common.limits import Limits
from common.process.turns import Turns
from common.protocol.messages import (
    Distinct,
    FetchRequest,
    FilterClause,
    GroupsRequest,
    RangeRequest,
    SearchRequest,
    SearchResponse,
)
from common.protocol.methods import FETCH, SEARCH
from common.query import Filter, Ids, Not, Or
from common.values import ValueKind
from coordinator.cluster.catalog import Catalog, Index
from coordinator.cluster.cluster import Cluster
from coordinator.cluster.fan_out import call_all, gather_each, gather_partial
from coordinator.cluster.leases import Leases
from coordinator.parameters.curation import (
    ACCEPTED,
    CompiledRule,
    compile_rules,
    curated,
)
from coordinator.parameters.parse import FacetParameters, SearchParameters
from coordinator.read.cursor import Cursor, search_hash
from coordinator.read.facet_cube import (
    cube_request,
    cube_result,
    edges_of,
    empty_cube,
    histogram_requests,
)
from coordinator.read.facet_keys import accepted_keys
from coordinator.read.facet_values import (
    CountsReader,
    GroupCounts,
    num_buckets,
    page_of_buckets,
)
from coordinator.read.facets import (
    NONE_SELECTED,
    FacetMemory,
    FacetPlan,
    facet_results,
    plan_facets,
)
from coordinator.read.field_facets import field_requests, field_results
from coordinator.read.groups import count_groups, tokens_of, with_groups
from coordinator.read.merge import (
    VALUES_FAST_MAX,
    Hit,
    bucket_height,
    lacks_hits,
    merge_hits,
    num_asked,
    num_distinct,
    num_inline,
    pinned_on_page,
)
from coordinator.read.near_terms import NearTerms, Scope
from coordinator.read.query_parser import (
    NO_QUERY,
    ParsedQuery,
    QueryDictionary,
    QueryOptions,
    parse_steps,
    typed_words,
)
from coordinator.read.ranges import merge_ranges
from coordinator.read.rendering import dress_items
from coordinator.read.results import (
    CubeResult,
    FacetPage,
    FacetResult,
    SearchResult,
    ShardSummary,
    Timings,
)
from coordinator.read.similar import MATCH as SIMILAR_MATCH
from coordinator.read.similar import WORDS_MAX as SIMILAR_WORDS_MAX
from coordinator.read.similar import telling_words, weighed_words
from coordinator.read.spelling import Spelling, respelt
from coordinator.read.text_scoring import (
    UNRESTRICTED,
    ScoredQuery,
    StatisticsBudget,
    StatisticsMemory,
    is_long_text,
    score_again,
    score_query,
)
from coordinator.read.trees import merge_trees
from coordinator.read.value_statistics import statistics_requests, with_statistics

KEY_FILTERS_REMEMBERED_MAX: Final = 32
"""Per index: API key filters whose statistics are kept."""
INLINE_HITS_MAX: Final = 40
"""Up to this many hits, shards send documents along with the keys: reading a few in vain costs less
than a second round trip."""
READ_BYTES_MAX: Final = 4 * 1024 * 1024
"""Bytes of stored items that `Search.read` requests from a shard at a time; the last item may
exceed them."""


_TEXTS: Final = 1 << ValueKind.STRING
_NUMBERS: Final = 1 << ValueKind.INTEGER | 1 << ValueKind.FLOAT


LONG_ANSWER_VALUES: Final = 100_000
"""Of responses with more facet value counts, one is built at a time."""
BUCKETS_FAST_MAX: Final = 1_000
"""A search that may list more buckets takes turns: listing these takes 0.5 ms."""


class _IndexMemory(Struct, frozen=True):
    """Caches one index's read state between searches; all of it can be fetched again."""

    configuration: IndexConfiguration
    revision: int
    vocabulary: QueryDictionary
    rules: tuple[CompiledRule, ...]
    statistics: StatisticsMemory
    facets: FacetMemory
    narrowed: dict[Filter, StatisticsMemory]
    """Statistics per API key filter, most recently used last."""

    def forget(self) -> None:
        """Release the memory that all statistics take from the shared budget."""
        for statistics in (self.statistics, *self.narrowed.values()):
            statistics.forget()

    def statistics_under(
        self, cluster: Cluster, budget: StatisticsBudget, key_filter: Filter | None
    ) -> StatisticsMemory:
        """Return the statistics of the items that pass an API key's filter."""
        if key_filter is None:
            return self.statistics
        narrowed = self.narrowed.pop(key_filter, None)
        if narrowed is None:
            narrowed = StatisticsMemory(cluster, budget, key_filter)
            if len(self.narrowed) >= KEY_FILTERS_REMEMBERED_MAX:
                self.narrowed.pop(next(iter(self.narrowed))).forget()
        self.narrowed[key_filter] = narrowed
        return narrowed

    def knows_field(self, name: str) -> bool:
        """Return whether any document has had a filterable, sortable value in a field.

        Fields that the configuration names count as known.
        """
        return (
            name in self.configuration.facets
            or name in self.configuration.sorting_fields
            or name in self.statistics.scalar_fields
        )


class _Outcome(Struct, frozen=True):
    """The shards' responses to one search; every facet dictionary they refer to is known."""

    answers: list[tuple[int, SearchResponse]]
    horizon: int
    memory: _IndexMemory
    scored: ScoredQuery
    plan: FacetPlan
    total: int
    """Hits over all shards; of a search by distinct values those that are left."""
    request: SearchRequest
    """What the shards were asked."""

    @property
    def has_others(self) -> bool:
        """Whether any hit is not pinned."""
        return any(answer.total > answer.num_pinned for _, answer in self.answers)


class Search:
    """Runs searches; one instance per coordinator.

    Args:
        cluster: the shards.
        catalog: of the indexes.
        limits: in force.
        turns: of the event loop; long steps take theirs.
    """

    def __init__(self, cluster: Cluster, catalog: Catalog, limits: Limits, turns: Turns) -> None:
        self._cluster = cluster
        self._turns = turns
        self._limits = limits
        self._analyzer = Analyzer()
        self._leases = Leases(cluster, limits)
        self._long_answers = asyncio.Lock()
        self._budget = StatisticsBudget()
        self._near = NearTerms(cluster)
        self._spelling = Spelling(self._near)
        self._memories: dict[int, _IndexMemory] = {}
        catalog.on_change(lambda: self._forget_dropped(catalog))

    # --- the two public operations

    async def search(
        self, index: Index, parameters: SearchParameters, horizon: int | None = None
    ) -> SearchResult:
        """Run one search.

        Args:
            index: the index to search.
            parameters: validated, except for what depends on the data.
            horizon: the state to search, which the caller keeps readable; None: the newest.

        Raises:
            InvalidRequest: a filter or sort field has no scalar value anywhere, or the cursor has
                expired.
            Unavailable: a shard is down or late (unless partial results are allowed).
            Switched: the index has changed configuration, or is about to.
        """
        search = self._search(index, parameters, horizon)
        if is_long_text(parameters.query) or parameters.num_buckets_max > BUCKETS_FAST_MAX:
            return await self._turns.paced(index.number, search)
        return await search

    async def _search(
        self, index: Index, parameters: SearchParameters, horizon: int | None
    ) -> SearchResult:
        """Run one search; every step of it is short, or cut by `turns`."""
        started = time.perf_counter()
        deadline = Deadline.after_ms(parameters.timeout_ms)
        cursor = None
        if parameters.cursor is not None:
            cursor = self._cursor(index, parameters, parameters.cursor)
        moment = now() if cursor is None else cursor.moment
        asked = parameters
        if asked.similar_to is not None:
            with self._cluster.reading(index.number) as newest:
                if horizon is None:
                    horizon = newest if cursor is None else cursor.horizon
                parameters = await self._like(index, asked, horizon, deadline)
        parameters, rules = self._curated(index, parameters, moment)
        with self._cluster.reading(index.number) as newest:
            if cursor is not None:
                horizon = cursor.horizon
                cursor = await self._with_sort_values(index, parameters, cursor, deadline)
            elif horizon is None:
                horizon = newest
            for match in self._matches(parameters):
                if match != parameters.match:
                    parameters = msgspec.structs.replace(parameters, match=match)
                outcome, hits = await self._find(
                    index, parameters, horizon, moment, cursor, deadline
                )
                if outcome.has_others:
                    break
            documents, marks = await self._documents(index, parameters, outcome, hits, deadline)
            items = dress_items(parameters, hits, documents, marks)
            if parameters.group_hits is not None:
                items = await self._with_groups(index, parameters, outcome, hits, items, deadline)
            facets = await self._facets(index, parameters, outcome)
            if any(spec.summary.fields for spec in (*parameters.facets, *parameters.field_facets)):
                facets = await self._with_statistics(parameters, outcome, facets, deadline)
            cube = await self._cube(parameters, outcome, facets, deadline)
            meant = None
            if asked.query and cursor is None and asked.did_you_mean is not False:
                has_fewer_words = asked.match == "auto" and parameters.match != "all"
                num_hits = 0 if has_fewer_words else outcome.total
                if asked.did_you_mean or not num_hits or outcome.scored.ignored_words:
                    meant = await self._meant(
                        index, asked, parameters.filters, num_hits, horizon, deadline
                    )
        answers = outcome.answers
        return SearchResult(
            page=parameters.page,
            per_page=parameters.per_page,
            total=outcome.total,
            items=items,
            facets=facets,
            ranges=merge_ranges(parameters.ranges, answers),
            trees=merge_trees(parameters.trees, len(parameters.ranges), answers),
            cube=cube,
            seq=horizon,
            ignored_words=outcome.scored.ignored_words,
            shards=ShardSummary(self._cluster.num_shards, len(answers)),
            timings=_timings(started, answers),
            cursor=_next_cursor(index, cursor, asked, hits),
            rules=rules,
            match=parameters.match if asked.match == "auto" and asked.query else None,
            num_words_cut=outcome.scored.num_words_cut,
            order=[(hit.score, hit.sort_values) for hit in hits] if parameters.keeps_order else [],
            did_you_mean=meant,
        )

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
        deadline = Deadline.after_ms(parameters.timeout_ms)
        assert parameters.cursor is not None
        cursor = Cursor.decode(parameters.cursor, index.revision, len(parameters.sort))
        cursor = replace(cursor, horizon=horizon)
        cursor = await self._with_sort_values(index, parameters, cursor, deadline)
        outcome, hits = await self._find(
            index, parameters, horizon, cursor.moment, cursor, deadline, may_be_inline=False
        )
        if outcome.scored.num_words_cut:
            # Dropping words may match more items: fine for a search, not for a change.
            raise InvalidRequest(
                f"query has more words than {self._limits.shown('query_words_max')}",
                code="query_too_long",
                param="query",
            )
        return hits, _next_cursor(index, cursor, parameters, hits)

    async def read(
        self,
        index: Index,
        hits: Sequence[Hit],
        horizon: int,
        timeout_ms: int,
        *,
        wants_ids: bool = False,
    ) -> AsyncGenerator[list[tuple[Hit, bytes | None]], None]:
        """Yield hits with their stored items, in order, a few megabytes at a time.

        Args:
            index: the index the hits were found in.
            hits: any number of them.
            horizon: the state they were found in.
            timeout_ms: per part.
            wants_ids: yield ids as JSON instead of items; empty where an item has none.

        Yields:
            Parts of at least one hit each; None marks a damaged item.

        Raises:
            Unavailable: a shard is down or late.
        """
        num_shards = self._cluster.num_shards
        to_read: list[deque[int]] = [deque() for _ in range(num_shards)]
        for hit in hits:
            to_read[hit.shard].append(hit.record)
        read: list[deque[bytes | None]] = [deque() for _ in range(num_shards)]
        position = 0
        while position < len(hits):
            requests = [
                None
                if read[shard] or not to_read[shard]
                else FetchRequest(
                    index.number,
                    horizon,
                    index.revision,
                    np.array(to_read[shard], np.uint64).tobytes(),
                    bytes_max=READ_BYTES_MAX,
                    wants_ids=wants_ids,
                )
                for shard in range(num_shards)
            ]
            deadline = Deadline.after_ms(timeout_ms)
            fetched = await gather_each(self._cluster, FETCH, requests, deadline, is_partial=False)
            for shard, part_read in enumerate(fetched):
                if part_read is not None:
                    read[shard].extend(part_read.documents)
                    for _ in part_read.documents:
                        to_read[shard].popleft()
            part = []
            while position < len(hits) and read[hits[position].shard]:
                hit = hits[position]
                part.append((hit, read[hit.shard].popleft()))
                position += 1
            yield part

    async def facet(self, index: Index, parameters: FacetParameters) -> FacetPage:
        """Return one page of one facet's buckets.

        Raises:
            As `search`.
        """
        started = time.perf_counter()
        facet, moment = parameters.facet, now()
        search, _ = self._curated(index, parameters.search, moment)
        deadline = Deadline.after_ms(search.timeout_ms)
        with self._cluster.reading(index.number) as horizon:
            for match in self._matches(search):
                search = msgspec.structs.replace(search, match=match)
                outcome = await self._scatter(
                    index, search, horizon, moment, None, deadline, wants_all_buckets=True
                )
                if outcome.has_others:
                    break
        values = outcome.memory.facets.values(facet.field)
        selected = search.selected.get(facet.field, NONE_SELECTED)
        (spec,) = search.facets
        order = spec.order
        if not order.hides_chosen_zero:  # the request decides, unless the key's filter has
            order = msgspec.structs.replace(order, hides_zero=facet.hide_zero)
        accepts = accepted_keys(
            values, self._analyzer, parameters.key_pattern, parameters.key_query
        )
        with CountsReader(outcome.answers).next(values) as counts:
            total = num_buckets(values, counts, selected, order, accepts)
            buckets = page_of_buckets(
                values, counts, selected, order, parameters.offset, parameters.per_page, accepts
            )
        return FacetPage(
            page=parameters.page,
            per_page=parameters.per_page,
            facet=FacetResult(facet.field, facet.title, facet.position, buckets, None),
            total=total,
            seq=horizon,
            shards=ShardSummary(self._cluster.num_shards, len(outcome.answers)),
            timings=_timings(started, outcome.answers),
        )

    async def _find(
        self,
        index: Index,
        parameters: SearchParameters,
        horizon: int,
        moment: int,
        cursor: Cursor | None,
        deadline: Deadline,
        *,
        may_be_inline: bool = True,
    ) -> tuple[_Outcome, list[Hit]]:
        """Ask the shards for the hits of a page and merge them.

        Pinned hits take their pinned positions; the others fill the page around them.
        """
        if any(key.num_buckets for key in parameters.sort):
            parameters = await self._with_buckets(index, parameters, horizon, moment, deadline)
        sort, is_newest_first = parameters.sort, parameters.is_place_descending
        offset, limit = parameters.offset if cursor is None else 0, parameters.per_page
        if cursor is not None and parameters.distinct is not None:
            # Which hits are left depends on those of earlier pages: these are looked at again.
            offset = cursor.num_seen
        num_hits = num_first = offset + limit if limit else 0
        if cursor is None and parameters.distinct is None:
            num_first = num_asked(num_hits, self._cluster.num_shards)
        while True:
            outcome = await self._scatter(
                index,
                parameters,
                horizon,
                moment,
                cursor,
                deadline,
                num_hits=num_first,
                may_be_inline=may_be_inline,
            )
            pinned = pinned_on_page(
                outcome.answers,
                outcome.total,
                parameters.pins,
                offset if cursor is None else cursor.num_seen,
                limit,
            )
            num_others = limit - len(pinned.hits)
            hits = merge_hits(
                outcome.answers,
                sort,
                is_newest_first,
                max(offset - pinned.num_before, 0),
                num_others,
                parameters.distinct,
            )
            if num_first == num_hits or not lacks_hits(
                outcome.answers, hits, sort, is_newest_first, num_others
            ):
                return outcome, pinned.among(hits)
            num_first = num_hits

    async def _like(
        self, index: Index, asked: SearchParameters, horizon: int, deadline: Deadline
    ) -> SearchParameters:
        """Return the search for items like one: its most telling words, without itself.

        Raises:
            NotFound: the caller can see no such item.
        """
        id = asked.similar_to
        assert id is not None, "the search is for items like one"
        key_filters = () if asked.key_filter is None else (FilterClause(asked.key_filter),)
        item = SearchParameters(
            only_ids=(id,),
            filters=key_filters,
            key_filter=asked.key_filter,
            rules=(),
            per_page=1,
            timeout_ms=deadline.remaining_ms,
        )
        found = await self.search(index, item, horizon)
        if not found.items:
            raise NotFound(
                f"there is no item {id.decode()!r} in index {index.name!r}",
                code="item_not_found",
                param="similar_to",
            )
        document = await asyncio.to_thread(orjson.loads, found.items[0])
        weights = weighed_words(
            document, asked.search_fields, self._analyzer, self.stop_words(index)
        )
        filters = tuple([clause.filter for clause in key_filters])
        scope = Scope(index, horizon, filters, deadline)
        counts = await self._near.count(scope, [(word,) for word in weights])
        everything = msgspec.structs.replace(item, only_ids=(), per_page=0)
        num_docs = (await self.search(index, everything, horizon)).total
        words_max = min(SIMILAR_WORDS_MAX, self._limits.query_words_max)
        doc_freqs = dict(zip(weights, counts, strict=True))
        words = telling_words(weights, doc_freqs, num_docs, words_max)
        nothing = () if words else (FilterClause(Or(())),)
        return msgspec.structs.replace(
            asked,
            query=" ".join(words),
            match=SIMILAR_MATCH,
            prefix="none",
            typo=0,
            filters=(*asked.filters, FilterClause(Not(Ids((id.decode(),)))), *nothing),
            did_you_mean=False,
        )

    async def _meant(
        self,
        index: Index,
        asked: SearchParameters,
        clauses: Sequence[FilterClause],
        num_hits: int,
        horizon: int,
        deadline: Deadline,
    ) -> str | None:
        """Return the query in another spelling that has hits, or None if there is none.

        It is a hint: without a shard, or without time, the search is answered without it.
        """
        typed = typed_words(asked.query, self._analyzer)
        if typed is None or asked.only_ids or asked.page != 1:
            return None
        tokens, is_open = typed
        scope = Scope(index, horizon, tuple([clause.filter for clause in clauses]), deadline)
        try:
            found = await self._spelling.corrected(
                scope,
                [token.text for token in tokens],
                is_last_open=is_open and asked.prefix != "none",
                stop_words=self.stop_words(index),
                num_hits=num_hits,
            )
            if found is None:
                return None
            text = respelt(asked.query, tokens, found.words)
            result = await self.search(
                index,
                msgspec.structs.replace(
                    asked,
                    query=text,
                    match="all" if asked.match == "auto" else asked.match,
                    per_page=0,
                    facets=(),
                    field_facets=(),
                    ranges=(),
                    trees=(),
                    cube=None,
                    sort=(),
                    distinct=None,
                    group_hits=None,
                    marks=None,
                    show=frozenset(),
                    did_you_mean=False,
                    timeout_ms=deadline.remaining_ms,
                ),
                horizon,
            )
        except (Unavailable, DeadlineExceeded):
            return None
        return text if result.total >= found.num_hits_min else None

    def stop_words(self, index: Index) -> frozenset[str]:
        """Return the folded words that items need not have."""
        return self._memory(index).vocabulary.stop_words

    def _matches(self, parameters: SearchParameters) -> tuple[str, ...]:
        """Return the match modes to try, in order, until one has hits."""
        if parameters.match != "auto":
            return (parameters.match,)
        has_several = len(self._analyzer.tokenize(parameters.query)) > 1
        return ("all", "last", "any") if has_several else ("all",)

    def _curated(
        self, index: Index, parameters: SearchParameters, moment: int
    ) -> tuple[SearchParameters, list[str]]:
        """Apply the curation rules that match a search; return the new search and their names."""
        if parameters.rules is None:
            rules: Sequence[CompiledRule] = self._memory(index).rules
        else:
            rules = compile_rules(parameters.rules, self._analyzer, self._limits)
        return curated(parameters, rules, self._analyzer, moment)

    async def _with_buckets(
        self,
        index: Index,
        parameters: SearchParameters,
        horizon: int,
        moment: int,
        deadline: Deadline,
    ) -> SearchParameters:
        """Return the search with the height of its score buckets filled in.

        The top bucket ends at the best score of all hits, so a first round trip fetches that.
        """
        alone = msgspec.structs.replace(
            parameters,
            facets=(),
            ranges=(),
            sort=(),
            distinct=None,
            pins=(),
            show=frozenset(),
            marks=None,
        )
        outcome = await self._scatter(index, alone, horizon, moment, None, deadline, num_hits=1)
        best = max([max(map(_best_score, [one for _, one in outcome.answers]), default=0.0), 0.0])
        return msgspec.structs.replace(
            parameters,
            sort=tuple(
                msgspec.structs.replace(key, bucket_height=bucket_height(best, key.num_buckets))
                if key.num_buckets
                else key
                for key in parameters.sort
            ),
        )

    # --- steps 1-5

    async def _scatter(
        self,
        index: Index,
        parameters: SearchParameters,
        horizon: int,
        moment: int,
        cursor: Cursor | None,
        deadline: Deadline,
        *,
        num_hits: int = 0,
        may_be_inline: bool = True,
        wants_all_buckets: bool = False,
    ) -> _Outcome:
        """Query the shards; on return, every facet value number they sent has its text."""
        memory = self._memory(index)
        scored = UNRESTRICTED
        is_boosted = parameters.is_boosted and (num_hits > 0 or parameters.min_score is not None)
        boosts = parameters.boosts if is_boosted else ()
        factors = parameters.factors if is_boosted else ()
        if parameters.query:
            scored = await self._scored_query(index, memory, parameters, horizon, deadline)
        if (
            parameters.filter_fields
            or parameters.sort
            or parameters.ranges
            or parameters.distinct is not None
            or parameters.cube is not None
            or any(spec.summary.fields for spec in parameters.facets)
        ):
            await self._check_fields(index, memory, parameters, horizon, deadline)
        has_scores = scored.query is not None or bool(boosts or factors)
        min_score = parameters.min_score if has_scores else None
        plan = plan_facets(
            parameters,
            memory.facets,
            horizon,
            is_total=scored.query is None
            and not parameters.filters
            and min_score is None
            and not wants_all_buckets
            and not (parameters.distinct is not None and parameters.distinct.counts_groups),
            wants_all_buckets=wants_all_buckets,
        )
        is_inline = may_be_inline and num_hits <= INLINE_HITS_MAX and parameters.marks is None
        request = SearchRequest(
            index=index.number,
            horizon=horizon,
            revision=index.revision,
            query=scored.query,
            filters=parameters.filters,
            facets=plan.requests,
            ranges=(
                *parameters.ranges,
                *[request for tree in parameters.trees for request in tree.requests],
                *field_requests(parameters),
                *histogram_requests(parameters.cube),
            ),
            sort=parameters.sort,
            is_place_descending=parameters.is_place_descending,
            num_hits=num_hits,
            num_documents=num_inline(num_hits, self._cluster.num_shards) if is_inline else 0,
            after=cursor.after if cursor and cursor.after and not parameters.distinct else None,
            distinct=parameters.distinct,
            wants_explanation="score_details" in parameters.show,
            wants_elements="elements" in parameters.show,
            ids=parameters.only_ids,
            boosts=boosts,
            moment=moment,
            min_score=min_score,
            factors=factors,
            pins=parameters.pins,
            has_pins_apart=not parameters.sort
            and (num_hits > 0 or parameters.distinct is not None),
            wants_distinct_values=self._cluster.num_shards > 1,
            assumed_absent=None if scored.assumption is None else scored.assumption.request,
        )
        answers = await self._search_shards(request, parameters, deadline)
        if scored.assumption is not None:
            counted = [one.statistics for _, one in answers if one.statistics is not None]
            statistics = memory.statistics_under(self._cluster, self._budget, parameters.key_filter)
            scored = await score_again(
                index, parameters, statistics, scored.assumption, counted, self._turns
            )
            request = msgspec.structs.replace(request, query=scored.query, assumed_absent=None)
            if any(part.has_any for part in counted):
                answers = await self._search_shards(request, parameters, deadline)
        if plan.requests:
            await memory.facets.learn(index, answers, deadline, self._turns)
        total = await _total(parameters.distinct, answers)
        return _Outcome(answers, horizon, memory, scored, plan, total, request)

    async def _search_shards(
        self, request: SearchRequest, parameters: SearchParameters, deadline: Deadline
    ) -> list[tuple[int, SearchResponse]]:
        """Send a request to all shards; return (shard ordinal, response) of those that answered."""
        responses = await gather_partial(
            self._cluster, SEARCH, request, deadline, is_partial=parameters.allows_partial
        )
        return [(i, response) for i, response in enumerate(responses) if response is not None]

    async def _scored_query(
        self,
        index: Index,
        memory: _IndexMemory,
        parameters: SearchParameters,
        horizon: int,
        deadline: Deadline,
    ) -> ScoredQuery:
        """Parse and score the query text."""

        def parse() -> Generator[None, None, ParsedQuery]:
            return parse_steps(
                parameters.query,
                QueryOptions(
                    parameters.match,
                    parameters.prefix,
                    parameters.typo,
                    index.configuration.typo_lengths,
                ),
                memory.vocabulary,
                self._analyzer,
                self._limits.query_words_max,
            )

        statistics = memory.statistics_under(self._cluster, self._budget, parameters.key_filter)
        return await score_query(
            index, parse, parameters, statistics, horizon, deadline, self._turns
        )

    async def _check_fields(
        self,
        index: Index,
        memory: _IndexMemory,
        parameters: SearchParameters,
        horizon: int,
        deadline: Deadline,
    ) -> None:
        """Reject filters, sort keys and ranges on fields that never had a scalar value.

        An empty index rejects nothing, since its fields are not known yet. Nor does a search
        under an API key filter: the error would reveal which fields the hidden items have.
        """
        if parameters.key_filter is not None:
            return
        knows = memory.knows_field
        named = [
            key.field for key in parameters.sort if key.field is not None and key.point is None
        ]
        distinct = [] if parameters.distinct is None else [parameters.distinct.field]
        counted = memory.statistics.scalar_fields
        cube = parameters.cube
        ranges = [one for one in parameters.ranges if one.origin is None and one.zoom is None]
        summed = [
            (spec.configuration.field, name)
            for spec in (*parameters.facets, *parameters.field_facets)
            for name in spec.summary.fields
        ]
        if (
            all(map(knows, (*parameters.filter_fields, *named, *distinct)))
            and all(counted.get(one.field, 0) & _kinds_of(one) for one in ranges)
            and all(counted.get(name, 0) & _NUMBERS for _, name in summed)
            and (cube is None or counted.get(cube.field, 0) & _NUMBERS)
        ):
            return
        statistics = await memory.statistics.of_query(
            index, NO_QUERY, horizon, deadline, is_partial=parameters.allows_partial
        )
        if statistics.num_docs == 0:
            return
        known = sorted(memory.statistics.scalar_fields)
        for name, param in parameters.filter_fields.items():
            if not knows(name):
                raise InvalidRequest(
                    f"{name!r} is neither a facet nor a field with values to filter or count by; "
                    f"the facets are {_listed(index.configuration.facets)}, "
                    f"fields with values are {_listed(known)}",
                    code="unknown_facet",
                    param=param,
                )
        for name in named:
            if not knows(name):
                raise InvalidRequest(
                    f"no item has a value to sort by in {name!r}; "
                    f"fields with values are {_listed(known)}",
                    code="unknown_sort_field",
                    param=parameters.sort_param,
                )
        for facet, name in summed:
            if not counted.get(name, 0) & _NUMBERS:
                with_any = [one for one in known if counted[one] & _NUMBERS]
                raise InvalidRequest(
                    f"no item has a number to sum up in {name!r}; "
                    f"fields with numbers are {_listed(with_any)}",
                    code="invalid_facets",
                    param=f"facets.{facet}.stats",
                )
        if cube is not None and not counted.get(cube.field, 0) & _NUMBERS:
            with_any = [one for one in known if counted[one] & _NUMBERS]
            raise InvalidRequest(
                f"no item has a number to count by in {cube.field!r}; "
                f"fields with numbers are {_listed(with_any)}",
                code="invalid_facet_cube",
                param="facet_cube.field",
            )
        for name in distinct:
            if not knows(name):
                raise InvalidRequest(
                    f"no item has a value to tell items apart by in {name!r}; "
                    f"fields with values are {_listed(known)}",
                    code="invalid_distinct",
                    param="distinct",
                )
        for one in ranges:
            if not counted.get(one.field, 0) & _kinds_of(one):
                wanted = "text" if _kinds_of(one) == _TEXTS else "number"
                with_any = [name for name in known if counted[name] & _kinds_of(one)]
                raise InvalidRequest(
                    f"no item has a {wanted} to count by in {one.field!r}; "
                    f"fields with {wanted}s are {_listed(with_any)}",
                    code="invalid_facet_ranges",
                    param=f"facet_ranges.{one.field}",
                )

    # --- steps 6-8

    async def _documents(
        self,
        index: Index,
        parameters: SearchParameters,
        outcome: _Outcome,
        hits: Sequence[Hit],
        deadline: Deadline,
    ) -> tuple[list[bytes], list[dict[str, Any]] | None]:
        """Return the stored bytes (and marks) of the hits; fetch what the shards did not send."""
        missing = list(hits)
        if parameters.marks is None:
            missing = [hit for hit in hits if hit.rank >= len(hit.answer.documents)]
            if not missing:
                return [hit.answer.documents[hit.rank] for hit in hits], None
        requests: list[FetchRequest | None] = []
        for shard in range(self._cluster.num_shards):
            records = np.array([hit.record for hit in missing if hit.shard == shard], np.uint64)
            requests.append(
                FetchRequest(
                    index.number,
                    outcome.horizon,
                    index.revision,
                    records.tobytes(),
                    outcome.scored.query if parameters.marks is not None else None,
                    parameters.marks,
                )
                if len(records)
                else None
            )
        fetched = await gather_each(self._cluster, FETCH, requests, deadline, is_partial=True)
        documents: list[bytes] = []
        marks: list[dict[str, Any]] = []
        taken = [0] * self._cluster.num_shards
        for hit in hits:
            if parameters.marks is None and hit.rank < len(hit.answer.documents):
                documents.append(hit.answer.documents[hit.rank])
                continue
            part = fetched[hit.shard]
            if part is None:
                raise Unavailable(f"shard {hit.shard} went away between finding and fetching hits")
            document = part.documents[taken[hit.shard]]
            assert document is not None, "only a fetch with bytes_max goes on past damaged items"
            documents.append(document)
            marks.append(part.marks[taken[hit.shard]] if part.marks else {})
            taken[hit.shard] += 1
        return documents, marks if parameters.marks is not None else None

    async def _facets(
        self, index: Index, parameters: SearchParameters, outcome: _Outcome
    ) -> list[FacetResult]:
        """Merge the counts of all facets and choose their buckets.

        Many buckets take turns with other requests; of the longest responses only one is built at
        a time, since each may hold a hundred megabytes.
        """
        if not parameters.facets and not parameters.field_facets:
            return []
        groups: list[GroupCounts] = []
        if parameters.distinct is not None and parameters.distinct.counts_groups:
            groups = await asyncio.to_thread(
                count_groups, outcome.plan.requests, outcome.memory.facets, outcome.answers
            )
        results: Iterable[FacetResult] = facet_results(
            parameters,
            outcome.plan,
            outcome.memory.facets,
            outcome.answers,
            outcome.horizon,
            self._analyzer,
            is_complete=len(outcome.answers) == self._cluster.num_shards,
            groups=groups,
        )
        num_values = sum([one.num_values for _, part in outcome.answers for one in part.facets])
        if parameters.field_facets:
            first = len(parameters.ranges) + sum([len(one.requests) for one in parameters.trees])
            found = field_results(parameters, first, outcome.answers, self._analyzer)
            results = heapq.merge(results, found, key=lambda one: one.field)
        if num_values <= LONG_ANSWER_VALUES:
            if parameters.num_buckets_max <= BUCKETS_FAST_MAX:
                return list(results)
            return await self._turns.run(index.number, _listing(results))
        async with self._long_answers:
            return await self._turns.run(index.number, _listing(results))

    async def _with_groups(
        self,
        index: Index,
        parameters: SearchParameters,
        outcome: _Outcome,
        hits: Sequence[Hit],
        items: list[bytes],
        deadline: Deadline,
    ) -> list[bytes]:
        """Return the items of a page, each with the size and the best hits of its group."""
        assert parameters.distinct is not None
        assert parameters.group_hits is not None
        tokens = tokens_of(hits)
        limit = parameters.group_hits
        num_hits = limit * len(tokens)
        is_inline = num_hits <= INLINE_HITS_MAX and parameters.marks is None
        distinct = Distinct(parameters.distinct.field, max(limit, 1))
        answers: list[tuple[int, SearchResponse]] = []
        if tokens:
            request = msgspec.structs.replace(
                outcome.request,
                facets=(),
                ranges=(),
                num_hits=num_hits,
                num_documents=num_inline(num_hits, self._cluster.num_shards) if is_inline else 0,
                distinct=distinct,
                groups=GroupsRequest(np.array(tokens, np.uint64).tobytes()),
            )
            answers = await self._search_shards(request, parameters, deadline)
        members = None
        if limit:
            found = merge_hits(
                answers,
                outcome.request.sort,
                parameters.is_place_descending,
                0,
                num_hits,
                distinct,
            )
            inner = msgspec.structs.replace(outcome, answers=answers)
            documents, marks = await self._documents(index, parameters, inner, found, deadline)
            members = list(
                zip(found, dress_items(parameters, found, documents, marks), strict=True)
            )
        return with_groups(items, hits, tokens, [answer for _, answer in answers], members)

    async def _with_statistics(
        self,
        parameters: SearchParameters,
        outcome: _Outcome,
        facets: list[FacetResult],
        deadline: Deadline,
    ) -> list[FacetResult]:
        """Return facets with the statistics of numbers by value that are wanted."""
        requests = statistics_requests(parameters, facets)
        if not requests:
            return facets
        request = msgspec.structs.replace(
            outcome.request,
            facets=(),
            ranges=(),
            sort=(),
            num_hits=0,
            num_documents=0,
            after=None,
            distinct=None,
            value_statistics=tuple(requests.values()),
        )
        answers = await self._search_shards(request, parameters, deadline)
        return with_statistics(facets, requests, [answer for _, answer in answers])

    async def _cube(
        self,
        parameters: SearchParameters,
        outcome: _Outcome,
        facets: Sequence[FacetResult],
        deadline: Deadline,
    ) -> CubeResult | None:
        """Return the joint counts that are wanted."""
        spec = parameters.cube
        if spec is None:
            return None
        edges = edges_of(spec, outcome.answers, self._limits)
        if not edges:
            return empty_cube(spec.field)
        request = cube_request(spec, edges, parameters, outcome.request, facets, self._limits)
        assert request.cube is not None
        answers = await self._search_shards(request, parameters, deadline)
        return await asyncio.to_thread(
            cube_result, request.cube, parameters, [answer for _, answer in answers]
        )

    # --- caches and cursors

    def _cursor(self, index: Index, parameters: SearchParameters, text: str) -> Cursor:
        """Decode a request's cursor, and lease or renew the state it reads."""
        cursor = Cursor.decode(text, index.revision, len(parameters.sort))
        if cursor.is_start:
            return replace(cursor, horizon=self._leases.begin(index.number), moment=now())
        cursor.check(search_hash(index.number, parameters))
        self._leases.go_on(index.number, cursor.horizon)
        return cursor

    async def _with_sort_values(
        self, index: Index, parameters: SearchParameters, cursor: Cursor, deadline: Deadline
    ) -> Cursor:
        """Return the cursor with its hit's sort values; fetch them if they were left out."""
        if cursor.sort_values is not None or not cursor.has_hit:
            return cursor
        shard, record = cursor.hit
        request = FetchRequest(
            index.number,
            cursor.horizon,
            index.revision,
            np.array([record], np.uint64).tobytes(),
            sort=parameters.sort,
        )
        (response,) = await call_all(
            self._cluster, FETCH, [(shard, request)], deadline.remaining_ms
        )
        return replace(
            cursor,
            sort_values=tuple(column[0] if column else None for column in response.sort_values),
        )

    def _memory(self, index: Index) -> _IndexMemory:
        """Return the cached read state of an index under its current configuration."""
        memory = self._memories.get(index.number)
        if memory is None or memory.revision != index.revision:
            if memory is not None:
                memory.forget()
            memory = _IndexMemory(
                index.configuration,
                index.revision,
                QueryDictionary(index.configuration, self._analyzer),
                compile_rules(index.configuration.rules, self._analyzer, ACCEPTED),
                StatisticsMemory(self._cluster, self._budget),
                FacetMemory(self._cluster),
                {},
            )
            self._memories[index.number] = memory
        return memory

    def _forget_dropped(self, catalog: Catalog) -> None:
        """Drop the cached state of indexes that are no longer in the catalog."""
        existing = {index.number for index in catalog.indexes.values()}
        for number in [number for number in self._memories if number not in existing]:
            self._memories.pop(number).forget()


def _listing(results: Iterable[FacetResult]) -> Generator[None, None, list[FacetResult]]:
    """List results one by one: each is made when it is asked for."""
    listed = []
    for result in results:
        listed.append(result)
        yield
    return listed


def _kinds_of(request: RangeRequest) -> int:
    """Return the kinds of values that a range counts, as a bit set."""
    if request.calendar is not None:
        return _TEXTS
    is_text = any(isinstance(bound, str) for bounds in request.bounds for bound in bounds)
    return _TEXTS if is_text else _NUMBERS


def _listed(names: object) -> str:
    """Join names for an error message, cut to a readable length."""
    text = ", ".join(map(str, names)) or "none"  # type: ignore[call-overload]
    return text if len(text) <= 500 else text[:500] + ", …"


def _timings(started: float, answers: Sequence[tuple[int, SearchResponse]]) -> Timings:
    """Return the time of each phase; a shard phase takes as long as on the slowest shard."""
    search, facets, sort = map(max, zip(*[answer.timings_us for _, answer in answers], strict=True))
    total = int((time.perf_counter() - started) * 1_000_000)
    return Timings(total, search, facets, sort)


def _next_cursor(
    index: Index, cursor: Cursor | None, parameters: SearchParameters, hits: Sequence[Hit]
) -> str | None:
    """Return the cursor after the last hit, or None if the page was not full."""
    if cursor is None or not hits or len(hits) < parameters.per_page:
        return None
    cursor = replace(
        cursor,
        search=search_hash(index.number, parameters),
        num_seen=cursor.num_seen + len(hits),
    )
    if others := [hit for hit in hits if hit.pin is None]:
        last = others[-1]
        cursor = replace(
            cursor,
            hit=(last.shard, last.record),
            place=(last.score, last.place),
            sort_values=last.sort_values,
        )
    return cursor.encode()


def now() -> int:
    """Return the time at which a search starts: seconds since 1970, in whole minutes.

    Boosts by age and rule periods see no finer time, so consecutive pages agree.
    """
    return int(time.time()) // 60 * 60


async def _total(distinct: Distinct | None, answers: Sequence[tuple[int, SearchResponse]]) -> int:
    """Return the number of hits over all shards."""
    if distinct is None:
        return sum([answer.total for _, answer in answers])
    parts = [answer.distinct for _, answer in answers if answer.distinct is not None]
    num_pinned = sum([answer.num_pinned for _, answer in answers])
    if sum([len(part.counts) for part in parts]) <= VALUES_FAST_MAX:
        return num_pinned + num_distinct(parts, distinct.limit)
    return num_pinned + await asyncio.to_thread(num_distinct, parts, distinct.limit)


def _best_score(answer: SearchResponse) -> float:
    """Return the score of a shard's best hit, 0 if it has none."""
    return memoryview(answer.scores).cast("d")[0] if answer.scores else 0.0
