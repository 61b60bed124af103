"""Phrases: finds the fields of documents in which words are adjacent, in order.

    "green mile"    1  documents that have both       bitsets and posting lists, no position read
                    2  green   doc 3 title 0, 9       rarest word: each position is a seed
                                                      (`phrase_seeds`)
                    3  mile    doc 3 title 1          a seed survives if mile follows it by one
                                                      (`phrase_verification`)
                       ──▶     doc 3 title, once

Most documents with one word lack another, so documents are intersected first. In the remaining
ones, the positions of the rarest word are listed, and each other word is looked up at its distance
from them; only surviving seeds are checked for the next word. Blocks without a common document
are skipped, and so are the positions of the entries in between; where most blocks hold several,
they are decoded as a whole.

Frequent words share many documents but are adjacent in few; their adjacent pairs have posting lists
(`frequent_pairs.py`), so step 1 begins with the documents of a pair.

A last word that may be half typed stands for all terms it begins: a seed survives if one of them
fits. It does not narrow the documents.

Cost: one intersection of documents, then for each word the blocks that hold common documents. All
of it is one call of a kernel: most phrases have a rare word, and several calls would take longer
than the reading.
"""

from __future__ import annotations

import itertools
from operator import lt
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from common.distinct_values import without_repeats
from common.kernels.decorator import arguments, kernel
from common.kernels.types import I64Array, U16Array, U32Array, U64Array, int64
from shard.query.phrases.frequent_pairs import find_pair
from shard.query.phrases.phrase_seeds import list_seeds
from shard.query.phrases.phrase_verification import follow
from shard.query.postings.term_conjunction import docs_with_terms
from shard.query.postings.term_plan import SearchedLists
from shard.segment.doc_sets import NO_DOCS, add_docs, bitset_of, pick_positions
from shard.segment.text.positions import Positions
from shard.segment.text.postings import BLOCK_ENTRIES, Entries, PostingLists
from shard.segment.text.postings_cursor import Wanted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from shard.query.postings.term_lists import TermLists
    from shard.segment.text.text_index import TextIndex

_ENTRIES_PER_DOC_MAX: Final = 16
"""A list with at most this many entries per wanted document is decoded block by block."""
_SEVERAL_TERMS: Final = 1 << 40
"""More than a list has entries."""

NO_ENTRIES: Final = Entries(NO_DOCS, np.zeros(0, np.uint16), np.zeros(0, np.uint32))


@arguments
class PhraseTerms(NamedTuple):
    """The terms of the words of a phrase.

    Attributes:
        terms: ordinals, word by word: one, none if the segment lacks the word, several if it is
            half typed.
        ends: by word, where its terms end.
    """

    terms: NDArray[np.uint32]
    ends: NDArray[np.int64]

    @classmethod
    def of(cls, by_word: Sequence[NDArray[np.uint32]]) -> PhraseTerms:
        """Return the terms of words, given those of each."""
        ends = list(itertools.accumulate(map(len, by_word)))
        return cls(np.concatenate(by_word), np.array(ends, np.int64))

    @property
    def only(self) -> list[int]:
        """By word, its only term; -1 if it has none or several."""
        terms, ends = self.terms.tolist(), self.ends.tolist()
        return [
            terms[start] if end - start == 1 else -1
            for start, end in itertools.pairwise([0, *ends])
        ]

    @property
    def has_all(self) -> bool:
        """Whether each word has a term."""
        ends = self.ends.tolist()
        return all(map(lt, [0, *ends], ends))


@kernel
def _bits_if_many(docs: U32Array, num_docs: int, num_entries: int, ratio_max: int) -> U64Array:
    """Return the bitset of documents if a list is to be decoded by block; else an empty one.

    Args:
        docs: that are wanted, ascending.
        num_docs: of the segment.
        num_entries: of the list.
        ratio_max: of entries to wanted documents.
    """
    if len(docs) * ratio_max < max(num_entries, BLOCK_ENTRIES):
        return np.empty(0, np.uint64)
    bits = np.zeros((num_docs + 63) >> 6, np.uint64)
    add_docs(bits, docs)
    return bits


@kernel
def _cheapest_first(lists: PostingLists, words: PhraseTerms) -> tuple[I64Array, I64Array]:
    """Return the words in the order in which they are looked up, and the entries of each word.

    Words of several terms come last.
    """
    terms, ends = words
    num_words = len(ends)
    order = np.empty(num_words, np.int64)
    costs = np.zeros(num_words, np.int64)
    ranks = np.empty(num_words, np.int64)
    start = int64(0)
    for word in range(num_words):
        for i in range(start, ends[word]):
            costs[word] += int64(lists.entry_counts[terms[i]])
        ranks[word] = costs[word] + (_SEVERAL_TERMS if ends[word] - start > 1 else 0)
        start = ends[word]
        at = word
        while at > 0 and ranks[order[at - 1]] > ranks[word]:
            order[at] = order[at - 1]
            at -= 1
        order[at] = word
    return order, costs


@kernel
def _find(
    lists: PostingLists,
    positions: Positions,
    words: PhraseTerms,
    docs: U32Array,
    num_docs: int,
    entries_per_doc_max: int,
) -> tuple[U32Array, U16Array, U32Array]:
    """Kernel of `find_phrase`; returns the members of `Entries`."""
    if len(docs) == 0:
        return np.empty(0, np.uint32), np.empty(0, np.uint16), np.empty(0, np.uint32)
    terms, ends = words
    order, costs = _cheapest_first(lists, words)
    # A word of several terms cannot be the seed; there is always another one.
    first = order[0]
    bits = _bits_if_many(docs, num_docs, costs[first], entries_per_doc_max)
    seeds = list_seeds(lists, positions, int64(terms[ends[first] - 1]), docs, bits)
    for word in order[1:]:
        if len(seeds.docs) == 0:
            break
        start = ends[word - 1] if word > 0 else int64(0)
        some = terms[start : ends[word]]
        # The lists of a half-typed word are many and short: each is read by entry.
        ratio_max = entries_per_doc_max if len(some) == 1 else 0
        bits = _bits_if_many(seeds.docs, num_docs, costs[word], ratio_max)
        seeds = follow(lists, positions, some, seeds, word - first, bits)
    freqs = np.empty(len(seeds.docs), np.uint32)
    for entry in range(len(freqs)):
        freqs[entry] = seeds.starts[entry + 1] - seeds.starts[entry]
    return seeds.docs, seeds.fields, freqs


@kernel
def _search(
    searched: SearchedLists,
    positions: Positions,
    words: PhraseTerms,
    wanted: Wanted,
    entries_per_doc_max: int,
) -> tuple[U32Array, U16Array, U32Array]:
    """Find a phrase in those of the wanted documents that have its words in searched fields."""
    terms, ends = words
    single = np.empty(len(ends), np.uint32)
    num_single = 0
    start = int64(0)
    for end in ends:
        if end - start == 1:
            single[num_single] = terms[start]
            num_single += 1
        start = end
    docs = docs_with_terms(searched, single[:num_single], wanted)
    return _find(
        searched.scored.lists, positions, words, docs, searched.num_docs, entries_per_doc_max
    )


def phrase_terms(index: TextIndex, words: Sequence[str], *, is_prefix: bool) -> PhraseTerms:
    """Return the terms of each word; of a half-typed last word, all that it begins."""
    if not is_prefix:
        return PhraseTerms(*index.vocabulary.find_known(words))
    terms, ends = index.vocabulary.find_known(words[:-1])
    begun = np.arange(*index.vocabulary.prefix_range(words[-1]), dtype=np.uint32)
    return PhraseTerms(
        np.concatenate((terms, begun)), np.append(ends, np.int64(len(terms) + len(begun)))
    )


def search_phrase(
    lists: TermLists,
    terms: PhraseTerms,
    wanted: Wanted,
) -> Entries:
    """Find a phrase in the wanted documents that have its words in searched fields.

    Returns entries like those of a term; those in other fields may be among them.

    Args:
        lists: posting lists of the segment.
        terms: of the phrase, at least two words.
        wanted: the documents to look at; a list needs no bitset.
    """
    if not terms.has_all:
        return NO_ENTRIES
    pair = find_pair(lists.segment, terms.only)
    if pair is not None:
        pair = _narrow(pair, lists, wanted)
        if len(terms.ends) == 2 and lists.fields.are_all_searched:
            return pair
        wanted = Wanted.among(without_repeats(pair.docs))
    return Entries(
        *_search(lists.searched, lists.index.positions, terms, wanted, _ENTRIES_PER_DOC_MAX)
    )


def _narrow(entries: Entries, lists: TermLists, wanted: Wanted) -> Entries:
    """Return the entries in wanted documents."""
    bits = wanted.bits
    if wanted.is_listed:
        bits = bitset_of(wanted.docs, lists.index.num_docs)
    elif len(bits) == 0:
        return entries
    num_entries = len(entries.docs)
    picked = np.empty(num_entries + 1, np.int64)
    at = picked[: pick_positions(entries.docs, num_entries, bits, picked)]
    return Entries(entries.docs[at], entries.fields[at], entries.freqs[at])


def find_phrase(index: TextIndex, terms: PhraseTerms, docs: NDArray[np.uint32]) -> Entries:
    """Find where words are adjacent, in order; return entries like those of a term.

    They are by document, ascending, and in a document by field.

    Args:
        index: the segment's text structures.
        terms: of at least two words; queries have at most some dozens.
        docs: where to look, ascending.
    """
    if not terms.has_all:
        return NO_ENTRIES
    return Entries(
        *_find(index.lists, index.positions, terms, docs, index.num_docs, _ENTRIES_PER_DOC_MAX)
    )
