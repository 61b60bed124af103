"""Routing: finds the function that answers a request, by the segments of its path (pure).

    @ROUTES.add(Route("GET", "/{index}/items/{id}", "One item, as it was stored.", …))
    async def get_item(services: Services, request: Request) -> Response: …

    root ─ "_health"            literal children first: no index can have such a name
         ├ "dashboard" ─ {}
         └ {index} ─ "search"
                   └ "items" ─ "delete"      POST only, so an item may still have the id "delete"
                             └ {id} ─ "update"

A request walks two to four dicts. aiohttp's own resolver matches regular expressions, builds a
match object and calls one middleware after another: 10 µs more.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from common.errors import MethodNotAllowed, NotFound
from coordinator.http.api_keys import Action

if TYPE_CHECKING:
    from coordinator.http.request import Request
    from coordinator.http.responses import Response
    from coordinator.http.services import Services

    Handler: TypeAlias = Callable[[Services, Request], Awaitable[Response]]


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
    """Any body is ignored."""
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
    """A route, as it is declared at its handler (`RouteTable.add`)."""

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
    """Additions to the OpenAPI operation: request body, responses."""
    name: str = field(init=False)
    """In metrics and logs."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", f"{self.method} {self.path}")


@dataclass(frozen=True, slots=True)
class ServedRoute(Route):
    """One row of the route table: a route and what answers its requests."""

    handler: Handler = field(kw_only=True)


class RouteTable:
    """The routes of one file, in the order of their handlers."""

    def __init__(self) -> None:
        self._routes: list[ServedRoute] = []

    def add(self, *routes: Route) -> Callable[[Handler], Handler]:
        """Declare the routes of the function that follows."""

        def note(handler: Handler) -> Handler:
            for route in routes:
                declared = {one.name: getattr(route, one.name) for one in fields(route) if one.init}
                self._routes.append(ServedRoute(**declared, handler=handler))
            return handler

        return note

    def __iter__(self) -> Iterator[ServedRoute]:
        return iter(self._routes)


class _Node:
    """One node in the tree of paths.

    Attributes:
        literals: child by literal segment.
        argument: child for any other segment.
        arguments: positions of the arguments in the path to this node.
        routes: by method.
    """

    __slots__ = ("argument", "arguments", "literals", "routes")

    def __init__(self, arguments: tuple[int, ...] = ()) -> None:
        self.literals: dict[str, _Node] = {}
        self.argument: _Node | None = None
        self.arguments = arguments
        self.routes: dict[str, ServedRoute] = {}


_RESERVED: Final = frozenset(("*", "dashboard", "status"))


class Router:
    """Finds routes; built once from the table."""

    def __init__(self, routes: Iterable[ServedRoute]) -> None:
        self._root = _Node()
        for route in routes:
            self._add(route)

    def _add(self, route: ServedRoute) -> None:
        """Add a route to the tree."""
        node = self._root
        for position, segment in enumerate(route.path[1:].split("/")):
            if segment.startswith("{"):
                if node.argument is None:
                    node.argument = _Node((*node.arguments, position))
                node = node.argument
            else:
                node = node.literals.setdefault(segment, _Node(node.arguments))
        assert route.method not in node.routes, f"two routes {route.name}"
        node.routes[route.method] = route
        if route.method == "GET":
            node.routes.setdefault("HEAD", route)

    def resolve(self, method: str, segments: list[str]) -> tuple[ServedRoute, list[str]]:
        """Return the route of a request and the arguments in its path.

        Raises:
            NotFound: there is no such path.
            MethodNotAllowed: the path exists for other methods (`details["allow"]`).
        """
        nodes: list[_Node] = []
        _collect(self._root, segments, 0, nodes)
        for node in nodes:
            route = node.routes.get(method)
            if route is not None:
                return route, [segments[position] for position in node.arguments]
        if not nodes:
            is_name = len(segments) > 1 and segments[0][:1] == "_"
            raise NotFound(
                "there is no such page"
                + (", and no index has a name that begins with _" if is_name else ""),
                advice="GET /_docs describes those that are",
            )
        allow = sorted({name for node in nodes for name in node.routes} | {"OPTIONS"})
        raise MethodNotAllowed(
            f"method {method[:20]} is not for this page; {', '.join(allow)} are",
            details={"allow": allow},
        )


def _collect(node: _Node, segments: list[str], position: int, found: list[_Node]) -> None:
    """Append the nodes with routes that the rest of a path leads to, literal ones first."""
    if position == len(segments):
        if node.routes:
            found.append(node)
        return
    segment = segments[position]
    literal = node.literals.get(segment)
    if literal is not None:
        _collect(literal, segments, position + 1, found)
        if segment == "*":  # all indexes; never the name of one
            return
    # No system path starts with an argument: `_x` is never an index.
    if node.argument is not None and segment and (position or not _is_reserved(segment)):
        _collect(node.argument, segments, position + 1, found)


def _is_reserved(segment: str) -> bool:
    return segment[0] == "_" or segment in _RESERVED
