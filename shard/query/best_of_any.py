"""Top k of the documents that have at least one of some terms, without scoring every one.

Bitsets say which documents have which terms; a *stratum* is the documents with the same ones:

    green (19,000)  mile (52,000)       strata         documents   can score at most
                                        green, mile        1,000   6.1 + 4.2
                                        green             18,000   6.1
                                        mile              51,000   4.2

Strata are scored by how much they can score. When k documents are scored, the k-th best is the
score to reach: strata that cannot reach it are only counted, and of the others the documents of
those blocks of their rarest term whose bounds (`shard/query/bounds.py`) can reach it are scored.
This is MaxScore (Turtle, Flood: Query evaluation: strategies and optimizations, Information
Processing & Management 31(6), 1995) with sets of documents in place of cursors.

Cost: 1.5 ns an entry of a list without a bitset; 2 µs per 100,000 documents of the segment, term
and stratum that is looked at; 8 ns per list for each document scored.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from common.kernels.decorator import kernel
from common.kernels.types import I64Array, U32Array, U64Array, int64, uint64
from shard.query.bm25f import SCORE_UNIT, ScoredLists, bm25_tf
from shard.query.bounds import kept_bounds, make_block_bounds
from shard.query.proximity import join
from shard.query.score_selection import GREATEST, kth_greatest, pick
from shard.query.term_lists import (
    DenseTerms,
    QueryTerms,
    Searched,
    TermLists,
    add_dense,
    add_read,
    checks_rows_of,
    find_places,
    mark_term,
)
from shard.segment.bitset_postings import DenseLists
from shard.segment.doc_sets import has_bit, num_words, remove_docs
from shard.segment.postings import BLOCK_ENTRIES
from shard.segment.postings_cursor import Wanted, at_block, count_blocks, decode_docs

if TYPE_CHECKING:
    from numpy.typing import NDArray

_TERMS_MAX: Final = 8
"""Terms of a query that is evaluated like this: there are 2^terms strata."""
_TERMS_WITH_BONUS_MAX: Final = 4
"""The same with proximity scoring: then few strata can be skipped."""
_WORDS_PER_ENTRY: Final = 30
"""Words of bitsets that are combined in the time that scoring one entry of a list takes."""
_FIRST_BLOCKS: Final = 16
"""Blocks of a stratum that are scored before its others are compared with the score to reach."""


@kernel
def _stratum(members: U64Array, size: int, num_terms: int, of_terms: int) -> U64Array:
    """Return the bitset of the documents that have exactly the terms of a bit mask."""
    words = np.full(size, ~uint64(0))
    for i in range(num_terms):
        of_term = members[i * size : (i + 1) * size]
        if of_terms >> i & 1:
            for word in range(size):
                words[word] &= of_term[word]
        else:
            for word in range(size):
                words[word] &= ~of_term[word]
    return words


@kernel
def _docs_in_blocks(
    scored: ScoredLists, term: int, bounds: I64Array, least: int, members: U64Array
) -> U32Array:
    """Return the documents of a bitset in those blocks of a term that have at least a bound."""
    lists = scored.lists
    num_chosen = 0
    for bound in bounds:
        num_chosen += bound >= least
    docs = np.empty(num_chosen * BLOCK_ENTRIES + 1, np.uint32)
    of_block = np.empty(BLOCK_ENTRIES, np.uint32)
    found = 0
    current = int64(-1)
    for block in range(len(bounds)):
        if bounds[block] < least:
            continue
        cursor = at_block(lists, term, block, 0)
        decode_docs(lists, cursor, of_block)
        # The write is unconditional and `found` advances if it counts: no branch.
        for i in range(cursor.size):
            doc = int64(of_block[i])
            docs[found] = doc
            found += (doc != current) & has_bit(members, doc)
            current = doc
    return docs[:found]


@kernel
def _block_bounds(
    scored: ScoredLists, words: QueryTerms, i: int, k1: float, of_blocks: I64Array, drift: float
) -> I64Array:
    """Return the most that a document of each block of a term can score for it."""
    term = words.terms[i]
    start = int64(scored.lists.skip_starts[term])
    num_blocks = count_blocks(scored.lists, term)
    bounds = np.empty(num_blocks, np.int64)
    if start == int64(scored.lists.skip_starts[term + 1]):
        bounds[0] = int64(words.weights[i] * SCORE_UNIT) + 1  # a single block has no bound
        return bounds
    for block in range(num_blocks):
        t = int64(of_blocks[start + block] * drift) + 1
        bounds[block] = bm25_tf(t, words.weights[i], k1)
    return bounds


@kernel
def _best_of_any(
    scored: ScoredLists,
    dense: DenseLists,
    are_all_searched: bool,
    words: QueryTerms,
    k1: float,
    allowed: U64Array,
    segment: Searched,
    of_blocks: I64Array,
    drift: float,
    bonus_max: int,
    k: int,
) -> tuple[U64Array, U32Array, I64Array]:
    """Kernel of `best_of_any`."""
    terms, languages, _ = words
    num_docs = segment.num_docs
    size = num_words(num_docs)
    num_terms = len(terms)
    checks_rows = checks_rows_of(are_all_searched, languages)
    places = find_places(dense, words, checks_rows)
    wanted = Wanted(allowed, np.empty(0, np.uint32), False)
    members = np.zeros(num_terms * size, np.uint64)
    found = np.zeros(size, np.uint64)
    uppers = np.zeros(1 << num_terms, np.int64)
    for i in range(num_terms):
        of_term = members[i * size : (i + 1) * size]
        mark_term(
            scored, dense, checks_rows, terms[i], languages[i], places[i], wanted, num_docs, of_term
        )
        for word in range(size):
            found[word] |= of_term[word]
        greatest = kth_greatest(_block_bounds(scored, words, i, k1, of_blocks, drift), 1)
        for mask in range(len(uppers)):
            uppers[mask] += greatest * (mask >> i & 1)
    docs = np.empty(0, np.uint32)
    scores = np.empty(0, np.int64)
    worst = int64(-1)
    uppers[0] = -1
    for _ in range(len(uppers) - 1):
        mask = int64(0)
        for other in range(len(uppers)):
            if uppers[other] > uppers[mask]:
                mask = int64(other)
        upper = uppers[mask]
        uppers[mask] = -1
        if upper + bonus_max < worst:
            break
        rarest = int64(0)  # of the stratum's terms, which come rarest first
        while not mask >> rarest & 1:
            rarest += 1
        stratum = _stratum(members, size, num_terms, mask)
        bounds = _block_bounds(scored, words, rarest, k1, of_blocks, drift)
        others = upper - kth_greatest(bounds, 1)
        places_here = np.full(num_terms, -1)
        for i in range(num_terms):
            if mask >> i & 1:
                places_here[i] = places[i]
        of_terms = DenseTerms(dense, words, places_here, k1, num_docs)
        # First the blocks with the greatest bounds, then all others that can reach the k-th best.
        least = kth_greatest(bounds, min(len(bounds), _FIRST_BLOCKS + k))
        for turn in range(2):
            reach = max(worst - bonus_max - others, int64(0))
            least = max(least, reach) if turn == 0 else reach
            more = _docs_in_blocks(scored, terms[rarest], bounds, least, stratum)
            remove_docs(stratum, more)
            more_scores = np.zeros(len(more), np.int64)
            add_dense(scored, of_terms, more, more_scores)
            for i in range(num_terms):
                if mask >> i & 1 and places[i] < 0:
                    add_read(scored, checks_rows, words, i, k1, more, segment.bits, more_scores)
            docs, scores = join(docs, scores, more, more_scores)
            if len(docs) >= k:
                worst = kth_greatest(scores, k)
    docs, scores = pick(docs, scores, worst - bonus_max, GREATEST, scores)
    return found, docs, scores


def pays_off(num_docs: int, num_terms: int, num_entries: int, bonus_max: int) -> bool:
    """Return whether `best_of_any` takes less time than scoring all documents would.

    Args:
        num_docs: of the segment.
        num_terms: of the query.
        num_entries: of the terms' posting lists together.
        bonus_max: the most that proximity can add to a score.
    """
    if num_terms > (_TERMS_WITH_BONUS_MAX if bonus_max else _TERMS_MAX):
        return False
    return (num_terms << num_terms) * num_words(num_docs) <= _WORDS_PER_ENTRY * num_entries


def best_of_any(
    lists: TermLists,
    words: QueryTerms,
    allowed: NDArray[np.uint64],
    bonus_max: int,
    k: int,
) -> tuple[NDArray[np.uint64], NDArray[np.uint32], NDArray[np.int64]]:
    """Return the documents that have at least one of the terms, and the candidates for the best.

    Args:
        lists: of the segment.
        words: the terms, few (`pays_off`).
        allowed: bitset of documents; empty: all.
        bonus_max: the most that proximity can add to a score, in units of 2^-32.
        k: at least 1.

    Returns:
        Bitset of all documents; those that can be among the k best, ascending, and their scores
        without proximity, in units of 2^-32.
    """
    kept, drift = kept_bounds(lists)
    skip_starts = lists.index.lists.skip_starts
    for term in words.terms.tolist():
        start, end = int(skip_starts[term]), int(skip_starts[term + 1])
        if start < end and not kept.is_known[start]:
            make_block_bounds(lists, kept, term, start, end)
    found: tuple[NDArray[np.uint64], NDArray[np.uint32], NDArray[np.int64]] = _best_of_any(
        lists.fields.lists,
        lists.index.dense_lists,
        lists.fields.are_all_searched,
        words,
        lists.k1,
        allowed,
        Searched(lists.index.num_docs, lists.bits),
        kept.of_blocks,
        drift,
        bonus_max,
        k,
    )
    return found
