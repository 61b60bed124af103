"""Memory of a process: how much it may count on, and how freed memory returns to the system.

The latter takes settings of glibc's allocator, and trimming. Bulk bodies, and building and merging
segments, take arrays of many megabytes for a moment. By default glibc raises its threshold for
separate mappings with each such array that is freed (up to 32 MiB), so the next ones are cut from
arenas, one per thread, which never shrink in the middle. With a fixed threshold, large arrays are
mappings of their own and are unmapped when freed; with few arenas the rest fragments less. The free
space between pieces in use (after a bulk load, most of an arena) is returned when an index becomes
idle, and whenever the process has grown by a few megabytes since, because searches spread their
allocations over that space.

So the resident size does not measure what is kept: it moves by megabytes with the load. The
allocated size (`allocated`) does not: if it grows, something is kept.

Without glibc neither does anything.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import functools
import os
import re
import sys
from pathlib import Path
from typing import NamedTuple

_STATM = Path("/proc/self/statm")
_PROC = Path("/proc")
_GROUPS = Path("/sys/fs/cgroup")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_M_MMAP_THRESHOLD = -3
_M_ARENA_MAX = -8

MMAP_THRESHOLD_BYTES = 1 << 20
ARENAS_MAX = 2
GROWTH_BYTES = 4 << 20
"""Growth after which free memory is returned."""
POLL_SECONDS = 2.0
"""Interval between checks of the growth; trimming takes about a millisecond."""


@functools.cache  # each object creates a class, which is a reference cycle
def _libc() -> ctypes.CDLL | None:
    libc = ctypes.CDLL(None)
    return libc if hasattr(libc, "mallopt") and hasattr(libc, "malloc_trim") else None


def configure_allocator() -> None:
    """Set threshold and arenas; call it before threads are started."""
    libc = _libc()
    if libc is not None:
        libc.mallopt(_M_MMAP_THRESHOLD, MMAP_THRESHOLD_BYTES)
        libc.mallopt(_M_ARENA_MAX, ARENAS_MAX)


def trim() -> None:
    """Return free memory to the system; about a millisecond."""
    libc = _libc()
    if libc is not None:
        libc.malloc_trim(0)


class Allocated(NamedTuple):
    """Memory that this process has allocated and not freed.

    Attributes:
        num_bytes: of arrays, of LMDB's pages and of everything else that is not small; 0 if the C
            library does not report it.
        num_blocks: small objects of Python (up to 512 bytes), which have an allocator of their own.
    """

    num_bytes: int
    num_blocks: int


_COUNTS = (
    *("arena", "ordblks", "smblks", "hblks", "hblkhd"),
    *("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"),
)


class _Mallinfo2(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_size_t) for name in _COUNTS)


def allocated() -> Allocated:
    """Return the bytes in use; walks all free chunks, about a millisecond."""
    libc = _libc()
    num_bytes = 0
    if libc is not None and hasattr(libc, "mallinfo2"):
        libc.mallinfo2.restype = _Mallinfo2
        info = libc.mallinfo2()
        num_bytes = int(info.uordblks) + int(info.hblkhd)
    return Allocated(num_bytes, sys.getallocatedblocks())


async def trim_periodically() -> None:
    """Return free memory from time to time, until cancelled.

    On the event loop, although it may take a millisecond: allocations wait for it, and must not
    wait for a thread of lower priority.
    """
    trimmer = Trimmer()
    while True:
        await asyncio.sleep(POLL_SECONDS)
        trimmer.trim_if_grown()


class Trimmer:
    """Returns free memory to the system when the process has grown; called periodically."""

    def __init__(self) -> None:
        self._least = _anonymous_bytes()

    def trim_if_grown(self) -> bool:
        """Return free memory to the system if there may be much; return whether it did."""
        anonymous = _anonymous_bytes()
        self._least = min(self._least, anonymous)
        if anonymous - self._least < GROWTH_BYTES:
            return False
        trim()
        self._least = _anonymous_bytes()
        return True


def resident_bytes() -> int:
    """Return the resident memory of this process; 0 where the system does not report it."""
    return _pages().resident * _PAGE_BYTES


def _anonymous_bytes() -> int:
    """Return the anonymous resident memory; 0 where the system does not report it."""
    pages = _pages()
    return (pages.resident - pages.shared) * _PAGE_BYTES


class _Pages(NamedTuple):
    """Pages of this process: all that are resident, and those of them that a file backs."""

    resident: int
    shared: int


def _pages() -> _Pages:
    try:
        fields = _STATM.read_bytes().split()
    except OSError:  # not Linux, or /proc is hidden
        return _Pages(0, 0)
    return _Pages(int(fields[1]), int(fields[2]))


def available_bytes(proc: Path = _PROC, groups: Path = _GROUPS) -> int:
    """Return how much memory this process could fill with cached pages.

    It is what the kernel estimates for the machine, or less if a control group of the process (or
    one around it) has a limit. 0 where the system does not report it.
    """
    try:
        info = (proc / "meminfo").read_text()
        found = re.search(r"^MemAvailable:\s+(\d+) kB", info, re.MULTILINE)
        available = int(found[1]) << 10 if found else 0
        own = re.search(r"^0::/(.*)$", (proc / "self" / "cgroup").read_text(), re.MULTILINE)
    except OSError:
        return 0
    folder = groups / own[1] if own else groups
    for group in (folder, *folder.parents):
        if not group.is_relative_to(groups):
            break
        with contextlib.suppress(OSError, ValueError):  # no limit here
            limit = int((group / "memory.max").read_text())
            available = min(available, limit - _unreclaimable_bytes(group / "memory.stat"))
    return max(0, available)


def _unreclaimable_bytes(path: Path) -> int:
    """Return the memory of a control group that is no cached file."""
    counts = dict(line.split() for line in path.read_text().splitlines())
    return sum(int(counts.get(name, 0)) for name in ("anon", "kernel", "shmem"))
