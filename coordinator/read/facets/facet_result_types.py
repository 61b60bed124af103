"""What a response shows of its facets and ranges: frozen values, as in `read.search_results`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from common.protocol.messages import RangeRequest
from coordinator.read.facets.bucket_selection import Bucket

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class FacetStats(Struct, frozen=True):
    """Summary of a facet's numeric values over the hits; a document counts once per value."""

    min: int | float | None
    """An integer from 2^53 on (also negative), where doubles are no longer exact."""
    max: int | float | None
    avg: float | None
    sum: float
    count: int


class FacetResult(
    Struct, frozen=True, omit_defaults=True, rename={"field": "name", "stats": "facet_stats"}
):
    """One facet of a search response; encoded as JSON, it is a facet of the API."""

    field: str
    title: str
    position: int
    buckets: Sequence[Bucket]
    stats: FacetStats | None = None
    missing: int | None = None
    """Counted items without a value; None: not requested."""
    cardinality: int | None = None
    """Number of distinct values among the hits; None: not requested."""
    percentiles: dict[str, int | float | None] | None = None
    """Percentiles of the hits' numeric values, None where there are none; None: not requested."""


class RangeResult(Struct, frozen=True):
    """Counts of one field of `facet_ranges`, in the order of the response."""

    request: RangeRequest
    keys: NDArray[np.int64] | list[Any]
    """What shards count by, see `RangeCounts`: `ranges.range_buckets` names the buckets."""
    counts: NDArray[np.int64]
    """Of each key."""
    missing: int = 0
    """Items without the field, if requested."""


class CubeResult(Struct, frozen=True):
    """Joint counts of a field's bins with the facets, ranges and trees of a response.

    Counts are sums up to each edge: one for every edge, the first is 0.
    """

    field: str
    edges: Sequence[int | float]
    total: Sequence[int]
    """Items that match."""
    facets: dict[str, list[dict[str, Any]]]
    """By facet: key and counts of each listed value."""
    ranges: dict[str, list[dict[str, Any]]]
    """By field: key and counts of each interval that has items."""
    trees: dict[str, list[dict[str, Any]]]
    """By tree: path and counts of each node that has items."""
