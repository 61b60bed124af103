"""Sets the bits of the documents that have a term, or any of several, without scoring.

Costs: 1.5 ns an entry that is read; where few documents are wanted of a long list, its bitset says
which entries to look at.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from common.kernels.decorator import kernel
from common.kernels.types import U32Array, U64Array, int64
from shard.query.postings.posting_list_scan import (
    EntryRanges,
    Matched,
    ScoredTerm,
    mark_counted,
    scan,
    scan_scratch,
)
from shard.query.postings.term_plan import (
    QueryTerms,
    SearchedLists,
    TermPlan,
    plan_terms,
    scored_term,
)
from shard.segment.doc_sets import add_docs, pick_docs
from shard.segment.text.bitset_postings import add_members, bitset_bounds, find_dense, find_entries
from shard.segment.text.postings_cursor import Wanted

_LOCATED_COST: Final = 32
"""Locating an entry by a bitset and decoding it takes as long as reading this many in order."""


@kernel
def mark_term(
    searched: SearchedLists, plan: TermPlan, i: int, wanted: Wanted, marked: U64Array
) -> None:
    """Set the bits of the wanted documents that have one of the terms."""
    dense, num_docs = searched.dense, searched.num_docs
    dense_rank = plan.dense_ranks[i]
    if dense_rank >= 0 and not wanted.is_listed:
        add_members(dense, dense_rank, num_docs, wanted.bits, marked)
        return
    if dense_rank >= 0:
        docs = wanted.docs.copy()
        start, end = bitset_bounds(dense_rank, num_docs)
        count = pick_docs(docs, dense.dense_bits[start:end], docs)
    else:
        num_entries = int64(searched.scored.lists.entry_counts[plan.words.terms[i]])
        docs = np.empty(num_entries + 1, np.uint32)
        matched = Matched(docs, np.empty(0, np.int64))
        term = scored_term(plan, i)
        count = scan(searched.scored, term, wanted, False, matched, scan_scratch())
    add_docs(marked, docs[:count])


@kernel
def _mark_located(
    searched: SearchedLists, term: ScoredTerm, dense_rank: int, wanted: U32Array, marked: U64Array
) -> None:
    """Do the work of `mark_term` by a bitset where some fields do not count.

    The bitset tells which entries are those of the wanted documents; only these are decoded.
    """
    dense, num_docs = searched.dense, searched.num_docs
    docs = wanted.copy()
    start, end = bitset_bounds(dense_rank, num_docs)
    docs = docs[: pick_docs(docs, dense.dense_bits[start:end], docs)]
    firsts = np.empty(len(docs), np.int64)
    counts = np.empty(len(docs), np.uint16)
    find_entries(dense, dense_rank, num_docs, docs, firsts, counts)
    mark_counted(searched.scored, term, EntryRanges(docs, firsts, counts), marked)


@kernel
def mark_terms(
    searched: SearchedLists, words: QueryTerms, wanted: Wanted, marked: U64Array
) -> None:
    """Kernel of `TermLists.mark`."""
    plan = plan_terms(searched, words)
    entry_counts = searched.scored.lists.entry_counts
    for i in range(len(words.terms)):
        term = words.terms[i]
        if plan.checks_fields and wanted.is_listed:
            # Few documents of a long list: its bitset says which entries to look at.
            is_located = len(wanted.docs) * _LOCATED_COST < int64(entry_counts[term])
            dense_rank = find_dense(searched.dense, term) if is_located else -1
            if dense_rank >= 0:
                _mark_located(searched, scored_term(plan, i), dense_rank, wanted.docs, marked)
                continue
        mark_term(searched, plan, i, wanted, marked)
