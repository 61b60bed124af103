"""The tokens of a filter expression."""

from __future__ import annotations

import pytest

from common.errors import InvalidRequest
from coordinator.parameters.filter_tokens import FilterTokens


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


def test_the_end_stays() -> None:
    tokens = FilterTokens("a ")
    assert [tokens.take().kind for _ in range(3)] == ["word", "end", "end"]
    assert tokens.next.position == 1


@pytest.mark.parametrize(("text", "problem"), [("a '", "no end at position 2"), ("!", "'!' at")])
def test_an_invalid_token_is_refused(text: str, problem: str) -> None:
    with pytest.raises(InvalidRequest, match=problem):
        FilterTokens(text)
