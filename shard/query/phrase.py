"""Phrases: in which fields of which documents do words stand next to each other, in order?

    "green mile"    1  documents that have both       bitsets and posting lists, no position read
                    2  green   doc 3 title 0, 9       rarest word: each position is a seed
                    3  mile    doc 3 title 1          a seed lives if mile follows it by one
                       ──▶     doc 3 title, once

Most documents with one word lack another, so documents are intersected first. In what is left, the
positions of the rarest word are listed, and each other word is looked up at its distance from them.
Blocks without a common document are skipped, and so are the positions of the entries in between.

A last word that may be half typed stands for all terms it begins: a seed lives if one of them fits.
It does not narrow the documents.

Cost: one intersection of documents, then for each word the blocks that hold common documents.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

import numpy as np

from common.kernels.decorator import arguments, kernel
from common.kernels.types import U8, I64Array, U16Array, U32Array, int64
from shard.query.bm25f import NO_DOCS, NO_FIELDS
from shard.segment.positions import Positions, decode_varint, skip_varints
from shard.segment.postings import (
    Entries,
    PostingLists,
    block_offset,
    count_blocks,
    decode_entry,
    gallop,
    locate_block,
    next_block,
    open_block,
    skip_to,
    sum_freqs,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from shard.query.term_lists import TermLists
    from shard.segment.text_index import TextIndex

Numbers = TypeVar("Numbers", U16Array, U32Array, I64Array)

NO_ENTRIES: Final = Entries(NO_DOCS, NO_FIELDS, np.zeros(0, np.uint32))


@arguments
class _Seeds(NamedTuple):
    """The positions of the rarest word.

    Attributes:
        docs: document of each of its entries, ascending.
        fields: field of each.
        starts: offset of its first position in `places`, with a sentinel.
        places: positions, ascending within an entry.
        levels: by position, how many other words have been found at their distance from it.
    """

    docs: NDArray[np.uint32]
    fields: NDArray[np.uint16]
    starts: NDArray[np.int64]
    places: NDArray[np.uint32]
    levels: NDArray[np.uint8]


@kernel
def _longer(array: Numbers, size: int) -> Numbers:
    """Return a copy of an array with room for more."""
    longer = np.empty(size, array.dtype)
    longer[: len(array)] = array
    return longer


@kernel
def _list_seeds(
    lists: PostingLists, word_positions: Positions, term: int, wanted: U32Array
) -> tuple[U32Array, U16Array, I64Array, U32Array]:
    """Return the entries of a term in the wanted documents, with all their positions.

    Returns:
        Documents (uint32) and fields (uint16) of the entries, the offset of each one's first
        position with a sentinel (int64), and all positions (uint32).
    """
    positions, position_starts, skip_positions = word_positions
    postings = lists.postings
    size = len(wanted) + 1
    entry_docs = np.empty(size, np.uint32)
    entry_fields = np.empty(size, np.uint16)
    starts = np.empty(size + 1, np.int64)
    num_room = 2 * size
    places = np.empty(num_room, np.uint32)
    num_found = int64(0)
    num_places = int64(0)
    num_blocks = count_blocks(lists, term)
    block = int64(0)
    document = int64(0)
    while True:
        # Skip blocks without a wanted document, by the skip list.
        block, document = next_block(lists, term, block, wanted, document)
        if block == num_blocks or document == len(wanted):
            break
        at, count = locate_block(lists, term, block)
        cursor = position_starts[term] + block_offset(lists, skip_positions, term, block)
        block += 1
        doc, packing = open_block(postings, at)
        i = int64(0)
        num_passed = int64(0)  # entries of the block whose positions are before the cursor
        while document < len(wanted):
            # Leapfrog: the list and the wanted documents each seek to the other's next document.
            i, doc = skip_to(postings, packing, count, i, doc, wanted[document])
            if i == count:
                break
            document = gallop(wanted, document, int64(doc))
            if document == len(wanted) or wanted[document] != doc:
                i += 1
                continue
            field, freq = decode_entry(postings, packing, i)
            # Positions are varints without an index inside a block: skip those of the entries
            # passed over.
            cursor = skip_varints(positions, cursor, sum_freqs(postings, packing, num_passed, i))
            if num_found == size:  # a document has an entry for each field
                size *= 2
                entry_docs = _longer(entry_docs, size)
                entry_fields = _longer(entry_fields, size)
                starts = _longer(starts, size + 1)
            if num_places + freq > num_room:
                num_room = 2 * (num_places + freq)
                places = _longer(places, num_room)
            entry_docs[num_found] = doc
            entry_fields[num_found] = field
            starts[num_found] = num_places
            # Positions are stored as deltas.
            position = int64(0)
            for _ in range(freq):
                delta, cursor = decode_varint(positions, cursor)
                position += delta
                places[num_places] = position
                num_places += 1
            num_found += 1
            i += 1
            num_passed = i
    starts[num_found] = num_places
    return (
        entry_docs[:num_found],
        entry_fields[:num_found],
        starts[: num_found + 1],
        places[:num_places],
    )


@kernel(allocates=False)
def _follow(
    lists: PostingLists,
    word_positions: Positions,
    terms: U32Array,
    seeds: _Seeds,
    distance: int,
    level: U8,
) -> None:
    """Raise seeds from `level` to level + 1 where one of the terms stands at `distance`.

    Args:
        lists: of the segment.
        word_positions: of the segment.
        terms: ordinals; several where the word is half typed.
        seeds: positions of the rarest word.
        distance: from the seed's word to this one; negative if this one comes before.
        level: how many other words a surviving seed has had so far.
    """
    positions, position_starts, skip_positions = word_positions
    postings = lists.postings
    entry_docs, entry_fields, place_starts, places, levels = seeds
    num_entries = len(entry_docs)
    for term_32 in terms:
        term = int64(term_32)
        num_blocks = count_blocks(lists, term)
        entry = int64(0)
        block = int64(0)
        while True:
            block, entry = next_block(lists, term, block, entry_docs, entry)
            if block == num_blocks or entry == num_entries:
                break
            at, count = locate_block(lists, term, block)
            cursor = position_starts[term] + block_offset(lists, skip_positions, term, block)
            block += 1
            doc, packing = open_block(postings, at)
            i = int64(0)
            num_passed = int64(0)  # entries of the block whose positions are before the cursor
            while entry < num_entries:
                # Leapfrog between the term's entries and the seeds' entries, by document and then
                # field.
                i, doc = skip_to(postings, packing, count, i, doc, entry_docs[entry])
                if i == count:
                    break
                entry = gallop(entry_docs, entry, int64(doc))
                field, freq = decode_entry(postings, packing, i)
                while (
                    entry < num_entries
                    and entry_docs[entry] == doc
                    and int64(entry_fields[entry]) < field
                ):
                    entry += 1
                if entry == num_entries:
                    break
                if entry_docs[entry] != doc or int64(entry_fields[entry]) != field:
                    i += 1
                    continue
                # Same document and field: decode only this entry's positions.
                cursor = skip_varints(
                    positions, cursor, sum_freqs(postings, packing, num_passed, i)
                )
                place = place_starts[entry]
                stop = place_starts[entry + 1]
                position = int64(0)
                for _ in range(freq):
                    delta, cursor = decode_varint(positions, cursor)
                    position += delta
                    wanted = position - distance
                    # Both position lists ascend: merge them, shifted by the distance.
                    while place < stop and int64(places[place]) < wanted:
                        place += 1
                    if place < stop and int64(places[place]) == wanted and levels[place] == level:
                        levels[place] = level + 1
                i += 1
                num_passed = i


@kernel
def _take_entries(seeds: _Seeds, level: U8) -> Entries:
    """Return the entries that have seeds of a level, with the number of these as frequency."""
    docs, fields, starts, _, levels = seeds
    size = len(docs)
    out_docs = np.empty(size, np.uint32)
    out_fields = np.empty(size, np.uint16)
    out_freqs = np.empty(size, np.uint32)
    num_found = 0
    for entry in range(size):
        freq = 0
        for place in range(starts[entry], starts[entry + 1]):
            freq += levels[place] == level
        out_docs[num_found] = docs[entry]
        out_fields[num_found] = fields[entry]
        out_freqs[num_found] = freq
        num_found += freq > 0
    return Entries(out_docs[:num_found], out_fields[:num_found], out_freqs[:num_found])


def phrase_terms(
    index: TextIndex, words: Sequence[str], *, is_prefix: bool
) -> list[NDArray[np.uint32]]:
    """Return the terms of each word: one, or for a half-typed last word all that it begins."""
    terms: list[NDArray[np.uint32]] = []
    for i, word in enumerate(words):
        if is_prefix and i + 1 == len(words):
            first, last = index.vocabulary.prefix_range(word)
            terms.append(np.arange(first, last, dtype=np.uint32))
        else:
            ordinal = index.vocabulary.find(word)
            terms.append(np.array([] if ordinal is None else [ordinal], np.uint32))
    return terms


def docs_with_all(
    lists: TermLists,
    terms: Sequence[NDArray[np.uint32]],
    allowed: NDArray[np.uint64],
    candidates: NDArray[np.uint32] | None,
) -> NDArray[np.uint32]:
    """Return the documents that have every word that is a single term.

    Args:
        lists: posting lists of the segment.
        terms: by word of the phrase.
        allowed: bitset of documents; empty: all.
        candidates: the only documents to look at, ascending (`allowed` is then ignored); or None.
    """
    if any(len(one) == 0 for one in terms):
        return NO_DOCS
    single = [int(one[0]) for one in terms if len(one) == 1]
    return lists.docs_with_all(single, allowed, candidates)


def find_phrase(
    index: TextIndex, terms: Sequence[NDArray[np.uint32]], docs: NDArray[np.uint32]
) -> Entries:
    """Find where words stand next to each other, in order; return entries like those of a term.

    Args:
        index: the segment's text structures.
        terms: by word, at least two words (`phrase_terms`); queries have at most some dozens.
        docs: where to look, ascending.
    """
    if len(docs) == 0 or any(len(one) == 0 for one in terms):
        return NO_ENTRIES
    costs = [int(index.lists.entry_counts[one].sum()) for one in terms]
    # A last word of many terms cannot be the seed; there is always another word before it.
    order = sorted(range(len(terms)), key=lambda i: (len(terms[i]) > 1, costs[i]))
    seed = order[0]
    entry_docs, fields, starts, places = _list_seeds(
        index.lists, index.positions, int(terms[seed][0]), docs
    )
    seeds = _Seeds(entry_docs, fields, starts, places, np.zeros(len(places), np.uint8))
    for level, i in enumerate(order[1:]):
        _follow(index.lists, index.positions, terms[i], seeds, i - seed, level)
    return Entries(*_take_entries(seeds, len(terms) - 1))
