"""What a response shows of facets: values, trees of them, and joint counts with a numeric field.

    FacetSpec    one facet: its settings, the order of its buckets, a search within its values
    TreeSpec     one category tree: the counts of its nodes, and which of them are shown
    CubeSpec     a numeric field, by whose bins everything else is counted

`facet_options`, `tree_options` and `facet_ranges_and_cube` read them; they are part of
`SearchParameters`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Final, Literal, TypeAlias

from msgspec import Struct, structs

from common.index_configuration import FacetConfiguration
from common.protocol.messages import FacetRequest, RangeRequest


class BucketOrder(Struct, frozen=True, dict=True):
    """How to choose and order the buckets of one facet."""

    keys: tuple[tuple[str, bool], ...] = (("selected", True), ("count", True), ("key", False))
    """(selected | count | key, is_descending), most significant first."""
    hides_zero: bool = False
    hides_chosen_zero: bool = False
    """Whether to leave out selected values without hits too: listing one reveals that some item has
    it, which a key with a filter must not learn."""
    collation: str = ""
    """Collation of the values as texts; empty: by code point."""

    @cached_property
    def is_by_count(self) -> bool:
        """Whether this is the usual order, which does not need to compare all values as texts."""
        return self.keys in (
            (("selected", True), ("count", True), ("key", False)),
            (("count", True), ("key", False)),
        )

    @cached_property
    def has_selected_on_top(self) -> bool:
        """Whether selected values come first."""
        return bool(self.keys) and self.keys[0][0] == "selected"


class FacetSummary(Struct, frozen=True):
    """Additional figures about a facet's values."""

    missing: bool = False
    """How many of the items that the facet counts have no value."""
    cardinality: bool = False
    """How many distinct values the hits have."""
    percentiles: tuple[float, ...] = ()
    """Percentiles of the numeric values within the hits."""
    fields: tuple[str, ...] = ()
    """Fields whose numbers are summed by value, over the items that the facet counts."""

    @property
    def is_of_values(self) -> bool:
        """Whether it needs the counts within the hits."""
        return self.cardinality or bool(self.percentiles)


NO_SUMMARY: Final = FacetSummary()


KeyTypos: TypeAlias = Literal["always", "unless_typed", "never"]
"""When a word that keys must have may have typos; "unless_typed": if no key has it as typed."""


ALL_LIVE: Final = 1 << 31
"""A `num_live_wanted` above any number of values."""


class FacetSpec(Struct, frozen=True, dict=True):
    """One facet to show in the response; made by `facet_spec`."""

    configuration: FacetConfiguration
    """The index's settings, overridden by the request's options."""
    order: BucketOrder
    """Order of its buckets, from these settings."""
    key_query: str | None = None
    """Only buckets whose key has a word that starts like this, typos tolerated."""
    offset: int = 0
    """Buckets to skip before listing `configuration.size`."""
    summary: FacetSummary = NO_SUMMARY
    key_typos: KeyTypos = "always"
    """When the words of `key_query` may have typos."""

    @cached_property
    def is_summed_up(self) -> bool:
        """Whether the facet needs counts within the hits (statistics, percentiles, …)."""
        return self.configuration.show_facet_stats or self.summary.is_of_values

    @cached_property
    def request(self) -> FacetRequest:
        """What to count if no value of the facet is selected and no filter is its own.

        `num_live_wanted` is how many buckets may be shown: a shard that finds fewer values among
        the hits reports which others are live, since these may be listed with zero. An order by
        key can need any value.
        """
        settings = self.configuration
        if settings.hide_zero:
            num_live_wanted = 0
        elif self.key_query or not self.order.is_by_count:
            num_live_wanted = ALL_LIVE
        else:
            num_live_wanted = self.offset + settings.size
        return FacetRequest(
            settings.field, False, num_live_wanted, wants_missing=self.summary.missing
        )


def facet_spec(
    configuration: FacetConfiguration,
    key_query: str | None = None,
    offset: int = 0,
    summary: FacetSummary = NO_SUMMARY,
) -> FacetSpec:
    """Return the request for a facet."""
    order = BucketOrder(
        configuration.sort, configuration.hide_zero, collation=configuration.collation
    )
    return FacetSpec(configuration, order, key_query, offset, summary)


def without_zeros(spec: FacetSpec) -> FacetSpec:
    """Return the request restricted to values with hits."""
    return FacetSpec(
        dataclasses.replace(spec.configuration, hide_zero=True),
        structs.replace(spec.order, hides_zero=True, hides_chosen_zero=True),
        spec.key_query,
        spec.offset,
        spec.summary,
        spec.key_typos,
    )


def with_ancestors(nodes: Iterable[str], separator: str) -> Iterator[str]:
    """Yield nodes of a tree and all their ancestors."""
    for node in nodes:
        names = node.split(separator)
        for depth in range(len(names)):
            yield separator.join(names[: depth + 1])


def level_of(node: str, separator: str, num_levels: int) -> int:
    """Return the level of a tree that has a node: its depth; the last level has all deeper ones."""
    return min(node.count(separator), num_levels - 1)


class TreeSpec(Struct, frozen=True):
    """One tree to show in the response."""

    name: str
    separator: str
    requests: tuple[RangeRequest, ...]
    """Requests for the counts of its nodes: one per level, or one for all."""
    size: int
    """Most children to show of a node; those on the path to chosen or opened nodes are always
    shown."""
    chosen: frozenset[str]
    """Nodes selected in `filters`."""
    opened: frozenset[str]
    """Nodes whose children to show, in addition to those on the path to chosen nodes."""

    def has_node(self, node: str, at: int) -> bool:
        """Return whether a value counted by one of the requests is a node of that level."""
        return level_of(node, self.separator, len(self.requests)) == at


class CubeSpec(Struct, frozen=True):
    """Joint counts of a numeric field with the facets, ranges and trees of the response."""

    field: str
    edges: tuple[int | float, ...] = ()
    """Edges of the bins, ascending; empty: they follow from `interval`."""
    interval: int | float | None = None
    """Width of the bins, which then reach from the least to the greatest number of the hits."""
