"""Several searches in one request: each with its result, or merged into one list."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec

from common.deadline import Deadline
from common.errors import ServiceError, StaleRequest
from coordinator.http.api_keys import Action
from coordinator.http.responses import Response, error_body
from coordinator.http.result_bodies import merged_body, range_pieces, separated
from coordinator.http.route import Body, Route
from coordinator.http.routing import RouteTable
from coordinator.http.services import BODY_FAST_BYTES, COMMON_LANE
from coordinator.parameters.parsed_parameters import MergedPage, NamedSearch, SearchParameters
from coordinator.parameters.request_decoding import decode_search
from coordinator.parameters.request_parsing import parse_search, parse_searches
from coordinator.read.federated_merge import (
    Member,
    check_orders,
    check_ranges,
    mergeable,
    merged_hits,
    merged_result,
    zeros_hidden,
)
from coordinator.read.multi_search_limits import CostSum, ItemSum, run_fairly
from coordinator.read.search_results import SearchResult
from coordinator.routes.search import narrowed, note_search, rendered_search

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from coordinator.cluster.catalog import Index
    from coordinator.http.request import Request
    from coordinator.http.services import Services

ROUTES: Final = RouteTable()


@ROUTES.add(
    Route(
        "POST",
        "/_search",
        "Many searches at once, on one or several indexes; merge: one list and one set of facets.",
        Action.SEARCH,
        body=Body.JSON,
        bytes_limit="search_body_bytes_max",
        applies_filter=True,
        is_shared=True,
        tag="search",
        document={"body": "Searches", "answer": "SearchesAnswer"},
    ),
)
async def searches(services: Services, request: Request) -> Response:
    """Answer `POST /_search`: for each search its result or its error, or all merged into one list.

    If none succeeds, the whole request fails with the error of the first search; searches that are
    merged must all succeed.
    """
    limits = services.settings.limits
    named, merge = parse_searches(decode_search(request.body, limits), limits)
    costs = CostSum(limits)
    is_long = len(request.body) > BODY_FAST_BYTES
    prepared: list[tuple[Index, SearchParameters] | ServiceError] = []
    for i, one in enumerate(named):
        if is_long:
            await services.scheduler.wait_turn(COMMON_LANE)
        try:
            index = services.guard.index(request.caller, one.index)
            parameters = parse_search(one.raw, index.configuration, limits)
            prepared.append((index, narrowed(parameters, request)))
        except ServiceError as error:
            prepared.append(error)
            continue
        try:
            costs.add(parameters)
        except ServiceError as error:
            raise _placed(error, i) from None
    if merge is not None:
        return await _merged(services, request, named, prepared, merge)
    timeouts = [one[1].timeout_ms for one in prepared if isinstance(one, tuple)]
    read = ItemSum()
    results = await run_fairly(
        [
            partial(_one_of_several, services, request, one.raw, ready, read)
            for one, ready in zip(named, prepared, strict=True)
        ],
        Deadline.after_ms(max(timeouts, default=limits.request_timeout_ms)),
    )
    if isinstance(results[0], ServiceError) and all(
        isinstance(result, ServiceError) for result in results
    ):
        raise _placed(results[0], 0)
    bodies = [
        error_body(_placed(result, i), request.request_id)
        if isinstance(result, ServiceError)
        else result
        for i, result in enumerate(results)
    ]
    return Response(b"".join((b'{"results":[', *separated(bodies), b"]}")))


def _members(
    named: Sequence[NamedSearch],
    prepared: Sequence[tuple[Index, SearchParameters] | ServiceError],
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
            raise _placed(ready, i)
        index, parameters = ready
        try:
            search = mergeable(parameters, merge.num_hits, hides)
        except ServiceError as error:
            raise _placed(error, i) from None
        members.append(Member(one.index, one.weight, parameters))
        to_run.append((index, search))
    return members, to_run


async def _merged(
    services: Services,
    request: Request,
    named: Sequence[NamedSearch],
    prepared: Sequence[tuple[Index, SearchParameters] | ServiceError],
    merge: MergedPage,
) -> Response:
    """Answer several searches as one.

    Raises:
        ServiceError: of the first search that fails: a list without its hits would be wrong.
    """
    members, to_run = _members(named, prepared, merge)
    check_orders(members)
    check_ranges(members)
    deadline = Deadline.after_ms(max([one.parameters.timeout_ms for one in members]))
    with ExitStack() as reading:
        horizons: dict[int, int] = {}
        for index, _ in to_run:
            if index.number not in horizons:
                held = services.cluster.reading(index.number)
                horizons[index.number] = reading.enter_context(held)
        found = await run_fairly(
            [
                partial(_result_or_error, services, index, search, horizons[index.number])
                for index, search in to_run
            ],
            deadline,
        )
        results: list[SearchResult] = []
        for i, result in enumerate(found):
            if isinstance(result, ServiceError):
                raise _placed(result, i)
            index, _ = to_run[i]
            search = msgspec.structs.replace(members[i].parameters, page=merge.page)
            took_us = result.timings.total_us
            note_search(services, request, index.name, search, result, took_us, named[i].raw)
            results.append(result)
        hits = await asyncio.to_thread(merged_hits, members, results, merge.page, merge.per_page)
        items = await _items_of_page(results, hits, deadline)
    merged = await asyncio.to_thread(
        merged_result, members, results, items, merge.page, merge.per_page
    )
    ranges = []
    if merged.ranges:
        ranges = await services.scheduler.run(COMMON_LANE, range_pieces(merged.ranges))
    return Response(
        merged_body(
            merged,
            ranges,
            [(one.index, result) for one, result in zip(members, results, strict=True)],
            request.request_id,
            request.micros,
        )
    )


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


async def _result_or_error(
    services: Services, index: Index, parameters: SearchParameters, horizon: int | None = None
) -> SearchResult | ServiceError:
    """Return a search's result, or its own error.

    Args:
        services: run it.
        index: to search.
        parameters: of the search.
        horizon: the state to search, which is kept readable; None: the newest.

    Raises:
        StaleRequest: all searches have to run again.
    """
    try:
        return await services.search.search(index, parameters, horizon)
    except StaleRequest:
        raise
    except ServiceError as error:
        return error


async def _one_of_several(
    services: Services,
    request: Request,
    raw: Mapping[str, Any],
    prepared: tuple[Index, SearchParameters] | ServiceError,
    read: ItemSum,
) -> bytes | ServiceError:
    """Return the JSON of one search's result, or its own error.

    Raises:
        StaleRequest: all searches have to run again.
        PayloadTooLarge: the items of all searches so far are too large.
    """
    if isinstance(prepared, ServiceError):
        return prepared
    index, parameters = prepared
    result = await _result_or_error(services, index, parameters)
    if isinstance(result, ServiceError):
        return result
    read.add(result.items)
    total_us = result.timings.total_us
    note_search(services, request, index.name, parameters, result, total_us, raw)
    return await rendered_search(
        services, index.number, result, request.request_id, total_us, parameters
    )


def _placed(error: ServiceError, position: int) -> ServiceError:
    """Return an error that names the position of the search it concerns."""
    param = f"searches[{position}]" + (f".{error.param}" if error.param else "")
    return type(error)(error.message, code=error.code, param=param, details=error.details)
