"""The file of a segment: its layout, how it is written, and whether it can be trusted.

    offset  size
    0       8     magic "FACETSEG"
    8       4     format version            (little-endian, as all numbers that follow)
    12      4     directory size
    16      8     file size
    24      8     xxh64 of the checksums of blocks and then of bytes [0, 24) and [32, 64)
    32      8     where the checksums of blocks begin
    40      24    zero
    64            directory: JSON {"num_docs", "meta", "arrays": [[name, dtype, shape, offset]]},
                  then blanks
    ...           arrays, each at a multiple of 64 bytes, zeros between them
    ...           checksums of blocks: xxh64 of each 256 KiB before, without the 64 bytes of the
                  header

(Versions 7 and 8 are still read. In 7, offset 24 has xxh3_64 of bytes [32, file size) and [0, 24),
and no checksums follow.)

Why JSON for the directory: it is read once per open, is at most some kilobytes, and a human can
read it with `head`. Why 64: a cache line, and the widest vector register.

The file is derived from the documents in LMDB. It is written under a temporary name, synced and
renamed, so under its final name it is whole, unless the disk or a power loss damaged it: the
checksums detect that. Opening verifies it by reading the file (never through the mapping: a
truncated file raises SIGBUS there) and only then maps it; a large file may be mapped at once, and
each block verified when it is first touched (`lazy_verification.py`).

Worked example: 2 documents, arrays docs.record = [0, 2] and ids.hash = [1, 2]: directory of about
150 bytes at 64, docs.record at 256, ids.hash at 320, one checksum at 336, file size 344.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Self, TypeAlias

import numpy as np
import orjson
import xxhash
from numpy.typing import NDArray

from common.chunked_file_io import CALL_BYTES, read_all, write_all
from common.disk_errors import SHORTAGES

Array: TypeAlias = NDArray[Any]

MAGIC = b"FACETSEG"
SEGMENT_VERSION = 9
OLDEST_SEGMENT_VERSION = 7
"""Files from this version on are read; older ones are built again from the stored items."""
_VERSION_WITHOUT_BLOCKS = 7
ALIGNMENT = 64
HEADER_BYTES = 64
BLOCK_BYTES = 256 << 10
"""Bytes with a checksum of their own: the first search that touches a block waits for all of it."""
SYNC_BYTES = 8 << 20
"""Bytes written between two syncs: a commit waits for all writes that the disk got before it."""

_ENTRY_BYTES_MAX = 72
"""One entry of the directory: two lengths and an offset of 20 digits, a type, and separators."""
_FACTS_BYTES_MAX = 256
"""The part of the directory that describes no array."""


class DamagedSegment(Exception):
    """The file is not a whole segment of a known version; rebuild it from the stored items."""


def verify_segment(path: Path, checksum: str) -> None:
    """Read a whole segment file and compare its checksum, without mapping it.

    Args:
        path: of the file.
        checksum: that it must have, see `Segment.checksum`.

    Raises:
        DamagedSegment: the file is truncated, changed, of another version, another one, or missing.
        OSError: descriptors or memory ran out, which says nothing about the file.
    """
    try:
        with path.open("rb", buffering=0) as file:
            verify_blocks(file.fileno(), path, read_head(file.fileno(), path))
            if os.pread(file.fileno(), 8, 24).hex() != checksum:
                raise DamagedSegment(f"{path.name}: not the file that the manifest names")
    except OSError as error:
        if error.errno in SHORTAGES:
            raise
        raise DamagedSegment(f"{path.name}: {error.strerror}") from error


def _align(offset: int) -> int:
    return -(-offset // ALIGNMENT) * ALIGNMENT


class SegmentWriter:
    """Writes a segment file, array by array; a context, in which `finish` is the last call.

    It writes under a temporary name, which `finish` changes to `path`.

    Args:
        path: of the segment.
        names: of all arrays that may be written; they determine the room for the directory, which
            is written last.
    """

    def __init__(self, path: Path, names: Iterable[str]) -> None:
        self._path = path
        self._temporary = path.with_name(path.name + ".tmp")
        self._directory_bytes = _align(_FACTS_BYTES_MAX + sum(_entry_bytes(name) for name in names))
        self._arrays: list[tuple[str, str, list[int], int]] = []
        self._file = -1
        self._end = HEADER_BYTES + self._directory_bytes
        self._num_unsynced = 0

    def __enter__(self) -> Self:
        self._file = os.open(self._temporary, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o666)
        os.lseek(self._file, self._end, os.SEEK_SET)
        return self

    def __exit__(self, *error: object) -> None:
        os.close(self._file)
        self._temporary.unlink(missing_ok=True)

    def write(self, arrays: Mapping[str, Array]) -> None:
        """Write arrays.

        Raises:
            OSError: the disk is full, or the device failed.
        """
        for name, array in arrays.items():
            self._put(bytes(_align(self._end) - self._end))
            self._arrays.append((name, array.dtype.str, list(array.shape), self._end))
            self._put(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)

    def finish(self, num_docs: int, meta: Mapping[str, Any]) -> None:
        """Write directory and header, sync the file and rename it.

        The directory entry is not synced here: the manifest that names the file syncs the folder.

        Raises:
            OSError: the disk is full, or the device failed.
        """
        directory = orjson.dumps({"num_docs": num_docs, "meta": meta, "arrays": self._arrays})
        assert len(directory) <= self._directory_bytes, "arrays that were not announced"
        os.lseek(self._file, HEADER_BYTES, os.SEEK_SET)
        write_all(self._file, memoryview(directory.ljust(self._directory_bytes)))
        end = self._end
        checksums = np.array(list(_block_checksums(self._file, end)), "<u8").tobytes()
        os.lseek(self._file, end, os.SEEK_SET)
        write_all(self._file, memoryview(checksums))
        start = b"".join(
            (
                MAGIC,
                SEGMENT_VERSION.to_bytes(4, "little"),
                self._directory_bytes.to_bytes(4, "little"),
                (end + len(checksums)).to_bytes(8, "little"),
            )
        )
        rest = end.to_bytes(8, "little").ljust(HEADER_BYTES - 32, b"\0")
        checksum = xxhash.xxh64_intdigest(checksums + start + rest)
        os.pwrite(self._file, start + checksum.to_bytes(8, "little") + rest, 0)
        os.fsync(self._file)
        self._temporary.rename(self._path)

    def _put(self, content: bytes | memoryview) -> None:
        """Write at the end, and sync every `SYNC_BYTES`."""
        content = memoryview(content)
        for start in range(0, len(content), CALL_BYTES):
            piece = content[start : start + CALL_BYTES]
            write_all(self._file, piece)
            self._end += len(piece)
            self._num_unsynced += len(piece)
            if self._num_unsynced >= SYNC_BYTES:
                os.fdatasync(self._file)
                self._num_unsynced = 0


def _entry_bytes(name: str) -> int:
    """Return an upper bound of the bytes of an array's entry in the directory."""
    return len(name.encode()) + _ENTRY_BYTES_MAX


class Blocks(NamedTuple):
    """The checksums of a file's blocks, themselves verified."""

    checksums: Array
    end: int


def read_head(file: int, path: Path) -> Blocks | None:
    """Verify magic, version and size, and return the verified checksums of blocks.

    Returns:
        None for version 7, which has one checksum of the whole file.

    Raises:
        DamagedSegment: one of them is wrong.
    """
    header = os.pread(file, HEADER_BYTES, 0)
    if len(header) < HEADER_BYTES or header[:8] != MAGIC:
        raise DamagedSegment(f"{path.name}: not a segment file")
    version = int.from_bytes(header[8:12], "little")
    if not OLDEST_SEGMENT_VERSION <= version <= SEGMENT_VERSION:
        raise DamagedSegment(
            f"{path.name}: format version {version}, not {OLDEST_SEGMENT_VERSION} to "
            f"{SEGMENT_VERSION}"
        )
    size = int.from_bytes(header[16:24], "little")
    if os.fstat(file).st_size != size:
        raise DamagedSegment(f"{path.name}: {os.fstat(file).st_size} bytes instead of {size}")
    if version == _VERSION_WITHOUT_BLOCKS:
        return None
    end = int.from_bytes(header[32:40], "little")
    num_bytes = 8 * -(-end // BLOCK_BYTES)
    if end + num_bytes != size:
        raise DamagedSegment(f"{path.name}: {num_bytes} bytes of checksums cannot be at {end}")
    checksums = bytearray(num_bytes)
    read_all(file, memoryview(checksums), end)
    checksum = int.from_bytes(header[24:32], "little")
    if xxhash.xxh64_intdigest(checksums + header[:24] + header[32:]) != checksum:
        raise DamagedSegment(f"{path.name}: checksum differs")
    return Blocks(np.frombuffer(checksums, "<u8"), end)


def verify_blocks(file: int, path: Path, blocks: Blocks | None) -> None:
    """Read the whole file and compare its checksums.

    Raises:
        DamagedSegment: one of them differs.
    """
    if blocks is None:
        is_sound = _checksum_without_blocks(file) == os.pread(file, 8, 24)
    else:
        is_sound = all(
            found == expected
            for found, expected in zip(
                _block_checksums(file, blocks.end), blocks.checksums.tolist(), strict=True
            )
        )
    if not is_sound:
        raise DamagedSegment(f"{path.name}: checksum differs")


def _block_checksums(file: int, end: int) -> Iterator[int]:
    """Yield the checksums of the blocks before `end`; see the module's drawing."""
    pieces = _read_pieces(file, HEADER_BYTES, end)
    for _, block in itertools.groupby(pieces, lambda piece: piece[0] // BLOCK_BYTES):
        checksum = xxhash.xxh64()
        for _, piece in block:
            checksum.update(piece)
        yield checksum.intdigest()


def _checksum_without_blocks(file: int) -> bytes:
    """Return the checksum of a file of version 7, as its header must have it."""
    checksum = xxhash.xxh3_64()
    for _, piece in _read_pieces(file, 32, os.fstat(file).st_size):
        checksum.update(piece)
    checksum.update(os.pread(file, 24, 0))
    return checksum.intdigest().to_bytes(8, "little")


def _read_pieces(file: int, start: int, end: int) -> Iterator[tuple[int, memoryview]]:
    """Yield the offset and bytes of pieces of a file, none of which spans two blocks.

    The bytes are valid until the next ones are requested.
    """
    buffer = memoryview(bytearray(CALL_BYTES))
    while start < end:
        next_block = (start // BLOCK_BYTES + 1) * BLOCK_BYTES
        piece = buffer[: min(CALL_BYTES, next_block - start, end - start)]
        read_all(file, piece, start)
        yield start, piece
        start += len(piece)
