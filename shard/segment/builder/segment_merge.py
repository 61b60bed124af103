"""Merges segments into one, structure by structure.

    segments ── doc maps ──▶ merge_* of each, as arrays: no item is parsed again; each structure
                             goes to the file as soon as it is merged, unless all stay in memory

A doc map gives each document of a part its ordinal in the result, or -1 if it is dropped. It is
monotone, and the parts are consecutive, so the result has its documents in the order of their
records, as every segment does.

Cost: nearly all of it is text, see `text_merge`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from shard.segment.builder.all_columns import merge_columns
from shard.segment.columns.object_columns import merge_object_columns
from shard.segment.doc_records_and_places import TABLE_NAMES, merge_doc_records
from shard.segment.facet_value_sets import StoredSets
from shard.segment.merge_allocator import IN_MEMORY, MergeAllocator, count_kept
from shard.segment.segment import Segment
from shard.segment.segment_file import SegmentWriter
from shard.segment.text.text_merge import merge_text

if TYPE_CHECKING:
    from pathlib import Path


def merge_segments(parts: Sequence[Segment], doc_maps: Sequence[NDArray[np.int64]]) -> Segment:
    """Merge segments into one in memory.

    Args:
        parts: in the order of their records.
        doc_maps: by part: new ordinal of each document, or -1.
    """
    num_docs = sum(count_kept(doc_map, IN_MEMORY) for doc_map in doc_maps)
    arrays, facts = merge_doc_records(parts, doc_maps, num_docs, IN_MEMORY)
    for more in _merge_arrays(parts, doc_maps, num_docs, IN_MEMORY):
        arrays |= more
    return Segment(arrays, num_docs=num_docs, meta=facts)


def merge_to_file(
    parts: Sequence[Segment],
    doc_maps: Sequence[NDArray[np.int64]],
    path: Path,
    allocator: MergeAllocator,
) -> None:
    """Merge segments into one in a file, in memory that does not grow with them.

    Each structure is written as soon as it is merged; `merge_allocator` says what it needs until
    then.

    Args:
        parts: in the order of their records.
        doc_maps: by part: new ordinal of each document, or -1.
        path: of the file.
        allocator: makes the large arrays.

    Raises:
        OSError: the disk is full, or the device failed; nothing is left under `path`.
    """
    num_docs = sum(count_kept(doc_map, allocator) for doc_map in doc_maps)
    with SegmentWriter(path, _possible_names(parts)) as writer:
        docs, facts = merge_doc_records(parts, doc_maps, num_docs, allocator)
        writer.write(docs)
        del docs
        for arrays in _merge_arrays(parts, doc_maps, num_docs, allocator):
            writer.write(arrays)
        writer.finish(num_docs, facts)


def _merge_arrays(
    parts: Sequence[Segment],
    doc_maps: Sequence[NDArray[np.int64]],
    num_docs: int,
    allocator: MergeAllocator,
) -> Iterator[dict[str, NDArray[Any]]]:
    """Yield the arrays of a merged segment but docs.*, structure by structure."""
    yield from merge_text(parts, doc_maps, num_docs, allocator)
    yield from merge_columns(parts, doc_maps, num_docs, allocator)
    yield from merge_object_columns(parts, doc_maps, num_docs, allocator)


def _possible_names(parts: Sequence[Segment]) -> set[str]:
    """Return the names of all arrays that a merged segment may have.

    Those of its parts, and more: it may be large enough for stored sets, and a column of numbers or
    points may change its form.
    """
    names = {name for part in parts for name in part} | TABLE_NAMES
    for name in list(names):
        stem, _, last = name.rpartition(".")
        more: tuple[str, ...] = ()
        if last == "codes":
            more = StoredSets._fields
        elif last == "values":
            more = ("docs", "residuals")
        elif last == "lats":
            more = ("docs",)
        names.update(f"{stem}.{one}" for one in more)
    return names


def make_doc_maps(
    parts: Sequence[Segment],
    dropped: Sequence[NDArray[np.uint32] | None],
    allocator: MergeAllocator = IN_MEMORY,
) -> list[NDArray[np.int64]]:
    """Return the doc maps of parts without their dropped documents.

    Args:
        parts: in the order of their records.
        dropped: by part: ordinals of documents to drop, or None.
        allocator: makes the large maps.
    """
    doc_maps = []
    first = 0
    for part, gone in zip(parts, dropped, strict=True):
        doc_map = allocator.zeros(part.num_docs, np.int64)
        if gone is not None:
            doc_map[gone] = -1
        for rows in allocator.pieces(part.num_docs):
            keep = doc_map[rows] == 0
            ordinals = np.cumsum(keep, dtype=np.int64) + (first - 1)
            doc_map[rows] = np.where(keep, ordinals, -1)
            first += int(np.count_nonzero(keep))
        doc_maps.append(doc_map)
    return doc_maps
