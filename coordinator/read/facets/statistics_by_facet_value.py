"""Statistics of numbers by facet value, over all shards (pure).

Shards compute them only for the buckets of a response, after these have been chosen. Their sums are
exact integers, so the sum of all is rounded once, and does not depend on how items are spread.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Final

from msgspec import structs

from common.protocol.messages import (
    SUM_BITS,
    NumberStatistics,
    SearchResponse,
    ValueStatisticsRequest,
)
from coordinator.parameters.parsed_parameters import SearchParameters
from coordinator.read.facets.bucket_selection import NumberSummary, SummedBucket
from coordinator.read.facets.facet_count_plan import value_request
from coordinator.read.facets.facet_result_types import FacetResult
from coordinator.read.facets.range_merging import finite

_STEP_BUCKETS: Final = 32
"""Buckets whose statistics are added up in a step, 10 µs each."""


def statistics_requests(
    parameters: SearchParameters, results: Sequence[FacetResult]
) -> dict[str, ValueStatisticsRequest]:
    """Return the requests to the shards, by facet.

    Args:
        parameters: of the search.
        results: its facets, with the buckets that are shown.
    """
    specs = {one.configuration.field: one for one in parameters.all_facets}
    requests = {}
    for result in results:
        spec = specs[result.field]
        if spec.summary.fields and result.buckets:
            requests[result.field] = ValueStatisticsRequest(
                value_request(parameters, spec),
                tuple([bucket.key for bucket in result.buckets]),
                spec.summary.fields,
            )
    return requests


def with_statistics(
    results: Sequence[FacetResult],
    requests: dict[str, ValueStatisticsRequest],
    answers: Sequence[SearchResponse],
) -> Generator[None, None, list[FacetResult]]:
    """Add the statistics of their buckets to facets; yield after some.

    Args:
        results: the facets.
        requests: to the shards, by facet.
        answers: of the shards.

    Returns:
        The facets.
    """
    positions = {name: position for position, name in enumerate(requests)}
    found = []
    for result in results:
        request = requests.get(result.field)
        if request is None:
            found.append(result)
            continue
        parts = [answer.value_statistics[positions[result.field]].fields for answer in answers]
        buckets = []
        for place, bucket in enumerate(result.buckets):
            if place % _STEP_BUCKETS == 0:
                yield
            summaries = {
                name: _summary([fields[number] for fields in parts], place)
                for number, name in enumerate(request.fields)
            }
            buckets.append(
                SummedBucket(bucket.key, bucket.doc_count, bucket.is_selected, summaries)
            )
        found.append(structs.replace(result, buckets=buckets))
    return found


def _summary(parts: Sequence[NumberStatistics], place: int) -> NumberSummary | None:
    """Add up the shards' statistics of the numbers of one bucket."""
    count = sum([part.counts[place] for part in parts])
    if not count:
        return None
    total = sum([int.from_bytes(part.sums[place], signed=True) for part in parts])
    return NumberSummary(
        min=min([one for part in parts if (one := part.least[place]) is not None]),
        max=max([one for part in parts if (one := part.greatest[place]) is not None]),
        avg=_rounded(total, count),
        sum=_rounded(total, 1),
        count=count,
    )


def _rounded(total: int, count: int) -> float:
    """Return the double nearest to an exact sum, divided by a count."""
    try:
        return total / (count << SUM_BITS)
    except OverflowError:
        return finite(float("inf") if total > 0 else float("-inf"))
