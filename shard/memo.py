"""Memory of what searches derive from segments: bounded by bytes, the least recently used goes.

A segment is immutable, so what is derived from it (the documents that pass a filter, an order of
its documents, a column of texts) stays right as long as its `uid` is part of the key. Entries of
segments that are gone are never asked for again and fall out in time.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from threading import Lock
from typing import Any, Final

MIB: Final = 1 << 20


class Memo:
    """Values by key, of at most `bytes_max` together.

    Safe to use from several threads. Two that miss the same key both compute it; the second value
    replaces the first, which is equal.
    """

    __slots__ = ("_entries", "_lock", "bytes_max", "size")

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.size = 0
        self._entries: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()
        self._lock = Lock()

    def get(self, key: Hashable) -> Any:
        """Return a value, or None if it is not (or no longer) there."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is None:
                return None
            self._entries.move_to_end(key)
            return entry[0]

    def put(self, key: Hashable, value: Any, size: int) -> None:
        """Remember a value of `size` bytes; one that is larger than half the bound is not kept."""
        if 2 * size > self.bytes_max:
            return
        with self._lock:
            replaced = self._entries.pop(key, None)
            if replaced is not None:
                self.size -= replaced[1]
            self._entries[key] = (value, size)
            self.size += size
            while self.size > self.bytes_max:
                _, (_, dropped) = self._entries.popitem(last=False)
                self.size -= dropped


FILTER_MEMO: Final = Memo(16 * MIB)
"""Bitsets of filters: 62 KB per filter and 500,000 documents."""
COLUMN_MEMO: Final = Memo(128 * MIB)
"""Columns and orders that are made on first use: 2-30 MB each per 500,000 documents."""
