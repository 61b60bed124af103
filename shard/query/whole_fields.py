"""Which documents have a field that is the query, no more and no less?

    git            name "git"                     yes
                   name "git annex"               no: two words
    green mile     title "The Green Mile"         no: three words
                   title "Green Mile"             yes

Such a document gets a bonus (`shard/query/text_search.py`): whoever types the name of something
wants it, and saturated frequencies of a word in long texts would otherwise hide it. The coordinator
asks how many documents there are, and sets the bonus only where they are few.

Candidates are the entries of the rarest word in fields of as many words. The documents found are
listed once per segment and cached; of many, just the number.

Cost: the entries of the rarest word and a byte for each; the other words and the positions of the
few documents that have such a field.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from common.deadline import check_call
from common.kernels.decorator import kernel
from common.kernels.types import I64Array, U16Array, U32Array, U64Array, int64, uint64
from shard.caches.derived import derived
from shard.caches.query_cache import QUERY_CACHE_BUDGET, QueryCache
from shard.query.bm25f import ScoredLists, length_code
from shard.query.phrase import find_phrase
from shard.query.spacings import docs_with
from shard.query.statistics import deleted_docs
from shard.segment.field_lengths import DECODED_LENGTHS, FieldLengths
from shard.segment.postings import (
    Entries,
    PostingLists,
    count_blocks,
    decode_block,
    locate_block,
    new_block,
)
from shard.segment.text_index import text_index

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from shard.query.bm25f import FieldTfNorms
    from shard.segment.segment import Segment
    from shard.segment.snapshot import SegmentView

_LISTED_MAX: Final = 4_096
"""Up to this many entries of a text are cached; of more, just the number of documents."""

_ARRAYS_BYTES: Final = 700
"""The headers of two arrays, and what they have in reserve."""


@kernel
def _entries_of(
    lists: PostingLists, lengths: FieldLengths, term: int, decoded: I64Array, num_words: int
) -> tuple[U32Array, U16Array]:
    """Return documents and fields of the entries of a term in fields of so many words."""
    entries = new_block()
    docs, fields, _ = entries
    found_docs = np.empty(64, np.uint32)
    found_fields = np.empty(64, np.uint16)
    num_found = 0
    for block in range(count_blocks(lists, term)):
        at, count = locate_block(lists, term, block)
        decode_block(lists.postings, at, count, entries)
        for i in range(count):
            row = uint64(lengths.field_rows[fields[i]])
            if decoded[length_code(lengths, row, int64(docs[i]))] != num_words:
                continue
            if num_found == len(found_docs):
                more_docs = np.empty(2 * num_found, np.uint32)
                more_docs[:num_found] = found_docs
                found_docs = more_docs
                more_fields = np.empty(2 * num_found, np.uint16)
                more_fields[:num_found] = found_fields
                found_fields = more_fields
            found_docs[num_found] = docs[i]
            found_fields[num_found] = fields[i]
            num_found += 1
    return found_docs[:num_found], found_fields[:num_found]


@kernel
def _of_length(
    entries: Entries, lengths: FieldLengths, decoded: I64Array, num_words: int
) -> tuple[U32Array, U16Array]:
    """Return documents and fields of those entries that are in fields of so many words."""
    docs, fields, _ = entries
    found_docs = np.empty(len(docs), np.uint32)
    found_fields = np.empty(len(docs), np.uint16)
    num_found = 0
    for i in range(len(docs)):
        row = uint64(lengths.field_rows[fields[i]])
        if decoded[length_code(lengths, row, int64(docs[i]))] == num_words:
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
        if len(allowed) and not allowed[doc >> 6] >> uint64(doc & 63) & uint64(1):
            continue
        found[num_found] = doc
        num_found += 1
        previous = doc
    return found[:num_found]


@derived
def _cached_entries(
    segment: Segment,
) -> QueryCache[tuple[str, ...], tuple[NDArray[np.uint32], NDArray[np.uint16]] | int]:
    """Return what `_entries` has found, by words; of what is large the number of documents."""
    return QueryCache()


def _entries(
    segment: Segment, words: tuple[str, ...]
) -> tuple[NDArray[np.uint32], NDArray[np.uint16]]:
    """Return documents (ascending) and fields in which a field consists of the words, in order."""
    cached = _cached_entries(segment)
    found = cached.get(words)
    if found is None or isinstance(found, int):
        check_call()
        found = _find(segment, words)
        kept: tuple[NDArray[np.uint32], NDArray[np.uint16]] | int = found
        num_bytes = sum(map(len, words)) + _ARRAYS_BYTES + found[0].nbytes + found[1].nbytes
        if len(found[0]) > _LISTED_MAX:
            kept, num_bytes = len(np.unique(found[0])), sum(map(len, words))
        QUERY_CACHE_BUDGET.keep(cached, words, kept, num_bytes)
    return found


def _find(
    segment: Segment, words: tuple[str, ...]
) -> tuple[NDArray[np.uint32], NDArray[np.uint16]]:
    index = text_index(segment)
    nothing = np.zeros(0, np.uint32), np.zeros(0, np.uint16)
    terms: list[int] = []
    for word in words:
        term = index.vocabulary.find(word)
        if term is None:
            return nothing
        terms.append(term)
    rarest, *others = sorted(set(terms), key=index.lists.entry_counts.item)
    found: tuple[NDArray[np.uint32], NDArray[np.uint16]]
    found = _entries_of(index.lists, index.field_lengths, rarest, DECODED_LENGTHS, len(words))
    if len(words) == 1:
        return found
    docs = np.unique(found[0])
    for term in others:
        if len(docs) == 0:
            return nothing
        docs = docs_with(index.lists, term, docs, True)
    if len(docs) == 0:
        return nothing
    entries = find_phrase(index, [np.array([term], np.uint32) for term in terms], docs)
    found = _of_length(entries, index.field_lengths, DECODED_LENGTHS, len(words))
    return found


def whole_freq(view: SegmentView, words: tuple[str, ...]) -> int:
    """Return how many live documents of a segment have a field that consists of the words."""
    deleted = deleted_docs(view)
    known = _cached_entries(view.segment).get(words)
    if isinstance(known, int) and deleted is None:
        return known
    docs = _entries(view.segment, words)[0]
    if len(docs) == 0:
        return 0
    docs = np.unique(docs)
    return len(docs) if deleted is None else int(np.isin(docs, deleted, invert=True).sum())


def whole_freq_among(segment: Segment, words: tuple[str, ...], docs: NDArray[np.uint32]) -> int:
    """Return how many of some documents (ascending) have a field that consists of the words."""
    return len(np.intersect1d(_entries(segment, words)[0], docs))


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
