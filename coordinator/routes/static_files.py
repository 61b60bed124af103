"""Pages: the dashboard's and clients' files, served from a dict in memory, never from disk."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final

from common.errors import NotFound
from coordinator.dashboard import ASSETS, HOME_PAGE, PAGE, VERSION
from coordinator.http.api_description.route import Route
from coordinator.http.responses import Response, header
from coordinator.http.routing import RouteTable
from coordinator.instantsearch import INSTANTSEARCH

if TYPE_CHECKING:
    from coordinator.http.request import Request
    from coordinator.http.services import Services

_POLICY: Final = (
    b"Content-Security-Policy: default-src 'self'; img-src 'self' data: https: http:; "
    b"object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'\r\n"
    b"Referrer-Policy: same-origin\r\nX-Frame-Options: DENY\r\n"
)
"""Only our own files run, and other pages may not frame ours.

Images may come from elsewhere: the dashboard shows those that items link to (`display.image`).
"""
PAGE_HEADERS: Final = _POLICY + b"Cache-Control: no-cache\r\n"
"""Of what may change under its address: `no-cache` means revalidate by ETag."""
_KEPT_HEADERS: Final = _POLICY + b"Cache-Control: max-age=31536000, immutable\r\n"
"""Of what never does, for its address names the version."""

ROUTES: Final = RouteTable()


def _page(path: str, summary: str) -> Route:
    """Return the route of a page of the dashboard."""
    return Route(
        "GET", path, summary, None, is_admitted=False, tag="pages", document={"answer": "Page"}
    )


def _tag(content: bytes) -> str:
    return f'"{hashlib.blake2b(content, digest_size=8).hexdigest()}"'


_TAGS: Final = {name: _tag(content) for name, (_, content) in ASSETS.items()}
_ICON: Final = "icon.svg"
_INSTANTSEARCH_TAG: Final = _tag(INSTANTSEARCH)


@ROUTES.add(
    _page("/", "Redirects to the dashboard."),
)
async def root(services: Services, request: Request) -> Response:
    """Answer `GET /`: people who type the address want the dashboard."""
    return Response(b"", status=302, headers=b"Location: dashboard\r\n")


@ROUTES.add(
    _page("/dashboard", "The dashboard."),
)
async def dashboard(services: Services, request: Request) -> Response:
    """Answer `GET /dashboard`: all indexes."""
    return without_slash(request) or _html(HOME_PAGE)


@ROUTES.add(
    _page("/dashboard/{page}", "The dashboard's page of one index."),
)
async def dashboard_of_index(services: Services, request: Request) -> Response:
    """Answer `GET /dashboard/{index}`: the page finds its index itself."""
    return without_slash(request) or _html(PAGE)


def _html(page: bytes) -> Response:
    return Response(page, content_type=b"text/html; charset=utf-8", headers=PAGE_HEADERS)


def without_slash(request: Request) -> Response | None:
    """Return a redirection from an address that ends with a slash; None if it does not.

    The addresses in our pages are relative: below such an address they would lead nowhere.
    """
    path, mark, query = request.target.partition("?")
    if not path.endswith("/"):
        return None
    name = path[:-1].rpartition("/")[2]
    return Response(b"", status=302, headers=header("Location", f"../{name}{mark}{query}"))


@ROUTES.add(
    _page("/favicon.ico", "The icon of pages that name none, such as responses in JSON."),
)
async def icon(services: Services, request: Request) -> Response:
    """Answer `GET /favicon.ico`: browsers ask for it beside every page."""
    content_type, content = ASSETS[_ICON]
    return _file(request, content, content_type.encode(), _TAGS[_ICON])


@ROUTES.add(
    _page("/dashboard/assets/{file}", "A file of the dashboard."),
    _page("/dashboard/assets/{folder}/{file}", "A file of the dashboard."),
    _page("/dashboard/assets/{version}/{folder}/{file}", "A file of the dashboard."),
)
async def asset(services: Services, request: Request) -> Response:
    """Answer `GET /dashboard/assets/<name>`, where a version may stand before the name.

    Under the name of another version, which a page of another host or of the program before has
    given, is what there is now.
    """
    name = "/".join(request.arguments)
    headers = PAGE_HEADERS
    if name not in ASSETS:
        version, _, name = name.partition("/")
        headers = _KEPT_HEADERS if version == VERSION else PAGE_HEADERS
    found = ASSETS.get(name)
    if found is None:
        raise NotFound(f"there is no file {'/'.join(request.arguments)[:100]!r}")
    content_type, content = found
    return _file(request, content, content_type.encode(), _TAGS[name], headers)


def _file(
    request: Request, content: bytes, content_type: bytes, tag: str, headers: bytes = PAGE_HEADERS
) -> Response:
    """Return a file, or 304 if the client has it already."""
    headers += f"ETag: {tag}\r\n".encode()
    if tag in request.headers.get("If-None-Match", ""):
        return Response(b"", status=304, headers=headers)
    return Response(content, content_type=content_type, headers=headers)


@ROUTES.add(
    Route(
        "GET",
        "/_instantsearch.js",
        "A search client for InstantSearch: an ES module that exports createSearchClient.",
        None,
        is_admitted=False,
        tag="search",
        document={"answer": "Script"},
    ),
)
async def instantsearch(services: Services, request: Request) -> Response:
    """Answer `GET /_instantsearch.js`: a search client for InstantSearch, an ES module."""
    return _file(request, INSTANTSEARCH, b"text/javascript; charset=utf-8", _INSTANTSEARCH_TAG)
