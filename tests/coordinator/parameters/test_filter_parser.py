"""The filter expression language."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.errors import InvalidRequest
from common.limits import DEFAULT_LIMITS, Limits
from common.query_syntax_tree import (
    And,
    AnyOf,
    Contains,
    Exists,
    IsEmpty,
    IsNull,
    Not,
    Or,
    Range,
    StartsWith,
)
from coordinator.parameters.filter_parser import parse_filter


def test_and_binds_tighter_than_or() -> None:
    assert parse_filter("a = 1 OR b = 2 AND c = 3") == Or(
        (AnyOf("a", ("1",)), And((AnyOf("b", ("2",)), AnyOf("c", ("3",)))))
    )


def test_the_example_of_the_interface() -> None:
    text = 'year >= 1990 AND (tags = a OR tags IN [b, "c d"]) AND NOT country = US'
    assert parse_filter(text) == And(
        (
            Range("year", lower=1990),
            Or((AnyOf("tags", ("a",)), AnyOf("tags", ("b", "c d")))),
            Not(AnyOf("country", ("US",))),
        )
    )


@pytest.mark.parametrize(
    ("text", "node"),
    [
        ("rating 7 TO 9", Range("rating", lower=7, upper=9)),
        ("rating 7.5 to 9e0", Range("rating", lower=7.5, upper=9.0)),
        ("day 2020-01-01 TO 2020-12-31", Range("day", lower="2020-01-01", upper="2020-12-31")),
        ("price < 10", Range("price", upper=10, is_upper_open=True)),
        ("price > -1.5", Range("price", lower=-1.5, is_lower_open=True)),
        ("rating = 9.0", AnyOf("rating", ("9",))),
        ('rating = "9.0"', AnyOf("rating", ("9.0",))),
        (f"parcel = {'94' * 11}", AnyOf("parcel", (repr(float("94" * 11)), "94" * 11))),
        (f"parcel != '{'94' * 11}'", Not(AnyOf("parcel", ("94" * 11,)))),
        (f"a IN [1, {2**64}]", AnyOf("a", ("1", str(2**64)))),
        (f"a IN [1, {10**22}]", AnyOf("a", ("1", "1e+22", str(10**22)))),
        (f"a IN [{2**64 - 1}, -0, 1e30]", AnyOf("a", (str(2**64 - 1), "0", "1e+30"))),
        ("a EXISTS", Exists("a")),
        ("a NOT EXISTS", Not(Exists("a"))),
        ("a IS NULL", IsNull("a")),
        ("a is not empty", Not(IsEmpty("a"))),
        ("a STARTS WITH x", StartsWith("a", "x")),
        ("a NOT CONTAINS 'x y'", Not(Contains("a", "x y"))),
        ("a != b", Not(AnyOf("a", ("b",)))),
        ("a NOT IN [b]", Not(AnyOf("a", ("b",)))),
        ('\'a field\' = "say \\"x\\""', AnyOf("a field", ('say "x"',))),
        ("  ", And(())),
        ("a IN []", AnyOf("a", ())),
    ],
)
def test_conditions(text: str, node: object) -> None:
    assert parse_filter(text) == node


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("a =", 3),
        ("a = b c = d", 6),
        ("(a = b", 6),
        ("a = 'b", 4),
        ("AND a = b", 0),
        ("a IN b", 5),
        ("a IN [b c]", 8),
        ("a STARTS x", 9),
        ("a IS x", 5),
        ("a b", 2),
        ("! a", 0),
    ],
)
def test_errors_give_the_position(text: str, position: int) -> None:
    with pytest.raises(InvalidRequest) as caught:
        parse_filter(text)
    assert caught.value.code == "invalid_filter"
    assert caught.value.details["position"] == position


def test_a_text_of_several_words_is_to_be_quoted() -> None:
    with pytest.raises(InvalidRequest, match="or quotes around a text of several words, not 'God"):
        parse_filter("name = The Godfather")
    with pytest.raises(InvalidRequest, match="AND, OR or the end, not '\\)'"):
        parse_filter("name = Alien)")


def test_nesting_is_bounded() -> None:
    deepest = (
        "(" * DEFAULT_LIMITS.filter_depth_max + "a = b" + ")" * DEFAULT_LIMITS.filter_depth_max
    )
    assert parse_filter(deepest) == AnyOf("a", ("b",))
    with pytest.raises(InvalidRequest):
        parse_filter("(" * 5000 + "a = b" + ")" * 5000)
    with pytest.raises(InvalidRequest):
        parse_filter("NOT " * 3000 + "a = b")


@given(st.text(alphabet="ab19 ()[],=<>!'\"\\-.eINORTADX\u0660é", max_size=60))
def test_any_text_parses_or_is_refused(text: str) -> None:
    position = 0
    try:
        parse_filter(text)
    except InvalidRequest as error:
        position = error.details["position"]
    assert 0 <= position <= len(text)


@pytest.mark.parametrize(
    ("condition", "counted"),
    [
        ("year = 1990", 1),
        ("NOT (year != 1990)", 1),
        ("year >= 1990", 1),
        ("year 1990 TO 1999", 1),
        ("title EXISTS", 1),
        ("title STARTS WITH a", 1),
        ("_count(tags) >= 2", 1),
        ("_geoRadius(place, 48.2, 16.4, 2000)", 1),
        ("_geoPolygon([1, 2], [3, 4], [5, 2])", 1),
        ("tags IN []", 1),
        ("tags IN [a, b]", 3),
        ("variants { size = M AND price < 50 }", 3),
    ],
)
def test_the_limit_counts_conditions_and_listed_values_once(condition: str, counted: int) -> None:
    parse_filter(condition, Limits(filter_conditions_max=counted))
    two = f"{condition} OR {condition}"
    parse_filter(two, Limits(filter_conditions_max=2 * counted))
    with pytest.raises(InvalidRequest, match="filter_conditions_max"):
        parse_filter(two, Limits(filter_conditions_max=2 * counted - 1))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("year == 1951", "not '==', for which = stands here, at position 5"),
        ("year !== 1951", "not '!==', for which != stands here, at position 5"),
        ("year <> 1951", "not '<>', for which != stands here, at position 5"),
        ("year => 1951", "not '=>', for which >= stands here, at position 5"),
        ("tags = [a, b]", "not '=[', for which IN [ stands here, at position 5"),
        ("year:1951", "not the end (equality is written year = 1951) at position 9"),
        ("year:1951 AND tags = a", "not 'AND' (equality is written year = 1951) at position 10"),
        ("tags:[a, b]", "not '[' (equality is written tags = …) at position 5"),
        ("year: 1951", "not '1951' (equality is written year = …) at position 6"),
    ],
)
def test_operators_of_other_languages_are_answered_with_ours(text: str, message: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        parse_filter(text)
    assert message in caught.value.message


def test_a_field_may_have_a_colon() -> None:
    assert parse_filter("og:title = a") == AnyOf("og:title", ("a",))
