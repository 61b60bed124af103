"""The tokens of a filter expression."""

from __future__ import annotations

import json

import pytest

from common.errors import InvalidRequest
from common.limits import Limits
from common.query_syntax_tree import AnyOf
from coordinator.parameters.filter_parser import parse_filter
from coordinator.parameters.filter_tokens import FilterToken, FilterTokens


def _kinds(text: str) -> list[tuple[str, str, int]]:
    tokens = FilterTokens(text)
    found = []
    while tokens.next.kind != "end":
        token = tokens.take()
        found.append((token.kind, token.text, token.position))
    return found


def test_tokens_know_where_they_begin() -> None:
    assert _kinds('  year>=1990 and "c \\"d"\'e\'') == [
        ("word", "year", 2),
        ("operator", ">=", 6),
        ("word", "1990", 8),
        ("word", "and", 13),
        ("quoted", 'c "d', 17),
        ("quoted", "e", 24),
    ]


@pytest.mark.parametrize(
    ("text", "value"),
    [("7", 7), ("-0.5e1", -5.0), ('"7"', "7"), ("007", "007"), ("18446744073709551616", 2.0**64)],
)
def test_bare_numbers_are_numbers(text: str, value: int | float | str) -> None:
    found = FilterTokens(text).take_value().value
    assert (type(found), found) == (type(value), value)


@pytest.mark.parametrize(
    "value",
    ["a\tb", "line\nfeed", "\b\f\r", 'C:\\temp "x"', "é\u2028", "\U0001f600", "", "/", "\x01"],
)
def test_a_text_encoded_as_json_is_a_quoted_text(value: str) -> None:
    """Programs quote values by their JSON encoder."""
    for encoded in (json.dumps(value), json.dumps(value, ensure_ascii=False)):
        assert FilterTokens(encoded).take_value().text == value


def test_other_escapes_stand_for_their_character() -> None:
    assert FilterTokens(r"'it\'s \d \u12'").take_value().text == "it's d u12"


@pytest.mark.parametrize("text", [r'"\ud83d"', r'"\ude00"', r'"\ude00\ud83d"', r'"\ud83d\u0041"'])
def test_a_lone_surrogate_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest, match=r"pair, at position 2;"):
        _kinds(f"a {text}")


@pytest.mark.parametrize("name", ["ıs", "ın", "iſ"])
def test_a_name_that_looks_like_a_keyword_in_capitals_is_a_name(name: str) -> None:
    """The dotless i of Turkish is an I in upper case."""
    assert parse_filter(f"{name} = 5") == AnyOf(name, ("5",))


def test_the_end_stays() -> None:
    tokens = FilterTokens("a ")
    assert [tokens.take().kind for _ in range(3)] == ["word", "end", "end"]
    assert tokens.next.position == 1


@pytest.mark.parametrize(("text", "problem"), [("a '", "no end at position 2"), ("!", "'!' at")])
def test_an_invalid_token_is_refused(text: str, problem: str) -> None:
    with pytest.raises(InvalidRequest, match=problem):
        _kinds(text)


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        ("(" * 16_000, "filter_depth_max"),
        ("a = b OR " * 1_500 + "a = b", "filter_conditions_max"),
        (f"_geoPolygon({', '.join(['[1, 2]'] * 2_000)})", "geo_corners_max"),
    ],
)
def test_what_exceeds_a_limit_is_read_no_further(
    text: str, limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Thousands of brackets took tens of milliseconds, to be refused at the 33rd."""
    num_read = 0
    read = FilterTokens._read

    def counted(tokens: FilterTokens) -> FilterToken:
        nonlocal num_read
        num_read += 1
        return read(tokens)

    monkeypatch.setattr(FilterTokens, "_read", counted)
    with pytest.raises(InvalidRequest, match=limit):
        parse_filter(
            text, Limits(filter_depth_max=10, filter_conditions_max=10, geo_corners_max=10)
        )
    assert num_read < 100
