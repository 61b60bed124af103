"""Top k of the documents that any clause matches, where words have several terms.

All clauses are marked. The bounds of a document's clauses, and of the pairs of neighbouring words
that it has, add up to the most that it can score (`bit_sliced_bounds`). Documents with the greatest
bounds are scored first: the k-th best is the score to reach, and only documents whose bounds can
reach it are scored.

    tolkin (or a typo of it)  of  hobits (or a typo)        bound
    tolkin                                                  w₁
    a typo of tolkin          of                            w₁ / 10 + w₂
    tolkin                    of  hobits                    w₁ + w₂ + w₃ + two pairs

A clause whose lesser terms count less (typos, where the word as typed is in the index) has two
bounds: most documents with a frequent neighbour of a rare word could not be left out otherwise.

Cost: that of marking, 1.5 ns an entry of a list without a bitset; per 100,000 documents of the
segment, 4 µs for each bound, of which a clause has up to four, and 0.15 ms to find the first ones.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from common.query_syntax_tree import Phrase, Word
from shard.query.proximity.proximity_ranking import num_first
from shard.query.proximity.proximity_scores import CHAIN_MAX
from shard.query.pruning.bit_sliced_bounds import SUM_MAX, add_up, at_least
from shard.query.scoring.bm25f import SCORE_UNIT, TIER_OF_KIND, weights_of_tiers
from shard.query.scoring.top_k_selection import kth_greatest
from shard.query.text.clause_combination import mark_clause, match_some
from shard.query.text.clause_evaluation import Evaluation, ScoredDocs
from shard.query.text.prepared_query import phrase_weight
from shard.segment.doc_sets import NO_BITS, count_docs, list_docs, num_words
from shard.segment.text.postings_cursor import Wanted

if TYPE_CHECKING:
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


class _Bounded(NamedTuple):
    """Documents that share a bound, and the bound, in units of 2^-32."""

    marked: NDArray[np.uint64]
    bound: int


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
    clauses = evaluation.query.clauses
    size = num_words(evaluation.index.num_docs)
    of_clauses = np.zeros((len(clauses), size), np.uint64)
    for scored, of_clause in zip(clauses, of_clauses, strict=True):
        mark_clause(evaluation, scored, allowed, None, of_clause)
    hits = np.bitwise_or.reduce(of_clauses)
    num_wanted = max(k, num_first(k))
    if count_docs(hits) <= 2 * num_wanted:
        return hits, match_some(evaluation, hits)[0]
    bounded = _bounds_of_clauses(evaluation, allowed, of_clauses)
    bounded += _bounds_of_pairs(evaluation, allowed, of_clauses)
    # Rounded up, so that no sum is less than what it bounds.
    unit = sum(one.bound for one in bounded) // (SUM_MAX - len(bounded)) + 1
    numbers = np.array([-(-one.bound // unit) for one in bounded])
    planes = add_up(np.stack([one.marked for one in bounded]), numbers)

    low, high = 0, int(numbers.sum())
    while low < high:  # the greatest bound that enough documents have
        middle = (low + high + 1) // 2
        if count_docs(at_least(planes, middle) & hits) >= num_wanted:
            low = middle
        else:
            high = middle - 1
    first = at_least(planes, low) & hits
    first_docs = list_docs(first, min(int(count_docs(first)), max(_FIRST_MAX, num_wanted)))
    scored_first = match_some(evaluation, NO_BITS, first_docs)[0]
    totals = scored_first.scores + evaluation.bonus(scored_first.docs)
    least = kth_greatest(totals, k)
    candidates = at_least(planes, min(-(-least // unit), SUM_MAX)) & hits
    return hits, match_some(evaluation, candidates)[0]


def _bounds_of_clauses(
    evaluation: Evaluation, allowed: NDArray[np.uint64], of_clauses: NDArray[np.uint64]
) -> list[_Bounded]:
    """Return the bounds of clauses: two of those that have lesser terms."""
    bounded = []
    for scored, of_clause in zip(evaluation.query.clauses, of_clauses, strict=True):
        greatest, lesser = _greatest_and_lesser(evaluation, scored)
        if lesser:
            best = np.zeros_like(of_clause)
            of_tiers = np.array(weights_of_tiers(scored.weights[0]))
            is_best = (of_tiers[_TIERS] > lesser) & (np.array(scored.weights[0]) > 0)
            mark_clause(evaluation, scored, allowed, None, best, is_best)
            bounded.append(_Bounded(best, _in_units(greatest) - _in_units(lesser)))
        bounded.append(_Bounded(of_clause, _in_units(lesser or greatest)))
    return bounded


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
    evaluation: Evaluation, allowed: NDArray[np.uint64], of_clauses: NDArray[np.uint64]
) -> list[_Bounded]:
    """Return the bounds of pairs of neighbouring words: once, and again where they chain."""
    pairs = evaluation.prepared.pairs
    if pairs is None:
        return []
    # Words have all terms here, as their occurrences have them, also those of weight 0.
    words = []
    at = 0
    clauses = evaluation.query.clauses
    for word in pairs.words:
        while clauses[at].clause is not word:
            at += 1
        words.append(_mark_all_terms(evaluation, clauses[at], allowed, of_clauses[at]))
        at += 1
    bounded = []
    for pair, weight in enumerate(pairs.weights.tolist()):
        bound = math.ceil(weight * evaluation.query.proximity * SCORE_UNIT * (1.0 + 1e-9)) + 1
        both = words[pair] & words[pair + 1]
        bounded.append(_Bounded(both, bound))
        if pair > 0:
            bounded.append(_Bounded(both & words[pair - 1], bound * (CHAIN_MAX - 1)))
    return bounded


def _mark_all_terms(
    evaluation: Evaluation,
    scored: ScoredClause,
    allowed: NDArray[np.uint64],
    of_clause: NDArray[np.uint64],
) -> NDArray[np.uint64]:
    """Return the bitset of all terms of a word, given that of those which count."""
    assert isinstance(scored.clause, Word), "phrases form no pairs"
    expansion = evaluation.terms_to_read(scored.clause)
    if not expansion.phrases and (np.array(scored.weights[0])[expansion.kinds] > 0).all():
        return of_clause
    marked = np.zeros_like(of_clause)
    wanted = Wanted.of(allowed, None)
    evaluation.lists.mark(expansion.terms, expansion.languages, wanted, marked)
    return marked


def _in_units(score: float) -> int:
    """Return an upper bound of a score, in units of 2^-32."""
    return math.ceil(score * SCORE_UNIT) + 1
