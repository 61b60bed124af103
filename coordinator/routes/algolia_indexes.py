"""Algolia's protocol: indexes, their settings, and tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from common.deadline import Deadline
from common.errors import Forbidden, InvalidRequest, NotFound
from coordinator.algolia import settings_translation as index_settings
from coordinator.catalog.catalog import Index
from coordinator.http.responses import Response, json_response
from coordinator.http.routing import RouteTable
from coordinator.http.security.api_keys import Action
from coordinator.routes.algolia_conventions import (
    CHANGE,
    algolia_route,
    now,
    required_body,
    task_id,
)
from coordinator.routes.algolia_index_creation import reconfigure
from coordinator.routes.algolia_index_lookup import find_index
from coordinator.routes.index_statistics import index_rows
from coordinator.routes.rename_copy_and_delete_index import refuse_slash

if TYPE_CHECKING:
    from coordinator.http.request import Request
    from coordinator.http.services import Services

ROUTES: Final = RouteTable()


@ROUTES.add(
    algolia_route("GET", "/1/indexes", "All indexes.", Action.SEARCH),
)
async def list_indexes(services: Services, request: Request) -> Response:
    """Answer `GET /1/indexes`: the indexes that the caller may use."""
    items = [
        {
            "name": row["name"],
            "createdAt": "",  # not recorded; Algolia, too, has no time for an index without objects
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
    refuse_slash(request)
    try:
        index, sort = find_index(services, request, request.arguments[0])
    except NotFound:
        return json_response({"taskID": 1, "deletedAt": now()})
    if sort:
        raise InvalidRequest(
            f"{request.arguments[0]!r} is {index.name!r} in an order; there is nothing to delete",
            code="invalid_index_name",
        )
    return json_response({"taskID": await drop_index(services, request, index), "deletedAt": now()})


async def drop_index(services: Services, request: Request, index: Index) -> int:
    """Remove an index and its data; return the number of the task."""
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
    limits = services.settings.limits

    def change(before: dict[str, Any]) -> dict[str, Any]:
        return index_settings.changed(before, body, limits)

    index = await reconfigure(services, request, request.arguments[0], change)
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
