"""What the read path returns and `responses` turns into JSON: frozen values, no behaviour.

msgspec structs, because a search makes some fifty of them: a frozen dataclass takes ten times as
long to make, and a struct is encoded as JSON without a line of Python.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from coordinator.read.facet_values import Bucket


class FacetStats(Struct, frozen=True):
    """Summary of a facet's numeric values within the hits; one weight per document and value."""

    min: int | float | None
    """An integer from 2^53 on (also negative), where doubles do not tell all of them apart."""
    max: int | float | None
    avg: float | None
    sum: float
    count: int


class FacetResult(Struct, frozen=True):
    """One aggregation of an answer."""

    field: str
    title: str
    position: int
    buckets: list[Bucket]
    stats: FacetStats | None
    missing: int | None = None
    """Items that the facet counts and that have no value; None: not asked for."""
    cardinality: int | None = None
    """Values of the hits; None: not asked for."""
    percentiles: dict[str, float | None] | None = None
    """Of the hits' numeric values, None where there is none; None: not asked for."""


class RangeResult(Struct, frozen=True):
    """Counts of one field of `facet_ranges`: (bucket object, count) in order."""

    field: str
    buckets: list[tuple[dict[str, Any], int]]


class ShardSummary(Struct, frozen=True):
    """How many shards there are, and how many of them this answer comes from."""

    total: int
    ok: int


class Timings(Struct, frozen=True):
    """Microseconds of the phases of one search; a phase of several shards is the slowest one's."""

    total_us: int
    search_us: int
    facets_us: int
    sort_us: int


class SearchResult(Struct, frozen=True):
    """One page of hits with everything around it."""

    page: int
    per_page: int
    total: int
    items: list[bytes]
    """JSON text of each hit: the stored bytes, or what projection and marks made of them."""
    facets: list[FacetResult]
    ranges: list[RangeResult]
    seq: int
    """The state that was searched: everything acknowledged up to this write is in it."""
    ignored_words: list[str]
    shards: ShardSummary
    timings: Timings
    trees: dict[str, list[dict[str, Any]]] = {}
    """By name: the nodes of the top, each with its children where they are shown."""
    cursor: str | None = None
    """Where to go on, if a cursor was asked for and there may be more hits."""
    rules: list[str] = []
    """Names of the rules of curation that held."""
    match: str | None = None
    """How the words were matched, where that was left open."""
    num_words_cut: int = 0
    """Words at the end of the query that were left out, because there are too many."""


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
