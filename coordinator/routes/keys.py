"""API keys: make, list, remove."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from common.deadline import Deadline
from coordinator.http.api_description.route import Body, Route
from coordinator.http.responses import Response, json_response
from coordinator.http.routing import RouteTable
from coordinator.http.security.api_keys import (
    Action,
    add_key,
    remove_key,
    shown_key,
    visible_keys,
)
from coordinator.parameters.request_decoding import decode_object

if TYPE_CHECKING:
    from coordinator.http.request import Request
    from coordinator.http.services import Services

ROUTES: Final = RouteTable()


@ROUTES.add(
    Route(
        "GET",
        "/_keys",
        "All API keys, without their secrets.",
        Action.ADMIN,
        tag="operations",
        document={"answer": "Document"},
    ),
)
async def list_keys(services: Services, request: Request) -> Response:
    """Answer `GET /_keys`: keys within the caller's indexes, without secrets."""
    keys = visible_keys(services.catalog, request.caller)
    return json_response({"keys": [shown_key(id_, key) for id_, key in keys.items()]})


@ROUTES.add(
    Route(
        "POST",
        "/_keys",
        "Create an API key; only this response shows it.",
        Action.ADMIN,
        body=Body.JSON,
        is_change=True,
        tag="operations",
        document={"body": "NewKey", "answer": "Document"},
    ),
)
async def create_key(services: Services, request: Request) -> Response:
    """Answer `POST /_keys`: the only response that ever contains the key itself."""
    shown, token = await add_key(
        services.catalog,
        decode_object(request.body, services.settings.limits),
        services.settings.limits,
        request.caller,
        deadline=_deadline(services),
    )
    return json_response({**shown, "key": token}, headers=b"Cache-Control: no-store\r\n")


@ROUTES.add(
    Route(
        "DELETE",
        "/_keys/{id}",
        "Remove an API key.",
        Action.ADMIN,
        is_change=True,
        tag="operations",
        document={"answer": "Document"},
    ),
)
async def delete_key(services: Services, request: Request) -> Response:
    """Answer `DELETE /_keys/{id}`."""
    id_ = request.arguments[0]
    await remove_key(
        services.catalog,
        id_,
        request.caller,
        keeps_last=services.settings.is_exposed,
        deadline=_deadline(services),
    )
    return json_response({"status": "deleted", "id": id_})


def _deadline(services: Services) -> Deadline:
    return Deadline.after_ms(services.settings.limits.request_timeout_ms)
