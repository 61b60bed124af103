"""Sends a search to every shard, with the weights of its words and the plan of its facets' counts.

    parameters ─▶ scored query ─▶ facet plan ─▶ SearchRequest ─▶ every shard ─▶ SearchOutcome

The weights may rest on the assumption that other spacings of known words are absent. The shards
count these along; only where there are some, the search is sent again with the right weights.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine, Generator, Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct

from common.analysis.analyzer import Analyzer
from common.boosts import Boost
from common.errors import DeadlineExceeded
from common.limits import Limits
from common.process.cooperative_scheduler import LoopScheduler
from common.protocol.messages import (
    Distinct,
    FilterFactor,
    RangeRequest,
    SearchRequest,
    SearchResponse,
    TermsRequest,
)
from common.protocol.methods import SEARCH
from coordinator.cluster.all_shards import Cluster
from coordinator.cluster.fan_out import gather_partial
from coordinator.cluster.searched_state import SearchedState
from coordinator.cluster.shard_responses import ShardResponses, answered
from coordinator.parameters.parsed_parameters import SearchParameters
from coordinator.read.cursor import Cursor
from coordinator.read.facets.facet_count_plan import CountedFacets, FacetPlan, plan_facets
from coordinator.read.facets.global_ordinals import Numbering
from coordinator.read.facets.joint_counts_with_bins import histogram_requests
from coordinator.read.facets.unconfigured_facets import field_requests
from coordinator.read.field_checks import CheckedSearch, check_fields, lateness_explained
from coordinator.read.hit_merging import VALUES_FAST_MAX, num_distinct, num_inline
from coordinator.read.index_caches import IndexCache, IndexCaches
from coordinator.read.search_results import Timings
from coordinator.read.text.query_parser import ParsedQuery, QueryOptions, parse_query
from coordinator.read.text.query_weighting import UNRESTRICTED, score_again, score_query
from coordinator.read.text.text_statistics_cache import ScoredQuery, StatisticsCache

INLINE_HITS_MAX: Final = 40
"""Up to this many hits, shards send documents along with the keys: reading a few needlessly costs
less than a second round trip."""


class Retrieval(Struct, frozen=True):
    """What a search retrieves from each shard, apart from what its parameters request."""

    num_hits: int = 0
    """Hits that each shard sends."""
    cursor: Cursor | None = None
    """The hits come after its hit; None: they are the first."""
    may_be_inline: bool = True
    """Whether shards may send stored items along with the hits."""
    wants_all_buckets: bool = False
    """Whether all values of the facets are counted."""
    wants_total: bool = True
    """Whether shards are asked even if no facet needs it."""
    terms: TermsRequest | None = None
    """Words that the shards list along with the search."""


COUNTS_ONLY: Final = Retrieval()


class SearchOutcome(Struct, frozen=True):
    """The shards' responses to one search; every facet dictionary they refer to is known."""

    parameters: SearchParameters
    """Of the search that was run, which may match fewer words than the one requested."""
    answers: list[tuple[int, SearchResponse]]
    numberings: Sequence[Numbering]
    """Of the values that the responses count, by facet."""
    state: SearchedState
    cache: IndexCache
    scored: ScoredQuery
    plan: FacetPlan
    total: int
    """Hits over all shards; of a search by distinct values those that are left."""
    request: SearchRequest
    """The request to the shards."""

    @property
    def counted(self) -> CountedFacets:
        """What the facets of the response are listed from."""
        return CountedFacets(
            self.plan, self.cache.facets, self.answers, self.numberings, self.state
        )

    def timings(self, started: float) -> Timings:
        """Return the time of each phase; a shard phase takes as long as on the slowest shard."""
        of_shards = [answer.timings_us for _, answer in self.answers]
        search, facets, sort = map(max, zip(*of_shards, strict=True))
        total = int((time.perf_counter() - started) * 1_000_000)
        return Timings(total, search, facets, sort)

    @property
    def has_others(self) -> bool:
        """Whether there are hits other than pinned ones."""
        totals = [answer.total - answer.num_pinned for _, answer in self.answers]
        return any(totals)


class Scatter:
    """Sends searches to the shards.

    Args:
        cluster: the shards.
        caches: of the indexes.
        analyzer: splits query texts into words.
        limits: in force.
        scheduler: lets long steps yield the event loop.
    """

    def __init__(
        self,
        cluster: Cluster,
        caches: IndexCaches,
        analyzer: Analyzer,
        limits: Limits,
        scheduler: LoopScheduler,
    ) -> None:
        self._cluster = cluster
        self._caches = caches
        self._analyzer = analyzer
        self._limits = limits
        self._scheduler = scheduler

    async def search(
        self,
        parameters: SearchParameters,
        state: SearchedState,
        retrieval: Retrieval = COUNTS_ONLY,
    ) -> SearchOutcome:
        """Search all shards; on return, every facet value number they sent has its text.

        Args:
            parameters: of the search.
            state: the state to search.
            retrieval: what to retrieve, apart from counts.

        Raises:
            InvalidRequest: a field that the search names has no fitting values.
            Unavailable: a shard is down or late (unless partial results are allowed).
        """
        cache = self._caches.of(state.index)
        scored = UNRESTRICTED
        if parameters.query:
            statistics = self._caches.statistics(cache, parameters.key_filter)
            known = statistics.known_query(parameters.query_key, state.horizon)
            scored = known or await self._scored_query(cache, statistics, parameters, state)
        if parameters.field_needs or parameters.named_search_fields:
            await check_fields(CheckedSearch(cache, parameters, state))
        ranking = _ranking(parameters, scored, retrieval.num_hits)
        plan = plan_facets(
            parameters,
            cache.facets,
            state.horizon,
            is_total=_matches_all(parameters, ranking) and not retrieval.wants_all_buckets,
            wants_all_buckets=retrieval.wants_all_buckets,
        )
        request = self._request(parameters, state, ranking, plan, retrieval)
        answers = []
        if retrieval.wants_total or plan.requests:
            try:
                answers = answered(await self._send(request, parameters, state))
            except DeadlineExceeded as error:
                raise lateness_explained(cache, parameters, error) from error
        if scored.assumption is not None:
            counted = [one.statistics for _, one in answers if one.statistics is not None]
            statistics = self._caches.statistics(cache, parameters.key_filter)
            scored = await score_again(
                state.index, parameters, statistics, scored, counted, self._scheduler
            )
            request = msgspec.structs.replace(request, query=scored.query, assumed_absent=None)
            if any(part.has_any for part in counted):
                answers = answered(await self._send(request, parameters, state))
        numberings: Sequence[Numbering] = ()
        if plan.requests:
            numberings = await cache.facets.learn(
                state.index, plan.requests, answers, state.deadline, self._scheduler
            )
        if parameters.distinct is None:
            total = sum([answer.total for _, answer in answers])
        else:
            total = await _num_distinct(parameters.distinct, answers)
        return SearchOutcome(
            parameters=parameters,
            answers=answers,
            numberings=numberings,
            state=state,
            cache=cache,
            scored=scored,
            plan=plan,
            total=total,
            request=request,
        )

    async def search_again(
        self, outcome: SearchOutcome, request: SearchRequest
    ) -> list[tuple[int, SearchResponse]]:
        """Send the shards of a search another request, which depends on what it found.

        Args:
            outcome: of the search: its state, its deadline, and whether shards may be down.
            request: made from `outcome.request`.

        Raises:
            Unavailable: as `search`.
        """
        return answered(await self._send(request, outcome.parameters, outcome.state))

    def _request(
        self,
        parameters: SearchParameters,
        state: SearchedState,
        ranking: _Ranking,
        plan: FacetPlan,
        retrieval: Retrieval,
    ) -> SearchRequest:
        """Return the request that every shard gets."""
        num_hits, cursor, terms = retrieval.num_hits, retrieval.cursor, retrieval.terms
        distinct, assumption = parameters.distinct, ranking.scored.assumption
        return SearchRequest(
            index=state.index.number,
            horizon=state.horizon,
            revision=state.index.revision,
            query=ranking.scored.query,
            filters=parameters.filters,
            facets=plan.requests,
            ranges=_range_requests(parameters),
            sort=parameters.sort,
            is_place_descending=parameters.is_place_descending,
            num_hits=num_hits,
            num_documents=self.num_documents(num_hits, parameters)
            if retrieval.may_be_inline
            else 0,
            after=cursor.after if cursor and cursor.after and not distinct else None,
            distinct=distinct,
            wants_explanation="score_details" in parameters.show,
            wants_elements="elements" in parameters.show,
            ids=parameters.only_ids,
            boosts=ranking.boosts,
            timestamp=state.timestamp,
            min_score=ranking.min_score,
            factors=ranking.factors,
            pins=parameters.pins,
            has_pins_apart=not parameters.sort and (num_hits > 0 or distinct is not None),
            wants_distinct_values=self._cluster.num_shards > 1,
            assumed_absent=None if assumption is None else assumption.request,
            terms=terms,
            wants_total=terms is None,
            needs_scores=not ranking.scored.has_made_up_weights,
            num_before=num_before(cursor, parameters),
            highlight=parameters.marks,
        )

    def _send(
        self, request: SearchRequest, parameters: SearchParameters, state: SearchedState
    ) -> Coroutine[Any, Any, list[SearchResponse | None]]:
        """Send a request to all shards; return their responses, None of one that is down."""
        return gather_partial(
            self._cluster, SEARCH, request, state.deadline, is_partial=parameters.allows_partial
        )

    def num_documents(self, num_hits: int, parameters: SearchParameters) -> int:
        """Return how many stored items each shard sends along with `num_hits` hits."""
        if num_hits > INLINE_HITS_MAX:
            return 0
        if parameters.marks is not None and parameters.keeps_order:
            return 0  # of the hits of several searches few are shown, and marking is not cheap
        return num_inline(num_hits, self._cluster.num_shards)

    def _scored_query(
        self,
        cache: IndexCache,
        statistics: StatisticsCache,
        parameters: SearchParameters,
        state: SearchedState,
    ) -> Coroutine[Any, Any, ScoredQuery]:
        """Parse and score the query text."""

        def parse() -> Generator[None, None, ParsedQuery]:
            return parse_query(
                parameters.query,
                QueryOptions(
                    parameters.match,
                    parameters.prefix,
                    parameters.typo,
                    parameters.typo_lengths,
                    parameters.infix,
                    parameters.drops_function_words,
                ),
                cache.dictionary,
                self._analyzer,
                self._limits.query_words_max,
            )

        return score_query(state, parse, parameters, statistics, self._scheduler)


def num_before(cursor: Cursor | None, parameters: SearchParameters) -> int:
    """Return how many hits come before a page at most; 0: any number.

    Earlier pages may lack the hits of a shard that was down, if they were allowed to.
    """
    return 0 if cursor is None or parameters.allows_partial else cursor.num_seen


class _Ranking(Struct, frozen=True):
    """What the scores of a search are made of, where anything depends on scores."""

    scored: ScoredQuery
    boosts: tuple[Boost, ...]
    factors: tuple[FilterFactor, ...]
    min_score: float | None


def _ranking(parameters: SearchParameters, scored: ScoredQuery, num_hits: int) -> _Ranking:
    """Return what scores hits; without a use for boosts, none."""
    boosts, factors = parameters.boosts, parameters.factors
    if (boosts or factors) and not (
        parameters.is_boosted and (num_hits > 0 or parameters.min_score is not None)
    ):
        boosts, factors = (), ()
    has_scores = scored.query is not None or bool(boosts or factors)
    return _Ranking(scored, boosts, factors, parameters.min_score if has_scores else None)


def _matches_all(parameters: SearchParameters, ranking: _Ranking) -> bool:
    """Return whether nothing narrows the search: it counts all items of the index."""
    return (
        ranking.scored.query is None
        and not parameters.filters
        and ranking.min_score is None
        and not (parameters.distinct is not None and parameters.distinct.counts_groups)
    )


def _range_requests(parameters: SearchParameters) -> tuple[RangeRequest, ...]:
    """Return all ranges that a search counts, in the order of its responses."""
    if not (parameters.trees or parameters.field_facets or parameters.cube is not None):
        return parameters.ranges
    return (
        *parameters.ranges,
        *[request for tree in parameters.trees for request in tree.requests],
        *field_requests(parameters),
        *histogram_requests(parameters.cube),
    )


async def _num_distinct(distinct: Distinct, answers: ShardResponses) -> int:
    """Return the number of hits over all shards that are left of a search by distinct values."""
    parts = [answer.distinct for _, answer in answers if answer.distinct is not None]
    num_apart = sum([answer.num_apart for _, answer in answers])
    if sum([len(part.counts) for part in parts]) <= VALUES_FAST_MAX:
        return num_apart + num_distinct(parts, distinct.limit)
    return num_apart + await asyncio.to_thread(num_distinct, parts, distinct.limit)
