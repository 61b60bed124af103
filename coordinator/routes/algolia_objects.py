"""Algolia's protocol: objects, read and written one by one, in batches and by filter."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import orjson

from common.deadline import Deadline
from common.errors import (
    ConfigurationSwitched,
    DeadlineExceeded,
    InvalidRequest,
    NotFound,
    Unavailable,
)
from common.item_ids import canonical_id
from common.protocol.write_operations_and_outcomes import Outcome
from coordinator.algolia.filters import expression_of
from coordinator.algolia.object_changes import ObjectChange, read_change
from coordinator.algolia.parameter_errors import wrong
from coordinator.algolia.parameter_readers import texts
from coordinator.algolia.responses import object_of
from coordinator.algolia.search_request import (
    SearchedIndex,
    flattened,
    query_string_parameters,
    read_search,
)
from coordinator.catalog.catalog import Index
from coordinator.http.middleware import SWITCH_WAIT_SECONDS
from coordinator.http.responses import Response, json_response
from coordinator.http.routing import RouteTable
from coordinator.http.security.api_keys import Action
from coordinator.http.services import BODY_FAST_BYTES
from coordinator.parameters.request_decoding import decode_stored
from coordinator.parameters.value_parsers import Mistake
from coordinator.read.multi_search_limits import ItemSum
from coordinator.routes.algolia_conventions import (
    CHANGE,
    FLAGS,
    algolia_route,
    now,
    object_body,
    required_body,
    write_deadline,
)
from coordinator.routes.algolia_index_creation import facets_to_write, index_to_write
from coordinator.routes.algolia_index_lookup import find_index
from coordinator.routes.algolia_indexes import drop_index
from coordinator.routes.items import refuse_conditions, stored_item
from coordinator.routes.update_and_delete_by_query import delete_matching
from coordinator.write.partitioning import ItemOperation

if TYPE_CHECKING:
    from common.index_configuration import FacetConfiguration
    from common.limits import Limits
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

_Listed: TypeAlias = list[tuple[int, dict[str, Any]]]
"""Changes, each with its position in the request."""


class _Checked(NamedTuple):
    """The changes to one index."""

    name: str
    """Of the index, as requested."""
    listed: _Listed
    facets: Mapping[str, FacetConfiguration]
    """Of the index, under which they are valid."""
    changes: list[ObjectChange] | None
    """None: the only one is to clear the index, or to delete it."""


ROUTES: Final = RouteTable()


async def _document(
    services: Services, request: Request, index: Index, object_id: object
) -> bytes | None:
    """Return a stored item, or None."""
    canonical = canonical_id(object_id) if isinstance(object_id, int | str) else None
    if canonical is None:
        raise InvalidRequest("an objectID is a text of 1 to 256 bytes", code="invalid_id")
    return await stored_item(services, request, index, canonical)


def _retrieved(value: Any) -> list[str] | None:
    """Read `attributesToRetrieve` of a request for objects."""
    if value is None:
        return None
    try:
        names = texts(value)
    except Mistake as mistake:
        raise wrong("attributesToRetrieve", mistake.message) from None
    return None if "*" in names else names


@ROUTES.add(
    algolia_route(
        "GET",
        "/1/indexes/{indexName}/{objectID}",
        "One object.",
        Action.SEARCH,
        applies_filter=True,
        is_shared=True,
    ),
)
async def get_object(services: Services, request: Request) -> Response:
    """Answer `GET /1/indexes/{index}/{objectID}`."""
    name, object_id = request.arguments
    index, _ = find_index(services, request, name)
    params = query_string_parameters(request.query_string)
    document = await _document(services, request, index, object_id)
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
        applies_filter=True,
        is_shared=True,
    ),
)
async def get_objects(services: Services, request: Request) -> Response:
    """Answer `POST /1/indexes/*/objects`: objects by id; null for those that do not exist."""
    limits = services.settings.limits
    listed = object_body(services, request).get("requests")
    if not isinstance(listed, list) or len(listed) > limits.batch_items_max:
        raise InvalidRequest(
            f"requests must be a list of up to {limits.shown('batch_items_max')} objects",
            code="invalid_body",
            param="requests",
        )
    results: list[Any] = []
    missing: list[str] = []
    read = ItemSum()
    deadline = Deadline.after_ms(limits.request_timeout_ms)
    for one in listed:
        if deadline.remaining_ms <= 0:
            raise DeadlineExceeded(
                f"{len(results)} of {len(listed)} objects were read in time; ask for fewer"
            )
        wanted = one if isinstance(one, dict) else {}
        index, _ = find_index(services, request, wanted.get("indexName"))
        document = await _document(services, request, index, wanted.get("objectID"))
        names = _retrieved(wanted.get("attributesToRetrieve"))
        if document is None:
            results.append(None)
            missing.append(str(wanted["objectID"]))
            continue
        read.add([document])
        results.append(orjson.Fragment(orjson.dumps(object_of(document, names))))
    answer: dict[str, Any] = {"results": results}
    if missing:
        more = f"; {len(missing)} of {len(listed)} are missing" if len(missing) > 1 else ""
        answer["message"] = f"ObjectID {missing[0]} does not exist{more}"
    return json_response(answer)


async def _write(services: Services, index: Index, changes: Sequence[ObjectChange]) -> int:
    """Apply changes in one group; return its sequence number."""
    operations = [ItemOperation(one.operation, one.item_id, one.payload) for one in changes]
    result = await services.ingest.write_operations(index, operations, write_deadline(services))
    for position, outcome in result.refused:
        place = changes[position].param
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
    listed = _requests(services, request)
    checked = await _checked(services, request, request.arguments[0], listed)
    index = await index_to_write(services, request, checked.name)
    ids, seq = await _carry_out(services, request, index, checked)
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
    """Answer `POST /1/indexes/*/batch`: changes to several indexes, in one write for each.

    If any of them is invalid, none is applied.
    """
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
    checked = [await _checked(services, request, name, listed) for name, listed in by_index.items()]
    indexes = [await index_to_write(services, request, changes.name) for changes in checked]
    ids: list[str] = []
    tasks: dict[str, int] = {}
    for index, changes in zip(indexes, checked, strict=True):
        try:
            changed, task = await _carry_out(services, request, index, changes)
        except ConfigurationSwitched:
            if not tasks:
                raise  # nothing is written yet: the request runs again
            changed, task = await _after_switch(services, request, index, changes)
        tasks[changes.name] = task
        ids += changed
    return json_response({"taskID": tasks, "objectIDs": ids})


async def _after_switch(
    services: Services, request: Request, index: Index, checked: _Checked
) -> tuple[list[str], int]:
    """Carry out the changes to one index once it has switched configuration.

    The request cannot run again: increments to other indexes would count twice.

    Raises:
        Unavailable: code switched; it takes too long.
    """
    deadline = write_deadline(services)
    while deadline.remaining_ms > 0:
        await services.catalog.switched(index, min(SWITCH_WAIT_SECONDS, deadline.remaining_seconds))
        index = await index_to_write(services, request, index.name)
        try:
            return await _carry_out(services, request, index, checked)
        except ConfigurationSwitched:
            continue
    raise Unavailable(
        f"index {index.name!r} is being switched to another configuration; the changes to the "
        "indexes before it were applied",
        code="switched",
    )


def _requests(services: Services, request: Request) -> _Listed:
    """Return the changes in a body, with their positions."""
    limits = services.settings.limits
    listed = decode_stored(request.body, limits).get("requests")
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


async def _checked(services: Services, request: Request, name: str, listed: _Listed) -> _Checked:
    """Check the changes to one index, before it is created if it is missing.

    Raises:
        InvalidRequest: a change is invalid.
    """
    facets = facets_to_write(services, request, name)
    read = partial(_read, listed, facets, services.settings.limits)
    # On another thread: ten thousand objects take a fifth of a second.
    is_long = len(request.body) > BODY_FAST_BYTES
    return _Checked(name, listed, facets, await asyncio.to_thread(read) if is_long else read())


def _read(
    listed: _Listed, facets: Mapping[str, FacetConfiguration], limits: Limits
) -> list[ObjectChange] | None:
    """Read the changes to one index; None: the only one is to clear or delete it."""
    if any(one.get("action") in ("clear", "delete") for _, one in listed):
        if len(listed) > 1:
            raise InvalidRequest(
                "clear and delete must be the only action of a batch",
                code="unsupported_parameter",
                param="requests",
            )
        return None
    return [
        read_change(one.get("action"), one.get("body"), facets, limits, f"requests[{i}]")
        for i, one in listed
    ]


async def _carry_out(
    services: Services, request: Request, index: Index, checked: _Checked
) -> tuple[list[str], int]:
    """Carry out changes in one group; return their objectIDs and the write's sequence number."""
    if index.configuration.facets != checked.facets:  # configured since the changes were checked
        checked = await _checked(services, request, index.name, checked.listed)
    changes = checked.changes
    if changes is not None:
        return [one.object_id for one in changes], await _write(services, index, changes)
    if checked.listed[0][1]["action"] == "clear":
        return [], await _delete_matching(services, request, index, "")
    return [], await drop_index(services, request, index)


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
    name, *ids = request.arguments
    object_id = ids[0] if ids else None
    facets = facets_to_write(services, request, name)
    change = _single(services, request, facets, "addObject", object_id)
    index = await index_to_write(services, request, name)
    seq = await _write(services, index, [change])
    timestamp = {"updatedAt": now()} if object_id is not None else {"createdAt": now()}
    return json_response({"taskID": seq, "objectID": change.object_id, **timestamp})


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
    params = query_string_parameters(request.query_string)
    creates = params.get("createIfNotExists", "true")
    if creates not in FLAGS:
        raise InvalidRequest(
            "createIfNotExists must be true or false",
            code="invalid_parameter",
            param="createIfNotExists",
        )
    action = "partialUpdateObject" if FLAGS[creates] else "partialUpdateObjectNoCreate"
    facets = facets_to_write(services, request, name)
    change = _single(services, request, facets, action, object_id)
    index = await index_to_write(services, request, name)
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
    facets = index.configuration.facets
    change = _single(services, request, facets, "deleteObject", object_id)
    seq = await _write(services, index, [change])
    return json_response({"taskID": seq, "deletedAt": now()})


def _single(
    services: Services,
    request: Request,
    facets: Mapping[str, FacetConfiguration],
    action: str,
    object_id: str | None,
) -> ObjectChange:
    body = {} if action == "deleteObject" else required_body(services, request)
    return read_change(action, body, facets, services.settings.limits, "object", object_id)


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
    params = flattened(object_body(services, request))
    known = ("filters", "facetFilters", "numericFilters", "tagFilters")
    other = next((name for name in params if name not in known), None)
    if other is not None or not params:
        raise InvalidRequest(
            f"{other or 'the body'} must be some of {', '.join(known)}",
            code="unsupported_parameter",
            param=other,
        )
    # Without the index's settings, whose defaults are for searches.
    searched = SearchedIndex(index.name, index.configuration, {})
    filters = read_search(searched, params, services.settings.limits).search.filters
    if not filters:
        raise InvalidRequest(
            f"{', '.join(params)} select nothing; to remove all objects use clear",
            code="invalid_body",
        )
    expression = " AND ".join([expression_of(clause.filter) for clause in filters])
    seq = await _delete_matching(services, request, index, expression)
    return json_response({"taskID": seq, "updatedAt": now()})


@ROUTES.add(
    algolia_route(
        "POST", "/1/indexes/{indexName}/clear", "Remove all objects.", Action.WRITE, **CHANGE
    ),
)
async def clear(services: Services, request: Request) -> Response:
    """Answer `POST /1/indexes/{index}/clear`: deletes all objects."""
    index, _ = find_index(services, request, request.arguments[0])
    seq = await _delete_matching(services, request, index, "")
    return json_response({"taskID": seq, "updatedAt": now()})


async def _delete_matching(
    services: Services, request: Request, index: Index, expression: str
) -> int:
    """Delete all items that an expression in our own filter language matches.

    The request stays as it was sent: it runs again if the index switches configuration first.

    Returns:
        The write's sequence number.
    """
    refuse_conditions(request)
    request.index = index
    result = await delete_matching(services, request, {"filter": expression})
    return result.seq or services.cluster.horizon(index.number)
