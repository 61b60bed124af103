"""The facets of a response, merged and listed without keeping other requests waiting."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Generator, Iterable
from typing import Final

from common.analysis.analyzer import Analyzer
from common.process.turns import Turns
from coordinator.cluster.cluster import Cluster
from coordinator.parameters.parse import SearchParameters
from coordinator.read.facet_values import GroupCounts
from coordinator.read.facets import facet_results
from coordinator.read.field_facets import field_results
from coordinator.read.groups import count_groups
from coordinator.read.results import FacetResult
from coordinator.read.scatter import SearchOutcome

LONG_RESPONSE_VALUES: Final = 100_000
"""Of responses with more facet value counts, one is built at a time."""
BUCKETS_FAST_MAX: Final = 1_000
"""A search that may list more buckets takes turns: listing these takes 0.5 ms."""


class FacetListing:
    """Lists facets.

    Args:
        cluster: the shards.
        analyzer: folds keys.
        turns: of the event loop; long lists take theirs.
    """

    def __init__(self, cluster: Cluster, analyzer: Analyzer, turns: Turns) -> None:
        self._cluster = cluster
        self._analyzer = analyzer
        self._turns = turns
        self._one_long_response = asyncio.Lock()

    async def listed(
        self, parameters: SearchParameters, outcome: SearchOutcome
    ) -> list[FacetResult]:
        """Merge the counts of all facets and choose their buckets.

        Many buckets take turns with other requests; of the longest responses only one is built at
        a time, since each may hold a hundred megabytes.

        Args:
            parameters: of the search.
            outcome: what the shards counted.
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
            outcome.state.horizon,
            self._analyzer,
            is_complete=len(outcome.answers) == self._cluster.num_shards,
            groups=groups,
        )
        num_values = sum([one.num_values for _, part in outcome.answers for one in part.facets])
        if parameters.field_facets:
            first = len(parameters.ranges) + sum([len(one.requests) for one in parameters.trees])
            found = field_results(parameters, first, outcome.answers, self._analyzer)
            results = heapq.merge(results, found, key=lambda one: one.field)
        index = outcome.state.index.number
        if num_values <= LONG_RESPONSE_VALUES:
            if parameters.num_buckets_max <= BUCKETS_FAST_MAX:
                return list(results)
            return await self._turns.run(index, _listing(results))
        async with self._one_long_response:
            return await self._turns.run(index, _listing(results))


def _listing(results: Iterable[FacetResult]) -> Generator[None, None, list[FacetResult]]:
    """List results one by one: each is made when it is asked for."""
    listed = []
    for result in results:
        listed.append(result)
        yield
    return listed
