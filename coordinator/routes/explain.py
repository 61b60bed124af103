"""Why one item is a hit of a search, or what keeps it out."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from coordinator.http.responses import Response
from coordinator.http.result_bodies import explanation_body
from coordinator.http.routing import RouteTable
from coordinator.parameters.parameter_table import EXPLAIN_PARAMETERS
from coordinator.parameters.request_parsing import parse_explain, parse_search
from coordinator.routes.search import narrowed, raw_parameters, search_routes

if TYPE_CHECKING:
    from coordinator.http.request import Request
    from coordinator.http.services import Services
    from coordinator.parameters.parsed_parameters import SearchParameters


ROUTES: Final = RouteTable()


@ROUTES.add(
    *search_routes(
        "/{index}/explain",
        "Why one item is a hit of a search, or which words, filters and rules keep it out.",
        EXPLAIN_PARAMETERS,
        "Explanation",
    )
)
async def explain(services: Services, request: Request) -> Response:
    """Answer `/{index}/explain`."""
    limits = services.settings.limits
    canonical, raw = parse_explain(
        raw_parameters(request, limits), request.index.configuration, limits
    )
    explained = await services.explanations.explain(
        request.index, raw, partial(_parsed, services, request), canonical
    )
    return Response(explanation_body(explained, request.request_id, request.micros))


def _parsed(services: Services, request: Request, raw: dict[str, Any]) -> SearchParameters:
    """Return parameters as a search that the caller may run."""
    search = parse_search(raw, request.index.configuration, services.settings.limits)
    return narrowed(search, request)
