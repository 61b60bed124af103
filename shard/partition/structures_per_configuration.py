"""The structures that a shard derives from one configuration of an index: a generation.

A configuration that differs only in settings that act at query time shares its segments with the
previous one; another is indexed again (`shard.partition.reindex`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from common.facet_dictionary import FacetDictionary
from common.index_configuration import IndexConfiguration
from common.index_configuration_parser import parse_stored
from common.protocol.messages import IndexEntry
from common.search_option_parsers import ALL_FIELDS
from shard.segment.builder.segment_builder import SegmentBuilder
from shard.segment.field_registry import FieldRegistry


@dataclass(slots=True)
class Generation:
    """The structures that a shard derives from one configuration of an index.

    Attributes:
        entry: number, name, revision and configuration as posted.
        configuration: the same, parsed.
        registry: paths of fields; shared by all generations of an index.
        dictionaries: facet dictionaries by path.
        builder: builds segments with them.
    """

    entry: IndexEntry
    configuration: IndexConfiguration
    registry: FieldRegistry
    dictionaries: dict[str, FacetDictionary]
    builder: SegmentBuilder = field(init=False)

    def __post_init__(self) -> None:
        self.builder = SegmentBuilder(self.configuration, self.registry, self.dictionaries)

    @classmethod
    def make(
        cls,
        entry: IndexEntry,
        registry: FieldRegistry,
        known: Mapping[str, FacetDictionary] | None = None,
    ) -> Generation:
        """Parse a configuration; dictionaries that are not known yet start empty."""
        configuration = parse_stored(entry.configuration)
        known = known or {}
        dictionaries = {}
        for path in configuration.facets:
            dictionary = known.get(path)
            dictionaries[path] = FacetDictionary() if dictionary is None else dictionary
        return cls(entry, configuration, registry, dictionaries)

    def needs_reindex(self, other: IndexConfiguration) -> bool:
        """Return whether segments of this generation cannot serve another configuration."""
        return _structure_of(self.configuration) != _structure_of(other)


def _structure_of(configuration: IndexConfiguration) -> tuple[Any, ...]:
    """Return the settings that shape segments; the others act at query time."""
    searchable = configuration.searchable_fields
    paths = {ALL_FIELDS} if searchable is None else {one.path for one in searchable}
    return (
        tuple(configuration.facets),
        frozenset((ALL_FIELDS,) if ALL_FIELDS in paths else paths),
        frozenset(configuration.geo_fields),
        frozenset(configuration.nested),
    )
