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
lists and columns. Segments follow where that is not enough, and each `_ALL_EVERY`th time, so that
pages that are no longer read make room.

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
import ctypes
import functools
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

_MADV_DONTNEED = 4
_MAPS = Path("/proc/self/maps")
_STATM = Path("/proc/self/statm")
_SLACK_SHARE = 8
"""The sum is inexact: it has dropped only if it shrank by more than this share of the budget."""
_ALL_EVERY = 16
"""Each n-th release is of segments too, not only of stored items."""
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")

POLL_SECONDS_MIN = 0.02
POLL_SECONDS_MAX = 0.16

RESIDENT_BYTES_MIN = 192 << 20
"""Least budget, for all shards together: the files of some hundred thousand items."""


class PageBudget:
    """Keeps the resident pages of mapped files near a budget.

    Args:
        resident_bytes_max: returns the current budget of all files together, in bytes.
        release_items: releases the pages of stored items.
        release_all: releases the pages of all files.

    Attributes:
        pause: seconds from the last poll to the next.
    """

    def __init__(
        self,
        resident_bytes_max: Callable[[], int],
        *,
        release_items: Callable[[], None],
        release_all: Callable[[], None],
    ) -> None:
        self._current_bytes_max = resident_bytes_max
        self._bytes_max = resident_bytes_max()
        self._release_items = release_items
        self._release_all = release_all
        self._num_releases = 0
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
        self._num_releases += 1
        if self._num_releases % _ALL_EVERY:
            self._release_items()
            self._most = shared_bytes()
            if self._room(self._most) * _SLACK_SHARE >= self._bytes_max:
                return
        self._release_everything()

    def _release_everything(self) -> None:
        self._release_all()
        self._others = self._most = shared_bytes()


def shared_bytes() -> int:
    """Return the resident size of all file mappings; 0 where the system does not report it."""
    try:
        return int(_STATM.read_bytes().split()[2]) * _PAGE_BYTES
    except OSError:
        return 0


class Mapping(NamedTuple):
    """One mapping of a file."""

    path: str
    start: int
    size: int


def parse_maps(text: str) -> Iterator[Mapping]:
    """Yield the file mappings of a maps listing."""
    for line in text.splitlines():
        fields = line.split(maxsplit=5)
        if len(fields) == 6 and fields[5].startswith("/"):
            low, _, high = fields[0].partition("-")
            yield Mapping(fields[5], int(low, 16), int(high, 16) - int(low, 16))


def find_mappings(path: Path) -> list[Mapping]:
    """Return where this process has mapped a file; empty where the system does not report it."""
    try:
        text = os.fsdecode(_MAPS.read_bytes())
    except OSError:
        return []
    name = str(path.resolve())
    return [one for one in parse_maps(text) if one.path == name]


def release_pages(mapping: Mapping) -> None:
    """Release all pages of a mapping; it must stay mapped until this returns."""
    _libc().madvise(mapping.start, mapping.size, _MADV_DONTNEED)


@functools.cache  # each object creates a class, which is a reference cycle
def _libc() -> ctypes.CDLL:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    return libc
