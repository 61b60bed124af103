"""How the terms of a query are read in a segment: decided once, as a value.

    green   has a bitset, all fields count    ─▶  the bitset says which documents have it
    mile    has none                          ─▶  its posting list is read

A bitset (`shard/segment/text/bitset_postings.py`) answers which documents have a term, and at which
entry of its list, but does not tell fields apart.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from common.analysis.field_classes import ALL_CLASSES
from common.kernels.decorator import arguments, kernel
from common.kernels.types import I64Array, uint64
from shard.query.postings.posting_list_scan import ScoredTerm
from shard.query.scoring.bm25f import ScoredLists
from shard.segment.text.bitset_postings import DenseLists, find_dense

EVERY_CLASS: Final = uint64(ALL_CLASSES)
"""Mask of a term that counts in all fields."""


@arguments
class QueryTerms(NamedTuple):
    """One term for each of some words, rarest first.

    Attributes:
        terms: ordinals.
        masks: of the field classes in which each counts.
        weights: of the words; none where only documents are wanted.
    """

    terms: NDArray[np.int64]
    masks: NDArray[np.uint64]
    weights: NDArray[np.float64]


@arguments
class SearchedLists(NamedTuple):
    """All posting lists of a segment, as one query searches and scores them.

    Attributes:
        scored: the lists, with field lengths and tf norms.
        dense: the bitset postings that the longest lists have besides.
        are_all_searched: whether the query searches all fields.
        k1: of the query, in units of 2^-24.
        num_docs: of the segment.
        bits: clean bitset over at least these documents, for a kernel's own use.
    """

    scored: ScoredLists
    dense: DenseLists
    are_all_searched: bool
    k1: float
    num_docs: int
    bits: NDArray[np.uint64]


@arguments
class TermPlan(NamedTuple):
    """The terms of a query, and how each is read in a segment.

    Attributes:
        words: the terms.
        dense_ranks: by term, its rank among the bitset postings; -1: its posting list is read.
        checks_fields: whether there are fields in which some of the terms do not count. Bitsets do
            not tell fields apart, so no term is read by its bitset then.
    """

    words: QueryTerms
    dense_ranks: NDArray[np.int64]
    checks_fields: bool


@kernel
def plan_terms(searched: SearchedLists, words: QueryTerms) -> TermPlan:
    """Decide how to read each term: by its bitset if it has one and all fields count."""
    dense = searched.dense
    are_counted = searched.are_all_searched
    for mask in words.masks:
        are_counted &= mask == EVERY_CLASS
    dense_ranks = np.full(len(words.terms), -1)
    if are_counted:
        for i in range(len(dense_ranks)):
            dense_ranks[i] = find_dense(dense, words.terms[i])
    return TermPlan(words, dense_ranks, not are_counted)


@kernel(inline=True, allocates=False)
def scored_term(plan: TermPlan, i: int) -> ScoredTerm:
    """Return one of the terms, to read its list."""
    return ScoredTerm(plan.words.terms[i], plan.words.masks[i], plan.checks_fields)


@kernel(inline=True, allocates=False)
def last_read(dense_ranks: I64Array) -> int:
    """Return the last term whose posting list is read (it has no bitset), or -1."""
    last = len(dense_ranks) - 1
    while last >= 0 and dense_ranks[last] >= 0:
        last -= 1
    return last


@kernel(inline=True, allocates=False)
def count_dense(dense_ranks: I64Array) -> int:
    """Return how many terms have bitset postings."""
    count = 0
    for dense_rank in dense_ranks:
        count += dense_rank >= 0
    return count
