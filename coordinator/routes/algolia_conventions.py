"""What all routes of Algolia's protocol share: their declaration, bodies, task ids, times.

`coordinator/algolia` translates parameters, filters, settings and responses; the modules
`algolia_…` of this folder have the routes under `/1/`: for algoliasearch, InstantSearch,
Autocomplete, DocSearch. Writes are visible once acknowledged, so every task counts as published.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from common.deadline import Deadline
from common.errors import InvalidRequest
from coordinator.catalog.catalog import Index
from coordinator.http.api_description.route import Body, Route
from coordinator.http.security.api_keys import Action
from coordinator.parameters.request_decoding import decode_object, decode_stored

if TYPE_CHECKING:
    from coordinator.http.request import Request
    from coordinator.http.services import Services


def algolia_route(
    method: str,
    path: str,
    summary: str,
    action: Action | None,
    *,
    body: str | None = None,
    answer: str = "Document",
    bytes_limit: str = "json_body_bytes_max",
    **more: Any,
) -> Route:
    """Return a route of this protocol; its clients send JSON labelled as text."""
    document = {"answer": answer} if body is None else {"answer": answer, "body": body}
    takes = Body.NONE if body is None else Body.LOOSE_JSON
    return Route(
        method,
        path,
        summary,
        action,
        body=takes,
        bytes_limit=bytes_limit,
        tag="algolia",
        document=document,
        **more,
    )


CHANGE: Final[dict[str, Any]] = {"is_change": True}
FLAGS: Final = {"true": True, "1": True, "false": False, "0": False}
"""Values of options in query strings; algoliasearch v4 for JavaScript sends 1."""


def object_body(services: Services, request: Request) -> dict[str, Any]:
    """Decode a body; none at all is an empty object."""
    return decode_object(request.body, services.settings.limits)


def required_body(services: Services, request: Request) -> dict[str, Any]:
    """Decode a body that says what to store: none at all is a client's mistake, not an object."""
    if not request.body:
        raise InvalidRequest("the body is empty; send a JSON object", code="invalid_body")
    return decode_stored(request.body, services.settings.limits)


def write_deadline(services: Services) -> Deadline:
    """Return when a write must have ended."""
    return Deadline.after_ms(services.settings.limits.request_timeout_ms)


def task_id(services: Services, index: Index) -> int:
    """Return a number for a change of an index, which is done."""
    return max(1, services.cluster.horizon(index.number))


def now() -> str:
    """Return this moment as the protocol writes it."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
