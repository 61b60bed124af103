"""Merging the counts of `facet_ranges` over shards (pure)."""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Sequence
from typing import Any

from common.errors import InvalidRequest
from common.limits import Limits
from common.protocol.messages import RangeRequest, SearchResponse
from common.values import INTEGER_MAX, INTEGER_MIN
from coordinator.read.facets.result_types import RangeResult


def merge_ranges(
    requests: Sequence[RangeRequest],
    answers: Sequence[tuple[int, SearchResponse]],
    limits: Limits,
) -> list[RangeResult]:
    """Return the counts of each requested field.

    Explicit ranges keep their order; a histogram lists its non-empty buckets in ascending order.

    Args:
        requests: of `facet_ranges`.
        answers: pairs (shard ordinal, response); their first ranges are those of the requests.
        limits: on the number of buckets.

    Raises:
        InvalidRequest: `invalid_facet_ranges`; a field has too many buckets.
    """
    results = []
    for i, request in enumerate(requests):
        counts: Counter[Any] = Counter()
        missing = 0
        for _, answer in answers:
            part = answer.ranges[i]
            _check_number(request, len(part.keys), limits)
            counts.update(dict(zip(part.keys, part.counts, strict=True)))
            missing += part.num_missing
        _check_number(request, len(counts), limits)
        buckets = _buckets(request, counts)
        if request.wants_missing:
            buckets.append(({"key": "missing", "missing": True}, missing))
        results.append(RangeResult(request.field, buckets))
    return results


def _check_number(request: RangeRequest, num_buckets: int, limits: Limits) -> None:
    """Refuse more buckets than a response may list of a field."""
    if num_buckets > limits.range_buckets_max:
        raise InvalidRequest(
            f"facet_ranges.{request.field} has more than {limits.shown('range_buckets_max')} "
            "buckets with items: choose wider ones, or fewer items by a filter",
            code="invalid_facet_ranges",
            param=f"facet_ranges.{request.field}",
        )


def _buckets(request: RangeRequest, counts: Counter[Any]) -> list[tuple[dict[str, Any], int]]:
    """Return bucket objects with their counts."""
    keys = range(len(request.bounds or request.rings)) or sorted(counts)
    buckets = range_buckets(request, keys)
    return [(bucket, counts[key]) for key, bucket in zip(keys, buckets, strict=True)]


def range_buckets(request: RangeRequest, keys: Sequence[Any]) -> list[dict[str, Any]]:
    """Return the bucket object of each key that shards count by.

    Args:
        request: bounds, an interval, a grid, rings or a calendar.
        keys: positions of bounds or rings, numbers of intervals or cells, or dates.
    """
    if request.interval is not None:
        return [_interval(key, request.interval) for key in keys]
    if request.zoom is not None:
        return [_cell(request.zoom, number) for number in keys]
    if request.rings:
        ends = [*request.rings[1:], None]
        return [_ring(request.rings[key], ends[key]) for key in keys]
    if request.calendar is not None:
        return [{"key": key} for key in keys]
    buckets = []
    for lower, upper in [request.bounds[key] for key in keys]:
        name = f"{'*' if lower is None else lower}-{'*' if upper is None else upper}"
        bucket: dict[str, Any] = {"key": name}
        if lower is not None:
            bucket["from"] = lower
        if upper is not None:
            bucket["to"] = upper
        buckets.append(bucket)
    return buckets


def _interval(number: int | float, step: int | float) -> dict[str, Any]:
    """Return the bucket of an interval of a histogram.

    Numbers of a great size are further apart than a small interval is wide, so both of its edges
    may be one number. It then ends at the next number: one item with such a value does not fail
    the searches of others, and the bucket holds what it counts.
    """
    low, high = edge_of(number, step), edge_of(number + 1, step)
    if low == high:
        high = finite(math.nextafter(low, math.inf))
    return {"key": low, "from": low, "to": high}


def _ring(low: float, high: float | None) -> dict[str, Any]:
    """Return the bucket of distances from `low` up to, but excluding, `high`."""
    if high is None:
        return {"key": f"{low:.15g}-*", "from": low}
    return {"key": f"{low:.15g}-{high:.15g}", "from": low, "to": high}


def _cell(zoom: int, number: int) -> dict[str, Any]:
    """Return the bucket of a grid cell: its name "zoom/column/row" and its corners."""
    row, column = divmod(number, 1 << zoom)
    width, height = 360.0 / (1 << zoom), 180.0 / (1 << zoom)
    return {
        "key": f"{zoom}/{column}/{row}",
        "top_right": {"lat": 90.0 - row * height, "lng": (column + 1) * width - 180.0},
        "bottom_left": {"lat": 90.0 - (row + 1) * height, "lng": column * width - 180.0},
    }


def edge_of(bucket: int | float, step: int | float) -> int | float:
    """Return the lower edge of a histogram bucket.

    A double, or a 64-bit integer where only that is exact.
    """
    edge = bucket * step
    if isinstance(edge, int) and abs(edge) > 2**53 and INTEGER_MIN <= edge <= INTEGER_MAX:
        return edge
    return finite(float(edge))


def finite(number: float) -> float:
    """Return the nearest number that JSON can hold: bounds and sums may exceed all doubles."""
    return max(-sys.float_info.max, min(number, sys.float_info.max))
