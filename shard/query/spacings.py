"""How many documents have a word, or several words side by side: "spider man" for spiderman?

    spider man   spider: 40 documents    rarest word: its documents
                 man:    9,000           those of them that have the next rarest, by skip list
                 ──▶     31 of 38        their positions (shard/query/phrase.py)

A word may be cut in two anywhere, so the segment finds the parts it has: one search in the
vocabulary for each letter.

The coordinator adds these numbers up over all shards and decides which spacings a query gets
(`coordinator/read/spacing.py`). All fields count. What a segment's documents have never changes, so
it is counted once; deleted documents are subtracted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from common.deadline import check_call
from common.kernels.decorator import kernel
from common.kernels.types import U32Array, int64
from shard.caches.derived import derived
from shard.caches.query_cache import QUERY_CACHE_BUDGET, QueryCache
from shard.query.bm25f import NO_DOCS
from shard.query.phrase import find_phrase
from shard.query.statistics import deleted_docs
from shard.segment.postings import (
    BLOCK_ENTRIES,
    PostingLists,
    count_blocks,
    decode_docs,
    gallop,
    locate_block,
    next_block,
)
from shard.segment.text_index import text_index

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from shard.segment.segment import Segment
    from shard.segment.snapshot import SegmentView


@kernel
def docs_with(lists: PostingLists, term: int, listed: U32Array, has_listed: bool) -> U32Array:
    """Return the documents that have a term, ascending; with `has_listed`, those of the listed."""
    docs = np.empty(BLOCK_ENTRIES, np.uint32)
    size = len(listed) if has_listed else int64(lists.entry_counts[term])
    found = np.empty(size, np.uint32)
    num_found = 0
    num_blocks = count_blocks(lists, term)
    place = int64(0)
    block = int64(0)
    previous = int64(-1)
    while True:
        if has_listed:
            block, place = next_block(lists, term, block, listed, place)
        if block == num_blocks:
            break
        at, count = locate_block(lists, term, block)
        block += 1
        decode_docs(lists.postings, at, count, docs)
        # A document has an entry per field, but counts once.
        for i in range(count):
            doc = int64(docs[i])
            if doc == previous:
                continue
            previous = doc
            if has_listed:
                place = gallop(listed, place, doc)
                if place == len(listed):
                    break
                if int64(listed[place]) != doc:
                    continue
            found[num_found] = doc
            num_found += 1
    return found[:num_found]


@derived
def _spacing_counts(segment: Segment) -> QueryCache[tuple[str, ...], int]:
    """Return the cached counts of a segment, deleted documents included."""
    return QueryCache()


def spacing_freq(view: SegmentView, words: tuple[str, ...]) -> int:
    """Return how many live documents of a segment have the words side by side, in order."""
    counts = _spacing_counts(view.segment)
    total = counts.get(words)
    if total is None:
        total = _count(view.segment, words, None)
        QUERY_CACHE_BUDGET.keep(counts, words, total, sum(map(len, words)))
    deleted = deleted_docs(view) if total else None
    return total if deleted is None else total - _count(view.segment, words, deleted)


def cut_freqs(view: SegmentView, word: str) -> dict[int, int]:
    """Return how many live documents of a segment have a word in two parts, side by side.

    Returns:
        By the number of characters of the first part, where both parts are words of the segment.
    """
    cuts = text_index(view.segment).vocabulary.cuts(word)
    return {cut: spacing_freq(view, (word[:cut], word[cut:])) for cut in cuts}


def cut_freqs_among(segment: Segment, word: str, docs: NDArray[np.uint32]) -> dict[int, int]:
    """Return the same as `cut_freqs`, of some documents (ascending)."""
    cuts = text_index(segment).vocabulary.cuts(word)
    return {cut: spacing_freq_among(segment, (word[:cut], word[cut:]), docs) for cut in cuts}


def spacing_freq_among(segment: Segment, words: tuple[str, ...], docs: NDArray[np.uint32]) -> int:
    """Return how many of some documents (ascending) have the words side by side, in order."""
    return _count(segment, words, docs)


def docs_with_all_of(
    segment: Segment, words: Sequence[str], docs: NDArray[np.uint32] | None = None
) -> NDArray[np.uint32]:
    """Return the documents, among some (ascending) if given, that have all words in any field."""
    index = text_index(segment)
    terms = []
    # The shorter half of a word is mostly the common one: look for the longest words first.
    for word in sorted(set(words), key=len, reverse=True):
        term = index.vocabulary.find(word)
        if term is None:
            return NO_DOCS
        terms.append(term)
    check_call()
    for term in sorted(terms, key=index.lists.entry_counts.item):
        docs = docs_with(index.lists, term, NO_DOCS if docs is None else docs, docs is not None)
    assert docs is not None, "there are words"
    return docs


def _count(segment: Segment, words: Sequence[str], docs: NDArray[np.uint32] | None) -> int:
    index = text_index(segment)
    if len(words) == 1 and docs is None:
        term = index.vocabulary.find(words[0])
        return 0 if term is None else int(index.doc_freqs[term])
    docs = docs_with_all_of(segment, words, docs)
    if len(words) == 1 or len(docs) == 0:
        return len(docs)
    ordinals = [np.array([index.vocabulary.find(word)], np.uint32) for word in words]
    return len(np.unique(find_phrase(index, ordinals, docs).docs))
