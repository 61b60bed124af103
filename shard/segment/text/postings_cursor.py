"""Cursors: how kernels walk along a posting list.

All walks have one of two shapes. Where many of a list's documents are wanted, they go block by
block, and look at all documents of each:

    cursor = open_postings(term)
    while (cursor := advance_wanted(lists, cursor, wanted)).size > 0:
        packing = decode_docs(lists, cursor, docs)              # or decode_wanted, decode_entries
        for i in range(cursor.size): …

Where few are, they go from entry to entry, and decode only what is in between:

    cursor = open_entries(term)
    while (cursor := advance(lists, cursor, targets)).size > 0:
        field, freq = decode_entry(lists.postings, cursor.packing, cursor.entry)
        …                                                       # of targets[cursor.target]

`advance` is Lucene's `PostingsEnum.advance`, tantivy's `DocSet::seek`, for an ascending array of
targets: the list and the targets leapfrog. `advance_block` reads nothing but the skip rows.
`seek_positions` leads from an entry to its positions, past those of the entries that were skipped.

A cursor is a value of a few numbers, which the compiler keeps in registers: to move it is to make
the next one. It holds no array, as numba would count references to these.

Costs: 5 ns to skip to a block, 1.3 ns an entry decoded, 0.5 ns an entry skipped within a block.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from common.kernels.decorator import arguments, kernel
from common.kernels.order_checks import expect_sorted
from common.kernels.types import U32, I64Array, U32Array, U64Array, int64, uint32
from shard.segment.doc_sets import NO_BITS, NO_DOCS, pick_positions, set_bit
from shard.segment.text.positions import Positions, skip_varints
from shard.segment.text.postings import (
    BLOCK_ENTRIES,
    Entries,
    Packing,
    PostingLists,
    decode_block,
    decode_block_docs,
    open_block,
    skip_to,
    sum_freqs,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray


@arguments
class BlockCursor(NamedTuple):
    """A block of a posting list.

    Attributes:
        term: ordinal of the list.
        block: number of the block in it; -1 before the first.
        size: entries of the block; 0 before the first and after the last.
        target: the first of the targets that the block, or one after it, can hold.
    """

    term: int
    block: int
    size: int
    target: int


@arguments
class EntryCursor(NamedTuple):
    """An entry of a posting list.

    Attributes:
        term: ordinal of the list.
        block: number of its block; -1 before the first.
        size: entries of the block; 0 before the first and after the last.
        target: the target that is the entry's document.
        entry: number of the entry in its block.
        doc: its document.
        packing: of its block.
    """

    term: int
    block: int
    size: int
    target: int
    entry: int
    doc: U32
    packing: Packing


@arguments
class PositionsCursor(NamedTuple):
    """Where the positions of a block's next entries begin.

    Attributes:
        block: number of the block; -1 before the first.
        offset: in `positions`.
        entry: the first entry of the block whose positions come there.
    """

    block: int
    offset: int
    entry: int


@arguments
class Wanted(NamedTuple):
    """The documents to look at.

    Attributes:
        bits: their bitset; empty: all documents. Of listed ones, only what tests the documents of a
            posting list takes it (`scan`, `add_terms`).
        docs: the same, ascending, if `is_listed`: blocks that hold none of them are skipped.
        is_listed: whether they are few enough to be worth it.
    """

    bits: NDArray[np.uint64]
    docs: NDArray[np.uint32]
    is_listed: bool

    @classmethod
    def of(cls, bits: NDArray[np.uint64]) -> Wanted:
        """Return the documents of a bitset; of an empty one, all."""
        return cls(bits, NO_DOCS, False)

    @classmethod
    def among(cls, docs: NDArray[np.uint32], bits: NDArray[np.uint64] = NO_BITS) -> Wanted:
        """Return listed documents, ascending; with their bitset, if that is needed."""
        return cls(bits, docs, True)


ALL_DOCS: Final = Wanted.of(NO_BITS)
"""Every document is wanted."""


@arguments
class BlockScratch(NamedTuple):
    """Scratch space to read a block.

    Attributes:
        docs: its documents.
        picked: positions among these, with room for one more.
    """

    docs: NDArray[np.uint32]
    picked: NDArray[np.int64]


@kernel
def block_scratch() -> BlockScratch:
    """Return scratch space to read a block."""
    return BlockScratch(np.empty(BLOCK_ENTRIES, np.uint32), np.empty(BLOCK_ENTRIES + 1, np.int64))


@kernel(allocates=False)
def gallop(docs: U32Array, start: int, wanted: int) -> int:
    """Return the first position from `start` on whose document is at least `wanted`.

    The documents are in ascending order from there on; some may be equal.
    """
    step = 1
    low = start
    high = start
    size = len(docs)
    # Double the step until past it, then bisect the last step.
    while high < size and int64(docs[high]) < wanted:
        low = high + 1
        high += step
        step *= 2
    high = min(high, size)
    expect_sorted(docs[start:high])
    while low < high:
        middle = (low + high) >> 1
        if int64(docs[middle]) < wanted:
            low = middle + 1
        else:
            high = middle
    return low


# --- block by block


@kernel(inline=True, allocates=False)
def open_postings(term: int) -> BlockCursor:
    """Return a cursor before the first block of a list, and before the first target."""
    return BlockCursor(term, -1, 0, 0)


@kernel(inline=True, allocates=False)
def count_blocks(lists: PostingLists, term: int) -> int:
    """Return how many blocks a term has; a single block has no row in the skip arrays."""
    return max(int64(lists.skip_starts[term + 1]) - int64(lists.skip_starts[term]), 1)


@kernel(inline=True, allocates=False)
def block_offset(lists: PostingLists, offsets: U32Array, term: int, block: int) -> int:
    """Return the offset of a term's block, from `skip_postings` or `skip_positions`."""
    if block == 0:
        return int64(0)
    return int64(offsets[int64(lists.skip_starts[term]) + block])


@kernel(inline=True, allocates=False)
def at_block(lists: PostingLists, term: int, block: int, target: int) -> BlockCursor:
    """Return a cursor at a block of a list; after the last one its size is 0."""
    size = min(int64(lists.entry_counts[term]) - block * BLOCK_ENTRIES, BLOCK_ENTRIES)
    return BlockCursor(term, block, max(size, 0), target)


@kernel(inline=True, allocates=False)
def next_block(lists: PostingLists, cursor: BlockCursor) -> BlockCursor:
    """Move to the next block."""
    return at_block(lists, cursor.term, cursor.block + 1, cursor.target)


@kernel(allocates=False)
def advance_block(lists: PostingLists, cursor: BlockCursor, targets: U32Array) -> BlockCursor:
    """Move to the next block that can hold one of the targets from the cursor's on.

    Args:
        lists: of a segment.
        cursor: of one of them.
        targets: ascending documents.
    """
    term, block, _, target = cursor
    skip_docs = lists.skip_docs
    block += 1
    first_row = int64(lists.skip_starts[term])
    num_blocks = int64(lists.skip_starts[term + 1]) - first_row
    if num_blocks > 0:
        if block < num_blocks:
            target = gallop(targets, target, int64(skip_docs[first_row + block]))
        if target < len(targets):
            # `<`, not `<=`: the entries of a document's fields may lie in two blocks.
            while block + 1 < num_blocks and skip_docs[first_row + block + 1] < targets[target]:
                block += 1
    if target == len(targets):
        return BlockCursor(term, block, 0, target)
    return at_block(lists, term, block, target)


@kernel(inline=True, allocates=False)
def advance_wanted(lists: PostingLists, cursor: BlockCursor, wanted: Wanted) -> BlockCursor:
    """Move to the next block that can hold a wanted document."""
    if wanted.is_listed:
        return advance_block(lists, cursor, wanted.docs)
    return next_block(lists, cursor)


@kernel(inline=True, allocates=False)
def block_start(lists: PostingLists, cursor: BlockCursor) -> int:
    """Return where the cursor's block begins in the postings."""
    term = cursor.term
    return lists.posting_starts[term] + block_offset(lists, lists.skip_postings, term, cursor.block)


@kernel(inline=True, allocates=False)
def decode_docs(lists: PostingLists, cursor: BlockCursor, docs: U32Array) -> Packing:
    """Decode the documents of the cursor's block; return how its entries are packed."""
    return decode_block_docs(lists.postings, block_start(lists, cursor), cursor.size, docs)


@kernel
def docs_of_terms(lists: PostingLists, terms: U32Array, num_words: int) -> U64Array:
    """Return the bitset of the documents of some terms, of `num_words` words."""
    bits = np.zeros(num_words, np.uint64)
    docs = np.empty(BLOCK_ENTRIES, np.uint32)
    for term in terms:
        cursor = open_postings(term)
        while True:
            cursor = next_block(lists, cursor)
            if cursor.size == 0:
                break
            decode_docs(lists, cursor, docs)
            for i in range(cursor.size):
                set_bit(bits, docs[i])
    return bits


@kernel(inline=True, allocates=False)
def decode_entries(lists: PostingLists, cursor: BlockCursor, entries: Entries) -> None:
    """Decode the cursor's block."""
    decode_block(lists.postings, block_start(lists, cursor), cursor.size, entries)


@kernel(inline=True, allocates=False)
def pick_wanted(docs: U32Array, size: int, wanted: U64Array, picked: I64Array) -> int:
    """Write the positions of the wanted entries of a decoded block; return their number.

    Args:
        docs: of the block.
        size: entries of the block.
        wanted: bitset of documents; empty: all are wanted.
        picked: output, with room for one more.
    """
    if len(wanted) > 0:
        return pick_positions(docs, size, wanted, picked)
    for i in range(size):
        picked[i] = i
    return size


@kernel(inline=True, allocates=False)
def decode_wanted(
    lists: PostingLists, cursor: BlockCursor, wanted: U64Array, scratch: BlockScratch
) -> tuple[int, Packing]:
    """Decode the documents of the cursor's block, and pick the wanted entries.

    Returns:
        How many are picked, and how the entries are packed.
    """
    packing = decode_docs(lists, cursor, scratch.docs)
    return pick_wanted(scratch.docs, cursor.size, wanted, scratch.picked), packing


# --- from entry to entry


@kernel(inline=True, allocates=False)
def open_entries(term: int) -> EntryCursor:
    """Return a cursor before the first entry of a list, and before the first target."""
    return EntryCursor(term, -1, 0, 0, 0, uint32(0), Packing(0, 0, 0, 0, 0))


@kernel(inline=True, allocates=False)
def _advance(
    lists: PostingLists, cursor: EntryCursor, targets: U32Array, target: int
) -> EntryCursor:
    """Move to the next entry whose document is one of the targets from `target` on."""
    term, block, size, _, entry, doc, packing = cursor
    entry += 1
    while True:
        if target == len(targets):
            size = int64(0)
            break
        if entry >= size:
            # Skip the blocks that hold no target.
            at = advance_block(lists, BlockCursor(term, block, size, target), targets)
            block, size, target = at.block, at.size, at.target
            if size == 0:
                break
            doc, packing = open_block(lists.postings, block_start(lists, at))
            entry = int64(0)
        # Leapfrog: the list and the targets each seek to the other's next document.
        entry, doc = skip_to(lists.postings, packing, size, entry, doc, targets[target])
        if entry == size:
            continue
        if doc == targets[target]:
            break
        target = gallop(targets, target, int64(doc))
        if target < len(targets) and doc == targets[target]:
            break
        entry += 1
    return EntryCursor(term, block, size, target, entry, doc, packing)


@kernel(inline=True, allocates=False)
def advance(lists: PostingLists, cursor: EntryCursor, targets: U32Array) -> EntryCursor:
    """Move to the first entry of the next document that is one of the targets.

    Args:
        lists: of a segment.
        cursor: of one of them.
        targets: ascending documents.
    """
    past = int64(cursor.size > 0)  # before the first entry, the first target is still to come
    return _advance(lists, cursor, targets, cursor.target + past)


@kernel(inline=True, allocates=False)
def advance_entry(lists: PostingLists, cursor: EntryCursor, targets: U32Array) -> EntryCursor:
    """Move to the next entry of one of the targets, which may be of the same document.

    Args:
        lists: of a segment.
        cursor: of one of them.
        targets: ascending documents; of equal ones, the first is meant.
    """
    return _advance(lists, cursor, targets, cursor.target)


@kernel(inline=True, allocates=False)
def open_positions() -> PositionsCursor:
    """Return a cursor before the positions of a list."""
    return PositionsCursor(-1, 0, 0)


@kernel(inline=True, allocates=False)
def block_positions(lists: PostingLists, word_positions: Positions, term: int, block: int) -> int:
    """Return where the positions of a block begin."""
    start = word_positions.position_starts[term]
    return start + block_offset(lists, word_positions.skip_positions, term, block)


@kernel(inline=True, allocates=False)
def seek_positions(
    lists: PostingLists, word_positions: Positions, at: PositionsCursor, cursor: EntryCursor
) -> int:
    """Return where the positions of the cursor's entry begin.

    They are variable in length, without an index inside a block: those of the entries since `at`
    are skipped.
    """
    _, offset, entry = at
    if at.block != cursor.block:
        offset = block_positions(lists, word_positions, cursor.term, cursor.block)
        entry = int64(0)
    num_skipped = sum_freqs(lists.postings, cursor.packing, entry, cursor.entry)
    return skip_varints(word_positions.positions, offset, num_skipped)


@kernel(inline=True, allocates=False)
def after_entry(cursor: EntryCursor, offset: int) -> PositionsCursor:
    """Return where the positions of the next entry begin: after those of the cursor's."""
    return PositionsCursor(cursor.block, offset, cursor.entry + 1)
