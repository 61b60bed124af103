"""Which terms of a half-typed or mistyped word each document has, kept once it is searched again.

To see how close the words of a query are, their positions in some forty documents are read. A word
that stands for hundreds of terms would have each list opened to find the one that a document has.
From the second search on, that term is known:

    docs         bitset of all documents of the word
    ranks        how many come before each 64
    firsts       by rank, the first of its terms           4 9 12 → seal  seal  set
    extra_docs   documents with further terms, ascending   4      → sell
    extra_terms  these

They are made in the background, from all lists of the word; until then, `prefix_terms_of_docs`
finds them.

Cost: 10 ns an entry; 1.5 bits for each document of the segment and 2 bytes for each of the word's,
6 for each further term.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from common.kernels.array_growth import grown
from common.kernels.decorator import arguments, kernel
from common.kernels.types import U16Array, U32Array, U64Array, int64
from shard.caches.background_derivation import BACKGROUND_TASKS
from shard.caches.lru_cache import WORDS_CACHE
from shard.segment.doc_sets import (
    bitset_length,
    count_docs,
    has_bit,
    rank_of,
    ranks_of,
    set_bit,
)
from shard.segment.text.postings import BLOCK_ENTRIES, PostingLists
from shard.segment.text.postings_cursor import (
    decode_docs,
    docs_of_terms,
    next_block,
    open_postings,
)
from shard.segment.text.text_index import text_index

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from numpy.typing import NDArray

    from shard.segment.segment import Segment

TERMS_MIN: Final = 64
"""Fewer terms are looked for in each document."""
_TERMS_MAX: Final = 1 << 16
_EXTRAS_MIN: Final = 256
_DOC_BITS: Final = 3
"""More than the bits of the bitset and the ranks for each document of the segment."""
_ENTRY_BYTES_MAX: Final = 6
"""Of a further term; a first one takes 2."""


@arguments
class KeptTerms(NamedTuple):
    """The terms of one word that each document has; see the module.

    Attributes:
        docs: bitset.
        ranks: by word of the bitset.
        firsts: by document of the word, a position in `terms`.
        extra_docs: once for each further term.
        extra_terms: positions in `terms`.
        terms: ordinals.
    """

    docs: NDArray[np.uint64]
    ranks: NDArray[np.uint32]
    firsts: NDArray[np.uint16]
    extra_docs: NDArray[np.uint32]
    extra_terms: NDArray[np.uint16]
    terms: NDArray[np.uint32]


NO_KEPT_TERMS: Final = KeptTerms(
    np.zeros(0, np.uint64),
    np.zeros(0, np.uint32),
    np.zeros(0, np.uint16),
    np.zeros(0, np.uint32),
    np.zeros(0, np.uint16),
    np.zeros(0, np.uint32),
)
_SEARCHED_ONCE: Final = NO_KEPT_TERMS


@kernel
def _terms_of_docs(
    lists: PostingLists, terms: U32Array, bits: U64Array, ranks: U32Array
) -> tuple[U16Array, U32Array, U16Array]:
    """Return the first term of each document, and the documents and further terms, by term."""
    firsts = np.empty(count_docs(bits), np.uint16)
    seen = np.zeros(len(bits), np.uint64)
    extra_docs = np.empty(_EXTRAS_MIN, np.uint32)
    extra_terms = np.empty(_EXTRAS_MIN, np.uint16)
    num_extras = 0
    docs = np.empty(BLOCK_ENTRIES, np.uint32)
    for i_term in range(len(terms)):
        last = int64(-1)
        cursor = open_postings(terms[i_term])
        while True:
            cursor = next_block(lists, cursor)
            if cursor.size == 0:
                break
            decode_docs(lists, cursor, docs)
            if num_extras + cursor.size > len(extra_docs):
                extra_docs = grown(extra_docs, 2 * len(extra_docs))
                extra_terms = grown(extra_terms, 2 * len(extra_terms))
            for doc in docs[: cursor.size]:
                if int64(doc) == last:
                    continue  # in another field
                last = int64(doc)
                if has_bit(seen, doc):
                    extra_docs[num_extras] = doc
                    extra_terms[num_extras] = i_term
                    num_extras += 1
                else:
                    set_bit(seen, doc)
                    firsts[rank_of(bits, ranks, doc)] = i_term
    return firsts, extra_docs[:num_extras], extra_terms[:num_extras]


@kernel(allocates=False)
def first_extra(kept: KeptTerms, doc: int) -> int:
    """Return the position of the first further term of a document, or of a later one."""
    low = int64(0)
    high = int64(len(kept.extra_docs))
    while low < high:
        middle = (low + high) >> 1
        if int64(kept.extra_docs[middle]) < doc:
            low = middle + 1
        else:
            high = middle
    return low


def terms_of_docs(segment: Segment, terms: NDArray[np.uint32]) -> KeptTerms:
    """Return which of some terms each document has.

    Args:
        segment: whose documents.
        terms: ordinals, at most 65,536; no prefix lists.
    """
    lists = text_index(segment).lists
    bits = docs_of_terms(lists, terms, bitset_length(segment.num_docs))
    ranks = ranks_of(bits)
    firsts, extra_docs, extra_terms = _terms_of_docs(lists, terms, bits, ranks)
    by_doc = np.argsort(extra_docs, kind="stable")
    return KeptTerms(bits, ranks, firsts, extra_docs[by_doc], extra_terms[by_doc], terms)


def kept_terms(segment: Segment, key: Hashable, terms: NDArray[np.uint32]) -> KeptTerms | None:
    """Return which of a word's terms each document has, if that is known; schedule it if it pays.

    Args:
        segment: whose documents.
        key: names the word and which terms are its own.
        terms: ordinals; fewer than `TERMS_MIN` are found as fast.
    """
    if len(terms) > _TERMS_MAX:
        return None
    cache_key = segment.uid, "terms of documents", key
    kept: KeptTerms | None = WORDS_CACHE.get(cache_key)
    if kept is None:
        WORDS_CACHE.put(cache_key, _SEARCHED_ONCE, 0, segment)
    elif kept is not _SEARCHED_ONCE:
        return kept
    elif _fits(segment, terms):
        schedule(cache_key, segment, partial(_keep, cache_key, terms))
    return None


def _fits(segment: Segment, terms: NDArray[np.uint32]) -> bool:
    """Return whether the cache takes what is kept of a word; else each search would schedule it."""
    num_entries = int(text_index(segment).lists.entry_counts[terms].sum(dtype=np.int64))
    num_bytes_max = segment.num_docs * _DOC_BITS // 8 + num_entries * _ENTRY_BYTES_MAX
    return WORDS_CACHE.takes(num_bytes_max + terms.nbytes)


def _keep(key: Hashable, terms: NDArray[np.uint32], segment: Segment) -> None:
    """Keep which of a word's terms each document has."""
    kept = terms_of_docs(segment, terms)
    WORDS_CACHE.put(key, kept, sum([array.nbytes for array in kept]), segment)


schedule: Callable[[Hashable, Segment, Callable[[Segment], None]], None] = BACKGROUND_TASKS.add
"""How the work is scheduled."""
