"""LRU cache of values that searches derive from segments, bounded by bytes.

A segment is immutable, so what is derived from it (the documents that pass a filter, an order of
its documents, a column of texts) stays right as long as its `uid` is part of the key. Values of
segments that are gone are never looked up again. Each write makes a segment, so they would soon
fill the cache: a value goes with its *owner*, to which the cache has only a weak reference.

    entries   key → (value, size, id of the owner)
    owners    id of the owner → (weak reference, its keys)
    gone      ids of owners that have been collected; removed by the next `put` or `sweep`
    dropped   values that are no longer kept; `sweep` frees them, in the background

To free an array of 80 MB, or the last view of a deleted file of gigabytes, takes up to 0.4 s while
a merge keeps disk and processors busy: no search does it, and none waits for a lock meanwhile.
"""

from __future__ import annotations

import weakref
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from threading import Lock
from typing import Any, Final, TypeVar

from common.deadline import check_call
from shard.caches.background_derivation import BACKGROUND_TASKS
from shard.caches.key_sizes import bytes_of

Value = TypeVar("Value")

MIB: Final = 1 << 20
ENTRY_BYTES: Final = 500
"""Overhead per value: a short key, tuples, array headers."""
_SHORT_KEY_BYTES: Final = 300
"""The part of it that is the key's; what a longer one takes beyond that is added."""
DROPPED_BYTES_MAX: Final = MIB
"""Dropped values may take this much until they are freed; those of gone owners are freed soon."""
_WAIT_SECONDS: Final = 0.05
"""Interval at which a thread that waits for another's value checks that its caller still waits."""


def _added_by_key(key: Hashable) -> int:
    """Return what a key adds to the overhead: a filter may have a thousand values."""
    return max(0, bytes_of(key) - _SHORT_KEY_BYTES)


class _Turn:
    """Whose turn it is to make a value, and how many threads make it or wait."""

    __slots__ = ("lock", "num_threads")

    def __init__(self) -> None:
        self.lock = Lock()
        self.num_threads = 0


class LruCache:
    """Values by key, of at most `bytes_max` together.

    Safe to use from several threads. Two that miss the same key both compute it, and the second
    value replaces the first, which is equal; what takes long or much memory is made by
    `get_or_make`, or while `making` it.

    Args:
        bytes_max: of all values.
        memory_share: n, if `widen_caches` is to let them take 1 / n of the memory; else 0.
    """

    __slots__ = (
        "__weakref__",
        "_dropped",
        "_dropped_bytes",
        "_entries",
        "_gone",
        "_lock",
        "_makers",
        "_owners",
        "bytes_max",
        "memory_share",
        "size",
    )

    def __init__(self, bytes_max: int, memory_share: int = 0) -> None:
        self.bytes_max = bytes_max
        self.memory_share = memory_share
        self.size = 0
        self._entries: OrderedDict[Hashable, tuple[Any, int, int]] = OrderedDict()
        self._owners: dict[int, tuple[weakref.ref[Any], set[Hashable]]] = {}
        # An owner may be collected at any line, even while this thread holds the lock: so its end
        # is only noted.
        self._gone: deque[int] = deque()
        self._dropped: list[Any] = []
        self._dropped_bytes = 0
        self._lock = Lock()
        self._makers: dict[Hashable, _Turn] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: Hashable) -> Any:
        """Return a value, or None if it is not (or no longer) there."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is None:
                return None
            self._entries.move_to_end(key)
            return entry[0]

    def get_or_make(
        self,
        key: Hashable,
        make: Callable[[], Value],
        size: Callable[[Value], int],
        owner: object,
    ) -> Value:
        """Return a value; one thread makes it, and the others that want it wait.

        Args:
            key: names it.
            make: makes the value; may use this cache for other keys.
            size: bytes of the value.
            owner: as in `put`.

        Raises:
            DeadlineExceeded: another thread still makes it.
        """
        value: Value | None = self.get(key)
        if value is None:
            with self.making(key):
                value = self.get(key)
                if value is None:
                    value = make()
                    self.put(key, value, size(value), owner)
        return value

    def keys_of(self, owner: object) -> list[Hashable]:
        """Return the keys of the values that go with an owner."""
        with self._lock:
            known = self._owners.get(id(owner))
            return list(known[1]) if known is not None and known[0]() is owner else []

    @contextmanager
    def making(self, key: Hashable) -> Iterator[None]:
        """Let one thread at a time make the value of a key.

        Raises:
            DeadlineExceeded: another thread still makes it.
        """
        with self._lock:
            turn = self._makers.setdefault(key, _Turn())
            turn.num_threads += 1
        try:
            while not turn.lock.acquire(timeout=_WAIT_SECONDS):
                check_call()
            try:
                yield
            finally:
                turn.lock.release()
        finally:
            with self._lock:
                turn.num_threads -= 1
                if not turn.num_threads:
                    del self._makers[key]

    def takes(self, num_bytes: int) -> bool:
        """Return whether a value of this size would be kept."""
        return 2 * (num_bytes + ENTRY_BYTES) <= self.bytes_max

    def put(self, key: Hashable, value: Any, num_bytes: int, owner: object) -> None:
        """Keep a value, unless it is larger than half the bound.

        Args:
            key: names it.
            value: must not refer to its owner.
            num_bytes: of the value.
            owner: the value is removed with it.
        """
        num_bytes += _added_by_key(key)
        if not self.takes(num_bytes):
            return
        size = num_bytes + ENTRY_BYTES
        with self._lock:
            self._sweep()
            self._drop(key)
            owner_id = id(owner)
            known = self._owners.get(owner_id)
            if known is None:
                known = self._owners[owner_id] = (self._reference(owner), set())
            known[1].add(key)
            self._entries[key] = (value, size, owner_id)
            self.size += size
            self._evict()
        self._free_soon()

    def resize(self, key: Hashable, value: Any, num_bytes: int) -> None:
        """Note that a kept value has grown; drop it if it is larger than half the bound.

        Args:
            key: names it.
            value: what has grown; nothing happens if something else is kept by now.
            num_bytes: of the value.
        """
        num_bytes += _added_by_key(key)
        with self._lock:
            entry = self._entries.get(key)
            if entry is None or entry[0] is not value:
                return
            if self.takes(num_bytes):
                _, size, owner_id = entry
                self._entries[key] = (value, num_bytes + ENTRY_BYTES, owner_id)
                self.size += num_bytes + ENTRY_BYTES - size
                self._evict()
            else:
                self._drop(key)
        self._free_soon()

    def sweep(self) -> None:
        """Remove the values of owners that are gone; free these and all that were dropped."""
        with self._lock:
            self._sweep()
            dropped, self._dropped, self._dropped_bytes = self._dropped, [], 0
        dropped.clear()

    def _reference(self, owner: object) -> weakref.ref[Any]:
        owner_id, gone = id(owner), self._gone
        return weakref.ref(owner, lambda _: gone.append(owner_id))

    def _sweep(self) -> None:
        # The id of a gone owner may be reused, but only after this noted its end: so no value of
        # the new owner is here yet.
        while self._gone:
            known = self._owners.get(self._gone.popleft())
            for key in tuple(known[1]) if known is not None else ():
                self._drop(key)
                self._dropped_bytes += DROPPED_BYTES_MAX  # a small view keeps a whole file

    def _evict(self) -> None:
        """Drop the least recently used values beyond the bound."""
        while self.size > self.bytes_max:
            self._drop(next(iter(self._entries)))

    def _free_soon(self) -> None:
        """Schedule a sweep if what was dropped takes more than a little."""
        if self._dropped_bytes > DROPPED_BYTES_MAX:
            BACKGROUND_TASKS.add(("dropped values", id(self)), self, LruCache.sweep)

    def _drop(self, key: Hashable) -> None:
        """Remove a value, and its owner with its last value; it is freed by a sweep."""
        entry = self._entries.pop(key, None)
        if entry is None:
            return
        self.size -= entry[1]
        self._dropped.append(entry[0])
        self._dropped_bytes += entry[1]
        keys = self._owners[entry[2]][1]
        keys.remove(key)
        if not keys:
            del self._owners[entry[2]]


FILTER_CACHE: Final = LruCache(16 * MIB, memory_share=64)
"""Documents of filters: 4 bytes each, at most one bit for each document of the segment."""
WORDS_CACHE: Final = LruCache(16 * MIB, memory_share=64)
"""Half-typed and mistyped words that are searched again: 1.5 bits for each document of the segment,
4 bytes for each of the word's."""
BOUNDS_CACHE: Final = LruCache(64 * MIB, memory_share=16)
"""Bounds of scores, by segment and choice of fields: 9 bytes a block of postings, and 1 a group of
16 documents for each frequent word, once it is searched."""
COLUMN_CACHE: Final = LruCache(128 * MIB, memory_share=8)
"""Columns and orders that are made on first use: 2-30 MB each per 500,000 documents."""
FACET_ROWS_CACHE: Final = LruCache(192 * MIB, memory_share=8)
"""Rows of facets that are counted together: 16 bytes a document of a large segment."""
PAIRS_CACHE: Final = LruCache(64 * MIB, memory_share=16)
"""Adjacent pairs of frequent words: 5-12 bytes a document of a segment that phrases search."""

CACHES: Final[Mapping[str, LruCache]] = {
    "filters": FILTER_CACHE,
    "words": WORDS_CACHE,
    "bounds": BOUNDS_CACHE,
    "columns": COLUMN_CACHE,
    "facet_rows": FACET_ROWS_CACHE,
    "pairs": PAIRS_CACHE,
}
"""All of them, by their names in metrics; each has a share of the memory."""


def widen_caches(memory_bytes: int) -> None:
    """Let the caches grow with the memory of the machine: what they keep grows with its data.

    A value that does not fit is computed again by each search that needs it. The bounds above are
    the least, and enough for a few million items.

    Args:
        memory_bytes: that this process may count on.
    """
    for cache in CACHES.values():
        cache.bytes_max = max(cache.bytes_max, memory_bytes // cache.memory_share)
