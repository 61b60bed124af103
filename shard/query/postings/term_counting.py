"""Documents that have several of a query's terms, found by counting.

    green   1 3 7          counts  1: 2   2: 1   3: 3   7: 1
    mile    1 2 3     ─▶                                        ─▶   at least two: 1 3
    path    3

Cost: 4 ns an entry. Many short lists are counted in a fraction of the time that it takes to make
and add a bitset for each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from common.kernels.decorator import kernel
from common.kernels.types import U16Array, U64Array, int64, uint16
from shard.query.postings.posting_list_scan import Matched, scan, scan_scratch
from shard.query.postings.term_lists import TermLists
from shard.query.postings.term_plan import QueryTerms, SearchedLists, plan_terms, scored_term
from shard.query.scoring.scratch_arrays import SCRATCH
from shard.segment.doc_sets import bitset_length, set_bit
from shard.segment.text.postings_cursor import Wanted

if TYPE_CHECKING:
    from numpy.typing import NDArray


@kernel
def _mark_some(
    searched: SearchedLists, words: QueryTerms, wanted: Wanted, required: int, counts: U16Array
) -> U64Array:
    """Kernel of `mark_some`; the counts are zeros before and after."""
    plan = plan_terms(searched, words)
    entry_counts = searched.scored.lists.entry_counts
    room = 1
    for term in words.terms:
        room += int64(entry_counts[term])
    docs = np.empty(room, np.uint32)
    scratch = scan_scratch()
    num_docs = 0
    for i in range(len(words.terms)):
        matched = Matched(docs[num_docs:], np.empty(0, np.int64))
        found = scan(searched.scored, scored_term(plan, i), wanted, False, matched, scratch)
        for doc in docs[num_docs : num_docs + found]:
            counts[doc] += uint16(1)
        num_docs += found
    marked = np.zeros(bitset_length(searched.num_docs), np.uint64)
    for doc in docs[:num_docs]:
        if counts[doc] >= required:
            set_bit(marked, doc)
    for doc in docs[:num_docs]:
        counts[doc] = 0
    return marked


def mark_some(
    lists: TermLists, words: QueryTerms, allowed: NDArray[np.uint64], required: int
) -> NDArray[np.uint64]:
    """Return the bitset of the documents that have enough of some terms.

    Args:
        lists: of a segment, for which `SCRATCH` has room.
        words: the terms, each once.
        allowed: bitset of the documents to look at; empty: all.
        required: how many of the terms, at least 1.
    """
    wanted = Wanted.of(allowed)
    marked: NDArray[np.uint64]
    marked = _mark_some(lists.searched, words, wanted, required, SCRATCH.counts)
    return marked
