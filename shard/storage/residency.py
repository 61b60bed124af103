"""How much of mapped files counts as this process's memory, and giving it back.

LMDB maps its file, and segments are mapped; each page that a read touches stays in the process's
page table and counts as resident, although the kernel could drop it any time. The kernel maps its
surroundings along: 64 KiB at least, and what it has in one piece up to 2 MiB (that depends on how
the file was written). So some hundred searches have the whole of data.mdb there, and a day of them
every column of every segment. When more than a budget is mapped, the mapping is told
`MADV_DONTNEED`: the page table entries go, the pages stay in the kernel's cache, and the next read
of one costs a minor fault (1 µs for 16 pages or more) instead of disk. data.mdb and segments have
one budget together: their sum is what the kernel tells for nothing.

It is safe at any moment while the file is mapped: nobody writes through these mappings, so the
entries hold nothing that the file does not.

How much is mapped of one file is expensive to ask (3 ms: the kernel walks the page tables of all
mappings), of all files together it costs 10 µs. When that sum has become less, something was
unmapped and hides what was read since; then pages go back too.

Looks follow each other quickly while pages are read, and slowly while nothing happens. What can be
read between two looks may be resident beyond the budget.
"""

from __future__ import annotations

import ctypes
import functools
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

_MADV_DONTNEED = 4
_MAPS = Path("/proc/self/maps")
_STATM = Path("/proc/self/statm")
_SLACK_SHARE = 8
"""The sum may shrink by this share of the budget before that means something: it is inexact."""
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


LOOK_SECONDS_MIN = 0.2
LOOK_SECONDS_MAX = 1.6


class PageBudget:
    """Keeps the resident pages of some files near a budget.

    Args:
        resident_bytes_max: of all the files together.
        release: gives all their pages back.

    Attributes:
        pause: seconds between the last look and the next.
        due_at: time of the next look.
    """

    def __init__(
        self,
        resident_bytes_max: int,
        release: Callable[[], None],
    ) -> None:
        self._resident_bytes_max = resident_bytes_max
        self._release = release
        self.pause = LOOK_SECONDS_MIN
        self.due_at = 0.0
        self._after_release = self._most = _shared_bytes()

    def keep(self, now: float) -> bool:
        """Give the pages of the files back if need be; returns whether that was so."""
        shared = _shared_bytes()
        has_grown = shared > self._most
        self.pause = LOOK_SECONDS_MIN if has_grown else min(2 * self.pause, LOOK_SECONDS_MAX)
        self.due_at = now + self.pause
        self._most = max(self._most, shared)
        is_within = shared - self._after_release <= self._resident_bytes_max
        if is_within and (self._most - shared) * _SLACK_SHARE <= self._resident_bytes_max:
            return False
        self._release()
        self._after_release = self._most = _shared_bytes()
        return True


def _shared_bytes() -> int:
    """Return the resident size of all file mappings; 0 where the system does not tell."""
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


def release_pages(paths: Sequence[Path]) -> None:
    """Give all mapped pages of files back; nothing where the system does not list mappings.

    The files must stay mapped until this returns.
    """
    try:
        text = os.fsdecode(_MAPS.read_bytes())
    except OSError:
        return
    names = {str(path.resolve()) for path in paths}
    libc = _libc()
    for one in parse_maps(text):
        if one.path in names:
            libc.madvise(one.start, one.size, _MADV_DONTNEED)


@functools.cache  # each object makes a class of its own, which is a cycle
def _libc() -> ctypes.CDLL:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    return libc
