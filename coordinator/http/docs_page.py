"""`/_docs`: the API for people, as plain HTML that needs neither internet access nor scripts."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import TYPE_CHECKING, Any, Final

from common.limits import Limits
from coordinator.cluster.catalog import program_version
from coordinator.http.error_codes import ERROR_CODES, PARAMETER_CODE
from coordinator.http.route import TAGS

if TYPE_CHECKING:
    from coordinator.http.route import Route

STYLE: Final = b"""\
:root {
  color-scheme: light dark; background: Canvas; color: CanvasText;
  --line: color-mix(in srgb, currentColor 18%, transparent);
}
body {
  font: 16px/1.5 system-ui, sans-serif;
  max-width: 60rem; margin: 0 auto; padding: 1rem 1.25rem 4rem;
}
h1 { margin-bottom: 0; }
h2 { margin-top: 3rem; border-bottom: 1px solid var(--line); }
section { margin: 1.5rem 0; }
h3 { font: 600 1rem/1.4 ui-monospace, monospace; margin: 0; overflow-wrap: anywhere; }
h3 b { display: inline-block; min-width: 4.5rem; }
p { margin: .25rem 0; }
.muted { opacity: .75; font-size: .9rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .92rem; margin-top: .5rem; }
th, td {
  text-align: left; vertical-align: top;
  padding: .3rem .75rem .3rem 0; border-top: 1px solid var(--line);
}
td:first-child { font-family: ui-monospace, monospace; white-space: nowrap; }
nav { display: flex; flex-wrap: wrap; gap: 0 1rem; }
details { margin: .5rem 0; }
summary { cursor: pointer; font-size: .9rem; }
.try { margin: .5rem 0; }
.try-line { display: flex; gap: .5rem; align-items: center; }
.try input, .try textarea {
  box-sizing: border-box; width: 100%; min-width: 0; padding: .4rem .5rem;
  font: .85rem/1.4 ui-monospace, monospace;
}
.try textarea { margin-top: .5rem; }
.try button { padding: .4rem .9rem; font: inherit; cursor: pointer; }
.try pre {
  max-height: 24rem; overflow: auto; margin: 0; padding: .75rem; font-size: .8rem;
  border: 1px solid var(--line); white-space: pre-wrap; overflow-wrap: anywhere;
}
code { font-family: ui-monospace, monospace; }
@media (max-width: 40rem) {
  table, tbody, tr, td { display: block; }
  tr:first-child { display: none; }
  td { border: 0; padding: 0; overflow-wrap: anywhere; }
  td:first-child {
    border-top: 1px solid var(--line); margin-top: .4rem; padding-top: .4rem;
    font-weight: 600; white-space: normal;
  }
}
"""


def docs_page(routes: Iterable[Route], limits: Limits) -> bytes:
    """Return the page that describes the routes, errors and limits."""
    routes = tuple(routes)
    parts = [
        "<!doctype html><html lang=en><head><meta charset=utf-8>"
        '<meta name=viewport content="width=device-width, initial-scale=1">'
        "<title>facetd: the interface</title>"
        '<link rel=icon href="dashboard/assets/icon.svg" type="image/svg+xml">'
        '<link rel=stylesheet href="_docs/style.css">'
        '<script type=module src="dashboard/assets/docs.js"></script></head><body>'
        f"<main><h1>facetd</h1><p class=muted>Version {escape(program_version())}. The same as "
        '<a href="_openapi.json">OpenAPI 3.1</a>. GET and POST take the same parameters; in a '
        "query string objects are JSON. Pages that only read can be tried in place.</p>"
        "<nav aria-label=Sections>"
    ]
    parts += [f'<a href="#{tag}">{tag}</a>' for tag in TAGS]
    parts.append('<a href="#errors">errors</a><a href="#limits">limits</a></nav>')
    for tag, text in TAGS.items():
        parts.append(f'<h2 id="{tag}">{escape(text)}</h2>')
        parts += [_section(route) for route in routes if route.tag == tag]
    parts.append('<h2 id="errors">Errors: codes are stable, messages are for people.</h2>')
    parts.append(
        _table(
            ("Code", "Status", "Meaning"),
            [
                (PARAMETER_CODE, "400", "the value of that parameter is wrong"),
                *((one.code, str(one.status), one.meaning) for one in ERROR_CODES.values()),
            ],
        )
    )
    parts.append('<h2 id="limits">Limits, each a setting.</h2>')
    parts.append(
        _table(
            ("Limit", "Value", "Why"),
            (
                (one.name, f"{getattr(limits, one.name):,} {one.unit}", one.reason)
                for one in Limits.describe()
            ),
        )
    )
    parts.append("</main></body></html>")
    return "".join(parts).encode()


def _section(route: Route) -> str:
    """Return the HTML of one route."""
    need = f"Needs a key with <code>{route.action.value}</code>, if any." if route.action else ""
    html = (
        f"<section><h3><b>{route.method}</b> {escape(route.path)}</h3>"
        f"<p>{escape(route.summary)} <span class=muted>{need}</span></p>"
    )
    # GET and POST of one page share their parameters: list them once.
    if route.parameters and route.method == "GET":
        html += _table(
            ("Parameter", "Value", "Meaning"),
            (
                (", ".join((one.name, *one.aliases)), shown_type(one.schema), one.description)
                for one in route.parameters
            ),
        )
    return html + "</section>"


def _table(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a table; cells are plain text."""
    head = "".join(f"<th>{escape(cell)}</th>" for cell in heads)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    return f"<div class=scroll tabindex=0><table><tr>{head}</tr>{body}</table></div>"


def shown_type(schema: dict[str, Any]) -> str:
    """Return a schema in a few words."""
    if "enum" in schema:
        return " | ".join(str(one) for one in schema["enum"])
    if "anyOf" in schema:
        return " | ".join(dict.fromkeys(shown_type(one) for one in schema["anyOf"]))
    kind = schema.get("type", "any")
    if "minimum" in schema and isinstance(kind, list):
        kind = kind[0]  # digits in a text are the same number
    text = " | ".join(kind) if isinstance(kind, list) else str(kind)
    if "minimum" in schema and "maximum" in schema:
        text += f" {schema['minimum']:,}\u2013{schema['maximum']:,}"
    elif "minimum" in schema:
        text += f" \u2265 {schema['minimum']}"
    return text if "default" not in schema else f"{text}, default {schema['default']}"
