"""The items that a change by filter or an export takes in: any number, all from one state."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from dataclasses import replace
from typing import Final

from common.analysis.analyzer import Analyzer
from common.deadline import Deadline
from common.errors import InvalidRequest
from coordinator.catalog.catalog import Index
from coordinator.cluster.searched_state import SearchedState
from coordinator.parameters.parsed_parameters import SearchParameters
from coordinator.read.cursor import Cursor
from coordinator.read.field_checks import check_conditions
from coordinator.read.hit_merging import Hit
from coordinator.read.paging import next_cursor
from coordinator.read.read_services import ReadServices
from coordinator.read.stored_items import read_items

_analyzer: Final = Analyzer()


class Selection:
    """Selects items page by page, and reads them.

    Args:
        services: what all kinds of searches share.
    """

    def __init__(self, services: ReadServices) -> None:
        self._services = services

    async def page(
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
            As `Search.search`.
        """
        assert parameters.cursor is not None
        cursor = Cursor.decode(parameters.cursor, index.revision, len(parameters.sort))
        cursor = replace(cursor, horizon=horizon)
        deadline = Deadline.after_ms(parameters.timeout_ms)
        state = SearchedState(index, horizon, cursor.timestamp, deadline)
        if not cursor.num_seen:
            await check_conditions(self._services.caches.of(index), parameters, state)
        cursor = await self._services.paging.continued(parameters, state, cursor)
        outcome, hits = await self._services.paging.find(
            parameters, state, cursor, may_be_inline=False
        )
        if outcome.scored.num_words_cut:
            # Dropping words may match more items: fine for a search, not for a change.
            raise InvalidRequest(
                f"query has more words than {self._services.limits.shown('query_words_max')}",
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
        return read_items(
            self._services.cluster, index, hits, horizon, timeout_ms, wants_ids=wants_ids
        )


def selects_all(parameters: SearchParameters) -> bool:
    """Return whether nothing restricts a search: neither filters nor words."""
    return not parameters.filters and not _analyzer.count_words(parameters.query)
