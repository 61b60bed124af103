"""Algolia's protocol under `/1/`: for algoliasearch, InstantSearch, Autocomplete, DocSearch.

`coordinator/algolia` translates parameters, filters, settings and responses; this module has the
routes. Writes are visible once acknowledged, so every task counts as published. A name such as
`films:year:desc` means the index in that order.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec
import orjson

from common.configuration import GEO_FIELD
from common.configuration_parser import parse_stored
from common.deadline import Deadline
from common.errors import Forbidden, InvalidRequest, NotFound, ServiceError
from common.placement import canonical_id, shard_of_id
from common.protocol.messages import GetRequest
from common.protocol.methods import GET
from common.protocol.operations import Outcome
from coordinator.algolia import settings as index_settings
from coordinator.algolia.filters import expression_of
from coordinator.algolia.folding import Asked, fold
from coordinator.algolia.keys import new_key, shown_key
from coordinator.algolia.objects import ObjectChange, read_change
from coordinator.algolia.parameters import (
    AlgoliaSearch,
    Style,
    flattened,
    query_string_parameters,
    read_facet_search,
    read_search,
)
from coordinator.algolia.responses import (
    facet_response,
    folded_response,
    object_of,
    search_answer,
)
from coordinator.cluster.catalog import Index
from coordinator.http.middleware import check_index_name
from coordinator.http.responses import Response, json_response
from coordinator.http.routing import Body, Route, RouteTable
from coordinator.http.security import Action, visible_keys
from coordinator.http.security import shown_key as shown_own_key
from coordinator.parameters.raw import decode_object, decode_search
from coordinator.parameters.typed import FacetParameters
from coordinator.read.cursor import START
from coordinator.read.many import CostSum, in_turn
from coordinator.read.results import SearchResult
from coordinator.routes import operations
from coordinator.routes.changes import delete_items
from coordinator.routes.indexes import index_rows
from coordinator.routes.search import narrowed, note_search

if TYPE_CHECKING:
    from coordinator.http.request import Request
    from coordinator.http.services import Services

_REFUSALS: Final[Mapping[Outcome, str]] = {
    Outcome.INVALID: (
        "the stored object cannot take the change: Increment and Decrement need a number, "
        "IncrementFrom and IncrementSet an integer, Add, AddUnique and Remove an array, and the "
        "changed object must keep the limits of an item (fields, values, bytes)"
    ),
    Outcome.CORRUPT: "the stored object is damaged: save it as a whole, or delete it",
}
"""What to say of a change that the shard refused."""
BROWSED: Final = 1_000
"""Hits per page of browsing, unless the request sets it."""


# --- the index of a request


def algolia_route(
    method: str,
    path: str,
    summary: str,
    action: Action | None,
    *,
    body: str | None = None,
    answer: str = "Document",
    bytes_limit: str = "json_body_bytes_max",
    **more: Any,
) -> Route:
    """Return a route of this protocol; its clients send JSON labelled as text."""
    document = {"answer": answer} if body is None else {"answer": answer, "body": body}
    takes = Body.NONE if body is None else Body.LOOSE_JSON
    return Route(
        method,
        path,
        summary,
        action,
        body=takes,
        bytes_limit=bytes_limit,
        tag="algolia",
        document=document,
        **more,
    )


_SEARCH: Final[dict[str, Any]] = {
    "bytes_limit": "search_body_bytes_max",
    "applies_filter": True,
    "is_shared": True,
}
CHANGE: Final[dict[str, Any]] = {"is_change": True}

ROUTES: Final = RouteTable()


def find_index(services: Services, request: Request, name: Any) -> tuple[Index, list[str]]:
    """Return the index that a name denotes, and the sort order in that name.

    Raises:
        NotFound: there is no such index.
        Forbidden: the caller may not use the name, whether or not it exists.
    """
    if not isinstance(name, str):
        raise InvalidRequest("indexName must be a text", code="invalid_index_name")
    if name == "*":
        raise InvalidRequest(
            "* stands for all indexes in this protocol; name one", code="invalid_index_name"
        )
    catalog = services.catalog
    plain = name
    sort: list[str] = []
    if name not in catalog.indexes and name not in catalog.aliases:
        plain, sort = index_settings.split_name(name)
    try:
        return services.guard.index(request.caller, plain), sort
    except (Forbidden, NotFound):
        check_index_name(plain, services.settings.limits)
        # The error quotes the whole name: splitting off the order would reveal what exists.
        services.guard.check_index(request.caller, name)
        raise


async def index_to_write(services: Services, request: Request, name: str) -> Index:
    """Return an index to write to; create it if it is missing and the caller may configure."""
    try:
        index, sort = find_index(services, request, name)
    except NotFound:
        if not request.caller.may(Action.CONFIGURE):
            raise
        deadline = Deadline.after_ms(services.settings.configure_timeout_ms)
        document = {"geo_fields": ["_geoloc", GEO_FIELD]}  # the first is that of this protocol
        await services.administration.configure(name, document, deadline)
        index, sort = find_index(services, request, name)
    if sort:
        raise InvalidRequest(
            f"{name!r} is {index.name!r} in an order; write to that index",
            code="invalid_index_name",
        )
    return index


def _body(services: Services, request: Request) -> dict[str, Any]:
    return decode_object(request.body, services.settings.limits)


def required_body(services: Services, request: Request) -> dict[str, Any]:
    """Decode a body that says what to store: none at all is a client's mistake, not an object."""
    if not request.body:
        raise InvalidRequest("the body is empty; send a JSON object", code="invalid_body")
    return _body(services, request)


def _search_body(services: Services, request: Request) -> dict[str, Any]:
    return decode_search(request.body, services.settings.limits)


def _deadline(services: Services) -> Deadline:
    return Deadline.after_ms(services.settings.limits.request_timeout_ms)


def task_id(services: Services, index: Index) -> int:
    """Return a number for a change of an index, which is done."""
    return max(1, services.cluster.horizon(index.number))


def now() -> str:
    """Return this moment as the protocol writes it."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


# --- searches


def _read(
    services: Services,
    request: Request,
    asked: Asked,
    choices: frozenset[str] = frozenset(),
    *,
    is_browsing: bool = False,
) -> tuple[Index, AlgoliaSearch]:
    """Read one search, narrowed by the caller's key."""
    index, read = _parsed(services, request, asked, choices, is_browsing=is_browsing)
    return index, msgspec.structs.replace(read, search=narrowed(read.search, request))


def _parsed(
    services: Services,
    request: Request,
    asked: Asked,
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
    params = query_string_parameters(request.query_string)
    if request.body:
        params |= flattened(_search_body(services, request))
    index, asked = _read(services, request, Asked(request.arguments[0], params))
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
    params = query_string_parameters(request.query_string)
    if request.body:
        params |= flattened(_search_body(services, request))
    page = {"cursor": START, "hitsPerPage": BROWSED, **params}
    asked_for = Asked(request.arguments[0], page)
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
    searches: list[tuple[int, Asked]] = []
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
            searches.append((i, Asked(name, params)))
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


# --- objects


async def _document(services: Services, index: Index, object_id: object) -> bytes | None:
    """Return a stored item, or None."""
    canonical = canonical_id(object_id) if isinstance(object_id, int | str) else None
    if canonical is None:
        raise InvalidRequest("an objectID is a text of 1 to 256 bytes", code="invalid_id")
    cluster = services.cluster
    with cluster.reading(index.number) as horizon:
        shard = cluster.shards[shard_of_id(canonical, cluster.num_shards)]
        request_ = GetRequest(index.number, horizon, canonical)
        response = await shard.call(GET, request_, cluster.shard_timeout_ms)
    return response.document


def _retrieved(value: Any) -> list[str] | None:
    """Read `attributesToRetrieve` of a request for objects."""
    if value is None:
        return None
    names = value.split(",") if isinstance(value, str) else value
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise InvalidRequest(
            "attributesToRetrieve must be a list of fields",
            code="invalid_parameter",
            param="attributesToRetrieve",
        )
    return None if "*" in names else names


@ROUTES.add(
    algolia_route(
        "GET", "/1/indexes/{indexName}/{objectID}", "One object.", Action.SEARCH, is_shared=True
    ),
)
async def get_object(services: Services, request: Request) -> Response:
    """Answer `GET /1/indexes/{index}/{objectID}`."""
    name, object_id = request.arguments
    index, _ = find_index(services, request, name)
    params = query_string_parameters(request.query_string)
    document = await _document(services, index, object_id)
    if document is None:
        raise NotFound("ObjectID does not exist", code="item_not_found")
    return json_response(object_of(document, _retrieved(params.get("attributesToRetrieve"))))


@ROUTES.add(
    algolia_route(
        "POST",
        "/1/indexes/*/objects",
        "Objects by id.",
        Action.SEARCH,
        body="AlgoliaWantedObjects",
        is_shared=True,
    ),
)
async def get_objects(services: Services, request: Request) -> Response:
    """Answer `POST /1/indexes/*/objects`: objects by id; null for those that do not exist."""
    limits = services.settings.limits
    listed = _body(services, request).get("requests")
    if not isinstance(listed, list) or len(listed) > limits.batch_items_max:
        raise InvalidRequest(
            f"requests must be a list of up to {limits.shown('batch_items_max')} objects",
            code="invalid_body",
            param="requests",
        )
    results: list[Any] = []
    for one in listed:
        asked = one if isinstance(one, dict) else {}
        index, _ = find_index(services, request, asked.get("indexName"))
        document = await _document(services, index, asked.get("objectID"))
        names = _retrieved(asked.get("attributesToRetrieve"))
        results.append(None if document is None else object_of(document, names))
    return json_response({"results": results})


async def _write(services: Services, index: Index, changes: Sequence[ObjectChange]) -> int:
    """Apply changes in one group; return its sequence number."""
    operations = [(one.operation, one.item_id, one.payload) for one in changes]
    result = await services.ingest.write_operations(index, operations, _deadline(services))
    for position, outcome in result.refused:
        place = f"requests[{position}]" if len(changes) > 1 else "object"
        raise InvalidRequest(
            f"{place}: {_REFUSALS[outcome]}; "
            f"{len(changes) - len(result.refused)} of {len(changes)} changes were applied",
            code="invalid_item",
            param=place,
        )
    return result.seq


@ROUTES.add(
    algolia_route(
        "POST",
        "/1/indexes/{indexName}/batch",
        "Many changes at once.",
        Action.WRITE,
        body="AlgoliaBatch",
        **CHANGE,
    ),
)
async def batch(services: Services, request: Request) -> Response:
    """Answer `POST /1/indexes/{index}/batch`: changes in order, in one write.

    If any of them is invalid, none is applied.
    """
    index = await index_to_write(services, request, request.arguments[0])
    listed = _requests(services, request)
    ids, seq = await _carry_out(services, request, index, listed)
    return json_response({"taskID": seq, "objectIDs": ids})


@ROUTES.add(
    algolia_route(
        "POST",
        "/1/indexes/*/batch",
        "Changes of several indexes.",
        Action.WRITE,
        body="AlgoliaBatches",
        **CHANGE,
    ),
)
async def batches(services: Services, request: Request) -> Response:
    """Answer `POST /1/indexes/*/batch`: changes to several indexes."""
    by_index: dict[str, list[tuple[int, dict[str, Any]]]] = {}
    for i, one in _requests(services, request):
        name = one.get("indexName")
        if not isinstance(name, str):
            raise InvalidRequest(
                f"requests[{i}] needs an indexName, a text",
                code="invalid_index_name",
                param=f"requests[{i}].indexName",
            )
        by_index.setdefault(name, []).append((i, one))
    ids: list[str] = []
    tasks: dict[str, int] = {}
    for name, listed in by_index.items():
        index = await index_to_write(services, request, name)
        changed, tasks[name] = await _carry_out(services, request, index, listed)
        ids += changed
    return json_response({"taskID": tasks, "objectIDs": ids})


def _requests(services: Services, request: Request) -> list[tuple[int, dict[str, Any]]]:
    """Return the changes in a body, with their positions."""
    limits = services.settings.limits
    listed = _body(services, request).get("requests")
    if (
        not isinstance(listed, list)
        or len(listed) > limits.batch_items_max
        or not all(isinstance(one, dict) for one in listed)
    ):
        raise InvalidRequest(
            f"requests must be a list of up to {limits.shown('batch_items_max')} objects, each "
            'with an "action" and a "body"',
            code="invalid_body",
            param="requests",
        )
    return list(enumerate(listed))


async def _carry_out(
    services: Services, request: Request, index: Index, listed: list[tuple[int, dict[str, Any]]]
) -> tuple[list[str], int]:
    """Apply the changes to one index; return their objectIDs and the write's sequence number."""
    if any(one.get("action") in ("clear", "delete") for _, one in listed):
        if len(listed) > 1:
            raise InvalidRequest(
                "clear and delete stand alone in a batch",
                code="unsupported_parameter",
                param="requests",
            )
        if listed[0][1]["action"] == "clear":
            return [], await _clear(services, request, index)
        return [], await _drop(services, request, index)
    facets, limits = index.configuration.facets, services.settings.limits
    changes = [
        read_change(one.get("action"), one.get("body"), facets, limits, f"requests[{i}]")
        for i, one in listed
    ]
    return [one.object_id for one in changes], await _write(services, index, changes)


@ROUTES.add(
    algolia_route(
        "POST",
        "/1/indexes/{indexName}",
        "Add an object.",
        Action.WRITE,
        body="AlgoliaObject",
        **CHANGE,
    ),
    algolia_route(
        "PUT",
        "/1/indexes/{indexName}/{objectID}",
        "Add or replace an object.",
        Action.WRITE,
        body="AlgoliaFields",
        **CHANGE,
    ),
)
async def save_object(services: Services, request: Request) -> Response:
    """Answer `POST /1/indexes/{index}` and `PUT /1/indexes/{index}/{objectID}`."""
    index = await index_to_write(services, request, request.arguments[0])
    object_id = request.arguments[1] if len(request.arguments) > 1 else None
    change = _single(services, request, index, "addObject", object_id)
    seq = await _write(services, index, [change])
    moment = {"updatedAt": now()} if object_id is not None else {"createdAt": now()}
    return json_response({"taskID": seq, "objectID": change.object_id, **moment})


@ROUTES.add(
    algolia_route(
        "POST",
        "/1/indexes/{indexName}/{objectID}/partial",
        "Change attributes of an object.",
        Action.WRITE,
        body="AlgoliaFields",
        **CHANGE,
    ),
)
async def update_object(services: Services, request: Request) -> Response:
    """Answer `POST /1/indexes/{index}/{objectID}/partial`."""
    name, object_id = request.arguments
    index = await index_to_write(services, request, name)
    params = query_string_parameters(request.query_string)
    creates = params.get("createIfNotExists", "true")
    if creates not in ("true", "false"):
        raise InvalidRequest(
            "createIfNotExists must be true or false",
            code="invalid_parameter",
            param="createIfNotExists",
        )
    action = "partialUpdateObject" if creates == "true" else "partialUpdateObjectNoCreate"
    change = _single(services, request, index, action, object_id)
    seq = await _write(services, index, [change])
    return json_response({"taskID": seq, "objectID": change.object_id, "updatedAt": now()})


@ROUTES.add(
    algolia_route(
        "DELETE", "/1/indexes/{indexName}/{objectID}", "Remove an object.", Action.WRITE, **CHANGE
    ),
)
async def delete_object(services: Services, request: Request) -> Response:
    """Answer `DELETE /1/indexes/{index}/{objectID}`; a missing object is not an error."""
    name, object_id = request.arguments
    index, _ = find_index(services, request, name)
    change = _single(services, request, index, "deleteObject", object_id)
    seq = await _write(services, index, [change])
    return json_response({"taskID": seq, "deletedAt": now()})


def _single(
    services: Services, request: Request, index: Index, action: str, object_id: str | None
) -> ObjectChange:
    body = {} if action == "deleteObject" else required_body(services, request)
    facets, limits = index.configuration.facets, services.settings.limits
    return read_change(action, body, facets, limits, "object", object_id)


@ROUTES.add(
    algolia_route(
        "POST",
        "/1/indexes/{indexName}/deleteByQuery",
        "Remove what filters find.",
        Action.WRITE,
        body="AlgoliaDeletion",
        applies_filter=True,
        **CHANGE,
    ),
)
async def delete_by(services: Services, request: Request) -> Response:
    """Answer `POST /1/indexes/{index}/deleteByQuery`: deletes the objects that filters match."""
    index, _ = find_index(services, request, request.arguments[0])
    params = flattened(_body(services, request))
    known = ("filters", "facetFilters", "numericFilters", "tagFilters")
    wrong = next((name for name in params if name not in known), None)
    if wrong is not None or not params:
        raise InvalidRequest(
            f"{wrong or 'the body'} must be some of {', '.join(known)}",
            code="unsupported_parameter",
            param=wrong,
        )
    _, read = _parsed(services, request, Asked(index.name, params))
    if not read.search.filters:
        raise InvalidRequest(
            f"{', '.join(params)} select nothing; to remove all objects use clear",
            code="invalid_body",
        )
    filters = narrowed(read.search, request).filters
    conditions = [expression_of(clause.filter) for clause in filters]
    return await _delete_matching(services, request, index, " AND ".join(conditions))


@ROUTES.add(
    algolia_route(
        "POST", "/1/indexes/{indexName}/clear", "Remove all objects.", Action.WRITE, **CHANGE
    ),
)
async def clear(services: Services, request: Request) -> Response:
    """Answer `POST /1/indexes/{index}/clear`: deletes all objects."""
    index, _ = find_index(services, request, request.arguments[0])
    return json_response({"taskID": await _clear(services, request, index), "updatedAt": now()})


async def _clear(services: Services, request: Request, index: Index) -> int:
    answer = await _delete_matching(services, request, index, "")
    seq: int = orjson.loads(answer.body)["taskID"]
    return seq


async def _delete_matching(
    services: Services, request: Request, index: Index, expression: str
) -> Response:
    """Delete all items that an expression in our own filter language matches."""
    request.index = index
    request.body = orjson.dumps({"filter": expression})
    request.query_string = ""  # Algolia's clients identify themselves in it
    answer = await delete_items(services, request)
    seq = orjson.loads(answer.body)["seq"] or services.cluster.horizon(index.number)
    return json_response({"taskID": seq, "updatedAt": now()})


# --- indexes, settings, tasks


@ROUTES.add(
    algolia_route("GET", "/1/indexes", "All indexes.", Action.SEARCH),
)
async def list_indexes(services: Services, request: Request) -> Response:
    """Answer `GET /1/indexes`: the indexes that the caller may use."""
    items = [
        {
            "name": row["name"],
            "createdAt": "",  # moments that nothing notes, as of indexes without objects there
            "updatedAt": "",
            "entries": row["items"],
            "dataSize": row["bytes"],
            "fileSize": row["bytes"],
            "lastBuildTimeS": 0,
            "numberOfPendingTasks": 0,
            "pendingTask": False,
        }
        for row in await index_rows(services, request)
    ]
    return json_response({"items": items, "nbPages": 1})


@ROUTES.add(
    algolia_route(
        "DELETE",
        "/1/indexes/{indexName}",
        "Remove an index and its data.",
        Action.CONFIGURE,
        is_admitted=False,
        **CHANGE,
    ),
)
async def delete_index(services: Services, request: Request) -> Response:
    """Answer `DELETE /1/indexes/{index}`; a missing index is not an error."""
    try:
        index, sort = find_index(services, request, request.arguments[0])
    except NotFound:
        return json_response({"taskID": 1, "deletedAt": now()})
    if sort:
        raise InvalidRequest(
            f"{request.arguments[0]!r} is {index.name!r} in an order; there is nothing to delete",
            code="invalid_index_name",
        )
    return json_response({"taskID": await _drop(services, request, index), "deletedAt": now()})


async def _drop(services: Services, request: Request, index: Index) -> int:
    if not request.caller.may(Action.CONFIGURE):
        raise Forbidden("the API key does not allow configure, which deleting an index needs")
    seq = services.cluster.horizon(index.number)
    deadline = Deadline.after_ms(services.settings.limits.request_timeout_ms_max)
    await services.administration.delete_index(index.name, deadline)
    return max(1, seq)


@ROUTES.add(
    algolia_route(
        "GET",
        "/1/indexes/{indexName}/settings",
        "Settings of an index.",
        Action.SEARCH,
        applies_filter=True,
    ),
)
async def get_settings(services: Services, request: Request) -> Response:
    """Answer `GET /1/indexes/{index}/settings`."""
    index, _ = find_index(services, request, request.arguments[0])
    return json_response(index_settings.shown(index.document, index.configuration))


@ROUTES.add(
    algolia_route(
        "PUT",
        "/1/indexes/{indexName}/settings",
        "Change settings; creates the index.",
        Action.CONFIGURE,
        body="AlgoliaSettings",
        is_admitted=False,
        **CHANGE,
    ),
)
async def set_settings(services: Services, request: Request) -> Response:
    """Answer `PUT /1/indexes/{index}/settings`: changes the configuration, or creates the index."""
    body = required_body(services, request)
    index = await index_to_write(services, request, request.arguments[0])
    limits = services.settings.limits

    def change(before: dict[str, Any]) -> dict[str, Any]:
        return index_settings.changed(before, body, parse_stored(before), limits)

    deadline = Deadline.after_ms(services.settings.configure_timeout_ms)
    await services.administration.reconfigure(index.name, change, deadline)
    return json_response({"taskID": task_id(services, index), "updatedAt": now()})


@ROUTES.add(
    algolia_route(
        "GET", "/1/indexes/{indexName}/task/{taskID}", "Whether a write is done: it is.", None
    ),
    algolia_route("GET", "/1/task/{taskID}", "Whether a change is done: it is.", None),
)
async def task(services: Services, request: Request) -> Response:
    """Answer `/1/indexes/{index}/task/{taskID}` and `/1/task/{taskID}`: done when acknowledged."""
    return json_response({"status": "published", "pendingTask": False})


# --- keys


@ROUTES.add(
    algolia_route("GET", "/1/keys", "All API keys, without the keys.", Action.ADMIN),
)
async def list_keys(services: Services, request: Request) -> Response:
    """Answer `GET /1/keys`: ids stand for the keys, which are never shown again."""
    keys = visible_keys(services.catalog, request.caller)
    return json_response(
        {"keys": [shown_key(shown_own_key(id_, key), id_) for id_, key in keys.items()]}
    )


def _key_id(value: str) -> str:
    """Return the id of a key, given the id or the whole key."""
    return value.split("_")[1] if value.startswith("fk_") and value.count("_") > 1 else value


@ROUTES.add(
    algolia_route("GET", "/1/keys/{key}", "One API key.", Action.ADMIN),
)
async def get_key(services: Services, request: Request) -> Response:
    """Answer `GET /1/keys/{key}`."""
    value = request.arguments[0]
    key = visible_keys(services.catalog, request.caller).get(_key_id(value))
    if key is None:
        raise NotFound("Key does not exist", code="key_not_found")
    return json_response(shown_key(shown_own_key(_key_id(value), key), value))


@ROUTES.add(
    algolia_route(
        "POST", "/1/keys", "Create an API key.", Action.ADMIN, body="AlgoliaNewKey", **CHANGE
    ),
)
async def create_key(services: Services, request: Request) -> Response:
    """Answer `POST /1/keys`: the only response that ever contains the key itself."""
    document = new_key(_body(services, request), services.settings.limits)
    request.body = orjson.dumps(document)
    made = orjson.loads((await operations.create_key(services, request)).body)
    return json_response(
        {"key": made["key"], "createdAt": now()}, headers=b"Cache-Control: no-store\r\n"
    )


@ROUTES.add(
    algolia_route("DELETE", "/1/keys/{key}", "Delete an API key.", Action.ADMIN, **CHANGE),
)
async def delete_key(services: Services, request: Request) -> Response:
    """Answer `DELETE /1/keys/{key}`."""
    request.arguments = [_key_id(request.arguments[0])]
    await operations.delete_key(services, request)
    return json_response({"deletedAt": now()})
