"""Query text → pieces (pure): words as typed, and quoted phrases, each with its sign.

    the "green mile"  -horror  han
    ─┬─ ─────┬──────  ───┬───  ─┬─
     └ word  └ phrase    │      └ word; the text ends within it, so it may be incomplete
                         └ excluded word

`query_parser` makes clauses of them.
"""

from __future__ import annotations

import re
from collections.abc import Generator
from typing import Final, TypeAlias

from msgspec import Struct

from common.analysis.analyzer import Analyzer, Token
from common.process.cooperative_scheduler import run_to_completion
from coordinator.read.text.word_spacings import SYMBOLS

Words: TypeAlias = tuple[str, ...]

_CLOSING: Final = re.compile(r"[^\s\w'’.,-]")
"""What closes the word before it: after "(new)" or "rock!" no letters will follow."""
_PIECE: Final = re.compile(r'(?P<sign>-?)"(?P<phrase>[^"]*)(?P<close>"?)|(?P<word>[^\s"]+)')


class Piece(Struct):
    """A part of the query text: one word as typed, or one quoted phrase."""

    tokens: list[Token]
    is_phrase: bool
    is_excluded: bool
    is_open: bool
    """Whether the text ends within this piece, so that its last word may be incomplete."""


def split_query(
    text: str, analyzer: Analyzer, words_max: int
) -> Generator[None, None, tuple[list[Piece], int]]:
    """Return the pieces of the first words of a query; how many words follow. Yield before each.

    Where words follow, the last one kept is complete, hence no prefix.
    """
    pieces: list[Piece] = []
    num_left, num_cut = words_max, 0
    for match in _PIECE.finditer(text):
        yield
        is_phrase = match["word"] is None
        begin, end = match.span("phrase" if is_phrase else "word")
        tokens = analyzer.tokenize(text[begin:end], words_max=num_left)
        if begin:
            tokens = [
                Token(one.text, one.position, begin + one.start, begin + one.end, one.is_run)
                for one in tokens
            ]
        if tokens:
            is_open = is_phrase and not match["close"]
            pieces.append(Piece(tokens, is_phrase, _is_excluded(match), is_open))
        num_left -= len(tokens)
        if not num_left:
            num_cut = analyzer.count_words(text[begin:]) - len(tokens)
            break
    if num_cut:
        pieces[-1].is_open = False
    elif pieces and not pieces[-1].is_phrase:
        last = pieces[-1].tokens[-1]
        pieces[-1].is_open = not last.text.endswith(SYMBOLS) and not _CLOSING.search(text, last.end)
    return pieces, num_cut


def _is_excluded(piece: re.Match[str]) -> bool:
    """Return whether the sign of a word or phrase excludes it; a minus sign alone does not."""
    word = piece["word"]
    return bool(piece["sign"]) if word is None else word[0] == "-" and word.strip("-") != ""


def without_exclusions(text: str) -> str:
    """Return a text without the minus signs that would exclude words if it were a query."""
    return _PIECE.sub(lambda one: one[0].lstrip("-") if _is_excluded(one) else one[0], text)


def wanted_words(text: str, analyzer: Analyzer) -> Words:
    """Return the folded words of a query, without those that it excludes."""
    return tuple(analyzer.words(_PIECE.sub(lambda one: " " if _is_excluded(one) else one[0], text)))


def typed_words(text: str, analyzer: Analyzer, words_max: int) -> tuple[list[Token], bool] | None:
    """Return the first words of a query, and whether the last one may be incomplete.

    None if something is quoted or excluded: such a query is not guessed at.
    """
    pieces, _ = run_to_completion(split_query(text, analyzer, words_max))
    if not pieces or any(piece.is_phrase or piece.is_excluded for piece in pieces):
        return None
    return [token for piece in pieces for token in piece.tokens], pieces[-1].is_open


def pieces_as_typed(text: str, analyzer: Analyzer) -> list[tuple[str, Words]]:
    """Return the words and phrases of a query as typed, signs included, with their folded words."""
    pieces = []
    for match in _PIECE.finditer(text):
        words = tuple(analyzer.words(match.group()))
        if words:
            pieces.append((match.group(), words))
    return pieces
