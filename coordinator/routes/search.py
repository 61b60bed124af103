"""Search: hits and facets of an index, the values of one facet, and several searches at once."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec
from aiohttp import hdrs

from common.deadline import Deadline
from common.errors import ConfigurationSwitched, DeadlineExceeded, ServiceError
from common.protocol.messages import FilterClause
from coordinator.cluster.searched_state import now
from coordinator.http.api_keys import Action
from coordinator.http.responses import Response, error_body
from coordinator.http.result_bodies import (
    BUCKETS_FAST_MAX,
    facet_body,
    facet_members,
    merged_body,
    search_body,
    separated,
    server_timing,
)
from coordinator.http.route import Body, Route
from coordinator.http.routing import RouteTable
from coordinator.http.services import BODY_FAST_BYTES, COMMON_LANE
from coordinator.parameters.parse import (
    FacetParameters,
    SearchParameters,
    parse_facet,
    parse_search,
    parse_searches,
)
from coordinator.parameters.raw import decode_search, query_parameters
from coordinator.parameters.table import FACET_PARAMETERS, SEARCH_PARAMETERS
from coordinator.parameters.typed import MergedPage, NamedSearch, without_zeros
from coordinator.read.federated import (
    Member,
    check_orders,
    check_ranges,
    mergeable,
    merged_hits,
    merged_result,
    zeros_hidden,
)
from coordinator.read.multi_search import CostSum, ItemSum, run_fairly
from coordinator.read.result_cache import ResultKey
from coordinator.read.results import SearchResult, Timings

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from common.limits import Limits
    from coordinator.cluster.catalog import Index
    from coordinator.http.request import Request
    from coordinator.http.services import Services

ADDRESS_CHARS_MAX: Final = 64
"""Of the address of a client, for analytics."""

ROUTES: Final = RouteTable()


def search_parameters(services: Services, request: Request) -> SearchParameters:
    """Return the parameters of a search request.

    Raises:
        InvalidRequest: as `parse_search`.
    """
    identity = (request.index, request.query_string, request.body)
    parameters = services.parsed.search(*identity)
    if parameters is None:
        limits = services.settings.limits
        raw = raw_parameters(request, limits)
        parameters = parse_search(raw, request.index.configuration, limits)
        services.parsed.remember(*identity, parameters)
    return parameters


def raw_parameters(request: Request, limits: Limits) -> dict[str, Any]:
    """Merge query string and body; the body wins."""
    raw = query_parameters(request.query_string) if request.query_string else {}
    if request.body:
        raw.update(decode_search(request.body, limits))
    return raw


def narrowed(search: SearchParameters, request: Request) -> SearchParameters:
    """Narrow a search by the filter of the caller's key, and to the time left.

    With a filter, the response depends only on items that pass it: values without hits are not
    listed, and document frequencies of words are of these items (`key_filter`).

    Raises:
        DeadlineExceeded: no time is left.
    """
    if request.waited_ms:
        left_ms = search.timeout_ms - request.waited_ms
        if left_ms <= 0:
            raise DeadlineExceeded(
                "the index is being switched to another configuration, longer than the deadline"
            )
        search = msgspec.structs.replace(search, timeout_ms=left_ms)
    condition = request.caller.filter
    if condition is None:
        return search
    return msgspec.structs.replace(
        search,
        filters=(*search.filters, FilterClause(condition)),
        key_filter=condition,
        facets=tuple(map(without_zeros, search.facets)),
        field_facets=tuple(map(without_zeros, search.field_facets)),
    )


def note_search(
    services: Services,
    request: Request,
    index: str,
    parameters: SearchParameters,
    total: int,
    took_us: int,
) -> None:
    """Count a search for analytics, unless it asks for a further page."""
    if services.analytics.is_on and parameters.page == 1 and parameters.cursor is None:
        client = counted_client(request)
        services.analytics.record(client, index, parameters.query, total, took_us)


def counted_client(request: Request) -> tuple[str | None, str]:
    """Return what distinguishes the searches of clients for analytics; it is not stored.

    A client may send any X-Forwarded-For: its beginning has to do, as thousands are in memory.
    """
    address = request.headers.get(hdrs.X_FORWARDED_FOR) or request.peer_address
    return request.caller.key_id, address[:ADDRESS_CHARS_MAX]


def note_slow(
    services: Services,
    request: Request,
    index: str,
    raw: Mapping[str, Any],
    result: SearchResult,
    took_us: int,
) -> None:
    """Count and log a slow search, with its parameters as sent."""
    services.metrics.num_slow += 1
    services.slow_queries.note(index, raw, request.request_id, took_us, result)


def search_routes(
    path: str, summary: str, parameters: tuple[Any, ...], answer: str
) -> tuple[Route, Route]:
    """Return the routes of a page of an index that is read by GET and by POST.

    Args:
        path: of the page.
        summary: of the page, for the documentation.
        parameters: from the query string, or from a body of JSON.
        answer: name of the response's schema.
    """

    def route(method: str, body: Body) -> Route:
        return Route(
            method,
            path,
            summary,
            Action.SEARCH,
            body=body,
            bytes_limit="search_body_bytes_max",
            needs_index=True,
            applies_filter=True,
            is_shared=True,
            tag="search",
            parameters=parameters,
            document={"answer": answer},
        )

    return route("GET", Body.NONE), route("POST", Body.JSON)


@ROUTES.add(
    *search_routes(
        "/{index}/search",
        "Search an index: one page of hits, and facets.",
        SEARCH_PARAMETERS,
        "SearchAnswer",
    )
)
async def search(services: Services, request: Request) -> Response:
    """Answer `/{index}/search`."""
    parameters = narrowed(search_parameters(services, request), request)
    if services.results.is_on:
        result = await _remembered(services, request, parameters)
    else:
        result = await services.search.search(request.index, parameters)
    total_us = request.micros
    services.metrics.observe_search(result, total_us)
    note_search(services, request, request.index.name, parameters, result.total, total_us)
    if services.slow_queries.is_slow(total_us):
        raw = raw_parameters(request, services.settings.limits)
        note_slow(services, request, request.index.name, raw, result, total_us)
    return Response(
        await _search_body(
            services, request.index.number, result, request.request_id, total_us, parameters
        ),
        headers=server_timing(result.timings, total_us),
    )


async def _remembered(
    services: Services, request: Request, parameters: SearchParameters
) -> SearchResult:
    """Return the result of a search through the cache."""
    index = request.index
    timestamp = 0
    if parameters.depends_on_time or index.configuration.rules:
        timestamp = now()
    identity = (request.query_string, request.body, request.caller.filter, timestamp)
    with services.cluster.reading(index.number) as horizon:
        key = ResultKey(index.number, index.revision, horizon, identity)
        known = services.results.get(key) if parameters.cursor is None else None
        if known is not None:
            return msgspec.structs.replace(known, timings=Timings(request.micros, 0, 0, 0))
    result = await services.search.search(index, parameters)
    if parameters.cursor is None and result.shards.ok == result.shards.total:
        services.results.put(key._replace(horizon=result.seq), result)
    return result


@ROUTES.add(
    *search_routes(
        "/{index}/facet",
        "One page of the values of one facet.",
        FACET_PARAMETERS,
        "FacetAnswer",
    )
)
async def facet(services: Services, request: Request) -> Response:
    """Answer `/{index}/facet`."""
    limits = services.settings.limits
    parameters: FacetParameters = parse_facet(
        raw_parameters(request, limits), request.index.configuration, limits
    )
    parameters = msgspec.structs.replace(parameters, search=narrowed(parameters.search, request))
    page = await services.facet_pages.page(request.index, parameters)
    total_us = request.micros
    return Response(
        facet_body(page, request.request_id, total_us),
        headers=server_timing(page.timings, total_us),
    )


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
            took_us = result.timings.total_us
            services.metrics.observe_search(result, took_us)
            index, _ = to_run[i]
            if services.slow_queries.is_slow(took_us):
                note_slow(services, request, index.name, named[i].raw, result, took_us)
            if merge.page == 1:
                search = members[i].parameters
                note_search(services, request, index.name, search, result.total, took_us)
            results.append(result)
        hits = await asyncio.to_thread(merged_hits, members, results, merge.page, merge.per_page)
        items = await _items_of_page(results, hits, deadline)
    merged = await asyncio.to_thread(
        merged_result, members, results, items, merge.page, merge.per_page
    )
    return Response(
        merged_body(
            merged,
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
        ConfigurationSwitched: all searches have to run again.
    """
    try:
        return await services.search.search(index, parameters, horizon)
    except ConfigurationSwitched:
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
        ConfigurationSwitched: all searches have to run again.
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
    services.metrics.observe_search(result, total_us)
    note_search(services, request, index.name, parameters, result.total, total_us)
    if services.slow_queries.is_slow(total_us):
        note_slow(services, request, index.name, raw, result, total_us)
    return await _search_body(
        services, index.number, result, request.request_id, total_us, parameters
    )


async def _search_body(
    services: Services,
    lane: int,
    result: SearchResult,
    request_id: str,
    total_us: int,
    parameters: SearchParameters,
) -> bytes:
    """Return the JSON of a search; long facets yield the event loop."""
    facets = None
    if result.facets and sum([len(one.buckets) for one in result.facets]) > BUCKETS_FAST_MAX:
        facets = await services.scheduler.run(lane, facet_members(result.facets))
        await services.scheduler.wait_turn(lane)
    return search_body(result, request_id, total_us, "timings" in parameters.show, facets)


def _placed(error: ServiceError, position: int) -> ServiceError:
    """Return an error that names the position of the search it concerns."""
    param = f"searches[{position}]" + (f".{error.param}" if error.param else "")
    return type(error)(error.message, code=error.code, param=param, details=error.details)
