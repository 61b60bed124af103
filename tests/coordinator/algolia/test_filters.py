"""Algolia's filters mean what their documentation says; mistakes say what would be valid."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.limits import DEFAULT_LIMITS, Limits
from common.query_syntax_tree import And, AnyOf, Filter, Not, Or, Range
from coordinator.algolia.filters import (
    expression_of,
    facet_condition,
    facet_filter,
    groups_of,
    numeric_filters,
    parse_filters,
    tag_filters,
)
from coordinator.parameters.filter_parser import parse_filter
from coordinator.parameters.value_parsers import Mistake


def parsed(text: str) -> Filter:
    return parse_filters(text, DEFAULT_LIMITS)


A, B, C = (AnyOf(name, ("1",)) for name in "abc")


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("", And(())),
        ("brand:Apple", AnyOf("brand", ("Apple",))),
        ('brand:"Foo Bar"', AnyOf("brand", ("Foo Bar",))),
        (r"brand:'it\'s'", AnyOf("brand", ("it's",))),
        ('"my field":x', AnyOf("my field", ("x",))),
        ("isNew:true", AnyOf("isNew", ("true",))),
        ("price:10", AnyOf("price", ("10",))),
        ("price:10.0", AnyOf("price", ("10",))),
        ('price:"10.0"', AnyOf("price", ("10.0",))),
        ("price = 10", Range("price", lower=10, upper=10)),
        ("price != 10", Not(Range("price", lower=10, upper=10))),
        ("price<=10", Range("price", upper=10)),
        ("price > 1.5", Range("price", lower=1.5, is_lower_open=True)),
        ("price:5 TO 9", Range("price", lower=5, upper=9)),
        ("price: -5 TO -1", Range("price", lower=-5, upper=-1)),
        ("old", AnyOf("_tags", ("old",))),
        ("_tags:old", AnyOf("_tags", ("old",))),
        ("NOT objectID:7", Not(AnyOf("id", ("7",)))),
        ("a:1 AND b:1 OR c:1", Or((And((A, B)), C))),
        ("a:1 AND (b:1 OR NOT c:1)", And((A, Or((B, Not(C)))))),
        ("NOT (a:1 OR b:1)", Not(Or((A, B)))),
        (f"id = {2**60 + 1}", Range("id", lower=2**60 + 1, upper=2**60 + 1)),
        ("id > 9007199254740993", Range("id", lower=9007199254740993, is_lower_open=True)),
    ],
)
def test_expressions(text: str, wanted: Filter) -> None:
    assert parsed(text) == wanted


@pytest.mark.parametrize(
    "text",
    ["a:", ":a", "a:1 b:1", "a:1 AND", "(a:1", "a:1)", "a >", "a > b", "a:'x", "a:1 TO x", "AND"],
)
def test_mistakes_name_the_place_and_an_example(text: str) -> None:
    with pytest.raises(Mistake, match=r"at position \d+; valid is for example") as caught:
        parsed(text)
    assert caught.value.code == "invalid_filter"


def test_scores_are_refused_by_name() -> None:
    with pytest.raises(Mistake, match="score"):
        parsed("brand:Apple<score=3>")
    with pytest.raises(Mistake, match="score"):
        facet_filter("brand:Apple<score=3>")


def test_bounds_hold() -> None:
    with pytest.raises(Mistake, match="filter_depth_max"):
        parsed("(" * 1_000 + "a:1" + ")" * 1_000)
    with pytest.raises(Mistake, match="filter_conditions_max"):
        parse_filters("a:1 OR a:2 OR a:3", Limits(filter_conditions_max=2))
    with pytest.raises(Mistake, match="filter_values_max"):
        groups_of(["a:1", ["a:2", "a:3"]], Limits(filter_values_max=2))


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        (["a:1", ["b:1", "c:1"]], [["a:1"], ["b:1", "c:1"]]),
        ('["a:1",["b:1","c:1"]]', [["a:1"], ["b:1", "c:1"]]),
        ("a:1,(b:1,c:1)", [["a:1"], ["b:1", "c:1"]]),
        ("a:1", [["a:1"]]),
        ([[]], []),
        ("", []),
    ],
)
def test_groups_come_in_three_forms(value: object, wanted: list[list[str]]) -> None:
    assert groups_of(value, DEFAULT_LIMITS) == wanted


@pytest.mark.parametrize("value", [{"a": 1}, [1], [[["a:1"]]], ["a:1", None], 3])
def test_other_forms_are_mistakes(value: object) -> None:
    with pytest.raises(Mistake):
        groups_of(value, DEFAULT_LIMITS)


def test_facet_filters() -> None:
    assert facet_filter("a:b:c").condition == AnyOf("a", ("b:c",))
    assert facet_filter("a:-1").condition == Not(AnyOf("a", ("1",)))
    assert facet_filter("-a:1").condition == Not(AnyOf("a", ("1",)))
    assert facet_filter("objectID:-7").condition == Not(AnyOf("id", ("7",)))
    assert facet_filter(r"a:\-1").condition == AnyOf("a", ("-1",))
    assert facet_condition([facet_filter("a:1"), facet_filter("a:2")]) == AnyOf("a", ("1", "2"))
    assert facet_condition([facet_filter("a:1"), facet_filter("b:-1")]) == Or((A, Not(B)))
    with pytest.raises(Mistake, match="brand:Apple"):
        facet_filter("no colon")


def test_values_keep_their_white_space() -> None:
    """Widgets send the values that facets list."""
    assert facet_filter(" a : b ").condition == AnyOf("a", (" b ",))
    assert facet_filter("a:-b ").condition == Not(AnyOf("a", ("b ",)))
    assert tag_filters([" b "], DEFAULT_LIMITS) == [AnyOf("_tags", (" b ",))]
    assert groups_of("a:b , (a:c, a:d )", DEFAULT_LIMITS) == [["a:b"], ["a:c", "a:d"]]


def test_numeric_and_tag_filters() -> None:
    assert numeric_filters(["a=1", ["b:5 TO 9", "c != 1"]], DEFAULT_LIMITS) == [
        Range("a", lower=1, upper=1),
        Or((Range("b", lower=5, upper=9), Not(Range("c", lower=1, upper=1)))),
    ]
    assert tag_filters("x,(y,-z)", DEFAULT_LIMITS) == [
        AnyOf("_tags", ("x",)),
        Or((AnyOf("_tags", ("y",)), Not(AnyOf("_tags", ("z",))))),
    ]
    with pytest.raises(Mistake, match="price>=10"):
        numeric_filters(["price cheap"], DEFAULT_LIMITS)


_FIELDS = st.text(min_size=1, max_size=5)
_NUMBERS = st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False, allow_infinity=False)
_CONDITIONS: st.SearchStrategy[Filter] = st.one_of(
    st.builds(AnyOf, _FIELDS, st.lists(st.text(max_size=5), min_size=2, max_size=3).map(tuple)),
    st.builds(
        lambda field, low, is_open: Range(field, lower=low, is_lower_open=is_open),
        _FIELDS,
        _NUMBERS,
        st.booleans(),
    ),
    st.builds(
        lambda field, high, is_open: Range(field, upper=high, is_upper_open=is_open),
        _FIELDS,
        _NUMBERS,
        st.booleans(),
    ),
    st.builds(
        lambda field, low, high: Range(field, lower=low, upper=high), _FIELDS, _NUMBERS, _NUMBERS
    ),
)
_FILTERS = st.recursive(
    _CONDITIONS,
    lambda inner: st.one_of(
        st.builds(Not, inner),
        st.builds(And, st.lists(inner, min_size=2, max_size=3).map(tuple)),
        st.builds(Or, st.lists(inner, min_size=2, max_size=3).map(tuple)),
    ),
    max_leaves=6,
)


@given(_FILTERS)
def test_expression_in_our_language_is_the_same_filter(condition: Filter) -> None:
    assert parse_filter(expression_of(condition)) == condition
