"""Cursors come back as they were given, for the same search; anything else is refused."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.errors import InvalidRequest
from common.limits import DEFAULT_LIMITS
from common.protocol.messages import Distinct, FilterClause, SortKey
from common.query_syntax_tree import AnyOf, Range
from coordinator.parameters.parsed_parameters import SearchParameters
from coordinator.read.cursor import INLINE_CHARS_MAX, Cursor, search_hash

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**64 - 1),
    st.floats(allow_nan=False),
    st.text(),
)
HASH = search_hash(1, SearchParameters())


@given(
    st.lists(SCALARS, max_size=3),
    st.none() | st.floats(0, 100),
    st.integers(0, 2**64 - 1),
    st.integers(0, 2**64 - 1),
)
def test_round_trip(values: list[object], score: float | None, place: int, record: int) -> None:
    cursor = Cursor(3, 17, HASH, (2, record), (score, place), tuple(values))
    assert Cursor.decode(cursor.encode(), 3, len(values)) == cursor


@given(st.integers(1, 16), st.integers(100, 100_000))
def test_long_values_are_left_out(num_keys: int, length: int) -> None:
    values = ("é" * length,) * num_keys
    cursor = Cursor(3, 17, HASH, (2, 2**64 - 1), (1.5, 2**64 - 1), values)

    text = cursor.encode()

    assert len(text) <= INLINE_CHARS_MAX < DEFAULT_LIMITS.cursor_chars_max
    read = Cursor.decode(text, 3, num_keys)
    assert (read.hit, read.place) == (cursor.hit, cursor.place)
    assert read.sort_values is None or read == cursor


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
    cursor = Cursor(3, 17, HASH, (0, 1), (1.0, 5), ())
    with pytest.raises(InvalidRequest, match="earlier configuration"):
        Cursor.decode(cursor.encode(), 4, 0)
    with pytest.raises(InvalidRequest, match="another search"):
        cursor.check(search_hash(1, SearchParameters(query="a")))
    cursor.check(HASH)


def test_hash_is_of_what_decides_hits_and_order() -> None:
    low = FilterClause(Range("year", 1990))
    drama = FilterClause(AnyOf("tags", ("drama",)))
    different = [
        search_hash(2, SearchParameters()),
        *(
            search_hash(1, SearchParameters(**changed))
            for changed in (
                {},
                {"query": "a"},
                {"query": "a", "match": "any"},
                {"query": "a", "prefix": "none"},
                {"query": "a", "typo": 1},
                {"filters": (low,)},
                {"filters": (low, drama)},
                {"sort": (SortKey("year"),)},
                {"sort": (SortKey("year", True),)},
                {"is_place_descending": True},
                {"distinct": Distinct("tags")},
            )
        ),
    ]
    assert len(set(different)) == len(different)
    assert search_hash(1, SearchParameters(filters=(drama, low))) == search_hash(
        1, SearchParameters(filters=(low, drama), per_page=7, show=frozenset(("score",)))
    )


@given(st.text(max_size=40))
def test_any_text_is_a_cursor_or_refused(text: str) -> None:
    if text != "*":
        with pytest.raises(InvalidRequest):
            Cursor.decode(text, 3, 0)


@given(st.data())
def test_no_cursor_can_be_made_up(data: st.DataObject) -> None:
    text = Cursor(3, 17, HASH, (0, 1), (1.0, 5), ("a",)).encode()
    at = data.draw(st.integers(0, len(text) - 1))
    other = data.draw(st.sampled_from("AQgwZz09-_").filter(lambda letter: letter != text[at]))
    forged = text[:at] + other + text[at + 1 :]
    with contextlib.suppress(InvalidRequest):  # but for unused bits at the end
        assert Cursor.decode(forged, 3, 1) == Cursor.decode(text, 3, 1)
