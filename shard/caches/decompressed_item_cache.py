"""Recently read items, decompressed; one LRU cache for all indexes of a process.

Some items are shown repeatedly: the newest, the cheapest, the best for common words. Reading
one from LMDB takes 3 µs to find, check and decompress it, and as much again to map its page, which
then takes memory from pages that searches read (`mapped_page_release`).

There are two generations. An item that is read goes into the younger one. When that is full, it
becomes the older one, and the previous older one is dropped with the items that were not read
meanwhile. This approximates LRU with two lookups and no list.

A record number is never reused, so nothing here can be stale.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Final

ENTRY_BYTES: Final = 250
"""Overhead per item: key, numbers, the slot in the table."""

Key = tuple[int, int]


class RecentItems:
    """Items by store and record, of at most `bytes_max` together.

    Safe to use from several threads: of concurrent calls, work may be repeated or not kept.

    Attributes:
        bytes_max: of both generations; 0: nothing is kept.
    """

    __slots__ = ("_older", "_older_bytes", "_younger", "_younger_bytes", "bytes_max")

    def __init__(self, bytes_max: int) -> None:
        self.reset(bytes_max)

    def reset(self, bytes_max: int) -> None:
        """Start empty."""
        self.bytes_max = bytes_max
        self._younger: dict[Key, bytes] = {}
        self._younger_bytes = 0
        self._older: dict[Key, bytes] = {}
        self._older_bytes = 0

    @property
    def size(self) -> int:
        """Upper bound of the bytes in use: items that moved to the younger one count twice."""
        return self._younger_bytes + self._older_bytes

    def __len__(self) -> int:
        return len(self._younger) + len(self._older)

    def get(self, store: int, records: Sequence[int]) -> list[bytes | None]:
        """Return items; None for each that is not cached."""
        younger, older = self._younger, self._older
        found = list(map(younger.get, zip(itertools.repeat(store), records, strict=False)))
        if older and None in found:
            for i, record in enumerate(records):
                if found[i] is None and (item := older.pop((store, record), None)) is not None:
                    found[i] = item
                    self.put((store, record), item)
        return found

    def put(self, key: Key, item: bytes) -> None:
        """Keep an item that was read, unless it would fill half the cache."""
        size = len(item) + ENTRY_BYTES
        bytes_max = self.bytes_max // 2
        if size > bytes_max or key in self._younger:
            return
        if self._younger_bytes + size > bytes_max:
            self._older, self._older_bytes = self._younger, self._younger_bytes
            self._younger, self._younger_bytes = {}, 0
        self._younger[key] = item
        self._younger_bytes += size


RECENT_ITEMS: Final = RecentItems(0)
"""The cache of this process; its bound is a setting."""
