"""One page of a facet's buckets, of any length: the facet route.

parameters ─▶ counts of every value, by the search's match mode ─▶ the buckets of the page
"""

from __future__ import annotations

import time
from collections.abc import Awaitable
from functools import partial

from common.deadline import Deadline
from coordinator.catalog.catalog import Index
from coordinator.cluster.searched_state import SearchedState, now
from coordinator.parameters.parsed_parameters import FacetParameters
from coordinator.read.curated_search import curated_search
from coordinator.read.facets.facet_result_types import FacetResult
from coordinator.read.field_checks import CheckedSearch, search_warnings
from coordinator.read.read_services import ReadServices
from coordinator.read.scatter import Retrieval
from coordinator.read.search_results import FacetPage, ShardSummary


class FacetPages:
    """Lists the buckets of one facet, page by page.

    Args:
        services: what all kinds of searches share.
    """

    def __init__(self, services: ReadServices) -> None:
        self._services = services

    def page(self, index: Index, parameters: FacetParameters) -> Awaitable[FacetPage]:
        """Return one page of one facet's buckets.

        Raises:
            As `Search.search`.
        """
        deadline = Deadline.after_ms(parameters.search.timeout_ms)
        page = partial(self._page, index, parameters, deadline)
        return self._services.share.run(index.number, deadline, page)

    async def _page(
        self, index: Index, parameters: FacetParameters, deadline: Deadline
    ) -> FacetPage:
        started = time.perf_counter()
        facet, timestamp = parameters.facet, now()
        every_bucket = Retrieval(wants_all_buckets=True)
        requested, _ = await curated_search(self._services, index, parameters.search, timestamp)
        with self._services.cluster.reading(index.number) as horizon:
            state = SearchedState(index, horizon, timestamp, deadline)
            for search in self._services.relaxed(index, requested):
                outcome = await self._services.scatter.search(search, state, every_bucket)
                if outcome.has_others:
                    break
            warnings = await search_warnings(
                CheckedSearch(self._services.caches.of(index), search, state)
            )
        total, buckets = await self._services.facet_listing.page(
            parameters, search, outcome.counted
        )
        return FacetPage(
            page=parameters.page,
            per_page=parameters.per_page,
            facet=FacetResult(facet.field, facet.title, facet.position, buckets),
            total=total,
            seq=horizon,
            shards=ShardSummary(self._services.cluster.num_shards, len(outcome.answers)),
            timings=outcome.timings(started),
            warnings=(*warnings, *_pattern_warnings(parameters, total)),
        )


def _pattern_warnings(parameters: FacetParameters, total: int) -> tuple[str, ...]:
    """Return what a pattern that no value has was probably to be: a text of items, or of values."""
    pattern = parameters.key_pattern
    if total or not pattern or "*" in pattern:
        return ()
    return (
        f"no value is {pattern!r}: here, query is a pattern of whole values, such as '*war*'; "
        "search_query is a text of the items, facet_query the beginning of a value",
    )
