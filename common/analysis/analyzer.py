"""The analyzer: text in, folded words out; the same for items, queries, synonyms and highlights.

Used by the coordinator (queries, stop words, synonyms), the shards (items), and highlighting.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from common.analysis.accented_spellings import is_spelling
from common.analysis.character_tables import (
    CLASS_SHIFT,
    PAGE_CELLS,
    PAGES,
    CharacterClass,
)
from common.analysis.tokenizer import STATE_SIZE, TABLES, TokenBuffers, token_buffers, tokenize_span

_NUM_WORDS = 1024
"""Words that are cut per kernel call, at most."""

_PLAIN_CHARS_MAX = 32
"""Characters of a word of ASCII letters and digits that needs no kernel."""

_RUN_CLASSES = (CharacterClass.RUN, CharacterClass.COMPOSE, CharacterClass.RUN_MARK)


class Token(NamedTuple):
    """One word of a text."""

    text: str
    """Folded, as in the vocabulary."""
    position: int
    """Ordinal in the text; bigrams of one run count up, so words in a row are one apart."""
    start: int
    """Where it begins in the text, in UTF-8 bytes (`Analyzer.tokenize`: in characters)."""
    end: int
    """Where it ends."""
    is_run: bool
    """Whether it is a piece of a run of a script without spaces."""


class Analyzer:
    """Cuts texts into folded words. Stateless but for its buffers: one per thread."""

    def __init__(self) -> None:
        self._buffers = TokenBuffers(*token_buffers(_NUM_WORDS))

    def tokenize(
        self, text: str, *, is_indexing: bool = False, words_max: int | None = None
    ) -> list[Token]:
        """Cut a text into words; starts and ends count characters of `text`.

        Args:
            text: any text; lone surrogates separate.
            is_indexing: whether the last character of a run is a word too, and spellings with
                accents, as in items; queries leave them out.
            words_max: how many words to return; the first ones. None: all.
        """
        if len(text) <= _PLAIN_CHARS_MAX and text.isalnum() and text.isascii():
            return [Token(text.lower(), 0, 0, len(text), False)][:words_max]
        encoded = text.encode("utf-8", "replace")
        tokens = self.tokenize_bytes(encoded, is_indexing=is_indexing, words_max=words_max)
        if len(encoded) == len(text):
            return tokens
        array = np.frombuffer(encoded, np.uint8)
        # Character number of each byte: how many bytes up to it begin a character.
        characters = np.cumsum((array & 0xC0) != 0x80)
        return [
            Token(word, position, int(characters[start]) - 1, int(characters[end - 1]), is_of_run)
            for word, position, start, end, is_of_run in tokens
        ]

    def tokenize_bytes(
        self, encoded: bytes, *, is_indexing: bool = False, words_max: int | None = None
    ) -> list[Token]:
        """Cut UTF-8 into words; starts and ends count bytes of `encoded`."""
        buffers = self._buffers
        tokens: list[Token] = []
        is_ascii = encoded.isascii()
        for count in self._cut(encoded, is_indexing):
            kept = count if words_max is None else min(count, words_max - len(tokens))
            for word, position, start, end in zip(
                self._cut_words(kept),
                buffers.positions[:kept].tolist(),
                buffers.starts[:kept].tolist(),
                buffers.ends[:kept].tolist(),
                strict=True,
            ):
                is_of_run = not is_ascii and is_run(word)
                tokens.append(Token(word, position, start, end, is_of_run))
            if len(tokens) == words_max:
                break
        return tokens

    def words(self, text: str) -> list[str]:
        """Return the folded words of a text, as `tokenize` has them.

        Cost: a fraction of `tokenize`; a tenth if they are plain ones with spaces between them.
        """
        if text.isascii() and text.replace(" ", "").isalnum():
            words = text.lower().split()
            if max(map(len, words)) <= _PLAIN_CHARS_MAX:
                return words
        words = []
        for count in self._cut(text.encode("utf-8", "replace")):
            words += self._cut_words(count)
        return words

    def count_words(self, text: str) -> int:
        """Return how many words a text has.

        Cost: that of the kernel; a text of thousands of words takes microseconds.
        """
        return sum(self._cut(text.encode("utf-8", "replace")))

    def _cut(self, encoded: bytes, is_indexing: bool = False) -> Iterator[int]:
        """Cut UTF-8 into words, some at a time; yield how many of them the buffers hold."""
        text = np.frombuffer(bytearray(encoded), np.uint8)
        state = np.zeros(STATE_SIZE, np.int64)
        at = 0
        while True:
            count, at = tokenize_span(
                text, at, len(text), TABLES, is_indexing, state, self._buffers
            )
            if count == 0:
                return
            yield count

    def _cut_words(self, count: int) -> list[str]:
        """Return the first words that the buffers hold."""
        ends = self._buffers.word_ends[:count].tolist()
        encoded = self._buffers.word_bytes[: ends[-1]].tobytes()
        return [encoded[start:end].decode() for start, end in pairwise((0, *ends))]

    def spelling(self, text: str) -> str | None:
        """Return the term of a word's spelling, or None if it has no accents."""
        if text.isascii():
            return None
        for token in self.tokenize_bytes(text.encode("utf-8", "replace"), is_indexing=True):
            if is_spelling(token.text):
                return token.text
        return None

    def fold(self, text: str) -> str:
        """Return the words of a text, folded, with one space between them."""
        return " ".join(self.words(text))


def is_run(word: str) -> bool:
    """Return whether a folded word is a piece of a run of a script without spaces."""
    if word.isascii():
        return False
    return _character_class(word[0]) in _RUN_CLASSES


def bare_word(word: str) -> str:
    """Return a folded word without symbols: c for c++ and c#, net for .net."""
    return word.strip("+#.")


def _character_class(character: str) -> int:
    point = ord(character)
    return int(PAGE_CELLS[int(PAGES[point >> 8]) << 8 | point & 255]) >> CLASS_SHIFT


def is_lone_character(word: str) -> bool:
    """Return whether a folded word is one character of an unspaced script, marks included.

    Bigrams begin with it, so a query treats it as a prefix.
    """
    return is_run(word) and all(
        _character_class(one) == CharacterClass.RUN_MARK for one in word[1:]
    )
