"""Rate limit: how many requests a second a client may send; off unless configured.

A token bucket per client holds up to `burst` tokens and regains `rate` of them a second; a request
takes one. A client is the address that a request comes from (for IPv6 the /64 of a subscriber)
together with its API key, if it has one: all visitors of a web page send the same key, and none of
them may use up what the others have. Behind a proxy all sockets are the proxy's; where the setting
`trusted_proxies` names it, the address is the last one in X-Forwarded-For that is not a trusted
proxy's. What stands before that is the client's own claim.

    client             tokens  as of    now 12.0, rate 5, burst 10
    10.0.0.7 3f9a1c20  0.5     11.9     0.5 + 0.1 × 5 = 1.0: taken, 0.0 are left
    10.0.0.7           0.2     12.0     rejected; the next token is due in 0.16 s: Retry-After 1

A full bucket means the same as no bucket, so only the clients of the last `burst / rate` seconds
matter; past `CLIENTS_MAX`, the client unseen the longest is dropped.
"""

from __future__ import annotations

import fcntl
import ipaddress
import math
import time
from collections import OrderedDict
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

import xxhash

from common.errors import TooManyRequests

if TYPE_CHECKING:
    from coordinator.cluster.shared_memory import SharedState

CLIENTS_MAX: Final = 10_000
_WAYS: Final = 4
_BUCKET_WORDS: Final = 3
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
        self._buckets[client] = (tokens - 1.0 if tokens >= 1.0 else tokens, now)
        if len(self._buckets) > CLIENTS_MAX:
            self._buckets.popitem(last=False)
        self._check(tokens)

    def _check(self, tokens: float) -> None:
        """Reject a request for which there is no token."""
        if tokens < 1.0:
            raise TooManyRequests(
                f"a client may send {self._rate:g} requests a second, {self._burst} at once "
                "(settings client_requests_per_second, client_burst); send this one later",
                code="too_many_requests",
                details={"retry_after": math.ceil((1.0 - tokens) / self._rate)},
            )


class SharedRateLimit(RateLimit):
    """The buckets of all clients of several coordinators, in the memory that they share.

    A client has one of four places, which its hash selects; where all are taken, it gets that of
    the client unseen the longest. A lock on these places lasts for a microsecond, and ends with the
    process that holds it.

    Args:
        rate: requests a second.
        burst: requests at once.
        shared: the memory.
    """

    def __init__(self, rate: float, burst: int, shared: SharedState) -> None:
        super().__init__(rate, burst)
        self._file = shared.descriptor
        self._hashes = shared.rates
        self._numbers = shared.rates.cast("B").cast("d")
        self._num_sets = len(shared.rates) // (_WAYS * _BUCKET_WORDS)

    def take(self, client: str) -> None:
        """Count a request of a client; see `RateLimit.take`."""
        key = xxhash.xxh3_64_intdigest(client.encode("utf-8", "replace")) or 1
        at = key % self._num_sets
        first = at * _WAYS * _BUCKET_WORDS
        places = range(first, first + _WAYS * _BUCKET_WORDS, _BUCKET_WORDS)
        hashes, numbers = self._hashes, self._numbers
        fcntl.lockf(self._file, fcntl.LOCK_EX, 1, at)
        try:
            now = time.monotonic()
            place = next((one for one in places if hashes[one] == key), None)
            tokens = float(self._burst)
            if place is None:
                place = min(places, key=lambda one: numbers[one + 2])
                hashes[place] = key
            else:
                gained = (now - numbers[place + 2]) * self._rate
                tokens = min(tokens, numbers[place + 1] + gained)
            numbers[place + 1] = tokens - 1.0 if tokens >= 1.0 else tokens
            numbers[place + 2] = now
        finally:
            fcntl.lockf(self._file, fcntl.LOCK_UN, 1, at)
        self._check(tokens)


def rate_limit(rate: float, burst: int, shared: SharedState | None) -> RateLimit:
    """Return the limit of one coordinator, or of several that share memory."""
    return RateLimit(rate, burst) if shared is None else SharedRateLimit(rate, burst, shared)


class TrustedProxies:
    """Finds the address that a request comes from.

    Args:
        networks: addresses or networks (`10.0.0.0/8`) of proxies.

    Raises:
        ValueError: one of them is neither.
    """

    def __init__(self, networks: Iterable[str]) -> None:
        self._networks = [ipaddress.ip_network(one, strict=False) for one in networks]

    def address(self, peer: str, forwarded: Iterable[str]) -> str:
        """Return the address of a request's client.

        Args:
            peer: address of its socket.
            forwarded: its X-Forwarded-For headers.
        """
        if not self._networks or not self._has(peer):
            return peer
        address = peer
        for one in reversed(",".join(forwarded).split(",")):
            named = _without_port(one.strip())
            if named is None:
                return address
            address = named
            if not self._has(address):
                return address
        return address

    def _has(self, address: str) -> bool:
        try:
            parsed = ipaddress.ip_address(address.partition("%")[0])
        except ValueError:
            return False
        if isinstance(parsed, ipaddress.IPv6Address) and parsed.ipv4_mapped is not None:
            parsed = parsed.ipv4_mapped
        return any(parsed in network for network in self._networks)


def _without_port(text: str) -> str | None:
    """Return the address in `10.0.0.1`, `10.0.0.1:80`, `[::1]:80` or `::1`; None if invalid."""
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        return None


def client_of(address: str) -> str:
    """Return the address that stands for a client: that of its subscriber.

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
