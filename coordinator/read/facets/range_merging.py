"""Merging the counts of `facet_ranges` over shards, and naming their buckets (pure).

A response may have a million buckets, so they stay arrays until they are encoded, and all is done
in steps.
"""

from __future__ import annotations

import math
import sys
from bisect import bisect_left
from collections.abc import Generator, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from common.distinct_values import starts_run
from common.errors import InvalidRequest
from common.limits import Limits
from common.protocol.messages import RangeCounts, RangeRequest
from common.value_kinds_and_facet_keys import INTEGER_MAX, INTEGER_MIN
from coordinator.cluster.shard_responses import ShardResponses
from coordinator.read.facets.facet_result_types import RangeResult

if TYPE_CHECKING:
    from numpy.typing import NDArray

BUCKETS_FAST_MAX: Final = 1_000
"""If shards counted by more keys, they are added up through the scheduler, and so are more buckets
encoded: these take half a millisecond."""
STEP_BUCKETS: Final = 250
"""Of one step: an interval takes 0.5 µs to encode, a cell of a grid 1.5 µs."""
STEP_NUMBERS: Final = 4_000
STEP_TEXTS: Final = 1_000
"""Keys of a step of adding up, about: 40 ns each, and 500 ns where they are texts."""
_GREATEST: Final = sys.float_info.max


def num_keys(answers: ShardResponses, num_ranges: int) -> int:
    """Return about how many keys the first ranges of responses have, counted by shard."""
    return sum([len(part.counts) for _, one in answers for part in one.ranges[:num_ranges]]) >> 2


def merge_ranges(
    requests: Sequence[RangeRequest],
    answers: ShardResponses,
    limits: Limits,
) -> Generator[None, None, list[RangeResult]]:
    """Add up the counts of each requested field; yield regularly.

    Explicit ranges keep their order; a histogram lists its non-empty buckets in ascending order.

    Args:
        requests: of `facet_ranges`.
        answers: pairs (shard ordinal, response); their first ranges are those of the requests.
        limits: on the number of buckets.

    Returns:
        The counts, by request.

    Raises:
        InvalidRequest: `invalid_facet_ranges`; a field has too many buckets.
    """
    results = []
    for i, request in enumerate(requests):
        parts = [answer.ranges[i] for _, answer in answers]
        counted = []
        for one in parts:
            part_counts = np.frombuffer(one.counts, np.uint32).astype(np.int64)
            _check_number(request, len(part_counts), limits)
            counted.append(CountedKeys(_keys_of(one), part_counts))
            yield
        keys, counts = yield from added_up(request, counted)
        _check_number(request, len(keys), limits)
        missing = sum([one.num_missing for one in parts])
        results.append(RangeResult(request, keys, counts, missing))
    return results


def _keys_of(part: RangeCounts) -> NDArray[np.int64] | list[Any]:
    keys = part.keys
    return np.frombuffer(keys, np.int64) if isinstance(keys, bytes) else list(keys)


class CountedKeys(NamedTuple):
    """Counts by key, ascending."""

    keys: NDArray[np.int64] | list[Any]
    counts: NDArray[np.int64]


def added_up(
    request: RangeRequest, parts: Sequence[CountedKeys]
) -> Generator[None, None, CountedKeys]:
    """Add up the counts of the same request; yield regularly.

    Keys of all parts are cut at the same ones, so that each piece is added up by itself.
    """
    if len(parts) == 1:
        return parts[0]
    num_given = len(request.bounds or request.rings)
    if num_given or not parts:
        counts = sum([part.counts for part in parts], np.zeros(num_given, np.int64))
        return CountedKeys(np.arange(num_given), counts)
    is_of_numbers = not any(isinstance(part.keys, list) for part in parts)
    if not is_of_numbers:
        parts = [CountedKeys(_listed(part.keys), part.counts) for part in parts]
    add_up = _added_up_numbers if is_of_numbers else _added_up_one_by_one
    pieces: list[CountedKeys] = []
    texts: list[Any] = []
    for piece in _cut(parts, STEP_NUMBERS if is_of_numbers else STEP_TEXTS):
        pieces.append(add_up(piece))
        if not is_of_numbers:
            texts += pieces[-1].keys
        yield
    counts = np.concatenate([piece.counts for piece in pieces])
    if is_of_numbers:
        return CountedKeys(np.concatenate([piece.keys for piece in pieces]), counts)
    return CountedKeys(texts, counts)


def _cut(parts: Sequence[CountedKeys], num_keys: int) -> Iterator[list[CountedKeys]]:
    """Yield the parts cut at the same keys, into pieces of at most twice this many keys."""
    spacing = num_keys // len(parts) + 1
    samples = sorted([key for part in parts for key in _listed(part.keys[::spacing])])
    starts = [0] * len(parts)
    for key in samples[len(parts) :: len(parts)]:
        ends = [
            bisect_left(part.keys, key, start) for part, start in zip(parts, starts, strict=True)
        ]
        yield _pieces(parts, starts, ends)
        starts = ends
    yield _pieces(parts, starts, [len(part.keys) for part in parts])


def _pieces(
    parts: Sequence[CountedKeys], starts: Sequence[int], ends: Sequence[int]
) -> list[CountedKeys]:
    return [
        CountedKeys(part.keys[start:end], part.counts[start:end])
        for part, start, end in zip(parts, starts, ends, strict=True)
    ]


def _added_up_numbers(parts: Sequence[CountedKeys]) -> CountedKeys:
    """Add up the counts of numbers."""
    keys = np.concatenate([part.keys for part in parts])
    if not len(keys):
        return CountedKeys(keys, keys)
    # They ascend in each part, so that a stable sort only merges them.
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    starts = np.flatnonzero(starts_run(keys))
    counts = np.concatenate([part.counts for part in parts])[order]
    return CountedKeys(keys[starts], np.add.reduceat(counts, starts))


def _added_up_one_by_one(parts: Sequence[CountedKeys]) -> CountedKeys:
    """Add up the counts of dates, or of numbers beyond 64 bits."""
    sums: dict[Any, int] = {}
    for part in parts:
        for key, count in zip(part.keys, part.counts.tolist(), strict=True):
            sums[key] = sums.get(key, 0) + count
    keys = sorted(sums)
    return CountedKeys(keys, np.array([sums[key] for key in keys], np.int64))


def _listed(keys: NDArray[np.int64] | list[Any]) -> list[Any]:
    return keys if isinstance(keys, list) else keys.tolist()


def _check_number(request: RangeRequest, num_buckets: int, limits: Limits) -> None:
    """Refuse more buckets than a response may list of a field."""
    if num_buckets > limits.range_buckets_max:
        raise InvalidRequest(
            f"facet_ranges.{request.field} has more than {limits.shown('range_buckets_max')} "
            "buckets with items: choose wider ones, or fewer items by a filter",
            code="invalid_facet_ranges",
            param=f"facet_ranges.{request.field}",
        )


def listed_buckets(result: RangeResult) -> Iterator[list[dict[str, Any]]]:
    """Yield the buckets of a response by the hundreds, with their counts."""
    for start in range(0, len(result.keys), STEP_BUCKETS):
        step = slice(start, start + STEP_BUCKETS)
        buckets = range_buckets(result.request, result.keys[step])
        for bucket, count in zip(buckets, result.counts[step].tolist(), strict=True):
            bucket["doc_count"] = count
        yield buckets
    if result.request.wants_missing:
        yield [{"key": "missing", "missing": True, "doc_count": result.missing}]


def range_buckets(
    request: RangeRequest, keys: NDArray[np.int64] | list[Any]
) -> list[dict[str, Any]]:
    """Return the bucket object of each key that shards count by.

    Args:
        request: bounds, an interval, a grid, rings or a calendar.
        keys: positions of bounds or rings, numbers of intervals or cells, or dates.
    """
    if request.interval is not None and not isinstance(keys, list):
        return _intervals(keys, request.interval)
    keys = _listed(keys)
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


def _intervals(numbers: NDArray[np.int64], step: int | float) -> list[dict[str, Any]]:
    """Return what `_interval` does for each number."""
    # Doubles are the edges while numbers, and whole edges, are below 2^53.
    number_max = max(-int(numbers.min(initial=0)), int(numbers.max(initial=0)) + 1)
    if number_max * (step if isinstance(step, int) else 1) >= 2**53:
        return [_interval(number, step) for number in numbers.tolist()]
    with np.errstate(over="ignore"):
        lows = np.clip(numbers * float(step), -_GREATEST, _GREATEST)
        highs = np.clip((numbers + 1) * float(step), -_GREATEST, _GREATEST)
        is_empty = lows == highs
        highs[is_empty] = np.minimum(np.nextafter(lows[is_empty], np.inf), _GREATEST)
    return [
        {"key": low, "from": low, "to": high}
        for low, high in zip(lows.tolist(), highs.tolist(), strict=True)
    ]


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
