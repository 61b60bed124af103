"""Bounds how much of the mapped files is resident in this process, by releasing pages.

data.mdb and segments are mapped. Each page that a read touches stays in the process's page table
and counts as resident, although the kernel could evict it at any time. The kernel also maps the
pages around it: 64 KiB at least, and up to 2 MiB where the page cache has them as one large folio.
So a few hundred searches map the whole of data.mdb, and a day of searches maps every column of
every segment. When more than a budget is resident, mappings get `MADV_DONTNEED`: their page table
entries go, the pages stay in the page cache, and the next read of one costs a minor fault (3 µs,
for 16 pages or more) instead of a disk read. data.mdb and segments share one budget, because the
kernel reports their sum cheaply. It is a share of the files' size: pages that many searches read
stay mapped, and memory stays below the size of the data.

Stored items are released first. Each hit that is shown maps the pages around an item that is rarely
read again, so these make up most of the growth, while search after search reads the same posting
lists and columns. Segments follow where that is not enough, and each `_SEGMENTS_EVERY`th time, so
that pages that are no longer read make room.

To release 100 MB takes 2 to 4 ms, in which a search would wait. So files are released in parts, one
after the other, and no more of them than make room.

Releasing is safe at any moment while the file is mapped: nothing writes through these mappings, so
their pages have no content but the file's.

The resident size of one file takes 3 ms to get (the kernel walks the page tables of all mappings),
that of all files together 10 µs. When the sum has dropped, a mapping has gone, and its share would
hide later reads from the budget; then all pages are released too.

The shard's event loop polls, not a thread: searches read on that loop, and a thread of lower
priority would run too late just when they read most. It polls often while pages are read, and
rarely while nothing happens; pages read between two polls (some megabytes) may exceed the budget.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from common.process.mapped_pages import WHOLE_FILE, FilePart, shared_bytes

_SLACK_SHARE: Final = 8
"""The sum is inexact: it has dropped only if it shrank by more than this share of the budget."""
_ROOM_SHARE: Final = 32
"""A release ends as soon as this share of the budget is free."""
NUM_PARTS: Final = 16
"""Parts in which a file is released, one after the other."""
_SEGMENTS_EVERY: Final = 16
"""Each n-th time that all parts are released, segments are as well, not only stored items."""

POLL_SECONDS_MIN = 0.02
POLL_SECONDS_MAX = 0.16

RESIDENT_BYTES_MIN = 192 << 20
"""Least budget, for all shards together: the files of some hundred thousand items."""


class PageBudget:
    """Keeps the resident pages of mapped files near a budget.

    Args:
        resident_bytes_max: returns the current budget of all files together, in bytes.
        release_items: releases a part of the pages of stored items.
        release_segments: releases a part of the pages of all other files.

    Attributes:
        pause: seconds from the last poll to the next.
    """

    def __init__(
        self,
        resident_bytes_max: Callable[[], int],
        *,
        release_items: Callable[[FilePart], None],
        release_segments: Callable[[FilePart], None],
    ) -> None:
        self._current_bytes_max = resident_bytes_max
        self._bytes_max = resident_bytes_max()
        self._release_items = release_items
        self._release_segments = release_segments
        self._num_parts_released = 0
        self.pause = POLL_SECONDS_MIN
        self._others = self._most = shared_bytes()
        """Resident size of other files (libraries), and its maximum since the last release."""

    async def run(self) -> None:
        """Poll until cancelled."""
        while True:
            await asyncio.sleep(self.pause)
            self.enforce()

    def enforce(self) -> bool:
        """Release pages if the budget is exceeded; return whether any were."""
        shared = shared_bytes()
        has_grown = shared > self._most
        self.pause = POLL_SECONDS_MIN if has_grown else min(2 * self.pause, POLL_SECONDS_MAX)
        self._most = max(self._most, shared)
        was_unmapped = (self._most - shared) * _SLACK_SHARE > self._bytes_max
        if not was_unmapped and self._room(shared) >= 0:
            return False
        self._bytes_max = self._current_bytes_max()
        if was_unmapped:
            self._release_everything()
        elif self._room(shared) < 0:
            self._release_some()
        else:
            return False
        return True

    def _room(self, shared: int) -> int:
        """Return how many bytes are left of the budget; negative if it is exceeded."""
        return self._others + self._bytes_max - shared

    def _release_some(self) -> None:
        """Release stored items until there is room; if all are not enough, segments too."""
        for _ in range(NUM_PARTS):
            self._release_next()
            if self._has_room():
                return
        for ordinal in range(NUM_PARTS):
            self._release_segments(FilePart(ordinal, NUM_PARTS))
            if self._has_room():
                return
        self._others = self._most  # all parts are released: what is left are other files

    def _release_next(self) -> None:
        """Release the next part of stored items, and in some rounds that of segments."""
        num_rounds, ordinal = divmod(self._num_parts_released, NUM_PARTS)
        part = FilePart(ordinal, NUM_PARTS)
        self._release_items(part)
        if num_rounds % _SEGMENTS_EVERY == _SEGMENTS_EVERY - 1:
            self._release_segments(part)
        self._num_parts_released += 1

    def _has_room(self) -> bool:
        self._most = shared_bytes()
        return self._room(self._most) * _ROOM_SHARE >= self._bytes_max

    def _release_everything(self) -> None:
        self._release_items(WHOLE_FILE)
        self._release_segments(WHOLE_FILE)
        self._others = self._most = shared_bytes()
