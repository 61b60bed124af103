"""The segment: an immutable bundle of named arrays over a run of documents.

The structures that build and read the arrays know their meaning; here they are names, types and
bytes.

    name                        by
    docs.*                      doc_records_and_places
    ids.*                       external_ids
    text.*                      text_index
    facet.<field number>.*      facet_columns
    number.<field number>.*     number_columns
    presence.*                  presence_and_value_kinds
    geo.<field number>.*        geo_columns
    nested.<field number>.*     nested_elements
    texts.*                     text_ordinal_files, in files of their own

A segment lives in memory only (a batch that was just written) or in a file (`segment_file`), which
it maps. The mapping is private and copy-on-write, so its arrays have the same (writable) type as
arrays in memory, which the kernels need; no code writes to them.

Costs: open = one sequential read of the file at 3-8 GB/s, or of the checksums of blocks (32 bytes a
MiB), plus one `numpy.frombuffer` an array (1 µs); access = none; memory = pages that were touched.
"""

from __future__ import annotations

import itertools
import math
import mmap
import re
import threading
from collections.abc import Hashable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

import numpy as np
import orjson

from common.disk_errors import SHORTAGES
from common.process.mapped_pages import WHOLE_FILE, FilePart
from shard.segment.lazy_verification import LazyVerification, watch
from shard.segment.segment_file import (
    BLOCK_BYTES,
    HEADER_BYTES,
    Array,
    DamagedSegment,
    SegmentWriter,
    read_head,
    verify_blocks,
)

G = TypeVar("G", bound=NamedTuple)

LAZY_VERIFICATION_BYTES_MIN = 4 << 20
"""Smaller files are verified when they are opened: that takes 1 ms, or 10 ms from the disk."""
EXIT_DAMAGED = 71
"""Status of a process that met a damaged block of a file that it had mapped."""

_SEARCHED: Final = re.compile(r"text\.lengths|facet\.\d+\.(codes|starts)")
"""Long arrays: any search of text with facets reads in all parts of them."""

_uids = itertools.count(1)


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
        text_files: by field: the file that has its text column, of those that have been made
            (`text_ordinal_files`).
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

    def release_pages(self, part: FilePart = WHOLE_FILE) -> None:
        """Release the resident pages of a part; see `shard.storage.mapped_page_release`."""
        if self._mapping is not None:
            start, length = part.range_in(len(self._mapping))
            if length:
                self._mapping.madvise(mmap.MADV_DONTNEED, start, length)
        for file in list(self.text_files.values()):
            file.release_pages(part)

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
                blocks = read_head(file.fileno(), path)
                if blocks is None or not on_first_touch or blocks.end < LAZY_VERIFICATION_BYTES_MIN:
                    verify_blocks(file.fileno(), path, blocks)
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
                    verify_blocks(file.fileno(), path, blocks)
                return cls._from_buffer(mapping, path, verification)
        except OSError as error:
            if error.errno in SHORTAGES:
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
