"""Parameters: what a request asks for, frozen and typed; what `request_parsing` returns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias

from msgspec import Struct, structs

from common.analysis.typo_budget import TYPO_LENGTHS_DEFAULT
from common.boosts import Boost
from common.curation_rules import Rule
from common.index_configuration import FacetConfiguration
from common.protocol.messages import (
    Distinct,
    FilterClause,
    FilterFactor,
    HighlightRequest,
    Pin,
    RangeRequest,
    SortKey,
)
from common.query_syntax_tree import AllOf, AnyOf, Filter, Range, Same
from common.search_option_parsers import PrefixMode, SearchableField, TypoMode
from coordinator.parameters.facet_specs import CubeSpec, FacetSpec, TreeSpec
from coordinator.parameters.field_needs import (
    BOOST,
    NUMBERS,
    FieldNeed,
    bits,
    kinds_counted,
)
from coordinator.parameters.filter_objects import area_fields_of, comparisons_of
from coordinator.parameters.request_decoding import RawParameters

PER_PAGE_DEFAULT: Final = 10
"""Hits or buckets per page."""
SUGGESTIONS_DEFAULT: Final = 8


class NamedField(NamedTuple):
    """A field, and the place of the request that names it."""

    param: str
    field: str


def overlap(one: str, other: str) -> bool:
    """Return whether two paths of fields are the same, or one is inside the other."""
    return one == other or one.startswith(f"{other}.") or other.startswith(f"{one}.")


QueryKey: TypeAlias = tuple[
    str, str, bool, PrefixMode, TypoMode, tuple[int, int], int, tuple[SearchableField, ...] | None
]
"""Everything in a request that its scored query depends on, besides the index and the horizon."""


class SearchParameters(Struct, frozen=True, kw_only=True, dict=True):
    """One search, validated except for what only the data knows (see `filter_fields`, `sort`)."""

    query: str = ""
    """Full text as typed."""
    match: str = "all"
    """From the request, else the index: "all", "any", "last", "75%", "auto"."""
    drops_function_words: bool = False
    """Whether function words of the query are dropped: one of the steps of `match` "auto"."""
    prefix: PrefixMode = "last"
    """From the request, else the index."""
    typo: TypoMode = "auto"
    """From the request, else the index."""
    typo_lengths: tuple[int, int] = TYPO_LENGTHS_DEFAULT
    """From the request, else the index."""
    infix: int = 0
    """Where words are found inside others, from the request, else the index: `Word.infix`."""
    search_fields: tuple[SearchableField, ...] | None = None
    """From the request, else the index's searchable fields; None: every string."""
    named_search_fields: tuple[SearchableField, ...] = ()
    """What `search_fields` of the request names; empty: nothing."""
    page: int = 1
    per_page: int = PER_PAGE_DEFAULT
    skip: int = 0
    """Hits to skip before the first page."""
    filters: tuple[FilterClause, ...] = ()
    """All restrictions, ANDed: from `filters`, `not_filters`, `filter` and the API key. A clause of
    `filters` on a disjunctive facet names that field in `facet`. So does one on a field that is not
    a facet (which matches any of several values, as a disjunctive facet does) if `ranges` names
    it."""
    key_filter: Filter | None = None
    """The filter of the caller's API key; it is among `filters`, too. Then nothing in a response
    may depend on the items it hides: document frequencies and weights of words come from the
    others, values without hits are never listed, and a field that no item has is not an error."""
    filter_fields: Mapping[str, str] = MappingProxyType({})
    """Restricted fields that are not facets, with the parameter that names them ("filters.year",
    "filter"): if such a field has no scalar values either, the request is wrong."""
    tested_fields: tuple[NamedField, ...] = ()
    """Restricted fields that are not facets either, but only tested for existence, or named by
    `not_filters`. If no item has one, its condition holds for all items or for none: that is a
    warning in a search, and an error in a change or an export."""
    selected: Mapping[str, frozenset[str]] = MappingProxyType({})
    """Keys chosen in `filters`, by facet: their buckets are marked as selected."""
    facets: tuple[FacetSpec, ...] = ()
    """Facets to count, in alphabetical order of their fields."""
    field_facets: tuple[FacetSpec, ...] = ()
    """Fields that are not configured as facets, whose values to count all the same."""
    within: Mapping[str, Same] = MappingProxyType({})
    """The elements to count, by facet inside a nested field that `filters` restricts with `same`.
    The clauses from `same` are marked with `elements_of` the nested field."""
    trees: tuple[TreeSpec, ...] = ()
    """Trees to show."""
    is_strict: bool = False
    """Whether every facet counts within the hits, including disjunctive ones and ranges."""
    ranges: tuple[RangeRequest, ...] = ()
    """`leaves_out_own` is already set according to `is_strict`."""
    cube: CubeSpec | None = None
    """Clauses of `filters` on its field name it in `FilterClause.facet`."""
    sort: tuple[SortKey, ...] = ()
    """Explicit keys (from `sort`, or `sort_field` and `order`). Fields are not checked against the
    data yet; errors name the parameter `sort_param`."""
    sort_param: str = "sort_field"
    is_place_descending: bool = False
    """`order=desc` without a sort key: newest first, if there is no query either."""
    boosts: tuple[Boost, ...] = ()
    """From the request, else the index: factors on scores."""
    rules: tuple[Rule, ...] | None = None
    """From the request; None: the index's rules apply."""
    factors: tuple[FilterFactor, ...] = ()
    """From the rules that apply, as are the `pins`."""
    pins: tuple[Pin, ...] = ()
    min_score: float | None = None
    """Items with a lower score are not hits."""
    cursor: str | None = None
    """Opaque; "*" requests the first page of a snapshot, which the response's cursor continues."""
    distinct: Distinct | None = None
    group_hits: int | None = None
    """With `distinct`: how many of the best hits of its value each item shows; 0: only how many
    there are; None: neither."""
    fields: tuple[str, ...] | None = None
    """Projection: the only paths to return; None: the stored bytes unchanged."""
    exclude_fields: tuple[str, ...] | None = None
    """Projection: paths to leave out."""
    marks: HighlightRequest | None = None
    """Fields to highlight, and fields to make snippets of."""
    dispensable_fields: tuple[NamedField, ...] = ()
    """Fields that the response can do without, such as those to show, mark or leave out: one that
    no item has is a warning."""
    warnings: tuple[str, ...] = ()
    """About the request itself, whatever the items."""
    show: frozenset[str] = frozenset()
    """Any of "score", "score_details", "timings", "elements"."""
    similar_to: bytes | None = None
    """Canonical id of the item whose most telling words are the query."""
    did_you_mean: bool | None = None
    """Whether to look for another spelling of the query; None: only if there are few hits."""
    allows_partial: bool = False
    """Whether to respond without the shards that are down, rather than with an error."""
    timeout_ms: int = 10_000
    keeps_order: bool = False
    """Whether the result has the sort keys of its hits, to merge it. Clients cannot set it."""
    only_ids: tuple[bytes, ...] = ()
    """If not empty, only items with these (canonical) ids exist for the search. Clients cannot set
    it."""
    needs_scores: bool = True
    """Whether scores order hits of equal sort values. Otherwise, without typos, made-up weights do,
    which cost no round trip. Clients cannot set it."""

    def where_exist(self, fields: Sequence[str]) -> SearchParameters:
        """Return this search for an index in which some fields count as known, with all inside."""

        def is_known(name: str) -> bool:
            return any(overlap(name, field) for field in fields)

        return structs.replace(
            self,
            filter_fields={
                name: param for name, param in self.filter_fields.items() if not is_known(name)
            },
            tested_fields=tuple([one for one in self.tested_fields if not is_known(one.field)]),
        )

    def without_additions(self) -> SearchParameters:
        """Return this search with the same hits, and nothing that its response has besides them."""
        return structs.replace(
            self,
            facets=(),
            field_facets=(),
            ranges=(),
            trees=(),
            cube=None,
            group_hits=None,
            marks=None,
            show=frozenset(),
            did_you_mean=False,
        )

    @property
    def is_boosted(self) -> bool:
        """Whether boosts affect this search.

        They do not if there is no query, no threshold, and the order is another one: by fields, or
        by insertion.
        """
        if self.query or self.min_score is not None:
            return True
        return any(key.is_score for key in self.sort) if self.sort else not self.is_place_descending

    @property
    def depends_on_time(self) -> bool:
        """Whether the same search of the same items may have a different result later."""
        return any(one.depends_on_time for one in self.boosts) or bool(self.rules)

    @property
    def all_facets(self) -> tuple[FacetSpec, ...]:
        """Configured facets, and other fields."""
        return self.facets + self.field_facets

    @cached_property
    def num_buckets_max(self) -> int:
        """The most buckets that its facets may list together."""
        return sum([one.configuration.size for one in self.all_facets])

    @cached_property
    def sums_up_fields(self) -> bool:
        """Whether any of its facets sums up numbers by value."""
        return bool([one for one in self.all_facets if one.summary.fields])

    @cached_property
    def query_key(self) -> QueryKey:
        """The parameters that decide what its text query means."""
        return (
            self.query,
            self.match,
            self.drops_function_words,
            self.prefix,
            self.typo,
            self.typo_lengths,
            self.infix,
            self.search_fields,
        )

    @cached_property
    def field_needs(self) -> tuple[FieldNeed, ...]:
        """What it needs of the fields that it names, but for the fields to search."""
        return tuple(self._field_needs())

    @cached_property
    def comparisons_to_check(self) -> tuple[Range | AnyOf | AllOf, ...]:
        """Comparisons of its filters that possibly no item can meet.

        Those by order, as of texts with numbers, and those with "", which equals no value.
        """
        compared = [one for clause in self.filters for one in comparisons_of(clause.filter)]
        return tuple([one for one in compared if isinstance(one, Range) or "" in one.values])

    @cached_property
    def area_fields(self) -> frozenset[str]:
        """Fields whose points its filters want in an area."""
        return frozenset(
            [field for clause in self.filters for field in area_fields_of(clause.filter)]
        )

    @cached_property
    def point_fields(self) -> frozenset[str]:
        """Fields of points that it filters, sorts, boosts or counts by."""
        sorting = [key.field for key in self.sort if key.point is not None and key.field]
        boosting = [boost.field for boost in self.boosts if boost.point is not None]
        counted = [
            one.field for one in self.ranges if one.origin is not None or one.zoom is not None
        ]
        return self.area_fields.union(sorting, boosting, counted)

    @property
    def names_dispensable_fields(self) -> bool:
        """Whether it names fields that it can be answered without."""
        return bool(
            self.dispensable_fields or self.tested_fields or self.named_search_fields or self.rules
        )

    @cached_property
    def may_need_warnings(self) -> bool:
        """Whether it may name fields or values that no item has, of which warnings would tell."""
        return bool(self.names_dispensable_fields or self.comparisons_to_check or self.point_fields)

    @cached_property
    def is_collated(self) -> bool:
        """Whether texts are sorted in the order of a language."""
        return any(key.collation for key in self.sort)

    @cached_property
    def distance_key(self) -> int | None:
        """Position of the sort key that is a distance; None: there is none."""
        nearest = [i for i, key in enumerate(self.sort) if key.point is not None]
        return nearest[0] if nearest else None

    @property
    def offset(self) -> int:
        """Number of hits before the page."""
        return self.skip + (self.page - 1) * self.per_page

    def _field_needs(self) -> Iterator[FieldNeed]:
        for name, param in self.filter_fields.items():
            yield FieldNeed(name, 0, "", param, code="unknown_facet")
        for key in self.sort:
            if key.field is not None and key.point is None:
                yield FieldNeed(key.field, 0, "sort by", self.sort_param, code="unknown_sort_field")
        for spec in self.all_facets:
            facet = spec.configuration.field
            for name in spec.summary.fields:
                param = f"facets.{facet}.stats"
                yield FieldNeed(name, NUMBERS, "sum up", param, code="invalid_facets")
        for boost in self.boosts:
            if boost.point is None:
                kinds, param = bits(boost.value_kinds), f"boost.{boost.field}"
                yield FieldNeed(boost.field, kinds, BOOST, param, code="invalid_boost")
        if self.cube is not None:
            field = self.cube.field
            yield FieldNeed(
                field, NUMBERS, "count by", "facet_cube.field", code="invalid_facet_cube"
            )
        if self.distinct is not None:
            field = self.distinct.field
            yield FieldNeed(field, 0, "tell items apart by", "distinct", code="invalid_distinct")
        for one in self.ranges:
            if one.origin is None and one.zoom is None:
                param = f"facet_ranges.{one.field}"
                kinds = kinds_counted(one)
                yield FieldNeed(one.field, kinds, "count by", param, code="invalid_facet_ranges")


class FacetParameters(Struct, frozen=True, kw_only=True):
    """One page of one facet's buckets."""

    search: SearchParameters
    """The items to count: a search with `search_query` as its query, no hits (per_page 0), and one
    facet, whose `size` does not apply. Nor do the search's `page` and `per_page`."""
    page: int = 1
    per_page: int = PER_PAGE_DEFAULT
    key_pattern: str | None = None
    """Parameter `query`: matches the whole key, case and accents folded; `*` is any text."""
    key_query: str | None = None
    """Parameter `facet_query`: the start of any word of the key, typos tolerated."""

    @property
    def facet(self) -> FacetConfiguration:
        """The facet's settings, overridden by the request's options."""
        return self.search.facets[0].configuration

    @property
    def offset(self) -> int:
        """Number of buckets before the page."""
        return (self.page - 1) * self.per_page


class SuggestParameters(Struct, frozen=True):
    """One request for suggestions."""

    search: SearchParameters
    """The text as typed so far, and the filter on items."""
    size: int = SUGGESTIONS_DEFAULT


class NamedSearch(Struct, frozen=True):
    """One search of `POST /_search`: the index it names, and its raw parameters."""

    index: str
    raw: RawParameters
    weight: float = 1.0
    """Factor of its scores, where searches are merged."""


class MergedPage(Struct, frozen=True):
    """The requested page of merged searches."""

    page: int = 1
    per_page: int = PER_PAGE_DEFAULT

    @property
    def num_hits(self) -> int:
        """Hits up to its end."""
        return self.page * self.per_page
