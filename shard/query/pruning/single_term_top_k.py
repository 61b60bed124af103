"""Top k of one term, without scoring every document that has it.

Blocks. Each block of its posting list has a bound: the greatest t (see bm25f) of a document whose
entries begin in it. Score the k blocks with the greatest bounds, then those that can still reach
the k-th best score: without filters there are none, as each bound is a document's. A list of
80,000 documents needs ten of its 600 blocks. This is block-max pruning (Ding, Suel: Faster top-k
document retrieval using block-max indexes, SIGIR 2011), for one list.

Champions. When a term is searched again, the documents with its 64 greatest t are found once and
kept: a champion list (Manning, Raghavan, Schütze: Introduction to information retrieval, 2008,
7.1.3). It answers where the k best that pass the filters are among them, for certain; nothing of
the posting list is read.

Groups, for a deep page. Thousands of hits touch every block, so pruning works on groups of 16
documents instead, with the bounds that several terms use: for a word that 150,000 documents have,
35,000 are scored to find the 5,000 best.

`score_bounds.py` defines the bounds and computes them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from common.analysis.field_classes import ALL_CLASSES
from common.kernels.decorator import arguments, kernel
from common.kernels.intrinsics import count_ones
from common.kernels.types import I64Array, U8Array, U32Array, U64Array, int64, uint64
from shard.query.postings.posting_list_scan import (
    ScoredTerm,
    add_tf_norms,
    scan_scratch,
    widths_of,
)
from shard.query.postings.term_lists import TermLists
from shard.query.postings.term_plan import QueryTerms, SearchedLists, TermPlan
from shard.query.postings.term_scores import add_dense
from shard.query.pruning.score_bounds import (
    CODES,
    GROUP_MASK,
    GROUP_SHIFT,
    GROUPS_PER_WORD,
    BlockBounds,
    Bounds,
    Champions,
    GroupBounds,
    docs_in_groups,
    kept_bounds,
    make_block_bounds,
    note_champions,
    schedule_group_bounds,
)
from shard.query.scoring.bm25f import SCORE_UNIT, bm25_tf
from shard.query.scoring.top_k_selection import GREATEST, best_of, join, kth_greatest, pick
from shard.segment.doc_sets import has_bit
from shard.segment.text.bitset_postings import find_dense, find_members
from shard.segment.text.postings import BLOCK_ENTRIES, PostingLists
from shard.segment.text.postings_cursor import at_block, decode_docs, decode_wanted

if TYPE_CHECKING:
    from numpy.typing import NDArray

BOUNDED_BLOCKS_MIN: Final = 24
"""Scoring a list shorter than this is as fast as looking through its bounds."""
DEEP_HITS_MIN: Final = 64
"""From this k on, group bounds find the hits faster than block bounds."""
_DEEP_FACTOR: Final = 8
"""Group bounds pay off for a term with at least this many documents per requested hit."""
_DEEP_FIRST: Final = 6
"""Documents scored first by group bounds, per requested hit."""
_SAMPLE_STEP: Final = 16
"""Sampling interval of the bounds, when estimating which are great."""
NUM_CHAMPIONS: Final = 64
"""Documents of a champion list, of which many filters leave ten."""


@arguments
class _Bounded(NamedTuple):
    """One term, with the block bounds that prune its list.

    Attributes:
        term: to be read.
        weight: of its word.
        bounds: those of its own list.
    """

    term: ScoredTerm
    weight: float
    bounds: BlockBounds


# --- kernels: blocks


@kernel(allocates=False)
def _last_doc(lists: PostingLists, term: int, block: int, docs: U32Array) -> int:
    """Return the last document of a block; `docs` is scratch space for one."""
    cursor = at_block(lists, term, block, 0)
    decode_docs(lists, cursor, docs)
    return int64(docs[cursor.size - 1])


@kernel
def _tfs_of_blocks(
    searched: SearchedLists, bounded: _Bounded, least: int, greatest: int, allowed: U64Array
) -> tuple[U32Array, I64Array]:
    """Return the documents that begin in blocks with bounds from `least` to `greatest`; their tfs.

    A document has an entry per field, one after the other. Those of the last one of a block may run
    into the next block, so the first entries of a block may belong to a document that begins in the
    block before.
    """
    lists, term, of_blocks = searched.scored.lists, bounded.term.term, bounded.bounds.of_blocks
    skip_docs, first_row = lists.skip_docs, int64(lists.skip_starts[term])
    is_chosen = (of_blocks >= least) & (of_blocks <= greatest)
    num_blocks = len(is_chosen)
    num_chosen = 0
    for block in range(num_blocks):
        num_chosen += is_chosen[block]
    docs = np.empty(num_chosen * BLOCK_ENTRIES + 1, np.uint32)
    tfs = np.empty(num_chosen * BLOCK_ENTRIES + 1, np.int64)
    (read_docs, picked), entries = scratch = scan_scratch()
    found = 0
    current = int64(-1)  # the last document of the block before, if it matters
    is_open = False  # whether that is one to score
    for block in range(num_blocks):
        if not is_chosen[block]:
            # Only the rest of that document is of interest.
            is_open = is_open and int64(skip_docs[first_row + block]) == current
            if not is_open:
                continue
        elif block > 0 and not is_chosen[block - 1] and not is_open:
            current = _last_doc(lists, term, block - 1, read_docs)
        cursor = at_block(lists, term, block, 0)
        num_picked, packing = decode_wanted(lists, cursor, allowed, scratch.block)
        widths = widths_of(packing)
        num_entries = 0
        for p in range(num_picked):
            doc = int64(read_docs[picked[p]])
            if doc != current:
                is_open = is_chosen[block]
                if not is_open:
                    break
                docs[found] = doc
                tfs[found] = 0
                found += 1
                current = doc
            if is_open:
                entries.owners[num_entries] = found - 1
                entries.docs[num_entries] = doc
                entries.bits[num_entries] = packing.first + picked[p] * packing.width
                entries.packings[num_entries] = widths
                num_entries += 1
        add_tf_norms(searched.scored, entries, num_entries, tfs)
    # Leave out documents that have the term in no searched field.
    num_kept = 0
    for i in range(found):
        docs[num_kept] = docs[i]
        tfs[num_kept] = tfs[i]
        num_kept += tfs[i] > 0
    return docs[:num_kept], tfs[:num_kept]


@kernel
def _score_blocks(
    searched: SearchedLists, bounded: _Bounded, least: int, greatest: int, allowed: U64Array
) -> tuple[U32Array, I64Array]:
    """Return the documents that begin in blocks with bounds from `least` to `greatest`; scores."""
    docs, scores = _tfs_of_blocks(searched, bounded, least, greatest, allowed)
    for i in range(len(scores)):
        scores[i] = bm25_tf(scores[i], bounded.weight, searched.k1)
    return docs, scores


@kernel(allocates=False)
def _least_bound(worst: int, bounded: _Bounded, greatest: int, k1: float) -> int:
    """Return the least bound, up to `greatest`, of a block that can reach the score `worst`."""
    low = int64(0)
    high = greatest
    while low < high:
        middle = (low + high) >> 1
        if bm25_tf(int64(middle * bounded.bounds.drift) + 1, bounded.weight, k1) < worst:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def _best_of_term(
    searched: SearchedLists, bounded: _Bounded, allowed: U64Array, k: int
) -> tuple[U32Array, I64Array]:
    """Return documents and scores of a term's k best, with all ties for the k-th place.

    Each round scores the documents of the blocks with the greatest bounds that are left. It is the
    last if no other block can reach the k-th best of these scores. Without filters, the first one
    is, unless bounds have drifted: each of its k blocks has a document that scores its bound.
    """
    of_blocks = bounded.bounds.of_blocks
    num_blocks = len(of_blocks)
    num_scored = min(k, num_blocks)
    least = kth_greatest(of_blocks, num_scored)  # ties included
    docs, scores = _score_blocks(searched, bounded, least, GREATEST, allowed)
    while num_scored < num_blocks:
        reach = int64(0)
        if len(docs) >= k:
            reach = _least_bound(kth_greatest(scores, k), bounded, least, searched.k1)
            if reach >= least:
                break
        # Twice as many blocks at most: the next ones raise the score to reach.
        num_scored = min(2 * num_scored, num_blocks)
        reach = max(reach, kth_greatest(of_blocks, num_scored))
        if reach < least:
            more, more_scores = _score_blocks(searched, bounded, reach, least - 1, allowed)
            docs, scores = join(docs, scores, more, more_scores)
            least = reach
    return best_of(docs, scores, k)


# --- kernels: champions


@kernel
def _champions(searched: SearchedLists, bounded: _Bounded) -> tuple[U32Array, I64Array, int]:
    """Return the documents with the greatest weighted tfs; these; the greatest of all others."""
    of_blocks = bounded.bounds.of_blocks
    least = kth_greatest(of_blocks, min(NUM_CHAMPIONS, len(of_blocks)))
    docs, tfs = _tfs_of_blocks(searched, bounded, least, GREATEST, np.empty(0, np.uint64))
    reach = int64((least - 1) * bounded.bounds.drift) + 1  # of documents in other blocks
    if len(tfs) > 0:
        # Those that tie for the last place are left out: they may be many.
        reach = max(reach, kth_greatest(tfs, min(NUM_CHAMPIONS, len(tfs))))
    docs, tfs = pick(docs, tfs, reach + 1, GREATEST, tfs)
    return docs, tfs, reach


@kernel
def best_champions(
    champions: Champions, weight: float, k1: float, allowed: U64Array, k: int
) -> tuple[U32Array, I64Array]:
    """Return documents and scores of a term's (or word's) k best, with all ties for the k-th place.

    Nothing if they cannot be told from its champions.
    """
    docs = np.empty(len(champions.docs), np.uint32)
    scores = np.empty(len(champions.docs), np.int64)
    others = bm25_tf(champions.reach, weight, k1)
    num_certain = 0
    for i in range(len(champions.docs)):
        score = bm25_tf(champions.tfs[i], weight, k1)
        docs[num_certain] = champions.docs[i]
        scores[num_certain] = score
        is_allowed = len(allowed) == 0 or has_bit(allowed, champions.docs[i])
        num_certain += score > others and is_allowed
    if num_certain < k:
        return docs[:0], scores[:0]
    return best_of(docs[:num_certain], scores[:num_certain], k)


# --- kernels: groups


@kernel(allocates=False)
def _count_by_code(members: U64Array, codes: U8Array, counts: I64Array) -> None:
    """Count documents by their group's bound, in every `_SAMPLE_STEP`-th word of a bitset."""
    counts[:] = 0
    for word in range(0, len(members) - 1, _SAMPLE_STEP):
        for part in range(GROUPS_PER_WORD):
            group = members[word] >> uint64(part << GROUP_SHIFT) & GROUP_MASK
            counts[codes[word * GROUPS_PER_WORD + part]] += count_ones(group)


@kernel
def _best_of_dense_term(
    searched: SearchedLists, of_term: TermPlan, bounds: GroupBounds, allowed: U64Array, k: int
) -> tuple[U32Array, I64Array]:
    """Return documents and scores of a dense term's k best, with all ties for the k-th place.

    Groups with great bounds are scored first; the k-th best of these scores says which other groups
    can still reach it.
    """
    dense_rank = of_term.dense_ranks[0]
    members = find_members(searched.dense, of_term.dense_ranks, allowed, searched.num_docs)
    codes = bounds.codes[dense_rank]
    # `step`: the score that one code stands for. Lower the threshold until, by a sample, enough
    # documents lie above it.
    step = of_term.words.weights[0] * bounds.drift * (SCORE_UNIT / CODES)
    counts = np.empty(CODES, np.int64)
    _count_by_code(members, codes, counts)
    least = int64(CODES)
    num_counted = 0
    while least > 0 and num_counted * _SAMPLE_STEP < _DEEP_FIRST * k:
        least -= 1
        num_counted += counts[least]
    docs = docs_in_groups(members, codes >= least)
    scores = np.zeros(len(docs), np.int64)
    add_dense(searched, of_term, docs, scores)
    # Lower it further to the last code whose groups can still reach the k-th best.
    worst = kth_greatest(scores, k) if k <= len(docs) else int64(0)
    reach = least
    while reach > 0 and int64(reach * step) + 1 >= worst:
        reach -= 1
    if reach < least:
        more = docs_in_groups(members, (codes >= reach) & (codes < least))
        more_scores = np.zeros(len(more), np.int64)
        add_dense(searched, of_term, more, more_scores)
        docs, scores = join(docs, scores, more, more_scores)
    return best_of(docs, scores, k)


class ByBlocks(NamedTuple):
    """Prune a list by the bounds of its blocks."""


_BY_BLOCKS: Final = ByBlocks()


class ByGroups(NamedTuple):
    """Prune a list by bounds of 16 documents: for a k so large that every block has hits."""

    dense_rank: int
    """Ordinal of the term among those with bitsets."""
    bounds: GroupBounds


Pruning = ByBlocks | ByGroups


def choose_pruning(lists: TermLists, term: int, mask: int, k: int) -> Pruning | None:
    """Return how to prune a term's list; None if scoring all of it is as fast.

    Group bounds that would serve and are missing are made in the background.

    Args:
        lists: of the segment.
        term: ordinal.
        mask: of the field classes in which it counts.
        k: how many of the best documents to return, at least 1.
    """
    if mask != ALL_CLASSES:
        return None  # bounds are made for all fields together
    index = lists.index
    is_deep = k >= DEEP_HITS_MIN and int(index.doc_freqs[term]) >= _DEEP_FACTOR * k
    if is_deep and lists.fields.are_all_searched:
        dense_rank = find_dense(index.dense_lists, term)
        if dense_rank >= 0:
            kept, drift = kept_bounds(lists)
            if kept.of_groups.is_known[dense_rank]:
                return ByGroups(dense_rank, kept.of_groups.raised(drift))
            schedule_group_bounds(lists, kept, term)
    skip_starts = index.lists.skip_starts
    num_blocks = int(skip_starts[term + 1]) - int(skip_starts[term])
    return _BY_BLOCKS if num_blocks >= max(BOUNDED_BLOCKS_MIN, 2 * k) else None


def best_of_term(
    lists: TermLists,
    term: int,
    weight: float,
    pruning: Pruning,
    allowed: NDArray[np.uint64],
    k: int,
) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
    """Return the k best documents of one term, with all ties for the k-th place.

    Args:
        lists: of the segment.
        term: ordinal.
        weight: of its word.
        pruning: chosen for this term and k.
        allowed: bitset of documents; empty: all.
        k: at least 1.

    Returns:
        Documents, ascending, and scores in units of 2^-32.
    """
    found: tuple[NDArray[np.uint32], NDArray[np.int64]]
    if isinstance(pruning, ByGroups):
        word = QueryTerms(np.array([term]), np.array([ALL_CLASSES], np.uint64), np.array([weight]))
        dense_rank = np.array([pruning.dense_rank])
        plan = TermPlan(word, dense_rank, False)
        found = _best_of_dense_term(lists.searched, plan, pruning.bounds, allowed, k)
        return found
    kept, drift = kept_bounds(lists)
    bounded = partial(_bounded, lists, kept, drift, term, weight)
    champions = _kept_champions(lists, kept, term, bounded)
    if champions is not None:
        found = best_champions(champions, weight, lists.k1, allowed, k)
        if len(found[0]):
            return found
    found = _best_of_term(lists.searched, bounded(), allowed, k)
    return found


def _bounded(lists: TermLists, kept: Bounds, drift: float, term: int, weight: float) -> _Bounded:
    """Return a term with its block bounds."""
    start, end = make_block_bounds(lists, kept, term)
    return _Bounded(
        ScoredTerm(term, uint64(ALL_CLASSES), not lists.fields.are_all_searched),
        weight,
        BlockBounds(kept.of_blocks[start:end], drift),
    )


def _kept_champions(
    lists: TermLists, kept: Bounds, term: int, bounded: Callable[[], _Bounded]
) -> Champions | None:
    """Return the champions of a term, from its second search with the same tf norms on.

    They are found again when tf norms have changed, as after each write, so one search alone does
    not find them.
    """
    last = kept.champions.get(term)
    if last is None or last.fields() is not lists.fields:
        note_champions(lists, kept, term, None)
        return None
    if last.champions is None:
        champions = Champions(*_champions(lists.searched, bounded()))
        last = note_champions(lists, kept, term, champions)
    return last.champions
