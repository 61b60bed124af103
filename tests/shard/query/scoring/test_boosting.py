"""Factors: logarithm and power equal the C library's, whatever the neighbouring values."""

from __future__ import annotations

import math

import numpy as np
import pytest

from common.boosts import Boost
from shard.query.scoring.boosting import FACTOR_MAX, factors, halved, logarithm, raised
from tests.shard.columns_model import World


def test_logarithm_is_that_of_the_c_library() -> None:
    values = np.concatenate([1.0 + np.arange(2_000.0), np.logspace(0, 300, 5_000)])
    expected = [math.log(value) for value in values.tolist()]
    np.testing.assert_allclose(logarithm(values), expected, rtol=4e-15, atol=1e-15)


def test_halved_is_a_power_of_one_half() -> None:
    times = np.concatenate([np.arange(70.0), np.linspace(0, 64, 5_001)])
    expected = [2.0 ** -min(time, 64.0) for time in times.tolist()]
    np.testing.assert_allclose(halved(times), expected, rtol=4e-15)


@pytest.mark.parametrize("function", [logarithm, halved])
def test_a_value_gives_the_same_bits_wherever_it_stands(function: object) -> None:
    assert callable(function)
    values = 1.0 + np.random.default_rng(1).random(1_001) * 50
    together = function(values)
    for at in (0, 1, 7, 500, 1_000):
        assert function(values[at : at + 1])[0] == together[at]


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
