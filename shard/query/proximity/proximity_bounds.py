"""The most that proximity can add to each of many documents, without reading positions.

A pair of words counts only in documents that have both, and twice only in those that have the word
before them as well. If not all words must match, most documents have no pair at all:

    query       green mile house hill
    document    mile, hill                no pair: 0
                mile, house               (mile, house) once
                green, mile, house        (green, mile) once, (mile, house) twice at most

The bitsets of neighbouring words are intersected. A word has all its terms here, as its occurrences
have them, also those that count nothing as a match.

Cost: for each word 1 µs per 100,000 documents if all its terms have bitsets; 2 ns an entry of the
lists of others. 3 ns for each document and pair.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np

from common.kernels.decorator import kernel
from common.kernels.intrinsics import trailing_zeros
from common.kernels.types import I64Array, U64Array, int64, uint64
from shard.query.postings.term_lists import TermLists
from shard.query.proximity.proximity_scores import CHAIN_MAX, Proximity
from shard.query.scoring.top_k_selection import GREATEST, pick
from shard.segment.doc_sets import NO_BITS, bitset_of, empty_bitset
from shard.segment.text.postings_cursor import ALL_DOCS, Wanted

if TYPE_CHECKING:
    from numpy.typing import NDArray

_MEASURED_ENTRIES: Final = 32
"""Measuring a document takes as long as reading this many entries of a list for each word."""
_CANDIDATES_SHARE: Final = 64
"""With fewer documents than 1 / `_CANDIDATES_SHARE` of the segment's, blocks without one are
skipped."""


@kernel(allocates=False)
def _add_pair(
    before: U64Array, first: U64Array, second: U64Array, unit: int, most: I64Array
) -> None:
    """Add a pair's greatest score to the documents that have both words.

    Args:
        before: bitset of the word before the pair; empty: there is none.
        first: bitset of its first word.
        second: bitset of its second word.
        unit: score of the pair at proximity 1.
        most: by document.
    """
    has_before = len(before) > 0
    for position in range(len(first)):
        both = first[position] & second[position]
        all_three = both & before[position] if has_before else uint64(0)
        while both != 0:
            bit = trailing_zeros(both)
            is_chain = int64(all_three >> uint64(bit) & uint64(1))
            most[(position << 6) + bit] += unit * (1 + (CHAIN_MAX - 1) * is_chain)
            both &= both - uint64(1)


def pays_off(lists: TermLists, proximity: Proximity, num_docs: int) -> bool:
    """Return whether to bound this many documents before they are measured."""
    num_entries = int(lists.index.lists.entry_counts[proximity.lists.read.terms].sum())
    num_words = len(proximity.pair_weights) + 1
    return num_docs * num_words * _MEASURED_ENTRIES > num_entries


def pick_in_reach(
    lists: TermLists,
    proximity: Proximity,
    docs: NDArray[np.uint32],
    totals: NDArray[np.int64],
    least: int,
) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
    """Return the documents that can reach a score with proximity, and their scores without it.

    Args:
        lists: of the segment.
        proximity: of the query's words.
        docs: ascending.
        totals: their scores without proximity.
        least: the score to reach.
    """
    num_docs = lists.index.num_docs
    wanted = ALL_DOCS
    if len(docs) * _CANDIDATES_SHARE < num_docs:
        wanted = Wanted.among(docs, bitset_of(docs, num_docs))
    read = proximity.lists.read
    starts = np.searchsorted(read.words, np.arange(len(proximity.pair_weights) + 2))

    def mark_word(word: int) -> NDArray[np.uint64]:
        terms = slice(starts[word], starts[word + 1])
        marked = empty_bitset(num_docs)
        lists.mark(read.terms[terms], read.masks[terms], wanted, marked)
        return marked

    most = np.zeros(num_docs, np.int64)
    before, first = NO_BITS, mark_word(0)
    for pair, weight in enumerate(proximity.pair_weights.tolist()):
        second = mark_word(pair + 1)
        # A little above, so that rounding cannot prune a document.
        unit = math.ceil(weight * proximity.unit * (1.0 + 1e-9)) + 1
        _add_pair(before, first, second, unit, most)
        before, first = first, second
    near: tuple[NDArray[np.uint32], NDArray[np.int64]]
    near = pick(docs, totals + most[docs], least, GREATEST, totals)
    return near
