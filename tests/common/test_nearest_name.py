"""The known name that an unknown one was meant to be is found, among many too."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.nearest_name import (
    COMPARED_COST_MAX,
    COMPARED_MAX,
    KNOWN_LETTERS_MAX,
    did_you_mean,
    nearest_name,
)


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("tgas", "; did you mean tags?"),
        ("ratng", "; did you mean rating?"),
        ("Tags", "; did you mean tags?"),
        ("colour", ""),
        ("", ""),
    ],
)
def test_the_most_similar_name_is_meant(name: str, meant: str) -> None:
    others = [f"field_{number}" for number in range(1_000)]
    assert did_you_mean(name, ["rating", "tags", *others, "year"]) == meant


def test_few_names_are_compared_among_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand long ones took a seventh of a second, on the event loop."""
    compared: list[int] = []
    find = difflib.get_close_matches

    def note(word: str, possibilities: Sequence[str], **more: Any) -> list[str]:
        compared.append(len(possibilities))
        return find(word, possibilities, **more)

    monkeypatch.setattr(difflib, "get_close_matches", note)
    known = [f"tenant-{number:06}-products" for number in range(1_000)]
    assert did_you_mean("tenant-000123-prodcuts", known) == "; did you mean tenant-000123-products?"
    assert compared == [COMPARED_MAX]


def test_names_past_a_bound_on_letters_are_left_out() -> None:
    long_names = ["x" * 1_000] * (KNOWN_LETTERS_MAX // 1_000)
    assert did_you_mean("ratng", [*long_names[1:], "rating"]) == "; did you mean rating?"
    assert did_you_mean("ratng", [*long_names, "rating"]) == ""


@pytest.mark.parametrize("length", [3, 60, 100])
def test_long_names_take_no_longer(monkeypatch: pytest.MonkeyPatch, length: int) -> None:
    """Comparing takes the product of the lengths: twenty of 60 letters took four milliseconds."""
    compared: list[int] = []
    find = difflib.get_close_matches

    def note(word: str, possibilities: Sequence[str], **more: Any) -> list[str]:
        compared.append(sum(len(word) * len(one) for one in possibilities))
        return find(word, possibilities, **more)

    monkeypatch.setattr(difflib, "get_close_matches", note)
    known = [f"{number:03}".rjust(length, "abcdefghij"[number // 100]) for number in range(1_000)]
    assert did_you_mean(known[777][:-2] + "87", known).startswith("; did you mean ")
    assert 0 < compared[0] <= COMPARED_COST_MAX


def test_pairs_of_neighbouring_names_do_not_count() -> None:
    """All names are searched at once; their ends and beginnings are not a pair of letters."""
    known = [*(f"{number}z" for number in range(10, 40)), "ab", "yxyx", "q"]
    assert did_you_mean("yx", known) == "; did you mean yxyx?"
    assert did_you_mean("zab", known, 0.7) == "; did you mean ab?"
    assert did_you_mean("x", ["", *known]) == ""


@given(st.text(max_size=12), st.lists(st.text(max_size=12), max_size=60))
def test_any_names_are_compared(name: str, known: list[str]) -> None:
    found = did_you_mean(name, known)
    assert not found or found.removeprefix("; did you mean ").removesuffix("?") in known


def test_another_case_is_the_nearest_of_any_number_of_names() -> None:
    names = [*(f"FILM{n}" for n in range(1_000)), "films", "FILM"]
    assert did_you_mean("FILMS", names) == "; did you mean films?"
    assert did_you_mean("Straße", ["STRASSE"]) == "; did you mean STRASSE?"


def test_the_nearest_name_alone() -> None:
    assert nearest_name("prise", ["name", "price"]) == "price"
    assert nearest_name("weight", ["name", "price"]) is None
