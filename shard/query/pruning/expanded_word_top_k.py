"""Top k of one word that many terms match, without scoring every document.

The first letters of a word may begin hundreds of terms, and too few entries for a list of their own
(`shard/segment/text/prefix_lists.py`). What a document scores is the sum of its entries, so no
bound of one list says whether it is among the best. But most documents have one entry only:

    gr          300 terms, 260,000 entries        documents
    marked                                          245,000   found so far
    marked twice                                     14,000   several entries: scored
      ─▶ the k-th best of these: the t to reach
    a block whose greatest frequency cannot reach it     -    skipped, not decoded
    an entry that cannot, in the field's shortest text   -    skipped
    the others                                          100   scored

So the union takes two passes that decode documents only; hardly any length is read, and no
accumulator of a document that is just counted.

From the second search of a word on, no list is read (`kept_words`).

Cost: 4 ns an entry, 20 ns for each document with several.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from common.analysis.field_classes import ALL_CLASSES
from common.kernels.array_growth import grown
from common.kernels.decorator import arguments, kernel
from common.kernels.types import (
    I64Array,
    U8Array,
    U32Array,
    U64Array,
    int64,
    uint32,
    uint64,
)
from shard.caches.derived_values import derived
from shard.query.postings.term_plan import SearchedLists
from shard.query.pruning.kept_words import BestOfWord
from shard.query.scoring.bm25f import (
    Cells,
    FieldTfNorms,
    ScoredLists,
    WeighedTerms,
    add_terms,
    bm25_tf,
    least_tf_of,
    length_code,
    take_tfs,
)
from shard.query.scoring.scratch_arrays import SCRATCH
from shard.query.scoring.top_k_selection import best_of, kth_greatest
from shard.segment.doc_sets import count_docs, empty_bitset, has_bit, list_all_docs
from shard.segment.text.postings import (
    BLOCK_ENTRIES,
    Packing,
    PostingLists,
    decode_entry,
    open_block,
)
from shard.segment.text.postings_cursor import (
    Wanted,
    block_start,
    decode_docs,
    next_block,
    open_postings,
)
from shard.segment.text.text_index import text_index

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from shard.query.postings.term_lists import TermLists
    from shard.segment.segment import Segment

ENTRIES_MIN: Final = 4_096
"""Fewer entries are scored as fast as they are looked through."""
_ENTRIES_PER_HIT: Final = 32
"""With fewer entries for each of the best that are wanted, too many can be among these."""
_ONE: Final = uint64(1)


@arguments
class _Marked(NamedTuple):
    """Which documents have entries of the terms.

    Attributes:
        any: bitset of those with at least one.
        several: bitset of those with more.
    """

    any: NDArray[np.uint64]
    several: NDArray[np.uint64]


@arguments
class _Norms(NamedTuple):
    """The greatest tf norms that occur.

    Attributes:
        of_rows: by row of the field lengths.
        greatest: of these.
    """

    of_rows: NDArray[np.float64]
    greatest: float


@arguments
class _Found(NamedTuple):
    """Documents with their weighted tfs, and room for more."""

    docs: NDArray[np.uint32]
    tfs: NDArray[np.int64]


@arguments
class _Reach(NamedTuple):
    """What an entry needs to reach the best.

    Attributes:
        single: bitset of the documents that have no other entry.
        norms: what an entry has at most.
        least: the least t that is among the best.
    """

    single: NDArray[np.uint64]
    norms: _Norms
    least: int


@arguments
class _WordScratch(NamedTuple):
    """Per-document scratch arrays, clean."""

    cells: Cells
    marked: _Marked


@kernel(allocates=False)
def _mark(lists: PostingLists, terms: U32Array, marked: _Marked, docs: U32Array) -> None:
    """Mark the documents of each entry of some terms."""
    for term in terms:
        cursor = open_postings(term)
        while True:
            cursor = next_block(lists, cursor)
            if cursor.size == 0:
                break
            decode_docs(lists, cursor, docs)
            for i in range(cursor.size):
                word = docs[i] >> uint32(6)
                bit = _ONE << uint64(docs[i] & uint32(63))
                before = marked.any[word]
                marked.several[word] |= before & bit
                marked.any[word] = before | bit


@kernel(inline=True, allocates=False)
def _t_of(freq: int, tf_norm: float, ratio: float) -> int:
    """Return what one entry adds to the t of its document."""
    return int64(freq * tf_norm * ratio + 0.5)


@kernel(allocates=False)
def _score_block(
    scored: ScoredLists,
    packing: Packing,
    block_docs: U32Array,
    ratio: float,
    reach: _Reach,
    found: _Found,
    num_found: int,
) -> int:
    """Append those entries of a block that reach the best; return how many are found then."""
    single, norms, least = reach
    _, lengths, tf_norms, _ = scored
    for i in range(len(block_docs)):
        field, freq = decode_entry(scored.lists.postings, packing, i)
        doc = block_docs[i]
        row = uint64(lengths.field_rows[field])
        # Most entries cannot reach it even in the shortest field: their length is not looked up.
        if _t_of(freq, norms.of_rows[row], ratio) < least or not has_bit(single, doc):
            continue
        t = _t_of(freq, tf_norms[row, length_code(lengths, row, int64(doc))], ratio)
        found.docs[num_found] = doc
        found.tfs[num_found] = t
        num_found += t >= least
    return num_found


@kernel
def _score_reaching(
    scored: ScoredLists, weighed: WeighedTerms, reach: _Reach
) -> tuple[U32Array, I64Array]:
    """Return those documents with one entry that reach the best.

    They come in the order of terms, with their t.
    """
    lists = scored.lists
    postings = lists.postings
    least, greatest = reach.least, reach.norms.greatest
    docs = np.empty(BLOCK_ENTRIES, np.uint32)
    found = _Found(np.empty(BLOCK_ENTRIES, np.uint32), np.empty(BLOCK_ENTRIES, np.int64))
    num_found = int64(0)
    for i_term in range(len(weighed.terms)):
        ratio = weighed.ratios[i_term]
        cursor = open_postings(weighed.terms[i_term])
        while True:
            cursor = next_block(lists, cursor)
            if cursor.size == 0:
                break
            _, packing = open_block(postings, block_start(lists, cursor))
            # The bits of a frequency bound those of the block: most blocks are not decoded.
            if _t_of(1 << packing.freq, greatest, ratio) < least:
                continue
            decode_docs(lists, cursor, docs)
            capacity = len(found.docs)
            if num_found + cursor.size > capacity:
                found = _Found(grown(found.docs, 2 * capacity), grown(found.tfs, 2 * capacity))
            num_found = _score_block(
                scored, packing, docs[: cursor.size], ratio, reach, found, num_found
            )
    return found.docs[:num_found], found.tfs[:num_found]


@kernel
def _reaching(
    searched: SearchedLists,
    weighed: WeighedTerms,
    weight: float,
    norms: _Norms,
    allowed: U64Array,
    scratch: _WordScratch,
    k: int,
) -> tuple[U32Array, I64Array]:
    """Return the documents that can be among the k best, unordered, with their tfs."""
    scored, k1 = searched.scored, searched.k1
    cells, marked = scratch
    _mark(scored.lists, weighed.terms, marked, np.empty(BLOCK_ENTRIES, np.uint32))
    size = len(marked.any)
    single = np.empty(size, np.uint64)
    for word in range(size):
        if len(allowed) > 0:
            marked.any[word] &= allowed[word]
            marked.several[word] &= allowed[word]
        single[word] = marked.any[word] & ~marked.several[word]
    # The documents with several entries, all of them; without any, no bit is wanted (an empty
    # bitset would mean all).
    docs = list_all_docs(marked.several, count_docs(marked.several))
    if len(docs) > 0:
        add_terms(scored, weighed, Wanted(marked.several, docs, False), cells)
    tfs, _ = take_tfs(docs, cells)
    # Then those with one entry that can reach the k-th best score, which several tfs may have.
    least = int64(0)
    if len(docs) >= k:
        least = least_tf_of(bm25_tf(kth_greatest(tfs, k), weight, k1), weight, k1)
    more, more_tfs = _score_reaching(scored, weighed, _Reach(single, norms, least))
    return np.concatenate((docs, more)), np.concatenate((tfs, more_tfs))


@kernel
def _best_of_word(
    searched: SearchedLists,
    weighed: WeighedTerms,
    weight: float,
    norms: _Norms,
    allowed: U64Array,
    scratch: _WordScratch,
    k: int,
) -> tuple[U32Array, I64Array]:
    """Kernel of `best_of_word`; the documents are unordered."""
    docs, scores = _reaching(searched, weighed, weight, norms, allowed, scratch, k)
    for i in range(len(docs)):
        scores[i] = bm25_tf(scores[i], weight, searched.k1)
    return best_of(docs, scores, k)


@kernel
def _least_code(codes: U8Array) -> int:
    """Return the least length code but 0; 255 if there is none."""
    least = int64(255)
    for code in codes:
        least = min(least, int64(code) - 1 & 255)
    return min(least + 1, 255)


@derived
def _least_codes(segment: Segment) -> list[int]:
    """Return, by row of the field lengths, the code of the shortest text."""
    lengths = text_index(segment).field_lengths
    starts = lengths.length_starts.tolist()
    return [_least_code(lengths.lengths[start:end]) for start, end in itertools.pairwise(starts)]


def pays_off(fields: FieldTfNorms, weighed: WeighedTerms, num_entries: int, k: int) -> bool:
    """Return whether `best_of_word` serves for a word, and takes less time than scoring all.

    Args:
        fields: that are searched.
        weighed: the terms.
        num_entries: of these.
        k: how many of the best are wanted.
    """
    return (
        num_entries >= max(ENTRIES_MIN, _ENTRIES_PER_HIT * k)
        and fields.are_all_searched
        and bool((weighed.masks == ALL_CLASSES).all())
        and int(weighed.tiers.min()) == int(weighed.tiers.max())
    )


def best_of_word(
    lists: TermLists,
    weighed: WeighedTerms,
    weights: Sequence[float],
    allowed: NDArray[np.uint64],
    k: int,
) -> BestOfWord:
    """Return the documents of a word of several terms, and the best of them.

    Args:
        lists: of the segment.
        weighed: the terms, all of one tier; see `pays_off`.
        weights: of the word by tier.
        allowed: bitset of documents; empty: all.
        k: at least 1.
    """
    weight = float(weights[weighed.tiers[0]])
    num_docs = lists.index.num_docs
    SCRATCH.reserve(num_docs)
    marked = _Marked(empty_bitset(num_docs), empty_bitset(num_docs))
    docs, scores = _best_of_word(
        lists.searched,
        weighed,
        weight,
        _norms_of(lists),
        allowed,
        _WordScratch(SCRATCH.cells, marked),
        k,
    )
    order = np.argsort(docs)
    return BestOfWord(marked.any, docs[order], scores[order])


def _norms_of(lists: TermLists) -> _Norms:
    """Return the greatest tf norms that occur in a segment."""
    rows = zip(lists.fields.lists.tf_norms, _least_codes(lists.segment), strict=True)
    of_rows = np.array([tf_norms[least:].max() for tf_norms, least in rows])
    return _Norms(of_rows, float(of_rows.max()))
