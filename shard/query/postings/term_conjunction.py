"""Intersects the posting lists of a query's terms, and scores the documents that have all of them.

Most queries are plain words, and most of their cost is reading posting lists. Lists are intersected
rarest first, each one read only for the documents of those before (`posting_list_scan.py`):

    green (19,000)   documents only ─▶ bits
    mile  (52,000)   documents only, those with a bit ─▶ field, frequency, score of these
    green            blocks that hold one of them ─▶ field, frequency, score of these

If a list has a bitset (`shard/segment/text/bitset_postings.py`), the bitset answers which documents
have the term; only the entries of documents with all terms are read:

    green (19,000)   documents only, those with a bit of mile ─▶ field, frequency, score of these
    mile             field, frequency, score of these

Costs: 1.5 ns an entry whose document is decoded, 6 ns a document that is scored; 8 ns by a bitset.
`shard/query/pruning/block_max_conjunction.py` avoids scoring documents that cannot reach the top k.
"""

from __future__ import annotations

import numpy as np

from common.kernels.decorator import kernel
from common.kernels.types import I64Array, U32Array, int64
from shard.query.postings.posting_list_scan import Matched, scan, scan_scratch
from shard.query.postings.term_plan import (
    EVERY_CLASS,
    QueryTerms,
    SearchedLists,
    TermPlan,
    count_dense,
    last_read,
    plan_terms,
    scored_term,
)
from shard.query.postings.term_scores import add_bm25_tf, add_dense, add_read
from shard.segment.doc_sets import add_docs, count_docs, list_all_docs, pick_docs, reset_bitset
from shard.segment.text.bitset_postings import bitset_bounds, find_members
from shard.segment.text.postings_cursor import Wanted


@kernel
def _test_in_bitsets(searched: SearchedLists, plan: TermPlan, docs: U32Array) -> U32Array:
    """Return the documents that all terms with bitset postings have: few, so each is tested."""
    dense = searched.dense
    kept = docs.copy()
    count = len(kept)
    for dense_rank in plan.dense_ranks:
        if dense_rank >= 0:
            start, end = bitset_bounds(dense_rank, searched.num_docs)
            count = pick_docs(kept[:count], dense.dense_bits[start:end], kept)
    return kept[:count]


@kernel
def _intersect(
    searched: SearchedLists, plan: TermPlan, wanted: Wanted, is_scored: bool
) -> tuple[U32Array, I64Array]:
    """Return the documents with all terms; with `is_scored`, also the tfs of the last list read.

    Bitset postings are not read as lists: they are intersected first, and the first list is read
    only for the documents that all of them have.
    """
    scored, bits = searched.scored, searched.bits
    dense_ranks, terms = plan.dense_ranks, plan.words.terms
    last = last_read(dense_ranks)
    tfs = np.empty(0, np.int64)
    # What is wanted of the next list: the documents listed so far, or else those of a bitset.
    is_listed = wanted.is_listed
    docs = wanted.docs
    allowed = wanted.bits
    if count_dense(dense_ranks) > 0:
        if is_listed:
            docs = _test_in_bitsets(searched, plan, docs)
        else:
            allowed = find_members(searched.dense, dense_ranks, allowed, searched.num_docs)
            if last < 0:  # no list to read: this is the result
                return list_all_docs(allowed, count_docs(allowed)), tfs
    scratch = scan_scratch()
    for i in range(last + 1):
        if dense_ranks[i] >= 0:
            continue
        # Each list narrows the next one. The last, by then read for few documents, is scored in
        # passing; the others are read again once all documents are known.
        size = len(docs) if is_listed else int64(scored.lists.entry_counts[terms[i]])
        more = np.empty(size + 1, np.uint32)
        is_scored_now = is_scored and i == last
        if is_scored_now:
            tfs = np.empty(size, np.int64)
        if is_listed:
            add_docs(bits, docs)
        num_more = scan(
            scored,
            scored_term(plan, i),
            Wanted(bits if is_listed else allowed, docs, is_listed),
            is_scored_now,
            Matched(more, tfs),
            scratch,
        )
        if is_listed:
            reset_bitset(bits, docs)
        docs = more[:num_more]
        is_listed = True
        if num_more == 0:
            break
    return docs, tfs


@kernel
def match_terms(
    searched: SearchedLists, plan: TermPlan, wanted: Wanted, is_scored: bool
) -> tuple[U32Array, I64Array]:
    """Return the documents with all terms, and what the terms without bitset postings score."""
    docs, tfs = _intersect(searched, plan, wanted, is_scored)
    scores = np.zeros(len(docs) if is_scored else 0, np.int64)
    if len(scores) == 0:
        return docs, scores
    dense_ranks = plan.dense_ranks
    last = last_read(dense_ranks)
    if last >= 0:
        add_bm25_tf(tfs, plan.words.weights[last], searched.k1, scores)
    # All documents are known now: read the earlier lists again for them, this time for scores.
    for i in range(last):
        if dense_ranks[i] < 0:
            add_read(searched, plan, i, docs, scores)
    return docs, scores


@kernel
def match_all(
    searched: SearchedLists, words: QueryTerms, wanted: Wanted, is_scored: bool
) -> tuple[U32Array, I64Array]:
    """Kernel of `TermLists.match`."""
    plan = plan_terms(searched, words)
    # A single list that is scored in full is read sequentially: faster than by its bitset.
    if len(words.terms) == 1 and is_scored and len(wanted.bits) == 0 and not wanted.is_listed:
        plan.dense_ranks[0] = -1
    docs, scores = match_terms(searched, plan, wanted, is_scored)
    if is_scored:
        add_dense(searched, plan, docs, scores)
    return docs, scores


@kernel
def docs_with_terms(searched: SearchedLists, terms: U32Array, wanted: Wanted) -> U32Array:
    """Return the documents that have all of some terms; these need not be in order, nor differ.

    The terms count in all fields.
    """
    entry_counts = searched.scored.lists.entry_counts
    rarest_first = np.empty(len(terms), np.int64)
    count = 0
    for i in range(len(terms)):
        term = int64(terms[i])
        is_new = True
        for other in rarest_first[:count]:
            is_new &= other != term
        if not is_new:
            continue
        at = count
        while at > 0 and entry_counts[rarest_first[at - 1]] > entry_counts[term]:
            rarest_first[at] = rarest_first[at - 1]
            at -= 1
        rarest_first[at] = term
        count += 1
    words = QueryTerms(rarest_first[:count], np.full(count, EVERY_CLASS), np.ones(count))
    docs, _ = match_terms(searched, plan_terms(searched, words), wanted, False)
    return docs


@kernel
def count_all(
    searched: SearchedLists, words: QueryTerms, ends: I64Array, wanted: Wanted
) -> I64Array:
    """Kernel of `count_with_all_terms`; the terms of set i end at ``ends[i]``."""
    terms, masks, weights = words
    counts = np.empty(len(ends), np.int64)
    start = int64(0)
    for i in range(len(ends)):
        end = ends[i]
        of_set = QueryTerms(terms[start:end], masks[start:end], weights[start:end])
        docs, _ = _intersect(searched, plan_terms(searched, of_set), wanted, False)
        counts[i] = len(docs)
        start = end
    return counts
