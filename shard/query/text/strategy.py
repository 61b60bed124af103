"""Chooses how a text query is evaluated in a segment, before any posting list is read.

Most hits of a search are only counted. Which ones have to be scored follows from the query: one
term's list is pruned by the bounds of its parts (`single_term_top_k`), several terms are
intersected and scored where bounds can reach the top (`block_max_conjunction`), or united and
scored likewise (`max_score_disjunction`; if they are many or clauses have several terms,
`any_clause_top_k`); the terms of one word are united, and scored where a document's one entry can
reach the top (`expanded_word_top_k`); words that are searched again are like single terms
(`kept_words`); where words have several terms in several tiers, the hits of
the best tier are scored and all others counted; where leading words decide, the hits with the most
of them are; what remains scores every hit.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple

from common.query_syntax_tree import Word
from shard.query.pruning import expanded_word_top_k, max_score_disjunction
from shard.query.pruning.kept_words import ScoredWord
from shard.query.pruning.single_term_top_k import Pruning, choose_pruning
from shard.query.scoring.bm25f import WeighedTerms
from shard.query.text import any_clause_top_k
from shard.query.text.clause_evaluation import Evaluation, SingleTerm

_FEW_TERMS: Final = 4
"""Of more terms, sums of bounds take less time than the strata of all their combinations."""


class Ranking(Enum):
    """How the best hits of a query are found."""

    ONE_TERM = "one term"
    """Score the parts of its list whose bounds can reach the top."""
    SEVERAL_TERMS = "several terms"
    """Intersect them, and score the documents whose bounds can reach the top."""
    KEPT_WORDS = "kept words"
    """The same, where words that stand for several terms are kept."""
    ONE_WORD = "one word"
    """Unite its terms, and score the documents whose entries can reach the top."""
    ANY_TERM = "any term"
    """Unite them, and score the documents whose bounds can reach the top."""
    ANY_CLAUSE = "any clause"
    """The same where there are many, or clauses have several terms."""
    LEADING_WORDS = "leading words"
    """Score the hits with the most leading words, which come before all others; count the others.
    """
    BEST_TIER = "best tier"
    """Score the hits in the best tier, which come before all others, and count the others."""
    SCORE_ALL = "score all"
    """Score every hit."""


class KeptAndSingleWords(NamedTuple):
    """The words of a query that needs all of them."""

    kept: list[ScoredWord]
    """Those that are kept."""
    singles: list[SingleTerm]
    """The terms of the others, cheapest first."""


class Strategy(NamedTuple):
    """How a query is evaluated in a segment; see `choose_strategy`."""

    ranking: Ranking
    head: Evaluation
    """Evaluation of the tier whose hits are ranked; hits of other tiers are counted."""
    pruning: Pruning | None = None
    """Pruning of one term's list."""
    weighed: WeighedTerms | None = None
    """The terms of one word."""
    words: KeptAndSingleWords | None = None
    """The words of the query, some of which are kept."""


def choose_strategy(evaluation: Evaluation, num_ranked: int | None) -> Strategy:
    """Choose how to find a query's best hits, before any postings are read.

    Args:
        evaluation: of the query in a segment.
        num_ranked: how many of the best hits to rank, at least 1; None: all.
    """
    prepared, query = evaluation.prepared, evaluation.query
    if num_ranked is None or not query.clauses:
        return Strategy(Ranking.SCORE_ALL, evaluation)
    if not prepared.needs_all:
        return Strategy(_choose_for_some(evaluation), evaluation)
    head = evaluation.up_to(prepared.best_tier)
    if len(query.clauses) == 1:
        strategy = _choose_for_one(head, num_ranked)
    else:
        strategy = _choose_for_several(head)
    if strategy is None:
        return Strategy(Ranking.SCORE_ALL if head is evaluation else Ranking.BEST_TIER, head)
    return strategy


def _choose_for_one(head: Evaluation, num_ranked: int) -> Strategy | None:
    """Return how to find the best hits of a query of one clause without scoring all, if at all."""
    scored, single, num_entries = head.plans[0]
    if single is not None:  # the best of a prefix list, too, are found by its bounds
        pruning = choose_pruning(head.lists, single.term, single.mask, num_ranked)
        return None if pruning is None else Strategy(Ranking.ONE_TERM, head, pruning)
    word = scored.clause
    if not isinstance(word, Word):
        return None
    kept = head.scored_word(scored)
    if kept is not None:
        return Strategy(Ranking.KEPT_WORDS, head, words=KeptAndSingleWords([kept], []))
    if head.terms_to_read(word).phrases:
        return None
    weighed = head.weighed(word, scored.weights[0])
    if not expanded_word_top_k.pays_off(head.fields, weighed, num_entries, num_ranked):
        return None
    return Strategy(Ranking.ONE_WORD, head, weighed=weighed)


def _choose_for_several(head: Evaluation) -> Strategy | None:
    """Return how to find the best hits of several clauses without scoring all, if at all."""
    words = _kept_words(head)
    if words is not None:
        return Strategy(Ranking.KEPT_WORDS, head, words=words)
    if len(head.singles) == len(head.plans):
        return Strategy(Ranking.SEVERAL_TERMS, head)
    return None


def _kept_words(head: Evaluation) -> KeptAndSingleWords | None:
    """Return the words of a query, if some are kept and the others have a single term each."""
    words = KeptAndSingleWords([], [])
    for scored, single, _ in head.plans:
        kept = None
        if single is None or head.is_plain_prefix_list(single):
            kept = head.scored_word(scored)
        if kept is not None:
            words.kept.append(kept)
        elif single is not None:
            words.singles.append(single)
        else:
            return None
    return words if words.kept else None


def _choose_for_some(evaluation: Evaluation) -> Ranking:
    """Return how to find the best hits of a query that does not need every clause to match."""
    if evaluation.query.is_leading:
        return Ranking.LEADING_WORDS
    if not evaluation.needs_one:
        return Ranking.SCORE_ALL
    plans = evaluation.plans
    num_entries = sum([one.cost for one in plans])
    is_clause_wise = any_clause_top_k.pays_off(len(plans), num_entries)
    if len(plans) <= _FEW_TERMS or not is_clause_wise:
        num_docs = evaluation.index.num_docs
        if len(evaluation.singles) == len(plans) and max_score_disjunction.pays_off(
            num_docs, len(plans), num_entries
        ):
            return Ranking.ANY_TERM
    return Ranking.ANY_CLAUSE if is_clause_wise else Ranking.SCORE_ALL
