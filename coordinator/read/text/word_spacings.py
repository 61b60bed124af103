"""Together or apart: other spacings of the words of a query (pure).

    spiderman        ──▶  spider man        the word in parts, adjacent
    lap top          ──▶  laptop            two words joined: an alternative of either
    wi-fi            ──▶  wifi
    hp364            ──▶  hp 364            digits next to letters
    20000            ──▶  20 000            thousands
    439-02348-3      ──▶  439023483         codes: ISBNs, phone numbers
    jrr, u.s.a       ──▶  j r r, usa        initials
    c++, .net        ──▶  c, net            only where the index has no such word

`spacings_of` lists what the letters allow. Where a word can be cut in two, the shards say: they
know the words (`is_cuttable`, `cut_in_two`). `is_worthwhile` picks the spacings that the index has
often enough, by counts over all shards: a few per cent of all words keep one, so most queries are
searched as if there were none. A document that has words as typed scores more (kind SPACING).
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from itertools import groupby, pairwise
from typing import Final, NamedTuple

from common.analysis.analyzer import Token, bare_word, is_run

LETTERS_MAX: Final = 24
"""Longer words are neither split nor made."""
INITIALS_MAX: Final = 4
"""Letters of a word that may be initials (jrr), and words that may be joined to such a word."""
CODE_LENGTH_MIN: Final = 7
"""Digits typed in groups (439-02348-3) are one code if there are this many; 1-2 is not 12."""
WHOLE_SHARE: Final = 10
"""A word is split unless the index has it more than this many times as often as its parts."""


SYMBOLS: Final = ("+", "#")
"""Words may end with one (c++, f#), or begin with a dot (.net)."""


class Spacing(NamedTuple):
    """Another way to write one word of a query, or several in a row."""

    typed: tuple[str, ...]
    """The words as typed, folded."""
    words: tuple[str, ...]
    """The same letters with other spaces."""
    is_notation: bool = False
    """Whether it says the word in another way, next to a typed one (`notations`): other letters."""


class TypedWord(NamedTuple):
    """An unquoted word of the query, in its place."""

    token: Token
    piece: int
    """Ordinal of the run of characters between spaces that it belongs to."""
    ordinal: int
    """Ordinal among all words of the query, so that neighbours are one apart."""


def spacings_of(row: Sequence[TypedWord], function_words: Container[str]) -> Iterator[Spacing]:
    """Yield spacings of the words of a query, except splits in two; the index may not have them.

    Function words are not joined with another word (a bout, in to, be long), unless no space was
    typed between them. Frequent words may be: in a shop for phones, `head phones` is headphones.
    """
    for text in dict.fromkeys([word.token.text for word in row]):
        for parts in _splits(text):
            yield Spacing((text,), parts)
    for start, first in enumerate(row):
        typed: tuple[str, ...] = (first.token.text,)
        is_close = True
        left = first
        for right in row[start + 1 : start + INITIALS_MAX]:
            if not _can_join(left, right):
                break
            typed = (*typed, right.token.text)
            is_close = is_close and _are_close(left, right)
            joined = "".join(typed)
            if len(joined) > LETTERS_MAX:
                break
            # More than two words only if they are short, such as initials.
            are_initials = len(joined) == len(typed)
            is_pair = len(typed) == 2 and not any(word in function_words for word in typed)
            if is_pair or is_close or are_initials:
                yield Spacing(typed, (joined,))
            left = right
    for _, piece in groupby(row, lambda word: word.piece):
        words = tuple([word.token.text for word in piece])
        if _is_code(words):
            yield Spacing(words, ("".join(words),))


def is_cuttable(word: str) -> bool:
    """Return whether a word may be written as two; where it can be cut, the index says."""
    if not 2 <= len(word) <= LETTERS_MAX:
        return False
    if word.isascii() and word.isalpha():  # most words
        return True
    return not _is_number(word) and not is_run(word) and bare_word(word) == word


def cut_in_two(word: str, cut: int) -> Spacing | None:
    """Return a word split after `cut` characters; None between two digits."""
    if _is_digit(word[cut - 1]) and _is_digit(word[cut]):
        return None
    return Spacing((word,), (word[:cut], word[cut:]))


def is_worthwhile(spacing: Spacing, freq: int, typed_freqs: Sequence[int]) -> bool:
    """Return whether a query should look for a spacing as well.

    Args:
        spacing: one of `spacings_of`.
        freq: documents that have it.
        typed_freqs: documents that have each of the typed words.
    """
    if freq == 0:
        return False
    if spacing.is_notation or len(spacing.typed) > 1:
        return True
    if bare_word(spacing.typed[0]) != spacing.typed[0]:
        return typed_freqs[0] == 0
    return freq * WHOLE_SHARE >= typed_freqs[0]


def _splits(word: str) -> Iterator[tuple[str, ...]]:
    """Yield the ways to split a word, except in two: next to digits, in thousands, into initials.

    Digits are cut in thousands only: 2015 is not "20 15".
    """
    if not 2 <= len(word) <= LETTERS_MAX or is_run(word):
        return
    if bare_word(word) != word:
        yield (bare_word(word),)
        return
    if word.isalpha():
        if 3 <= len(word) <= INITIALS_MAX:
            yield tuple(word)
        return
    if _is_number(word):
        if len(word) > 3:
            head = len(word) % 3 or 3
            yield (word[:head], *(word[i : i + 3] for i in range(head, len(word), 3)))
        return
    if 3 <= len(word) <= INITIALS_MAX and not any(map(_is_digit, word)):
        yield tuple(word)
    borders = [i for i in range(1, len(word)) if _is_digit(word[i - 1]) != _is_digit(word[i])]
    if 2 <= len(borders) < INITIALS_MAX:
        yield tuple(word[start:end] for start, end in pairwise([0, *borders, len(word)]))


def _can_join(left: TypedWord, right: TypedWord) -> bool:
    """Return whether two adjacent words may be one, or part of one."""
    return (
        right.ordinal == left.ordinal + 1
        and not is_run(left.token.text)
        and not is_run(right.token.text)
        and (not _are_digits_beside(left, right) or _are_thousands(left, right))
    )


def _are_close(left: TypedWord, right: TypedWord) -> bool:
    """Return whether words are barely separated: by no space, or as digits next to letters."""
    return left.piece == right.piece or _is_border(left.token.text, right.token.text)


def _is_border(left: str, right: str) -> bool:
    return _is_digit(left[-1]) != _is_digit(right[0])


def _are_digits_beside(left: TypedWord, right: TypedWord) -> bool:
    return _is_digit(left.token.text[-1]) and _is_digit(right.token.text[0])


def _are_thousands(left: TypedWord, right: TypedWord) -> bool:
    return (
        _is_number(left.token.text)
        and _is_number(right.token.text)
        and len(left.token.text) <= 3
        and len(right.token.text) == 3
    )


def _is_code(words: Sequence[str]) -> bool:
    """Return whether words without spaces between them are groups of digits of one code."""
    return (
        len(words) > 1
        and CODE_LENGTH_MIN <= sum(map(len, words)) <= LETTERS_MAX
        and any(_is_digit(left[-1]) and _is_digit(right[0]) for left, right in pairwise(words))
        and not any(map(is_run, words))
    )


def _is_digit(character: str) -> bool:
    return "0" <= character <= "9"


def _is_number(word: str) -> bool:
    return word.isascii() and word.isdigit()
