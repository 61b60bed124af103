"""Ranks the words that a misspelt word may stand for (pure).

    htpo         htop          two letters exchanged     a likely slip
                 htpc          another letter            one of many that could have been typed
    se7en        se?en         a digit for a letter
    dostojewski  dostoyevski   a name, as another language transliterates it

Exchanging neighbours, leaving a letter out or typing it twice are as many slips as a word has
letters; wrong and further letters are some 25 times as many, so each of them is as much rarer.
(Kernighan, Church, Gale: A spelling correction program based on a noisy channel model, 1990.)
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

LIKELIER: Final = 25
"""A word one likely slip away ranks as if this many times as many items had it."""
ANY_LETTER: Final = "\0"
"""Stands for a letter of a word; no word of an index has it."""

_TO_ENGLISH: Final = {"tsch": "ch", "sch": "sh", "w": "v", "j": "y"}
_TO_GERMAN: Final = {english: german for german, english in _TO_ENGLISH.items()}
_DIGIT_BETWEEN_LETTERS: Final = re.compile(r"([^\W\d]+)\d([^\W\d]+)")


def is_likely_slip(typed: str, meant: str, *, is_prefix: bool = False) -> bool:
    """Return whether neighbours are exchanged, or a letter is left out or typed twice.

    Args:
        typed: a word.
        meant: another word.
        is_prefix: whether the slip may be in the beginning of the other word.
    """
    at = next((i for i, (a, b) in enumerate(zip(typed, meant, strict=False)) if a != b), None)
    if at is None:
        at = min(len(typed), len(meant))

    def is_rest(left: str, right: str) -> bool:
        return right.startswith(left) if is_prefix else left == right

    if at < len(meant) and is_rest(typed[at:], meant[at + 1 :]):
        return True  # left out
    if at > 0 and typed[at : at + 1] == typed[at - 1] and is_rest(typed[at + 1 :], meant[at:]):
        return True  # typed twice
    exchanged = meant[at : at + 2][::-1]
    return (
        len(exchanged) == 2
        and typed[at : at + 2] == exchanged
        and is_rest(typed[at + 2 :], meant[at + 2 :])
    )


def likelihood(typed: str, meant: str, num_items: int, *, is_prefix: bool = False) -> int:
    """Return how likely a word is meant, relative to others at the same distance."""
    return num_items * (LIKELIER if is_likely_slip(typed, meant, is_prefix=is_prefix) else 1)


def with_any_letter(word: str) -> str | None:
    """Return a word with `ANY_LETTER` for its digit; None unless one digit is between letters."""
    found = _DIGIT_BETWEEN_LETTERS.fullmatch(word)
    return ANY_LETTER.join(found.groups()) if found else None


def transliterations(word: str) -> list[str]:
    """Return how English and German would transliterate a word, if it is a name."""
    written = [_replaced(word, _TO_ENGLISH), _replaced(word, _TO_GERMAN)]
    return [one for one in written if one != word]


def _replaced(word: str, letters: Mapping[str, str]) -> str:
    return re.sub("|".join(letters), lambda found: letters[found.group()], word)
