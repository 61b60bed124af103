"""How freed memory returns to the system: settings of glibc's allocator, and trimming.

Bulk bodies, building and merging segments, and searches of millions of items take arrays of
megabytes for a moment. By default glibc maps each of those separately, until it has seen larger
ones freed, so that every page of every array is a page fault: a tenth of the processor time of a
load. Here arrays of up to `MMAP_THRESHOLD_BYTES` come from arenas, which reuse freed pages. The
arenas alone would keep these forever, so free memory is returned to the system whenever the process
has grown by a few megabytes, or uses a few megabytes less, and when an index that was written to
becomes idle. Few arenas waste less memory.

An arena hands out pages that were used before: a block of which little is written takes all of its
size. `zeros_on_new_pages` is an array that takes the pages that are written. `on_new_pages` does
the same for blocks that a library allocates, such as the 3 MB of lists of each LMDB environment.

So the resident size does not measure what is kept: it moves by megabytes with the load. The
allocated size (`allocated`) does not: if it grows, something is kept.

Without glibc neither does anything.
"""

from __future__ import annotations

import asyncio
import ctypes
import functools
import mmap
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_STATM = Path("/proc/self/statm")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
_M_ARENA_MAX = -8

MMAP_THRESHOLD_BYTES = 32 << 20
"""Larger arrays are mappings of their own; the greatest value that glibc takes."""
TRIM_THRESHOLD_BYTES = 2 << 20
"""Free memory at the end of an arena that the allocator keeps: a trim does not return it."""
NEW_PAGES_BYTES = 1 << 20
"""Blocks of this size and more are mapped separately by `on_new_pages`."""
_TAKEN_MAX = 1_024
ARENAS_MAX = 2
GROWTH_BYTES = 4 << 20
"""Growth, or loss of what is in use, after which free memory is returned."""
POLL_SECONDS = 2.0
"""Interval between checks of the growth; trimming takes about a millisecond."""


@functools.cache  # each object creates a class, which is a reference cycle
def _libc() -> ctypes.CDLL | None:
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "mallopt") or not hasattr(libc, "malloc_trim"):
        return None
    libc.malloc.restype = ctypes.c_void_p
    libc.malloc.argtypes = [ctypes.c_size_t]
    libc.malloc_usable_size.argtypes = libc.free.argtypes = [ctypes.c_void_p]
    libc.malloc_usable_size.restype = ctypes.c_size_t
    return libc


def configure_allocator() -> None:
    """Set thresholds and arenas; call it before threads are started."""
    _set(_M_MMAP_THRESHOLD, MMAP_THRESHOLD_BYTES)
    _set(_M_TRIM_THRESHOLD, TRIM_THRESHOLD_BYTES)
    _set(_M_ARENA_MAX, ARENAS_MAX)


def _set(option: int, value: int) -> None:
    libc = _libc()
    if libc is not None:
        libc.mallopt(option, value)


class _MmapThreshold:
    """The size from which glibc maps a block separately if no free one serves; of the process.

    It is low for as long as any thread wants that, and otherwise what `configure_allocator` sets.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._num_users = 0

    @contextmanager
    def lowered(self) -> Iterator[None]:
        """Let it be `NEW_PAGES_BYTES` for the body, or for longer if others want it."""
        with self._lock:
            self._num_users += 1
            _set(_M_MMAP_THRESHOLD, NEW_PAGES_BYTES)
        try:
            yield
        finally:
            with self._lock:
                self._num_users -= 1
                if self._num_users == 0:
                    _set(_M_MMAP_THRESHOLD, MMAP_THRESHOLD_BYTES)


_mmap_threshold = _MmapThreshold()


@contextmanager
def on_new_pages() -> Iterator[None]:
    """Have the system map the large blocks that this thread allocates in the body.

    glibc maps a block only if its arena has no free one that is large enough. So all of these are
    taken for the duration of the body. glibc writes the size of each: some microseconds, but 0.3 ms
    where its pages have been returned to the system, which zeroes 2 MB at once (numpy asks for such
    pages). After a load that is a quarter of a second.
    """
    libc = _libc()
    if libc is None:
        yield
        return
    taken: list[int] = []
    with _mmap_threshold.lowered():
        while len(taken) < _TAKEN_MAX:
            block = libc.malloc(NEW_PAGES_BYTES)
            if block is None:
                break
            taken.append(block)
            if _is_mapped(libc, block):
                break
        try:
            yield
        finally:
            for block in taken:
                libc.free(block)


def zeros_on_new_pages(num_bytes: int) -> NDArray[np.uint8]:
    """Return zeros of which only the pages that are written take memory, if they are many.

    They are a mapping of their own: 10 µs.
    """
    if num_bytes < NEW_PAGES_BYTES:
        return np.zeros(num_bytes, np.uint8)
    return np.frombuffer(mmap.mmap(-1, num_bytes), np.uint8)


def _is_mapped(libc: ctypes.CDLL, block: int) -> bool:
    """Return whether a block of `NEW_PAGES_BYTES` is a mapping: then it fills its last page."""
    return int(libc.malloc_usable_size(block)) >= NEW_PAGES_BYTES + _PAGE_BYTES // 2


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


_trim_wanted = threading.Event()


def trim_soon() -> None:
    """Let the event loop return free memory at its next check; from any thread."""
    _trim_wanted.set()


async def trim_periodically() -> None:
    """Return free memory from time to time, until cancelled.

    On the event loop, although it may take a millisecond: allocations wait for it, and must not
    wait for a thread of lower priority.
    """
    trimmer = Trimmer()
    while True:
        await asyncio.sleep(POLL_SECONDS)
        is_wanted = _trim_wanted.is_set()
        if is_wanted:  # a request that comes only now is for the next check
            _trim_wanted.clear()
        trimmer.trim_if_due(is_wanted=is_wanted)


class Trimmer:
    """Returns free memory to the system when there may be much of it; called periodically."""

    def __init__(self) -> None:
        self._least = _anonymous_bytes()
        self._in_use = allocated().num_bytes

    def trim_if_due(self, *, is_wanted: bool = False) -> bool:
        """Return free memory to the system if there may be much; return whether it did.

        There may be if the process has grown since the last time, or uses less of what it has; or
        a merge has asked for it.
        """
        anonymous = _anonymous_bytes()
        self._least = min(self._least, anonymous)
        in_use = allocated().num_bytes
        self._in_use = max(self._in_use, in_use)
        has_changed = max(anonymous - self._least, self._in_use - in_use) >= GROWTH_BYTES
        if not has_changed and not is_wanted:
            return False
        trim()
        self._least = _anonymous_bytes()
        self._in_use = in_use
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
