"""Counts by interval, added up over shards."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

from common.protocol.messages import RangeCounts, RangeRequest
from coordinator.read.facets.ranges import merge_ranges


def _answer(keys: tuple[int, ...], counts: tuple[int, ...]) -> Any:
    return SimpleNamespace(ranges=(RangeCounts("price", keys, counts),))


def test_buckets_of_all_shards_are_added_up_in_order() -> None:
    (result,) = merge_ranges(
        [RangeRequest("price", interval=2.5)],
        [(0, _answer((1, 4), (3, 1))), (1, _answer((-2, 4), (5, 2)))],
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
        [RangeRequest("price", interval=step)], [(0, _answer((first, last), (1, 1)))]
    )

    low, high = (bucket for bucket, _ in result.buckets)
    assert low["key"] == low["from"] == -sys.float_info.max
    assert high["to"] == sys.float_info.max
