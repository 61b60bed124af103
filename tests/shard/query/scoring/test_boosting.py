"""Factors: logarithm and power equal the C library's, whatever the neighbouring values."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from pyroaring import FrozenBitMap

from common.boosts import FUNCTIONS, Boost
from common.moments import timestamp_of
from shard.caches.lru_cache import LruCache
from shard.query.filters.filter_only_matches import match_filters
from shard.query.matches import Matches
from shard.query.scoring import boosting
from shard.query.scoring.boost_functions import FACTOR_MAX, halved, logarithm, write_factors
from shard.query.scoring.boosting import boosted, factors, raised
from shard.segment.snapshot import SegmentView
from tests.shard.collect.top_hits.test_top_k import request
from tests.shard.columns_model import World


def test_logarithm_is_that_of_the_c_library() -> None:
    values = [1.0 + n for n in range(2_000)] + np.logspace(0, 300, 5_000).tolist()
    found = [logarithm(value) for value in values]
    np.testing.assert_allclose(found, [*map(math.log, values)], rtol=4e-15, atol=1e-15)


def test_halved_is_a_power_of_one_half() -> None:
    times = [float(n) for n in range(70)] + np.linspace(0, 64, 5_001).tolist()
    expected = [2.0 ** -min(time, 64.0) for time in times]
    np.testing.assert_allclose([halved(time) for time in times], expected, rtol=4e-15)


def interpreted(value: float, boost: Boost) -> float:
    """Return the factor of a value, as Python computes it."""
    origin = boost.origin or 0.0
    positive = max(value, 0.0)
    gain = {
        "log": lambda: logarithm(1.0 + positive),
        "linear": lambda: positive,
        "saturation": lambda: positive / (positive + boost.scale),
        "decay": lambda: halved(abs(value - origin) / boost.scale),
        "reciprocal": lambda: 1.0 / (1.0 + abs(value - origin) / boost.scale),
    }[boost.function]()
    return round((1.0 + min(boost.weight * gain, FACTOR_MAX)) * 2.0**20) / 2.0**20


@pytest.mark.parametrize("function", FUNCTIONS)
def test_compiled_factors_have_the_bits_of_interpreted_ones(function: str) -> None:
    """No processor may fuse or reorder the additions and multiplications."""
    boost = Boost("n", function, 0.37, 52.5, 11.25)
    random = np.random.default_rng(1)
    values = np.concatenate(
        [random.random(1_001) * 50, np.logspace(-9, 15, 1_000), -random.random(9)]
    )
    found = np.empty(len(values))
    code = FUNCTIONS.index(function)
    write_factors(values, code, boost.weight, boost.scale, boost.origin or 0.0, False, found)
    assert found.tolist() == [interpreted(value, boost) for value in values.tolist()]
    least = np.empty(1)
    for at in (0, 1, 7, 500, 1_000):
        one = values[at : at + 1]
        write_factors(one, code, boost.weight, boost.scale, boost.origin or 0.0, False, least)
        assert least[0] == found[at], "wherever it stands"


def test_raised_scores_are_multiples_of_their_unit() -> None:
    scores = raised(np.array([1.25, 3.0]), np.array([1 / 3, 2.5]))
    assert (scores * 2.0**32 % 1.0 == 0).all()
    assert scores[1] == 7.5


def test_scores_stay_positive_and_finite_whatever_the_factors() -> None:
    scores = np.array([0.0, 2.0**-32, 5.0])
    for factor in (0.001, 1e9):
        changed = scores
        for _ in range(200):
            changed = raised(changed, np.full(3, factor))
        assert changed[0] == 0.0
        assert (changed[1:] > 0.0).all()
        assert np.isfinite(changed).all()


@pytest.mark.parametrize(
    ("boost", "expected"),
    [
        (Boost("n", "linear", 1_000.0), [1.0 + FACTOR_MAX, 1.0, 1.0]),
        (Boost("n", "decay", 1.0, 1e-3, -1e308), [1.0, 1.0, 1.0]),
        (Boost("n", "reciprocal", 2.0, 1e-3, 0.0), [1.0, 1.0, 3.0]),
        (Boost("n", "saturation", 2.0, 1.0), [3.0, 1.0, 1.0]),
    ],
)
def test_the_greatest_numbers_have_the_limits_of_a_function(
    boost: Boost, expected: list[float]
) -> None:
    snapshot = World([{"n": 1.7e308}, {"n": -1.7e308}, {"n": 0}]).snapshot
    docs = np.arange(3, dtype=np.uint32)
    assert factors(snapshot, snapshot.views[0], boost, docs, 0).tolist() == expected


@pytest.mark.parametrize("is_cached", [False, True])
@pytest.mark.parametrize("scores", [None, [0.5, 3.0]])
def test_few_documents_have_the_factors_that_are_kept_for_all(
    is_cached: bool, scores: list[float] | None
) -> None:
    snapshot = World([{"n": n} for n in range(100)]).snapshot
    view = snapshot.views[0]
    search = request(
        boosts=(Boost("n", "log", 0.7), Boost("missing", "log", 1.0), Boost("n", "saturation", 2.0))
    )
    docs = np.array([7, 99], np.uint32)
    few = Matches(view, docs=docs, scores=None if scores is None else np.array(scores))
    everything = boosted(snapshot, match_filters(snapshot, view, (), {})[0], search).scores
    assert everything is not None
    if not is_cached:
        snapshot = World([{"n": n} for n in range(100)]).snapshot
    found = boosted(snapshot, few, search).scores
    expected = raised(
        np.array(scores or [1.0, 1.0]), factors(snapshot, view, search.boosts[0], docs, 0)
    )
    expected = raised(expected, factors(snapshot, view, search.boosts[2], docs, 0))
    assert found is not None
    assert found.tolist() == expected.tolist()
    if scores is None:
        assert everything[docs].tolist() == expected.tolist()


def test_factors_that_do_not_fit_the_cache_are_computed_for_few_documents(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    snapshot = World([{"n": n} for n in range(100)]).snapshot
    view = snapshot.views[0]
    search = request(boosts=(Boost("n", "log", 0.7), Boost("n", "saturation", 2.0)))
    few = Matches(view, docs=np.arange(0, 100, 3, dtype=np.uint32))
    expected = boosted(snapshot, few, search).scores
    num_computed: list[int] = []
    compute = write_factors

    def noting(values: NDArray[np.float64], *arguments: Any) -> None:
        num_computed.append(len(values))
        compute(values, *arguments)

    monkeypatch.setattr(boosting, "write_factors", noting)
    monkeypatch.setattr(boosting, "COLUMN_CACHE", LruCache(3_000))
    found = boosted(snapshot, few, search).scores
    assert num_computed == [34, 34]
    assert found is not None
    assert expected is not None
    assert found.tolist() == expected.tolist()


def test_factors_that_are_kept_do_not_serve_a_state_with_more_items() -> None:
    """A cursor reads a state in which an item was not deleted yet."""
    days = [f"2026-01-{day:02d}" for day in range(1, 29)]
    earlier = World([{"day": day} for day in days], facets=()).snapshot
    (view,) = earlier.views
    later = earlier.with_views((SegmentView(view.segment, FrozenBitMap([3])),))
    boost = Boost("day", "decay", 1.0, 86_400.0, timestamp_of("2026-01-10"), is_time=True)
    search = request(boosts=(boost,))
    docs = np.arange(len(days), dtype=np.uint32)
    for snapshot in (later, earlier):
        (view,) = snapshot.views
        found = boosted(snapshot, match_filters(snapshot, view, (), {})[0], search).scores
        assert found is not None
        own = docs if view.deleted is None else np.delete(docs, 3)
        assert found.tolist() == factors(snapshot, view, boost, own, 0).tolist()
        assert len(set(found.tolist())) > 1
