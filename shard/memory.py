"""Keep freed memory from counting as this process's: glibc's allocator, told what we know.

Building and merging segments allocates arrays of many megabytes for a moment. By default glibc
raises its threshold for separate mappings with each such array that is freed (up to 32 MiB), so the
next ones are cut from arenas, one a thread, which never shrink in the middle. With a fixed
threshold large arrays are mappings of their own and go back when freed; with few arenas the rest
has few places to be torn; and what is free at the arenas' ends is given back when an index has
come to rest.

Elsewhere than on glibc nothing is done.
"""

from __future__ import annotations

import ctypes

_M_MMAP_THRESHOLD = -3
_M_ARENA_MAX = -8

MMAP_THRESHOLD_BYTES = 1 << 20
ARENAS_MAX = 2


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
    """Give free memory back to the system; some milliseconds."""
    libc = _libc()
    if libc is not None:
        libc.malloc_trim(0)
