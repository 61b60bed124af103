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

How each term is read is decided once, and is a value: `TermPlan`.

Costs: 1.5 ns an entry whose document is decoded, 6 ns a document that is scored; 8 ns by a bitset.
`shard/query/pruning/block_max_conjunction.py` avoids scoring documents that cannot reach the top k.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from common.analysis.field_classes import ALL_CLASSES
from common.kernels.decorator import arguments, kernel
from common.kernels.types import I64Array, U32Array, U64Array, int64, uint64
from shard.caches.derived_values import derived
from shard.query.postings.posting_list_scan import (
    EntryRanges,
    Matched,
    ScoredTerm,
    mark_counted,
    scan,
    scan_scratch,
    sum_entries,
)
from shard.query.scoring.bm25f import FieldTfNorms, ScoredLists, bm25_tf
from shard.query.scoring.scratch_arrays import SCRATCH
from shard.segment.doc_sets import (
    add_docs,
    count_docs,
    list_all_docs,
    pick_docs,
    pick_positions,
    reset_bitset,
)
from shard.segment.text.bitset_postings import (
    DenseLists,
    add_members,
    bitset_bounds,
    find_dense,
    find_entries,
    find_members,
)
from shard.segment.text.postings_cursor import Wanted
from shard.segment.text.text_index import text_index

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from shard.segment.segment import Segment

_PIECE_DOCS: Final = 512
"""Documents that `add_dense` scores together."""
_LOCATED_COST: Final = 32
"""Locating an entry by a bitset and decoding it takes as long as reading this many in order."""

_ALL_CLASSES: Final = uint64(ALL_CLASSES)
_NO_WEIGHTS: Final = np.zeros(0)


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
        are_counted &= mask == _ALL_CLASSES
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
def _last_read(dense_ranks: I64Array) -> int:
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


@kernel(allocates=False)
def _add_bm25_tf(tfs: I64Array, weight: float, k1: float, scores: I64Array) -> None:
    """Add the scores of weighted tfs, in a separate loop so that the compiler vectorizes it."""
    for i in range(len(scores)):
        scores[i] += bm25_tf(tfs[i], weight, k1)


@kernel
def add_dense(searched: SearchedLists, plan: TermPlan, docs: U32Array, scores: I64Array) -> None:
    """Add to documents what the terms with bitset postings score in them.

    A few hundred documents at a time, so that their scratch data stays in the first-level cache.
    """
    scored, dense = searched.scored, searched.dense
    num_docs, k1 = searched.num_docs, searched.k1
    dense_ranks, terms, weights = plan.dense_ranks, plan.words.terms, plan.words.weights
    if count_dense(dense_ranks) == 0:
        return
    firsts = np.empty(_PIECE_DOCS, np.int64)
    counts = np.empty(_PIECE_DOCS, np.uint16)
    tfs = np.empty(_PIECE_DOCS, np.int64)
    entries = scan_scratch().entries
    for start in range(0, len(docs), _PIECE_DOCS):
        ranges = EntryRanges(docs[start : start + _PIECE_DOCS], firsts, counts)
        for i in range(len(dense_ranks)):
            if dense_ranks[i] >= 0:
                find_entries(dense, dense_ranks[i], num_docs, ranges.docs, firsts, counts)
                sum_entries(scored, terms[i], ranges, entries, tfs)
                _add_bm25_tf(tfs, weights[i], k1, scores[start : start + _PIECE_DOCS])


@kernel
def _read_for(
    searched: SearchedLists, plan: TermPlan, i: int, docs: U32Array
) -> tuple[U32Array, I64Array]:
    """Read the list of one of the terms; return which of the documents have it, and their tfs."""
    bits = searched.bits
    matched = Matched(np.empty(len(docs) + 1, np.uint32), np.empty(len(docs), np.int64))
    add_docs(bits, docs)
    wanted = Wanted(bits, docs, True)
    count = scan(searched.scored, scored_term(plan, i), wanted, True, matched, scan_scratch())
    reset_bitset(bits, docs)
    return matched.docs[:count], matched.tfs[:count]


@kernel
def add_read(
    searched: SearchedLists, plan: TermPlan, i: int, docs: U32Array, scores: I64Array
) -> None:
    """Add to documents what one of the terms, which all of them have, scores in them.

    Its posting list is read.
    """
    _, tfs = _read_for(searched, plan, i, docs)
    _add_bm25_tf(tfs, plan.words.weights[i], searched.k1, scores)


@kernel
def _add_dense_where_present(
    searched: SearchedLists, plan: TermPlan, i: int, docs: U32Array, scores: I64Array
) -> None:
    """Add to those of the documents that have a term what it scores in them, by its bitset."""
    dense, num_docs = searched.dense, searched.num_docs
    dense_rank, weight = plan.dense_ranks[i], plan.words.weights[i]
    start, end = bitset_bounds(dense_rank, num_docs)
    members = dense.dense_bits[start:end]
    positions = np.empty(_PIECE_DOCS + 1, np.int64)
    having = np.empty(_PIECE_DOCS, np.uint32)
    firsts = np.empty(_PIECE_DOCS, np.int64)
    counts = np.empty(_PIECE_DOCS, np.uint16)
    tfs = np.empty(_PIECE_DOCS, np.int64)
    entries = scan_scratch().entries
    for first in range(0, len(docs), _PIECE_DOCS):
        piece = docs[first : first + _PIECE_DOCS]
        count = pick_positions(piece, len(piece), members, positions)
        for j in range(count):
            having[j] = piece[positions[j]]
        ranges = EntryRanges(having[:count], firsts, counts)
        find_entries(dense, dense_rank, num_docs, ranges.docs, firsts, counts)
        sum_entries(searched.scored, plan.words.terms[i], ranges, entries, tfs)
        for j in range(count):
            scores[first + positions[j]] += bm25_tf(tfs[j], weight, searched.k1)


@kernel
def _add_read_where_present(
    searched: SearchedLists, plan: TermPlan, i: int, docs: U32Array, scores: I64Array
) -> None:
    """Add to those of the documents that have a term what it scores in them, by its list."""
    having, tfs = _read_for(searched, plan, i, docs)
    at = 0
    for j in range(len(having)):
        while docs[at] < having[j]:
            at += 1
        scores[at] += bm25_tf(tfs[j], plan.words.weights[i], searched.k1)


@kernel
def _score_any(searched: SearchedLists, words: QueryTerms, docs: U32Array) -> I64Array:
    """Kernel of `TermLists.score_any`."""
    plan = plan_terms(searched, words)
    scores = np.zeros(len(docs), np.int64)
    for i in range(len(plan.dense_ranks)):
        if plan.dense_ranks[i] >= 0:
            _add_dense_where_present(searched, plan, i, docs, scores)
        else:
            _add_read_where_present(searched, plan, i, docs, scores)
    return scores


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
    last = _last_read(dense_ranks)
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
    last = _last_read(dense_ranks)
    if last >= 0:
        _add_bm25_tf(tfs, plan.words.weights[last], searched.k1, scores)
    # All documents are known now: read the earlier lists again for them, this time for scores.
    for i in range(last):
        if dense_ranks[i] < 0:
            add_read(searched, plan, i, docs, scores)
    return docs, scores


@kernel
def _match_all(
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
    words = QueryTerms(rarest_first[:count], np.full(count, _ALL_CLASSES), np.ones(count))
    docs, _ = match_terms(searched, plan_terms(searched, words), wanted, False)
    return docs


@kernel
def _count_all(
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
def _mark_terms(
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


class TermLists:
    """The posting lists of one segment, as one query scores them.

    Args:
        segment: whose lists.
        fields: tf norms of the query's fields.
        k1: in units of 2^-24.
        bits: clean bitset over the segment's documents; used by one call at a time.
    """

    __slots__ = ("fields", "index", "k1", "searched", "segment")

    def __init__(
        self, segment: Segment, fields: FieldTfNorms, k1: float, bits: NDArray[np.uint64]
    ) -> None:
        self.segment = segment
        self.index = text_index(segment)
        self.fields = fields
        self.k1 = k1
        index = self.index
        self.searched = SearchedLists(
            fields.lists, index.dense_lists, fields.are_all_searched, k1, index.num_docs, bits
        )
        """What kernels take."""

    def match(
        self,
        words: QueryTerms,
        wanted: Wanted,
        *,
        is_scored: bool = True,
    ) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        """Return the wanted documents that have all terms.

        Args:
            words: the terms.
            wanted: the documents to look at; a list needs no bitset.
            is_scored: whether scores are wanted.

        Returns:
            Documents, ascending; scores in units of 2^-32 (empty if not wanted).
        """
        matched: tuple[NDArray[np.uint32], NDArray[np.int64]] = _match_all(
            self.searched, words, wanted, is_scored
        )
        return matched

    def score_any(self, words: QueryTerms, docs: NDArray[np.uint32]) -> NDArray[np.int64]:
        """Return what documents, ascending, score for those of the terms that they have."""
        scores: NDArray[np.int64] = _score_any(self.searched, words, docs)
        return scores

    def docs_with_all(
        self,
        terms: Iterable[int],
        wanted: Wanted,
    ) -> NDArray[np.uint32]:
        """Return the wanted documents that have all of some terms; as `match`, without scores.

        The terms count in all fields, and need not be in order.
        """
        docs: NDArray[np.uint32] = docs_with_terms(
            self.searched, np.array(list(terms), np.uint32), wanted
        )
        return docs

    def mark(
        self,
        terms: NDArray[np.uint32],
        masks: NDArray[np.uint64],
        wanted: Wanted,
        marked: NDArray[np.uint64],
    ) -> None:
        """Set the bits of the documents that have at least one of the terms.

        Args:
            terms: ordinals.
            masks: of the field classes in which each counts.
            wanted: the documents to look at; also a list needs its bitset.
            marked: the bitset.
        """
        assert len(wanted.bits) or not wanted.is_listed, "a list without its bitset"
        words = QueryTerms(terms.astype(np.int64), masks, _NO_WEIGHTS)
        _mark_terms(self.searched, words, wanted, marked)

    def counts_everywhere(self, mask: int) -> bool:
        """Return whether all entries of a term count, in whatever field: a bitset tells no fields.

        Args:
            mask: of the field classes in which the term counts.
        """
        return self.fields.are_all_searched and mask == ALL_CLASSES

    def count(self, term: int, mask: int) -> int | None:
        """Return how many documents have a term, deleted ones included; None: not stored."""
        if not self.counts_everywhere(mask):
            return None
        return int(self.index.doc_freqs[term])


@derived
def _unscored_fields(segment: Segment) -> FieldTfNorms:
    """Return the tf norms of no field: for lists that are read for their documents."""
    index = text_index(segment)
    nothing = np.zeros((0, 256)), np.zeros(0, np.uint64)
    lists = ScoredLists(index.lists, index.field_lengths, *nothing)
    return FieldTfNorms(lists, (), are_all_searched=True)


def docs_with_all_terms(
    segment: Segment,
    terms: Iterable[int],
    wanted: Wanted,
) -> NDArray[np.uint32]:
    """Return the wanted documents, ascending, that have all of some terms in any field.

    Args:
        segment: where to look.
        terms: ordinals, at least one.
        wanted: the documents to look at; a list needs no bitset.
    """
    index = text_index(segment)
    SCRATCH.reserve(index.num_docs)
    lists = TermLists(segment, _unscored_fields(segment), 0.0, SCRATCH.members)
    return lists.docs_with_all(terms, wanted)


def count_with_all_terms(
    segment: Segment,
    sets: Sequence[Sequence[int]],
    wanted: Wanted,
) -> NDArray[np.int64]:
    """Return, by set of terms, how many wanted documents have all of them in any field.

    Args:
        segment: where to look.
        sets: ordinals, at least one each.
        wanted: the documents to look at; a list needs no bitset.
    """
    index = text_index(segment)
    SCRATCH.reserve(index.num_docs)
    lists = TermLists(segment, _unscored_fields(segment), 0.0, SCRATCH.members)
    count = index.lists.entry_counts.item
    rarest_first = [sorted(set(terms), key=count) for terms in sets]
    terms = np.array(list(itertools.chain.from_iterable(rarest_first)), np.int64)
    words = QueryTerms(terms, np.full(len(terms), ALL_CLASSES, np.uint64), np.ones(len(terms)))
    counts: NDArray[np.int64] = _count_all(
        lists.searched,
        words,
        np.cumsum([len(one) for one in rarest_first]),
        wanted,
    )
    return counts
