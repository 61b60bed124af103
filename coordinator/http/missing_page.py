"""The answer to a browser that asks for a page that does not exist: HTML, with the way back.

Programs get the error as JSON. Addresses are relative, as in all pages: a proxy may serve them
under any path.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from aiohttp import hdrs

from coordinator.http.responses import Response

if TYPE_CHECKING:
    from coordinator.http.request import Request

_HEADERS: Final = (
    b"Content-Security-Policy: default-src 'none'; style-src 'self'; img-src 'self'; "
    b"frame-ancestors 'none'\r\n"
    b"Cache-Control: no-store\r\nVary: Accept\r\n"
)
_PAGE: Final = """<!doctype html>
<html lang=en><head><meta charset=utf-8>
<meta name=viewport content="width=device-width, initial-scale=1">
<meta name=color-scheme content="light dark"><title>No such page · facetd</title>
<link rel=icon href="{root}dashboard/assets/icon.svg" type="image/svg+xml">
<link rel=stylesheet href="{root}dashboard/assets/style.css"></head><body>
<header class=top><a class=brand href="{root}dashboard">
<img class=gem src="{root}dashboard/assets/icon.svg" alt="">facetd</a></header>
<main><div class=empty><h1>There is no such page</h1>
<p>The <a href="{root}dashboard">dashboard</a> lists all indexes, and
<a href="{root}_docs">this page</a> describes the HTTP API.</p></div></main></body></html>
"""


def wants_page(request: Request) -> bool:
    """Return whether a browser asks for a page, not a program for data."""
    return request.method == "GET" and "text/html" in request.headers.get(hdrs.ACCEPT, "")


def missing_page(request: Request) -> Response:
    """Return the page that says so."""
    path = request.target.partition("?")[0]
    page = _PAGE.format(root="../" * (path.count("/") - 1))
    return Response(
        page.encode(), status=404, content_type=b"text/html; charset=utf-8", headers=_HEADERS
    )
