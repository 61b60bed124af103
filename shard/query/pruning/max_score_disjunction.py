"""Top k of the documents that have at least one of some terms, without scoring every one.

Bitsets say which documents have which terms; a *stratum* is the documents with the same ones:

    green (19,000)  mile (52,000)       strata         documents   can score at most
                                        green, mile        1,000   6.1 + 4.2
                                        green             18,000   6.1
                                        mile              51,000   4.2

Strata are scored by how much they can score. When k documents are scored, the k-th best is the
score to reach: strata that cannot reach it are only counted, and of the others, the documents whose
bounds (`score_bounds.py`) can reach it are scored. If the rarest term of a stratum has group
bounds, these are the sums of its terms' bounds for each 16 documents; if not, its block bounds and
the most that the other terms can score. This is MaxScore (Turtle, Flood: Query evaluation:
strategies and optimizations, Information Processing & Management 31(6), 1995) with sets of
documents in place of cursors.

Proximity can add to a document of a stratum only what the pairs of neighbours among its terms can
score: nothing to one with a single term. Were the maximum of the whole query added to each bound,
two fifths of a score, hardly a document could be left out of a union of five words.

Cost: 1.5 ns an entry of a list without a bitset; 2 µs per 100,000 documents of the segment, term
and stratum that is looked at, 6 µs with group bounds; 8 ns per list for each document scored.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from common.kernels.decorator import arguments, kernel
from common.kernels.types import I64Array, U32Array, U64Array, int64, uint64
from shard.query.postings.term_lists import TermLists
from shard.query.postings.term_marking import mark_term
from shard.query.postings.term_plan import QueryTerms, SearchedLists, TermPlan, plan_terms
from shard.query.postings.term_scores import add_dense, add_read
from shard.query.proximity.proximity_scores import CHAIN_MAX, Proximity
from shard.query.pruning.score_bounds import (
    CODES,
    GROUP_MASK,
    GROUP_SHIFT,
    GROUPS_PER_WORD,
    BlockBounds,
    GroupBounds,
    docs_in_blocks,
    docs_in_groups,
    kept_bounds,
    make_block_bounds,
    schedule_group_bounds,
)
from shard.query.scoring.bm25f import SCORE_UNIT, bm25_tf
from shard.query.scoring.top_k_selection import GREATEST, join, kth_greatest, pick
from shard.segment.doc_sets import bitset_length, count_docs, list_all_docs, remove_docs
from shard.segment.text.postings_cursor import Wanted, count_blocks

if TYPE_CHECKING:
    from numpy.typing import NDArray

_TERMS_MAX: Final = 8
"""A query of more terms is not evaluated this way: there are 2^terms strata."""
_WORDS_PER_ENTRY: Final = 60
"""Words of bitsets that are combined in the time that scoring one entry of a list takes, where all
strata are looked at: most are skipped."""
_FEW_DOCS_SHARE: Final = 128
"""Of strata with less than 1 / `_FEW_DOCS_SHARE` of the segment's documents, all are scored: that
takes less time than looking at their bounds."""
_FIRST_BLOCKS: Final = 16
"""Blocks of a stratum that are scored before its others are compared with the score to reach."""
_FIRST_GROUPS: Final = 128
"""Groups of a stratum that are scored before its others are compared with the score to reach."""


@arguments
class _Members(NamedTuple):
    """Which documents have which terms.

    Attributes:
        of_terms: the bitset of each term, one after the other.
        of_any: bitset of the documents that have at least one of the terms.
        greatest: by term: the most that a document can score for it.
        uppers: by stratum, as the bit mask of its terms: the most that a document of it can score.
    """

    of_terms: NDArray[np.uint64]
    of_any: NDArray[np.uint64]
    greatest: NDArray[np.int64]
    uppers: NDArray[np.int64]


@arguments
class _Candidates(NamedTuple):
    """Documents that were scored.

    Attributes:
        docs: ascending.
        scores: of each, without proximity.
        uppers: the most that each can score with it.
    """

    docs: NDArray[np.uint32]
    scores: NDArray[np.int64]
    uppers: NDArray[np.int64]


@kernel
def _docs_of_stratum(members: _Members, num_terms: int, stratum: int) -> U64Array:
    """Return the bitset of the documents that have exactly the terms of a bit mask."""
    size = len(members.of_any)
    bitset = np.full(size, ~uint64(0))
    for i in range(num_terms):
        of_term = members.of_terms[i * size : (i + 1) * size]
        if stratum >> i & 1:
            for word in range(size):
                bitset[word] &= of_term[word]
        else:
            for word in range(size):
                bitset[word] &= ~of_term[word]
    return bitset


@kernel(inline=True)
def _score_bounds(searched: SearchedLists, plan: TermPlan, i: int, bounds: BlockBounds) -> I64Array:
    """Return the most that a document of each block of a term can score for it."""
    lists, weight, k1 = searched.scored.lists, plan.words.weights[i], searched.k1
    of_blocks, drift = bounds
    term = plan.words.terms[i]
    start = int64(lists.skip_starts[term])
    num_blocks = count_blocks(lists, term)
    uppers = np.empty(num_blocks, np.int64)
    if start == int64(lists.skip_starts[term + 1]):
        # A single block has no skip row, hence no bound: t saturates, so no score is above this.
        uppers[0] = int64(weight * SCORE_UNIT) + 1
        return uppers
    for block in range(num_blocks):
        t = int64(of_blocks[start + block] * drift) + 1
        uppers[block] = bm25_tf(t, weight, k1)
    return uppers


@kernel(inline=True)
def _mark_members(
    searched: SearchedLists, plan: TermPlan, allowed: U64Array, bounds: BlockBounds
) -> _Members:
    """Find the documents of each term, and what each stratum can score."""
    num_terms = len(plan.dense_ranks)
    size = bitset_length(searched.num_docs)
    wanted = Wanted(allowed, np.empty(0, np.uint32), False)
    of_terms = np.zeros(num_terms * size, np.uint64)
    of_any = np.zeros(size, np.uint64)
    greatest = np.empty(num_terms, np.int64)
    uppers = np.zeros(1 << num_terms, np.int64)
    for i in range(num_terms):
        of_term = of_terms[i * size : (i + 1) * size]
        mark_term(searched, plan, i, wanted, of_term)
        for word in range(size):
            of_any[word] |= of_term[word]
        greatest[i] = kth_greatest(_score_bounds(searched, plan, i, bounds), 1)
        for stratum in range(len(uppers)):
            uppers[stratum] += greatest[i] * (stratum >> i & 1)
    return _Members(of_terms, of_any, greatest, uppers)


@kernel
def _bonuses(proximity: Proximity, terms: I64Array) -> I64Array:
    """Return the most that proximity can add to a document of each stratum.

    A pair of words counts only in documents that have both, and twice only in those that have the
    word before them as well. A word that is not one of the terms may be in any document.
    """
    pair_weights, unit = proximity.pair_weights, proximity.unit
    num_strata = 1 << len(terms)
    bonuses = np.zeros(num_strata, np.int64)
    if len(pair_weights) == 0:
        return bonuses
    read = proximity.lists.read
    size = len(pair_weights) + 1  # words of the query
    num_terms = np.zeros(size, np.int64)
    for word in read.words:
        num_terms[word] += 1
    # By word of the query: the bit of its term; none if it has several terms or another one.
    bits = np.zeros(size, np.int64)
    for i in range(len(read.terms)):
        word = read.words[i]
        for j in range(len(terms)):
            if num_terms[word] == 1 and terms[j] == int64(read.terms[i]):
                bits[word] = 1 << j
    for pair in range(len(pair_weights)):
        # A little above, so that rounding cannot prune a document.
        most = int64(pair_weights[pair] * unit * (1.0 + 1e-9)) + 2
        both = bits[pair] | bits[pair + 1]
        chain = both | (bits[pair - 1] if pair > 0 else int64(0))
        for stratum in range(num_strata):
            has_both = int64(stratum & both == both)
            has_all = int64(pair > 0 and stratum & chain == chain)
            bonuses[stratum] += most * (has_both + (CHAIN_MAX - 1) * has_all)
    return bonuses


@kernel(inline=True, allocates=False)
def _has_groups(plan: TermPlan, i: int, groups: GroupBounds) -> bool:
    """Return whether a term has group bounds."""
    dense_rank = plan.dense_ranks[i]
    return dense_rank >= 0 and groups.is_known[dense_rank]


@kernel
def _bound_groups(
    plan: TermPlan, groups: GroupBounds, greatest: I64Array, stratum: int, members: U64Array
) -> I64Array:
    """Return the most that a document of each group of a stratum can score.

    Args:
        plan: of the query.
        groups: group bounds of the segment.
        greatest: by term: the most that a document can score for it.
        stratum: bit mask of its terms.
        members: bitset of its documents; a group without any has the bound -1.
    """
    uppers = np.zeros(len(members) * GROUPS_PER_WORD, np.int64)
    for i in range(len(plan.dense_ranks)):
        if not stratum >> i & 1:
            continue
        if not _has_groups(plan, i, groups):
            uppers += greatest[i]
            continue
        codes = groups.codes[plan.dense_ranks[i]]
        step = int64(plan.words.weights[i] * groups.drift * (SCORE_UNIT / CODES)) + 1
        for group in range(min(len(codes), len(uppers))):
            uppers[group] += (int64(codes[group]) + 1) * step + 1
    for word in range(len(members)):
        for part in range(GROUPS_PER_WORD):
            if members[word] >> uint64(part << GROUP_SHIFT) & GROUP_MASK == 0:
                uppers[word * GROUPS_PER_WORD + part] = -1
    return uppers


@kernel(inline=True)
def _score_all_terms(
    searched: SearchedLists, plan: TermPlan, stratum: int, docs: U32Array
) -> I64Array:
    """Return what documents of a stratum score for all of its terms."""
    dense_ranks = plan.dense_ranks
    scores = np.zeros(len(docs), np.int64)
    # Terms outside of the stratum must add nothing: without a rank, `add_dense` leaves them out.
    stratum_ranks = np.full(len(dense_ranks), -1)
    for i in range(len(dense_ranks)):
        if stratum >> i & 1:
            stratum_ranks[i] = dense_ranks[i]
    add_dense(searched, TermPlan(plan.words, stratum_ranks, plan.checks_fields), docs, scores)
    for i in range(len(dense_ranks)):
        if stratum >> i & 1 and dense_ranks[i] < 0:
            add_read(searched, plan, i, docs, scores)
    return scores


@kernel
def _with_more(
    searched: SearchedLists,
    plan: TermPlan,
    stratum: int,
    bonus: int,
    candidates: _Candidates,
    more: U32Array,
) -> _Candidates:
    """Score more documents of a stratum; return them with the candidates so far."""
    docs, scores, uppers = candidates
    more_scores = _score_all_terms(searched, plan, stratum, more)
    _, all_uppers = join(docs, uppers, more, more_scores + bonus)
    all_docs, all_scores = join(docs, scores, more, more_scores)
    return _Candidates(all_docs, all_scores, all_uppers)


@kernel
def _best_of_any(
    searched: SearchedLists,
    words: QueryTerms,
    allowed: U64Array,
    blocks: BlockBounds,
    groups: GroupBounds,
    proximity: Proximity,
    k: int,
) -> tuple[U64Array, U32Array, I64Array]:
    """Kernel of `best_of_any`."""
    lists, terms = searched.scored.lists, words.terms
    plan = plan_terms(searched, words)
    members = _mark_members(searched, plan, allowed, blocks)
    bonuses = _bonuses(proximity, terms)
    uppers = members.uppers + bonuses
    uppers[0] = -1  # documents without any term are not hits
    no_scores = np.empty(0, np.int64)
    candidates = _Candidates(np.empty(0, np.uint32), no_scores, no_scores)
    worst = int64(-1)  # the k-th best score so far: the score to reach
    for _ in range(len(uppers) - 1):
        # The stratum that can score most of those left; once it cannot reach, none can.
        stratum = int64(np.argmax(uppers))
        if uppers[stratum] < worst:
            break
        uppers[stratum] = -1
        bonus = bonuses[stratum]
        left = _docs_of_stratum(members, len(terms), stratum)
        num_left = count_docs(left)
        if num_left * _FEW_DOCS_SHARE < searched.num_docs:
            more = list_all_docs(left, num_left)
            candidates = _with_more(searched, plan, stratum, bonus, candidates, more)
            if len(candidates.scores) >= k:
                worst = kth_greatest(candidates.scores, k)
            continue
        rarest = int64(0)  # of the stratum's terms, which come rarest first
        while not stratum >> rarest & 1:
            rarest += 1
        is_by_groups = _has_groups(plan, rarest, groups)
        if is_by_groups:
            bounds = _bound_groups(plan, groups, members.greatest, stratum, left)
            others = int64(0)
            num_first = _FIRST_GROUPS
        else:
            bounds = _score_bounds(searched, plan, rarest, blocks)
            # What its other terms can add at most.
            others = members.uppers[stratum] - members.greatest[rarest]
            num_first = _FIRST_BLOCKS
        # First the parts with the greatest bounds, then all others that can reach the k-th best.
        least = kth_greatest(bounds, min(len(bounds), num_first + k))
        for turn in range(2):
            reach = max(worst - bonus - others, int64(0))
            least = max(least, reach) if turn == 0 else reach
            if is_by_groups:
                more = docs_in_groups(left, bounds >= least)
            else:
                more = docs_in_blocks(lists, terms[rarest], bounds >= least, left)
            remove_docs(left, more)
            candidates = _with_more(searched, plan, stratum, bonus, candidates, more)
            if len(candidates.scores) >= k:
                worst = kth_greatest(candidates.scores, k)
    # The score to reach has risen meanwhile.
    docs, scores = pick(candidates.docs, candidates.uppers, worst, GREATEST, candidates.scores)
    return members.of_any, docs, scores


def pays_off(num_docs: int, num_terms: int, num_entries: int) -> bool:
    """Return whether `best_of_any` takes less time than scoring all documents would.

    Args:
        num_docs: of the segment.
        num_terms: of the query.
        num_entries: of the terms' posting lists together.
    """
    if num_terms > _TERMS_MAX:
        return False
    return (num_terms << num_terms) * bitset_length(num_docs) <= _WORDS_PER_ENTRY * num_entries


def best_of_any(
    lists: TermLists,
    words: QueryTerms,
    allowed: NDArray[np.uint64],
    proximity: Proximity,
    k: int,
) -> tuple[NDArray[np.uint64], NDArray[np.uint32], NDArray[np.int64]]:
    """Return the documents that have at least one of the terms, and the candidates for the best.

    Args:
        lists: of the segment.
        words: the terms, few (`pays_off`).
        allowed: bitset of documents; empty: all.
        proximity: of the query's words in this segment.
        k: at least 1.

    Returns:
        Bitset of all documents; those that can be among the k best, ascending, and their scores
        without proximity, in units of 2^-32.
    """
    kept, drift = kept_bounds(lists)
    for term in words.terms.tolist():
        make_block_bounds(lists, kept, term)
        if lists.fields.are_all_searched:
            schedule_group_bounds(lists, kept, term)
    found: tuple[NDArray[np.uint64], NDArray[np.uint32], NDArray[np.int64]] = _best_of_any(
        lists.searched,
        words,
        allowed,
        BlockBounds(kept.of_blocks, drift),
        kept.of_groups.raised(drift),
        proximity,
        k,
    )
    return found
