"""Fetches a URL: with the login that it names, errors for people, and to its end or not at all.

A response that breaks off is shorter than it says; read as it comes, its items would be taken for
all of them.
"""

from __future__ import annotations

import base64
import http.client
import io
import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any, BinaryIO, Final, cast
from urllib.parse import SplitResult, quote, unquote, urlsplit, urlunsplit

from coordinator.cli.sources.source import SourceError, shown
from coordinator.command_line_client import connection_fault, reason_of

URL_SECONDS: Final = 120.0
"""Without receiving a byte, after which a request fails."""
_BODY_BYTES_SHOWN: Final = 300
_UNESCAPED: Final = "/?:@!$&'()*+,;=%"
"""Characters of a path and a query that stay as they are; % begins what is escaped already."""


def is_url(name: str) -> bool:
    """Return whether a name is a URL to fetch."""
    return name.startswith(("http://", "https://"))


def split_url(url: str) -> SplitResult:
    """Return the parts of a URL.

    Raises:
        SourceError: it is malformed.
    """
    try:
        return urlsplit(url)
    except ValueError as error:
        raise SourceError(f"{url} is not an address: {error}") from error


def open_url(
    url: str, headers: Mapping[str, str] | None = None, body: Any = None, method: str | None = None
) -> BinaryIO:
    """Send a request; return the body of its response.

    Args:
        url: may name a login: `http://user:password@host/…`.
        headers: to send, and not to another host that the response redirects to.
        body: sent as JSON; None: none.
        method: if it is neither GET nor, with a body, POST.

    Raises:
        SourceError: it cannot be reached, or refuses. Reading raises it if the body breaks off.
    """
    address, login = without_login(url)
    data = None if body is None else json.dumps(body).encode()
    try:
        request = urllib.request.Request(
            _escaped(address), data, {"User-Agent": "facetd"}, method=method
        )
        own = {} if login is None else basic_authorization(login)
        sent = {"Content-Type": "application/json"} if data is not None else {}
        for name, value in {**sent, **own, **(headers or {})}.items():
            request.add_unredirected_header(name, value)
        response = urllib.request.urlopen(request, timeout=URL_SECONDS)
    except urllib.error.HTTPError as error:
        said = shown(error.read(_BODY_BYTES_SHOWN).decode("utf-8", "replace"), _BODY_BYTES_SHOWN)
        is_page = error.headers.get_content_type() == "text/html"
        explained = f": {said}" if said and not is_page else ""
        raise SourceError(f"{address} answers {error.code} {error.reason}{explained}") from error
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise SourceError(f"cannot fetch {address}: {_fault(error)}") from error
    return io.BufferedReader(cast(io.RawIOBase, _WholeBody(response, address)))


def _fault(error: Exception) -> str:
    """Say why a request failed, and what helps."""
    reason = getattr(error, "reason", None) or error
    if isinstance(reason, Exception) and (fault := connection_fault(reason)):
        return fault
    return reason_of(reason)


class _WholeBody(io.RawIOBase):
    """The body of a response, which must be as long as it says."""

    def __init__(self, response: http.client.HTTPResponse, url: str) -> None:
        self._response = response
        self._url = url

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            number = self._response.readinto(buffer)
        except (OSError, http.client.HTTPException) as error:
            raise SourceError(f"{self._url} broke off: {_fault(error)}") from error
        if not number and self._response.length:
            raise SourceError(
                f"{self._url} broke off {self._response.length:,} bytes before its end"
            )
        return number

    def close(self) -> None:
        self._response.close()
        super().close()


def _escaped(url: str) -> str:
    """Return a URL as it is sent, of one as people write it: with spaces, and any letters.

    Raises:
        ValueError: its host is none.
    """
    parts = split_url(url)
    host = parts.netloc if parts.netloc.isascii() else parts.netloc.encode("idna").decode()
    path, query = (quote(part, safe=_UNESCAPED) for part in (parts.path, parts.query))
    return urlunsplit(parts._replace(netloc=host, path=path, query=query))


def without_login(url: str) -> tuple[str, str | None]:
    """Split a URL into what to request and its `user:password`, if it has one."""
    parts = split_url(url)
    login, at, host = parts.netloc.rpartition("@")
    return urlunsplit(parts._replace(netloc=host)), unquote(login) if at else None


def basic_authorization(login: str) -> dict[str, str]:
    """Return the header for `user:password`."""
    return {"Authorization": f"Basic {base64.b64encode(login.encode()).decode()}"}
