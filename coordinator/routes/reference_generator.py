"""The API reference as a page of docs/: `python -m coordinator.routes.reference_generator`.

Generated from the route table, the parameter table, the error codes, the limits and the settings,
so that it describes what the service does; a test compares it with the page in docs/.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import Any

from common.item_ids import ID_BYTES_MAX
from common.limits import DEFAULT_LIMITS, Limits
from common.value_kinds_and_facet_keys import FACET_KEY_BYTES_MAX
from coordinator.http.api_description.error_codes import ERROR_CODES, PARAMETER_CODE
from coordinator.http.api_description.route import TAGS
from coordinator.http.api_description.route_documentation import (
    DescribedInput,
    RouteDescription,
    describe,
)
from coordinator.routes import ROUTES


def reference() -> str:
    """Return the page as Markdown."""
    parts = [
        "# Reference",
        "Made by `python -m coordinator.routes.reference_generator` from the tables that the "
        "service itself uses; a running service shows the same at `/_docs`, and as OpenAPI 3.1 at "
        "`/_openapi.json`.",
        "`GET` and `POST` of one page take the same parameters: in a query string an object or "
        "array is JSON text, in a body it is a member.",
    ]
    for tag, title in TAGS.items():
        routes = [route for route in ROUTES if route.tag == tag]
        if routes:
            parts.append(f"## {title.rstrip('.')}")
            for described in describe(routes):
                parts += _route(described)
    codes = ((one.code, one.status, one.meaning) for one in ERROR_CODES.values())
    parts += [
        "## Errors",
        '`{"error": {"code": …, "message": …, "status": …, "param": …, "request_id": …}}`. '
        "Codes are stable, messages are for people; `fault` is a message without the advice that "
        "ends it, where there is some.",
        _table(
            ("code", "status", "meaning"),
            [(PARAMETER_CODE, 400, "the value of that parameter is wrong"), *codes],
        ),
        "## Limits",
        "Each is a setting (`FACETD_LIMIT_…`, or the table `[limits]` of the settings file). Not a "
        f"setting: ids have 1 to {ID_BYTES_MAX} bytes, integers 64 bits, and a text of more than "
        f"{FACET_KEY_BYTES_MAX:,} bytes is searched, but neither counted, filtered, sorted nor "
        "grouped by.",
        _table(
            ("limit", "default", "why"),
            (
                (one.name, f"{getattr(DEFAULT_LIMITS, one.name):,} {one.unit}", one.reason)
                for one in Limits.describe()
            ),
        ),
    ]
    return "\n\n".join(parts) + "\n"


def _route(described: RouteDescription) -> Iterator[str]:
    """Yield the Markdown of a route."""
    route = described.route
    need = f" Needs a key with `{route.action.value}`, if there are keys." if route.action else ""
    yield f"### `{route.method} {route.path}`\n\n{route.summary}{need}"
    yield from _members("parameter", described.parameters)
    if described.shared_parameters:
        shared = ", ".join(f"`{name}`" for name in described.shared_parameters)
        yield f"As in [search](#get-indexsearch): {shared}."
    if described.body_of:
        yield f"The body is that of `{described.body_of}`."
    if described.body:
        yield f"Body: {described.body}"
    yield from _members("member of the body", described.body_members)
    if described.body_example:
        lines = "\n".join(f"    {line}" for line in described.body_example.splitlines())
        yield f"An example of the body:\n\n{lines}"


def _members(head: str, members: Iterable[DescribedInput]) -> Iterator[str]:
    """Yield a table of parameters or members; nothing if there are none."""
    rows = [
        (
            ", ".join(f"`{name}`" for name in one.names),
            one.value,
            one.meaning,
            f"`{one.example}`" if one.example else "",
        )
        for one in members
    ]
    if rows:
        yield _table((head, "value", "meaning", "example"), rows)


def _table(heads: Iterable[str], rows: Iterable[Iterable[Any]]) -> str:
    """Return a table; bars within cells are escaped."""
    lines = [[*heads]]
    lines.append(["---"] * len(lines[0]))
    lines += [[" ".join(str(cell).split()).replace("|", "\\|") for cell in row] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


if __name__ == "__main__":
    sys.stdout.write(reference())
