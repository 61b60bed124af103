"""Which index a name denotes in Algolia's protocol.

A name such as `films:year:desc` means the index in that order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from common.errors import Forbidden, InvalidRequest, NotFound, Unavailable
from coordinator.algolia import settings_translation as index_settings
from coordinator.catalog.catalog import Index
from coordinator.catalog.index_names import check_index_name

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
