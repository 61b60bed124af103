"""Suggestions for a search box."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from coordinator.http.responses import Response
from coordinator.http.result_bodies import suggestions_body
from coordinator.http.routing import RouteTable
from coordinator.parameters.parameter_table import SUGGEST_PARAMETERS
from coordinator.parameters.request_parsing import parse_suggest
from coordinator.routes.search import narrowed, raw_parameters, search_routes

if TYPE_CHECKING:
    from coordinator.http.request import Request
    from coordinator.http.services import Services


ROUTES: Final = RouteTable()


@ROUTES.add(
    *search_routes(
        "/{index}/suggest",
        "Suggestions for a search box: what a text as typed may become, with exact counts.",
        SUGGEST_PARAMETERS,
        "Suggestions",
    )
)
async def suggest(services: Services, request: Request) -> Response:
    """Answer `/{index}/suggest`."""
    limits = services.settings.limits
    parameters = parse_suggest(raw_parameters(request, limits), request.index.configuration, limits)
    parameters = msgspec.structs.replace(parameters, search=narrowed(parameters.search, request))
    page = await services.suggestions.suggest(request.index, parameters)
    return Response(suggestions_body(page, request.request_id, request.micros))
