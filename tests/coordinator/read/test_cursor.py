"""Cursors come back as they were given; anything else is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.errors import InvalidRequest
from coordinator.read.cursor import Cursor

SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**63), 2**63), st.floats(allow_nan=False), st.text()
)


@given(st.lists(SCALARS, max_size=3), st.none() | st.floats(0, 100), st.integers(0, 2**64 - 1))
def test_round_trip(values: list[object], score: float | None, place: int) -> None:
    cursor = Cursor(3, 17, (*values, score, place))
    assert Cursor.decode(cursor.encode(), 3, len(values)) == cursor


def test_a_star_begins() -> None:
    assert Cursor.decode("*", 3, 0).is_start


@pytest.mark.parametrize(
    "text", ["", "x", "é", "AAAA", "lQE", "=" * 9, "*a", "o0000000000000", "kZGR" * 2_000]
)
def test_nonsense_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        Cursor.decode(text, 3, 0)
    assert caught.value.code == "invalid_cursor"


def test_a_cursor_of_another_search_or_configuration_is_refused() -> None:
    text = Cursor(3, 17, (1.0, 5)).encode()
    with pytest.raises(InvalidRequest):
        Cursor.decode(text, 4, 0)
    with pytest.raises(InvalidRequest):
        Cursor.decode(text, 3, 1)


@given(st.text(max_size=40))
def test_any_text_is_a_cursor_or_refused(text: str) -> None:
    if text != "*":
        with pytest.raises(InvalidRequest):
            Cursor.decode(text, 3, 0)
