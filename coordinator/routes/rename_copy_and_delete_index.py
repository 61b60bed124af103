"""Whole indexes: delete, rename, replace, copy; whether there is one."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from common.deadline import Deadline
from common.errors import InvalidRequest
from coordinator.catalog.index_names import check_index_name
from coordinator.http.api_description.route import Body, Route
from coordinator.http.responses import Response, json_response
from coordinator.http.routing import RouteTable
from coordinator.http.security.api_keys import Action
from coordinator.parameters.request_decoding import decode_object, refuse_unknown

if TYPE_CHECKING:
    from coordinator.http.request import Request
    from coordinator.http.services import Services

ROUTES: Final = RouteTable()


def _naming(action: str, body: str, summary: str) -> Route:
    """Return the route of an action that gives an index another name, or a copy of it one."""
    return Route(
        "POST",
        f"/{{index}}/{action}",
        f"{summary} A key needs `search` and `write` too, for both names.",
        Action.CONFIGURE,
        body=Body.JSON,
        needs_index=True,
        is_admitted=False,
        is_change=True,
        tag="indexes",
        document={"body": body, "answer": "Document"},
    )


@ROUTES.add(
    Route(
        "DELETE",
        "/{index}",
        "Remove an index and its data.",
        Action.CONFIGURE,
        needs_index=True,
        is_admitted=False,
        is_change=True,
        tag="indexes",
        document={"answer": "Status"},
    ),
    Route(
        "POST",
        "/{index}/reset",
        "Remove an index and its data (older clients).",
        Action.CONFIGURE,
        needs_index=True,
        is_admitted=False,
        is_change=True,
        tag="indexes",
        document={"answer": "Status"},
    ),
)
async def delete_index(services: Services, request: Request) -> Response:
    """Answer `DELETE /{index}` and `POST /{index}/reset`: deletes the index and its data."""
    refuse_slash(request)
    index = request.index
    if request.arguments[0] != index.name:
        raise InvalidRequest(
            f"{request.arguments[0]!r} is an alias of {index.name!r}; delete that index, or "
            "remove the alias",
            code="invalid_index_name",
            param="index",
        )
    deadline = Deadline.after_ms(services.settings.limits.request_timeout_ms_max)
    await services.administration.delete_index(index.name, deadline)
    return json_response({"status": "deleted", "index": index.name})


def refuse_slash(request: Request) -> None:
    """Refuse to delete an index by a path that may be what is left of an item's.

    HTTP clients resolve dots: `DELETE /films/items/..`, of an item, is sent as `DELETE /films/`.

    Raises:
        InvalidRequest: code invalid_index_name.
    """
    if request.target.partition("?")[0].endswith("/"):
        raise InvalidRequest(
            "DELETE of an index must not end with a slash: HTTP clients send it for an item whose "
            "id is empty, . or ..; POST /{index}/items/delete takes any ids",
            code="invalid_index_name",
            param="index",
        )


@ROUTES.add(
    _naming(
        "rename",
        "Renaming",
        "Give an index another name; its aliases go with it, and requests in progress go "
        "on. alias: true makes the former name an alias. replace: true takes the name from an "
        "index that has it, which is deleted at the same moment.",
    )
)
async def rename_index(services: Services, request: Request) -> Response:
    """Answer `POST /{index}/rename`: {"to": "films-old", "alias": true}, or "replace": true."""
    name, new_name, document = _names_of_change(services, request, ("to", "alias", "replace"))
    keeps_alias = _flag(document, "alias", "whether the former name becomes an alias")
    replaces = _flag(document, "replace", "whether an index of that name is deleted for it")
    if keeps_alias and replaces:
        raise InvalidRequest(
            "alias and replace cannot both be true; POST /_aliases makes the former name an alias",
            code="invalid_body",
            param="alias",
        )
    if replaces and new_name == name:
        raise InvalidRequest(
            f"{name!r} cannot replace itself; name another index",
            code="invalid_index_name",
            param="to",
        )
    if replaces:
        # What it replaces is deleted, which takes as long as configuring.
        deadline = Deadline.after_ms(services.settings.configure_timeout_ms)
        await services.administration.move(name, new_name, deadline)
    else:
        deadline = Deadline.after_ms(services.settings.limits.request_timeout_ms_max)
        administration = services.administration
        await administration.rename(name, new_name, keeps_alias=keeps_alias, deadline=deadline)
    return json_response({"status": "renamed", "index": new_name, "from": name})


@ROUTES.add(
    _naming(
        "copy",
        "Copying",
        "Copy an index, its items and its configuration, as of this moment; writes go on.",
    )
)
async def copy_index(services: Services, request: Request) -> Response:
    """Answer `POST /{index}/copy`: {"to": "films-test"}."""
    name, new_name, _ = _names_of_change(services, request, ("to",))
    make_source = partial(services.snapshot_maker.copied_index, new_name=new_name)
    # Large data takes long to copy, so the deadline is that of configuring.
    deadline = Deadline.after_ms(services.settings.configure_timeout_ms)
    await services.administration.copy(name, new_name, make_source, deadline)
    return json_response({"status": "copied", "index": new_name, "from": name})


def _flag(document: dict[str, Any], name: str, meaning: str) -> bool:
    """Return a member that is true or false; false if it is not given."""
    value = document.get(name)
    if value is None:
        return False
    if not isinstance(value, bool):
        raise InvalidRequest(
            f"{name} must be true or false: {meaning}", code="invalid_body", param=name
        )
    return value


def _names_of_change(
    services: Services, request: Request, known: tuple[str, ...]
) -> tuple[str, str, dict[str, Any]]:
    """Return an index's name, the one that it or its copy is to have, and the body.

    Raises:
        InvalidRequest: `invalid_index_name`, `invalid_body`.
        Forbidden: the key may not use the new name, or not read and write items.
    """
    services.guard.check_transfer(request.caller)
    document = decode_object(request.body, services.settings.limits)
    refuse_unknown(document, known)
    index, new_name = request.index, document.get("to")
    if request.arguments[0] != index.name:
        raise InvalidRequest(
            f"{request.arguments[0]!r} is an alias of {index.name!r}; name that index",
            code="invalid_index_name",
            param="index",
        )
    if not isinstance(new_name, str):
        raise InvalidRequest(
            'to must be the new name, for example {"to": "films-test"}',
            code="invalid_body",
            param="to",
        )
    check_index_name(new_name, services.settings.limits)
    services.guard.check_index(request.caller, new_name)
    return index.name, new_name, document


@ROUTES.add(
    Route(
        "GET",
        "/{index}/status",
        "Whether there is such an index.",
        Action.SEARCH,
        needs_index=True,
        applies_filter=True,
        tag="indexes",
        document={"answer": "Status"},
    ),
)
async def index_status(services: Services, request: Request) -> Response:
    """Answer `GET /{index}/status`."""
    return json_response({"status": "ok"})
