"""Summaries of a facet's counts within the hits: statistics, percentiles, number of values.

They are computed from exact counts by value, so they do not depend on how documents are spread
over shards.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from itertools import accumulate
from math import ceil, fsum
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from common.value_kinds_and_facet_keys import INTEGER_MAX, INTEGER_MIN
from coordinator.parameters.facet_specs import FacetSpec
from coordinator.read.facets.facet_result_types import FacetStats
from coordinator.read.facets.global_ordinals import FacetValues
from coordinator.read.facets.range_merging import finite
from coordinator.read.facets.summed_counts import MergedCounts

if TYPE_CHECKING:
    from numpy.typing import NDArray

_SUMMABLE_END: Final = 2.0**900
"""Sums of numbers below this cannot overflow, however many there are; larger numbers are scaled
first."""
_SCALE: Final = 2.0**-124
_DOUBLES_EXACT_END: Final = 2.0**53
"""Below this, doubles represent all integers exactly."""


class Summaries(NamedTuple):
    """Figures about a facet's values within the hits; None: not requested."""

    stats: FacetStats | None = None
    cardinality: int | None = None
    percentiles: dict[str, int | float | None] | None = None


NO_SUMMARIES: Final = Summaries()


def summaries(spec: FacetSpec, values: FacetValues, counts: MergedCounts) -> Summaries:
    """Return the summaries of a facet's counts within the hits, those that are requested."""
    if not spec.is_summed_up:
        return NO_SUMMARIES
    summary = spec.summary
    return Summaries(
        facet_stats(values, counts) if spec.configuration.show_facet_stats else None,
        int(np.count_nonzero(counts.counts)) if summary.cardinality else None,
        percentiles(values, counts, summary.percentiles) if summary.percentiles else None,
    )


def percentiles(
    values: FacetValues, merged: MergedCounts, wanted: Sequence[float]
) -> dict[str, int | float | None]:
    """Return percentiles of a facet's numeric values, from its exact counts.

    The p-th percentile is the least value that at least p % of the values do not exceed; a document
    counts once per value.

    Returns:
        By percentile as written; None where no document has a numeric value.
    """
    counts = merged.counts
    numbers = values.numeric_values()[: len(counts)]
    present = np.flatnonzero((counts > 0) & ~np.isnan(numbers))
    order = present[np.argsort(numbers[present], kind="stable")]
    sums = np.cumsum(counts[order])
    found: dict[str, int | float | None] = {}
    for percentile in wanted:
        name = f"{percentile:.15g}"
        found[name] = None
        if len(order):
            rank = max(1, ceil(Fraction(str(percentile)) * int(sums[-1]) / 100))
            nearest = float(numbers[order[int(np.searchsorted(sums, rank))]])
            found[name] = nearest
            if abs(nearest) >= _DOUBLES_EXACT_END:
                tied = order[numbers[order] == nearest]
                rank -= int(counts[order[numbers[order] < nearest]].sum())
                found[name] = _exact_of_rank(values, tied, counts[tied], nearest, rank)
    return found


def _exact_of_rank(
    values: FacetValues,
    tied: NDArray[np.int64],
    counts: NDArray[np.int64],
    nearest: float,
    rank: int,
) -> int | float:
    """Return the number of a rank, from 1 on, among those with the same double.

    Args:
        values: the numbering.
        tied: the numbers of these values.
        counts: of each.
        nearest: the double.
        rank: of the number that is wanted.
    """
    exact = [_exact_number(values.texts[number], nearest) for number in tied.tolist()]
    ordered = sorted(zip(exact, counts.tolist(), strict=True))
    ends = list(accumulate(count for _, count in ordered))
    return ordered[bisect_left(ends, rank)][0]


def facet_stats(values: FacetValues, merged: MergedCounts) -> FacetStats | None:
    """Return min, max, avg, sum and count of a facet's numeric values, from its exact counts.

    They are computed from counts by value, so they do not depend on how documents are spread over
    shards.

    Returns:
        None if no document has a numeric value.
    """
    # Values may have been added since the counts were made: use their common length.
    counts = merged.counts
    numbers = values.numeric_values()[: len(counts)]
    present = np.flatnonzero((counts > 0) & ~np.isnan(numbers))
    if not len(present):
        return None
    numbers, counts = numbers[present], counts[present]
    count = int(counts.sum())
    # fsum rounds exactly, so the order in which values became known does not matter.
    scale = 1.0 if np.abs(numbers).max() < _SUMMABLE_END else _SCALE
    total = fsum((numbers * scale * counts).tolist())
    return FacetStats(
        min=_exact_extreme(min, values, present, numbers, float(numbers.min())),
        max=_exact_extreme(max, values, present, numbers, float(numbers.max())),
        avg=finite(total / count / scale),
        sum=finite(total / scale),
        count=count,
    )


def _exact_extreme(
    choose: Callable[[Iterable[int | float]], int | float],
    values: FacetValues,
    present: NDArray[np.int64],
    numbers: NDArray[np.float64],
    nearest: float,
) -> int | float:
    """Return the least or greatest number: an integer, where doubles are not exact.

    Args:
        choose: `min` or `max`.
        values: the numbering.
        present: the numbers of the values to choose among.
        numbers: each of them as a double.
        nearest: the least or greatest of these.
    """
    if abs(nearest) < _DOUBLES_EXACT_END:
        return nearest
    tied = present[numbers == nearest].tolist()
    return choose([_exact_number(values.texts[number], nearest) for number in tied])


def _exact_number(text: str, nearest: float) -> int | float:
    """Return the number of a facet value: an integer if it is one of 64 bits, else its double."""
    if text.lstrip("-").isdecimal() and INTEGER_MIN <= int(text) <= INTEGER_MAX:
        return int(text)
    return nearest
