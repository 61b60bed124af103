"""Route: one page of the API, as it is declared at its handler."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from coordinator.http.security.api_keys import Action

TAGS: Final[Mapping[str, str]] = {
    "search": "Search: hits, facets, ranges.",
    "items": "Items: read, write, load, export.",
    "indexes": "Indexes: configuration, removal, sizes, aliases.",
    "algolia": "Algolia's protocol: search, objects, settings, keys.",
    "operations": "Operations: health, metrics, keys, documentation.",
    "pages": "Pages for people.",
}
"""Sections of the documentation, with their headlines."""


class Body(Enum):
    """The body that a route accepts, with its content types."""

    NONE = ()
    """No body, or an empty one."""
    JSON = ("application/json",)
    """One JSON document, read completely before the handler runs."""
    LOOSE_JSON = ("application/json", "text/plain", "application/x-www-form-urlencoded", "")
    """One JSON document, whatever its declared type: Algolia's clients send it as text, for which
    browsers need no preflight. Changes are still subject to the check of their origin."""
    STREAM = (
        "text/plain",
        "application/json",
        "application/x-ndjson",
        "application/ndjson",
        "application/jsonl",
        "application/octet-stream",
    )
    """Items, read by the handler in parts."""


@dataclass(frozen=True, slots=True)
class Route:
    """A route, as it is declared at its handler (`routing.RouteTable.add`)."""

    method: str
    path: str
    summary: str
    action: Action | None
    """The action that the caller's key must allow; None: no key needed."""
    body: Body = Body.NONE
    bytes_limit: str = "json_body_bytes_max"
    """Name of the limit on the body."""
    needs_index: bool = False
    """Whether the first argument names an index that must exist."""
    is_admitted: bool = True
    """Whether it counts as in flight (health must respond under any load)."""
    is_change: bool = False
    """Whether it changes anything, so that the origin is checked."""
    applies_filter: bool = False
    """Whether the handler restricts its response by the filter of the caller's key."""
    is_shared: bool = False
    """Whether each of several coordinators answers it; all else is the owner's."""
    is_of_all_indexes: bool = False
    """Whether it shows or touches every index, so that keys limited to some are rejected."""
    tag: str = ""
    """Section of the documentation, one of `TAGS`."""
    parameters: tuple[Any, ...] = ()
    """Parameters that it reads from query string or body, for the documentation."""
    document: dict[str, Any] = field(default_factory=dict)
    """Of the OpenAPI operation: `answer` and `body`, names of schemas (`schemas/`); `query`, by
    parameter of the query string that is not in `parameters`, its schema."""
    name: str = field(init=False)
    """In metrics and logs."""
    names_index: bool = field(init=False)
    """Whether the first argument names an index."""
    refuses_ignored: bool = field(init=False)
    """Whether a query string and a body are refused where the handler reads neither. Pages that
    need no key ignore them, as probes and browsers expect, and so does Algolia's protocol."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", f"{self.method} {self.path}")
        object.__setattr__(self, "names_index", "{index}" in self.path)
        assert "answer" in self.document, (
            f"{self.name}: document must name the schema of the answer"
        )
        refuses = self.action is not None and self.tag != "algolia"
        object.__setattr__(self, "refuses_ignored", refuses)

    @property
    def takes_query(self) -> bool:
        """Whether the handler reads the query string."""
        return bool(self.parameters or "query" in self.document)
