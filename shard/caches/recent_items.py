"""The items that were read lately, as clients sent them; one store for all indexes of a process.

Some items are shown again and again: the newest, the cheapest, the best for common words. Reading
one from LMDB takes 3 µs to find, check and unpack it, and as much again to map its page, which then
stands in the way of pages that searches read (`residency`).

There are two generations. What is read goes into the younger one; when that is full, it becomes
the older one, and what nobody has asked for meanwhile goes with the former older one. That is
about what an order by last use would keep, for two lookups and no list.

A record number is never given to another item, so nothing here can be out of date.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

ENTRY_BYTES: Final = 250
"""Taken by an item beside its bytes: key, numbers, the place in the table."""

Key = tuple[int, int]


class RecentItems:
    """Items by store and record, of at most `bytes_max` together.

    Safe to use from several threads: what two do at once is done twice, or not kept.

    Attributes:
        bytes_max: of both generations; 0: nothing is kept.
    """

    __slots__ = ("_older", "_older_bytes", "_younger", "_younger_bytes", "bytes_max")

    def __init__(self, bytes_max: int) -> None:
        self.begin(bytes_max)

    def begin(self, bytes_max: int) -> None:
        """Begin with nothing."""
        self.bytes_max = bytes_max
        self._younger: dict[Key, bytes] = {}
        self._younger_bytes = 0
        self._older: dict[Key, bytes] = {}
        self._older_bytes = 0

    @property
    def size(self) -> int:
        """At most so many bytes are taken: what went to the younger one counts in both."""
        return self._younger_bytes + self._older_bytes

    def __len__(self) -> int:
        return len(self._younger) + len(self._older)

    def get(self, store: int, records: Sequence[int]) -> list[bytes | None]:
        """Return items; None for those that are not here."""
        younger, older = self._younger, self._older
        found: list[bytes | None] = []
        for record in records:
            key = (store, record)
            item = younger.get(key)
            if item is None:
                item = older.pop(key, None)
                if item is not None:
                    self.put(key, item)
            found.append(item)
        return found

    def put(self, key: Key, item: bytes) -> None:
        """Keep an item that was read; not one that would be half of all."""
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
"""Those of this process; its bound is a setting."""
