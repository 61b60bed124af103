"""The typo budget: which words may be off, by how many edits."""

from __future__ import annotations

import pytest

from common.analysis.typo_budget import typo_budget


@pytest.mark.parametrize(
    ("word", "expected"),
    [("four", 0), ("fives", 1), ("eightlet", 1), ("nineletter", 2), ("abcde1", 0), ("日本", 0)],
)
def test_grows_with_letters_and_is_none_with_digits_and_runs(word: str, expected: int) -> None:
    assert typo_budget(word) == expected
