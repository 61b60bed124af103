"""Statistics of one segment's live documents, which BM25 needs before anything is scored.

    doc_freqs          how many documents have a word, by match kind?
    field_statistics   how many documents have words in a field, and how many words?

The numbers of a segment are stored sums minus what is deleted. They add up over segments and
shards, so what the coordinator derives from them depends on the live documents alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import numpy as np

from common.analysis.field_classes import FieldClasses
from common.distinct_values import without_repeats
from common.kernels.decorator import kernel
from common.kernels.order_checks import expect_ascending
from common.kernels.types import I64Array, U32Array, int64
from common.query_syntax_tree import NUM_MATCH_KINDS, MatchKind, Word
from common.term_weights import CORRECTIONS_KNOWN_MAX
from shard.caches.derived_values import derived
from shard.caches.key_sizes import bytes_of
from shard.caches.query_cache import QUERY_CACHE_BUDGET, QueryCache
from shard.query.phrases.phrase_search import find_phrase, phrase_terms
from shard.query.terms.expansion import Expansion, count_by_kind, expand_word
from shard.segment.doc_sets import NO_DOCS, add_docs, bitset_length, has_bit
from shard.segment.text.field_lengths import DECODED_LENGTHS, FieldLengths
from shard.segment.text.postings import BLOCK_ENTRIES, PostingLists
from shard.segment.text.postings_cursor import (
    Wanted,
    advance_block,
    advance_wanted,
    block_scratch,
    decode_docs,
    decode_wanted,
    open_postings,
)
from shard.segment.text.text_index import TextIndex, text_index

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from shard.segment.segment import Segment
    from shard.segment.snapshot import SegmentView

_KINDS_OF_FORMS: Final = (
    (MatchKind.COMPLETION_STEM, MatchKind.STEM),
    (MatchKind.SYNONYM, MatchKind.SYNONYM),
)
"""The first and the last kind of the forms that are counted together."""


@kernel(allocates=False)
def count_docs_of(lists: PostingLists, term: int, wanted: Wanted, docs: U32Array) -> int:
    """Return the number of wanted documents that have a term.

    Args:
        lists: of a segment.
        term: ordinal.
        wanted: listed documents, with their bitset.
        docs: scratch space for a block.
    """
    total = int64(0)
    previous = int64(-1)
    cursor = open_postings(term)
    while True:
        cursor = advance_block(lists, cursor, wanted.docs)
        if cursor.size == 0:
            return total
        decode_docs(lists, cursor, docs)
        # A document has an entry per field, but counts once.
        for i in range(cursor.size):
            doc = int64(docs[i])
            total += has_bit(wanted.bits, doc) & (doc != previous)
            previous = doc


@kernel
def _count_listed(
    lists: PostingLists, terms: U32Array, listed: U32Array, num_docs: int
) -> I64Array:
    """Return, by term, how many of the listed (ascending) documents have it."""
    expect_ascending(listed)
    bits = np.zeros(bitset_length(num_docs), np.uint64)
    add_docs(bits, listed)
    docs = np.empty(BLOCK_ENTRIES, np.uint32)
    counts = np.empty(len(terms), np.int64)
    wanted = Wanted(bits, listed, True)
    for i_term in range(len(terms)):
        counts[i_term] = count_docs_of(lists, terms[i_term], wanted, docs)
    return counts


@kernel
def count_forms(
    lists: PostingLists,
    terms: U32Array,
    num_before: int,
    num_docs: int,
    listed: U32Array,
    has_listed: bool,
) -> int:
    """Return how many documents have one of the terms but none of the first `num_before`.

    With `has_listed`, only the listed (ascending) documents count.
    """
    expect_ascending(listed)
    bits = np.zeros(bitset_length(num_docs) if has_listed else 0, np.uint64)
    if has_listed:
        add_docs(bits, listed)
    wanted = Wanted(bits, listed, has_listed)
    scratch = block_scratch()
    docs, picked = scratch
    is_claimed = np.zeros(num_docs, np.bool_)
    total = int64(0)
    for i_term in range(len(terms)):
        is_counted_form = i_term >= num_before
        cursor = open_postings(terms[i_term])
        while True:
            cursor = advance_wanted(lists, cursor, wanted)
            if cursor.size == 0:
                break
            num_picked, _ = decode_wanted(lists, cursor, bits, scratch)
            # Better terms come first: they claim a document without counting it.
            for p in range(num_picked):
                doc = docs[picked[p]]
                total += is_counted_form and not is_claimed[doc]
                is_claimed[doc] = True
    return total


def doc_freqs(view: SegmentView, word: Word, classes: FieldClasses) -> NDArray[np.int64]:
    """Return how many live documents have a word, by `MatchKind`.

    STEM counts the documents that have another form, whether the word begins it or not, but not the
    word itself; SYNONYM those that have only a synonym. With EXACT, the three sum to the documents
    with any of them. COMPLETION_STEM is 0. PREFIX and typos are summed over their terms, so a
    document with two of them counts twice: there are thousands, and the sum is stored. Every number
    is additive over segments and shards. Fields and their classes are ignored.

    Cost: one addition a term; the entries of the forms, once per segment; with deletions, the
    blocks that hold deleted documents.
    """
    expansion = expand_word(view.segment, word, classes)
    freqs = count_terms(view, expansion.terms)
    if expansion.only is not None and expansion.only.kind == MatchKind.EXACT:
        counts = np.zeros(NUM_MATCH_KINDS, np.int64)
        counts[MatchKind.EXACT] = freqs[0]
        return counts
    index = text_index(view.segment)
    counts = count_by_kind(expansion, freqs)
    if counts[MatchKind.STEM] or counts[MatchKind.SYNONYM]:  # else no document has another form
        deleted = view.deleted_docs
        for kind, forms, num_better in other_forms(expansion):
            counts[kind] = _count_other_forms(view, index, forms, num_better, deleted)
    for phrase in expansion.phrases:
        terms = phrase_terms(index, phrase, is_prefix=False)
        found = find_phrase(index, terms, view.live_docs)
        counts[word.phrase_kind(phrase)] += len(without_repeats(found.docs))
    return counts


def freqs_of_near_words(
    view: SegmentView,
    word: Word,
    classes: FieldClasses,
    listed: NDArray[np.uint32] | None = None,
) -> dict[tuple[int, str], int]:
    """Return document counts of a word's typos, by kind (TYPO_1, TYPO_2) and term.

    Terms that no document has are left out. Of each kind no more are returned than show that they
    are too many for corrections (`coordinator.read.text.word_corrections`).

    Args:
        view: the segment.
        word: that may be mistyped.
        classes: of the fields, by the configuration.
        listed: the documents that count, ascending; None: all live ones.
    """
    expansion = expand_word(view.segment, word, classes)
    vocabulary = text_index(view.segment).vocabulary
    known: dict[tuple[int, str], int] = {}
    for kind in (MatchKind.TYPO_1, MatchKind.TYPO_2):
        terms = expansion.terms[expansion.kinds == kind]
        freqs = count_terms(view, terms, listed)
        for i in np.flatnonzero(freqs)[: CORRECTIONS_KNOWN_MAX + 1].tolist():
            known[int(kind), vocabulary.term(int(terms[i]))] = int(freqs[i])
    return known


def count_terms(
    view: SegmentView, terms: NDArray[np.uint32], listed: NDArray[np.uint32] | None = None
) -> NDArray[np.int64]:
    """Return, by term, how many documents have it.

    Args:
        view: the segment.
        terms: of its vocabulary.
        listed: the documents that count, ascending; None: all live ones.
    """
    index = text_index(view.segment)
    counts: NDArray[np.int64]
    if listed is not None:
        counts = _count_listed(index.lists, terms, listed, index.num_docs)
        return counts
    counts = index.doc_freqs[terms].astype(np.int64)
    deleted = view.deleted_docs
    if deleted is not None:
        counts -= _count_listed(index.lists, terms, deleted, index.num_docs)
    return counts


def other_forms(expansion: Expansion) -> Iterator[tuple[MatchKind, NDArray[np.uint32], int]]:
    """Yield STEM (with COMPLETION_STEM) and SYNONYM, if present, with the terms up to that kind.

    Yields:
        The kind; the terms up to that kind; how many of them are of a better one.
    """
    for first, kind in _KINDS_OF_FORMS:
        num_better, end = np.searchsorted(expansion.kinds, (first, kind + 1)).tolist()
        if num_better < end and end > 1:
            yield kind, expansion.terms[:end], num_better


@derived
def _form_counts(segment: Segment) -> QueryCache[tuple[int, ...], int]:
    """Return the cached numbers of documents with some forms of a word, deleted ones included."""
    return QueryCache()


def _count_other_forms(
    view: SegmentView,
    index: TextIndex,
    forms: NDArray[np.uint32],
    num_better: int,
    deleted: NDArray[np.uint32] | None,
) -> int:
    """Return how many live documents have one of the forms but none of the better ones."""
    cache = _form_counts(view.segment)
    key = (num_better, *forms.tolist())
    total = cache.get(key)
    if total is None:
        total = int(count_forms(index.lists, forms, num_better, index.num_docs, NO_DOCS, False))
        QUERY_CACHE_BUDGET.keep(cache, key, total, bytes_of(key))
    if deleted is not None:
        total -= int(count_forms(index.lists, forms, num_better, index.num_docs, deleted, True))
    return total


@kernel(allocates=False)
def subtract_lengths(
    field_lengths: FieldLengths,
    deleted: U32Array,
    decoded: I64Array,
    num_docs: I64Array,
    totals: I64Array,
) -> None:
    """Subtract deleted documents from the rows' document counts and sums of lengths."""
    expect_ascending(deleted)
    _, length_starts, lengths, length_doc_starts, length_docs = field_lengths
    for row in range(len(num_docs)):
        start = length_starts[row]
        sparse = length_doc_starts[row]
        size = length_starts[row + 1] - start
        rank = int64(0)
        for doc_32 in deleted:
            doc = int64(doc_32)
            code = int64(0)
            if sparse < 0:
                code = int64(lengths[start + doc])
            else:
                # Sparse row: advance through its documents, in step with the deleted ones.
                while rank < size and int64(length_docs[sparse + rank]) < doc:
                    rank += 1
                if rank == size:
                    break
                if int64(length_docs[sparse + rank]) == doc:
                    code = int64(lengths[start + rank])
            if code > 0:
                num_docs[row] -= 1
                totals[row] -= decoded[code]


def field_statistics(view: SegmentView) -> dict[int, tuple[int, int]]:
    """Return, by field number: live documents with words in the field, sum of their lengths.

    Cost: two numbers a field; with deletions, one byte a field and deleted document.
    """
    index = text_index(view.segment)
    num_docs, totals = index.field_num_docs, index.field_totals
    deleted = view.deleted_docs
    if deleted is not None:
        num_docs, totals = num_docs.copy(), totals.copy()
        subtract_lengths(index.field_lengths, deleted, DECODED_LENGTHS, num_docs, totals)
    return {
        number: (count, total)
        for number, count, total in zip(
            index.length_fields.tolist(), num_docs.tolist(), totals.tolist(), strict=True
        )
        if count > 0
    }
