"""Seeds of a phrase: the positions of its rarest word, which the other words confirm or reject.

    phrase "green mile", mile is rarer     entry   doc 3, title   doc 8, text
                                           seeds   1  44          7
    green stands one before 1 and before 7         ✓  ─           ✓
    kept                                           1              7

A list is read in one of two ways. Where most of its blocks hold a wanted document, *by block*: each
is decoded as a whole (`shard/query/postings/position_blocks.py`). Elsewhere *by entry*: a cursor
gallops along the wanted documents, and skips the blocks in between.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from common.kernels.array_growth import grown
from common.kernels.decorator import arguments, kernel
from common.kernels.order_checks import expect_ascending
from common.kernels.types import U8Array, U32Array, U64Array, int64
from shard.query.postings.position_blocks import (
    PickedBlock,
    PickScratch,
    pick_entries,
    pick_scratch,
    seek_picked,
)
from shard.segment.text.positions import Positions, decode_varint
from shard.segment.text.postings import PostingLists, decode_entry
from shard.segment.text.postings_cursor import (
    advance_entry,
    after_entry,
    next_block,
    open_entries,
    open_positions,
    open_postings,
    seek_positions,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray


@arguments
class Seeds(NamedTuple):
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


@kernel(inline=True)
def _room_for_seeds(num_entries: int, num_positions: int) -> Seeds:
    """Return arrays for the members of `Seeds`, not filled."""
    return Seeds(
        np.empty(num_entries, np.uint32),
        np.empty(num_entries, np.uint16),
        np.empty(num_entries + 1, np.int64),
        np.empty(num_positions, np.uint32),
    )


@kernel
def _with_room(seeds: Seeds, num_entries: int, num_positions: int) -> Seeds:
    """Return the seeds in arrays that hold at least this many entries and positions."""
    docs, fields, starts, positions = seeds
    if num_entries > len(docs):
        docs = grown(docs, 2 * num_entries)
        fields = grown(fields, 2 * num_entries)
        starts = grown(starts, 2 * num_entries + 1)
    if num_positions > len(positions):
        positions = grown(positions, 2 * num_positions)
    return Seeds(docs, fields, starts, positions)


@kernel(inline=True)
def _trimmed(seeds: Seeds, num_entries: int, num_positions: int) -> Seeds:
    """Return the seeds that were written, without the unused room."""
    seeds.starts[num_entries] = num_positions
    return Seeds(
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
    block: PickedBlock,
    scratch: PickScratch,
    seeds: Seeds,
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
        offset = seek_picked(positions, block, offset, before, num_passed)
        num_passed = scratch.befores[i + 1]
        seeds.docs[num_entries + p] = scratch.block.docs[i]
        seeds.fields[num_entries + p] = field
        seeds.starts[num_entries + p] = num_positions
        offset = _decode_positions(positions, offset, freq, seeds.positions, num_positions)
        num_positions += freq
    return num_positions


@kernel
def _list_by_block(
    lists: PostingLists, word_positions: Positions, term: int, num_docs: int, bits: U64Array
) -> Seeds:
    """Do the same as `list_seeds` for a term most of whose blocks hold wanted documents.

    Each block is decoded as a whole; `bits` is the bitset of the `num_docs` wanted documents.
    """
    # Mostly a wanted document has one entry, with few positions; the arrays grow where it has more.
    seeds = _room_for_seeds(num_docs + 1, 2 * num_docs + 2)
    num_entries = int64(0)
    num_positions = int64(0)
    scratch = pick_scratch()
    cursor = open_postings(term)
    while True:
        cursor = next_block(lists, cursor)
        if cursor.size == 0:
            break
        block = pick_entries(lists, word_positions, cursor, bits, scratch)
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
def _list_by_entry(
    lists: PostingLists, word_positions: Positions, term: int, wanted: U32Array
) -> Seeds:
    """Do the same as `list_seeds`, without reading blocks that hold no wanted document.

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
def list_seeds(
    lists: PostingLists, word_positions: Positions, term: int, wanted: U32Array, bits: U64Array
) -> Seeds:
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
        return _list_by_block(lists, word_positions, term, len(wanted), bits)
    return _list_by_entry(lists, word_positions, term, wanted)


@kernel
def keep_seeds(seeds: Seeds, is_kept: U8Array) -> Seeds:
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
