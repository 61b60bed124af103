"""Parameters: what a request asks for, frozen and typed; the result of `requests.parse_…`."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from msgspec import Struct

from common.boosts import Boost
from common.configuration import FacetConfiguration, PrefixMode, SearchableField, TypoMode
from common.protocol.messages import (
    Distinct,
    FilterClause,
    FilterFactor,
    HighlightRequest,
    Pin,
    RangeRequest,
    SortKey,
)
from common.query import Filter, Same
from common.rules import Rule
from coordinator.parameters.raw import RawParameters

PER_PAGE_DEFAULT: Final = 10
"""Hits, or buckets, of a page."""


class BucketOrder(Struct, frozen=True):
    """How to choose and order the buckets of one facet."""

    keys: tuple[tuple[str, bool], ...] = (("selected", True), ("count", True), ("key", False))
    """(selected | count | key, is_descending), most significant first."""
    hides_zero: bool = False
    hides_chosen_zero: bool = False
    """Whether selected values without hits are left out as well: that one is listed tells that some
    item has it, which a key with a filter must not learn."""

    @property
    def is_by_count(self) -> bool:
        """Whether this is the usual order, which needs no pass over all values as texts."""
        return self.keys in (
            (("selected", True), ("count", True), ("key", False)),
            (("count", True), ("key", False)),
        )

    @property
    def has_selected_on_top(self) -> bool:
        """Whether selected values come first."""
        return bool(self.keys) and self.keys[0][0] == "selected"


class FacetSummary(Struct, frozen=True):
    """What else an answer shall say of a facet's values."""

    missing: bool = False
    """How many of the items that the facet counts have no value."""
    cardinality: bool = False
    """How many values the hits have."""
    percentiles: tuple[float, ...] = ()
    """Of the numeric values within the hits."""

    @property
    def is_of_values(self) -> bool:
        """Whether the counts within the hits are needed."""
        return self.cardinality or bool(self.percentiles)


NO_SUMMARY: Final = FacetSummary()


class FacetWish(Struct, frozen=True):
    """One facet that an answer shall show; made by `facet_wish`."""

    configuration: FacetConfiguration
    """The index's settings with the request's own options applied."""
    order: BucketOrder
    """Of its buckets, as these settings say."""
    key_query: str | None = None
    """Only buckets whose key has a word that begins like this (typos forgiven)."""
    offset: int = 0
    """Buckets to leave out before `configuration.size` are listed."""
    summary: FacetSummary = NO_SUMMARY


def facet_wish(
    configuration: FacetConfiguration,
    key_query: str | None = None,
    offset: int = 0,
    summary: FacetSummary = NO_SUMMARY,
) -> FacetWish:
    """Return the wish for a facet."""
    order = BucketOrder(configuration.sort, configuration.hide_zero)
    return FacetWish(configuration, order, key_query, offset, summary)


def without_zeros(wish: FacetWish) -> FacetWish:
    """Return the wish for nothing but values with hits."""
    return FacetWish(
        dataclasses.replace(wish.configuration, hide_zero=True),
        BucketOrder(wish.order.keys, hides_zero=True, hides_chosen_zero=True),
        wish.key_query,
        wish.offset,
        wish.summary,
    )


class TreeWish(Struct, frozen=True):
    """One tree that an answer shall show."""

    name: str
    separator: str
    requests: tuple[RangeRequest, ...]
    """For the counts of its nodes, by level or altogether."""
    size: int
    """Most nodes below one; those on the way to chosen or opened ones come in any case."""
    chosen: frozenset[str]
    """Nodes that `filters` ask for."""
    opened: frozenset[str]
    """Nodes whose children are shown, beside those on the way to the chosen ones."""


class SearchParameters(Struct, frozen=True, kw_only=True):
    """One search, valid but for what only the data knows (see `filter_fields`, `sort`)."""

    query: str = ""
    """Full text as typed."""
    match: str = "all"
    """The request's, else the index's: "all", "any", "last", "75%"."""
    prefix: PrefixMode = "last"
    """The request's, else the index's."""
    typo: TypoMode = "auto"
    """The request's, else the index's."""
    search_fields: tuple[SearchableField, ...] | None = None
    """The request's, else the index's searchable fields; None: every string."""
    page: int = 1
    per_page: int = PER_PAGE_DEFAULT
    skip: int = 0
    """Hits to leave out before the first page."""
    filters: tuple[FilterClause, ...] = ()
    """All restrictions, ANDed: of `filters`, `not_filters`, `filter` and the API key. A clause of
    `filters` on a disjunctive facet carries that field in `facet`, and so does one on a field that
    is no facet (which takes any of several values, as a disjunctive one) if `ranges` names it."""
    key_filter: Filter | None = None
    """The filter of the caller's API key; it is one of `filters`, too. Then nothing in an answer
    may depend on items that it hides: words are counted and weighed among the others, values
    without hits are never listed, and a field that no item has is no mistake."""
    filter_fields: Mapping[str, str] = MappingProxyType({})
    """Fields that are restricted and no facets, to the parameter that names them ("filters.year",
    "filter"): a field that has no scalar values either is the client's mistake."""
    selected: Mapping[str, frozenset[str]] = MappingProxyType({})
    """Keys chosen in `filters`, by facet: their buckets are marked as selected."""
    facets: tuple[FacetWish, ...] = ()
    """What to count, in alphabetical order of the field."""
    within: Mapping[str, Same] = MappingProxyType({})
    """By facet inside a nested field that `filters` ask about with `same`: which elements it
    counts. The clauses of that are marked with `elements_of` the nested field."""
    trees: tuple[TreeWish, ...] = ()
    """Which trees to show."""
    is_strict: bool = False
    """Whether every facet counts within the hits, disjunctive ones and ranges too."""
    ranges: tuple[RangeRequest, ...] = ()
    """`leaves_out_own` is already set as `is_strict` says."""
    sort: tuple[SortKey, ...] = ()
    """Explicit keys (of `sort`, or `sort_field` and `order`); fields are not checked against the
    data; the parameter to name in an error is `sort_param`."""
    sort_param: str = "sort_field"
    is_place_descending: bool = False
    """`order=desc` without a sort key: newest first, where there is no query either."""
    boosts: tuple[Boost, ...] = ()
    """The request's, else the index's: what scores are multiplied by."""
    rules: tuple[Rule, ...] | None = None
    """The request's; None: the index's."""
    factors: tuple[FilterFactor, ...] = ()
    """Of the rules that hold, as are the `pins`."""
    pins: tuple[Pin, ...] = ()
    min_score: float | None = None
    """Items below it are no hits."""
    cursor: str | None = None
    """Opaque; "*" asks for the first page of a snapshot that the answer's cursor goes on with."""
    distinct: Distinct | None = None
    fields: tuple[str, ...] | None = None
    """Projection: the only paths to return; None: the stored bytes as they are."""
    exclude_fields: tuple[str, ...] | None = None
    """Projection: paths to leave out."""
    marks: HighlightRequest | None = None
    """What to highlight and to cut snippets from."""
    show: frozenset[str] = frozenset()
    """Of "score", "score_details", "timings", "elements"."""
    allows_partial: bool = False
    """Whether an answer without the shards that are away is wanted rather than an error."""
    timeout_ms: int = 10_000
    only_ids: tuple[bytes, ...] = ()
    """Not empty: only items with these (canonical) ids count as there. No client can set it."""

    @property
    def is_boosted(self) -> bool:
        """Whether boosts change this answer.

        Not where another order is asked for and there is no query: by fields, by insertion.
        """
        if self.query:
            return True
        return any(key.is_score for key in self.sort) if self.sort else not self.is_place_descending

    @property
    def depends_on_time(self) -> bool:
        """Whether the same search of the same items has another answer later."""
        return any(one.depends_on_time for one in self.boosts) or bool(self.rules)

    @property
    def offset(self) -> int:
        """How many hits come before the page."""
        return self.skip + (self.page - 1) * self.per_page


class FacetParameters(Struct, frozen=True, kw_only=True):
    """One page of one facet's buckets."""

    search: SearchParameters
    """Which items count: a search with `search_query` as its query, no hits (per_page 0), and
    `facet` as its only facet. Its `page` and `per_page` say nothing about buckets."""
    facet: FacetConfiguration
    """`size` does not apply; `sort` does."""
    page: int = 1
    per_page: int = PER_PAGE_DEFAULT
    key_pattern: str | None = None
    """Parameter `query`: matches the whole key, case and accents folded; `*` is any text."""
    key_query: str | None = None
    """Parameter `facet_query`: the start of any word of the key, typos forgiven."""

    @property
    def offset(self) -> int:
        """How many buckets come before the page."""
        return (self.page - 1) * self.per_page


class NamedSearch(Struct, frozen=True):
    """One search of `POST /_search`: the index that it names, and its raw parameters."""

    index: str
    raw: RawParameters
