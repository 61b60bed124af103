"""Algolia's protocol: searches, browsing, values of a facet, and many queries at once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec

from common.deadline import Deadline
from common.errors import InvalidRequest, ServiceError
from coordinator.algolia import settings as index_settings
from coordinator.algolia.folding import RequestedQuery, fold
from coordinator.algolia.responses import facet_response, folded_response, search_answer
from coordinator.algolia.search import (
    AlgoliaSearch,
    Style,
    flattened,
    query_string_parameters,
    read_facet_search,
    read_search,
)
from coordinator.cluster.catalog import Index
from coordinator.http.responses import Response, json_response
from coordinator.http.routing import RouteTable
from coordinator.http.security import Action
from coordinator.parameters.raw import decode_search
from coordinator.parameters.typed import FacetParameters
from coordinator.read.cursor import START
from coordinator.read.multi_search import CostSum, in_turn
from coordinator.read.results import SearchResult
from coordinator.routes.algolia_requests import algolia_route, find_index
from coordinator.routes.search import narrowed, note_search

if TYPE_CHECKING:
    from coordinator.http.request import Request
    from coordinator.http.services import Services

BROWSED: Final = 1_000
"""Hits per page of browsing, unless the request sets it."""

_SEARCH: Final[dict[str, Any]] = {
    "bytes_limit": "search_body_bytes_max",
    "applies_filter": True,
    "is_shared": True,
}

ROUTES: Final = RouteTable()


def _asked_parameters(services: Services, request: Request) -> dict[str, Any]:
    """Merge query string and body; the body wins."""
    params = query_string_parameters(request.query_string)
    if request.body:
        params |= flattened(_search_body(services, request))
    return params


def _search_body(services: Services, request: Request) -> dict[str, Any]:
    return decode_search(request.body, services.settings.limits)


def _read(
    services: Services,
    request: Request,
    asked: RequestedQuery,
    choices: frozenset[str] = frozenset(),
    *,
    is_browsing: bool = False,
) -> tuple[Index, AlgoliaSearch]:
    """Read one search, narrowed by the caller's key."""
    index, read = parse_query(services, request, asked, choices, is_browsing=is_browsing)
    return index, msgspec.structs.replace(read, search=narrowed(read.search, request))


def parse_query(
    services: Services,
    request: Request,
    asked: RequestedQuery,
    choices: frozenset[str] = frozenset(),
    *,
    is_browsing: bool = False,
) -> tuple[Index, AlgoliaSearch]:
    """Read one search as it was asked, not narrowed yet."""
    index, sort = find_index(services, request, asked.name)
    return index, read_search(
        asked.name,
        asked.params,
        index_settings.stored(index.document),
        sort,
        index.configuration,
        services.settings.limits,
        choices=choices,
        allows_cursor=is_browsing,
    )


async def _answer(
    services: Services, request: Request, index: Index, asked: AlgoliaSearch
) -> tuple[dict[str, Any], SearchResult]:
    """Run a search; return its response and result."""
    result = await services.search.search(index, asked.search)
    total_us = result.timings.total_us
    services.metrics.observe_search(result, total_us)
    note_search(services, request, index.name, asked.search, result.total, total_us)
    if services.slow_queries.is_slow(total_us):
        services.metrics.num_slow += 1
        raw = {"params": asked.params}
        services.slow_queries.note(index.name, raw, request.request_id, total_us, result)
    user_data = index_settings.stored(index.document).get("userData")
    return search_answer(asked, result, total_us, user_data), result


@ROUTES.add(
    algolia_route(
        "POST",
        "/1/indexes/{indexName}/query",
        "Search an index.",
        Action.SEARCH,
        body="AlgoliaQuery",
        **_SEARCH,
    ),
    algolia_route(
        "GET", "/1/indexes/{indexName}/query", "Search an index.", Action.SEARCH, **_SEARCH
    ),
    algolia_route("GET", "/1/indexes/{indexName}", "Search an index.", Action.SEARCH, **_SEARCH),
)
async def query(services: Services, request: Request) -> Response:
    """Answer `/1/indexes/{index}/query`, and `GET /1/indexes/{index}`."""
    params = _asked_parameters(services, request)
    index, asked = _read(services, request, RequestedQuery(request.arguments[0], params))
    answer, _ = await _answer(services, request, index, asked)
    return json_response(answer)


@ROUTES.add(
    algolia_route(
        "POST",
        "/1/indexes/{indexName}/browse",
        "All hits, page by page.",
        Action.SEARCH,
        body="AlgoliaQuery",
        **_SEARCH,
    ),
    algolia_route(
        "GET", "/1/indexes/{indexName}/browse", "All hits, page by page.", Action.SEARCH, **_SEARCH
    ),
)
async def browse(services: Services, request: Request) -> Response:
    """Answer `/1/indexes/{index}/browse`: all hits, page by page, on one state of the index."""
    params = _asked_parameters(services, request)
    page = {"cursor": START, "hitsPerPage": BROWSED, **params}
    asked_for = RequestedQuery(request.arguments[0], page)
    index, asked = _read(services, request, asked_for, is_browsing=True)
    answer, _ = await _answer(services, request, index, asked)
    return json_response(answer)


@ROUTES.add(
    algolia_route(
        "POST",
        "/1/indexes/{indexName}/facets/{facetName}/query",
        "Values of a facet that begin with what is typed.",
        Action.SEARCH,
        body="AlgoliaFacetQuery",
        **_SEARCH,
    ),
)
async def facet_query(services: Services, request: Request) -> Response:
    """Answer `/1/indexes/{index}/facets/{facet}/query`: values that start with the typed text."""
    name, facet = request.arguments
    params = flattened(_search_body(services, request))
    asked = _read_facet(services, request, name, facet, params)
    return json_response(await _facet_response(services, asked))


def _read_facet(
    services: Services, request: Request, name: Any, facet: Any, params: Mapping[str, Any]
) -> tuple[Index, FacetParameters, Style]:
    index, _ = find_index(services, request, name)
    if not isinstance(facet, str):
        raise InvalidRequest("facetName must name a facet", code="missing_name", param="facetName")
    kept = index_settings.stored(index.document)
    limits = services.settings.limits
    parameters, style = read_facet_search(facet, params, kept, index.configuration, limits)
    search = narrowed(parameters.search, request)
    return index, msgspec.structs.replace(parameters, search=search), style


async def _facet_response(
    services: Services, asked: tuple[Index, FacetParameters, Style]
) -> dict[str, Any]:
    index, parameters, style = asked
    page = await services.search.facet(index, parameters)
    return facet_response(page, parameters.key_query or "", style, page.timings.total_us)


@ROUTES.add(
    algolia_route(
        "POST",
        "/1/indexes/*/queries",
        "Many queries at once.",
        Action.SEARCH,
        body="AlgoliaQueries",
        **_SEARCH,
    ),
)
async def queries(services: Services, request: Request) -> Response:
    """Answer `POST /1/indexes/*/queries`: all results, or the first error, with its position.

    Queries that ask only for the counts of a disjunctive facet are folded into the main search.
    """
    limits = services.settings.limits
    body = _search_body(services, request)
    listed = body.get("requests")
    if not isinstance(listed, list) or not 1 <= len(listed) <= limits.searches_max:
        raise InvalidRequest(
            f"requests must be a list of 1 to {limits.shown('searches_max')} queries, each with "
            'an "indexName"',
            code="invalid_searches",
            param="requests",
        )
    if body.get("strategy", "none") != "none":
        raise InvalidRequest(
            "strategy cannot be honoured: all queries are answered",
            code="unsupported_parameter",
            param="strategy",
        )
    results: list[Any] = [None] * len(listed)
    searches: list[tuple[int, RequestedQuery]] = []
    facet_searches: list[tuple[int, Any, Any, dict[str, Any]]] = []
    running: list[Callable[[], Awaitable[None]]] = []
    costs = CostSum(limits)
    for i, one in enumerate(listed):
        if not isinstance(one, dict):
            raise InvalidRequest(
                f"requests[{i}] must be an object with an indexName",
                code="invalid_searches",
                param=f"requests[{i}]",
            )
        params = flattened(one)
        name, kind = params.pop("indexName", None), params.pop("type", "default")
        facet = params.pop("facet", params.pop("facetName", None))
        if kind == "facet":
            facet_searches.append((i, name, facet, params))
        elif kind == "default":
            searches.append((i, RequestedQuery(name, params)))
        else:
            raise InvalidRequest(
                f"requests[{i}].type must be default or facet",
                code="unsupported_parameter",
                param=f"requests[{i}].type",
            )
    for group in fold([asked for _, asked in searches]):
        folded = [(searches[position][0], facet) for position, facet in group.folded]
        i = searches[group.position][0]
        try:
            choices = frozenset(facet for _, facet in folded)
            index, read = _read(services, request, group.main, choices)
            costs.add(read.search)
        except ServiceError as error:
            raise _placed(error, i) from None
        running.append(partial(_search_into, services, request, results, i, folded, index, read))
    for i, name, facet, params in facet_searches:
        try:
            found = _read_facet(services, request, name, facet, params)
            costs.add(found[1].search)
        except ServiceError as error:
            raise _placed(error, i) from None
        running.append(partial(_facet_into, services, results, i, found))
    await in_turn(running, Deadline.after_ms(limits.request_timeout_ms))
    return json_response({"results": results})


async def _search_into(
    services: Services,
    request: Request,
    results: list[Any],
    position: int,
    folded: Sequence[tuple[int, str]],
    index: Index,
    read: AlgoliaSearch,
) -> None:
    """Store the response of a search at its position, and those of the queries folded into it."""
    try:
        answer, _ = await _answer(services, request, index, read)
    except ServiceError as error:
        raise _placed(error, position) from None
    results[position] = answer
    for i, facet in folded:
        results[i] = folded_response(answer, facet)


async def _facet_into(
    services: Services,
    results: list[Any],
    position: int,
    asked: tuple[Index, FacetParameters, Style],
) -> None:
    """Store the response of a facet search at its position."""
    try:
        results[position] = await _facet_response(services, asked)
    except ServiceError as error:
        raise _placed(error, position) from None


def _placed(error: ServiceError, position: int) -> ServiceError:
    """Return an error that names the position of the query it concerns."""
    param = f"requests[{position}]" + (f".{error.param}" if error.param else "")
    return type(error)(error.message, code=error.code, param=param, details=error.details)
