"""`/_docs`: the API for people, as plain HTML that needs neither internet access nor scripts."""

from __future__ import annotations

import re
from collections.abc import Iterable
from html import escape
from typing import TYPE_CHECKING, Final

from common.limits import Limits
from coordinator.catalog.catalog import program_version
from coordinator.dashboard import ASSETS_PATH
from coordinator.http.api_description.error_codes import ERROR_CODES, PARAMETER_CODE
from coordinator.http.api_description.route import TAGS
from coordinator.http.api_description.route_documentation import (
    DescribedInput,
    RouteDescription,
    describe,
)

if TYPE_CHECKING:
    from coordinator.http.api_description.route import Route

_LISTS: Final = {"errors": "Errors", "limits": "Limits"}
"""Sections that are not routes, and their names in the contents."""
_TABLE: Final = "<div class=scroll tabindex=0><table>"


def docs_page(routes: Iterable[Route], limits: Limits) -> bytes:
    """Return the page that describes the routes, errors and limits."""
    routes = tuple(routes)
    parts = [
        "<!doctype html><html lang=en><head><meta charset=utf-8>"
        '<meta name=viewport content="width=device-width, initial-scale=1">'
        "<title>facetd: HTTP API</title>"
        f'<link rel=icon href="{ASSETS_PATH}/icon.svg" type="image/svg+xml">'
        f'<link rel=stylesheet href="{ASSETS_PATH}/style.css">'
        f'<link rel=stylesheet href="{ASSETS_PATH}/docs.css">'
        f'<script type=module src="{ASSETS_PATH}/docs.js"></script></head><body>'
        "<header class=top><a class=brand href=dashboard>"
        f'<img class=gem src="{ASSETS_PATH}/icon.svg" alt="">facetd</a>'
        "<nav aria-label=Pages><a href=dashboard>Dashboard</a>"
        "<a href=_openapi.json>OpenAPI 3.1</a></nav></header>"
        f"<div class=docs>{_contents(routes)}"
        f"<main><h1>HTTP API</h1><p class=muted>Version {escape(program_version())}. GET and POST "
        "take the same parameters; in a query string objects are JSON. Pages that only read can "
        "be tried in place.</p>"
    ]
    for tag, text in TAGS.items():
        parts.append(f'<h2 id="{tag}">{escape(text)}</h2>')
        parts += map(_section, describe(route for route in routes if route.tag == tag))
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
    parts.append("</main></div></body></html>")
    return "".join(parts).encode()


def _contents(routes: Iterable[Route]) -> str:
    """Return the list of all sections and routes."""
    items = []
    for tag, text in TAGS.items():
        listed = "".join(
            f'<li><a href="#{_anchor(route)}">{_method(route)}{escape(route.path)}</a></li>'
            for route in routes
            if route.tag == tag
        )
        title = text.partition(":")[0].rstrip(".")
        items.append(f'<li><a href="#{tag}">{escape(title)}</a><ul>{listed}</ul></li>')
    items += [f'<li><a href="#{name}">{title}</a></li>' for name, title in _LISTS.items()]
    return f"<nav class=contents aria-label=Contents><ul>{''.join(items)}</ul></nav>"


def _anchor(route: Route) -> str:
    """Return the id of a route's section: its method and path, without slashes and braces."""
    return re.sub(r"[^A-Za-z0-9*_]+", "-", f"{route.method}{route.path}").strip("-").lower()


def _method(route: Route) -> str:
    return f"<b class={route.method.lower()}>{route.method}</b> "


def _section(described: RouteDescription) -> str:
    """Return the HTML of one route."""
    route = described.route
    need = (
        f"Needs a key with <code>{route.action.value}</code>, if there are keys."
        if route.action
        else ""
    )
    html = (
        f'<section id="{_anchor(route)}"><h3>{_method(route)}'
        f'<a href="#{_anchor(route)}">{escape(route.path)}</a></h3>'
        f"<p>{_text(route.summary)} <span class=muted>{need}</span></p>"
    )
    html += _members("Parameter", described.parameters)
    if described.shared_parameters:
        shared = ", ".join(f"<code>{name}</code>" for name in described.shared_parameters)
        html += f'<p>As in <a href="#get-index-search">search</a>: {shared}.</p>'
    if described.body_of:
        html += f"<p>The body is that of <code>{described.body_of}</code>.</p>"
    if described.body:
        html += f"<p>Body: {_text(described.body)}</p>"
    html += _members("Member of the body", described.body_members)
    if example := described.body_example:
        html += f"<p>An example of the body:</p><pre tabindex=0>{escape(example)}</pre>"
    return html + "</section>"


def _members(head: str, members: Iterable[DescribedInput]) -> str:
    """Return a table of parameters or members; nothing if there are none."""
    rows = "".join(
        f"<tr><td>{escape(', '.join(one.names))}<small>{escape(one.value)}</small></td>"
        f"<td>{_text(one.meaning)}{_example(one)}</td></tr>"
        for one in members
    )
    return f"{_TABLE}<tr><th>{head}</th><th>Meaning</th></tr>{rows}</table></div>" if rows else ""


def _example(described: DescribedInput) -> str:
    if not described.example:
        return ""
    return f"<small>Example: <code>{escape(described.example)}</code></small>"


def _table(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a table; cells are text."""
    head = "".join(f"<th>{escape(cell)}</th>" for cell in heads)
    body = "".join(
        "<tr>" + "".join(f"<td>{_text(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    return f"{_TABLE}<tr>{head}</tr>{body}</table></div>"


def _text(text: str) -> str:
    """Return a text as HTML; what stands in backticks is code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))
