"""The export: all items that match, as lines of JSON."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING, Final

from common.process.logs import Log
from common.settings_of_other_engines import hints_by_name
from coordinator.http.api_description.route import Route
from coordinator.http.responses import Stream, header
from coordinator.http.routing import RouteTable
from coordinator.http.security.api_keys import Action
from coordinator.parameters.parameter_table import SEARCH_PARAMETERS
from coordinator.parameters.request_decoding import query_parameters, refuse_unknown
from coordinator.routes.matching_scan import RESTRICTING, matching_hits

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from coordinator.http.request import Request
    from coordinator.http.services import Services
    from coordinator.read.hit_merging import Hit

NDJSON: Final = b"application/x-ndjson"

_ORDERING: Final = frozenset(("sort", "sort_field", "order"))
_PROJECTING: Final = frozenset(("fields", "exclude_fields"))
_INSTEAD: Final = hints_by_name(
    {
        "all items are streamed; GET /{index}/search has pages": (
            "page per_page perPage limit offset size from skip count cursor"
        ),
        "filter selects items: id IN [1, 2]": "id ids",
    }
)

_log = Log("http")


ROUTES: Final = RouteTable()


@ROUTES.add(
    Route(
        "GET",
        "/{index}/items",
        "Stream all items, or those that match, as newline-delimited JSON.",
        Action.SEARCH,
        needs_index=True,
        is_admitted=False,
        applies_filter=True,
        tag="items",
        parameters=tuple(
            parameter
            for parameter in SEARCH_PARAMETERS
            if parameter.name in RESTRICTING | _ORDERING | _PROJECTING
        ),
        document={"answer": "ItemLines"},
    ),
)
async def export(services: Services, request: Request) -> Stream:
    """Answer `GET /{index}/items`: all items that match, one JSON object per line."""
    raw = query_parameters(request.query_string)
    known = RESTRICTING | _ORDERING | _PROJECTING
    refuse_unknown(raw, sorted(known), _INSTEAD)
    pages = matching_hits(services, request, raw)
    damaged = _Damaged(request)
    # Up to the first part, a failure can still become an error response.
    first: list[tuple[Hit, bytes | None]] = await anext(pages, [])
    if request.method == "HEAD":
        await pages.aclose()

    async def lines() -> AsyncGenerator[bytes, None]:
        async with aclosing(pages):
            yield _lines(damaged.left_out(first))
            async for part in pages:
                yield _lines(damaged.left_out(part))

    return Stream(lines(), content_type=NDJSON, trailers=damaged.trailers)


class _Damaged:
    """The damaged items that an export leaves out: counted, logged, and reported in a trailer."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self.count = 0

    def left_out(self, part: Sequence[tuple[Hit, bytes | None]]) -> list[bytes]:
        """Return the intact items of a part."""
        items = [item for _, item in part if item is not None]
        for hit, item in part:
            if item is None:
                self.count += 1
                _log.error(
                    "damaged item left out of an export",
                    index=self._request.index.name,
                    shard=hit.shard,
                    record=hit.record,
                )
        return items

    def trailers(self) -> bytes:
        """Return the trailer lines of the export: none if no item was damaged."""
        return header("X-Damaged-Items", str(self.count)) if self.count else b""


def _lines(items: list[bytes]) -> bytes:
    return b"".join(b"%b\n" % _one_line(item) for item in items)


def _one_line(item: bytes) -> bytes:
    """Replace an item's line breaks: in JSON they occur only between tokens."""
    if b"\n" not in item and b"\r" not in item:
        return item
    return item.replace(b"\n", b" ").replace(b"\r", b" ")
