"""Top k of several terms, without scoring every document that has them all.

Scoring a document costs more than finding it, and a query of common words finds ten thousand to
return ten. *Bounds* (`score_bounds`) cap what a document can score; only documents whose bound can
still reach the top k are scored.

Terms with bitset postings (`shard/segment/text/bitset_postings.py`) are intersected without reading
their posting lists; each has a bound for every 16 documents:

    bits of green ∧ bits of mile ─▶ 10,000 documents
      ─▶ upper[doc] = Σ bound[term, doc / 16], and the scores of lists that were read
      ─▶ the 320 greatest: scored; the 40 best of them with proximity: the k-th best score so far
      ─▶ the others that can still reach it: scored, if they are not yet

Block bounds, which prune the list of a single term (`single_term_top_k`), would not do here: among
64 neighbours one is good for either word, so every fourth document would be scored; with groups of
16 it is one in 25, with groups of 8 one in 50. (Adding bounds by group before any document is
listed, 32 groups at a time, was measured: no faster. The cost is in scoring, where every read is a
cache miss.)

Cost: 2 ns a document beyond finding it; 8 ns per list for each document scored.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from common.kernels.decorator import kernel
from common.kernels.types import I64Array, U8Array, U32Array, U64Array, int64, uint32, uint64
from shard.query.postings.term_conjunction import match_terms
from shard.query.postings.term_lists import TermLists
from shard.query.postings.term_plan import (
    QueryTerms,
    SearchedLists,
    TermPlan,
    count_dense,
    plan_terms,
)
from shard.query.postings.term_scores import add_dense
from shard.query.proximity.proximity_ranking import (
    num_first,
    rank_by_proximity,
    rank_front,
    rank_others,
)
from shard.query.proximity.proximity_scores import Proximity
from shard.query.pruning.kept_words import ScoredWord, add_kept
from shard.query.pruning.score_bounds import (
    CODES,
    GROUP_SHIFT,
    GroupBounds,
    kept_bounds,
    schedule_group_bounds,
)
from shard.query.scoring.bm25f import SCORE_UNIT
from shard.query.scoring.top_k_selection import GREATEST, join, kth_greatest, pick
from shard.segment.doc_sets import count_docs, list_all_docs
from shard.segment.text.postings_cursor import Wanted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

BOUNDED_DOCS_MIN: Final = 700
"""With fewer documents, scoring all is as fast as working out which to leave out."""
_BOUNDED_FACTOR: Final = 8
"""Documents scored first, by their bounds, for each that gets its proximity first."""
_SAMPLE_STEP: Final = 16
"""Sampling interval of the bounds, when estimating which are great."""
_ONE: Final = uint64(1)


# --- kernels: several terms


@kernel(inline=True, allocates=False)
def _num_bounded(k: int) -> int:
    """Return how many documents are scored first, to find the k best."""
    return _BOUNDED_FACTOR * num_first(k)


@kernel(allocates=False)
def _add_bounds(docs: U32Array, codes: U8Array, greatest: float, uppers: I64Array) -> None:
    """Add a term's bounds to the documents' upper bounds; the term scores at most `greatest`."""
    for i in range(len(docs)):
        code = int64(codes[docs[i] >> uint32(GROUP_SHIFT)])
        uppers[i] += int64((code + 1) * (greatest / CODES)) + 1


@kernel
def _best_by_bounds(
    searched: SearchedLists,
    plan: TermPlan,
    bounds: GroupBounds,
    proximity: Proximity,
    docs: U32Array,
    scores: I64Array,
    k: int,
) -> tuple[U32Array, I64Array]:
    """Return the best of at least `num_first(k)` documents, with their scores.

    `scores` are partial: from the posting lists that were read. The dense terms are still to be
    added.
    """
    scored = searched.scored
    words, dense_ranks = plan.words, plan.dense_ranks
    uppers = scores.copy()
    for i in range(len(dense_ranks)):
        if dense_ranks[i] >= 0:
            codes = bounds.codes[dense_ranks[i]]
            _add_bounds(docs, codes, words.weights[i] * bounds.drift * SCORE_UNIT, uppers)
    # Score the documents in front by upper bound (a sample says where "in front" begins); add
    # proximity to those of them in front by score. Their k-th best is the score to reach.
    least = kth_greatest(uppers[::_SAMPLE_STEP].copy(), _num_bounded(k) // _SAMPLE_STEP)
    first, totals = pick(docs, uppers, least, GREATEST, scores)
    if len(first) < num_first(k):
        least = kth_greatest(uppers, num_first(k))
        first, totals = pick(docs, uppers, least, GREATEST, scores)
    add_dense(searched, plan, first, totals)
    near, near_totals, front, reach = rank_front(scored, proximity, first, totals, k)
    # Add all others that can reach it with the greatest possible proximity: scored already or not.
    others, other_totals = pick(first, totals, reach, front - 1, totals)
    more, totals = pick(docs, uppers, reach, least - 1, scores)
    add_dense(searched, plan, more, totals)
    more, totals = pick(more, totals, reach, GREATEST, totals)
    others, other_totals = join(others, other_totals, more, totals)
    return rank_others(scored, proximity, near, near_totals, others, other_totals, k)


@kernel
def _best_of_docs(
    searched: SearchedLists,
    plan: TermPlan,
    bounds: GroupBounds,
    proximity: Proximity,
    docs: U32Array,
    scores: I64Array,
    k: int,
) -> tuple[U32Array, I64Array, int]:
    """Return the best of some documents; their scores; how many terms lack bounds.

    The documents have all terms; `scores` are partial, as those of `_best_by_bounds`.
    """
    dense_ranks = plan.dense_ranks
    num_missing = 0
    if count_dense(dense_ranks) > 0 and len(docs) >= max(BOUNDED_DOCS_MIN, 2 * _num_bounded(k)):
        for dense_rank in dense_ranks:
            num_missing += dense_rank >= 0 and not bounds.is_known[dense_rank]
        if num_missing == 0:
            best, totals = _best_by_bounds(searched, plan, bounds, proximity, docs, scores, k)
            return best, totals, num_missing
    add_dense(searched, plan, docs, scores)
    best, totals = rank_by_proximity(searched.scored, proximity, docs, scores, k)
    return best, totals, num_missing


@kernel
def _best_of_terms(
    searched: SearchedLists,
    words: QueryTerms,
    allowed: U64Array,
    bounds: GroupBounds,
    proximity: Proximity,
    k: int,
) -> tuple[U32Array, U32Array, I64Array, int]:
    """Return the documents with all terms; the best; their scores; how many terms lack bounds."""
    plan = plan_terms(searched, words)
    docs, scores = match_terms(searched, plan, Wanted(allowed, np.empty(0, np.uint32), False), True)
    best, totals, num_missing = _best_of_docs(searched, plan, bounds, proximity, docs, scores, k)
    return docs, best, totals, num_missing


@kernel
def _match_in(
    searched: SearchedLists, words: QueryTerms, allowed: U64Array
) -> tuple[U32Array, I64Array]:
    """Return the documents of a bitset that have all terms, and their scores, which are partial."""
    if len(words.terms) > 0:
        wanted = Wanted(allowed, np.empty(0, np.uint32), False)
        return match_terms(searched, plan_terms(searched, words), wanted, True)
    docs = list_all_docs(allowed, count_docs(allowed))
    return docs, np.zeros(len(docs), np.int64)


@kernel
def _best_of_matched(
    searched: SearchedLists,
    words: QueryTerms,
    bounds: GroupBounds,
    proximity: Proximity,
    docs: U32Array,
    scores: I64Array,
    k: int,
) -> tuple[U32Array, I64Array, int]:
    """Do the work of `_best_of_docs`."""
    plan = plan_terms(searched, words)
    return _best_of_docs(searched, plan, bounds, proximity, docs, scores, k)


# --- entry points


def best_of_terms(
    lists: TermLists, words: QueryTerms, allowed: NDArray[np.uint64], proximity: Proximity, k: int
) -> tuple[NDArray[np.uint32], NDArray[np.uint32], NDArray[np.int64]]:
    """Return the documents that have all terms, and the k best of these.

    Args:
        lists: of the segment.
        words: the terms.
        allowed: bitset of documents; empty: all.
        proximity: proximity of the query's words in this segment.
        k: at least 1.

    Returns:
        All documents, ascending; the k best of them, with all ties for the k-th place; the scores
        of the latter, proximity included, in units of 2^-32.
    """
    kept, drift = kept_bounds(lists)
    docs, best, totals, num_missing = _best_of_terms(
        lists.searched, words, allowed, kept.of_groups.raised(drift), proximity, k
    )
    if num_missing:
        for term in words.terms.tolist():
            schedule_group_bounds(lists, kept, term)
    return docs, best, totals


def best_of_words(
    lists: TermLists,
    terms: QueryTerms,
    kept_words: Sequence[ScoredWord],
    allowed: NDArray[np.uint64],
    proximity: Proximity,
    k: int,
) -> tuple[NDArray[np.uint32], NDArray[np.uint32], NDArray[np.int64]]:
    """Return what `best_of_terms` does where some words stand for several terms, and are kept.

    Args:
        lists: of the segment.
        terms: of the other words; there may be none.
        kept_words: at least one.
        allowed: bitset of documents; empty: all.
        proximity: proximity of the query's words in this segment.
        k: at least 1.
    """
    for word, _ in kept_words:
        docs_of_word = word.postings.docs
        allowed = allowed[: len(docs_of_word)] & docs_of_word if len(allowed) else docs_of_word
    docs, scores = _match_in(lists.searched, terms, allowed)
    for word, weight in kept_words:
        add_kept(word.postings, weight, lists.k1, docs, scores)
    kept, drift = kept_bounds(lists)
    best, totals, num_missing = _best_of_matched(
        lists.searched, terms, kept.of_groups.raised(drift), proximity, docs, scores, k
    )
    if num_missing:
        for term in terms.terms.tolist():
            schedule_group_bounds(lists, kept, term)
    return docs, best, totals
