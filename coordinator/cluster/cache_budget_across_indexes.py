"""What the coordinator caches between searches, of all indexes, shares one budget of bytes.

Statistics of words and scored queries (`text`), first pages of facets (`facets`) and lists of
suggestions (`suggest`) are kept by index. They can all be fetched or built again, so when the
budget is used up, the index that has gone longest without learning anything drops what it has.
"""

from __future__ import annotations

from collections import OrderedDict
from threading import RLock
from typing import Final, Protocol

CACHE_BYTES_MAX: Final = 32 << 20
"""Estimated bytes of all caches together."""


class Evictable(Protocol):
    """A cache whose content can be recomputed."""

    def forget(self) -> None:
        """Drop everything, and release its bytes."""


class CacheBudget:
    """Bounds the memory of all caches together; safe to use from several threads.

    Attributes:
        num_bytes: estimated bytes of all caches.
    """

    def __init__(self, bytes_max: int = CACHE_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._sizes: OrderedDict[Evictable, int] = OrderedDict()
        self.num_bytes = 0
        self._lock = RLock()

    def take(self, cache: Evictable, num_bytes: int) -> None:
        """Charge a cache for something new; make room if needed."""
        with self._lock:
            self._sizes[cache] = self._sizes.pop(cache, 0) + num_bytes
            self.num_bytes += num_bytes
            while self.num_bytes > self._bytes_max:
                oldest, size = self._sizes.popitem(last=False)
                self.num_bytes -= size
                oldest.forget()

    def drop(self, cache: Evictable) -> None:
        """Release everything charged to a cache."""
        with self._lock:
            self.num_bytes -= self._sizes.pop(cache, 0)
