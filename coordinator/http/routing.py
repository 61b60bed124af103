"""Routing: finds the function that answers a request, by the segments of its path (pure).

    @ROUTES.add(Route("GET", "/{index}/items/{id}", "One item, as it was stored.", …))
    async def get_item(services: Services, request: Request) -> Response: …

    root ─ "_health"            literal children first: no index can have such a name
         ├ "dashboard" ─ {}
         └ {index} ─ "search"
                   └ "items" ─ "delete"      POST only, so an item may still have the id "delete"
                             └ {id} ─ "update"

A request walks two to four dicts, unless its path is among the latest. aiohttp's own resolver
matches regular expressions, builds a match object and calls one middleware after another: 10 µs
more.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from functools import lru_cache
from typing import TYPE_CHECKING, Final, TypeAlias

from common.errors import MethodNotAllowed, NotFound
from common.nearest_name import nearest_name
from coordinator.catalog.index_names import ALL_INDEXES, is_reserved
from coordinator.http.api_description.route import Route
from coordinator.http.endpoints_of_other_engines import page_instead

if TYPE_CHECKING:
    from coordinator.http.request import Request
    from coordinator.http.responses import Response
    from coordinator.http.services import Services

    Handler: TypeAlias = Callable[[Services, Request], Awaitable[Response]]


PATHS_REMEMBERED_MAX: Final = 256
"""Most requests are for the same few pages of the same few indexes."""


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


class Router:
    """Finds routes; built once from the table."""

    def __init__(self, routes: Iterable[ServedRoute]) -> None:
        self._root = _Node()
        for route in routes:
            self._add(route)
        self._remembered = lru_cache(maxsize=PATHS_REMEMBERED_MAX)(self._find)

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

    def resolve(self, method: str, segments: Sequence[str]) -> tuple[ServedRoute, tuple[str, ...]]:
        """Return the route of a request and the arguments in its path.

        Raises:
            NotFound: there is no such path.
            MethodNotAllowed: the path exists for other methods (`details["allow"]`).
        """
        return self._remembered(method, *segments)

    def _find(self, method: str, *segments: str) -> tuple[ServedRoute, tuple[str, ...]]:
        """Find what `resolve` returns, by a walk through the tree."""
        nodes: list[_Node] = []
        _collect(self._root, segments, 0, nodes)
        for node in nodes:
            route = node.routes.get(method)
            if route is not None:
                return route, tuple([segments[position] for position in node.arguments])
        instead = page_instead(method, segments)
        if not nodes:
            is_name = len(segments) > 1 and segments[0][:1] == "_" and instead is None
            raise NotFound(
                "there is no such page"
                + (", and no index has a name that begins with _" if is_name else ""),
                advice=instead or self._near(segments) or "GET /_docs describes all pages",
            )
        allow = sorted({name for node in nodes for name in node.routes} | {"OPTIONS"})
        raise MethodNotAllowed(
            f"method {method[:20]} is not for this page; {', '.join(allow)} are",
            advice=instead,
            details={"allow": allow},
        )

    def _near(self, segments: Sequence[str]) -> str | None:
        """Return a hint at the page whose last segment is most like a path's; None: none is.

        An address that ends with a slash, and a path after it, make two slashes.
        """
        nodes: list[_Node] = []
        filled = [segment for segment in segments if segment]
        if len(filled) < len(segments):
            _collect(self._root, filled, 0, nodes)
            return f"did you mean /{'/'.join(filled)[:200]}?" if nodes else None
        *parents, last = segments
        _collect(self._root, parents, 0, nodes, needs_routes=False)
        known = [name for node in nodes for name in node.literals]
        near = nearest_name(last[:100], known)
        return None if near is None else f"did you mean /{'/'.join([*parents, near])[:200]}?"


def _collect(
    node: _Node,
    segments: Sequence[str],
    position: int,
    found: list[_Node],
    *,
    needs_routes: bool = True,
) -> None:
    """Append the nodes (with routes) that the rest of a path leads to, literal ones first."""
    if position == len(segments):
        if node.routes or not needs_routes:
            found.append(node)
        return
    segment = segments[position]
    literal = node.literals.get(segment)
    if literal is not None:
        _collect(literal, segments, position + 1, found, needs_routes=needs_routes)
        if segment == ALL_INDEXES:
            return
    # No system path starts with an argument: `_x` is never an index.
    if node.argument is not None and segment and (position or not is_reserved(segment)):
        _collect(node.argument, segments, position + 1, found, needs_routes=needs_routes)
