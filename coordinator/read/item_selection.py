"""The items that a change by filter or an export takes in: any number, all from one state."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from dataclasses import replace
from typing import Final

from common.analysis.analyzer import Analyzer
from common.deadline import Deadline
from common.errors import InvalidRequest
from common.protocol.messages import FilterClause
from common.query_syntax_tree import Exists, IsNull, Or
from coordinator.catalog.catalog import Index
from coordinator.cluster.searched_state import SearchedState
from coordinator.parameters.parsed_parameters import NamedField, SearchParameters
from coordinator.read.cursor import Cursor
from coordinator.read.field_checks import CheckedSearch, check_conditions, unknown_field
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
        is_first = not cursor.num_seen
        if is_first:
            await check_conditions(
                CheckedSearch(self._services.caches.of(index), parameters, state)
            )
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
        if is_first and hits and not parameters.only_ids:
            await self._check_fields_of_key(parameters, state)
        return hits, next_cursor(index.number, cursor, parameters, hits)

    async def _check_fields_of_key(
        self, parameters: SearchParameters, state: SearchedState
    ) -> None:
        """Reject a key's conditions on a field that no item has which its filter lets through.

        `check_conditions` says nothing of the fields of a key with a filter: that would tell which
        fields hidden items have. What is counted here is what the key can count itself.

        Raises:
            InvalidRequest: there is one.
            Unavailable: a shard is down or late.
        """
        key_filter = parameters.key_filter
        if key_filter is None:
            return
        known = self._services.caches.of(state.index).configured_fields
        compared = [NamedField(param, name) for name, param in parameters.filter_fields.items()]
        for named in (*parameters.tested_fields, *compared):
            if named.field in known:
                continue
            has_field = Or((Exists(named.field), IsNull(named.field)))
            having = SearchParameters(
                filters=(FilterClause(key_filter), FilterClause(has_field)),
                key_filter=key_filter,
                per_page=0,
                timeout_ms=parameters.timeout_ms,
            )
            outcome = await self._services.scatter.search(having, state)
            if not outcome.total:
                raise unknown_field(named)

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
