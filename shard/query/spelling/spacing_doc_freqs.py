"""Document frequencies of words, and of adjacent words: "spider man" for spiderman.

    spider man   spider: 40 documents
                 man:    9,000
                 both:   38              bitsets and posting lists (postings/term_conjunction.py)
                 ──▶     31 of 38        their positions (phrases/phrase_search.py)

A word may be cut in two anywhere, so the segment finds the parts it has: one search in the
vocabulary for each letter.

The coordinator adds these numbers up over all shards and decides which spacings a query gets
(`coordinator/read/text/word_spacings.py`). All fields count. What a segment's documents have never
changes, so it is counted once; deleted documents are subtracted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from common.deadline import check_call
from common.distinct_values import without_repeats
from shard.caches.derived_values import derived
from shard.caches.key_sizes import bytes_of
from shard.caches.query_cache import QUERY_CACHE_BUDGET, QueryCache
from shard.query.phrases.phrase_search import find_phrase, phrase_terms
from shard.query.postings.term_lists import docs_with_all_terms
from shard.segment.doc_sets import NO_DOCS
from shard.segment.text.postings_cursor import ALL_DOCS, Wanted
from shard.segment.text.text_index import text_index

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from shard.segment.segment import Segment
    from shard.segment.snapshot import SegmentView


@derived
def _spacing_counts(segment: Segment) -> QueryCache[tuple[str, ...], int]:
    """Return the cached counts of a segment, deleted documents included."""
    return QueryCache()


def spacing_freq(view: SegmentView, words: tuple[str, ...]) -> int:
    """Return how many live documents of a segment have the words adjacent, in order."""
    counts = _spacing_counts(view.segment)
    total = counts.get(words)
    if total is None:
        total = _count(view.segment, words, None)
        QUERY_CACHE_BUDGET.keep(counts, words, total, bytes_of(words))
    deleted = view.deleted_docs if total else None
    return total if deleted is None else total - _count(view.segment, words, deleted)


def cut_freqs(view: SegmentView, word: str) -> dict[int, int]:
    """Return how many live documents of a segment have a word in two adjacent parts.

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
    """Return how many of some documents (ascending) have the words adjacent, in order."""
    return _count(segment, words, docs)


def docs_with_all_of(
    segment: Segment, words: Sequence[str], docs: NDArray[np.uint32] | None = None
) -> NDArray[np.uint32]:
    """Return the documents, among some (ascending) if given, that have all words in any field."""
    vocabulary = text_index(segment).vocabulary
    terms = []
    # The shorter half of a word is usually the common one: look for the longest words first.
    for word in sorted(set(words), key=len, reverse=True):
        term = vocabulary.find(word)
        if term is None:
            return NO_DOCS
        terms.append(term)
    check_call()
    wanted = ALL_DOCS if docs is None else Wanted.among(docs)
    return docs_with_all_terms(segment, terms, wanted)


def _count(segment: Segment, words: Sequence[str], docs: NDArray[np.uint32] | None) -> int:
    index = text_index(segment)
    if len(words) == 1 and docs is None:
        term = index.vocabulary.find(words[0])
        return 0 if term is None else int(index.doc_freqs[term])
    docs = docs_with_all_of(segment, words, docs)
    if len(words) == 1 or len(docs) == 0:
        return len(docs)
    terms = phrase_terms(index, words, is_prefix=False)
    return len(without_repeats(find_phrase(index, terms, docs).docs))
