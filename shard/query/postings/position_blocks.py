"""The positions of a posting list's wanted entries, block by block.

Where most blocks of a list hold wanted documents, a block is decoded as a whole: from a dozen
entries on, that is cheaper than to seek each one (`shard/segment/text/postings_cursor.py`).
Positions have no index inside a block; sums of the frequencies say how many to skip:

    entries       0    1    2    3        picked: 1 and 3
    freqs         2    1    4    1
    befores       0    2    3    7    8   positions of the entries before each, then of all
    positions     a a  b  c c c c  d      where every one takes a byte, d is at start + 7;
                                          else seven numbers are skipped

Cost: that of the postings cursor for all entries of a block, and of `skip_varints` for the rest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from common.kernels.decorator import arguments, kernel
from common.kernels.types import U8Array, U64Array
from shard.segment.text.positions import Positions, are_bytes, skip_varints
from shard.segment.text.postings import BLOCK_ENTRIES, Packing, PostingLists, sum_freqs_before
from shard.segment.text.postings_cursor import (
    BlockCursor,
    BlockScratch,
    block_positions,
    block_scratch,
    decode_wanted,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray


@arguments
class PickScratch(NamedTuple):
    """Scratch space to read a block.

    Attributes:
        block: its documents, and those that are wanted.
        befores: by entry, how many positions the entries before it have; then of all.
    """

    block: BlockScratch
    befores: NDArray[np.int64]


@arguments
class PickedBlock(NamedTuple):
    """A block of which some entries are wanted: those that the `PickScratch` lists.

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
def pick_scratch() -> PickScratch:
    """Return scratch space for `pick_entries`."""
    return PickScratch(block_scratch(), np.empty(BLOCK_ENTRIES + 1, np.int64))


@kernel(allocates=False)
def pick_entries(
    lists: PostingLists,
    word_positions: Positions,
    cursor: BlockCursor,
    wanted: U64Array,
    scratch: PickScratch,
) -> PickedBlock:
    """Pick the entries of the cursor's block whose documents are in a bitset; fill the scratch."""
    positions = word_positions.positions
    start = block_positions(lists, word_positions, cursor.term, cursor.block)
    num_picked, packing = decode_wanted(lists, cursor, wanted, scratch.block)
    are_plain = False
    if num_picked > 0:
        sum_freqs_before(lists.postings, packing, cursor.size, scratch.befores)
        are_plain = are_bytes(positions, start, scratch.befores[cursor.size])
    return PickedBlock(num_picked, packing, start, are_plain)


@kernel(inline=True, allocates=False)
def seek_picked(
    positions: U8Array, block: PickedBlock, offset: int, before: int, num_passed: int
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
