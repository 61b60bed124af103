"""Web pages of other origins (CORS): which may use the API, and the headers that tell browsers so.

The coordinator and, until it listens, the startup listener send them: a page could not read a
response without them, and so would not learn that the service is starting.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

PREFLIGHT: Final = (
    b"Access-Control-Allow-Methods: GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS\r\n"
    b"Access-Control-Allow-Headers: Content-Type, Authorization, X-API-Key, If-Match, "
    b"If-None-Match, X-Min-Seq, X-Max-Lag-Ms, X-Request-Id, X-Algolia-API-Key, "
    b"X-Algolia-Application-Id, X-Algolia-Agent, X-Algolia-UserToken, X-Algolia-Request-Id, "
    b"X-Algolia-Correlation-Id\r\n"
    b"Access-Control-Max-Age: 600\r\n"
)
"""Further header lines of the response to a preflight."""
_EXPOSED: Final = (
    b"Access-Control-Expose-Headers: ETag, Server-Timing, X-Request-Id, X-Seq, Retry-After\r\n"
)
_VARY: Final = b"Vary: Origin\r\n"


class AllowedOrigins:
    """The origins that may use the API.

    Args:
        origins: of the setting; `*` stands for any.
    """

    def __init__(self, origins: Iterable[str]) -> None:
        self._origins = frozenset(origin.lower() for origin in origins)
        self._any = "*" in self._origins

    def __bool__(self) -> bool:
        """Return whether there are any."""
        return bool(self._origins)

    def allow(self, origin: str | None) -> bool:
        """Return whether a request with this Origin header comes from one of them."""
        return origin is not None and (self._any or origin.lower() in self._origins)

    def header_lines(self, origin: str | None) -> bytes:
        """Return the header lines that let a page of an allowed origin read a response.

        Args:
            origin: of the page, from a header and so without line breaks; None: of no page.
        """
        if origin is None or not self.allow(origin):
            return _VARY
        name = origin.encode("latin-1", "replace")
        return b"Access-Control-Allow-Origin: %b\r\n%b%b" % (name, _VARY, _EXPOSED)
