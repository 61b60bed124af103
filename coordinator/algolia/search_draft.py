"""The draft of a search in Algolia's protocol, while its parameters are being read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from common.index_configuration import GEO_FIELD, IndexConfiguration
from common.limits import Limits
from common.query_syntax_tree import Filter
from coordinator.algolia.filters import FacetFilter
from coordinator.parameters.request_decoding import RawParameters

HITS_PER_PAGE: Final = 20
VALUES_PER_FACET: Final = 100


class Condition(NamedTuple):
    """A filter, and the parameter that it comes from."""

    filter: Filter
    param: str
    facet: str | None = None
    """The facet whose counts leave it out, if one does."""


class AlgoliaDraft:
    """What the parameters of one search have said so far.

    Attributes:
        configuration: of the index.
        settings: of the index, as Algolia names them.
        limits: on sizes and counts.
        raw: parameters of ours.
        style: members of the response's `Style`.
        conditions: filters that all hits must pass.
        counts_groups: whether facets count groups instead of hits.
        geo_field: the field of points.
        around: point by whose distance hits are sorted.
        radius: metres around it that hits must be in; None: everywhere.
        areas: each with its parameter; a hit's point must be in one.
        groups: `facetFilters`: of each group one must hold.
        facet_names: facets to count.
        options: of every facet.
        skip: hits to leave out (`offset`).
        length: hits to return with it.
        has_syntax: whether quotes and dashes in the query have a meaning.
        optional_words: folded to lower case.
        marks: fields to highlight; ["*"]: all.
        snippets: fields to cut snippets from.
        ellipsis: where a snippet was cut.
        warnings: for the response.
    """

    def __init__(
        self, configuration: IndexConfiguration, settings: Mapping[str, Any], limits: Limits
    ):
        self.configuration = configuration
        self.settings = settings
        self.limits = limits
        self.raw: RawParameters = {"query": "", "per_page": HITS_PER_PAGE}
        self.style: dict[str, Any] = {"geo_field": next(iter(configuration.geo_fields), None)}
        self.conditions: list[Condition] = []
        self.counts_groups = False
        self.geo_field = next(iter(configuration.geo_fields), GEO_FIELD)
        self.around: tuple[float, float] | None = None
        self.radius: float | None = None
        self.areas: list[tuple[Filter | None, str]] = []
        self.groups: list[list[FacetFilter]] = []
        self.facet_names: list[str] = []
        self.options: dict[str, Any] = {
            "size": VALUES_PER_FACET,
            "hide_zero": True,
            "stats": True,
            "sort": ["count:desc", "key:asc"],
        }
        self.skip: int | None = None
        self.length: int | None = None
        self.has_syntax = True
        self.optional_words: list[str] = []
        self.marks: list[str] = ["*"]
        self.snippets: list[str] = []
        self.ellipsis = "…"
        self.warnings: list[str] = []
