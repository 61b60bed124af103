"""Rate limit: how many requests a second a client may send; off unless configured.

A token bucket per client holds up to `burst` tokens and regains `rate` of them a second; a request
takes one. A client is an API key or, without one, the address it comes from (for IPv6 the /64 of a
subscriber). Behind a proxy all addresses are the proxy's: give each client a key, or limit them in
the proxy.

    client    tokens  as of        now 12.0, rate 5, burst 10
    3f9a1c20  0.5     11.9         0.5 + 0.1 × 5 = 1.0: taken, 0.0 are left
    10.0.0.7  0.2     12.0         rejected; the next token is due in 0.16 s: Retry-After 1

A full bucket means the same as no bucket, so only the clients of the last `burst / rate` seconds
matter; past `CLIENTS_MAX`, the client unseen the longest is dropped.
"""

from __future__ import annotations

import ipaddress
import math
import time
from collections import OrderedDict
from typing import Final

from common.errors import TooManyRequests

CLIENTS_MAX: Final = 10_000
_SUBSCRIBER_BITS: Final = 64


class RateLimit:
    """The buckets of all clients.

    Args:
        rate: requests a second.
        burst: requests at once.
    """

    def __init__(self, rate: float, burst: int) -> None:
        self._rate = rate
        self._burst = burst
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._buckets)

    def take(self, client: str) -> None:
        """Count a request of a client.

        Raises:
            TooManyRequests: it has to wait; `details["retry_after"]` says how many seconds.
        """
        now = time.monotonic()
        tokens, when = self._buckets.pop(client, (float(self._burst), now))
        tokens = min(self._burst, tokens + (now - when) * self._rate)
        is_allowed = tokens >= 1.0
        self._buckets[client] = (tokens - 1.0 if is_allowed else tokens, now)
        if len(self._buckets) > CLIENTS_MAX:
            self._buckets.popitem(last=False)
        if not is_allowed:
            raise TooManyRequests(
                f"a client may send {self._rate:g} requests a second, {self._burst} at once "
                "(settings client_requests_per_second, client_burst); send this one later",
                code="too_many_requests",
                details={"retry_after": math.ceil((1.0 - tokens) / self._rate)},
            )


def client_of(address: str) -> str:
    """Return what identifies a client without a key.

    Args:
        address: of its socket.
    """
    if ":" not in address:
        return address
    packed = ipaddress.IPv6Address(address.partition("%")[0])
    mapped = packed.ipv4_mapped
    if mapped is not None:
        return str(mapped)
    network = ipaddress.IPv6Network((packed, _SUBSCRIBER_BITS), strict=False)
    return str(network)
