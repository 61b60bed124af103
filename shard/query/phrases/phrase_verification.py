"""Which seeds of a phrase another of its words follows, at its distance (`phrase_seeds`).

    seeds of mile    doc 3 title 1, 44    doc 8 text 7      distance of green: -1
    green            doc 3 title 0, 9     doc 5 …           marked: 1

Documents, fields within a document, and positions within a field ascend in both lists, so each pair
is merged. As for the seeds, a list is read by block or by entry.

A half-typed word has several terms; a seed is followed if any of them is there, so they mark the
same seeds in turn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from common.kernels.decorator import arguments, kernel
from common.kernels.order_checks import expect_sorted
from common.kernels.types import U32, U8Array, U32Array, U64Array, int64, uint8
from shard.query.phrases.phrase_seeds import Seeds, keep_seeds
from shard.query.postings.position_blocks import (
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
class _Marks(NamedTuple):
    """The seeds, and which of them a word follows.

    Attributes:
        seeds: positions of the rarest word.
        distance: from the seed's word to this one; negative if this one comes before.
        is_followed: output, by seed.
    """

    seeds: Seeds
    distance: int
    is_followed: NDArray[np.uint8]


@kernel(inline=True, allocates=False)
def _seek_entry(seeds: Seeds, entry: int, doc: U32, field: int) -> int:
    """Return the first entry of the seeds from `entry` on that is not before a field."""
    while entry < len(seeds.docs) and (
        seeds.docs[entry] < doc or (seeds.docs[entry] == doc and int64(seeds.fields[entry]) < field)
    ):
        entry += 1
    return entry


@kernel(inline=True, allocates=False)
def _mark_entry(positions: U8Array, offset: int, freq: int, marks: _Marks, entry: int) -> int:
    """Mark the seeds of an entry that a word follows; return the offset after its positions."""
    seeds, distance, is_followed = marks
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
def _mark_by_block(
    lists: PostingLists,
    word_positions: Positions,
    term: int,
    marks: _Marks,
    bits: U64Array,
    scratch: PickScratch,
) -> None:
    """Mark the seeds that a term follows, most of whose blocks hold documents of seeds (`bits`)."""
    positions = word_positions.positions
    seeds = marks.seeds
    entry = int64(0)
    cursor = open_postings(term)
    while True:
        cursor = next_block(lists, cursor)
        if cursor.size == 0:
            break
        block = pick_entries(lists, word_positions, cursor, bits, scratch)
        offset = block.start
        num_passed = int64(0)  # positions of the block that are before the offset
        for p in range(block.num_picked):
            i = scratch.block.picked[p]
            doc = scratch.block.docs[i]
            field, freq = decode_entry(lists.postings, block.packing, i)
            entry = _seek_entry(seeds, entry, doc, field)
            if entry == len(seeds.docs):
                return
            if seeds.docs[entry] != doc or int64(seeds.fields[entry]) != field:
                continue
            offset = seek_picked(positions, block, offset, scratch.befores[i], num_passed)
            num_passed = scratch.befores[i + 1]
            offset = _mark_entry(positions, offset, freq, marks, entry)


@kernel(allocates=False)
def _mark_by_entry(
    lists: PostingLists, word_positions: Positions, term: int, marks: _Marks
) -> None:
    """Mark the seeds that a term follows, without reading blocks that hold no seed."""
    seeds = marks.seeds
    entry = int64(0)
    cursor = open_entries(term)
    at = open_positions()
    while True:
        cursor = advance_entry(lists, cursor, seeds.docs)
        if cursor.size == 0:
            break
        field, freq = decode_entry(lists.postings, cursor.packing, cursor.entry)
        # A document has entries in several fields, here and among the seeds: leapfrog these too.
        entry = _seek_entry(seeds, max(entry, cursor.target), cursor.doc, field)
        if entry == len(seeds.docs):
            break
        if seeds.docs[entry] != cursor.doc or int64(seeds.fields[entry]) != field:
            continue
        # Same document and field: decode only this entry's positions.
        offset = seek_positions(lists, word_positions, at, cursor)
        offset = _mark_entry(word_positions.positions, offset, freq, marks, entry)
        at = after_entry(cursor, offset)


@kernel
def follow(
    lists: PostingLists,
    word_positions: Positions,
    terms: U32Array,
    seeds: Seeds,
    distance: int,
    bits: U64Array,
) -> Seeds:
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
    marks = _Marks(seeds, distance, np.zeros(len(seeds.positions), np.uint8))
    if len(bits) > 0:
        scratch = pick_scratch()
        for term in terms:
            _mark_by_block(lists, word_positions, int64(term), marks, bits, scratch)
    else:
        for term in terms:
            _mark_by_entry(lists, word_positions, int64(term), marks)
    return keep_seeds(seeds, marks.is_followed)
