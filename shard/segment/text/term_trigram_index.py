"""Infix search: finds the terms of a vocabulary that contain given letters.

    trigrams of the terms   term 0 = ab12   →  ab1 b12
                            term 1 = xb12c  →  xb1 b12 12c
    lists                   hash(b12)  →  0 1     terms, ascending, each once

Three adjacent bytes of a word are a trigram. Its hash selects a list of all terms that contain it
(and of those with another trigram of that hash). The terms in the shortest list of a word's
trigrams are compared byte by byte, so the answer is exhaustive.

The lists are made when a segment is first searched for an infix (a million codes of ten letters:
0.2 s and 40 MB) and kept in the LRU cache: an index that does not use them has none. If the cache
has no room for them, all terms are compared.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from common.kernels.decorator import arguments, kernel
from common.kernels.types import I64Array, U8Array, U32Array, int64, uint32
from shard.caches.lru_cache import COLUMN_CACHE
from shard.segment.text.text_index import text_index

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from shard.segment.segment import Segment

INFIX_BYTES_MIN: Final = 3
"""Shorter words have no trigram."""
_HASH_BITS: Final = 16
_MULTIPLIER: Final = 0x9E3779B1
_MASK: Final = 0xFFFFFFFF


@arguments
class Trigrams(NamedTuple):
    """Terms by trigram; see the module's drawing.

    Attributes:
        starts: where each list begins, with a sentinel; shape (2^16 + 1,).
        terms: ordinals, list by list.
    """

    starts: NDArray[np.uint32]
    terms: NDArray[np.uint32]


@kernel(inline=True, allocates=False)
def _hash(array: U8Array, at: int) -> int:
    """Return the list of the trigram at an offset."""
    trigram = int64(array[at]) << 16 | int64(array[at + 1]) << 8 | int64(array[at + 2])
    return ((trigram * _MULTIPLIER) & _MASK) >> (32 - _HASH_BITS)


@kernel
def _make_lists(term_bytes: U8Array, term_starts: I64Array, starts: U32Array) -> U32Array:
    """Fill `starts`, and return the terms of all lists."""
    last = np.full(len(starts), -1, np.int64)  # the last term of each list
    for term in range(len(term_starts) - 1):
        for at in range(term_starts[term], term_starts[term + 1] - 2):
            trigram = _hash(term_bytes, at)
            if last[trigram] != term:
                last[trigram] = term
                starts[trigram + 1] += uint32(1)
    for i in range(1, len(starts)):
        starts[i] += starts[i - 1]
    ends = starts.copy()
    last[:] = -1
    terms = np.empty(starts[len(starts) - 1], np.uint32)
    for term in range(len(term_starts) - 1):
        for at in range(term_starts[term], term_starts[term + 1] - 2):
            trigram = _hash(term_bytes, at)
            if last[trigram] != term:
                last[trigram] = term
                terms[ends[trigram]] = term
                ends[trigram] += uint32(1)
    return terms


@kernel(allocates=False)
def _has_inside(word: U8Array, term_bytes: U8Array, start: int, end: int) -> bool:
    """Return whether a term has the word anywhere."""
    length = len(word)
    for at in range(start, end - length + 1):
        i = 0
        while i < length and term_bytes[at + i] == word[i]:
            i += 1
        if i == length:
            return True
    return False


@kernel
def _find_among(
    word: U8Array, term_bytes: U8Array, term_starts: I64Array, trigrams: Trigrams
) -> U32Array:
    """Return the terms that have the word, ascending; without lists all are compared."""
    starts, terms = trigrams
    begin = 0
    end = len(term_starts) - 1
    has_lists = len(terms) > 0
    if has_lists:
        end = len(terms)
        for at in range(len(word) - 2):
            trigram = _hash(word, at)
            if int64(starts[trigram + 1]) - int64(starts[trigram]) < end - begin:
                begin = int64(starts[trigram])
                end = int64(starts[trigram + 1])
    found = np.empty(end - begin, np.uint32)
    num_found = 0
    for i in range(begin, end):
        term = int64(terms[i]) if has_lists else i
        if _has_inside(word, term_bytes, term_starts[term], term_starts[term + 1]):
            found[num_found] = term
            num_found += 1
    return found[:num_found].copy()


_NO_LISTS: Final = Trigrams(np.zeros(1, np.uint32), np.zeros(0, np.uint32))


def find_inside(segment: Segment, word: str) -> NDArray[np.uint32]:
    """Return the terms of a segment that have a word anywhere inside, ascending.

    Args:
        segment: whose vocabulary.
        word: folded, of three bytes or more.

    Cost: 10-20 ns a term of the shortest list; the lists, once.
    """
    encoded = np.frombuffer(bytearray(word, "utf-8"), np.uint8)
    assert len(encoded) >= INFIX_BYTES_MIN, "a word without a trigram"
    term_bytes, term_starts = text_index(segment).vocabulary.arena
    trigrams: Trigrams | None = COLUMN_CACHE.get(("trigrams", segment.uid))
    if trigrams is None:
        trigrams = _NO_LISTS
        if COLUMN_CACHE.takes(4 * len(term_bytes)):
            starts = np.zeros((1 << _HASH_BITS) + 1, np.uint32)
            trigrams = Trigrams(starts, _make_lists(term_bytes, term_starts, starts))
            num_bytes = starts.nbytes + trigrams.terms.nbytes
            COLUMN_CACHE.put(("trigrams", segment.uid), trigrams, num_bytes, segment)
    found: NDArray[np.uint32] = _find_among(encoded, term_bytes, term_starts, trigrams)
    # Spellings with accents come first; the words that they belong to are found anyway.
    return found[int(np.searchsorted(found, text_index(segment).vocabulary.num_spellings)) :]
