"""Top k of the documents that any clause matches: of many words, or of words with several terms.

All clauses are marked. The bounds of a document's clauses, and of the pairs of neighbouring words
that it has, add up to the most that it can score (`bit_sliced_bounds`). Documents with the greatest
bounds are scored first: the k-th best is the score to reach, and only documents whose bounds can
reach it are scored.

    tolkin (or a typo of it)  of  hobits (or a typo)        bound
    tolkin                                                  w₁
    a typo of tolkin          of                            w₁ / 10 + w₂
    tolkin                    of  hobits                    w₁ + w₂ + w₃ + two pairs

The bound of a single term is that of the document's group of 16 where groups have bounds
(`score_bounds`), else the greatest of its list. A clause whose lesser terms count less (typos,
where the word as typed is in the index) has two bounds: most documents with a frequent neighbour of
a rare word could not be left out otherwise.

Cost: that of marking, 1.5 ns an entry of a list without a bitset; per 100,000 documents of the
segment, 5 to 7 µs for each bound, of which a clause has up to four, and 20 µs; 30 ns for each term
of a document that is scored.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from common.query_syntax_tree import Phrase, Word
from shard.query.postings.term_lists import TermLists
from shard.query.proximity.proximity_ranking import num_first
from shard.query.proximity.proximity_scores import CHAIN_MAX
from shard.query.pruning.bit_sliced_bounds import (
    NUMBER_MAX,
    SUM_MAX,
    BoundedSets,
    add_up_by_group,
    at_least,
    kth_greatest_sum,
)
from shard.query.pruning.score_bounds import (
    CODES,
    Bounds,
    greatest_score,
    kept_bounds,
    schedule_group_bounds,
)
from shard.query.scoring.bm25f import SCORE_UNIT, TIER_OF_KIND, weights_of_tiers
from shard.query.scoring.top_k_selection import kth_greatest
from shard.query.text.clause_combination import (
    has_single_terms,
    mark_clause,
    match_some,
    score_any,
)
from shard.query.text.clause_evaluation import Evaluation, ScoredDocs, SingleTerm
from shard.query.text.prepared_query import phrase_weight
from shard.segment.doc_sets import NO_BITS, count_docs, empty_bitset, list_docs
from shard.segment.text.bitset_postings import bitset_bounds, find_dense
from shard.segment.text.postings_cursor import Wanted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from common.protocol.messages import ScoredClause

_ENTRIES_MIN: Final = 65_536
"""Of fewer entries, all documents are scored."""
_CLAUSES_MAX: Final = 32
"""Of more clauses, too: there may be four bitsets for each."""
_FIRST_MAX: Final = 2_048
"""Most documents that are scored before the others are compared with the score to reach."""
_LESSER_SHARE: Final = 0.5
"""Terms that weigh less than this share of a clause's best have a bound of their own."""
_TIERS: Final = np.array(TIER_OF_KIND)


class _Marked(NamedTuple):
    """A clause with the bitset of its documents."""

    scored: ScoredClause
    single: SingleTerm | None
    dense_rank: int
    """Rank of its single term among the dense ones, whose bitset has all documents, not just the
    allowed ones; -1: the bitset is not such a term's."""
    docs: NDArray[np.uint64]


class _Bounded(NamedTuple):
    """Documents with a bound each, in units of 2^-32."""

    docs: NDArray[np.uint64]
    bounds: NDArray[np.int64]
    """By code of the document's group, rising."""
    dense_rank: int = -1
    """Of the term whose groups have these codes; -1: all documents have the bound of code 0."""

    @classmethod
    def same(cls, docs: NDArray[np.uint64], bound: int) -> _Bounded:
        """Return documents that share a bound."""
        return cls(docs, np.full(CODES, bound))


def pays_off(num_clauses: int, num_entries: int) -> bool:
    """Return whether `best_of_any_clause` takes less time than scoring all documents would.

    Args:
        num_clauses: of the query.
        num_entries: of its posting lists together.
    """
    return num_clauses <= _CLAUSES_MAX and num_entries >= _ENTRIES_MIN


def best_of_any_clause(
    evaluation: Evaluation, allowed: NDArray[np.uint64], k: int
) -> tuple[NDArray[np.uint64], ScoredDocs]:
    """Return the bitset of the hits, and those that can be among the best, without proximity.

    Args:
        evaluation: of a query of which any clause must match.
        allowed: bitset of documents; empty: all.
        k: how many of the best are wanted, at least 1.
    """
    marked = [_mark(evaluation, scored, allowed) for scored in evaluation.query.clauses]
    hits = marked[0].docs.copy()
    for one in marked[1:]:
        hits |= one.docs
    if len(allowed):
        hits &= allowed[: len(hits)]
    num_hits = int(count_docs(hits))
    num_wanted = max(k, num_first(k))
    if num_hits <= 2 * num_wanted:
        return hits, _score(evaluation, list_docs(hits, num_hits))
    kept, drift = kept_bounds(evaluation.lists)
    bounded = _bounds_of_clauses(evaluation, allowed, marked, kept, drift)
    bounded += _bounds_of_pairs(evaluation, allowed, marked)
    planes, unit = _add_up(evaluation, bounded, kept)

    first = at_least(planes, hits, kth_greatest_sum(planes, hits, num_wanted))
    num_first_docs = min(int(count_docs(first)), max(_FIRST_MAX, num_wanted))
    scored_first = _score(evaluation, list_docs(first, num_first_docs))
    totals = scored_first.scores + evaluation.bonus(scored_first.docs)
    least = kth_greatest(totals, k)
    candidates = at_least(planes, hits, min(-(-least // unit), SUM_MAX))
    return hits, _score(evaluation, list_docs(candidates, int(count_docs(candidates))))


def _mark(evaluation: Evaluation, scored: ScoredClause, allowed: NDArray[np.uint64]) -> _Marked:
    """Mark a clause's documents; the bitset of a dense term is taken as it is."""
    index = evaluation.index
    single = evaluation.single(scored.clause, scored.weights)
    if single is not None and evaluation.lists.counts_everywhere(single.mask):
        dense_rank = find_dense(index.dense_lists, single.term)
        if dense_rank >= 0:
            start, end = bitset_bounds(dense_rank, index.num_docs)
            docs = index.dense_lists.dense_bits[start:end]
            return _Marked(scored, single, dense_rank, docs)
    docs = empty_bitset(index.num_docs)
    mark_clause(evaluation, scored, Wanted.of(allowed), docs)
    return _Marked(scored, single, -1, docs)


def _add_up(
    evaluation: Evaluation, bounded: Sequence[_Bounded], kept: Bounds
) -> tuple[NDArray[np.uint64], int]:
    """Return the planes of the sums of bounds, by document, and the unit of these sums."""
    dense_bits = evaluation.index.dense_lists.dense_bits
    greatest = [int(one.bounds[-1]) for one in bounded]
    unit = max(sum(greatest) // (SUM_MAX - len(bounded)), max(greatest) // (NUMBER_MAX - 1)) + 1
    # Rounded up, so that no sum is less than what it bounds.
    numbers = np.empty((len(bounded), CODES), np.uint8)
    for i, one in enumerate(bounded):
        numbers[i] = -(-one.bounds // unit)
    own = [one.docs for one in bounded if one.dense_rank < 0]
    ranks = np.array([one.dense_rank for one in bounded])
    length = len(bounded[0].docs)
    sets = BoundedSets(np.stack(own or [NO_BITS]), dense_bits, kept.of_groups.codes, ranks, numbers)
    return add_up_by_group(sets, length), unit


def _score(evaluation: Evaluation, docs: NDArray[np.uint32]) -> ScoredDocs:
    """Return hits with their scores."""
    if has_single_terms(evaluation):
        return score_any(evaluation, docs)
    return match_some(evaluation, Wanted.among(docs))[0]


def _bounds_of_clauses(
    evaluation: Evaluation,
    allowed: NDArray[np.uint64],
    marked: Sequence[_Marked],
    kept: Bounds,
    drift: float,
) -> list[_Bounded]:
    """Return the bounds of clauses: two of those that have lesser terms."""
    bounded = []
    for scored, single, dense_rank, docs in marked:
        if single is not None:
            bounded.append(_bounds_of_term(evaluation.lists, single, dense_rank, docs, kept, drift))
            continue
        greatest, lesser = _greatest_and_lesser(evaluation, scored)
        if lesser:
            best = np.zeros_like(docs)
            of_tiers = np.array(weights_of_tiers(scored.weights[0]))
            is_best = (of_tiers[_TIERS] > lesser) & (np.array(scored.weights[0]) > 0)
            mark_clause(evaluation, scored, Wanted.of(allowed), best, is_best)
            bounded.append(_Bounded.same(best, _in_units(greatest) - _in_units(lesser)))
        bounded.append(_Bounded.same(docs, _in_units(lesser or greatest)))
    return bounded


def _bounds_of_term(
    lists: TermLists,
    single: SingleTerm,
    dense_rank: int,
    docs: NDArray[np.uint64],
    kept: Bounds,
    drift: float,
) -> _Bounded:
    """Return the bounds of a term's documents: those of their groups where these are known."""
    if dense_rank >= 0:
        if kept.of_groups.is_known[dense_rank]:
            codes = np.arange(CODES).clip(max=kept.of_groups.codes[dense_rank].max())
            step = int(single.weight * drift * (SCORE_UNIT / CODES)) + 1
            return _Bounded(docs, (codes + 1) * step + 1, dense_rank)
        schedule_group_bounds(lists, kept, single.term)
    return _Bounded.same(docs, greatest_score(lists, kept, drift, single.term, single.weight))


def _greatest_and_lesser(evaluation: Evaluation, scored: ScoredClause) -> tuple[float, float]:
    """Return the greatest score of a clause, and that of its lesser terms; 0 if it has none."""
    clause, weights = scored.clause, scored.weights
    if isinstance(clause, Phrase):
        return phrase_weight(weights), 0.0
    of_tiers = weights_of_tiers(weights[0])
    expansion = evaluation.terms_to_read(clause)
    if expansion.phrases:
        return max(of_tiers), 0.0
    kinds = set(expansion.kinds.tolist())
    bounds = [of_tiers[TIER_OF_KIND[kind]] for kind in kinds if weights[0][kind] > 0]
    greatest = max(bounds, default=0.0)
    lesser = [bound for bound in bounds if bound < _LESSER_SHARE * greatest]
    return greatest, max(lesser, default=0.0)


def _bounds_of_pairs(
    evaluation: Evaluation, allowed: NDArray[np.uint64], marked: Sequence[_Marked]
) -> list[_Bounded]:
    """Return the bounds of pairs of neighbouring words: once, and again where they chain."""
    pairs = evaluation.prepared.pairs
    if pairs is None:
        return []
    # Words have all terms here, as their occurrences have them, also those of weight 0.
    words = []
    at = 0
    for word in pairs.words:
        while marked[at].scored.clause is not word:
            at += 1
        words.append(_mark_all_terms(evaluation, marked[at], allowed))
        at += 1
    bounded = []
    for pair, weight in enumerate(pairs.weights.tolist()):
        bound = math.ceil(weight * evaluation.query.proximity * SCORE_UNIT * (1.0 + 1e-9)) + 1
        both = words[pair] & words[pair + 1]
        bounded.append(_Bounded.same(both, bound))
        if pair > 0:
            bounded.append(_Bounded.same(both & words[pair - 1], bound * (CHAIN_MAX - 1)))
    return bounded


def _mark_all_terms(
    evaluation: Evaluation, marked: _Marked, allowed: NDArray[np.uint64]
) -> NDArray[np.uint64]:
    """Return the bitset of all terms of a word, given that of those which count."""
    scored = marked.scored
    assert isinstance(scored.clause, Word), "phrases form no pairs"
    expansion = evaluation.terms_to_read(scored.clause)
    if not expansion.phrases and (np.array(scored.weights[0])[expansion.kinds] > 0).all():
        return marked.docs
    docs = np.zeros_like(marked.docs)
    wanted = Wanted.of(allowed)
    evaluation.lists.mark(expansion.terms, expansion.masks, wanted, docs)
    return docs


def _in_units(score: float) -> int:
    """Return an upper bound of a score, in units of 2^-32."""
    return math.ceil(score * SCORE_UNIT) + 1
