"""The typo budget: how many edits a word of a query may be off, by its length."""

from __future__ import annotations

from typing import Final

from common.analysis.analyzer import is_run

TYPO_LENGTHS_DEFAULT: Final = (5, 9)
"""Letters from which on a word may match with one edit, with two."""


def typo_budget(word: str, lengths: tuple[int, int] = TYPO_LENGTHS_DEFAULT) -> int:
    """Return how many edits a folded word may be off.

    None in short words, in words with digits (model numbers, years) and in pieces of runs.

    Args:
        word: folded.
        lengths: letters from which on there may be one edit, and two.
    """
    if len(word) < lengths[0]:
        return 0
    if not word.isalpha() and any(map(str.isdigit, word)):
        return 0
    if is_run(word):
        return 0
    return 1 if len(word) < lengths[1] else 2
