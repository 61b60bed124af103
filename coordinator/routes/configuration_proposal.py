"""The proposal of a configuration, from a sample of an index's items."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

import orjson

from common.hits_page_byte_limit import FEW_ITEMS
from coordinator.http.api_description.route import Route
from coordinator.http.responses import Response, json_response
from coordinator.http.routing import RouteTable
from coordinator.http.security.api_keys import Action
from coordinator.parameters.request_parsing import parse_search
from coordinator.read.configuration_proposal import propose, spread_pages

if TYPE_CHECKING:
    from coordinator.http.request import Request
    from coordinator.http.services import Services
    from coordinator.read.search_results import SearchResult

SAMPLE_ITEMS: Final = 2_000
SAMPLE_BYTES: Final = 8 * 1024 * 1024
SAMPLE_PAGES: Final = 20
PAGE_BYTES: Final = 1024 * 1024


ROUTES: Final = RouteTable()


@ROUTES.add(
    Route(
        "GET",
        "/{index}/proposal",
        "A configuration proposed from the items: kinds of fields, and what makes a good facet.",
        Action.SEARCH,
        needs_index=True,
        tag="indexes",
        document={"answer": "Document"},
    ),
)
async def proposal(services: Services, request: Request) -> Response:
    """Answer `GET /{index}/proposal` from a sample, spread over the whole index."""
    index = request.index
    limits = services.settings.limits

    async def page(number: int, per_page: int) -> SearchResult:
        raw: dict[str, Any] = {"page": number, "per_page": per_page, "facet_fields": []}
        parameters = parse_search(raw, index.configuration, limits)
        return await services.search.search(index, parameters)

    first = await page(1, FEW_ITEMS)
    items = list(first.items)
    # Choose the page size by the mean size of the first items.
    mean = sum(map(len, items)) // max(len(items), 1) + 1
    per_page = max(1, min(PAGE_BYTES // mean, SAMPLE_ITEMS // SAMPLE_PAGES, limits.per_page_max))
    num_bytes = 0
    if first.total > len(items):
        items = []
        for number in spread_pages(first.total, per_page, SAMPLE_PAGES):
            if num_bytes > SAMPLE_BYTES:
                break
            found = (await page(number, per_page)).items
            items += found
            num_bytes += sum(map(len, found))
    document = await asyncio.to_thread(
        lambda: propose([orjson.loads(item) for item in items], first.total, index.document)
    )
    return json_response(document)
