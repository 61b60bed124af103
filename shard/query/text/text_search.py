"""Full-text search over one segment: finds and scores the documents that match a text query.

    TextQuery ─▶ choose_strategy: can the best hits be found without scoring all?
              ─▶ per clause: terms (expansion) ─▶ documents and scores (bm25f, phrase)
              ─▶ all: intersect, rarest first │ some: mark the hits, one cell for each
              ─▶ tiers ─▶ proximity for those that can reach the top ─▶ TextMatch

Clauses that are excluded come first: the hits that they leave are the filter of all this.

Hits that are only counted (`find_text`) need none of this: the number of one term's is stored,
those of several single terms, or of a phrase, are listed, and all others are marked in a bitset.

The score of a hit is one float64 that orders everything:

    score = step · (worst tier of the query - worst tier of the hit)  +  Σ clauses + proximity
            └──────────────── match: all ────────────────┘
    score = step · (leading clauses that match - 1)                   +  …              match: last
    score =                                                              …              match: any

A document with a field that is the query gets a bonus on top (`whole_field_matches.py`).

`step` is a power of two above any sum of clauses. So a hit with all words as typed ranks above one
that has some word only as a prefix, and that one above a hit with a typo, however rare the words
(tiers: see bm25f). If a query's words can match in one tier only, the score has no such part.
`step` depends on the query alone, so all shards use the same one (`prepared_query.py`).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import numpy as np

from common.query_syntax_tree import Phrase
from shard.query.matches import Matches
from shard.query.proximity.proximity_ranking import in_reach_by_pairs
from shard.query.pruning import kept_words
from shard.query.pruning.block_max_conjunction import best_of_terms, best_of_words
from shard.query.pruning.expanded_word_top_k import best_of_word
from shard.query.pruning.kept_words import best_of_kept
from shard.query.pruning.max_score_disjunction import best_of_any
from shard.query.pruning.single_term_top_k import best_champions, best_of_term
from shard.query.scoring.bm25f import SCORE_UNIT, weights_of_tiers
from shard.query.scoring.scratch_arrays import SCRATCH
from shard.query.text.any_clause_top_k import best_of_any_clause
from shard.query.text.clause_combination import (
    mark_excluded,
    mark_hits,
    mark_most_leading,
    mark_remaining,
    match_all,
    match_some,
)
from shard.query.text.clause_evaluation import Evaluation, SingleTerm, as_terms
from shard.query.text.prepared_query import PreparedQuery
from shard.query.text.strategy import Ranking, Strategy, choose_strategy
from shard.query.text.whole_field_matches import whole_docs
from shard.segment.doc_sets import NO_BITS, NO_DOCS, are_in, bitset_of, count_docs, empty_bitset
from shard.segment.text.postings_cursor import Wanted

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from shard.segment.snapshot import SegmentView

_ScoredHits: TypeAlias = "tuple[NDArray[np.uint32], NDArray[np.int64]]"
"""Documents that match, and their scores in units of 2^-32."""

_SCORED_AT_ONCE: Final = 1_024
"""Where scores only break ties, up to this many hits are scored as they are found. Else a second
pass over the postings scores those that come first, which is faster from 1,500 hits on (one word,
sorted by price, 150,000 items; AMD EPYC, 2026-11-30)."""


class TextMatch(NamedTuple):
    """The documents of a segment that match, and the best of them."""

    found: Matches
    """All."""
    ranked: Matches
    """With scores: at least the best `num_ranked`, and all ties for the last place."""


class BestHits(NamedTuple):
    """The best hits of one tier.

    Attributes:
        docs: all hits, if they were listed.
        bitset: of all hits, if it was built.
        ranked: at least the requested number of the best, or all.
        totals: scores of these, in units of 2^-32.
    """

    docs: NDArray[np.uint32] | None
    ranked: NDArray[np.uint32]
    totals: NDArray[np.int64]
    bitset: NDArray[np.uint64] | None = None

    def all_of(self, view: SegmentView) -> Matches | None:
        """Return all hits, without scores, if they are known."""
        if self.docs is not None:
            return Matches(view, docs=self.docs)
        return None if self.bitset is None else Matches(view, bitset=self.bitset)


def find_text(
    view: SegmentView, prepared: PreparedQuery, allowed: NDArray[np.uint64] | None
) -> Matches:
    """Find the documents that match a text query, without scores.

    The arguments are those of `match_text`.
    """
    if _matches_nothing(view, prepared):
        return _nothing(view)
    bits = NO_BITS if allowed is None else allowed
    return _all_hits(view, Evaluation(view.segment, prepared), bits)


def match_text(
    view: SegmentView,
    prepared: PreparedQuery,
    allowed: NDArray[np.uint64] | None,
    num_ranked: int | None,
) -> TextMatch:
    """Find the documents that match a text query, and the best of them.

    Args:
        view: the segment; its deletions are ignored here, see `allowed`.
        prepared: the query.
        allowed: bitset of live documents that pass the filters; None: all documents.
        num_ranked: how many of the best are wanted, at least 1; None: all.
    """
    if _matches_nothing(view, prepared):
        return TextMatch(_nothing(view), _nothing(view))
    return _match_text(view, Evaluation(view.segment, prepared), allowed, num_ranked)


def match_to_sort(
    view: SegmentView, prepared: PreparedQuery, allowed: NDArray[np.uint64] | None
) -> Matches:
    """Find the documents that match, for an order in which scores only break ties.

    Returns:
        All of them: with scores if few are expected; else a scorer scores those that come first.
    """
    if _matches_nothing(view, prepared):
        return _nothing(view)
    evaluation = Evaluation(view.segment, prepared)
    if prepared.needs_all and _has_few_hits(evaluation, allowed):
        return _match_text(view, evaluation, allowed, None).ranked
    found = _all_hits(view, evaluation, NO_BITS if allowed is None else allowed)
    found.scorer = partial(_score, evaluation)
    return found


def _has_few_hits(evaluation: Evaluation, allowed: NDArray[np.uint64] | None) -> bool:
    """Return whether a query that needs all clauses has few hits, as if they were independent."""
    num_docs = evaluation.index.num_docs
    expected = float(num_docs)
    for plan in evaluation.plans:
        expected *= min(plan.cost / num_docs, 1.0) if num_docs else 0.0
    if expected > _SCORED_AT_ONCE and allowed is not None:
        expected *= count_docs(allowed) / num_docs
    return expected <= _SCORED_AT_ONCE


def _matches_nothing(view: SegmentView, prepared: PreparedQuery) -> bool:
    return prepared.query.required > len(prepared.query.clauses) or view.segment.num_docs == 0


def _nothing(view: SegmentView) -> Matches:
    return Matches(view, docs=NO_DOCS, scores=np.zeros(0))


def _match_text(
    view: SegmentView,
    evaluation: Evaluation,
    allowed: NDArray[np.uint64] | None,
    num_ranked: int | None,
) -> TextMatch:
    """Do the work of `match_text` for a query that may match something."""
    prepared = evaluation.prepared
    bits = NO_BITS if allowed is None else allowed
    remaining: Matches | None = None
    if prepared.query.excluded:
        bits = mark_remaining(evaluation, bits)
        remaining = Matches(view, bitset=bits)
    match = _match_words(view, evaluation, bits, num_ranked, remaining)
    whole = prepared.query.whole
    if not whole or match.found.count == 0:
        return match
    docs = whole_docs(view.segment, whole, evaluation.fields, bits)
    if len(docs) == 0:
        return match
    # Few documents: score all of them, whether they are among the best or not.
    docs, totals = _rank(evaluation, _match(evaluation, Wanted.among(docs)), None)
    scores = (totals + prepared.whole_bonus) / SCORE_UNIT
    assert match.ranked.scores is not None, "ranked documents have scores"
    is_other = np.isin(match.ranked.docs, docs, invert=True)
    docs = np.concatenate((match.ranked.docs[is_other], docs))
    scores = np.concatenate((match.ranked.scores[is_other], scores))
    order = np.argsort(docs)
    return TextMatch(match.found, Matches(view, docs=docs[order], scores=scores[order]))


def match_among(
    view: SegmentView, prepared: PreparedQuery, docs: NDArray[np.uint32]
) -> tuple[NDArray[np.uint32], NDArray[np.float64]]:
    """Return the given documents that match, and their scores, reading little else.

    Args:
        view: the segment.
        prepared: the query.
        docs: ascending.
    """
    query = prepared.query
    if query.required > len(query.clauses) or not len(docs):
        return NO_DOCS, np.zeros(0)
    return _scored_among(Evaluation(view.segment, prepared), docs)


def _score(evaluation: Evaluation, docs: NDArray[np.uint32]) -> NDArray[np.float64]:
    """Return the scores of some matches of a segment, ascending."""
    with SCRATCH:  # runs after the match, when hits are selected
        found, scores = _scored_among(evaluation, docs)
    assert len(found) == len(docs), "all of them match"
    return scores


def _scored_among(
    evaluation: Evaluation, docs: NDArray[np.uint32]
) -> tuple[NDArray[np.uint32], NDArray[np.float64]]:
    """Return the given documents that match, and their scores."""
    prepared, segment = evaluation.prepared, evaluation.segment
    docs = _without_excluded(evaluation, docs)
    found, totals = _rank(evaluation, _match(evaluation, Wanted.among(docs)), None)
    whole = prepared.query.whole
    if whole and len(found):
        among = bitset_of(found, segment.num_docs)
        have_bonus = whole_docs(segment, whole, evaluation.fields, among)
        totals = totals + prepared.whole_bonus * np.isin(found, have_bonus)
    return found, totals / SCORE_UNIT


def _without_excluded(evaluation: Evaluation, docs: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Return those of some documents, ascending, that no excluded clause matches."""
    if not evaluation.query.excluded or not len(docs):
        return docs
    bits = bitset_of(docs, evaluation.index.num_docs)
    return docs[~are_in(mark_excluded(evaluation, Wanted.among(docs, bits)), docs)]


def num_hits_expected(view: SegmentView, prepared: PreparedQuery) -> int:
    """Return about how many documents match, as if words were spread evenly over all texts.

    0 if that is not known: some clause need not match, or the only one is a phrase.
    """
    if not prepared.needs_all:
        return 0
    evaluation = Evaluation(view.segment, prepared)
    index = evaluation.index
    is_searched = evaluation.fields.lists.tf_norms[:, 1] > 0
    totals = index.field_totals
    share_searched = totals[is_searched].sum() / max(totals.sum(), 1)
    expected = float(index.num_docs)
    for plan in evaluation.plans:
        expected *= min(plan.cost * share_searched / max(index.num_docs, 1), 1.0)
    return int(expected)


def _match_words(
    view: SegmentView,
    evaluation: Evaluation,
    allowed: NDArray[np.uint64],
    num_ranked: int | None,
    remaining: Matches | None,
) -> TextMatch:
    """Do the work of `match_text`, without the bonus of whole fields.

    Args:
        view: the segment.
        evaluation: of the query in it.
        allowed: bitset of the documents to look at; empty: all.
        num_ranked: as there.
        remaining: the hits, if excluded clauses have left them: then `allowed` has no others.
    """
    strategy = choose_strategy(evaluation, num_ranked)
    if num_ranked is not None and strategy.ranking is not Ranking.SCORE_ALL:
        best = best_hits(strategy, allowed, num_ranked)
        is_head = strategy.head is evaluation
        found = best.all_of(view) if is_head else None
        # With fewer hits in the best tier, those of the others would have to be ranked as well.
        if found is not None or len(best.ranked) >= num_ranked:
            found = remaining or found or _all_hits(view, evaluation, allowed)
            totals = best.totals
            if not is_head:
                prepared = evaluation.prepared
                lead = prepared.ranks[evaluation.tier] - prepared.ranks[strategy.head.tier]
                totals = totals + prepared.step * int(lead)
            return TextMatch(found, _scored_matches(view, best.ranked, totals))
    scored = _match(evaluation, Wanted.of(allowed))
    ranked = _rank(evaluation, scored, num_ranked)
    return TextMatch(Matches(view, docs=scored[0]), _scored_matches(view, *ranked))


def _scored_matches(
    view: SegmentView, docs: NDArray[np.uint32], totals: NDArray[np.int64]
) -> Matches:
    """Return documents with their scores."""
    return Matches(view, docs=docs, scores=totals / SCORE_UNIT)


def best_hits(strategy: Strategy, allowed: NDArray[np.uint64], num_ranked: int) -> BestHits:
    """Return the best hits of the best tier, scoring as few documents as the strategy says."""
    head = strategy.head
    if strategy.ranking is Ranking.BEST_TIER:
        result = match_all(head, Wanted.of(allowed))
        return BestHits(None, *_rank(head, (result.docs, result.scores), num_ranked))
    if strategy.ranking is Ranking.LEADING_WORDS:
        bitset, best = mark_most_leading(head, allowed, num_ranked)
        return BestHits(None, *_rank(head, _match(head, Wanted.of(best)), num_ranked), bitset)
    if strategy.ranking is Ranking.ANY_CLAUSE:
        bitset, result = best_of_any_clause(head, allowed, num_ranked)
        return BestHits(None, *_rank(head, (result.docs, result.scores), num_ranked), bitset)
    if strategy.weighed is not None:
        of_tiers = weights_of_tiers(head.plans[0].scored.weights[0])
        found = best_of_word(head.lists, strategy.weighed, of_tiers, allowed, num_ranked)
        return BestHits(None, found.docs, found.scores, found.bitset)
    if strategy.ranking is Ranking.ANY_TERM:
        terms = head.single_terms
        bitset, docs, totals = best_of_any(head.lists, terms, allowed, head.proximity, num_ranked)
        return BestHits(None, *head.rank(docs, totals, num_ranked), bitset)
    if strategy.words is not None:
        kept, singles = strategy.words
        if len(head.plans) == 1:
            found = best_of_kept(kept[0], head.k1, allowed, num_ranked)
            return BestHits(None, found.docs, found.scores, found.bitset)
        terms = as_terms(singles)
        return BestHits(
            *best_of_words(head.lists, terms, kept, allowed, head.proximity, num_ranked)
        )
    if strategy.ranking is Ranking.SEVERAL_TERMS:
        terms = head.single_terms
        return BestHits(*best_of_terms(head.lists, terms, allowed, head.proximity, num_ranked))
    assert strategy.pruning is not None, "one term is ranked by pruning its list"
    term, _, weight, _ = head.singles[0]
    if num_ranked >= kept_words.DEEP_HITS_MIN:
        champions = head.deep_champions(num_ranked)
        if champions is not None:
            docs, scores = best_champions(champions, weight, head.k1, allowed, num_ranked)
            if len(docs):
                return BestHits(None, docs, scores)
    return BestHits(
        None, *best_of_term(head.lists, term, weight, strategy.pruning, allowed, num_ranked)
    )


def _all_hits(view: SegmentView, evaluation: Evaluation, allowed: NDArray[np.uint64]) -> Matches:
    """Return all hits, without scores: a stored number, a list, or a bitset."""
    query, wanted = evaluation.query, Wanted.of(allowed)
    if query.excluded:
        return Matches(view, bitset=mark_remaining(evaluation, allowed))
    if not query.clauses:
        return Matches(view, docs=_match(evaluation, wanted)[0])
    if evaluation.prepared.needs_all and len(evaluation.singles) == len(query.clauses):
        return _all_of_terms(view, evaluation, wanted)
    first = query.clauses[0]
    if len(query.clauses) == 1 and isinstance(first.clause, Phrase):
        found = evaluation.score(first.clause, first.weights, wanted)
        return Matches(view, docs=found.docs)
    return Matches(view, bitset=mark_hits(evaluation, allowed))


def _all_of_terms(view: SegmentView, evaluation: Evaluation, wanted: Wanted) -> Matches:
    """Return the wanted documents that have the single terms of all clauses.

    Of one term, just their number, if it is stored and suffices.
    """
    lists = evaluation.lists

    def list_docs() -> NDArray[np.uint32]:
        return lists.match(evaluation.single_terms, wanted, is_scored=False)[0]

    first, *others = evaluation.singles
    if others:
        return Matches(view, docs=list_docs())
    if lists.has_bitset(first.term, first.mask):
        mark_docs = partial(_docs_with, evaluation, first, wanted)
        if len(wanted.bits):
            return Matches(view, bitset=mark_docs())
        return Matches(view, count=lists.count(first.term, first.mask), mark_docs=mark_docs)
    count = None if len(wanted.bits) else lists.count(first.term, first.mask)
    if count is None:
        return Matches(view, docs=list_docs())
    return Matches(view, count=count, list_docs=list_docs)


def _docs_with(evaluation: Evaluation, single: SingleTerm, wanted: Wanted) -> NDArray[np.uint64]:
    """Return the bitset of the wanted documents that have a term."""
    marked = empty_bitset(evaluation.index.num_docs)
    terms, masks = np.array([single.term], np.uint32), np.array([single.mask], np.uint64)
    evaluation.lists.mark(terms, masks, wanted, marked)
    return marked


def _match(evaluation: Evaluation, wanted: Wanted) -> _ScoredHits:
    """Return the wanted documents that match, and their scores without proximity.

    A list of them needs no bitset.
    """
    prepared = evaluation.prepared
    if prepared.needs_all:
        result = match_all(evaluation, wanted)
        totals = result.scores
        if not evaluation.has_one_tier:
            ranks = prepared.ranks
            totals = totals + prepared.step * (ranks[prepared.worst_tier] - ranks[result.tiers])
    else:
        result, counts = match_some(evaluation, wanted)
        totals = result.scores
        if prepared.query.is_leading:
            totals = totals + prepared.step * (counts.astype(np.int64) - 1)
    return result.docs, totals


def _rank(evaluation: Evaluation, scored: _ScoredHits, num_ranked: int | None) -> _ScoredHits:
    """Return the documents that can be among the best, with their full scores.

    A word counts as what the document has it for: terms of worse tiers than the document's own do
    not count. So if hits fall into several tiers, proximity is computed tier by tier. It never
    lifts a hit above a better tier, since clauses and proximity together stay below one step.
    """
    prepared = evaluation.prepared
    docs, totals = scored
    k = len(docs) if num_ranked is None else num_ranked
    if k <= 0 or len(docs) == 0:
        return NO_DOCS, np.zeros(0, np.int64)
    if not prepared.has_exact_scores:
        k = len(docs)  # hits with the same double are tied, and all of them can be among the best
    if prepared.pairs is None or not prepared.needs_all or evaluation.has_one_tier:
        # (Of leading words, steps leave few documents in reach.)
        is_any = not prepared.needs_all and not prepared.query.is_leading
        if prepared.pairs is not None and is_any:
            docs, totals = in_reach_by_pairs(
                evaluation.lists, evaluation.proximity, docs, totals, k
            )
        return evaluation.rank(docs, totals, k)
    ranks = prepared.ranks[prepared.worst_tier] - totals // prepared.step
    parts = []
    for tier in prepared.tiers:
        at = np.flatnonzero(ranks == prepared.ranks[tier])
        if k > 0 and len(at):
            parts.append(evaluation.up_to(tier).rank(docs[at], totals[at], k))
            k -= len(at)
    ranked = np.concatenate([part[0] for part in parts])
    order = np.argsort(ranked)
    return ranked[order], np.concatenate([part[1] for part in parts])[order]
