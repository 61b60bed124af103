"""The draft of a search: what its parameters have said so far, while the rest is being read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from coordinator.parameters.filter_clauses import Conditions

if TYPE_CHECKING:
    from collections.abc import Mapping

    from common.index_configuration import FacetConfiguration, IndexConfiguration
    from common.limits import Limits
    from coordinator.parameters.facet_options import FacetOptions
    from coordinator.parameters.facet_specs import CubeSpec


class SearchDraft:
    """What has been read of one request.

    Attributes:
        configuration: of the index.
        limits: on sizes and counts.
        values: members of `SearchParameters` that one parameter decides alone.
        facets: the index's facets, with the options of the request.
        facet_options: by facet, as given.
        field_facets: facets of the request alone, by field.
        facet_fields: names of the facets to show; None: all.
        ranges: (field, options) of each field whose ranges are counted.
        cube: the field counted together with the facets.
        sort_field: the parameter of that name.
        conditions: filters, and the chosen nodes of trees.
        marks: options of highlights and snippets.
    """

    __slots__ = (
        "conditions",
        "configuration",
        "cube",
        "facet_fields",
        "facet_options",
        "facets",
        "field_facets",
        "limits",
        "marks",
        "ranges",
        "sort_field",
        "values",
    )

    def __init__(self, configuration: IndexConfiguration, limits: Limits) -> None:
        self.configuration = configuration
        self.limits = limits
        self.values: dict[str, Any] = {}
        self.facets: Mapping[str, FacetConfiguration] = configuration.facets
        self.facet_options: Mapping[str, FacetOptions] = {}
        self.field_facets: Mapping[str, FacetConfiguration] = {}
        self.facet_fields: list[str] | None = None
        self.ranges: list[tuple[str, dict[str, Any]]] = []
        self.cube: CubeSpec | None = None
        self.sort_field: str | None = None
        self.conditions = Conditions(configuration, limits)
        self.marks: dict[str, Any] = {}

    @property
    def is_strict(self) -> bool:
        """Whether every count is of the hits, with all filters."""
        return bool(self.values.get("is_strict"))
