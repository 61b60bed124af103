"""A shard's response to a search, and its parts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from common.protocol.messages.completions_and_near_spellings import TermsResponse
from common.protocol.messages.message import Message
from common.protocol.messages.text_query_and_statistics import StatisticsResponse

SUM_BITS = 1126
"""Exact sums of doubles travel as multiples of 2^-SUM_BITS: every double is one."""


class FacetCounts(Message, frozen=True, array_like=True):
    """The counts of one facet, by the shard's value numbers."""

    field: str
    epoch: int
    """Changes when the numbering starts over (a rebuild)."""
    num_values: int
    """Length of the shard's dictionary as of this snapshot."""
    live: bytes | None
    """Bit i (little-endian bit order) is set when value i belongs to a live document."""
    num_missing: int = 0
    """Documents without a value, if requested."""


class RangeCounts(Message, frozen=True, array_like=True):
    """Counts of one RangeRequest: by position of `bounds`, or by bucket key."""

    field: str
    keys: bytes | tuple[int | float | str, ...]
    """Ascending: int64 in bytes if they are numbers that fit."""
    counts: bytes
    """uint32 per key."""
    num_missing: int = 0
    """Documents without the field, if requested."""

    @property
    def listed_keys(self) -> Sequence[int | float | str]:
        """All keys."""
        keys = self.keys
        return memoryview(keys).cast("q").tolist() if isinstance(keys, bytes) else keys

    @property
    def listed_counts(self) -> list[int]:
        """The count of each key."""
        return memoryview(self.counts).cast("I").tolist()


class NumberStatistics(Message, frozen=True, array_like=True):
    """Statistics of one field's numbers, by position in `ValueStatisticsRequest.keys`."""

    counts: tuple[int, ...]
    least: tuple[int | float | None, ...]
    greatest: tuple[int | float | None, ...]
    sums: tuple[bytes, ...]
    """Exact, in units of 2^-`SUM_BITS`: signed integers, big-endian."""


class ValueStatistics(Message, frozen=True, array_like=True):
    """The response to one ValueStatisticsRequest."""

    fields: tuple[NumberStatistics, ...]
    """In the order of the request's fields."""


class CubeRange(Message, frozen=True, array_like=True):
    """Joint counts of one range, or tree."""

    keys: tuple[int | float | str, ...]
    """As in `RangeRequest`, in any order."""
    counts: bytes
    """uint32 by key and bin."""
    missing: bytes
    """uint32 by bin: documents without the field, if requested."""


class CubeCounts(Message, frozen=True, array_like=True):
    """The response to a CubeRequest: uint32 by bin, or by key and bin."""

    total: bytes
    facets: tuple[bytes, ...]
    ranges: tuple[CubeRange, ...]


class DistinctCounts(Message, frozen=True, array_like=True):
    """How many distinct hits a shard has; pinned ones are counted separately."""

    total: int
    num_missing: int
    """Hits without a value."""
    hit_tokens: bytes
    """uint64 per hit of the response: the same number for a value on all shards, `NO_TOKEN` of
    `common.value_kinds_and_facet_keys` without one."""
    tokens: bytes = b""
    """uint64 per value, ascending."""
    counts: bytes = b""
    """uint8 per value: its distinct hits here."""
    sizes: bytes = b""
    """int64 per token of `SearchRequest.groups`: all hits of the value."""


class GroupPairs(Message, frozen=True, array_like=True):
    """Which values of a facet occur together with which values of the `distinct` field."""

    codes: bytes
    """uint32 per pair: the shard's number of the facet's value + 1; 0: the hit has none."""
    groups: bytes
    """uint32 per pair: the position of its group's token in `tokens`; empty: the pairs are added
    up, as no other shard has any."""
    tokens: bytes
    """uint64 per group, ascending."""
    counts: bytes = b""
    """uint32 per code, where the pairs are added up."""


class SearchResponse(Message, frozen=True, array_like=True):
    """The result of one shard; hits best first."""

    total: int
    places: bytes
    """uint64 per hit."""
    scores: bytes
    """float64 per hit; empty without a query."""
    records: bytes
    """uint64 per hit: record number, names the stored document for `fetch`."""
    sort_values: tuple[bytes | tuple[Any, ...], ...]
    """Per sort key (not per hit): the value of each hit, None where missing; empty without sort
    keys. Of many hits that all have doubles: float64 per hit.
    """
    documents: tuple[bytes, ...]
    """Stored bytes of the first `num_documents` hits; none if these are large: they are fetched."""
    facets: tuple[FacetCounts, ...]
    ranges: tuple[RangeCounts, ...]
    explanations: tuple[Any, ...]
    timings_us: tuple[int, int, int]
    """Microseconds for matching, facets, sorting."""
    facet_counts: bytes = b""
    """The counts of all `facets`, in their order; see `packed_counts`."""
    elements: tuple[dict[str, list[int]], ...] = ()
    """Per hit, by nested field: positions of the elements that passed; empty unless requested."""
    pinned: SearchResponse | None = None
    """The pinned hits, which are not among the others, with places, scores, records, sort values,
    documents and explanations; `total` counts both kinds."""
    pin_numbers: tuple[int, ...] = ()
    """Position of each pinned hit in `SearchRequest.pins`, ascending."""
    distinct: DistinctCounts | None = None
    """None without `distinct`; `total` then still counts all hits. The best distinct hits of all
    shards are among each shard's."""
    value_statistics: tuple[ValueStatistics, ...] = ()
    facet_groups: tuple[GroupPairs, ...] = ()
    """Where facets count groups: by facet, the pairs to count in addition to `facet_counts`, which
    count hits without a value of the `distinct` field."""
    statistics: StatisticsResponse | None = None
    """Statistics of `SearchRequest.assumed_absent`, if given."""
    cube: CubeCounts | None = None
    terms: TermsResponse | None = None
    """The words of `SearchRequest.terms`, if given and the shard has searched."""
    num_pinned: int = 0
    """How many hits are pinned, separate or not."""
    marks: tuple[dict[str, Any], ...] = ()
    """Of each of the `documents`, if requested; see `FetchResponse`."""

    def sort_column(self, i: int) -> Sequence[Any]:
        """Return the values of the i-th sort key by hit; none of the score, sent anyway."""
        column = self.sort_values[i]
        return memoryview(column).cast("d") if isinstance(column, bytes) else column

    @property
    def num_apart(self) -> int:
        """How many pinned hits are not among the others."""
        return len(self.pin_numbers)
