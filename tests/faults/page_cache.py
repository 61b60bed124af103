"""A file in memory and on disk, as Linux keeps it: a sync that fails leaves its pages clean.

    a process that has ended ──▶ pages in memory, not on disk ──▶ a sync that fails ──▶ later syncs
                                                                  forgets them       ──▶ succeed

What processes read is the real file. `PageCache` knows what of it the disk has, and puts that into
the file when the power fails. It sees what Python writes, not what LMDB does.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any, Final

import pytest

PAGE: Final = 4096


class PageCache:
    """The pages of one file.

    Args:
        path: of the file, as processes see it.
        disk: what is on disk; other pages of the file are dirty.
        patch: undoes what is set here.

    Attributes:
        fails: whether a sync of the file fails.
    """

    def __init__(self, path: Path, disk: bytes, patch: pytest.MonkeyPatch) -> None:
        self.fails = False
        self._path = path
        self._disk = bytearray(disk)
        seen = path.read_bytes()
        starts = range(0, max(len(seen), len(disk)), PAGE)
        self._dirty = {at for at in starts if seen[at : at + PAGE] != disk[at : at + PAGE]}
        for name in ("write", "pwrite"):
            patch.setattr(os, name, self._noting(getattr(os, name), name == "pwrite"))
        for name in ("fsync", "fdatasync"):
            patch.setattr(os, name, self._syncing(getattr(os, name)))

    def fail_power(self) -> None:
        """Leave what the disk has."""
        self._path.write_bytes(self._disk)

    def _is_ours(self, file: int) -> bool:
        return os.path.samestat(os.fstat(file), self._path.stat())

    def _noting(self, real: Any, is_positioned: bool) -> Any:
        def write(file: int, data: bytes, *position: int) -> int:
            start = position[0] if is_positioned else os.lseek(file, 0, os.SEEK_CUR)
            num_bytes: int = real(file, data, *position)
            if self._is_ours(file):
                self._dirty.update(range(start // PAGE * PAGE, start + num_bytes, PAGE))
            return num_bytes

        return write

    def _syncing(self, real: Any) -> Any:
        def sync(file: int) -> None:
            if not self._is_ours(file):
                real(file)
                return
            dirty, self._dirty = self._dirty, set()
            if self.fails:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            seen = self._path.read_bytes()
            self._disk.extend(bytes(max(0, len(seen) - len(self._disk))))
            for at in dirty:
                self._disk[at : at + PAGE] = seen[at : at + PAGE]

        return sync
