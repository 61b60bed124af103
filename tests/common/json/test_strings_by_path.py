"""Texts of a document come in its order, with the paths of their fields."""

from __future__ import annotations

from common.json.strings_by_path import texts_of


def test_arrays_add_nothing_to_a_path() -> None:
    document = {"b": "x", "a": {"c": ["y", {"d": "z"}, 7, None]}, "e": [["w"]]}
    assert list(texts_of(document)) == [("b", "x"), ("a.c", "y"), ("a.c.d", "z"), ("e", "w")]


def test_a_value_that_is_not_a_container_has_no_path() -> None:
    assert list(texts_of("x")) == [("", "x")]
    assert list(texts_of(7)) == []
