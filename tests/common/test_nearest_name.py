"""The known name that an unknown one was meant to be is found, among many too."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Any

import pytest

from common.nearest_name import COMPARED_MAX, nearest


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
    assert nearest(name, ["rating", "tags", *others, "year"]) == meant


def test_few_names_are_compared_among_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand long ones took a seventh of a second, on the event loop."""
    compared: list[int] = []
    find = difflib.get_close_matches

    def note(word: str, possibilities: Sequence[str], **more: Any) -> list[str]:
        compared.append(len(possibilities))
        return find(word, possibilities, **more)

    monkeypatch.setattr(difflib, "get_close_matches", note)
    known = [f"tenant-{number:06}-products" for number in range(1_000)]
    assert nearest("tenant-000123-prodcuts", known) == "; did you mean tenant-000123-products?"
    assert compared == [COMPARED_MAX]
