"""Algolia's protocol creates an index with the first write to it.

An index that is missing is created if the caller may configure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from common.deadline import Deadline
from common.errors import InvalidRequest, NotFound
from common.index_configuration import GEO_FIELD, FacetConfiguration
from coordinator.catalog.catalog import Index
from coordinator.http.security.api_keys import Action
from coordinator.routes.algolia_index_lookup import find_index

if TYPE_CHECKING:
    from coordinator.http.request import Request
    from coordinator.http.services import Services

NEW_INDEX: Final[Mapping[str, Any]] = {"geo_fields": ["_geoloc", GEO_FIELD]}
"""The configuration of an index that a write creates; the first field is that of this protocol."""


def _index_if_there(services: Services, request: Request, name: str) -> Index | None:
    """Return an index to write to; None if it is missing and the caller may create it."""
    try:
        index, sort = find_index(services, request, name)
    except NotFound:
        if not request.caller.may(Action.CONFIGURE):
            raise
        return None
    if sort:
        raise InvalidRequest(
            f"{name!r} is {index.name!r} in an order; write to that index",
            code="invalid_index_name",
        )
    return index


def facets_to_write(
    services: Services, request: Request, name: str
) -> Mapping[str, FacetConfiguration]:
    """Return the facets of an index to write to: objects are checked before it is created."""
    index = _index_if_there(services, request, name)
    return {} if index is None else index.configuration.facets


async def index_to_write(services: Services, request: Request, name: str) -> Index:
    """Return an index to write to; create it if it is missing and the caller may configure."""
    index = _index_if_there(services, request, name)
    if index is not None:
        return index
    await _create(services, name, dict(NEW_INDEX))
    index, _ = find_index(services, request, name)
    return index


async def _create(services: Services, name: str, document: dict[str, Any]) -> None:
    deadline = Deadline.after_ms(services.settings.configure_timeout_ms)
    await services.administration.create(name, document, deadline)


async def reconfigure(
    services: Services,
    request: Request,
    name: str,
    change: Callable[[dict[str, Any]], dict[str, Any]],
) -> Index:
    """Change the configuration of an index, or create one, if the caller may configure.

    Args:
        services: of the coordinator.
        request: whose caller it is.
        name: of the index.
        change: takes the stored document and returns the new one; it may be called again.
    """
    index = _index_if_there(services, request, name)
    if index is None:
        document = change(dict(NEW_INDEX))
        await _create(services, name, document)
        index, _ = find_index(services, request, name)
        if index.document == document:
            return index
        # Another request has created it meanwhile.
    deadline = Deadline.after_ms(services.settings.configure_timeout_ms)
    return await services.administration.reconfigure(index.name, change, deadline)
