"""A search as every shard gets it, and its parts."""

from __future__ import annotations

from typing import Any, Final

from common.boosts import Boost
from common.errors import InvalidRequest
from common.protocol.messages.completions_and_near_spellings import TermsRequest
from common.protocol.messages.message import Message
from common.protocol.messages.text_query_and_statistics import (
    StatisticsRequest,
    TextQuery,
)
from common.query_syntax_tree import Filter, Same

SKIPPED_MAX: Final = 2_000
"""Up to this many hits before a cursor, the best hits are found as for a numbered page. To compare
all hits with the cursor takes 8 ms for a word that 100,000 items have, 14 for all of a million;
finding the best of them 1.3 to 1.8 (the whole request; Intel Xeon, 2026-12-01)."""


class FilterClause(Message, frozen=True, array_like=True):
    """One filter of the conjunction that a hit must pass."""

    filter: Filter
    facet: str | None = None
    """The disjunctive facet whose own counts leave this clause out; None counts for all."""


class FacetRequest(Message, frozen=True, array_like=True):
    """Counts of one facet."""

    field: str
    leaves_out_own: bool
    """Whether clauses marked with this facet are left out (disjunctive)."""
    num_live_wanted: int
    """Send `live` when fewer values than this have a count here (0: never; a huge number: always).
    """
    within: Same | None = None
    """Count only values of elements that pass; then the clauses that are left out are those marked
    with `elements_of` its field.
    """
    wants_missing: bool = False
    """Whether to count the documents without a value as well."""


def elements_of(field: str) -> str:
    """Return what the clauses on elements of a nested field are marked with: no field's name."""
    return f"{field}{{}}"


class RangeRequest(Message, frozen=True, array_like=True):
    """Counts of documents by interval of one scalar field (from inclusive, to exclusive)."""

    field: str
    bounds: tuple[tuple[float | int | str | None, float | int | str | None], ...] = ()
    interval: float | int | None = None
    """Histogram: bucket number floor(value / interval); an integer if it is whole and below 2^53,
    which then counts integers exactly."""
    calendar: str | None = None
    """Buckets of dates and times: year, quarter, month, week, day, hour, or a span such as 6h."""
    leaves_out_own: bool = True
    origin: tuple[float, float] | None = None
    """Latitude and longitude that `rings` are around."""
    rings: tuple[float, ...] = ()
    """Distances in metres, ascending: ring i is from the i-th to below the next; the last one is
    open.
    """
    zoom: int | None = None
    """Cells of a grid of 2^zoom columns and as many rows over the earth."""
    time_zone: str | None = None
    """Time zone of a calendar; None: that of each value."""
    wants_missing: bool = False
    """Whether to count the documents without the field as well."""
    tree: str | None = None
    """The tree whose nodes are counted: the values of `field`, and what they lie under. Clauses
    marked with its name are ignored.
    """
    separator: str = ""
    """Separates the names of a node's path; empty: only the values themselves are counted."""
    parents: tuple[str, ...] | None = None
    """Only children of these nodes are reported; "" has those at the top. None: all nodes are."""
    parent_separator: str = ""
    """Separates the path of a node's parent from its name; of `parents`."""
    is_of_values: bool = False
    """The values of a field that is not a facet are counted, by facet key; `wants_missing` then
    counts the documents without one."""
    within: Same | None = None
    """As in `FacetRequest`, for `bounds` and `interval`."""


class ValueStatisticsRequest(Message, frozen=True, array_like=True):
    """Statistics of numbers within the documents that have each of some values of a facet."""

    facet: FacetRequest
    keys: tuple[str, ...]
    """The values."""
    fields: tuple[str, ...]
    """The field that has the numbers."""


class CubeFacet(Message, frozen=True, array_like=True):
    """One facet of a `CubeRequest`."""

    facet: FacetRequest
    """Or a field that is not a facet; its values are counted like a facet's."""
    keys: tuple[str, ...]
    """The values to count."""


class CubeRequest(Message, frozen=True, array_like=True):
    """Joint counts: how many matches in each bin of a field have each value of others."""

    field: str
    edges: tuple[int | float, ...]
    """Ascending, two or more: bin i is [edge i, edge i + 1)."""
    facets: tuple[CubeFacet, ...]
    ranges: tuple[RangeRequest, ...]
    counts_max: int
    """More counts than this are an error."""

    @property
    def num_bins(self) -> int:
        """How many bins there are."""
        return len(self.edges) - 1

    def too_many_counts(self) -> InvalidRequest:
        """Return the error about more counts than `counts_max`."""
        return InvalidRequest(
            f"facet_cube would have more than {self.counts_max} counts (facet_cube_counts_max), "
            "bins times values and intervals: ask for fewer bins, smaller facets, or wider "
            "intervals",
            code="invalid_facet_cube",
            param="facet_cube",
        )


class SortKey(Message, frozen=True, array_like=True):
    """One key of the order: a field's values, the score, or a random number."""

    field: str | None
    """None: the score, or with a seed a random number."""
    is_descending: bool = False
    is_missing_first: bool = False
    point: tuple[float, float] | None = None
    """Latitude and longitude: the order is by the distance of the field's nearest point."""
    within: Same | None = None
    """The order is by the least number (descending: the greatest) of the elements that pass."""
    num_buckets: int = 0
    """Number of equal steps to which the score is rounded down; 0: it is not."""
    bucket_height: float = 0.0
    """Height of one step; known when the best score is."""
    seed: int | None = None
    """Names the random order."""
    collation: str = ""
    """Collation of texts; empty: by code point."""

    @property
    def is_score(self) -> bool:
        """Whether scores are compared."""
        return self.field is None and self.seed is None


class Distinct(Message, frozen=True, array_like=True):
    """Keep only the best `limit` hits per value; see `shard.collect.grouping.distinct_hits`."""

    field: str
    limit: int = 1
    counts_groups: bool = False
    """Whether facets count values of the field, not hits; a hit without a value counts as one."""


class GroupsRequest(Message, frozen=True, array_like=True):
    """Ask for the hits of some values of the `distinct` field."""

    tokens: bytes
    """uint64 per value, ascending."""


class Pin(Message, frozen=True, array_like=True):
    """An item that is a hit whether or not it has the words, at a fixed position."""

    id: str
    """Canonical id of the item."""
    position: int
    """Among all hits, from 1."""
    rule: str
    """Name of the rule that set it."""


class FilterFactor(Message, frozen=True, array_like=True):
    """A factor on the scores of the items that pass a filter."""

    filter: Filter
    factor: float
    rule: str
    """Name of the rule that set it."""


class HighlightRequest(Message, frozen=True, array_like=True):
    """How documents are marked that are sent."""

    highlight_fields: tuple[str, ...] | None
    """None: none; `ALL_FIELDS` among them: every searchable field."""
    snippet_fields: tuple[tuple[str, int], ...]
    """Path and number of words."""
    pre: str
    post: str
    ellipsis: str
    text_bytes_max: int
    """Bytes of each text that are scanned; the rest has no highlights."""
    item_bytes_max: int
    """Bytes of all texts of an item together."""


class SearchRequest(Message, frozen=True, array_like=True):
    """One search over one snapshot of the shard's partition."""

    index: int
    horizon: int
    revision: int
    query: TextQuery | None
    filters: tuple[FilterClause, ...]
    facets: tuple[FacetRequest, ...]
    ranges: tuple[RangeRequest, ...]
    sort: tuple[SortKey, ...]
    """Explicit keys; ties are broken by score (with a query), then by insertion number."""
    is_place_descending: bool
    """Newest first, where there is neither a sort key nor a query."""
    num_hits: int
    """How many of the best hits to return (offset + limit)."""
    num_documents: int
    """How many of these to return with their stored bytes (0: keys only)."""
    after: tuple[Any, ...] | None = None
    """Sort values, score and insertion number of the last hit seen: return only hits after it."""
    distinct: Distinct | None = None
    wants_explanation: bool = False
    wants_elements: bool = False
    """Whether to say which elements of nested fields have passed the filters."""
    ids: tuple[bytes, ...] = ()
    """If not empty: only items with these (canonical) ids can match."""
    boosts: tuple[Boost, ...] = ()
    """What the score is multiplied by, in this order; without a query it is 1 at first."""
    timestamp: int = 0
    """Start of the search, in seconds since 1970: boosts by age count from it."""
    min_score: float | None = None
    """Items below it are not hits."""
    factors: tuple[FilterFactor, ...] = ()
    """Factors that apply to the score after all boosts."""
    pins: tuple[Pin, ...] = ()
    """Pinned items that pass the filters are hits too."""
    has_pins_apart: bool = False
    """Whether pinned hits come in `SearchResponse.pinned`, not among the others."""
    value_statistics: tuple[ValueStatisticsRequest, ...] = ()
    wants_distinct_values: bool = False
    """Whether `SearchResponse.distinct` names the values, so that shards can be added up."""
    groups: GroupsRequest | None = None
    """With `distinct`: return only hits of these values, and the number of each."""
    assumed_absent: StatisticsRequest | None = None
    """Spacings that the query's weights ignore, in the expectation that no document has them. A
    shard that has any of them does not search; all return their counts."""
    cube: CubeRequest | None = None
    terms: TermsRequest | None = None
    """Words to list as well, whatever the hits are; saves a separate message."""
    wants_total: bool = True
    """Whether `SearchResponse.total` counts all hits. If not, it says only that there are more than
    those sent, and a shard need not find them."""
    needs_scores: bool = True
    """Whether the weights of the query mean more than which kinds of match there are. If not, hits
    have no scores, and equal sort values are in order of insertion."""
    num_before: int = 0
    """With `after`: at most this many hits come before those requested; 0: any number."""

    @property
    def num_skipped(self) -> int | None:
        """How many of the best hits may come before those requested.

        None: so many that finding them takes longer than comparing all hits with `after`.
        """
        if self.after is None:
            return 0
        return self.num_before if 0 < self.num_before <= SKIPPED_MAX else None

    highlight: HighlightRequest | None = None
    """How the documents that are sent along are marked; None: not at all."""

    @property
    def has_scores(self) -> bool:
        """Whether hits have a score, which orders them or decides ties.

        Without a query, another order has none, even if `min_score` uses boosts.
        """
        if not self.needs_scores:
            return False
        if self.query is not None or not self.is_boosted:
            return self.query is not None
        return any(key.is_score for key in self.sort) if self.sort else not self.is_place_descending

    @property
    def has_counts(self) -> bool:
        """Whether something besides the hits is counted, or summed up, by value."""
        return bool(self.facets or self.ranges or self.value_statistics or self.cube)

    @property
    def is_boosted(self) -> bool:
        """Whether something multiplies scores."""
        return bool(self.boosts or self.factors)
