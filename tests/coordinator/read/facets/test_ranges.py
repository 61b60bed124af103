"""Counts by interval, added up over shards."""

from __future__ import annotations

import math
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from common.errors import InvalidRequest
from common.limits import DEFAULT_LIMITS, Limits
from common.protocol.messages import RangeCounts, RangeRequest
from coordinator.read.facets.ranges import merge_ranges


def _answer(keys: tuple[int, ...], counts: tuple[int, ...]) -> Any:
    return SimpleNamespace(ranges=(RangeCounts("price", keys, counts),))


def test_buckets_of_all_shards_are_added_up_in_order() -> None:
    (result,) = merge_ranges(
        [RangeRequest("price", interval=2.5)],
        [(0, _answer((1, 4), (3, 1))), (1, _answer((-2, 4), (5, 2)))],
        DEFAULT_LIMITS,
    )

    assert [(bucket["from"], bucket["to"], count) for bucket, count in result.buckets] == [
        (-5.0, -2.5, 5),
        (2.5, 5.0, 3),
        (10.0, 12.5, 3),
    ]


def test_bounds_are_numbers_that_json_has() -> None:
    step = 9e299
    first = int(-sys.float_info.max // step)
    last = int(sys.float_info.max // step)
    (result,) = merge_ranges(
        [RangeRequest("price", interval=step)],
        [(0, _answer((first, last), (1, 1)))],
        DEFAULT_LIMITS,
    )

    low, high = (bucket for bucket, _ in result.buckets)
    assert low["key"] == low["from"] == -sys.float_info.max
    assert high["to"] == sys.float_info.max


@pytest.mark.parametrize(("interval", "value"), [(0.5, 1e16), (0.1, -1e16), (1, 1e20)])
def test_an_interval_between_whose_edges_no_double_lies_ends_at_the_next_one(
    interval: float, value: float
) -> None:
    request = RangeRequest("price", interval=interval)
    outlier = _answer((int(value // interval),), (1,))

    (result,) = merge_ranges([request], [(0, _answer((3,), (2,))), (1, outlier)], DEFAULT_LIMITS)

    (bucket,) = [bucket for bucket, count in result.buckets if count == 1]
    assert bucket["from"] <= value < bucket["to"] == math.nextafter(bucket["from"], math.inf)


def test_buckets_of_all_shards_together_are_bounded() -> None:
    requests = [RangeRequest("price", interval=1)]
    answers = [(0, _answer((1, 2), (1, 1))), (1, _answer((2, 3), (1, 1)))]

    assert len(merge_ranges(requests, answers, Limits(range_buckets_max=3))[0].buckets) == 3
    with pytest.raises(InvalidRequest, match=r"price has more than 2 \(limit range_buckets_max\)"):
        merge_ranges(requests, answers, Limits(range_buckets_max=2))
    with pytest.raises(InvalidRequest, match="range_buckets_max"):
        merge_ranges(requests, answers, Limits(range_buckets_max=1))
