"""Frequent pairs: precomputed postings of two frequent words that are adjacent.

Most documents that have two frequent words have them apart: of 20,000 documents with both, some 500
have them next to each other, and a phrase has to read the positions of all 20,000 to find these. So
each ordered pair of frequent words of a segment gets a posting list of its adjacent occurrences:

    "of the"   ──▶  (doc 3, title, 1x) (doc 9, text, 2x) …     a phrase of these two: the answer
    "end of the world"  ──▶  documents of "of the" that also have "end" and "world": few positions

A word is frequent from one entry in `DOCS_PER_ENTRY_MAX` documents on; if there are too many of
them, only the most frequent ones are, so that neither time nor space depends on the language (see
`_choose_words`). The lists follow from the segment: they are built in the background when a phrase
first needs them, a part of the documents at a time, and kept in a cache. Until then, and in
small segments, phrases are found without them (`phrase_search.py`).

    all entries of frequent words ─▶ slots by document: field, position, word
                                  ─▶ each document's sorted ─▶ neighbours ─▶ counted and encoded

(Williams, Zobel, Bahle: Fast phrase querying with combined indexes, ACM TOIS 2004.)

Costs: 2 bytes an adjacency, 5 to 12 bytes a document; 30 ns an occurrence of a frequent word to
make.
"""

from __future__ import annotations

from itertools import pairwise, starmap
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from common.kernels.decorator import arguments, kernel
from common.kernels.types import I64Array, U16Array, U32Array, int64
from shard.caches.background_derivation import BACKGROUND_TASKS
from shard.caches.derived_values import derived
from shard.caches.lru_cache import PAIRS_CACHE
from shard.segment.text.positions import Positions, decode_varint, skip_varints
from shard.segment.text.postings import BLOCK_ENTRIES, Entries, PostingLists, new_block
from shard.segment.text.postings_cursor import (
    BlockCursor,
    at_block,
    block_positions,
    decode_entries,
    gallop,
    next_block,
    open_postings,
)
from shard.segment.text.postings_writer import (
    ListInWriting,
    end_list,
    open_list,
    put_entry,
    reserve_lists,
    trim_lists,
)
from shard.segment.text.text_index import text_index

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from shard.segment.segment import Segment

DOCS_MIN: Final = 32_768
"""Segments with fewer documents have no frequent pairs."""
DOCS_PER_ENTRY_MAX: Final = 32
"""A word is frequent from one entry in this many documents on."""
_WORDS_MAX: Final = 255
"""Frequent words of a segment at most: a number takes 8 bits of a slot."""
_OCCURRENCES_MAX: Final = 16
"""Occurrences of frequent words in a document, on average: with more, fewer words are frequent."""
_PAIR_BYTES: Final = 3
"""Upper estimate of what an adjacency takes."""
_PART_DOCS: Final = 1 << 18
"""Documents that are processed together: some 30 MB of scratch memory."""

_WORD_BITS: Final = 8
_PLACE_BITS: Final = 40
"""Bits of word and position; the field is above."""
_WORD_MASK: Final = (1 << _WORD_BITS) - 1


class FrequentPairs(NamedTuple):
    """The adjacencies of the frequent words of a segment.

    Attributes:
        words: ordinals of the frequent words to their numbers.
        parts: by part of the documents: posting lists, by number of the first word times the number
            of words plus number of the second.
    """

    words: dict[int, int]
    parts: tuple[PostingLists, ...]

    @property
    def num_bytes(self) -> int:
        """Bytes that they take."""
        return sum(array.nbytes for part in self.parts for array in part)

    def pair(self, first: int, second: int) -> int:
        """Return the number of a pair of frequent words."""
        return self.words[first] * len(self.words) + self.words[second]

    def count(self, pair: int) -> int:
        """Return how many entries a pair has."""
        return sum([part.entry_counts.item(pair) for part in self.parts])

    def entries(self, pair: int) -> Entries:
        """Return the entries of a pair, like those of a term."""
        parts = [Entries(*_decode_list(part, pair)) for part in self.parts]
        if len(parts) == 1:
            return parts[0]
        return Entries(*[np.concatenate(columns) for columns in zip(*parts, strict=True)])


_NOTHING: Final = FrequentPairs({}, ())


@kernel
def _decode_list(lists: PostingLists, term: int) -> tuple[U32Array, U16Array, U32Array]:
    """Return all entries of a list."""
    size = int64(lists.entry_counts[term])
    docs = np.empty(size, np.uint32)
    fields = np.empty(size, np.uint16)
    freqs = np.empty(size, np.uint32)
    cursor = open_postings(term)
    while True:
        cursor = next_block(lists, cursor)
        if cursor.size == 0:
            break
        first = cursor.block * BLOCK_ENTRIES
        end = first + cursor.size
        entries = Entries(docs[first:end], fields[first:end], freqs[first:end])
        decode_entries(lists, cursor, entries)
    return docs, fields, freqs


@arguments
class _Slots(NamedTuple):
    """The occurrences of frequent words in a part of the documents, by document.

    Attributes:
        first_doc: of the part.
        starts: by document of the part, where its slots begin; with a sentinel.
        slots: field, position and word of each occurrence.
    """

    first_doc: int
    starts: NDArray[np.int64]
    slots: NDArray[np.int64]


@kernel(inline=True, allocates=False)
def _before(lists: PostingLists, term: int, doc: int) -> BlockCursor:
    """Return a cursor before the first block of a list that can hold a document or a later one."""
    row = int64(lists.skip_starts[term])
    first_docs = lists.skip_docs[row : int64(lists.skip_starts[term + 1])]
    block = max(gallop(first_docs, 0, doc) - 1, int64(0))
    return at_block(lists, term, block - 1, 0)


@kernel(allocates=False)
def _count_slots(
    lists: PostingLists, terms: I64Array, first_doc: int, starts: I64Array, block: Entries
) -> None:
    """Add up, by document of a part, the occurrences of all documents up to it.

    Args:
        lists: of the segment.
        terms: the frequent words.
        first_doc: of the part.
        starts: output; one more than there are documents in the part.
        block: scratch.
    """
    num_docs = len(starts) - 1
    for term in terms:
        cursor = _before(lists, term, first_doc)
        while True:
            cursor = next_block(lists, cursor)
            if cursor.size == 0:
                break
            decode_entries(lists, cursor, block)
            if int64(block.docs[0]) >= first_doc + num_docs:
                break
            for i in range(cursor.size):
                doc = int64(block.docs[i]) - first_doc
                if 0 <= doc < num_docs:
                    starts[doc + 1] += int64(block.freqs[i])
    for doc in range(num_docs):
        starts[doc + 1] += starts[doc]


@kernel(allocates=False)
def _fill_slots(
    lists: PostingLists,
    word_positions: Positions,
    terms: I64Array,
    of_docs: _Slots,
    ends: I64Array,
    block: Entries,
) -> None:
    """Write each occurrence of a frequent word to its document.

    Args:
        lists: of the segment.
        word_positions: of the segment.
        terms: the frequent words.
        of_docs: output.
        ends: by document where its next slot goes; then where they end.
        block: scratch.
    """
    first_doc, _, slots = of_docs
    positions = word_positions.positions
    num_docs = len(ends)
    for word in range(len(terms)):
        term = terms[word]
        cursor = _before(lists, term, first_doc)
        while True:
            cursor = next_block(lists, cursor)
            if cursor.size == 0:
                break
            decode_entries(lists, cursor, block)
            if int64(block.docs[0]) >= first_doc + num_docs:
                break
            offset = block_positions(lists, word_positions, term, cursor.block)
            for i in range(cursor.size):
                doc = int64(block.docs[i]) - first_doc
                freq = int64(block.freqs[i])
                if not 0 <= doc < num_docs:
                    offset = skip_varints(positions, offset, freq)
                    continue
                entry = int64(block.fields[i]) << _PLACE_BITS | word
                end = ends[doc]
                position = int64(0)
                for _ in range(freq):
                    delta, offset = decode_varint(positions, offset)
                    position += delta
                    slots[end] = entry | position << _WORD_BITS
                    end += 1
                ends[doc] = end


@kernel(allocates=False)
def _sort_slots(slots: I64Array, start: int, end: int) -> None:
    """Sort the slots [start, end), mostly a dozen, by Shell's method."""
    gap = int64(1)
    while 3 * gap < end - start:
        gap = 3 * gap + 1
    while gap > 0:
        for i in range(start + gap, end):
            moved = slots[i]
            at = int64(i)
            while at >= start + gap and slots[at - gap] > moved:
                slots[at] = slots[at - gap]
                at -= gap
            slots[at] = moved
        gap //= 3


@kernel(inline=True, allocates=False)
def _next_neighbour(slots: I64Array, i: int, other: int, end: int) -> int:
    """Return the first slot from `other` on that is next to slot i in its field; `end` if none is.

    The slots of the document are sorted; they end at `end`.
    """
    after = (slots[i] >> _WORD_BITS) + 1
    while other < end and slots[other] >> _WORD_BITS < after:
        other += 1
    return other if other < end and slots[other] >> _WORD_BITS == after else end


@kernel(inline=True, allocates=False)
def _pair_of(slots: I64Array, i: int, other: int, num_words: int) -> int:
    """Return the number of the pair of two slots' words."""
    return (slots[i] & _WORD_MASK) * num_words + (slots[other] & _WORD_MASK)


@kernel(allocates=False)
def _count_pairs(of_docs: _Slots, num_words: int, pair_starts: I64Array) -> None:
    """Sort each document's slots; then write where each pair's adjacencies begin."""
    _, starts, slots = of_docs
    for doc in range(len(starts) - 1):
        end = starts[doc + 1]
        _sort_slots(slots, starts[doc], end)
        for i in range(starts[doc], end):
            other = _next_neighbour(slots, i, i + 1, end)
            while other < end:
                pair_starts[_pair_of(slots, i, other, num_words) + 1] += 1
                other = _next_neighbour(slots, i, other + 1, end)
    for pair in range(len(pair_starts) - 1):
        pair_starts[pair + 1] += pair_starts[pair]


@kernel(allocates=False)
def _place_pairs(
    of_docs: _Slots, num_words: int, ends: I64Array, docs: U32Array, fields: U16Array
) -> None:
    """Write each adjacency to its pair; `ends` as in `_fill_slots`, by pair."""
    first_doc, starts, slots = of_docs
    for doc in range(len(starts) - 1):
        end = starts[doc + 1]
        for i in range(starts[doc], end):
            other = _next_neighbour(slots, i, i + 1, end)
            while other < end:
                pair = _pair_of(slots, i, other, num_words)
                docs[ends[pair]] = first_doc + doc
                fields[ends[pair]] = slots[i] >> _PLACE_BITS
                ends[pair] += 1
                other = _next_neighbour(slots, i, other + 1, end)


@kernel(allocates=False)
def _put_pairs(
    pair_starts: I64Array, docs: U32Array, fields: U16Array, lists: PostingLists, block: Entries
) -> tuple[int, int]:
    """Write the lists of all pairs; return where their bytes end, and their number of skip rows.

    The first three arguments are those of `_encode_pairs`.
    """
    cursor = int64(0)
    row = int64(0)
    for pair in range(len(pair_starts) - 1):
        target = ListInWriting(lists, pair, block)
        written = open_list(lists, pair, cursor, row)
        i: Any = pair_starts[pair]
        end = pair_starts[pair + 1]
        while i < end:
            first = i
            while i < end and docs[i] == docs[first] and fields[i] == fields[first]:
                i += 1
            doc, field = int64(docs[first]), int64(fields[first])
            written = put_entry(target, written, doc, field, i - first)
        cursor, row = end_list(target, written)
    return cursor, row


@kernel
def _encode_pairs(pair_starts: I64Array, docs: U32Array, fields: U16Array) -> PostingLists:
    """Return posting lists of the adjacencies; several in one field of a document are one entry.

    Args:
        pair_starts: by pair, with a sentinel.
        docs: of each adjacency.
        fields: of each.
    """
    num_pairs = len(pair_starts) - 1
    lists = reserve_lists(num_pairs, len(docs))
    cursor, num_rows = _put_pairs(pair_starts, docs, fields, lists, new_block())
    return trim_lists(lists, num_pairs, num_rows, cursor)


@kernel
def _make_part(
    lists: PostingLists, positions: Positions, terms: I64Array, first_doc: int, num_docs: int
) -> PostingLists:
    """Return the adjacencies of some terms in the documents of a part."""
    num_words = len(terms)
    block = new_block()
    starts = np.zeros(num_docs + 1, np.int64)
    _count_slots(lists, terms, first_doc, starts, block)
    of_docs = _Slots(first_doc, starts, np.empty(starts[num_docs], np.int64))
    _fill_slots(lists, positions, terms, of_docs, starts[:num_docs].copy(), block)
    pair_starts = np.zeros(num_words * num_words + 1, np.int64)
    _count_pairs(of_docs, num_words, pair_starts)
    num_found = pair_starts[num_words * num_words]
    docs = np.empty(num_found, np.uint32)
    fields = np.empty(num_found, np.uint16)
    pair_ends = pair_starts[: num_words * num_words].copy()
    _place_pairs(of_docs, num_words, pair_ends, docs, fields)
    return _encode_pairs(pair_starts, docs, fields)


def _choose_words(segment: Segment) -> NDArray[np.int64]:
    """Return the frequent words of a segment, most frequent first.

    No more than fit the numbers, no more occurrences than `_OCCURRENCES_MAX` a document, and no
    more than the cache has room for if words stood in random order.
    """
    index = text_index(segment)
    counts = index.lists.entry_counts[: len(index.vocabulary)].astype(np.int64)
    counts[: index.vocabulary.num_spellings] = 0  # phrases have folded words
    chosen = np.flatnonzero(counts * DOCS_PER_ENTRY_MAX >= segment.num_docs)
    chosen = chosen[np.argsort(-counts[chosen], kind="stable")][:_WORDS_MAX]
    starts = index.positions.position_starts
    total = float(starts[len(counts)])
    # Most positions take one byte, none takes less.
    occurrences = np.cumsum(starts[chosen + 1] - starts[chosen]).astype(np.float64)
    num_bytes = occurrences * occurrences / max(total, 1.0) * _PAIR_BYTES
    is_kept = occurrences <= _OCCURRENCES_MAX * segment.num_docs
    is_kept &= 2.0 * num_bytes <= PAIRS_CACHE.bytes_max
    return chosen[is_kept]


@derived
def _frequent_words(segment: Segment) -> frozenset[int]:
    """Return the frequent words of a segment; none if it is small."""
    return frozenset(_choose_words(segment).tolist() if segment.num_docs >= DOCS_MIN else ())


def make_frequent_pairs(segment: Segment) -> FrequentPairs:
    """Find the adjacencies of the frequent words of a segment, of whatever size."""
    index = text_index(segment)
    terms = _choose_words(segment)
    if len(terms) == 0:
        return _NOTHING
    parts = [
        PostingLists(
            *_make_part(
                index.lists,
                index.positions,
                terms,
                first,
                min(_PART_DOCS, segment.num_docs - first),
            )
        )
        for first in range(0, segment.num_docs, _PART_DOCS)
    ]
    return FrequentPairs({term: i for i, term in enumerate(terms.tolist())}, tuple(parts))


def keep_frequent_pairs(segment: Segment) -> None:
    """Make and cache the frequent pairs of a segment; none, if they exceed the cache."""
    pairs = make_frequent_pairs(segment)
    if not PAIRS_CACHE.takes(pairs.num_bytes):
        pairs = _NOTHING
    PAIRS_CACHE.put(segment.uid, pairs, pairs.num_bytes, segment)


def find_pair(segment: Segment, terms: Sequence[int]) -> Entries | None:
    """Return the entries of the rarest frequent pair in a phrase, if it has one.

    Args:
        segment: where to look.
        terms: by word of the phrase, its only term; -1 if it has several.

    Returns:
        Entries of the rarest pair of frequent words; the phrase is in some of their documents. For
        a phrase of two words, they are its own. None if there is no such pair, or the lists are
        still to be made.
    """
    words = _frequent_words(segment)
    pairs = [pair for pair in pairwise(terms) if pair[0] in words and pair[1] in words]
    if not pairs:
        return None
    known: FrequentPairs | None = PAIRS_CACHE.get(segment.uid)
    if known is None:
        BACKGROUND_TASKS.add((segment.uid, "frequent pairs"), segment, keep_frequent_pairs)
        return None
    return known.entries(min(starmap(known.pair, pairs), key=known.count))
