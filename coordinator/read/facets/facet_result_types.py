"""What a response shows of its facets and ranges: frozen values, as in `read.search_results`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from common.protocol.messages import RangeRequest
from coordinator.parameters.parsed_parameters import FacetSpec
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


class Summaries(Struct, frozen=True):
    """Figures about a facet's values within the hits; None: not requested."""

    stats: FacetStats | None = None
    cardinality: int | None = None
    """Number of distinct values."""
    percentiles: dict[str, int | float | None] | None = None
    """Percentiles of the numeric values, None where there are none."""


NO_SUMMARIES: Final = Summaries()


class FacetResult(Struct, frozen=True):
    """One facet of a search response."""

    field: str
    title: str
    position: int
    buckets: Sequence[Bucket]
    missing: int | None = None
    """Counted items without a value; None: not requested."""
    summaries: Summaries = NO_SUMMARIES


def facet_result(
    spec: FacetSpec,
    buckets: Sequence[Bucket],
    missing: int | None = None,
    summaries: Summaries = NO_SUMMARIES,
) -> FacetResult:
    """Return a facet as a response shows it."""
    settings = spec.configuration
    return FacetResult(
        settings.field, settings.title, settings.position, buckets, missing, summaries
    )


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
