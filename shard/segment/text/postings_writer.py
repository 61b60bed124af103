"""Writes posting lists, entry by entry: the counterpart of `postings_cursor`.

    lists = reserve_lists(num_lists, num_entries)
    written = open_list(lists, number, cursor, row)
    for …: written = put_entry(target, written, doc, field, freq)     # by document, then field
           note_positions(target, written, positions, offset)         # lists that have positions
    cursor, row = end_list(target, written)                           # the next list begins there
    lists = trim_lists(lists, num_lists, row, cursor)

Entries gather in a block; the entry after the last that fits encodes it. Like a cursor, how far a
list is written is a value of a few numbers, which the compiler keeps in registers.

A list of several blocks has a skip row for each; one of a single block has none. Which it will be
is known at its end, so each list writes its first row, and the next list overwrites that of a
single block.

Cost: 2 ns an entry, most of it for packing its block.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from common.kernels.decorator import IS_CHECKED, arguments, kernel
from common.kernels.types import int64
from shard.segment.text.positions import Positions
from shard.segment.text.postings import (
    BLOCK_ENTRIES,
    BLOCK_HEADER_BYTES,
    ENTRY_BYTES_MAX,
    POSTINGS_PADDING,
    Entries,
    PostingLists,
    encode_block,
)


@arguments
class ListInWriting(NamedTuple):
    """The list that is being written.

    Attributes:
        lists: with room for this one.
        number: of the list.
        block: its entries that are not in `lists` yet.
    """

    lists: PostingLists
    number: int
    block: Entries


@arguments
class Written(NamedTuple):
    """The position up to which a list is written.

    Attributes:
        cursor: where its open block begins.
        row: skip row of this block.
        filled: entries of the block so far.
        num_docs: documents of the list so far.
        last_doc: the last of them; -1: none yet.
    """

    cursor: int
    row: int
    filled: int
    num_docs: int
    last_doc: int


@kernel
def lists_room(num_lists: int, num_entries: int) -> tuple[int, int]:
    """Return how many skip rows and bytes lists take at most, padding included."""
    num_blocks = num_entries // BLOCK_ENTRIES + num_lists
    num_bytes = num_entries * ENTRY_BYTES_MAX + num_blocks * BLOCK_HEADER_BYTES
    return num_blocks, num_bytes + POSTINGS_PADDING


@kernel
def reserve_lists(num_lists: int, num_entries: int) -> PostingLists:
    """Return `PostingLists` with room for the given numbers of lists and entries."""
    num_rows, num_bytes = lists_room(num_lists, num_entries)
    return PostingLists(
        np.empty(num_bytes, np.uint8),
        np.empty(num_lists + 1, np.int64),
        np.empty(num_lists, np.uint32),
        np.empty(num_lists + 1, np.uint32),
        np.empty(num_rows, np.uint32),
        np.empty(num_rows, np.uint32),
    )


@kernel
def trim_lists(lists: PostingLists, num_lists: int, num_rows: int, cursor: int) -> PostingLists:
    """Return the written part of reserved lists: their terms, skip rows and bytes."""
    lists.posting_starts[num_lists] = cursor
    lists.skip_starts[num_lists] = num_rows
    lists.postings[cursor : cursor + POSTINGS_PADDING] = 0
    return PostingLists(
        lists.postings[: cursor + POSTINGS_PADDING].copy(),
        lists.posting_starts[: num_lists + 1].copy(),
        lists.entry_counts[:num_lists].copy(),
        lists.skip_starts[: num_lists + 1].copy(),
        lists.skip_docs[:num_rows].copy(),
        lists.skip_postings[:num_rows].copy(),
    )


@kernel(inline=True, allocates=False)
def open_list(lists: PostingLists, number: int, cursor: int, row: int) -> Written:
    """Begin a list where the one before ends."""
    lists.posting_starts[number] = cursor
    lists.skip_starts[number] = row
    return Written(cursor, row, int64(0), int64(0), int64(-1))


@kernel(allocates=False)
def _end_block(target: ListInWriting, written: Written) -> int:
    """Write the open block and its skip row; return where the next block begins."""
    lists, number, block = target
    lists.skip_docs[written.row] = block.docs[0]
    lists.skip_postings[written.row] = written.cursor - lists.posting_starts[number]
    return encode_block(lists.postings, written.cursor, block, written.filled)


@kernel(inline=True, allocates=False)
def put_entry(target: ListInWriting, written: Written, doc: int, field: int, freq: int) -> Written:
    """Append an entry; those of a list come by document, then field."""
    cursor, row, filled, num_docs, last_doc = written
    if IS_CHECKED:
        assert doc >= last_doc, "the entries are not in order"
    if filled == BLOCK_ENTRIES:
        cursor = _end_block(target, written)
        row += 1
        filled = int64(0)
    docs, fields, freqs = target.block
    docs[filled] = doc
    fields[filled] = field
    freqs[filled] = freq
    # A document counts once, whatever its number of fields.
    return Written(cursor, row, filled + 1, num_docs + (doc != last_doc), doc)


@kernel(inline=True, allocates=False)
def note_positions(
    target: ListInWriting, written: Written, positions: Positions, offset: int
) -> None:
    """Note where the positions of the entry just put begin; the first of a block leads to all."""
    if written.filled == 1:
        start = positions.position_starts[target.number]
        positions.skip_positions[written.row] = offset - start


@kernel(inline=True, allocates=False)
def end_list(target: ListInWriting, written: Written) -> tuple[int, int]:
    """Write the last block of a list, and how many entries it has.

    Returns:
        Where the next list begins, and its first skip row.
    """
    lists, number, _ = target
    first_row = int64(lists.skip_starts[number])
    lists.entry_counts[number] = (written.row - first_row) * BLOCK_ENTRIES + written.filled
    if written.filled == 0:
        return written.cursor, first_row
    cursor = _end_block(target, written)
    return cursor, first_row if written.row == first_row else written.row + 1
