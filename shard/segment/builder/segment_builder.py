"""Builds a segment from a batch of items, structure by structure.

    items ── extract ──▶ values ─┬─ build_text      text.*   vocabulary, postings, positions
                                 ├─ build_columns   facet.* number.* presence.* ids.*
                                 ├─ ObjectColumns   geo.* nested.*, for points and nested objects
                                 └─                 docs.*   record and place

Cost: nearly all of it is text, see `text_builder`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from common.facet_dictionary import FacetDictionary
from shard.segment.builder.all_columns import build_columns
from shard.segment.columns.object_columns import ObjectColumns
from shard.segment.doc_records_and_places import build_doc_records
from shard.segment.field_registry import FieldRegistry
from shard.segment.items.value_extraction import Extraction, extract
from shard.segment.segment import Segment
from shard.segment.text.text_builder import build_text

if TYPE_CHECKING:
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
        return fields is None or any(field.covered((path,)) for field in fields)
