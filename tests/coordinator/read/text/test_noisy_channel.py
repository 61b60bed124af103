"""How a word that no item has may have come about."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.read.text.noisy_channel import (
    ANY_LETTER,
    is_likely_slip,
    transliterations,
    with_any_letter,
)

WORDS = st.text("abc", max_size=5)


def likely_slips(meant: str) -> set[str]:
    """Return all words that a likely slip makes of one."""
    made = {meant[:i] + meant[i + 1 :] for i in range(len(meant))}
    made |= {meant[:i] + meant[i - 1 :] for i in range(1, len(meant) + 1)}
    made |= {meant[:i] + meant[i : i + 2][::-1] + meant[i + 2 :] for i in range(len(meant) - 1)}
    return made - {meant}


@given(WORDS, WORDS)
def test_likely_slips_are_letters_left_out_typed_twice_or_exchanged(typed: str, meant: str) -> None:
    assert is_likely_slip(typed, meant) == (typed in likely_slips(meant))


@given(WORDS, WORDS)
def test_a_slip_in_the_beginning_of_a_word_is_one_of_a_shorter_word(typed: str, meant: str) -> None:
    expected = any(is_likely_slip(typed, meant[:end]) for end in range(len(meant) + 1))
    if not meant.startswith(typed):
        assert is_likely_slip(typed, meant, is_prefix=True) == expected


@pytest.mark.parametrize(
    ("typed", "meant", "is_likely"),
    [
        ("htpo", "htop", True),
        ("htpo", "htpc", False),
        ("tolkin", "tolkien", True),
        ("tolkin", "talkin", False),
        ("hapy", "happy", True),
        ("happpy", "happy", True),
        ("haxppy", "happy", False),
        ("happy", "happy", False),
    ],
)
def test_slips(typed: str, meant: str, *, is_likely: bool) -> None:
    assert is_likely_slip(typed, meant) == is_likely


def test_a_digit_between_letters_may_stand_for_any_letter() -> None:
    assert with_any_letter("se7en") == f"se{ANY_LETTER}en"
    for word in ("seven", "hp364x", "7even", "seve7", "l33t", "2001"):
        assert with_any_letter(word) is None


def test_names_are_written_as_in_english_and_german() -> None:
    assert transliterations("dostojewski") == ["dostoyevski"]
    assert transliterations("schostakowitsch")[0] == "shostakovich"
    assert transliterations("dostoyevsky") == ["dostojewskj"]
    assert transliterations("tree") == []
