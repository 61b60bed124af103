"""Boosts: valid objects, and the dates that they accept."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from common.boosts import Boost, parse_boosts, written


def parsed(value: dict[str, Any]) -> tuple[tuple[Boost, ...], list[tuple[str, str]]]:
    mistakes: list[tuple[str, str]] = []

    def report(path: str, message: str) -> None:
        mistakes.append((path, message))

    return parse_boosts(value, lambda path, name: True, report), mistakes


def test_every_function_is_read_and_written_back() -> None:
    value = {
        "popularity": {"log": 0.3},
        "in_stock": {"linear": 1},
        "reviews": {"saturation": 50, "weight": 2},
        "released": {"decay": "180d"},
        "updated": {"reciprocal": "1.5h", "weight": 0.5, "origin": "2026-01-31T12:00:00+01:00"},
        "year": {"decay": 5, "origin": 2020},
        "_geo": {"decay": 2000, "weight": 3, "origin": {"lat": 48.2, "lng": 16.4}},
        "spot": {"reciprocal": 1, "origin": [-90, 180]},
    }
    boosts, mistakes = parsed(value)
    assert not mistakes
    assert boosts == (
        Boost("popularity", "log", 0.3),
        Boost("in_stock", "linear", 1.0),
        Boost("reviews", "saturation", 2.0, 50.0),
        Boost("released", "decay", 1.0, 180 * 86_400.0, None, True),
        Boost("updated", "reciprocal", 0.5, 5_400.0, 1769857200.0, True),
        Boost("year", "decay", 1.0, 5.0, 2020.0),
        Boost("_geo", "decay", 3.0, 2000.0, point=(48.2, 16.4)),
        Boost("spot", "reciprocal", 1.0, 1.0, point=(-90.0, 180.0)),
    )
    assert [boost.depends_on_time for boost in boosts] == [False] * 3 + [True] + [False] * 4
    assert parsed(written(boosts)) == (boosts, [])


@given(
    st.from_regex(r"[0-9]{1,9}(\.[0-9]{1,9})?", fullmatch=True, alphabet="0123456789."),
    st.sampled_from(["s", "min", "h", "d", "w", "y"]),
)
@example("100", "y")
@example("0.123456789", "w")
def test_every_duration_is_read_and_written_back(number: str, unit: str) -> None:
    boosts, mistakes = parsed({"a": {"decay": number + unit}})
    assert mistakes or parsed(written(boosts)) == (boosts, [])


@pytest.mark.parametrize(
    ("options", "path", "message"),
    [
        (3, ".a", "must be an object with one of log, linear"),
        ({}, ".a", "must be an object with one of log, linear"),
        ({"log": 1, "linear": 1}, ".a", "must be an object with one of log, linear"),
        ({"log": 0}, ".a.log", "must be a number above 0, up to 1000"),
        ({"log": True}, ".a.log", "must be a number above 0, up to 1000"),
        ({"log": 1, "weight": 2}, ".a.weight", "is unknown next to log; known are log"),
        ({"saturation": 5, "weight": -1}, ".a.weight", "must be a number above 0, up to 1000"),
        ({"saturation": "180d"}, ".a.saturation", "must be a number above 0"),
        (
            {"decay": "180"},
            ".a.decay",
            'must be a number above 0, up to 1e+15, or a duration such as "180d"',
        ),
        ({"decay": "0d"}, ".a.decay", "must be a number above 0, up to 1e+15, or a duration"),
        ({"decay": 5}, ".a.origin", "must be the number, or the point, from which decay"),
        ({"decay": 5, "origin": {"lat": 91, "lng": 0}}, ".a.origin", "must have a lat from -90"),
        ({"decay": 5, "origin": [1, 2, 3]}, ".a.origin", "must have a lat from -90 to 90"),
        ({"decay": "5d", "origin": [1, 2]}, ".a.origin", "must be an ISO date"),
        ({"decay": "5d", "origin": "soon"}, ".a.origin", "must be an ISO date"),
    ],
)
def test_mistakes_say_what_would_be_valid(options: Any, path: str, message: str) -> None:
    boosts, mistakes = parsed({"a": options})
    assert not boosts
    ((where, what),) = mistakes
    assert where == path
    assert what.startswith(message)
