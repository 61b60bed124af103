"""Together or apart: other spacings of the words of a query (pure).

    spiderman        ──▶  spider man        the word in parts, side by side
    lap top          ──▶  laptop            two words joined: an alternative of either
    wi-fi            ──▶  wifi
    hp364            ──▶  hp 364            digits beside letters
    20000            ──▶  20 000            thousands
    jrr, u.s.a       ──▶  j r r, usa        initials
    c++, .net        ──▶  c, net            only where the index has no such word

`spacings_of` lists what the letters allow. `is_worthwhile` picks those that the index has often
enough, by counts over all shards: a few per cent of all words keep one, so most queries are
searched as if there were none. A document that has words as typed scores more (kind SPACING).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from common.analysis.analyzer import Token, bare_word, is_run

LETTERS_MAX: Final = 24
"""Longer words are neither split nor made."""
INITIALS_MAX: Final = 4
"""Letters of a word that may be initials (jrr), and words that may be joined to such a word."""
WHOLE_SHARE: Final = 10
"""A word is split unless the index has it more than so many times as often as its parts."""
COMMON_SHARE: Final = 8
"""Words that more than one in so many documents have are function words, or as good as: a bout,
in to, be long. They are not joined with another word, unless no space was typed between them."""
COMMON_DOCS_MIN: Final = 1_000
"""In fewer documents, shares say little about words."""


SYMBOLS: Final = ("+", "#")
"""Words may end with one (c++, f#), or begin with a dot (.net)."""


class Spacing(NamedTuple):
    """Another way to write one word of a query, or several in a row."""

    typed: tuple[str, ...]
    """The words as typed, folded."""
    words: tuple[str, ...]
    """The same letters with other spaces."""
    is_close: bool
    """Whether the typed words are hardly apart: no space between them, or digits beside letters."""


class TypedWord(NamedTuple):
    """An unquoted word of the query, in its place."""

    token: Token
    piece: int
    """Ordinal of the run of characters between spaces that it belongs to."""
    ordinal: int
    """Of all words of the query, so that neighbours are one apart."""


def spacings_of(row: Sequence[TypedWord]) -> Iterator[Spacing]:
    """Yield the spacings of the words of a query; those that are nowhere in the index, too."""
    texts = dict.fromkeys(word.token.text for word in row)
    for text in texts:
        for parts in _splits(text):
            yield Spacing((text,), parts, is_close=True)
    for size in range(2, INITIALS_MAX + 1):
        for start in range(len(row) - size + 1):
            words = row[start : start + size]
            if _can_join(words):
                typed = tuple(word.token.text for word in words)
                yield Spacing(typed, ("".join(typed),), _are_close(words))


def is_worthwhile(spacing: Spacing, freq: int, typed_freqs: Sequence[int], num_docs: int) -> bool:
    """Return whether a query should look for a spacing as well.

    Args:
        spacing: one of `spacings_of`.
        freq: documents that have it.
        typed_freqs: documents that have each of the typed words.
        num_docs: documents of the index.
    """
    if freq == 0:
        return False
    if bare_word(spacing.typed[0]) != spacing.typed[0] and len(spacing.typed) == 1:
        return typed_freqs[0] == 0
    if len(spacing.typed) == 1:
        return freq * WHOLE_SHARE >= typed_freqs[0]
    common = num_docs // COMMON_SHARE
    return spacing.is_close or num_docs < COMMON_DOCS_MIN or max(typed_freqs) <= common


def _splits(word: str) -> Iterator[tuple[str, ...]]:
    """Yield the ways to cut a word: in two anywhere, at changes to digits, in thousands, initials.

    Digits are cut in thousands only: 2015 is not "20 15".
    """
    if not 2 <= len(word) <= LETTERS_MAX or is_run(word):
        return
    if bare_word(word) != word:
        yield (bare_word(word),)
        return
    if _is_number(word):
        if len(word) > 3:
            head = len(word) % 3 or 3
            yield (word[:head], *(word[i : i + 3] for i in range(head, len(word), 3)))
        return
    for i in range(1, len(word)):
        if not (_is_digit(word[i - 1]) and _is_digit(word[i])):
            yield word[:i], word[i:]
    if 3 <= len(word) <= INITIALS_MAX and not any(map(_is_digit, word)):
        yield tuple(word)
    borders = [i for i in range(1, len(word)) if _is_digit(word[i - 1]) != _is_digit(word[i])]
    if 2 <= len(borders) < INITIALS_MAX:
        yield tuple(word[start:end] for start, end in pairwise([0, *borders, len(word)]))


def _can_join(words: Sequence[TypedWord]) -> bool:
    """Return whether adjacent words may be one: any two; more if they are initials or the like."""
    if any(is_run(word.token.text) for word in words):
        return False
    if sum(len(word.token.text) for word in words) > LETTERS_MAX:
        return False
    for left, right in pairwise(words):
        if right.ordinal != left.ordinal + 1:
            return False
        if _are_digits_beside(left, right) and not _are_thousands(left, right):
            return False
    return len(words) == 2 or _are_close(words) or all(len(one.token.text) == 1 for one in words)


def _are_close(words: Sequence[TypedWord]) -> bool:
    return all(
        left.piece == right.piece or _is_border(left.token.text, right.token.text)
        for left, right in pairwise(words)
    )


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


def _is_digit(character: str) -> bool:
    return "0" <= character <= "9"


def _is_number(word: str) -> bool:
    return all(map(_is_digit, word))
