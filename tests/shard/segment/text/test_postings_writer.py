"""Lists written entry by entry, read back with the cursor: lists of any length, empty ones too."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from shard.segment.text.positions import Positions
from shard.segment.text.postings import BLOCK_ENTRIES, Entries, PostingLists, new_block
from shard.segment.text.postings_cursor import (
    BlockCursor,
    decode_entries,
    next_block,
    open_postings,
)
from shard.segment.text.postings_writer import (
    ListInWriting,
    Written,
    end_list,
    note_positions,
    open_list,
    put_entry,
    reserve_lists,
    trim_lists,
)

Entry = tuple[int, int, int]
"""Document, field, frequency."""
ENTRIES = st.lists(
    st.tuples(st.integers(0, 10_000), st.integers(0, 300), st.integers(1, 2**24 - 1)),
    max_size=3 * BLOCK_ENTRIES,
    unique_by=lambda entry: entry[:2],
).map(sorted)


def written_lists(
    lists: Sequence[Sequence[Entry]],
) -> tuple[PostingLists, list[int], list[list[int]]]:
    """Return the lists, documents of each, and where the positions of its blocks begin.

    The positions of an entry take as many bytes as its place in the list.
    """
    made = PostingLists(*reserve_lists(len(lists), sum(map(len, lists))))
    block = Entries(*new_block())
    size = len(made.skip_docs)
    starts = np.zeros(len(lists) + 1, np.int64)
    positions = Positions(np.zeros(0, np.uint8), starts, np.zeros(size, np.uint32))
    cursor = row = offset = 0
    num_docs = []
    rows = []
    for number, entries in enumerate(lists):
        target = ListInWriting(made, number, block)
        written = Written(*open_list(made, number, cursor, row))
        positions.position_starts[number] = offset
        first_row = row
        for place, (doc, field, freq) in enumerate(entries):
            written = Written(*put_entry(target, written, doc, field, freq))
            note_positions(target, written, positions, offset)
            offset += place
        cursor, row = end_list(target, written)
        num_docs.append(written.num_docs)
        rows.append(positions.skip_positions[first_row:row].tolist())
    return PostingLists(*trim_lists(made, len(lists), row, cursor)), num_docs, rows


def read_list(lists: PostingLists, number: int) -> list[Entry]:
    """Return the entries of a list."""
    found: list[Entry] = []
    block = Entries(*new_block())
    cursor = BlockCursor(*open_postings(number))
    while (cursor := BlockCursor(*next_block(lists, cursor))).size > 0:
        decode_entries(lists, cursor, block)
        found += zip(*(column[: cursor.size].tolist() for column in block), strict=True)
    return found


@given(st.lists(ENTRIES, max_size=4))
@example([[(doc, 0, 1) for doc in range(BLOCK_ENTRIES)], [], [(7, 8, 9)]])
@example([[(doc, 3, 1) for doc in range(BLOCK_ENTRIES + 1)], [(1, 1, 1)]])
def test_lists_are_read_as_they_were_written(lists: list[list[Entry]]) -> None:
    made, num_docs, rows = written_lists(lists)

    assert [read_list(made, number) for number in range(len(lists))] == lists
    assert num_docs == [len({doc for doc, _, _ in entries}) for entries in lists]
    for entries, own in zip(lists, rows, strict=True):
        blocks = range(0, len(entries), BLOCK_ENTRIES)
        assert own == ([sum(range(first)) for first in blocks] if len(blocks) > 1 else [])
