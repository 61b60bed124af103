"""The facets of a response, merged and listed without keeping other requests waiting.

    few values and buckets     at once
    many buckets               facet by facet, through the scheduler (`cooperative_scheduler`)
    very many values           on a thread, one response at a time: the kernels that add up, choose
                               and sort run off the event loop

The keys that a search within the values accepts are found first; of many values, on a thread of
their own.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable, Generator, Iterable, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec

from common.analysis.analyzer import Analyzer
from common.deadline import Deadline
from common.process.cooperative_scheduler import LoopScheduler, run_to_completion
from common.process.request_id_context import carried
from common.process.thread_pool import ThreadPool
from coordinator.cluster.all_shards import Cluster
from coordinator.parameters.facet_specs import FacetSpec, KeyTypos
from coordinator.parameters.parsed_parameters import FacetParameters, SearchParameters
from coordinator.read.facets.bucket_selection import (
    NONE_SELECTED,
    Bucket,
    num_buckets,
    page_of_buckets,
)
from coordinator.read.facets.facet_count_plan import CountedFacets
from coordinator.read.facets.facet_result_assembly import (
    facet_results,
    known_results,
    num_values_to_list,
)
from coordinator.read.facets.facet_result_types import FacetResult
from coordinator.read.facets.facet_value_search import KEYS_SEARCHED_FAST_MAX, accept_keys
from coordinator.read.facets.global_ordinals import FacetValues
from coordinator.read.facets.group_counts_by_facet_value import count_groups
from coordinator.read.facets.summed_counts import Accumulator, CountsReader, GroupCounts
from coordinator.read.facets.unconfigured_facets import field_results

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

LONG_RESPONSE_VALUES: Final = 100_000
"""Responses with more facet value counts are merged on a thread: 30 ns each."""
LONG_RESPONSE_KEYS: Final = 10_000
"""So are those whose values are read as numbers, or come as keys, if there are more: 1 µs each."""
BUCKETS_FAST_MAX: Final = 1_000
"""A search that may list more buckets goes through the scheduler: listing these takes 0.5 ms."""

T = TypeVar("T")


class FacetListing:
    """Lists facets.

    Args:
        cluster: the shards.
        analyzer: folds keys.
        scheduler: lets long lists yield the event loop.
    """

    def __init__(self, cluster: Cluster, analyzer: Analyzer, scheduler: LoopScheduler) -> None:
        self._cluster = cluster
        self._analyzer = analyzer
        self._scheduler = scheduler
        self._lister = ThreadPool(1, "lister")
        self._key_searcher = ThreadPool(1, "key-searcher")

    async def listed(
        self, parameters: SearchParameters, counted: CountedFacets
    ) -> list[FacetResult]:
        """Merge the counts of all facets and choose their buckets.

        Args:
            parameters: of the search.
            counted: the shards' counts.
        """
        state, facets = counted.state, counted.cache
        if (known := known_results(parameters, counted.plan, facets)) is not None:
            return known
        groups: list[GroupCounts] = []
        if parameters.distinct is not None and parameters.distinct.counts_groups:
            groups = await asyncio.to_thread(
                count_groups, counted.plan.requests, facets, counted.answers, counted.numberings
            )
        accepted = {}
        if searched := [spec for spec in parameters.facets if spec.key_query]:
            accepted = await self._accepted_by_facet(counted, searched)
        found: Iterable[FacetResult] = ()
        if parameters.field_facets:
            found = await self._field_facets(parameters, counted)

        def results(sums: Accumulator | None) -> Iterable[FacetResult]:
            listed = facet_results(
                parameters,
                counted,
                accepted,
                is_complete=len(counted.answers) == self._cluster.num_shards,
                groups=groups,
                sums=sums,
            )
            return heapq.merge(listed, found, key=lambda one: one.field) if found else listed

        num_values = counted.num_values + num_values_to_list(parameters, counted.plan, facets)
        if num_values > LONG_RESPONSE_KEYS and (
            num_values > LONG_RESPONSE_VALUES
            or any(spec.is_summed_up for spec in parameters.facets)
        ):
            return await self._on_a_thread(lambda sums: list(results(sums)))
        if parameters.num_buckets_max <= BUCKETS_FAST_MAX:
            return list(results(None))
        return await self._scheduler.run(state.index.number, _listing(results(None)))

    async def _field_facets(
        self, parameters: SearchParameters, counted: CountedFacets
    ) -> list[FacetResult]:
        """List the facets of fields that are not configured as facets."""
        state, answers = counted.state, counted.answers
        first = len(parameters.ranges) + sum([len(one.requests) for one in parameters.trees])

        def steps(analyzer: Analyzer) -> Generator[None, None, list[FacetResult]]:
            return _until(state.deadline, field_results(parameters, first, answers, analyzer))

        keys = [part.listed_keys for _, one in answers for part in one.ranges[first:]]
        searches_keys = any(spec.key_query for spec in parameters.field_facets)
        if sum(map(len, keys)) > (KEYS_SEARCHED_FAST_MAX if searches_keys else LONG_RESPONSE_KEYS):
            # With an analyzer of its own, since they have buffers.
            return await self._on_a_thread(lambda _: run_to_completion(steps(Analyzer())))
        return await self._scheduler.run(state.index.number, steps(self._analyzer))

    async def page(
        self, requested: FacetParameters, search: SearchParameters, counted: CountedFacets
    ) -> tuple[int, list[Bucket]]:
        """Return one page of the buckets of a search's only facet, and how many it has.

        Args:
            requested: the facet, and which of its buckets.
            search: with the rules that match it applied.
            counted: the shards' counts, of every value.
        """
        field = requested.facet.field
        values = counted.cache.values(field)
        selected = search.selected.get(field, NONE_SELECTED)
        (spec,) = search.facets
        order = spec.order
        if not order.hides_chosen_zero:  # the request decides, unless the key's filter has
            order = msgspec.structs.replace(order, hides_zero=requested.facet.hide_zero)
        accepts = await self._accepted(counted, values, requested.key_pattern, requested.key_query)

        def listed(reader: CountsReader) -> tuple[int, list[Bucket]]:
            with reader.next(values) as counts:
                offset, limit = requested.offset, requested.per_page
                count = num_buckets(values, counts, selected, order, accepts)
                page = page_of_buckets(values, counts, selected, order, offset, limit, accepts)
                return count, page

        answers, numberings = counted.answers, counted.numberings
        if counted.num_values > LONG_RESPONSE_VALUES:
            return await self._on_a_thread(
                lambda sums: listed(CountsReader(answers, numberings, sums))
            )
        return listed(CountsReader(answers, numberings))

    async def _accepted_by_facet(
        self, counted: CountedFacets, searched: Sequence[FacetSpec]
    ) -> dict[str, NDArray[np.bool_]]:
        """Return which values may be listed, by facet, of those with a search within the keys."""
        accepted = {}
        values_counted: dict[str, NDArray[np.bool_]] = {}
        if any(spec.key_typos == "unless_typed" for spec in searched):
            values_counted = await self._values_counted(counted)
        for spec in searched:
            name = spec.configuration.field
            mask = await self._accepted(
                counted,
                counted.cache.values(name),
                None,
                spec.key_query,
                typos=spec.key_typos,
                values_counted=values_counted.get(name),
            )
            if mask is not None:
                accepted[name] = mask
        return accepted

    async def _accepted(
        self,
        counted: CountedFacets,
        values: FacetValues,
        pattern: str | None,
        key_query: str | None,
        *,
        typos: KeyTypos = "always",
        values_counted: NDArray[np.bool_] | None = None,
    ) -> NDArray[np.bool_] | None:
        """Return which values may be listed (`accept_keys`); None if nothing restricts them."""
        if not pattern and not key_query:
            return None
        state = counted.state

        def accepted(analyzer: Analyzer) -> NDArray[np.bool_] | None:
            return accept_keys(
                values,
                analyzer,
                pattern,
                key_query,
                typos=typos,
                counted=values_counted,
                deadline=state.deadline,
            )

        if len(values) > KEYS_SEARCHED_FAST_MAX:
            # With an analyzer of its own, since they have buffers.
            searching = carried(lambda: accepted(Analyzer()))
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._key_searcher, searching)
        await self._scheduler.wait_turn(state.index.number)
        return accepted(self._analyzer)

    async def _values_counted(self, counted: CountedFacets) -> dict[str, NDArray[np.bool_]]:
        """Return which values the counted items have, by facet."""

        def found(reader: CountsReader) -> dict[str, NDArray[np.bool_]]:
            by_facet = {name: one.counts.counts > 0 for name, one in counted.plan.known.items()}
            for request in counted.plan.requests:
                with reader.next(counted.cache.values(request.field)) as counts:
                    by_facet.setdefault(request.field, counts.counts > 0)
            return by_facet

        answers, numberings = counted.answers, counted.numberings
        if counted.num_values > LONG_RESPONSE_VALUES:
            return await self._on_a_thread(
                lambda sums: found(CountsReader(answers, numberings, sums))
            )
        return found(CountsReader(answers, numberings))

    async def _on_a_thread(self, list_facets: Callable[[Accumulator], T]) -> T:
        """List facets on the thread for long responses, with separate sums."""
        listing = carried(lambda: list_facets(Accumulator()))
        return await asyncio.get_running_loop().run_in_executor(self._lister, listing)


def _until(deadline: Deadline, steps: Generator[None, None, T]) -> Generator[None, None, T]:
    """Do the steps of a computation, unless it is too late."""
    while True:
        deadline.check()
        try:
            next(steps)
        except StopIteration as done:
            result: T = done.value
            return result
        yield


def _listing(results: Iterable[FacetResult]) -> Generator[None, None, list[FacetResult]]:
    """List results lazily: each is made when it is requested."""
    listed = []
    for result in results:
        listed.append(result)
        yield
    return listed
