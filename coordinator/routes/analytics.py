"""Analytics: frequent searches, searches without hits, slow searches, and clicks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from common.errors import InvalidRequest, NotFound
from common.item_ids import canonical_id
from coordinator.http.api_description.route import Body, Route
from coordinator.http.api_description.schemas.schema_parts import described
from coordinator.http.responses import Response, json_response
from coordinator.http.routing import RouteTable
from coordinator.http.security.api_keys import Action
from coordinator.parameters.request_decoding import decode_object, query_parameters, refuse_unknown
from coordinator.routes.search import counted_client

if TYPE_CHECKING:
    from coordinator.http.request import Request
    from coordinator.http.services import Services

DAYS_DEFAULT: Final = 7
SIZE_DEFAULT: Final = 20
SIZE_MAX: Final = 1_000
POSITION_MAX: Final = 1_000_000_000
_INDEX: Final = described({"type": "string"}, "An index; all by default.", "films")


ROUTES: Final = RouteTable()


def _check_on(services: Services) -> None:
    if not services.analytics.is_on:
        raise NotFound(
            "analytics are off; the setting analytics_days says for how many days they are kept",
            code="analytics_off",
        )


def _number(raw: dict[str, Any], name: str, default: int, most: int, *, code: str) -> int:
    """Read a whole number of the query string."""
    text = str(raw.get(name, default))
    if not (text.isascii() and text.isdigit() and len(text) < 10 and 1 <= int(text) <= most):
        raise InvalidRequest(f"{name} must be an integer from 1 to {most}", code=code, param=name)
    return int(text)


def _index_name(services: Services, raw: dict[str, Any]) -> str | None:
    """Return the name that an index is counted under: its own, even if it is asked by an alias."""
    name = raw.get("index")
    return None if name is None else services.catalog.aliases.get(str(name), str(name))


@ROUTES.add(
    Route(
        "GET",
        "/_analytics",
        "Search analytics: frequent searches, those without hits, slow ones, and clicks.",
        Action.ADMIN,
        is_of_all_indexes=True,
        tag="operations",
        document={
            "answer": "Analytics",
            "query": {
                "index": _INDEX,
                "days": described(
                    {"type": "integer", "minimum": 1, "maximum": 10_000},
                    "How many days to count, with today.",
                    7,
                ),
                "size": described(
                    {"type": "integer", "minimum": 1, "maximum": SIZE_MAX},
                    "The maximum length of each list.",
                    20,
                ),
            },
        },
    ),
)
async def report(services: Services, request: Request) -> Response:
    """Answer `GET /_analytics`."""
    _check_on(services)
    raw = query_parameters(request.query_string)
    refuse_unknown(raw, ("index", "days", "size"))
    days = _number(raw, "days", DAYS_DEFAULT, 10_000, code="invalid_days")
    size = _number(raw, "size", SIZE_DEFAULT, SIZE_MAX, code="invalid_size")
    name = _index_name(services, raw)
    found = await services.analytics.report(name, days, size)
    if name is not None and not found["searches"]:
        services.catalog.index(name)  # a deleted index may have been searched; others must be there
    return json_response(found)


@ROUTES.add(
    Route(
        "DELETE",
        "/_analytics",
        "Delete the analytics of one index, or of all.",
        Action.ADMIN,
        is_change=True,
        is_of_all_indexes=True,
        tag="operations",
        document={"answer": "Status", "query": {"index": _INDEX}},
    ),
)
async def forget(services: Services, request: Request) -> Response:
    """Answer `DELETE /_analytics`: of one index, or of all."""
    _check_on(services)
    raw = query_parameters(request.query_string)
    refuse_unknown(raw, ("index",))
    await services.analytics.forget(_index_name(services, raw))
    return json_response({"status": "deleted"})


@ROUTES.add(
    Route(
        "POST",
        "/_analytics/clicks",
        "Count clicks on hits.",
        Action.SEARCH,
        body=Body.LOOSE_JSON,
        bytes_limit="search_body_bytes_max",
        is_change=True,
        applies_filter=True,
        tag="operations",
        document={"body": "Clicks", "answer": "CountedClicks"},
    ),
)
async def clicks(services: Services, request: Request) -> Response:
    """Answer `POST /_analytics/clicks`: counts those that belong to counted searches."""
    _check_on(services)
    limits = services.settings.limits
    raw = decode_object(request.body, limits)
    refuse_unknown(raw, ("clicks",))
    listed = raw.get("clicks")
    if not isinstance(listed, list) or not 1 <= len(listed) <= limits.clicks_max:
        raise InvalidRequest(
            f"clicks must be a list of 1 to {limits.shown('clicks_max')} objects such as "
            '{"index": "films", "query": "sea", "id": 7, "position": 1}',
            code="invalid_body",
            param="clicks",
        )
    found = [_click(services, request, one, i) for i, one in enumerate(listed)]
    client = counted_client(request)
    num_counted = sum(services.analytics.click(client, *one) for one in found)
    if request.caller.filter is not None:
        num_counted = len(found)  # the number would tell what others have searched for
    return json_response({"status": "counted", "counted": num_counted})


def _click(
    services: Services, request: Request, one: object, number: int
) -> tuple[str, str, str, int]:
    """Check one click; return index, query, id and position."""

    def refused(name: str, wanted: str) -> InvalidRequest:
        param = f"clicks[{number}].{name}" if name else f"clicks[{number}]"
        return InvalidRequest(f"{param} must be {wanted}", code="invalid_body", param=param)

    if not isinstance(one, dict):
        raise refused("", "an object")
    unknown = sorted(one.keys() - {"index", "query", "id", "position"})
    if unknown:
        raise refused("", f"of index, query, id and position only, not {unknown[0][:100]!r}")
    name, query, position = one.get("index"), one.get("query", ""), one.get("position", 1)
    if not isinstance(name, str):
        raise refused("index", "the name of an index")
    if not isinstance(query, str):
        raise refused("query", "the text that was searched for")
    id = one.get("id")
    canonical = None
    if isinstance(id, (int, str)) and not isinstance(id, bool):
        canonical = canonical_id(id)
    if canonical is None:
        raise refused("id", "the id of an item")
    if (
        not isinstance(position, int)
        or isinstance(position, bool)
        or not 1 <= position <= POSITION_MAX
    ):
        raise refused("position", f"an integer from 1 to {POSITION_MAX}")
    index = services.guard.index(request.caller, name)
    return index.name, query, canonical.decode(), position
