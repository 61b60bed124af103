"""What the two documentation pages, `/_docs` and docs/reference.md, say of a route's input."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from coordinator.http.api_description.schemas.body_examples import (
    BODY_EXAMPLES,
    LINES_EXAMPLE,
    LOAD,
)
from coordinator.http.api_description.schemas.components import SCHEMAS
from coordinator.parameters.parameter_table import SEARCH_PARAMETERS

if TYPE_CHECKING:
    from coordinator.http.api_description.route import Route
    from coordinator.parameters.parameter_row import Parameter

EXAMPLE_LINE_CHARS: Final = 100
"""Longer bodies are shown indented."""
SEARCH_PATH: Final = "/{index}/search"
"""The page whose parameters others share; they are described there only."""


class DescribedInput(NamedTuple):
    """A parameter, or a member of a body, in words."""

    names: tuple[str, ...]
    """Its name, and then its aliases."""
    value: str
    """Type, bounds and default."""
    meaning: str
    example: str
    """A value as JSON, or nothing."""


class RouteDescription(NamedTuple):
    """What a client can send to a route."""

    route: Route
    parameters: tuple[DescribedInput, ...]
    """Parameters that a search lacks, or means otherwise; for a search, all. Empty if an earlier
    route of this path has them."""
    shared_parameters: tuple[str, ...]
    """Names of the parameters that mean the same as in a search."""
    body_of: str
    """Name of the earlier route that has the same body; or nothing."""
    body: str
    """What is said of the body as a whole; nothing if its members are described."""
    body_members: tuple[DescribedInput, ...]
    body_example: str
    """A body as JSON, or as lines of JSON; or nothing."""


def describe(routes: Iterable[Route]) -> Iterator[RouteDescription]:
    """Yield the description of each route; what routes have in common stands with the first."""
    paths: set[str] = set()
    bodies: dict[str, str] = {}
    for route in routes:
        is_listed = route.path in paths and bool(route.parameters)
        if route.parameters:
            paths.add(route.path)
        schema = route.document.get("body", "")
        body_of = bodies.get(schema, "")
        if schema:
            bodies.setdefault(schema, route.name)
        yield RouteDescription(
            route,
            () if is_listed else tuple(_own_parameters(route)),
            () if is_listed else _shared_parameters(route),
            body_of,
            "" if body_of else _whole_body(route),
            () if body_of else tuple(_body_members(route)),
            _body_example(route),
        )


def _own_parameters(route: Route) -> Iterator[DescribedInput]:
    """Yield the parameters that a search lacks, or means otherwise; for a search, all."""
    for parameter in route.parameters:
        if route.path == SEARCH_PATH or parameter not in SEARCH_PARAMETERS:
            yield _parameter(parameter)
    for name, schema in route.document.get("query", {}).items():
        yield _member(name, schema)


def _shared_parameters(route: Route) -> tuple[str, ...]:
    """Return the names of the parameters that mean the same as in a search."""
    if route.path == SEARCH_PATH:
        return ()
    return tuple(one.name for one in route.parameters if one in SEARCH_PARAMETERS)


def _body_members(route: Route) -> Iterator[DescribedInput]:
    """Yield the members of the body, if it is one object whose members are known."""
    schema = _body(route)
    if "description" in schema:
        return
    required = schema.get("required", ())
    for name, described in schema.get("properties", {}).items():
        member = _member(name, described)
        yield member._replace(value=f"{member.value}, required") if name in required else member


def _whole_body(route: Route) -> str:
    """Return what is said of the body as a whole; nothing if its members are described."""
    return str(_body(route).get("description", ""))


def _body_example(route: Route) -> str:
    """Return a body as JSON, or as lines of JSON; nothing for a route without one."""
    if route.name == LOAD:
        return LINES_EXAMPLE.rstrip()
    example = BODY_EXAMPLES.get(route.name)
    if example is None:
        return ""
    line = _json(example)
    return line if len(line) <= EXAMPLE_LINE_CHARS else _json(example, indent=2)


def _body(route: Route) -> dict[str, Any]:
    body: dict[str, Any] = SCHEMAS.get(route.document.get("body", ""), {})
    return body


def _parameter(parameter: Parameter) -> DescribedInput:
    value = shown_type(parameter.schema)
    return DescribedInput(
        (parameter.name, *parameter.aliases),
        f"{value}, required" if parameter.is_required else value,
        parameter.description,
        _json(parameter.example),
    )


def _member(name: str, schema: dict[str, Any]) -> DescribedInput:
    examples = schema.get("examples", ())
    return DescribedInput(
        (name,),
        shown_type(schema),
        schema.get("description", ""),
        _json(examples[0]) if examples else "",
    )


def _json(value: Any, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent)


def shown_type(schema: dict[str, Any]) -> str:
    """Return a JSON Schema in a few words.

    A number or a boolean may also be sent as text, and an option as null: that is not repeated
    with each.
    """
    if "$ref" in schema:
        return shown_type(SCHEMAS[schema["$ref"].rpartition("/")[2]])
    if "enum" in schema:
        return _one_of(one if isinstance(one, str) else _json(one) for one in schema["enum"])
    for several in ("anyOf", "oneOf"):
        if several in schema:
            return _one_of(
                shown_type(one)
                for one in schema[several]
                if one.get("type") != "null" and one.get("maxItems") != 0
            )
    kind = schema.get("type", "any")
    if "minimum" in schema and isinstance(kind, list):
        kind = kind[0]  # digits in a text are the same number
    text = _one_of(kind) if isinstance(kind, list) else str(kind)
    if "minimum" in schema and "maximum" in schema:
        text += f" {_number(schema['minimum'])}\u2013{_number(schema['maximum'])}"
    elif "minimum" in schema:
        text += f" \u2265 {_number(schema['minimum'])}"
    return text if "default" not in schema else f"{text}, default {schema['default']}"


def _one_of(choices: Any) -> str:
    return " | ".join(dict.fromkeys(choices))


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:,.10g}"
