"""Which index a name denotes in Algolia's protocol; one to write to is created if it is missing.

A name such as `films:year:desc` means the index in that order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from common.deadline import Deadline
from common.errors import Forbidden, InvalidRequest, NotFound, Unavailable
from common.index_configuration import GEO_FIELD, FacetConfiguration
from coordinator.algolia import settings as index_settings
from coordinator.cluster.catalog import Index
from coordinator.cluster.index_names import check_index_name
from coordinator.http.api_keys import Action

if TYPE_CHECKING:
    from coordinator.http.request import Request
    from coordinator.http.services import Services


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
    except (Forbidden, NotFound, Unavailable):
        check_index_name(plain, services.settings.limits)
        # The error quotes the whole name: splitting off the order would reveal what exists.
        services.guard.check_index(request.caller, name)
        raise


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
