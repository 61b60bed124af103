"""Arrays of a merge: small ones in memory, large ones in unlinked files.

A merge makes a segment of any size in a bounded amount of memory. It reads its parts through their
mappings, piece by piece; the arrays that it makes, and the few temporary ones that grow with the
segments, come from here. From `LARGE_BYTES` on such an array is a mapped file in the folder of the
index, so the operating system may write back and evict its pages like those of any file. The file
has no name, so it goes with its last array, or with the process. A long array that is not read
again soon is written back while it grows (`GrowingArray.evict`): where memory is short, its pages
would displace those that searches read.

The blocks of a file are allocated before it is mapped. So a full disk is an OSError here, and not a
signal in the middle of a kernel.

Costs: 0.1 ms for a large array; its pages cost a fault of 1 µs each, four times one in memory.
"""

from __future__ import annotations

import mmap
import os
import tempfile
import weakref
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

S = TypeVar("S", bound=np.generic)

LARGE_BYTES: Final = 1 << 20
"""Arrays from this size on are files: more than glibc cuts from its arenas (see
`common.process.glibc_malloc`), and few of the smaller ones are in use at once."""

EVICT_BYTES: Final = 32 << 20
"""An array is evicted each time that a merge has written this much more of it."""


class MergeAllocator:
    """Allocates the arrays of a merge, and bounds the size of its steps.

    Args:
        folder: for the files of large arrays; None: all arrays are in memory.
        large_bytes: of an array that becomes a file.
        piece_rows: documents, or values, of a column that are merged at a time.
        piece_bytes: of the parts' postings, and of their positions, that are merged at a time.

    Attributes:
        folder: as given.
        piece_rows: as given.
        piece_bytes: as given.
    """

    def __init__(
        self,
        folder: Path | None = None,
        *,
        large_bytes: int = LARGE_BYTES,
        piece_rows: int = 1 << 17,
        piece_bytes: int = 8 << 20,
    ) -> None:
        self.folder = folder
        self.piece_rows = piece_rows
        self.piece_bytes = piece_bytes
        self._large_bytes = large_bytes

    def is_file(self, num_bytes: int) -> bool:
        """Return whether an array of this many bytes is a file."""
        return self.folder is not None and num_bytes >= max(1, self._large_bytes)

    def pieces(self, length: int) -> Iterator[slice]:
        """Yield consecutive slices of the rows that are merged at a time."""
        for first in range(0, length, self.piece_rows):
            yield slice(first, min(first + self.piece_rows, length))

    def empty(self, length: int, dtype: type[S]) -> NDArray[S]:
        """Return an array with undefined content.

        Raises:
            OSError: the disk is full.
        """
        num_bytes = length * np.dtype(dtype).itemsize
        if not self.is_file(num_bytes):
            return np.empty(length, dtype)
        with tempfile.TemporaryFile(dir=self.folder, buffering=0) as file:
            array: NDArray[S] = np.frombuffer(_map(file.fileno(), num_bytes), dtype)
            return array

    def zeros(self, length: int, dtype: type[S]) -> NDArray[S]:
        """Return an array of zeros.

        Raises:
            OSError: the disk is full.
        """
        if not self.is_file(length * np.dtype(dtype).itemsize):
            return np.zeros(length, dtype)
        return self.empty(length, dtype)  # a new file reads as zeros

    def concatenate(self, arrays: Sequence[NDArray[S]], padding: int = 0) -> NDArray[S]:
        """Return arrays of one type, concatenated, and `padding` zeros after them.

        Raises:
            OSError: the disk is full.
        """
        length = sum(map(len, arrays))
        joined = self.empty(length + padding, arrays[0].dtype.type)
        np.concatenate(arrays, out=joined[:length])
        joined[length:] = 0
        return joined


class GrowingArray(Generic[S]):
    """An array that is written from its beginning to its end, however long it becomes.

    Args:
        allocator: makes it.
        dtype: of its elements.

    Attributes:
        length: elements that were written.
    """

    def __init__(self, allocator: MergeAllocator, dtype: type[S]) -> None:
        self.length = 0
        self._allocator = allocator
        self._dtype = dtype
        self._array: NDArray[S] = np.empty(0, dtype)
        self._file = -1
        self._mapping: mmap.mmap | None = None
        self._num_evicted = 0

    def reserve(self, num_more: int) -> NDArray[S]:
        """Return the array, with room for at least this many elements after those written.

        The next call may return another array.

        Raises:
            OSError: the disk is full.
        """
        needed = self.length + num_more
        if needed > len(self._array):
            self._grow(needed if not self.length else needed + needed // 4)
        return self._array

    def append(self, piece: NDArray[S]) -> None:
        """Write more elements.

        Raises:
            OSError: the disk is full.
        """
        end = self.length + len(piece)
        self.reserve(len(piece))[self.length : end] = piece
        self.length = end

    def evict(self) -> None:
        """Write back the array to its file and release its pages, each time it has grown by much.

        Raises:
            OSError: the disk is full, or failed.
        """
        num_bytes = self.length * self._array.itemsize
        if self._mapping is not None and num_bytes - self._num_evicted >= EVICT_BYTES:
            self._mapping.madvise(mmap.MADV_DONTNEED)
            os.fdatasync(self._file)
            os.posix_fadvise(self._file, 0, num_bytes, os.POSIX_FADV_DONTNEED)
            self._num_evicted = num_bytes

    def finish(self) -> NDArray[S]:
        """Return the written array."""
        written = self._array[: self.length]
        # A file takes no memory for unused reservations.
        return written if self._file >= 0 else written.copy()

    def _grow(self, capacity: int) -> None:
        num_bytes = capacity * np.dtype(self._dtype).itemsize
        written = self._array[: self.length]
        if self._file >= 0:
            self._map(num_bytes)
        elif not self._allocator.is_file(num_bytes):
            self._array = np.empty(capacity, self._dtype)
            self._array[: self.length] = written
        else:
            file = tempfile.TemporaryFile(dir=self._allocator.folder, buffering=0)  # noqa: SIM115
            self._file = file.fileno()
            weakref.finalize(self, file.close)
            self._map(num_bytes)
            self._array[: self.length] = written

    def _map(self, num_bytes: int) -> None:
        self._mapping = _map(self._file, num_bytes)
        self._mapping.madvise(mmap.MADV_SEQUENTIAL)
        self._array = np.frombuffer(self._mapping, self._dtype)


def _map(file: int, num_bytes: int) -> mmap.mmap:
    """Map a file of at least this many bytes."""
    os.posix_fallocate(file, 0, num_bytes)
    return mmap.mmap(file, num_bytes)


IN_MEMORY: Final = MergeAllocator()
"""All arrays in memory: for batches, and for merges of segments that are there too."""
