"""Combines the clauses of a text query over one segment.

    all clauses     intersect, rarest first: each narrows what the next ones look at
    some            mark the documents with enough clauses, and score these only
    leading ones    intersect in the order of the query, as long as enough documents are left
    excluded        the documents that none of these clauses matches

`clause_evaluation` finds the documents of one clause; `text_search` puts the results together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from common.kernels.decorator import arguments, kernel
from common.kernels.types import (
    I64Array,
    U8Array,
    U16Array,
    U32Array,
    int64,
    uint16,
)
from common.protocol.messages import ScoredClause
from common.query_syntax_tree import NUM_MATCH_KINDS, Word
from shard.query.postings.term_counting import mark_some
from shard.query.pruning.bit_sliced_bounds import add_up, at_least
from shard.query.scoring.bm25f import NUM_TIERS
from shard.query.scoring.scratch_arrays import SCRATCH
from shard.query.text.clause_evaluation import Evaluation, ScoredDocs, list_members
from shard.segment.doc_sets import (
    add_bitset,
    add_docs,
    bitset_length,
    count_docs,
    empty_bitset,
    full_bitset,
    list_docs,
    set_bit,
)
from shard.segment.text.postings_cursor import ALL_DOCS, Wanted

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

_CANDIDATES_SHARE: Final = 64
"""With fewer candidates than 1 / `_CANDIDATES_SHARE` of the documents, blocks without one are
skipped."""

_COUNTED_COST: Final = 64
"""Counting an entry takes as long as adding up this many documents of a clause, 64 at a time."""

_MARKED_ENTRIES_MIN: Final = 8_192
"""A word of fewer entries is scored at once."""

_ALL_KINDS: Final = np.ones(NUM_MATCH_KINDS, np.bool_)
_ANY_KIND_WEIGHTS: Final = (1.0,) * NUM_MATCH_KINDS


@arguments
class _ClauseCells(NamedTuple):
    """Accumulators, for queries that do not need every clause to match.

    Attributes:
        scores: by document, of the matching clauses.
        counts: by document, how many match.
        touched: bitset of the documents with any.
    """

    scores: NDArray[np.int64]
    counts: NDArray[np.uint16]
    touched: NDArray[np.uint64]


@kernel
def _sum_scores(result: ScoredDocs, more: ScoredDocs) -> tuple[I64Array, U8Array]:
    """Return summed scores and the worse tiers, by document of `more`, a subset of `result`."""
    docs, scores, tiers = result
    more_docs, more_scores, more_tiers = more
    out_scores = np.empty(len(more_docs), np.int64)
    out_tiers = np.empty(len(more_docs), np.uint8)
    at = 0
    for i in range(len(more_docs)):
        while docs[at] < more_docs[i]:
            at += 1
        out_scores[i] = scores[at] + more_scores[i]
        out_tiers[i] = max(tiers[at], more_tiers[i])
    return out_scores, out_tiers


@kernel(allocates=False)
def _add_clause(found: ScoredDocs, leading: int, cells: _ClauseCells) -> None:
    """Add a clause's documents to the cells.

    With `leading` >= 0, only to documents that have matched exactly that many clauses so far: a
    document's leading matches end at the first clause that it misses.
    """
    for i in range(len(found.docs)):
        doc = int64(found.docs[i])
        if leading >= 0 and cells.counts[doc] != leading:
            continue
        cells.scores[doc] += found.scores[i]
        cells.counts[doc] += uint16(1)
        set_bit(cells.touched, doc)


@kernel
def _take_cells(
    docs: U32Array, required: int, cells: _ClauseCells
) -> tuple[U32Array, I64Array, U16Array]:
    """Return documents, scores and counts of those with enough clauses, and clean all cells."""
    scores, counts, touched = cells
    out_docs = np.empty(len(docs), np.uint32)
    out_scores = np.empty(len(docs), np.int64)
    out_counts = np.empty(len(docs), np.uint16)
    found = 0
    for doc in docs:
        if counts[doc] >= required:
            out_docs[found] = doc
            out_scores[found] = scores[doc]
            out_counts[found] = counts[doc]
            found += 1
        scores[doc] = 0
        counts[doc] = 0
        touched[doc >> 6] = 0
    return out_docs[:found], out_scores[:found], out_counts[:found]


def _joined(result: ScoredDocs, more: ScoredDocs) -> ScoredDocs:
    """Return the documents of the second result, a subset of the first, with both scores added."""
    scores, tiers = _sum_scores(result, more)
    return ScoredDocs(more.docs, scores, tiers)


def match_all(evaluation: Evaluation, wanted: Wanted) -> ScoredDocs:
    """Return the documents that every clause matches, rarest clause first.

    Single-term clauses are read together, when the first of them is due.

    Args:
        evaluation: of the query in a segment.
        wanted: the documents to look at; a list needs no bitset.
    """
    if not evaluation.query.clauses:
        return _match_anything(evaluation, wanted)
    if not wanted.is_listed and _is_marked_first(evaluation):
        hits = mark_hits(evaluation, wanted.bits)
        wanted = Wanted.among(list_members(hits, evaluation.index.num_docs))
    are_singles_scored = False
    result: ScoredDocs | None = None
    for scored, single, _ in evaluation.plans:
        if single is None:
            more = evaluation.score(scored.clause, scored.weights, wanted)
        elif not are_singles_scored:
            more = evaluation.score_singles(wanted)
            are_singles_scored = True
        else:
            continue
        result = more if result is None else _joined(result, more)
        if len(result.docs) == 0:
            break
        wanted = Wanted.among(result.docs)
    assert result is not None, "there is a clause"
    return result


def _is_marked_first(evaluation: Evaluation) -> bool:
    """Return whether to find the documents that every clause matches before any is scored.

    A word of many terms takes an accumulator for each of its documents when it is scored, and a bit
    when it is marked; where the other clauses narrow it, hardly any of them needs the former.
    """
    first, *others = evaluation.plans
    clause = first.scored.clause
    return (
        len(others) > 0
        and first.single is None
        and first.cost >= _MARKED_ENTRIES_MIN
        and isinstance(clause, Word)
        and not evaluation.terms_to_read(clause).phrases
    )


def mark_hits(evaluation: Evaluation, allowed: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the bitset of the hits, without scoring.

    Args:
        evaluation: of the query in a segment.
        allowed: bitset of documents; empty: all.
    """
    query = evaluation.query
    if evaluation.prepared.needs_all:
        return _mark_all(evaluation, [one.scored for one in evaluation.plans], allowed)
    if query.is_leading:
        return _mark_all(evaluation, query.clauses[: query.required], allowed)
    num_docs, wanted = evaluation.index.num_docs, Wanted.of(allowed)
    if query.required == 1:
        marked = empty_bitset(num_docs)
        for scored in query.clauses:
            mark_clause(evaluation, scored, wanted, marked)
        return marked
    num_entries = sum([one.cost for one in evaluation.plans])
    if num_entries * _COUNTED_COST <= len(query.clauses) * num_docs and has_single_terms(
        evaluation
    ):
        return mark_some(evaluation.lists, evaluation.single_terms, allowed, query.required)
    marked = np.zeros((len(query.clauses), bitset_length(num_docs)), np.uint64)
    for scored, of_clause in zip(query.clauses, marked, strict=True):
        mark_clause(evaluation, scored, wanted, of_clause)
    counts = add_up(marked, np.ones(len(marked), np.int64))
    found: NDArray[np.uint64] = at_least(counts, full_bitset(num_docs), query.required)
    return found


def mark_most_leading(
    evaluation: Evaluation, allowed: NDArray[np.uint64], k: int
) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Return the bitset of the hits, and that of those which match the most leading clauses.

    Args:
        evaluation: of a query whose leading clauses have to match.
        allowed: bitset of documents; empty: all.
        k: how many of the second are wanted at least, if there are as many hits.
    """
    query = evaluation.query
    hits = best = mark_hits(evaluation, allowed)
    for scored in query.clauses[query.required :]:
        more = _mark_all(evaluation, [scored], best)
        if count_docs(more) < k:
            break
        best = more
    return hits, best


def _mark_all(
    evaluation: Evaluation, clauses: Iterable[ScoredClause], allowed: NDArray[np.uint64]
) -> NDArray[np.uint64]:
    """Return the bitset of the documents that all of some clauses match, one clause at least."""
    bitset = allowed
    for scored in clauses:
        wanted = ALL_DOCS
        if len(bitset):
            wanted = _wanted_of(bitset, evaluation.index.num_docs)
            if wanted.is_listed and len(wanted.docs) == 0:
                break
        marked = empty_bitset(evaluation.index.num_docs)
        mark_clause(evaluation, scored, wanted, marked)
        bitset = marked
    return bitset


def mark_clause(
    evaluation: Evaluation,
    scored: ScoredClause,
    wanted: Wanted,
    marked: NDArray[np.uint64],
    kinds: NDArray[np.bool_] | None = None,
) -> None:
    """Set the bits of a clause's documents among the wanted ones.

    Args:
        evaluation: of the query in a segment.
        scored: the clause.
        wanted: the documents to look at; also a list needs its bitset.
        marked: the bitset.
        kinds: by `MatchKind`: whether terms of it are read, of a word without multi-word
            alternatives; None: all that have a weight.
    """
    clause = scored.clause
    if isinstance(clause, Word):
        expansion = evaluation.terms_to_read(clause)
        kept = evaluation.kept_word(clause, scored.weights[0]) if kinds is None else None
        if kept is not None:
            add_bitset(kept.postings.docs, wanted.bits, marked)
            return
        if not expansion.phrases:
            is_read = np.array(scored.weights[0]) > 0 if kinds is None else kinds
            is_used = is_read[expansion.kinds]
            evaluation.lists.mark(
                expansion.terms[is_used],
                expansion.masks[is_used],
                wanted,
                marked,
            )
            return
    found = evaluation.score(clause, scored.weights, wanted)
    add_docs(marked, found.docs)


def _match_anything(evaluation: Evaluation, wanted: Wanted) -> ScoredDocs:
    """Return all documents to look at: the result of a query that only excludes."""
    num_docs = evaluation.index.num_docs
    if wanted.is_listed:
        docs = wanted.docs
    elif len(wanted.bits):
        docs = list_members(wanted.bits, num_docs)
    else:
        docs = np.arange(num_docs, dtype=np.uint32)
    return ScoredDocs(docs, np.zeros(len(docs), np.int64), np.zeros(len(docs), np.uint8))


def match_some(evaluation: Evaluation, wanted: Wanted) -> tuple[ScoredDocs, NDArray[np.uint16]]:
    """Return the documents that enough clauses match, and how many clauses each matches.

    The arguments are those of `match_all`. The numbers are those of queries of leading clauses.
    """
    num_docs = evaluation.index.num_docs
    if not wanted.is_listed and not evaluation.needs_one:
        # To mark a document takes a quarter of the time that scoring it does.
        hits = mark_hits(evaluation, wanted.bits)
        wanted = Wanted.of(hits)
        count = count_docs(hits)
        if count * _CANDIDATES_SHARE < num_docs:
            docs = list_docs(hits, count)
            if has_single_terms(evaluation) and not evaluation.query.is_leading:
                return score_any(evaluation, docs), np.zeros(len(docs), np.uint16)
            wanted = Wanted.among(docs)
    SCRATCH.reserve(num_docs)
    touched = empty_bitset(num_docs)
    cells = _ClauseCells(SCRATCH.scores, SCRATCH.counts, touched)
    for i, scored in enumerate(evaluation.query.clauses):
        found = evaluation.score(scored.clause, scored.weights, wanted)
        _add_clause(found, i if evaluation.query.is_leading else -1, cells)
    docs, scores, counts = _take_cells(
        list_members(touched, num_docs), evaluation.query.required, cells
    )
    return ScoredDocs(docs, scores, np.zeros(len(docs), np.uint8)), counts


def has_single_terms(evaluation: Evaluation) -> bool:
    """Return whether each clause has a single term in this segment, or none."""
    return all(one.single is not None or one.cost == 0 for one in evaluation.plans)


def score_any(evaluation: Evaluation, docs: NDArray[np.uint32]) -> ScoredDocs:
    """Return documents with what they score for the single terms that they have."""
    scores = evaluation.lists.score_any(evaluation.single_terms, docs)
    return ScoredDocs(docs, scores, np.zeros(len(docs), np.uint8))


def mark_remaining(evaluation: Evaluation, allowed: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the bitset of the hits that no excluded clause matches, without scoring.

    As the filter of a search for the other clauses it lets that find the best hits by bounds.

    Args:
        evaluation: of a query with excluded clauses in a segment.
        allowed: bitset of documents; empty: all.
    """
    num_docs = evaluation.index.num_docs
    if evaluation.query.clauses:
        hits = mark_hits(evaluation, allowed)
    else:
        hits = allowed if len(allowed) else full_bitset(num_docs)
    remaining: NDArray[np.uint64] = hits & ~mark_excluded(evaluation, _wanted_of(hits, num_docs))
    return remaining


def mark_excluded(evaluation: Evaluation, wanted: Wanted) -> NDArray[np.uint64]:
    """Return a bitset with those of the wanted documents that an excluded clause matches.

    Args:
        evaluation: of the query in a segment.
        wanted: the documents to look at. Without a bitset, others may be in the result, too.
    """
    # The query's tiers come from its other clauses; an excluded word may match in any tier.
    any_tier = Evaluation(evaluation.segment, evaluation.prepared, NUM_TIERS - 1)
    marked = empty_bitset(evaluation.index.num_docs)
    for clause in evaluation.query.excluded:
        num_words = 1 if isinstance(clause, Word) else len(clause.words)
        scored = ScoredClause(clause, (_ANY_KIND_WEIGHTS,) * num_words)
        mark_clause(any_tier, scored, wanted, marked, _ALL_KINDS)
    return marked


def _wanted_of(bitset: NDArray[np.uint64], num_docs: int) -> Wanted:
    """Return the documents of a bitset, listed if they are few."""
    count = int(count_docs(bitset))
    if count * _CANDIDATES_SHARE < num_docs:
        return Wanted.among(list_docs(bitset, count), bitset)
    return Wanted.of(bitset)
