"""Proximity: a bonus for documents in which the query's words stand together.

    query    green mile house
    pairs    (green, mile) (mile, house)              neighbours in the query
    text     the green mile, a prison house
                 1     2        4      5
    close    green → mile: 1 step, 1.0      mile → house: 3 steps, 1/3

The closeness of a pair in a document is its best one in any field: 1 / distance in order, half of
it in the other order, 0 beyond `WINDOW` words; 2 if it is 1 and the pair before ends right there.
The bonus of a document is the sum over the pairs of

    query.proximity · lesser weight of the two words · closeness

so a pair that stands together counts like a further word of that part of its weight.

As the bonus is bounded, most documents need not be looked at: of the k best by score without it,
the worst has at least that score with it; whoever cannot reach this even with the whole bonus stays
below. Only the others' positions are read, and the order of the k best is exact.

Costs: reading the positions of the documents that can still get there, 50-100 ns each and word.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from common.kernels import kernel
from shard.index.positions import POSITION_GAP, decode_varint, skip_varints
from shard.index.postings import (
    BLOCK_ENTRIES,
    block_offset,
    count_block_entries,
    count_blocks,
    decode_docs,
    decode_entry,
    next_block,
    seek,
    sum_freqs,
)
from shard.query.bm25f import FieldGains
from shard.query.phrase import _LISTS, lists_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from shard.index.text_index import TextIndex
    from shard.query.expansion import Expansion

WINDOW: Final = 8
"""Words further apart than this are not near; must be less than the gap between values."""
assert WINDOW < POSITION_GAP
CHAIN_MAX: Final = 2
"""A pair that goes on from a pair standing together counts twice: longer sequences say more."""
RUN_PAIR_FACTOR: Final = 0.05
"""What a pair of overlapping bigrams counts."""
WORDS_MAX: Final = 64
"""Words of a query that proximity looks at (six bits of an occurrence)."""
_POSITION_MAX: Final = (1 << 22) - 1
_DOCS_MAX: Final = 1 << 20
"""Documents looked at in one go (twenty bits of an occurrence)."""


@kernel(
    f"uint64[::1]({_LISTS}, uint32[::1], uint64[::1], int64[::1], uint32[::1], uint64[::1],"
    " int32[::1], float64[:, ::1])"
)
def _list_occurrences(
    postings: Any,
    posting_starts: Any,
    entry_counts: Any,
    skip_starts: Any,
    skip_docs: Any,
    skip_postings: Any,
    positions: Any,
    position_starts: Any,
    skip_positions: Any,
    terms: Any,
    languages: Any,
    words: Any,
    wanted: Any,
    row_languages: Any,
    field_rows: Any,
    gains: Any,
) -> Any:
    """Return the places of terms, each of a word, in the wanted documents.

    An occurrence is: number in `wanted` (20 bits), field (16), position (22), 63 - word (6): where
    one place is two words of the query, the later word is looked at first, so that it meets the
    earlier one at the place before, not at its own.
    """
    docs = np.empty(BLOCK_ENTRIES, np.uint32)
    size = np.int64(256)
    found = np.empty(size, np.uint64)
    num_found = 0
    num_wanted = len(wanted)
    for i_term in range(len(terms)):
        term = np.int64(terms[i_term])
        num_blocks = count_blocks(skip_starts, term)
        place = np.int64(0)
        block = np.int64(0)
        while True:
            block, place = next_block(skip_starts, skip_docs, term, block, wanted, place)
            if block == num_blocks:
                break
            at = posting_starts[term] + block_offset(skip_starts, skip_postings, term, block)
            cursor = position_starts[term] + block_offset(skip_starts, skip_positions, term, block)
            count = count_block_entries(entry_counts, term, block)
            block += 1
            bit, width, low_bits, freq_bits = decode_docs(postings, at, count, docs)
            i = np.int64(0)
            num_read = np.int64(0)  # entries whose positions are behind the cursor
            while place < num_wanted:
                i = seek(docs, i, count, wanted[place])
                if i == count:
                    break
                if docs[i] != wanted[place]:
                    place += 1
                    continue
                field, freq = decode_entry(postings, bit + i * width, low_bits, freq_bits)
                field_row = field_rows[field]
                i += 1
                if gains[field_row, 1] == 0.0 or not row_languages[field_row] & languages[i_term]:
                    continue
                num_skipped = sum_freqs(postings, bit, width, freq_bits, num_read, i - 1)
                cursor = skip_varints(positions, cursor, num_skipped)
                num_read = i
                if num_found + freq > size:
                    size = 2 * (num_found + freq)
                    more_found = np.empty(size, np.uint64)
                    more_found[:num_found] = found[:num_found]
                    found = more_found
                upper = (
                    np.uint64(place) << np.uint64(44)
                    | np.uint64(field) << np.uint64(28)
                    | np.uint64(63 - words[i_term])
                )
                position = np.int64(0)
                for _ in range(freq):
                    delta, cursor = decode_varint(positions, cursor)
                    position += delta
                    place_bits = np.uint64(min(position, _POSITION_MAX)) << np.uint64(6)
                    found[num_found] = upper | place_bits
                    num_found += 1
            if place == num_wanted:
                break
    return found[:num_found]


@kernel("float64[::1](uint64[::1], int64, float64[::1])")
def _measure(occurrences: Any, num_docs: Any, pair_weights: Any) -> Any:
    """Return the sum of pair weight times closeness of each document, from sorted occurrences.

    ``pair_weights[w]`` is the weight of the pair of words w and w + 1.
    """
    num_words = len(pair_weights) + 1
    sums = np.zeros(num_docs, np.float64)
    last = np.empty(num_words, np.int64)
    chain = np.zeros(num_words, np.int64)
    best = np.zeros(num_words, np.float64)
    i = 0
    size = len(occurrences)
    while i < size:
        doc = occurrences[i] >> np.uint64(44)
        best[:] = 0.0
        while i < size and occurrences[i] >> np.uint64(44) == doc:
            text = occurrences[i] >> np.uint64(28)
            last[:] = -1
            while i < size and occurrences[i] >> np.uint64(28) == text:
                word = 63 - np.int64(occurrences[i] & np.uint64(63))
                position = np.int64(occurrences[i] >> np.uint64(6) & np.uint64(_POSITION_MAX))
                i += 1
                chain[word] = 0
                if word > 0 and last[word - 1] >= 0:
                    distance = position - last[word - 1]
                    if distance == 1:
                        chain[word] = min(chain[word - 1] + 1, CHAIN_MAX)
                        best[word - 1] = max(best[word - 1], float(chain[word]))
                    elif 0 < distance <= WINDOW:
                        best[word - 1] = max(best[word - 1], 1.0 / distance)
                if word + 1 < num_words and last[word + 1] >= 0:
                    distance = position - last[word + 1]
                    if 0 < distance <= WINDOW:
                        best[word] = max(best[word], 0.5 / distance)
                last[word] = position
        for pair in range(num_words - 1):
            sums[doc] += pair_weights[pair] * best[pair]
    return sums


def closeness_bound(pair_weights: NDArray[np.float64]) -> float:
    """Return the greatest sum that `sum_closeness` can give; no pair goes before the first."""
    return float(pair_weights[0] + CHAIN_MAX * pair_weights[1:].sum())


def sum_closeness(
    index: TextIndex,
    expansions: Sequence[Expansion],
    pair_weights: NDArray[np.float64],
    docs: NDArray[np.uint32],
    fields: FieldGains,
) -> NDArray[np.float64]:
    """Return per document the sum over neighbouring words of pair weight times closeness.

    Args:
        index: the segment's text structures.
        expansions: of the query's words, in order; at most `WORDS_MAX`.
        pair_weights: of each word and the next.
        docs: ascending documents.
        fields: which are searched, and their languages.
    """
    terms = np.concatenate([one.terms for one in expansions])
    languages = np.concatenate([one.languages for one in expansions])
    words = np.repeat(np.arange(len(expansions)), [len(one) for one in expansions])
    sums = np.zeros(len(docs))
    for start in range(0, len(docs), _DOCS_MAX):
        wanted = docs[start : start + _DOCS_MAX]
        occurrences = _list_occurrences(
            *lists_of(index),
            terms,
            languages,
            words,
            wanted,
            fields.row_languages,
            index.field_rows,
            fields.gains,
        )
        occurrences.sort()
        sums[start : start + _DOCS_MAX] = _measure(occurrences, len(wanted), pair_weights)
    return sums
