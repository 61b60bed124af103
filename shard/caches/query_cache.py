"""Per-segment caches of query results, such as the terms that match a word, under one budget.

Each segment has dicts of its own, because every word of every query looks there: a lookup takes no
lock. All of them share one budget of bytes, whatever the number of indexes and segments. When it is
used up, the dict to which nothing was added for longest is emptied.
"""

from __future__ import annotations

import weakref
from collections import OrderedDict, deque
from threading import Lock
from typing import Any, Final, TypeVar

MIB: Final = 1 << 20
ENTRY_BYTES: Final = 300
"""Overhead per value: slot, a short key, a small object."""

K = TypeVar("K")
V = TypeVar("V")


class QueryCache(dict[K, V]):
    """Values of one kind that a segment caches; only a budget adds any."""

    __slots__ = ("__weakref__",)


class QueryCacheBudget:
    """Bounds the bytes of all caches of the process; safe to use from several threads.

    Attributes:
        bytes_max: of all values together.
        size: estimated bytes of all values.
    """

    __slots__ = ("_gone", "_lock", "_sizes", "bytes_max", "size")

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.size = 0
        self._sizes: OrderedDict[int, tuple[weakref.ref[Any], int]] = OrderedDict()
        # A cache may be collected at any line, even while this thread holds the lock: so its end is
        # only noted.
        self._gone: deque[int] = deque()
        self._lock = Lock()

    def keep(self, cache: QueryCache[K, V], key: K, value: V, num_bytes: int) -> None:
        """Remember a value, unless it is larger than half the budget.

        Args:
            cache: of a segment.
            key: names the value.
            value: must not refer to the segment.
            num_bytes: of its arrays, of objects beyond a single small one, and of the parts of the
                key that no other shares, if they may be many (`key_sizes`).
        """
        size = num_bytes + ENTRY_BYTES
        if 2 * size > self.bytes_max or key in cache:
            return
        with self._lock:
            if key in cache:  # another thread was faster: count it once
                return
            while self._gone:
                self._drop(self._gone.popleft())
            while self._sizes and self.size + size > self.bytes_max:
                oldest = next(iter(self._sizes))
                emptied = self._sizes[oldest][0]()
                if emptied is not None:
                    emptied.clear()
                self._drop(oldest)
            cache_id, gone = id(cache), self._gone
            reference, known = self._sizes.pop(cache_id, (None, 0))
            if reference is None:
                reference = weakref.ref(cache, lambda _: gone.append(cache_id))
            self._sizes[cache_id] = (reference, known + size)
            self.size += size
            cache[key] = value

    def _drop(self, cache_id: int) -> None:
        self.size -= self._sizes.pop(cache_id, (None, 0))[1]


QUERY_CACHE_BUDGET: Final = QueryCacheBudget(32 * MIB)
"""The budget of this process."""
