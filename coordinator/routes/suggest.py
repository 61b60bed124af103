"""Suggestions for a search box."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from coordinator.http.responses import Response, suggestions_body
from coordinator.http.routing import Body, Route, RouteTable
from coordinator.http.security import Action
from coordinator.parameters.parse import parse_suggest
from coordinator.parameters.table import SUGGEST_PARAMETERS
from coordinator.routes.search import narrowed, raw_parameters

if TYPE_CHECKING:
    from coordinator.http.request import Request
    from coordinator.http.services import Services


ROUTES: Final = RouteTable()


@ROUTES.add(
    *(
        Route(
            method,
            "/{index}/suggest",
            "Suggestions for a search box: what a text as typed may become, with exact counts.",
            Action.SEARCH,
            body=Body.JSON if method == "POST" else Body.NONE,
            bytes_limit="search_body_bytes_max",
            needs_index=True,
            applies_filter=True,
            tag="search",
            parameters=SUGGEST_PARAMETERS,
            document={"answer": "Suggestions"},
        )
        for method in ("GET", "POST")
    )
)
async def suggest(services: Services, request: Request) -> Response:
    """Answer `/{index}/suggest`."""
    limits = services.settings.limits
    parameters = parse_suggest(raw_parameters(request, limits), request.index.configuration, limits)
    parameters = msgspec.structs.replace(parameters, search=narrowed(parameters.search, request))
    page = await services.suggestions.suggest(request.index, parameters)
    return Response(suggestions_body(page, request.request_id, request.micros))
