"""The segment: an immutable bundle of named arrays over a run of documents.

Questions it answers: which arrays describe these documents, and can the file that holds them be
trusted? The structures that build and read the arrays know their meaning; here they are names,
types and bytes.

    name                        by
    docs.*                      doc_records_and_places
    ids.*                       external_ids
    text.*                      text_index
    facet.<field number>.*      facet_columns
    number.<field number>.*     number_columns
    presence.*                  presence_and_value_kinds
    geo.<field number>.*        geo_columns
    nested.<field number>.*     nested_elements
    texts.*                     text_columns, in files of their own

A segment lives in memory only (a batch that was just written) or in a file. The file:

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
each block verified when it is first touched (`lazy_verification.py`). The mapping is private and
copy-on-write, so its arrays have the same (writable) type as arrays in memory, which the kernels
need; no code writes to them.

Costs: open = one sequential read of the file at 3-8 GB/s, or of the checksums of blocks (32 bytes a
MiB), plus one `numpy.frombuffer` an array (1 µs); access = none; memory = pages that were touched.

Worked example: 2 documents, arrays docs.record = [0, 2] and ids.hash = [1, 2]: directory of about
150 bytes at 64, docs.record at 256, ids.hash at 320, one checksum at 336, file size 344.
"""

from __future__ import annotations

import errno
import itertools
import math
import mmap
import os
import re
import threading
from collections.abc import Hashable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple, Self, TypeAlias, TypeVar

import numpy as np
import orjson
import xxhash
from numpy.typing import NDArray

from common.chunked_io import CALL_BYTES, read_all, write_all
from shard.segment.lazy_verification import LazyVerification, watch

Array: TypeAlias = NDArray[Any]
G = TypeVar("G", bound=NamedTuple)

MAGIC = b"FACETSEG"
SEGMENT_VERSION = 9
OLDEST_SEGMENT_VERSION = 7
"""Files from this version on are read; older ones are built again from the stored items."""
_VERSION_WITHOUT_BLOCKS = 7
ALIGNMENT = 64
HEADER_BYTES = 64
BLOCK_BYTES = 256 << 10
"""Bytes with a checksum of their own: the first search that touches a block waits for all of it."""
LAZY_VERIFICATION_BYTES_MIN = 4 << 20
"""Smaller files are verified when they are opened: that takes 1 ms, or 10 ms from the disk."""
EXIT_DAMAGED = 71
"""Status of a process that met a damaged block of a file that it had mapped."""
SYNC_BYTES = 8 << 20
"""Bytes written between two syncs: a commit waits for all writes that the disk got before it."""

_ENTRY_BYTES_MAX = 72
"""One entry of the directory: two lengths and an offset of 20 digits, a type, and separators."""
_FACTS_BYTES_MAX = 256
"""The part of the directory that describes no array."""

_RAN_OUT: Final = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)
"""Descriptors or memory ran out: such an error says nothing about a file."""

_SEARCHED: Final = re.compile(r"text\.lengths|facet\.\d+\.(codes|starts)")
"""Long arrays: any search of text with facets reads in all parts of them."""

_uids = itertools.count(1)


class DamagedSegment(Exception):
    """The file is not a whole segment of a known version; rebuild it from the stored items."""


def name_group(prefix: str, group: NamedTuple) -> dict[str, Array]:
    """Return the arrays of a named tuple, keyed by prefix and member name."""
    return {f"{prefix}.{name}": array for name, array in group._asdict().items()}


def fields_of(parts: Iterable[Segment], structure: str, array: str) -> list[int]:
    """Return the fields that have a structure in some segment: `structure`.<field>.`array`."""
    numbers = set[int]()
    for part in parts:
        for name in part:
            head, _, rest = name.partition(".")
            field, _, last = rest.partition(".")
            if head == structure and last == array:
                numbers.add(int(field))
    return sorted(numbers)


class Segment:
    """Named arrays over `num_docs` documents; see the module's drawing.

    Attributes:
        num_docs: number of documents, deleted ones included; ordinals are [0, num_docs).
        meta: small facts besides the arrays (flags, sums), of JSON types.
        uid: unique in this process, never reused: a key for caches.
        path: the file, or None while the segment lives in memory.
        size: bytes of all arrays.
        checksum: of the file, in hexadecimal; empty while the segment lives in memory.
        caches: structures that readers build lazily and that depend on the segment only.
        text_files: by field: the file that has its text column, of those that searches have made
            (`text_column_files`).
    """

    __slots__ = (
        "__weakref__",  # so that caches can drop what is derived from a segment that is gone
        "_arrays",
        "_mapping",
        "_verification",
        "caches",
        "checksum",
        "meta",
        "num_docs",
        "path",
        "size",
        "text_files",
        "uid",
    )

    def __init__(
        self,
        arrays: Mapping[str, Array],
        *,
        num_docs: int,
        meta: Mapping[str, Any] | None = None,
        path: Path | None = None,
        checksum: str = "",
        mapping: mmap.mmap | None = None,
        verification: LazyVerification | None = None,
    ) -> None:
        self._arrays = dict(arrays)
        self._mapping = mapping
        self._verification = verification
        self.num_docs = num_docs
        self.meta = dict(meta or {})
        self.path = path
        self.checksum = checksum
        self.uid = next(_uids)
        self.size = sum(array.nbytes for array in self._arrays.values())
        self.caches: dict[Hashable, Any] = {}
        self.text_files: dict[int, Segment] = {}

    def __getitem__(self, name: str) -> Array:
        return self._arrays[name]

    def __contains__(self, name: object) -> bool:
        return name in self._arrays

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def get(self, name: str) -> Array | None:
        """Return the array, or None if the segment has none of that name."""
        return self._arrays.get(name)

    def group(self, kind: type[G], prefix: str) -> G:
        """Return the arrays named like the members of a tuple type, after a prefix."""
        return kind._make(self._arrays[f"{prefix}.{name}"] for name in kind._fields)

    def release_pages(self) -> None:
        """Release the file's resident pages; see `shard.storage.mapped_page_release`."""
        if self._mapping is not None:
            self._mapping.madvise(mmap.MADV_DONTNEED)
        for file in list(self.text_files.values()):
            file.release_pages()

    @property
    def is_verified(self) -> bool:
        """Whether opening the file, or `verify_all`, has verified all blocks."""
        return self._verification is None or self._verification.is_done

    def verify_searched(self, is_stopping: threading.Event | None = None) -> None:
        """Verify the arrays that most searches read, and thereby read them from the disk.

        Otherwise as `verify_all`.
        """
        if self._verification is not None:
            self._verification.verify_spans(self._searched_spans(), is_stopping)

    def _searched_spans(self) -> list[tuple[int, int]]:
        """Return the spans [start, end) of the arrays that most searches read, in bytes.

        These are the short ones, which lead to the entries of the others, and those that are read
        by document, in all of their blocks.
        """
        assert self._mapping is not None, "it is in memory"
        base = np.frombuffer(self._mapping, np.uint8).ctypes.data
        spans = []
        for name, array in self._arrays.items():
            if array.nbytes <= BLOCK_BYTES or _SEARCHED.fullmatch(name):
                start = array.ctypes.data - base
                spans.append((start, start + array.nbytes))
        return spans

    def verify_all(self, is_stopping: threading.Event | None = None) -> None:
        """Verify all blocks that no thread has touched yet; in memory, or verified: do nothing.

        A damaged block ends the process. Once `is_stopping` is set, it returns early.
        """
        if self._verification is not None:
            self._verification.verify_all(is_stopping)

    def remapped(self) -> Segment:
        """Verify the segment, and return it with a mapping of its own for one sequential pass.

        The kernel reads ahead for that mapping, and does not mark its pages as used, so the pages
        that searches use stay in memory. Of a segment in memory, or whose file is gone, it returns
        the segment itself.
        """
        if self.path is None:
            return self
        self.verify_all()
        try:
            mapping = _map(self.path)
        except FileNotFoundError:
            return self
        mapping.madvise(mmap.MADV_SEQUENTIAL)
        return self._from_buffer(mapping, self.path)

    def write(self, path: Path) -> None:
        """Write the segment under a temporary name, sync it and rename it.

        The directory entry is not synced here: the manifest that names the file syncs the folder.

        Raises:
            OSError: the disk is full, or the device failed; nothing is left under `path`.
        """
        with SegmentWriter(path, self._arrays) as writer:
            writer.write(self._arrays)
            writer.finish(self.num_docs, self.meta)

    @classmethod
    def open(cls, path: Path, *, on_first_touch: bool = False) -> Segment:
        """Verify a segment file and map it.

        Args:
            path: of the file.
            on_first_touch: let the blocks of a large file be verified when they are first touched,
                if possible; a damaged one then ends the process (`lazy_verification.py`).

        Raises:
            DamagedSegment: the file is truncated, changed, of another version, or missing, as far
                as it is verified here.
            OSError: descriptors or memory ran out, which says nothing about the file.
        """
        try:
            with path.open("rb", buffering=0) as file:
                blocks = _read_head(file.fileno(), path)
                if blocks is None or not on_first_touch or blocks.end < LAZY_VERIFICATION_BYTES_MIN:
                    _verify(file.fileno(), path, blocks)
                    return cls.map(path)
                mapping = _map(path)
                verification = watch(
                    mapping,
                    path,
                    blocks.checksums.tobytes(),
                    first=HEADER_BYTES,
                    end=blocks.end,
                    block_bytes=BLOCK_BYTES,
                    exit_status=EXIT_DAMAGED,
                )
                if verification is None:
                    _verify(file.fileno(), path, blocks)
                return cls._from_buffer(mapping, path, verification)
        except OSError as error:
            if error.errno in _RAN_OUT:
                raise
            raise DamagedSegment(f"{path.name}: {error.strerror}") from error

    @classmethod
    def map(cls, path: Path) -> Segment:
        """Map a segment file that this process has verified or written.

        Raises:
            OSError: the file is missing, or cannot be mapped.
        """
        return cls._from_buffer(_map(path), path)

    @classmethod
    def _from_buffer(
        cls, mapping: mmap.mmap, path: Path, verification: LazyVerification | None = None
    ) -> Segment:
        directory_size = int.from_bytes(mapping[12:16], "little")
        directory = orjson.loads(mapping[HEADER_BYTES : HEADER_BYTES + directory_size])
        arrays = {}
        for name, dtype, shape, offset in directory["arrays"]:
            count = math.prod(shape)
            flat = np.frombuffer(mapping, dtype, count, offset)
            arrays[name] = flat if len(shape) == 1 else flat.reshape(shape)
        return cls(
            arrays,
            num_docs=directory["num_docs"],
            meta=directory["meta"],
            path=path,
            checksum=mapping[24:32].hex(),
            mapping=mapping,
            verification=verification,
        )


def _map(path: Path) -> mmap.mmap:
    with path.open("rb", buffering=0) as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)


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
            _verify(file.fileno(), path, _read_head(file.fileno(), path))
            if os.pread(file.fileno(), 8, 24).hex() != checksum:
                raise DamagedSegment(f"{path.name}: not the file that the manifest names")
    except OSError as error:
        if error.errno in _RAN_OUT:
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


class _Blocks(NamedTuple):
    """The checksums of a file's blocks, themselves verified."""

    checksums: Array
    end: int


def _read_head(file: int, path: Path) -> _Blocks | None:
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
    return _Blocks(np.frombuffer(checksums, "<u8"), end)


def _verify(file: int, path: Path, blocks: _Blocks | None) -> None:
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
