"""Search: hits and facets of an index, and the values of one facet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec
from aiohttp import hdrs

from common.errors import DeadlineExceeded
from common.protocol.messages import FilterClause
from coordinator.cluster.searched_state import now
from coordinator.http.api_description.route import Body, Route
from coordinator.http.responses import Response
from coordinator.http.result_bodies import (
    BUCKETS_FAST_MAX,
    facet_body,
    facet_members,
    range_pieces,
    search_body,
    server_timing,
)
from coordinator.http.routing import RouteTable
from coordinator.http.security.api_keys import Action
from coordinator.parameters.facet_specs import without_zeros
from coordinator.parameters.parameter_table import FACET_PARAMETERS, SEARCH_PARAMETERS
from coordinator.parameters.parsed_parameters import FacetParameters, SearchParameters
from coordinator.parameters.request_decoding import decode_search, query_parameters
from coordinator.parameters.request_parsing import parse_facet, parse_search
from coordinator.read.facets.range_merging import BUCKETS_FAST_MAX as RANGE_BUCKETS_FAST_MAX
from coordinator.read.result_cache import ResultKey
from coordinator.read.search_results import SearchResult, Timings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from common.limits import Limits
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
                "the index is being switched to another configuration, or a shard restarts again "
                "and again, longer than the deadline"
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
    result: SearchResult,
    took_us: int,
    raw: Mapping[str, Any] | None = None,
) -> None:
    """Note a search that was answered: in the metrics, for analytics, and in the log if it is slow.

    Analytics count searches for a first page only.

    Args:
        services: of the coordinator.
        request: that the search came with.
        index: name.
        parameters: of the search.
        result: of the search.
        took_us: microseconds.
        raw: its parameters as sent; None: the whole request's.
    """
    services.metrics.observe_search(result, took_us)
    if services.analytics.is_on and parameters.page == 1 and parameters.cursor is None:
        client = counted_client(request)
        services.analytics.record(client, index, parameters.query, result.total, took_us)
    if services.slow_queries.is_slow(took_us):
        if raw is None:
            raw = raw_parameters(request, services.settings.limits)
        services.metrics.num_slow += 1
        services.slow_queries.note(index, raw, request.request_id, took_us, result)


def counted_client(request: Request) -> tuple[str | None, str]:
    """Return what distinguishes the searches of clients for analytics; it is not stored.

    A client may send any X-Forwarded-For: only its beginning is kept, as thousands are in memory.
    """
    address = request.headers.get(hdrs.X_FORWARDED_FOR) or request.peer_address
    return request.caller.key_id, address[:ADDRESS_CHARS_MAX]


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
    note_search(services, request, request.index.name, parameters, result, total_us)
    return Response(
        await rendered_search(
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


async def rendered_search(
    services: Services,
    lane: int,
    result: SearchResult,
    request_id: str,
    total_us: int,
    parameters: SearchParameters,
) -> bytes:
    """Return the JSON of a search; long facets and ranges yield the event loop."""
    facets = ranges = None
    if (
        parameters.num_buckets_max > BUCKETS_FAST_MAX
        and sum([len(one.buckets) for one in result.facets]) > BUCKETS_FAST_MAX
    ):
        facets = await services.scheduler.run(lane, facet_members(result.facets))
    if result.ranges and sum([len(one.keys) for one in result.ranges]) > RANGE_BUCKETS_FAST_MAX:
        ranges = await services.scheduler.run(lane, range_pieces(result.ranges))
    if facets is not None or ranges is not None:
        await services.scheduler.wait_turn(lane)
    return search_body(result, request_id, total_us, "timings" in parameters.show, facets, ranges)
