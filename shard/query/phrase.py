"""Phrases: finds the fields of documents in which words are adjacent, in order.

    "green mile"    1  documents that have both       bitsets and posting lists, no position read
                    2  green   doc 3 title 0, 9       rarest word: each position is a seed
                    3  mile    doc 3 title 1          a seed survives if mile follows it by one
                       ──▶     doc 3 title, once

Most documents with one word lack another, so documents are intersected first. In the remaining
ones, the positions of the rarest word are listed, and each other word is looked up at its distance
from them; only surviving seeds are checked for the next word. Blocks without a common document
are skipped, and so are the positions of the entries in between; where most blocks hold several,
they are decoded as a whole.

Frequent words share many documents but are adjacent in few; their adjacent pairs have posting lists
(`shard/query/frequent_pairs.py`), so step 1 begins with the documents of a pair.

A last word that may be half typed stands for all terms it begins: a seed survives if one of them
fits. It does not narrow the documents.

Cost: one intersection of documents, then for each word the blocks that hold common documents. All
of it is one call of a kernel: most phrases have a rare word, and calls would outlast the reading.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from common.kernels.contracts import expect_ascending, expect_sorted
from common.kernels.decorator import arguments, kernel
from common.kernels.growth import grown
from common.kernels.types import I64Array, U8Array, U16Array, U32Array, U64Array, int64, uint8
from shard.query.bm25f import NO_DOCS, NO_FIELDS
from shard.query.frequent_pairs import find_pair
from shard.query.term_lists import SearchedLists, docs_with_terms
from shard.segment.doc_sets import add_docs, bitset_of, pick_positions
from shard.segment.positions import Positions, are_bytes, decode_varint, skip_varints
from shard.segment.postings import (
    BLOCK_ENTRIES,
    Entries,
    Packing,
    PostingLists,
    decode_entry,
    sum_freqs_before,
)
from shard.segment.postings_cursor import (
    BlockCursor,
    BlockScratch,
    Wanted,
    advance_entry,
    after_entry,
    block_positions,
    block_scratch,
    decode_wanted,
    next_block,
    open_entries,
    open_positions,
    open_postings,
    seek_positions,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from shard.query.term_lists import TermLists
    from shard.segment.text_index import TextIndex

_OFTEN_SHARE: Final = 16
"""A list is decoded block by block where at least one in this many entries is wanted."""
_SEVERAL_TERMS: Final = 1 << 40
"""More than a list has entries."""

NO_ENTRIES: Final = Entries(NO_DOCS, NO_FIELDS, np.zeros(0, np.uint32))


@arguments
class _Seeds(NamedTuple):
    """Positions of the words matched so far, relative to the rarest one.

    Attributes:
        docs: document of each entry of the rarest word, ascending.
        fields: field of each.
        starts: index of its first position in `positions`, with a sentinel.
        positions: of the rarest word, ascending within an entry.
    """

    docs: NDArray[np.uint32]
    fields: NDArray[np.uint16]
    starts: NDArray[np.int64]
    positions: NDArray[np.uint32]


@arguments
class _PhraseScratch(NamedTuple):
    """Scratch space to read a block.

    Attributes:
        block: its documents, and those that are wanted.
        befores: by entry, how many positions the entries before it have; then of all.
    """

    block: BlockScratch
    befores: NDArray[np.int64]


@arguments
class _PickedBlock(NamedTuple):
    """A block of which some entries are wanted: those that its `_PhraseScratch` lists.

    Attributes:
        num_picked: how many.
        packing: of the block.
        start: where its positions begin.
        are_plain: whether each of these takes one byte, so that those of an entry are found
            without looking at those before.
    """

    num_picked: int
    packing: Packing
    start: int
    are_plain: bool


@kernel
def _phrase_scratch() -> _PhraseScratch:
    return _PhraseScratch(block_scratch(), np.empty(BLOCK_ENTRIES + 1, np.int64))


@kernel(allocates=False)
def _pick_entries(
    lists: PostingLists,
    word_positions: Positions,
    term: int,
    cursor: BlockCursor,
    wanted: U64Array,
    scratch: _PhraseScratch,
) -> _PickedBlock:
    """Pick the entries of a block of a term whose documents are in a bitset; fill the scratch."""
    positions = word_positions.positions
    start = block_positions(lists, word_positions, term, cursor.block)
    num_picked, packing = decode_wanted(lists, cursor, wanted, scratch.block)
    are_plain = False
    if num_picked > 0:
        sum_freqs_before(lists.postings, packing, cursor.size, scratch.befores)
        are_plain = are_bytes(positions, start, scratch.befores[cursor.size])
    return _PickedBlock(num_picked, packing, start, are_plain)


@kernel(inline=True, allocates=False)
def _seek(
    positions: U8Array, block: _PickedBlock, offset: int, before: int, num_passed: int
) -> int:
    """Return where the positions of an entry begin, in a block that is decoded as a whole.

    Args:
        positions: of the segment.
        block: of the entry.
        offset: where the next ones begin that are not passed.
        before: how many the entries before it have.
        num_passed: how many of these are before `offset`.
    """
    if block.are_plain:
        return block.start + before
    return skip_varints(positions, offset, before - num_passed)


@kernel(inline=True)
def _room_for_seeds(num_entries: int, num_positions: int) -> _Seeds:
    """Return arrays for the members of `_Seeds`, not filled."""
    return _Seeds(
        np.empty(num_entries, np.uint32),
        np.empty(num_entries, np.uint16),
        np.empty(num_entries + 1, np.int64),
        np.empty(num_positions, np.uint32),
    )


@kernel
def _with_room(seeds: _Seeds, num_entries: int, num_positions: int) -> _Seeds:
    """Return the seeds in arrays that hold at least this many entries and positions."""
    docs, fields, starts, positions = seeds
    if num_entries > len(docs):
        docs = grown(docs, 2 * num_entries)
        fields = grown(fields, 2 * num_entries)
        starts = grown(starts, 2 * num_entries + 1)
    if num_positions > len(positions):
        positions = grown(positions, 2 * num_positions)
    return _Seeds(docs, fields, starts, positions)


@kernel(inline=True)
def _trimmed(seeds: _Seeds, num_entries: int, num_positions: int) -> _Seeds:
    """Return the seeds that were written, without the unused room."""
    seeds.starts[num_entries] = num_positions
    return _Seeds(
        seeds.docs[:num_entries],
        seeds.fields[:num_entries],
        seeds.starts[: num_entries + 1],
        seeds.positions[:num_positions],
    )


@kernel(inline=True, allocates=False)
def _decode_positions(
    positions: U8Array, offset: int, freq: int, out: U32Array, num_written: int
) -> int:
    """Append the positions of an entry, stored as deltas; return the offset after them."""
    position = int64(0)
    for i in range(num_written, num_written + freq):
        delta, offset = decode_varint(positions, offset)
        position += delta
        out[i] = position
    return offset


@kernel(allocates=False)
def _put_block(
    lists: PostingLists,
    positions: U8Array,
    block: _PickedBlock,
    scratch: _PhraseScratch,
    seeds: _Seeds,
    num_entries: int,
    num_positions: int,
) -> int:
    """Append the picked entries of a block to the seeds; return how many positions these have."""
    offset = block.start
    num_passed = int64(0)  # positions of the block that are before the offset
    for p in range(block.num_picked):
        i = scratch.block.picked[p]
        before = scratch.befores[i]
        field, freq = decode_entry(lists.postings, block.packing, i)
        offset = _seek(positions, block, offset, before, num_passed)
        num_passed = scratch.befores[i + 1]
        seeds.docs[num_entries + p] = scratch.block.docs[i]
        seeds.fields[num_entries + p] = field
        seeds.starts[num_entries + p] = num_positions
        offset = _decode_positions(positions, offset, freq, seeds.positions, num_positions)
        num_positions += freq
    return num_positions


@kernel
def _list_often(
    lists: PostingLists, word_positions: Positions, term: int, num_docs: int, bits: U64Array
) -> _Seeds:
    """Do the same as `_list_seeds` for a term most of whose blocks hold wanted documents.

    Each block is decoded as a whole; `bits` is the bitset of the `num_docs` wanted documents.
    """
    # Mostly a wanted document has one entry, with few positions; the arrays grow where it has more.
    seeds = _room_for_seeds(num_docs + 1, 2 * num_docs + 2)
    num_entries = int64(0)
    num_positions = int64(0)
    scratch = _phrase_scratch()
    cursor = open_postings(term)
    while True:
        cursor = next_block(lists, cursor)
        if cursor.size == 0:
            break
        block = _pick_entries(lists, word_positions, term, cursor, bits, scratch)
        if block.num_picked == 0:
            continue
        # Of a block, room for all positions: how many its picked entries have, decoding will tell.
        num_entries_max = num_entries + block.num_picked
        num_positions_max = num_positions + scratch.befores[cursor.size]
        if num_entries_max > len(seeds.docs) or num_positions_max > len(seeds.positions):
            seeds = _with_room(seeds, num_entries_max, num_positions_max)
        num_positions = _put_block(
            lists, word_positions.positions, block, scratch, seeds, num_entries, num_positions
        )
        num_entries += block.num_picked
    return _trimmed(seeds, num_entries, num_positions)


@kernel
def _list_seldom(
    lists: PostingLists, word_positions: Positions, term: int, wanted: U32Array
) -> _Seeds:
    """Do the same as `_list_seeds`, without reading blocks that hold no wanted document.

    A cursor gallops along the wanted documents, and skips the blocks in between.
    """
    # Mostly a wanted document has one entry, with few positions; the arrays grow where it has more.
    size = len(wanted) + 1
    seeds = _room_for_seeds(size, 2 * size)
    docs, fields, starts, seed_positions = seeds
    num_entries = int64(0)
    num_positions = int64(0)
    cursor = open_entries(term)
    at = open_positions()
    while True:
        cursor = advance_entry(lists, cursor, wanted)
        if cursor.size == 0:
            break
        field, freq = decode_entry(lists.postings, cursor.packing, cursor.entry)
        if num_entries == len(docs) or num_positions + freq > len(seed_positions):
            seeds = _with_room(seeds, num_entries + 1, num_positions + freq)
            docs, fields, starts, seed_positions = seeds
        docs[num_entries] = cursor.doc
        fields[num_entries] = field
        starts[num_entries] = num_positions
        offset = seek_positions(lists, word_positions, at, cursor)
        offset = _decode_positions(
            word_positions.positions, offset, freq, seed_positions, num_positions
        )
        at = after_entry(cursor, offset)
        num_entries += 1
        num_positions += freq
    return _trimmed(seeds, num_entries, num_positions)


@kernel
def _list_seeds(
    lists: PostingLists, word_positions: Positions, term: int, wanted: U32Array, bits: U64Array
) -> _Seeds:
    """Return the entries of a term in the wanted documents, with all their positions.

    Args:
        lists: of the segment.
        word_positions: of the segment.
        term: ordinal.
        wanted: documents, ascending.
        bits: their bitset, if most blocks hold some of them; else empty.
    """
    expect_ascending(wanted)
    if len(bits) > 0:
        return _list_often(lists, word_positions, term, len(wanted), bits)
    return _list_seldom(lists, word_positions, term, wanted)


@kernel(inline=True, allocates=False)
def _mark_followed(
    positions: U8Array,
    offset: int,
    freq: int,
    seeds: _Seeds,
    entry: int,
    distance: int,
    is_followed: U8Array,
) -> int:
    """Mark the seeds of an entry that a word follows; return the offset after its positions."""
    seed_positions = seeds.positions
    seed = seeds.starts[entry]
    stop = seeds.starts[entry + 1]
    if freq == 1 and stop == seed + 1:  # most entries: no branch that depends on positions
        position, offset = decode_varint(positions, offset)
        is_followed[seed] |= uint8(position - distance == int64(seed_positions[seed]))
        return offset
    position = int64(0)
    for _ in range(freq):
        delta, offset = decode_varint(positions, offset)
        position += delta
        wanted = position - distance
        # Both position lists ascend: merge them, shifted by the distance.
        while seed < stop and int64(seed_positions[seed]) < wanted:
            seed += 1
        if seed < stop and int64(seed_positions[seed]) == wanted:
            is_followed[seed] = 1
    return offset


@kernel(allocates=False)
def _follow_often(
    lists: PostingLists,
    word_positions: Positions,
    term: int,
    seeds: _Seeds,
    distance: int,
    bits: U64Array,
    scratch: _PhraseScratch,
    is_followed: U8Array,
) -> None:
    """Do the same as `_follow` for a term most of whose blocks hold documents of seeds.

    A block is decoded as a whole: from a dozen documents on, random access costs more.

    Args:
        lists: of the segment.
        word_positions: of the segment.
        term: ordinal.
        seeds: positions of the rarest word.
        distance: from the seed's word to this one.
        bits: bitset of the seeds' documents.
        scratch: to read a block.
        is_followed: output, by seed.
    """
    positions = word_positions.positions
    entry_docs, entry_fields, _, _ = seeds
    num_entries = len(entry_docs)
    entry = int64(0)
    cursor = open_postings(term)
    while True:
        cursor = next_block(lists, cursor)
        if cursor.size == 0:
            break
        block = _pick_entries(lists, word_positions, term, cursor, bits, scratch)
        offset = block.start
        num_passed = int64(0)  # positions of the block that are before the offset
        for p in range(block.num_picked):
            i = scratch.block.picked[p]
            doc = scratch.block.docs[i]
            field, freq = decode_entry(lists.postings, block.packing, i)
            while entry < num_entries and (
                entry_docs[entry] < doc
                or (entry_docs[entry] == doc and int64(entry_fields[entry]) < field)
            ):
                entry += 1
            if entry == num_entries:
                return
            if entry_docs[entry] != doc or int64(entry_fields[entry]) != field:
                continue
            offset = _seek(positions, block, offset, scratch.befores[i], num_passed)
            num_passed = scratch.befores[i + 1]
            offset = _mark_followed(positions, offset, freq, seeds, entry, distance, is_followed)


@kernel(allocates=False)
def _follow_seldom(
    lists: PostingLists,
    word_positions: Positions,
    term: int,
    seeds: _Seeds,
    distance: int,
    is_followed: U8Array,
) -> None:
    """Do the same as `_follow` for one term, without reading blocks that hold no seed."""
    entry_docs, entry_fields, _, _ = seeds
    num_entries = len(entry_docs)
    entry = int64(0)
    cursor = open_entries(term)
    at = open_positions()
    while True:
        cursor = advance_entry(lists, cursor, entry_docs)
        if cursor.size == 0:
            break
        doc = cursor.doc
        field, freq = decode_entry(lists.postings, cursor.packing, cursor.entry)
        # A document has entries in several fields, here and among the seeds: leapfrog these too.
        entry = max(entry, cursor.target)
        while entry < num_entries and entry_docs[entry] == doc and entry_fields[entry] < field:
            entry += 1
        if entry == num_entries:
            break
        if entry_docs[entry] != doc or entry_fields[entry] != field:
            continue
        # Same document and field: decode only this entry's positions.
        offset = seek_positions(lists, word_positions, at, cursor)
        offset = _mark_followed(
            word_positions.positions, offset, freq, seeds, entry, distance, is_followed
        )
        at = after_entry(cursor, offset)


@kernel
def _keep_seeds(seeds: _Seeds, is_kept: U8Array) -> _Seeds:
    """Return the seeds that are kept, without entries that keep none."""
    num_kept = int64(0)
    for one in is_kept:
        num_kept += int64(one)
    docs, fields, starts, positions = seeds
    kept = _room_for_seeds(min(num_kept, len(docs)), num_kept)
    kept_docs, kept_fields, kept_starts, kept_positions = kept
    num_entries = int64(0)
    num_positions = int64(0)
    for entry in range(len(docs)):
        first = num_positions
        for seed in range(starts[entry], starts[entry + 1]):
            if is_kept[seed]:
                kept_positions[num_positions] = positions[seed]
                num_positions += 1
        if num_positions > first:
            kept_docs[num_entries] = docs[entry]
            kept_fields[num_entries] = fields[entry]
            kept_starts[num_entries] = first
            num_entries += 1
    return _trimmed(kept, num_entries, num_positions)


@kernel
def _follow(
    lists: PostingLists,
    word_positions: Positions,
    terms: U32Array,
    seeds: _Seeds,
    distance: int,
    bits: U64Array,
) -> _Seeds:
    """Return the seeds that have one of the terms at `distance`, without entries that have none.

    Args:
        lists: of the segment.
        word_positions: of the segment.
        terms: ordinals; several where the word is half typed.
        seeds: positions of the rarest word.
        distance: from the seed's word to this one; negative if this one comes before.
        bits: bitset of the seeds' documents, if most blocks of the terms hold some; else empty.
    """
    expect_sorted(seeds.docs)
    # One mark per seed, whichever of the terms follows it.
    is_followed = np.zeros(len(seeds.positions), np.uint8)
    if len(bits) > 0:
        scratch = _phrase_scratch()
        for term in terms:
            _follow_often(
                lists, word_positions, int64(term), seeds, distance, bits, scratch, is_followed
            )
    else:
        for term in terms:
            _follow_seldom(lists, word_positions, int64(term), seeds, distance, is_followed)
    return _keep_seeds(seeds, is_followed)


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
        return [
            int(self.terms[start]) if end - start == 1 else -1
            for start, end in itertools.pairwise([0, *self.ends.tolist()])
        ]

    @property
    def has_all(self) -> bool:
        """Whether each word has a term."""
        return all(start < end for start, end in itertools.pairwise([0, *self.ends.tolist()]))


@kernel
def _bits_if_many(docs: U32Array, num_docs: int, cost: int, often_share: int) -> U64Array:
    """Return the bitset of documents if a list has many of them per block; else an empty one."""
    if len(docs) * often_share < max(cost, BLOCK_ENTRIES):
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
    often_share: int,
) -> tuple[U32Array, U16Array, U32Array]:
    """Kernel of `find_phrase`; returns the members of `Entries`."""
    if len(docs) == 0:
        return np.empty(0, np.uint32), np.empty(0, np.uint16), np.empty(0, np.uint32)
    terms, ends = words
    order, costs = _cheapest_first(lists, words)
    # A word of several terms cannot be the seed; there is always another one.
    first = order[0]
    bits = _bits_if_many(docs, num_docs, costs[first], often_share)
    seeds = _list_seeds(lists, positions, int64(terms[ends[first] - 1]), docs, bits)
    for word in order[1:]:
        if len(seeds.docs) == 0:
            break
        start = ends[word - 1] if word > 0 else int64(0)
        some = terms[start : ends[word]]
        share = often_share if len(some) == 1 else 0
        bits = _bits_if_many(seeds.docs, num_docs, costs[word], share)
        seeds = _follow(lists, positions, some, seeds, word - first, bits)
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
    often_share: int,
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
    return _find(searched.scored.lists, positions, words, docs, searched.num_docs, often_share)


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
    allowed: NDArray[np.uint64],
    candidates: NDArray[np.uint32] | None,
) -> Entries:
    """Find a phrase in the documents that have its words in searched fields.

    Returns entries like those of a term; those in other fields may be among them.

    Args:
        lists: posting lists of the segment.
        terms: of the phrase, at least two words.
        allowed: bitset of documents; empty: all.
        candidates: the only documents to look at, ascending (`allowed` is then ignored); or None.
    """
    if not terms.has_all:
        return NO_ENTRIES
    pair = find_pair(lists.segment, terms.only)
    if pair is not None:
        pair = _narrow(pair, lists, allowed, candidates)
        if len(terms.ends) == 2 and lists.fields.are_all_searched:
            return pair
        candidates = _without_repeats(pair.docs)
    wanted = Wanted.of(allowed, candidates)
    return Entries(*_search(lists.searched, lists.index.positions, terms, wanted, _OFTEN_SHARE))


def _narrow(
    entries: Entries,
    lists: TermLists,
    allowed: NDArray[np.uint64],
    candidates: NDArray[np.uint32] | None,
) -> Entries:
    """Return the entries in the allowed documents, or in the candidates; as in `search_phrase`."""
    if candidates is None and len(allowed) == 0:
        return entries
    if candidates is not None:
        allowed = bitset_of(candidates, lists.index.num_docs)
    num_entries = len(entries.docs)
    picked = np.empty(num_entries + 1, np.int64)
    at = picked[: pick_positions(entries.docs, num_entries, allowed, picked)]
    return Entries(entries.docs[at], entries.fields[at], entries.freqs[at])


def _without_repeats(docs: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Return ascending documents, each once."""
    if len(docs) == 0:
        return docs
    is_new = np.ones(len(docs), np.bool_)
    is_new[1:] = docs[1:] != docs[:-1]
    return docs[is_new]


def find_phrase(index: TextIndex, terms: PhraseTerms, docs: NDArray[np.uint32]) -> Entries:
    """Find where words are adjacent, in order; return entries like those of a term.

    Args:
        index: the segment's text structures.
        terms: of at least two words; queries have at most some dozens.
        docs: where to look, ascending.
    """
    if not terms.has_all:
        return NO_ENTRIES
    return Entries(*_find(index.lists, index.positions, terms, docs, index.num_docs, _OFTEN_SHARE))
