"""The service describes itself: as an OpenAPI document, and as a page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from coordinator.http.api_description.route import Route
from coordinator.http.responses import Response
from coordinator.http.routing import RouteTable
from coordinator.routes.static_files import PAGE_HEADERS, without_slash

if TYPE_CHECKING:
    from coordinator.http.request import Request
    from coordinator.http.services import Services

ROUTES: Final = RouteTable()


@ROUTES.add(
    Route(
        "GET",
        "/_openapi.json",
        "The API, as an OpenAPI document.",
        None,
        tag="operations",
        document={"answer": "Document"},
    ),
)
async def openapi_document(services: Services, request: Request) -> Response:
    """Answer `GET /_openapi.json`."""
    return Response(services.interface.json)


@ROUTES.add(
    Route(
        "GET",
        "/_docs",
        "The API, for people.",
        None,
        tag="operations",
        document={"answer": "Page"},
    ),
)
async def documentation(services: Services, request: Request) -> Response:
    """Answer `GET /_docs`: the API for people; needs no internet access."""
    return without_slash(request) or Response(
        services.interface.page,
        content_type=b"text/html; charset=utf-8",
        headers=PAGE_HEADERS,
    )
