"""Counts by interval, added up over shards."""

from __future__ import annotations

import json
import math
import sys
from array import array
from collections import Counter
from collections.abc import Sequence
from itertools import chain
from types import SimpleNamespace
from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from common.errors import InvalidRequest
from common.limits import DEFAULT_LIMITS, Limits
from common.process.cooperative_scheduler import run_to_completion
from common.protocol.messages import RangeCounts, RangeRequest
from coordinator.http.result_bodies import range_pieces
from coordinator.read.facets import range_merging
from coordinator.read.facets.facet_result_types import RangeResult
from coordinator.read.facets.range_merging import (
    CountedKeys,
    added_up,
    listed_buckets,
    merge_ranges,
    range_buckets,
)


def _answer(keys: tuple[int, ...], counts: tuple[int, ...]) -> Any:
    packed = array("q", keys).tobytes() if max(map(abs, keys)) < 2**63 else keys
    return SimpleNamespace(ranges=(RangeCounts("price", packed, array("I", counts).tobytes()),))


def _merged(*arguments: Any) -> list[dict[str, Any]]:
    """Return the buckets of the only range."""
    (result,) = run_to_completion(merge_ranges(*arguments))
    return list(chain.from_iterable(listed_buckets(result)))


def test_buckets_of_all_shards_are_added_up_in_order() -> None:
    buckets = _merged(
        [RangeRequest("price", interval=2.5)],
        [(0, _answer((1, 4), (3, 1))), (1, _answer((-2, 4), (5, 2)))],
        DEFAULT_LIMITS,
    )

    assert [(one["from"], one["to"], one["doc_count"]) for one in buckets] == [
        (-5.0, -2.5, 5),
        (2.5, 5.0, 3),
        (10.0, 12.5, 3),
    ]


def test_bounds_are_numbers_that_json_has() -> None:
    step = 9e299
    first = int(-sys.float_info.max // step)
    last = int(sys.float_info.max // step)
    low, high = _merged(
        [RangeRequest("price", interval=step)],
        [(0, _answer((first, last), (1, 1)))],
        DEFAULT_LIMITS,
    )

    assert low["key"] == low["from"] == -sys.float_info.max
    assert high["to"] == sys.float_info.max


@pytest.mark.parametrize(("interval", "value"), [(0.5, 1e16), (0.1, -1e16), (1, 1e20)])
def test_an_interval_between_whose_edges_no_double_lies_ends_at_the_next_one(
    interval: float, value: float
) -> None:
    request = RangeRequest("price", interval=interval)
    outlier = _answer((int(value // interval),), (1,))

    buckets = _merged([request], [(0, _answer((3,), (2,))), (1, outlier)], DEFAULT_LIMITS)

    (bucket,) = [one for one in buckets if one["doc_count"] == 1]
    assert bucket["from"] <= value < bucket["to"] == math.nextafter(bucket["from"], math.inf)


def test_buckets_of_all_shards_together_are_bounded() -> None:
    requests = [RangeRequest("price", interval=1)]
    answers = [(0, _answer((1, 2), (1, 1))), (1, _answer((2, 3), (1, 1)))]

    assert len(_merged(requests, answers, Limits(range_buckets_max=3))) == 3
    with pytest.raises(InvalidRequest, match=r"price has more than 2 \(limit range_buckets_max\)"):
        _merged(requests, answers, Limits(range_buckets_max=2))
    with pytest.raises(InvalidRequest, match="range_buckets_max"):
        _merged(requests, answers, Limits(range_buckets_max=1))


@given(
    st.lists(st.integers(-(2**63), 2**63 - 2) | st.integers(-1_000, 1_000), max_size=20),
    st.integers(1, 2**53) | st.floats(1e-300, 1e300),
)
@example([2**53 - 1, -(2**53), 2**53 // 7], 7)
@example([1, 2], 5e-324)
def test_edges_are_the_same_one_by_one_and_together(numbers: list[int], step: int | float) -> None:
    request = RangeRequest("price", interval=step)
    together = range_buckets(request, np.array(numbers, np.int64))

    assert json.dumps(together) == json.dumps(range_buckets(request, numbers))


_COUNTS = st.dictionaries(st.integers(-30, 30), st.integers(1, 2**32 - 1))


@given(st.lists(_COUNTS, max_size=5), st.booleans(), st.integers(1, 40))
def test_counts_of_shards_are_added_up(
    shards: list[dict[int, int]], is_of_dates: bool, num_keys: int
) -> None:
    request = RangeRequest("price", interval=1)
    parts = []
    for one in shards:
        keys = sorted(one)
        counts = np.array([one[key] for key in keys], np.int64)
        parts.append(CountedKeys(keys if is_of_dates else np.array(keys, np.int64), counts))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(range_merging, "STEP_NUMBERS", num_keys)
        patch.setattr(range_merging, "STEP_TEXTS", num_keys)
        total = run_to_completion(added_up(request, parts))

    expected: Counter[int] = Counter()
    for one in shards:
        expected.update(one)
    assert list(zip(*total, strict=True)) == sorted(expected.items())


@pytest.mark.parametrize("num_shards", [2, 5, 64])
def test_no_step_adds_up_many_keys(monkeypatch: pytest.MonkeyPatch, num_shards: int) -> None:
    lengths: list[int] = []

    def noted(parts: Sequence[CountedKeys]) -> CountedKeys:
        lengths.append(sum([len(part.keys) for part in parts]))
        return parts[0]

    monkeypatch.setattr(range_merging, "_added_up_numbers", noted)
    random = np.random.default_rng(num_shards)
    parts = []
    for shard in range(num_shards):
        keys = np.unique(random.integers(0, 10 ** (3 + shard % 4), 20_000))
        parts.append(CountedKeys(keys, np.ones(len(keys), np.int64)))

    run_to_completion(added_up(RangeRequest("price", interval=1), parts))

    assert sum(lengths) == sum([len(part.keys) for part in parts])
    assert max(lengths) <= 2 * range_merging.STEP_NUMBERS + 2 * num_shards


@pytest.mark.parametrize("is_of_dates", [False, True])
def test_no_step_is_of_many_buckets(monkeypatch: pytest.MonkeyPatch, is_of_dates: bool) -> None:
    """A response of 10,000 buckets held the event loop for 10 ms."""
    named: list[int] = []

    def noted(request: RangeRequest, keys: Any) -> list[dict[str, Any]]:
        named.append(len(keys))
        return range_buckets(request, keys)

    monkeypatch.setattr(range_merging, "range_buckets", noted)
    keys: Any = np.arange(10_000)
    request = RangeRequest("price", interval=1)
    if is_of_dates:
        keys = [f"{number:08}" for number in keys]
        request = RangeRequest("made", calendar="day")
    result = RangeResult(request, keys, np.ones(10_000, np.int64))

    steps = range_pieces([result, result])
    for _ in steps:
        assert sum(named) <= range_merging.STEP_BUCKETS
        named.clear()

    counted = json.loads(b"".join(run_to_completion(range_pieces([result]))))
    assert [one["doc_count"] for one in counted[request.field]] == [1] * 10_000


@pytest.mark.parametrize("num_keys", [(), (0,), (3,), (0, 2), (600, 0, 1)])
def test_pieces_make_an_object(num_keys: tuple[int, ...]) -> None:
    results = [
        RangeResult(RangeRequest(f"f{i}", interval=2), np.arange(num), np.arange(num))
        for i, num in enumerate(num_keys)
    ]

    found = b"".join(run_to_completion(range_pieces(results)))

    whole = {one.request.field: list(chain.from_iterable(listed_buckets(one))) for one in results}
    assert found == orjson.dumps(whole)
