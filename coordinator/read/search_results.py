"""Results of the read path, frozen; `coordinator.http.result_bodies` turns them into JSON.

msgspec structs, because a search creates some fifty of them: a frozen dataclass takes ten times as
long to create, and msgspec encodes structs as JSON without running any Python.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

from msgspec import Struct

from coordinator.catalog.catalog import Index
from coordinator.parameters.parsed_parameters import SearchParameters
from coordinator.read.facets.facet_result_types import CubeResult, FacetResult, RangeResult


class ShardSummary(Struct, frozen=True):
    """How many shards there are, and how many of them contributed to the response."""

    total: int
    ok: int


class Timings(Struct, frozen=True):
    """Microseconds per phase of one search; a phase on the shards takes as long as the slowest."""

    total_us: int
    search_us: int
    facets_us: int
    sort_us: int


class HitOrder(NamedTuple):
    """Sort key of a hit, comparable across merged searches."""

    score: float | None
    sort_values: tuple[Any, ...]
    position: int | None
    """Position of a pinned hit, from 1."""


ItemsOf: TypeAlias = Callable[[Sequence[int]], Awaitable[list[bytes]]]
"""Reads the items of hits, by their ranks, while the searched state is kept readable."""


class SearchResult(Struct, frozen=True):
    """One page of hits and everything that comes with it."""

    page: int
    per_page: int
    total: int
    items: list[bytes]
    """JSON text of each hit: the stored bytes, or the result of projection and marks."""
    facets: list[FacetResult]
    ranges: list[RangeResult]
    seq: int
    """The state searched: it includes every acknowledged write up to this one."""
    ignored_words: list[str]
    shards: ShardSummary
    timings: Timings
    trees: dict[str, list[dict[str, Any]]] = {}
    """By name: the nodes of the top, each with its children where they are shown."""
    cube: CubeResult | None = None
    cursor: str | None = None
    """Cursor of the next page, if one was requested and there may be more hits."""
    rules: list[str] = []
    """Names of the curation rules that applied."""
    rule_data: list[dict[str, Any]] = []
    """Of those that have some: what they say to the page."""
    order: list[HitOrder] = []
    """Sort key of each hit, if the search is merged with others."""
    items_of: ItemsOf | None = None
    """If it is merged with others: reads the items, of which `items` has none."""
    match: str | None = None
    """The match mode used, if the request left it open."""
    dropped_words: Sequence[str] = ()
    """Function words that the items of this mode need not have."""
    num_words_cut: int = 0
    """Words dropped from the end of the query because it has too many."""
    did_you_mean: str | None = None
    """The query in another spelling, which has hits under the same filters."""
    warnings: tuple[str, ...] = ()
    """What the request probably means otherwise, such as names of fields that no item has."""


RunSearch: TypeAlias = Callable[[Index, SearchParameters, int], Awaitable[SearchResult]]
"""Runs one search of one state; how a search runs another, such as a corrected query."""


class FacetPage(Struct, frozen=True):
    """One page of a facet's buckets (the facet route)."""

    page: int
    per_page: int
    facet: FacetResult
    total: int
    """Exact number of buckets."""
    seq: int
    shards: ShardSummary
    timings: Timings
    warnings: tuple[str, ...] = ()
    """As those of a search."""


class ExplainedItem(Struct, frozen=True):
    """Explanation of one item of a search."""

    id: int | str
    is_hit: bool
    reasons: list[dict[str, Any]]
    """The reasons why the item is not a hit; empty for a hit."""
    score: float | None
    """Score of a hit, or of an item that only `min_score` keeps out."""
    score_details: Any
    seq: int
