"""Pages of mapped files: where a file is mapped, and how its resident pages are released."""

from __future__ import annotations

import ctypes
import functools
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

_MADV_DONTNEED: Final = 4
_MAPS: Final = Path("/proc/self/maps")
_STATM: Final = Path("/proc/self/statm")
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")
_PART_BYTES_MIN: Final = 2 << 20
"""A huge page is not split."""


class FilePart(NamedTuple):
    """One of several parts of about the same length that a file is divided into."""

    ordinal: int
    num_parts: int

    def range_in(self, num_bytes: int) -> tuple[int, int]:
        """Return where the part begins in a file, and its length; 0 if the file is too short."""
        per_part = -(-num_bytes // self.num_parts)
        per_part += -per_part % _PART_BYTES_MIN
        start = min(self.ordinal * per_part, num_bytes)
        return start, min(per_part, num_bytes - start)


WHOLE_FILE: Final = FilePart(0, 1)


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


def release_pages(mapping: Mapping, part: FilePart, file_bytes: int) -> None:
    """Release the pages of a part of a file; it must stay mapped until this returns.

    Args:
        mapping: of the whole file, and possibly of more.
        part: of the file.
        file_bytes: size of the file.
    """
    start, length = part.range_in(min(mapping.size, file_bytes))
    if length:
        _libc().madvise(mapping.start + start, length, _MADV_DONTNEED)


def shared_bytes() -> int:
    """Return the resident size of all file mappings; 0 where the system does not report it."""
    try:
        return int(_STATM.read_bytes().split()[2]) * _PAGE_BYTES
    except OSError:
        return 0


@functools.cache  # each object creates a class, which is a reference cycle
def _libc() -> ctypes.CDLL:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    return libc
