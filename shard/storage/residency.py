"""How much of data.mdb counts as this process's memory, and giving it back.

LMDB maps its file; each page that a read touches (and the 64 KiB around it, which the kernel maps
along) stays in the process's page table and counts as resident, although the kernel could drop it
any time. After a day of reads that is the whole file. So when more than a budget is mapped, the
mapping is told `MADV_DONTNEED`: the page table entries go, the pages stay in the kernel's cache,
and the next read of one costs a minor fault (0.5 µs for 16 pages) instead of disk.

It is safe at any moment: the mapping is shared and read-only, so the entries hold nothing that the
file does not.

    /proc/self/smaps    7f3a00000000-7f4a00000000 r--s 00000000 fe:00 1234  /…/index-3/data.mdb
                        ...
                        Rss:              180000 kB

Cost of a look: about 3 ms (the kernel walks the page tables of all mappings), so `PageBudget` looks
only after the resident size of all files together, which costs 10 µs to ask for, has grown by a
quarter of the budget; of giving back: 10 ms a GiB.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

_MADV_DONTNEED = 4
_SMAPS = Path("/proc/self/smaps")
_STATM = Path("/proc/self/statm")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_LOOK_SHARE = 4


class PageBudget:
    """Keeps the resident pages of some files near a budget.

    Args:
        resident_bytes_max: of all the files together.
    """

    def __init__(self, resident_bytes_max: int) -> None:
        self._resident_bytes_max = resident_bytes_max
        self._seen_bytes = 0

    def keep(self, paths: Sequence[Path]) -> int:
        """Give pages back if need be; returns the bytes that were given back."""
        shared_bytes = _shared_bytes()
        self._seen_bytes = min(self._seen_bytes, shared_bytes)
        if (shared_bytes - self._seen_bytes) * _LOOK_SHARE < self._resident_bytes_max:
            return 0
        released = release_pages(paths, self._resident_bytes_max)
        self._seen_bytes = _shared_bytes()
        return released


def _shared_bytes() -> int:
    """Return the resident size of all file mappings; 0 where the system does not tell."""
    try:
        return int(_STATM.read_text().split()[2]) * _PAGE_BYTES
    except OSError:
        return 0


@dataclass(frozen=True, slots=True)
class Mapping:
    """One mapping of a file."""

    path: str
    start: int
    size: int
    resident_bytes: int


def parse_smaps(text: str) -> Iterator[Mapping]:
    """Yield the file mappings of a smaps listing."""
    path, start, size = "", 0, 0
    for line in text.splitlines():
        first, _, rest = line.partition(" ")
        if not first.endswith(":"):
            low, _, high = first.partition("-")
            start = int(low, 16)
            size = int(high, 16) - start
            fields = rest.split(maxsplit=4)
            path = fields[4] if len(fields) == 5 else ""
        elif first == "Rss:" and path.startswith("/"):
            yield Mapping(path, start, size, int(rest.split()[0]) * 1024)


def release_pages(paths: Sequence[Path], resident_bytes_max: int) -> int:
    """Give mapped pages of files back if more than a budget of them is resident in all.

    Returns:
        The bytes that were given back; 0 where the system has no smaps.
    """
    if not paths:
        return 0
    try:
        text = _SMAPS.read_text()
    except OSError:
        return 0
    names = {str(path.resolve()) for path in paths}
    mappings = [one for one in parse_smaps(text) if one.path in names]
    if sum(one.resident_bytes for one in mappings) <= resident_bytes_max:
        return 0
    libc = ctypes.CDLL(None, use_errno=True)
    libc.madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    for one in mappings:
        libc.madvise(one.start, one.size, _MADV_DONTNEED)
    return sum(one.resident_bytes for one in mappings)
