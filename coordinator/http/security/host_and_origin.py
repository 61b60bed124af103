"""The Host and Origin headers of a request: browsers send requests for the pages of others too.

1. *Host*. A web page may point a name of its own at 127.0.0.1 (DNS rebinding); its requests carry
   that name. Without a key, only addresses, `localhost` and configured names are served. `OPTIONS`
   is answered for any name: it says the methods of a path, which the documentation lists too.
2. *Origin*. Browsers send forms and plain text from any page without a preflight. A change sent by
   a page of another origin is rejected, unless that origin is configured.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING

from aiohttp import hdrs

from common.errors import Forbidden, InvalidRequest
from coordinator.http.security.cors import AllowedOrigins

if TYPE_CHECKING:
    from multidict import CIMultiDictProxy


class AllowedHosts:
    """The names under which the service is reached.

    Args:
        names: that are ours, besides addresses and `localhost`.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._names = frozenset(name.lower() for name in ("localhost", *names))
        # Cached per instance: legitimate clients name few hosts, an attacker many.
        self._is_known_host = lru_cache(maxsize=256)(self._names_us)

    def check(self, headers: CIMultiDictProxy[str], *, is_http_1_0: bool) -> None:
        """Reject requests addressed to a name that is not ours.

        Raises:
            InvalidRequest: the Host header is missing.
            Forbidden: code host_not_allowed.
        """
        host = headers.get(hdrs.HOST)
        if host is None:
            if is_http_1_0:
                return
            raise InvalidRequest("the Host header is missing", code="bad_request")
        if not self._is_known_host(host):
            raise Forbidden(
                f"requests to {(host_name(host) or host)[:100]!r} need an API key; or add this "
                "name to the setting allowed_hosts (FACETD_ALLOWED_HOSTS)",
                code="host_not_allowed",
            )

    def _names_us(self, host: str) -> bool:
        """Return whether a Host header is an address, or one of our names."""
        name = host_name(host)
        if name in self._names or name.endswith(".localhost"):
            return True
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True


def host_name(host: str) -> str:
    """Return the name or address in a Host header, without port and brackets, in lower case."""
    if host.startswith("["):
        address, bracket, _ = host[1:].partition("]")
        return address.lower() if bracket else ""
    return host.rpartition(":")[0].lower() if ":" in host else host.lower()


def check_origin(headers: CIMultiDictProxy[str], allowed: AllowedOrigins) -> None:
    """Reject a change sent by a web page of another origin.

    Raises:
        Forbidden: code origin_not_allowed.
    """
    origin = headers.get(hdrs.ORIGIN)
    if origin is None:
        site = headers.get("Sec-Fetch-Site", "none")
        if site in ("none", "same-origin"):
            return
    elif allowed.allow(origin) or is_same_origin(origin, headers.get(hdrs.HOST, "")):
        return
    raise Forbidden(
        "a web page of another origin may not change anything here; "
        "add its origin to the setting allowed_origins (FACETD_ALLOWED_ORIGINS)",
        code="origin_not_allowed",
    )


def is_same_origin(origin: str, host: str) -> bool:
    """Return whether an Origin header names the host that the request was sent to."""
    scheme, separator, name = origin.partition("://")
    return bool(separator) and scheme in ("http", "https") and name.lower() == host.lower()
