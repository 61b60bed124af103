"""The columns of fields that hold objects: points (`geo_columns`), nested ones (`nested_elements`).

An index with neither has none of their arrays, and extracts its values without recording objects.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from shard.segment.columns.geo_columns import build_points, merge_points
from shard.segment.columns.nested_elements import (
    build_elements,
    elements_of,
    inner_fields,
    merge_elements,
)
from shard.segment.merge_state import MergeState

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from common.facet_dictionary import FacetDictionary
    from common.index_configuration import IndexConfiguration
    from shard.segment.field_registry import FieldRegistry
    from shard.segment.items.value_extraction import Extraction


class ObjectColumns:
    """Builds the columns of those fields of one index that hold objects.

    Args:
        configuration: which fields hold points, which nested objects.
        registry: the index's paths; grows.
    """

    def __init__(self, configuration: IndexConfiguration, registry: FieldRegistry) -> None:
        self._configuration = configuration
        self._registry = registry
        self._num_fields = -1
        self._points: dict[int, tuple[int, int, NDArray[np.bool_]]] = {}
        self._nested: dict[int, NDArray[np.bool_]] = {}

    @property
    def are_wanted(self) -> bool:
        """Whether any item so far may have points or nested objects."""
        self._look_up()
        return bool(self._points or self._nested)

    def build(
        self, extraction: Extraction, facet_fields: Mapping[int, FacetDictionary]
    ) -> dict[str, NDArray[Any]]:
        """Build the columns of a batch.

        Args:
            extraction: the values of the batch; extracted without objects if it has no such field.
            facet_fields: dictionary of every facet, by field number; it has the batch's values.
        """
        arrays: dict[str, NDArray[Any]] = {}
        if not len(extraction.parents):
            return arrays
        self._look_up()
        for field, (lat_field, lng_field, inner) in self._points.items():
            elements = elements_of(extraction, field, inner)
            if len(elements.docs):
                arrays |= build_points(elements, field, lat_field, lng_field, extraction.num_docs)
        if self._nested:
            arrays |= build_elements(extraction, self._nested, facet_fields)
        return arrays

    def _look_up(self) -> None:
        """Update the numbers of these fields, if there are new paths."""
        registry = self._registry
        if registry.num_fields == self._num_fields:
            return
        self._num_fields = registry.num_fields
        for path in self._configuration.geo_fields:
            numbers = [registry.number(name) for name in (path, f"{path}.lat", f"{path}.lng")]
            if None not in numbers:
                field, lat_field, lng_field = (int(number or 0) for number in numbers)
                inner = inner_fields(registry.paths, path)
                self._points[field] = lat_field, lng_field, inner
        for path in self._configuration.nested:
            number = registry.number(path)
            if number is not None:
                self._nested[number] = inner_fields(registry.paths, path)


def merge_object_columns(state: MergeState) -> Iterator[dict[str, NDArray[Any]]]:
    """Merge the columns of these fields; see `builder.all_columns.merge_columns`."""
    yield from merge_points(state)
    yield from merge_elements(state)
