"""Rate limit: how many requests a second a client may send; off unless configured.

A token bucket per client holds up to `burst` tokens and regains `rate` of them a second; a request
takes one. A client is the address that a request comes from (`client_address`) together with its
API key, if it has one: all visitors of a web page send the same key, and none of them may use up
what the others have.

    client             tokens  as of    now 12.0, rate 5, burst 10
    10.0.0.7 3f9a1c20  0.5     11.9     0.5 + 0.1 × 5 = 1.0: taken, 0.0 are left
    10.0.0.7           0.2     12.0     rejected; the next token is due in 0.16 s: Retry-After 1

A full bucket means the same as no bucket, so only the clients of the last `burst / rate` seconds
matter; past `CLIENTS_MAX`, the client unseen the longest is dropped.
"""

from __future__ import annotations

import fcntl
import math
import time
from collections import OrderedDict
from typing import TYPE_CHECKING, Final

import xxhash

from common.errors import TooManyRequests

if TYPE_CHECKING:
    from coordinator.cluster.shared_memory import SharedState

CLIENTS_MAX: Final = 10_000
_WAYS: Final = 4
_BUCKET_WORDS: Final = 3


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
