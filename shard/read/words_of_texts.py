"""The words of the texts that are marked, as numbers: what a word matches is found out once.

    The Green Mile, a green one     numbers     0 1 2 3 1 4     texts     the green mile a one

Numbers are those of one request, in order of first appearance over all its documents. So the cost
of a word is that of the tokenizer and of a hash table, some 10 ns, and for each distinct one that
of a vocabulary, in which the query's words are looked up; Python sees only those that match.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from common.analysis.accented_spellings import SPELLING_END
from common.analysis.tokenizer import (
    STATE_SIZE,
    TABLES,
    TokenBuffers,
    token_buffers,
    tokenize_span,
)
from shard.segment.text.term_numbering import (
    CHUNK_WORDS,
    END,
    START,
    DistinctWords,
    arrange_terms,
    grow_table,
    new_words,
    number_chunk,
    vocabulary_order,
)
from shard.segment.text.vocabulary import Vocabulary, finish_vocabulary

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Words(NamedTuple):
    """The words of a text but for spellings, in its order."""

    numbers: NDArray[np.uint32]
    """Their numbers, of `WordsOfTexts`."""
    positions: NDArray[np.uint32]
    """Ordinals in the text; bigrams of one run count up, so words in a row are one apart."""
    starts: NDArray[np.int64]
    """Where they begin in the text, in UTF-8 bytes."""
    ends: NDArray[np.int64]
    """Where they end."""

    def between(self, start: int, end: int) -> Words:
        """Return some words in a row."""
        numbers, positions, starts, ends = self
        return Words(numbers[start:end], positions[start:end], starts[start:end], ends[start:end])


class NumberedVocabulary(NamedTuple):
    """Words of texts, as a vocabulary."""

    terms: Vocabulary
    numbers: NDArray[np.int64]
    """By term ordinal: the number of the word."""


class WordsOfTexts:
    """Splits texts into words and numbers these."""

    def __init__(self) -> None:
        self.num_words = 0
        """How many distinct words there are so far; spellings among them."""
        self._texts: list[str] = []
        self._buffers = TokenBuffers(*token_buffers(CHUNK_WORDS))
        self._hashed = np.empty((CHUNK_WORDS, 2), np.uint64)
        self._distinct = DistinctWords(*new_words(0, len(self._buffers.word_bytes)))

    def split(self, encoded: Sequence[bytes]) -> list[Words]:
        """Return the words of each of some texts in UTF-8.

        The tokenizer takes them as the lines of one text: no word depends on what stands in another
        line. (Positions go on from line to line; only their differences within one matter.)
        """
        lines = b"\n".join(encoded)
        words = self._split(lines)
        if not lines.isascii():
            firsts = self._distinct.word_bytes[self._distinct.rows[words.numbers, START]]
            words = Words(*(one[firsts >= SPELLING_END] for one in words))
        begins = np.array([0, *accumulate(len(one) + 1 for one in encoded)])
        bounds = words.ends.searchsorted(begins, "right")
        offsets = begins[:-1].repeat(bounds[1:] - bounds[:-1])
        words = words._replace(starts=words.starts - offsets, ends=words.ends - offsets)
        return [words.between(first, last) for first, last in pairwise(bounds.tolist())]

    def _split(self, encoded: bytes) -> Words:
        """Return the words of a text, spellings among them."""
        text = np.frombuffer(bytearray(encoded), np.uint8)
        buffers = self._buffers
        state = np.zeros(STATE_SIZE, np.int64)
        chunks: list[Words] = []
        at = 0
        while at < len(text):
            count, at = tokenize_span(text, at, len(text), TABLES, True, state, buffers)
            numbers = np.empty(count, np.uint32)
            self._make_room(count)
            self.num_words = number_chunk(
                buffers, count, self._hashed, self._distinct, self.num_words, numbers
            )
            positions, starts, ends = buffers.positions, buffers.starts, buffers.ends
            chunks.append(
                Words(numbers, positions[:count].copy(), starts[:count].copy(), ends[:count].copy())
            )
        return chunks[0] if len(chunks) == 1 else _joined(chunks)

    def _make_room(self, count: int) -> None:
        """Let as many new words fit as a chunk has.

        In Python: a kernel cannot return what need not grow, which it was given.
        """
        slots, rows, word_bytes = self._distinct
        num_terms = self.num_words
        num_bytes = int(rows[num_terms - 1, END]) if num_terms else 0
        needs_rows = num_terms + count > len(rows)
        needs_bytes = num_bytes + len(self._buffers.word_bytes) > len(word_bytes)
        if needs_rows:
            slots = grow_table(slots)
            rows = np.concatenate((rows, np.empty_like(rows)))
        if needs_bytes:
            word_bytes = np.concatenate((word_bytes, np.empty_like(word_bytes)))
        if needs_rows or needs_bytes:
            self._distinct = DistinctWords(slots, rows, word_bytes)

    def texts(self) -> list[str]:
        """Return the distinct words by number, folded, as in a vocabulary."""
        known = len(self._texts)
        if known < self.num_words:
            rows = self._distinct.rows[known : self.num_words]
            first = int(rows[0, START])
            added = self._distinct.word_bytes[first : int(rows[-1, END])].tobytes()
            bounds = (rows[:, START : END + 1] - first).tolist()
            self._texts += [added[start:end].decode() for start, end in bounds]
        return self._texts

    def vocabulary(self, known: int) -> NumberedVocabulary:
        """Return the vocabulary of all distinct words but the first `known`."""
        rows, word_bytes = self._distinct.rows[known : self.num_words], self._distinct.word_bytes
        order = vocabulary_order(rows, word_bytes)
        term_bytes, term_starts, _ = arrange_terms(rows, word_bytes, order)
        return NumberedVocabulary(
            Vocabulary(finish_vocabulary(term_bytes, term_starts)), order + known
        )


def _joined(chunks: Sequence[Words]) -> Words:
    if not chunks:
        none, nowhere = np.zeros(0, np.uint32), np.zeros(0, np.int64)
        return Words(none, none, nowhere, nowhere)
    return Words(*map(np.concatenate, zip(*chunks, strict=True)))
