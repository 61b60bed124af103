"""A query text as clauses, and which texts have one."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from tests.oracle.words import is_run, pieces_of, typo_budget, word_matches, words_in

_PIECE = re.compile(r'(-?)"([^"]*)"|([^\s"]+)')


FUNCTION_WORDS = frozenset({"a", "and", "the", "of", "in"})
"""Of an index without a language: those that tests use."""


class Text(list[str]):
    """The words of a text of a field."""

    def __init__(self, path: str, words: Iterable[str]) -> None:
        super().__init__(words)
        self.path = path


@dataclass(frozen=True)
class Clause:
    """A word (or run), or a phrase."""

    words: tuple[str, ...]
    is_prefix: bool = False
    typos: int = 0
    is_quoted: bool = False
    keeps_first_letter: bool = False
    """Whether a typo may not change the first letter: in a word that some item has."""
    typos_in: tuple[tuple[str, int], ...] = ()
    """By field, "" for the others, where they differ; `typos` is the greatest."""
    infix_in: tuple[str, ...] | None = ()
    """Fields in which it is found inside words; None: in all."""
    synonyms: tuple[tuple[str, ...], ...] = ()
    """What it may be said as instead."""

    @property
    def is_phrase(self) -> bool:
        """Whether it is a phrase, as a run of three characters (two words of two) is."""
        return len(self.words) > 1 or (is_run(self.words[0]) and len(self.words[0]) > 2)

    def is_in(self, texts: list[Text]) -> bool:
        """Return whether one of the texts has it."""
        if any(Clause(words).is_in(texts) for words in self.synonyms):
            return True
        width = len(self.words)
        if width == 1:
            first = self.words[0][0] if self.keeps_first_letter else ""
            allowed = dict(self.typos_in)
            return any(
                (
                    term.startswith(first)
                    and word_matches(self.words[0], self.is_prefix, typos, term)
                )
                or (is_infix and self.words[0] in term)
                for text in texts
                for typos in (allowed.get(text.path, allowed.get("", self.typos)),)
                for is_infix in (self.is_infix_in(text.path),)
                for term in text
            )
        return any(
            tuple(text[at : at + width]) == self.words
            for text in texts
            for at in range(len(text) - width + 1)
        )

    def is_infix_in(self, path: str) -> bool:
        """Return whether the word is found inside those of a field."""
        word = self.words[0]
        is_listed = self.infix_in is None or path in self.infix_in
        return is_listed and not self.is_quoted and len(word) >= 3 and not is_run(word)

    def anywhere(self) -> Clause:
        """Return the same with what some field allows, in all fields."""
        return replace(self, typos_in=(), infix_in=None if self.infix_in else self.infix_in)


def parse(
    query: str,
    *,
    match: str,
    prefix: str,
    typo: Any,
    lengths: dict[str, Any],
    synonyms: Any = (),
    dropped: frozenset[str] = frozenset(),
) -> tuple[list[Clause], list[Clause]]:
    """Return the clauses that must and must not match.

    A run is one clause where all must match, otherwise each two characters of it are one.
    """
    wanted: list[Clause] = []
    excluded: list[Clause] = []
    others = said_otherwise(synonyms)
    row_start = 0

    def close_row() -> None:
        """Give each of the unquoted words since the last other piece its synonyms."""
        at = row_start
        while at < len(wanted):
            ends = range(len(wanted), at, -1)
            rows = ((end, tuple(one.words[0] for one in wanted[at:end])) for end in ends)
            end, row = next((one for one in rows if one[1] in others), (at + 1, ()))
            for i in range(at, end):
                wanted[i] = replace(wanted[i], synonyms=tuple(others.get(row, ())))
            at = end

    pieces = [piece for piece in _PIECE.finditer(query) if words_in(piece[0])]
    for i, piece in enumerate(pieces):
        is_phrase = piece[3] is None
        if is_phrase or is_excluded(piece):
            words = tuple(words_in(piece[2] if is_phrase else piece[3]))
            close_row()
            (excluded if is_excluded(piece) else wanted).append(Clause(words, is_quoted=is_phrase))
            row_start = len(wanted)
            continue
        words = tuple(words_in(piece[3]))
        if match not in ("all", "last"):
            words = tuple(part for word in words for part in pieces_of(word))
        for j, word in enumerate(words):
            if word in dropped:
                continue
            is_last = i == len(pieces) - 1 and j == len(words) - 1
            is_prefix = prefix == "all" or (prefix == "last" and is_last)
            typos = {path: typo_budget(word, typo, one) for path, one in lengths.items()}
            differ = tuple(typos.items()) if len(set(typos.values())) > 1 else ()
            wanted.append(Clause((word,), is_prefix, max(typos.values()), typos_in=differ))
    close_row()
    return list(dict.fromkeys(wanted)), excluded


def said_otherwise(synonyms: Any) -> dict[tuple[str, ...], list[tuple[str, ...]]]:
    """Return what each word or row of words may be said as: of groups, or by word."""
    if isinstance(synonyms, dict):
        pairs = [(one, other) for one, others in synonyms.items() for other in others]
    else:
        pairs = [(one, other) for group in synonyms for one in group for other in group]
    found: dict[tuple[str, ...], list[tuple[str, ...]]] = {}
    for one, other in pairs:
        if one != other:
            found.setdefault(tuple(words_in(one)), []).append(tuple(words_in(other)))
    return found


def function_words(query: str) -> frozenset[str]:
    """Return the function words of a query; none if nothing else is wanted."""
    for piece in _PIECE.finditer(query):
        words = words_in(piece[0])
        is_quoted = piece[3] is None
        if words and not is_excluded(piece) and (is_quoted or not FUNCTION_WORDS.issuperset(words)):
            return FUNCTION_WORDS
    return frozenset()


def is_excluded(piece: re.Match[str]) -> bool:
    """Return whether a piece with words excludes them."""
    return bool(piece[1]) if piece[3] is None else piece[3][0] == "-" and len(piece[3]) > 1


def wanted_words(query: str) -> list[str]:
    """Return the words of a query without the excluded ones, in order."""
    pieces = [piece for piece in _PIECE.finditer(query) if not is_excluded(piece)]
    return [word for piece in pieces for word in words_in(piece[0])]


def rows_of(query: str, dropped: frozenset[str]) -> list[list[tuple[str, int]]]:
    """Return the unquoted words that stand in a row, each with the number of its piece."""
    rows: list[list[tuple[str, int]]] = [[]]
    for number, piece in enumerate(_PIECE.finditer(query)):
        if not words_in(piece[0]):
            continue
        if piece[3] is None or is_excluded(piece):
            rows.append([])
        else:
            for word in words_in(piece[3]):
                if word in dropped:
                    rows.append([])
                else:
                    rows[-1].append((word, number))
    return rows


def wants_words(query: str) -> bool:
    """Return whether a query text restricts anything."""
    return bool(words_in(query))


def num_required(match: str, num_clauses: int) -> int:
    """Return how many of the clauses a hit must have at least, as `match` says."""
    if match == "any":
        return 1
    if match.endswith("%"):
        return max(1, num_clauses * int(match[:-1]) // 100)
    return num_clauses
