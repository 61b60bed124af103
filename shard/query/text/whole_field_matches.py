"""Finds documents that have a field equal to the whole query.

    git            name "git"                     yes
                   name "git annex"               no: two words
    green mile     title "Green Mile"             yes
                   title "The Green Mile"         yes: an article may come first
                   title "Green Mile, The"        no: three words

Such a document gets a bonus (`text_search.py`): a query that is the name of something
asks for it, and saturated frequencies of a word in long texts would otherwise hide it. The
coordinator asks how many documents there are, and sets the bonus only where they are few.

Candidates are the documents that have all words, and some field of as many words: a bitset. The
documents found are listed once per segment and cached; of many, just the number.

Cost: that of finding the documents with all words; the positions of the few documents that have
such a field.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from common.deadline import check_call
from common.distinct_values import without_repeats
from common.kernels.array_growth import grown
from common.kernels.decorator import kernel
from common.kernels.order_checks import expect_ascending
from common.kernels.types import U8, U16Array, U32Array, U64Array, int64, uint64
from shard.caches.derived_values import derived, derived_by_key, is_made
from shard.caches.key_sizes import bytes_of
from shard.caches.query_cache import QUERY_CACHE_BUDGET, QueryCache
from shard.query.phrases.phrase_search import PhraseTerms, find_phrase
from shard.query.postings.term_lists import docs_with_all_terms
from shard.query.scoring.bm25f import ScoredLists, length_code
from shard.segment.doc_sets import bitset_length, has_bit
from shard.segment.text.field_lengths import NUM_EXACT_LENGTHS, FieldLengths
from shard.segment.text.postings import Entries, PostingLists, decode_entry
from shard.segment.text.postings_cursor import Wanted, advance_entry, open_entries
from shard.segment.text.text_index import text_index

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from shard.query.scoring.bm25f import FieldTfNorms
    from shard.segment.segment import Segment
    from shard.segment.snapshot import SegmentView

_LISTED_MAX: Final = 4_096
"""Up to this many entries of a text are cached; of more, just the number of documents."""

_MARKED_FAST_MAX: Final = 200_000
"""In segments of up to this many documents, those with a field of some length are found in 2 ms."""

_ARTICLES: Final = ("a", "an", "the")
"""A field may begin with one of them before the words: people leave them out."""

_ARRAYS_BYTES: Final = 700
"""Bytes of the headers and spare capacity of two arrays."""


@kernel
def _mark_length(lengths: FieldLengths, code: U8, num_docs: int) -> U64Array:
    """Return the bitset of the documents with a field whose length has a code."""
    _, length_starts, codes, length_doc_starts, length_docs = lengths
    bits = np.zeros(bitset_length(num_docs), np.uint64)
    for row in range(len(length_doc_starts)):
        start = length_starts[row]
        sparse = length_doc_starts[row]
        for i in range(length_starts[row + 1] - start):
            doc = i if sparse < 0 else int64(length_docs[sparse + i])
            bits[doc >> 6] |= uint64(codes[start + i] == code) << uint64(doc & 63)
    return bits


@derived_by_key
def _docs_of_length(segment: Segment, num_words: int) -> NDArray[np.uint64] | None:
    """Return the bitset of the documents that have a field of this many words; None if none has.

    A bit a document for each number of words that queries have, or one more: few numbers.
    """
    assert num_words < NUM_EXACT_LENGTHS, "a field of more words has no exact length"
    index = text_index(segment)
    bits: NDArray[np.uint64] = _mark_length(index.field_lengths, num_words, segment.num_docs)
    return bits if bits.any() else None


@kernel
def _entries_of(
    lists: PostingLists, lengths: FieldLengths, term: int, code: U8, listed: U32Array
) -> tuple[U32Array, U16Array]:
    """Return those entries of a term, in listed documents, whose field's length has a code.

    Args:
        lists: of the segment.
        lengths: of its fields.
        term: ordinal.
        code: of a length.
        listed: ascending documents, each of which has the term.
    """
    expect_ascending(listed)
    found_docs = np.empty(len(listed) + 1, np.uint32)
    found_fields = np.empty(len(listed) + 1, np.uint16)
    num_found = 0
    cursor = open_entries(term)
    while True:
        cursor = advance_entry(lists, cursor, listed)
        if cursor.size == 0:
            break
        field, _ = decode_entry(lists.postings, cursor.packing, cursor.entry)
        row = uint64(lengths.field_rows[field])
        if length_code(lengths, row, int64(cursor.doc)) != code:
            continue
        if num_found == len(found_docs):  # a document has an entry for each field
            found_docs = grown(found_docs, 2 * num_found)
            found_fields = grown(found_fields, 2 * num_found)
        found_docs[num_found] = cursor.doc
        found_fields[num_found] = field
        num_found += 1
    return found_docs[:num_found], found_fields[:num_found]


@kernel
def _of_length(entries: Entries, lengths: FieldLengths, code: U8) -> tuple[U32Array, U16Array]:
    """Return documents and fields of those entries whose field's length has a code."""
    docs, fields, _ = entries
    found_docs = np.empty(len(docs), np.uint32)
    found_fields = np.empty(len(docs), np.uint16)
    num_found = 0
    for i in range(len(docs)):
        row = uint64(lengths.field_rows[fields[i]])
        if length_code(lengths, row, int64(docs[i])) == code:
            found_docs[num_found] = docs[i]
            found_fields[num_found] = fields[i]
            num_found += 1
    return found_docs[:num_found], found_fields[:num_found]


@kernel
def _searched(scored: ScoredLists, docs: U32Array, fields: U16Array, allowed: U64Array) -> U32Array:
    """Return the distinct documents, of ascending entries, in searched fields and a bitset.

    The bitset is of all documents if it is empty.
    """
    found = np.empty(len(docs), np.uint32)
    num_found = 0
    previous = int64(-1)
    for i in range(len(docs)):
        doc = int64(docs[i])
        row = int64(scored.lengths.field_rows[fields[i]])
        if doc == previous or scored.tf_norms[row, 1] == 0.0:
            continue
        if len(allowed) and not has_bit(allowed, doc):
            continue
        found[num_found] = doc
        num_found += 1
        previous = doc
    return found[:num_found]


@derived
def _cached_entries(
    segment: Segment,
) -> QueryCache[tuple[str, ...], tuple[NDArray[np.uint32], NDArray[np.uint16]] | int]:
    """Return the results of `_entries`, by words; of large ones only the number of documents."""
    return QueryCache()


def _entries(
    segment: Segment, words: tuple[str, ...]
) -> tuple[NDArray[np.uint32], NDArray[np.uint16]]:
    """Return documents (ascending) and fields in which a field consists of the words, in order.

    An article may come before them.
    """
    cached = _cached_entries(segment)
    found = cached.get(words)
    if found is None or isinstance(found, int):
        check_call()
        positions = [(word,) for word in words]
        found = _merged(_find(segment, positions), _find(segment, [_ARTICLES, *positions]))
        kept: tuple[NDArray[np.uint32], NDArray[np.uint16]] | int = found
        num_bytes = bytes_of(words) + _ARRAYS_BYTES + found[0].nbytes + found[1].nbytes
        if len(found[0]) > _LISTED_MAX:
            kept, num_bytes = len(without_repeats(found[0])), bytes_of(words)
        QUERY_CACHE_BUDGET.keep(cached, words, kept, num_bytes)
    return found


def _merged(
    *parts: tuple[NDArray[np.uint32], NDArray[np.uint16]],
) -> tuple[NDArray[np.uint32], NDArray[np.uint16]]:
    """Return the entries of all parts, in the order of their documents."""
    filled = [part for part in parts if len(part[0])]
    if len(filled) <= 1:
        return filled[0] if filled else parts[0]
    docs, fields = (np.concatenate(arrays) for arrays in zip(*filled, strict=True))
    order = np.argsort(docs, kind="stable")
    return docs[order], fields[order]


def _find(
    segment: Segment, positions: Sequence[tuple[str, ...]]
) -> tuple[NDArray[np.uint32], NDArray[np.uint16]]:
    """Return documents and fields in which a field consists of a word at each position.

    Args:
        segment: where to look.
        positions: the words that may stand there; one only at the last position.
    """
    index = text_index(segment)
    nothing = np.zeros(0, np.uint32), np.zeros(0, np.uint16)
    length = len(positions)
    of_length = _docs_of_length(segment, length)
    if of_length is None:
        return nothing
    terms: list[NDArray[np.uint32]] = []
    certain: list[int] = []
    for position in reversed(positions):  # articles last: most searches end at an unknown word
        known = [term for term in map(index.vocabulary.find, position) if term is not None]
        if not known:
            return nothing
        terms.append(np.array(known, np.uint32))
        if len(position) == 1:
            certain += known
    terms.reverse()
    docs = docs_with_all_terms(segment, certain, Wanted.of(of_length))
    if len(docs) == 0:
        return nothing
    found: tuple[NDArray[np.uint32], NDArray[np.uint16]]
    if length == 1:
        found = _entries_of(index.lists, index.field_lengths, certain[0], length, docs)
    else:
        found = _of_length(
            find_phrase(index, PhraseTerms.of(terms), docs), index.field_lengths, length
        )
    return found


def is_slow_to_find(segment: Segment, words: tuple[str, ...]) -> bool:
    """Return whether the lengths of all fields must be read first: that takes milliseconds."""
    return segment.num_docs > _MARKED_FAST_MAX and not all(
        is_made(_docs_of_length, segment, length) for length in (len(words), len(words) + 1)
    )


def whole_freq(view: SegmentView, words: tuple[str, ...]) -> int:
    """Return how many live documents of a segment have a field that consists of the words."""
    deleted = view.deleted_docs
    known = _cached_entries(view.segment).get(words)
    if isinstance(known, int) and deleted is None:
        return known
    docs = _entries(view.segment, words)[0]
    if len(docs) == 0:
        return 0
    docs = without_repeats(docs)
    return len(docs) if deleted is None else int(np.isin(docs, deleted, invert=True).sum())


def whole_freq_among(segment: Segment, words: tuple[str, ...], docs: NDArray[np.uint32]) -> int:
    """Return how many of some documents (ascending) have a field that consists of the words."""
    entries = without_repeats(_entries(segment, words)[0])
    return int(np.isin(entries, docs, assume_unique=True).sum())


def whole_docs(
    segment: Segment, words: tuple[str, ...], fields: FieldTfNorms, allowed: NDArray[np.uint64]
) -> NDArray[np.uint32]:
    """Return the allowed documents with a searched field that consists of the words, ascending.

    Args:
        segment: where to look.
        words: of the query.
        fields: that it searches.
        allowed: bitset of documents; empty: all.
    """
    docs: NDArray[np.uint32] = _searched(fields.lists, *_entries(segment, words), allowed)
    return docs
