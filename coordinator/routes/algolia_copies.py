"""Algolia's protocol: copies and moves of indexes, whole or some parts of their configuration."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from common.deadline import Deadline
from common.errors import InvalidRequest, NotFound
from coordinator.algolia import stored_rules_and_synonyms as stored
from coordinator.algolia.rule_translation import RULES
from coordinator.algolia.synonym_translation import SYNONYMS
from coordinator.catalog.catalog import Index
from coordinator.catalog.index_names import check_index_name
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
from coordinator.routes.algolia_index_creation import NEW_INDEX, index_to_write, reconfigure
from coordinator.routes.algolia_index_lookup import find_index

if TYPE_CHECKING:
    from coordinator.http.request import Request
    from coordinator.http.services import Services

ROUTES: Final = RouteTable()

_KINDS: Final = {"rules": RULES, "synonyms": SYNONYMS}
_SCOPE: Final = ("settings", *_KINDS)


@ROUTES.add(
    algolia_route(
        "POST",
        "/1/indexes/{indexName}/operation",
        "Copy an index, or parts of its configuration; or move it to another name.",
        Action.CONFIGURE,
        body="AlgoliaOperation",
        is_admitted=False,
        **CHANGE,
    )
)
async def operation(services: Services, request: Request) -> Response:
    """Answer `POST /1/indexes/{index}/operation`: {"operation": "copy", "destination": "b"}."""
    body = required_body(services, request)
    wrong = next((name for name in body if name not in ("operation", "destination", "scope")), None)
    if wrong is not None:
        raise stored.refused(wrong, "is not a member of an operation")
    what, destination, scope = body.get("operation"), body.get("destination"), body.get("scope")
    if what not in ("copy", "move"):
        raise stored.wrong("operation", 'must be "copy" or "move"')
    if not isinstance(destination, str):
        raise stored.wrong("destination", "must name an index")
    if scope is not None and (not isinstance(scope, list) or not set(map(str, scope)) <= {*_SCOPE}):
        raise stored.wrong("scope", f"must list some of {', '.join(_SCOPE)}")
    if scope and what == "move":
        raise stored.refused("scope", "cannot be honoured: an index moves as a whole")
    check_index_name(destination, services.settings.limits)
    services.guard.check_index(request.caller, destination)
    source = _source(services, request, destination)
    if scope:
        await _copy_parts(services, request, source, destination, scope)
    elif source is None and what == "move":
        raise NotFound(
            f"there is no index {request.arguments[0]!r} to move", code="index_not_found"
        )
    else:
        services.guard.check_transfer(request.caller)
        await _transfer(services, request, source, destination, is_move=what == "move")
    index = services.catalog.index(destination)
    return json_response({"taskID": task_id(services, index), "updatedAt": now()})


def _source(services: Services, request: Request, destination: str) -> Index | None:
    """Return the index to copy or move; None if it is missing.

    Raises:
        InvalidRequest: it is the destination, or the name means an order or an alias.
    """
    name = request.arguments[0]
    target = services.catalog.aliases.get(destination)
    if target is not None:
        raise InvalidRequest(
            f"{destination!r} is an alias of {target!r}; name that index, or remove the alias",
            code="invalid_index_name",
            param="destination",
        )
    try:
        index, sort = find_index(services, request, name)
    except NotFound:
        return None
    if sort:
        raise InvalidRequest(
            f"{name!r} is {index.name!r} in an order; name that index", code="invalid_index_name"
        )
    if index.name == destination:
        raise InvalidRequest(
            "source and destination are the same index",
            code="invalid_index_name",
            param="destination",
        )
    return index


async def _copy_parts(
    services: Services, request: Request, source: Index | None, destination: str, scope: list[str]
) -> None:
    """Copy parts of a configuration; those of a missing index are the defaults."""
    parts = NEW_INDEX if source is None else source.document
    await reconfigure(
        services,
        request,
        destination,
        lambda before: stored.copied(parts, before, scope, _KINDS),
    )


async def _transfer(
    services: Services, request: Request, source: Index | None, destination: str, *, is_move: bool
) -> None:
    """Copy or move a whole index over what the destination is."""
    administration = services.administration
    # Large data takes long to copy, so the deadline is that of configuring.
    deadline = Deadline.after_ms(services.settings.configure_timeout_ms)
    former = services.catalog.indexes.get(destination)
    if source is None:  # a copy of nothing is an empty index
        if former is not None:
            await administration.delete_index(destination, deadline)
        await index_to_write(services, request, destination)
        return
    if is_move:
        await administration.move(source.name, destination, deadline)
        return
    make_source = partial(services.snapshot_maker.copied_index, new_name=destination)
    await administration.copy(source.name, destination, make_source, deadline, replaces=True)
