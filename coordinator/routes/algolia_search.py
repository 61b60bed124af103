"""Algolia's protocol: searches, browsing, values of a facet, and many queries at once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec

from common.deadline import Deadline
from common.errors import InvalidRequest, ServiceError
from common.limits import Limits
from coordinator.algolia import settings_translation as index_settings
from coordinator.algolia.disjunctive_query_combining import RequestedQuery, combine
from coordinator.algolia.parameter_errors import translated
from coordinator.algolia.responses import facet_query_response, facet_response, search_answer
from coordinator.algolia.search_request import (
    AlgoliaSearch,
    SearchedIndex,
    Style,
    flattened,
    query_string_parameters,
    read_facet_search,
    read_search,
)
from coordinator.catalog.catalog import Index
from coordinator.http.responses import Response, json_response
from coordinator.http.routing import RouteTable
from coordinator.http.security.api_keys import Action
from coordinator.parameters.parsed_parameters import FacetParameters
from coordinator.parameters.request_decoding import decode_search
from coordinator.read.cursor import START
from coordinator.read.multi_search_concurrency import run_fairly
from coordinator.read.multi_search_limits import CostSum, ItemSum
from coordinator.routes.algolia_conventions import algolia_route
from coordinator.routes.algolia_index_lookup import find_index
from coordinator.routes.search import narrowed, note_search

if TYPE_CHECKING:
    from coordinator.http.request import Request
    from coordinator.http.services import Services

BROWSED: Final = 1_000
"""Hits per page of browsing, unless the request sets it."""
HITS_FAST_BYTES: Final = 16 * 1024
"""Items of up to this many bytes become hits in one to three milliseconds; more take a thread."""

_SEARCH: Final[dict[str, Any]] = {
    "bytes_limit": "search_body_bytes_max",
    "applies_filter": True,
    "is_shared": True,
}

ROUTES: Final = RouteTable()


def _request_parameters(services: Services, request: Request) -> dict[str, Any]:
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
    requested: RequestedQuery,
    choices: frozenset[str] = frozenset(),
    *,
    is_browsing: bool = False,
) -> tuple[Index, AlgoliaSearch]:
    """Read one search, narrowed by the caller's key."""
    index, sort = find_index(services, request, requested.name)
    settings = index_settings.stored(index.document)
    read = read_search(
        SearchedIndex(requested.name, index.configuration, settings, sort),
        requested.params,
        services.settings.limits,
        choices=choices,
        allows_cursor=is_browsing,
    )
    return index, msgspec.structs.replace(read, search=narrowed(read.search, request))


async def _answer(
    services: Services, request: Request, index: Index, search: AlgoliaSearch, read: ItemSum
) -> dict[str, Any]:
    """Run a search; return its response.

    Raises:
        PayloadTooLarge: the items of the request so far are too large.
    """
    try:
        result = await services.search.search(index, search.search)
    except InvalidRequest as error:
        raise translated(error) from None
    read.add(result.items)
    total_us = result.timings.total_us
    raw = {"params": search.params}
    note_search(services, request, index.name, search.search, result, total_us, raw)
    answer = partial(search_answer, search, result, total_us)
    if sum(map(len, result.items)) > HITS_FAST_BYTES:
        return await asyncio.to_thread(answer)
    return answer()


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
    params = _request_parameters(services, request)
    index, search = _read(services, request, RequestedQuery(request.arguments[0], params))
    answer = await _answer(services, request, index, search, ItemSum())
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
    params = _request_parameters(services, request)
    page = {"cursor": START, "hitsPerPage": BROWSED, **params}
    requested = RequestedQuery(request.arguments[0], page)
    index, search = _read(services, request, requested, is_browsing=True)
    answer = await _answer(services, request, index, search, ItemSum())
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
    search = _read_facet(services, request, RequestedQuery(name, params), facet)
    return json_response(await _facet_response(services, search))


class _FacetSearch(msgspec.Struct, frozen=True):
    """A search in the values of a facet."""

    index: Index
    parameters: FacetParameters
    style: Style


def _read_facet(
    services: Services, request: Request, requested: RequestedQuery, facet: Any
) -> _FacetSearch:
    """Read one search in the values of a facet, narrowed by the caller's key."""
    index, _ = find_index(services, request, requested.name)
    if not isinstance(facet, str):
        raise InvalidRequest("facetName must name a facet", code="missing_name", param="facetName")
    settings = index_settings.stored(index.document)
    parameters, style = read_facet_search(
        SearchedIndex(requested.name, index.configuration, settings),
        facet,
        requested.params,
        services.settings.limits,
    )
    search = narrowed(parameters.search, request)
    return _FacetSearch(index, msgspec.structs.replace(parameters, search=search), style)


async def _facet_response(services: Services, search: _FacetSearch) -> dict[str, Any]:
    try:
        page = await services.facet_pages.page(search.index, search.parameters)
    except InvalidRequest as error:
        raise translated(error) from None
    key_query = search.parameters.key_query or ""
    return facet_response(page, key_query, search.style, page.timings.total_us)


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

    Queries that ask only for the counts of a disjunctive facet are answered by the main search.
    """
    limits = services.settings.limits
    listed = _listed_queries(_search_body(services, request), limits)
    batch = _Batch(services, request, len(listed))
    searches: list[tuple[int, RequestedQuery]] = []
    facet_searches: list[tuple[int, RequestedQuery, Any]] = []
    for position, one in enumerate(listed):
        if not isinstance(one, dict):
            raise InvalidRequest(
                f"requests[{position}] must be an object with an indexName",
                code="invalid_searches",
                param=f"requests[{position}]",
            )
        params = flattened(one)
        name, kind = params.pop("indexName", None), params.pop("type", "default")
        facet = params.pop("facet", params.pop("facetName", None))
        if kind == "facet":
            facet_searches.append((position, RequestedQuery(name, params), facet))
        elif kind == "default":
            searches.append((position, RequestedQuery(name, params)))
        else:
            raise InvalidRequest(
                f"requests[{position}].type must be default or facet",
                code="unsupported_parameter",
                param=f"requests[{position}].type",
            )
    for group in combine([requested for _, requested in searches]):
        facet_queries = [(searches[position][0], facet) for position, facet in group.facet_queries]
        batch.add_search(searches[group.position][0], group.main, facet_queries)
    for position, requested, facet in facet_searches:
        batch.add_facet_search(position, requested, facet)
    return json_response({"results": await batch.run()})


def _listed_queries(body: Mapping[str, Any], limits: Limits) -> list[Any]:
    """Return the queries of a request.

    Raises:
        InvalidRequest: it has none or too many.
    """
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
    return listed


class _Batch:
    """The queries of one request, and their responses, by position in the request.

    All are read before the first one runs. Errors name the position of their query.

    Args:
        services: of the coordinator.
        request: that the queries are from.
        num_queries: of the request.
    """

    def __init__(self, services: Services, request: Request, num_queries: int) -> None:
        self._services = services
        self._request = request
        self._responses: list[Any] = [None] * num_queries
        self._searches: list[Callable[[], Awaitable[None]]] = []
        self._costs = CostSum(services.settings.limits)
        self._read = ItemSum()

    def add_search(
        self, position: int, requested: RequestedQuery, facet_queries: Sequence[tuple[int, str]]
    ) -> None:
        """Read a search, which also answers the facet queries: position and facet of each."""
        with _located(position):
            choices = frozenset(facet for _, facet in facet_queries)
            index, search = _read(self._services, self._request, requested, choices)
            self._costs.add(search.search)
        self._searches.append(partial(self._search, position, facet_queries, index, search))

    def add_facet_search(self, position: int, requested: RequestedQuery, facet: Any) -> None:
        """Read a search in the values of a facet."""
        with _located(position):
            search = _read_facet(self._services, self._request, requested, facet)
            self._costs.add(search.parameters.search)
        self._searches.append(partial(self._search_facet, position, search))

    async def run(self) -> list[Any]:
        """Run all searches; return the responses."""
        timeout_ms = self._services.settings.limits.request_timeout_ms
        await run_fairly(self._searches, Deadline.after_ms(timeout_ms))
        return self._responses

    async def _search(
        self,
        position: int,
        facet_queries: Sequence[tuple[int, str]],
        index: Index,
        search: AlgoliaSearch,
    ) -> None:
        with _located(position):
            answer = await _answer(self._services, self._request, index, search, self._read)
        self._responses[position] = answer
        for i, facet in facet_queries:
            self._responses[i] = facet_query_response(answer, facet)

    async def _search_facet(self, position: int, search: _FacetSearch) -> None:
        with _located(position):
            self._responses[position] = await _facet_response(self._services, search)


@contextmanager
def _located(position: int) -> Iterator[None]:
    """Make errors name the position of the query they concern."""
    try:
        yield
    except ServiceError as error:
        param = f"requests[{position}]" + (f".{error.param}" if error.param else "")
        raise type(error)(
            error.message, code=error.code, param=param, details=error.details
        ) from None
