"""Algolia's protocol: API keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from common.errors import NotFound
from coordinator.algolia.keys import new_key, shown_key
from coordinator.http.responses import Response, json_response
from coordinator.http.routing import RouteTable
from coordinator.http.security.api_keys import Action, add_key, remove_key, visible_keys
from coordinator.http.security.api_keys import shown_key as shown_own_key
from coordinator.routes.algolia_conventions import (
    CHANGE,
    algolia_route,
    now,
    object_body,
    write_deadline,
)

if TYPE_CHECKING:
    from coordinator.http.request import Request
    from coordinator.http.services import Services

ROUTES: Final = RouteTable()


@ROUTES.add(
    algolia_route("GET", "/1/keys", "All API keys, without the keys.", Action.ADMIN),
)
async def list_keys(services: Services, request: Request) -> Response:
    """Answer `GET /1/keys`: ids represent the keys, which are never shown again."""
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
    limits = services.settings.limits
    document = new_key(object_body(services, request), limits)
    _, token = await add_key(
        services.catalog, document, limits, request.caller, deadline=write_deadline(services)
    )
    return json_response({"key": token, "createdAt": now()}, headers=b"Cache-Control: no-store\r\n")


@ROUTES.add(
    algolia_route("DELETE", "/1/keys/{key}", "Delete an API key.", Action.ADMIN, **CHANGE),
)
async def delete_key(services: Services, request: Request) -> Response:
    """Answer `DELETE /1/keys/{key}`."""
    id_ = _key_id(request.arguments[0])
    await remove_key(
        services.catalog,
        id_,
        request.caller,
        keeps_last=services.settings.is_exposed,
        deadline=write_deadline(services),
    )
    return json_response({"deletedAt": now()})
