"""Builds a segment from a batch of items, or from several segments, structure by structure.

    items ── extract ──▶ values ─┬─ build_text      text.*   vocabulary, postings, positions
                                 ├─ build_columns   facet.* number.* presence.* ids.*
                                 ├─ ObjectColumns   geo.* nested.*, for points and nested objects
                                 └─                 docs.*   record and place

    segments ── doc maps ──▶ merge_* of each, as arrays: no item is parsed again; each structure
                             goes to the file as soon as it is merged, unless all stay in memory

A doc map gives each document of a part its ordinal in the result, or -1 if it is dropped. It is
monotone, and the parts are consecutive, so the result has its documents in the order of their
records, as every segment does.

Cost: nearly all of it is text, see `text_builder` and `text_merge`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from common.facet_dictionary import FacetDictionary
from shard.segment.builder.all_columns import build_columns, merge_columns
from shard.segment.columns.object_columns import ObjectColumns, merge_object_columns
from shard.segment.doc_records_and_places import TABLE_NAMES, build_doc_records, merge_doc_records
from shard.segment.facet_value_sets import StoredSets
from shard.segment.field_registry import FieldRegistry
from shard.segment.items.value_extraction import Extraction, extract
from shard.segment.merge_allocator import IN_MEMORY, MergeAllocator, count_kept
from shard.segment.segment import Segment, SegmentWriter
from shard.segment.text.text_builder import build_text
from shard.segment.text.text_merge import merge_text

if TYPE_CHECKING:
    from pathlib import Path

    from common.index_configuration import IndexConfiguration


class SegmentBuilder:
    """Builds the segments of one index under one configuration; used by one thread at a time.

    Args:
        configuration: which fields are facets, which are searched.
        registry: the index's paths; grows.
        dictionaries: of each facet, by path; they grow.
    """

    def __init__(
        self,
        configuration: IndexConfiguration,
        registry: FieldRegistry,
        dictionaries: Mapping[str, FacetDictionary],
    ) -> None:
        self._configuration = configuration
        self._registry = registry
        self._facets = {registry.register(path): one for path, one in dictionaries.items()}
        self._is_searchable = np.zeros(0, np.bool_)
        self._object_columns = ObjectColumns(configuration, registry)

    def extract(
        self, payload: NDArray[np.uint8], starts: NDArray[np.int64], ends: NDArray[np.int64]
    ) -> Extraction:
        """Return the values of items; see `extraction.extract`.

        Objects are recorded only if some field needs them. Whether the first such item has arrived
        shows only after its extraction, which is then repeated with objects.
        """
        wants_objects = self._object_columns.are_wanted
        extraction = extract(payload, starts, ends, self._registry, wants_objects=wants_objects)
        if not wants_objects and self._object_columns.are_wanted:
            extraction = extract(payload, starts, ends, self._registry, wants_objects=True)
        return extraction

    def build(
        self, extraction: Extraction, records: NDArray[np.uint64], places: NDArray[np.uint64]
    ) -> Segment:
        """Build a segment.

        Args:
            extraction: the values of the items.
            records: record number of each, ascending.
            places: insertion number of each.
        """
        arrays, facts = build_doc_records(places, records)
        arrays |= build_text(extraction, self._searchable())
        arrays |= build_columns(extraction, self._facets)
        arrays |= self._object_columns.build(extraction, self._facets)
        return Segment(arrays, num_docs=len(records), meta=facts)

    def _searchable(self) -> NDArray[np.bool_]:
        """Return, by field number, whether the field's texts are searched."""
        known = len(self._is_searchable)
        if known < self._registry.num_fields:
            fresh = [self._is_searched(path) for path in self._registry.paths[known:]]
            self._is_searchable = np.concatenate((self._is_searchable, np.array(fresh, np.bool_)))
        return self._is_searchable

    def _is_searched(self, path: str) -> bool:
        """Return whether a path, or an object around it, is among the searchable fields."""
        fields = self._configuration.searchable_fields
        if fields is None:
            return True
        return any(path == field.path or path.startswith(field.path + ".") for field in fields)


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
