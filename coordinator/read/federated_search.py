"""Federated search: runs several searches, and merges their results (`federated_merge`).

The states that the searches see are held until the items of the merged page have been read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from typing import NamedTuple, TypeAlias

from msgspec import structs

from common.deadline import Deadline
from common.errors import ServiceError, StaleRequest
from coordinator.catalog.catalog import Index
from coordinator.cluster.all_shards import Cluster
from coordinator.parameters.parsed_parameters import MergedPage, NamedSearch, SearchParameters
from coordinator.read.federated_merge import (
    Member,
    check_orders,
    check_ranges,
    mergeable,
    merged_hits,
    merged_result,
    zeros_hidden,
)
from coordinator.read.multi_search_concurrency import run_fairly
from coordinator.read.multi_search_limits import ItemSum
from coordinator.read.search import Search
from coordinator.read.search_results import SearchResult

PreparedSearch: TypeAlias = tuple[Index, SearchParameters] | ServiceError
"""A search that can be run, or why it cannot."""
Note: TypeAlias = Callable[[int, str, SearchParameters, SearchResult], None]
"""Takes the position of a search that was answered, its index, its parameters and its result."""


class FederatedResult(NamedTuple):
    """The results of several searches, as one."""

    merged: SearchResult
    searches: list[tuple[str, SearchResult]]
    """By search: the name of its index, and its own result."""


async def federated_search(
    search: Search,
    cluster: Cluster,
    named: Sequence[NamedSearch],
    prepared: Sequence[PreparedSearch],
    merge: MergedPage,
    note: Note,
) -> FederatedResult:
    """Run searches and merge them into one page.

    Args:
        search: runs one.
        cluster: keeps the states readable that they see.
        named: the searches as requested.
        prepared: the same, parsed.
        merge: the requested page.
        note: called for every search that was answered.

    Raises:
        ServiceError: of the first search that fails: a list without its hits would be wrong.
        StaleRequest: all searches have to run again.
    """
    members, to_run = _members(named, prepared, merge)
    check_orders(members)
    check_ranges(members)
    deadline = Deadline.after_ms(max([one.parameters.timeout_ms for one in members]))
    with ExitStack() as reading:
        horizons: dict[int, int] = {}
        for index, _ in to_run:
            if index.number not in horizons:
                horizons[index.number] = reading.enter_context(cluster.reading(index.number))
        found = await run_fairly(
            [
                partial(result_or_error, search, index, parameters, horizons[index.number])
                for index, parameters in to_run
            ],
            deadline,
        )
        results: list[SearchResult] = []
        for i, result in enumerate(found):
            if isinstance(result, ServiceError):
                raise placed(result, i)
            requested = structs.replace(members[i].parameters, page=merge.page)
            note(i, to_run[i][0].name, requested, result)
            results.append(result)
        hits = await asyncio.to_thread(merged_hits, members, results, merge.page, merge.per_page)
        items = await _items_of_page(results, hits, deadline)
    merged = await asyncio.to_thread(
        merged_result, members, results, items, merge.page, merge.per_page
    )
    names = [one.index for one in members]
    return FederatedResult(merged, list(zip(names, results, strict=True)))


def _members(
    named: Sequence[NamedSearch],
    prepared: Sequence[PreparedSearch],
    merge: MergedPage,
) -> tuple[list[Member], list[tuple[Index, SearchParameters]]]:
    """Return the searches to merge: as requested, and as they are run.

    Raises:
        ServiceError: of the first search that is invalid, or cannot be merged.
    """
    members: list[Member] = []
    to_run: list[tuple[Index, SearchParameters]] = []
    hides = zeros_hidden(ready[1] for ready in prepared if not isinstance(ready, ServiceError))
    for i, (one, ready) in enumerate(zip(named, prepared, strict=True)):
        if isinstance(ready, ServiceError):
            raise placed(ready, i)
        index, parameters = ready
        try:
            search = mergeable(parameters, merge.num_hits, hides)
        except ServiceError as error:
            raise placed(error, i) from None
        members.append(Member(one.index, one.weight, parameters))
        to_run.append((index, search))
    return members, to_run


async def _items_of_page(
    results: Sequence[SearchResult], hits: Sequence[tuple[int, int]], deadline: Deadline
) -> list[tuple[int, bytes]]:
    """Return the items of hits (search, rank), each with its search."""
    ranks: dict[int, list[int]] = {}
    for member, rank in hits:
        ranks.setdefault(member, []).append(rank)
    read = ItemSum()

    async def items_of(member: int) -> Iterator[bytes]:
        read_items = results[member].items_of
        assert read_items is not None, "a merged search keeps its order"
        items = await read_items(ranks[member])
        read.add(items)
        return iter(items)

    reads = [partial(items_of, member) for member in ranks]
    items = dict(zip(ranks, await run_fairly(reads, deadline), strict=True))
    return [(member, next(items[member])) for member, _ in hits]


async def result_or_error(
    search: Search, index: Index, parameters: SearchParameters, horizon: int | None = None
) -> SearchResult | ServiceError:
    """Return a search's result, or its own error.

    Args:
        search: runs it.
        index: to search.
        parameters: of the search.
        horizon: the state to search, which is kept readable; None: the newest.

    Raises:
        StaleRequest: all searches have to run again.
    """
    try:
        return await search.search(index, parameters, horizon)
    except StaleRequest:
        raise
    except ServiceError as error:
        return error


def placed(error: ServiceError, position: int) -> ServiceError:
    """Return an error that names the position of the search it concerns."""
    param = f"searches[{position}]" + (f".{error.param}" if error.param else "")
    return type(error)(error.message, code=error.code, param=param, details=error.details)
