"""Reads one posting list: which of the wanted documents have the term, and what it scores there.

A list is read block by block (`shard/segment/text/postings_cursor.py`); blocks without a wanted
document are skipped by their skip rows, undecoded. Of the others:

    documents alone wanted   decode the documents, keep the wanted ones         `_scan_docs`
    scores wanted as well    decode the documents, keep the wanted ones, then   `_scan_entries`
                             field and frequency of these entries only
    entry numbers known      compute block and slot of each, decode just those  `sum_entries`

An entry's document is decoded without its other numbers: the entries of a block share one width, so
field and frequency of any of them can be decoded later, by themselves. Whether a document is wanted
is looked up in a bitset and added to a counter, without a branch: on random data the CPU would
mispredict every other branch, which costs more than all the rest. Reads for a few documents among
many are cache misses, so entries are gathered first and then processed in loops of one read each.

Costs: 1.5 ns an entry whose document is decoded, 6 ns a document that is scored.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from common.kernels.decorator import arguments, kernel
from common.kernels.intrinsics import prefetch
from common.kernels.order_checks import expect_ascending
from common.kernels.types import U64, I64Array, U32Array, U64Array, int64, uint64
from shard.query.scoring.bm25f import ScoredLists, length_offset
from shard.segment.doc_sets import has_bit, set_bit
from shard.segment.text.postings import (
    BLOCK_ENTRIES,
    Packing,
    PostingLists,
    decode_entry,
    open_block,
)
from shard.segment.text.postings_cursor import (
    BlockScratch,
    Wanted,
    advance_wanted,
    block_offset,
    block_scratch,
    decode_docs,
    decode_wanted,
    open_postings,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray


@arguments
class ScoredTerm(NamedTuple):
    """A term whose list is read.

    Attributes:
        term: ordinal.
        mask: of the field classes in which it counts.
        checks_fields: whether there are fields in which it does not count, so that each entry's
            field has to be looked at.
    """

    term: int
    mask: U64
    checks_fields: bool


@arguments
class Matched(NamedTuple):
    """Output buffers for the documents of a term.

    Attributes:
        docs: with capacity for one more than there can be.
        tfs: their weighted tfs, in units of 2^-24; only if scores are wanted.
    """

    docs: NDArray[np.uint32]
    tfs: NDArray[np.int64]


@arguments
class EntryRanges(NamedTuple):
    """Documents, with the numbers of their entries in a list.

    Attributes:
        docs: ascending.
        firsts: by document, the number of its first entry.
        counts: by document, how many entries it has.
    """

    docs: NDArray[np.uint32]
    firsts: NDArray[np.int64]
    counts: NDArray[np.uint16]


@arguments
class EntryBatch(NamedTuple):
    """Scratch space for entries that are scored together, up to a block of them.

    Scoring goes column by column, and a step overwrites a column that it was the last to need:

    Attributes:
        owners: index of the tf that each adds to.
        docs: its document.
        bits: its number in the list; then its offset in the postings, in bits.
        packings: least field << 16 | bits of field and frequency << 8 | bits of its frequency; then
            its frequency.
        rows: of its field.
        offsets: offset of its block; then of its length code; then this code.
    """

    owners: NDArray[np.int64]
    docs: NDArray[np.uint32]
    bits: NDArray[np.int64]
    packings: NDArray[np.int64]
    rows: NDArray[np.uint64]
    offsets: NDArray[np.uint64]


@arguments
class ScanScratch(NamedTuple):
    """Scratch space to read a list.

    Attributes:
        block: its documents, and those that are wanted.
        entries: those to score.
    """

    block: BlockScratch
    entries: EntryBatch


@kernel
def scan_scratch() -> ScanScratch:
    """Return scratch space to read lists."""
    size = BLOCK_ENTRIES
    return ScanScratch(
        block_scratch(),
        EntryBatch(
            np.empty(size, np.int64),
            np.empty(size, np.uint32),
            np.empty(size, np.int64),
            np.empty(size, np.int64),
            np.empty(size, np.uint64),
            np.empty(size, np.uint64),
        ),
    )


@kernel(inline=True, allocates=False)
def widths_of(packing: Packing) -> int:
    """Return what decoding an entry takes besides its offset, as one number."""
    return packing.field << 16 | packing.low << 8 | packing.freq


@kernel(allocates=False)
def add_tf_norms(scored: ScoredLists, entries: EntryBatch, count: int, tfs: I64Array) -> None:
    """Add frequency times tf norm of the first `count` entries to the tfs of their owners.

    Each loop does one read and has no branch that depends on it: where documents are few among
    many, each read is a cache miss, and this way many misses overlap.
    """
    lists, lengths, tf_norms, _ = scored
    postings, field_rows = lists.postings, lengths.field_rows
    owners, docs, bits, packings, rows, offsets = entries
    # First read: the entry itself; it says which row and offset have its field's length.
    for i in range(count):
        widths = packings[i]
        packing = Packing(bits[i], 0, widths >> 8 & 255, widths & 255, widths >> 16)
        field, freq = decode_entry(postings, packing, 0)
        packings[i] = freq
        rows[i] = field_rows[field]
        offsets[i] = length_offset(lengths, rows[i], int64(docs[i]))
        prefetch(lengths.lengths, int64(offsets[i]))
    # Second read: the length code. Third read: its tf norm, from a table that is mostly cached.
    for i in range(count):
        offsets[i] = lengths.lengths[offsets[i]]
    for i in range(count):
        tfs[owners[i]] += int64(packings[i] * tf_norms[rows[i], offsets[i]] + 0.5)


@kernel(allocates=False)
def _pick_counted(
    scored: ScoredLists, packing: Packing, mask: U64, picked: I64Array, num_picked: int
) -> int:
    """Keep those picked entries of a block whose fields count for the term; return how many."""
    _, lengths, tf_norms, row_classes = scored
    num_kept: Any = 0
    for p in range(num_picked):
        field, _ = decode_entry(scored.lists.postings, packing, picked[p])
        row = uint64(lengths.field_rows[field])  # unsigned: no test for a negative index
        picked[num_kept] = picked[p]
        num_kept += int64(row_classes[row] & mask != 0 and tf_norms[row, 1] != 0.0)
    return num_kept


@kernel(allocates=False)
def _scan_docs(
    lists: PostingLists, term: int, wanted: Wanted, docs: U32Array, out_docs: U32Array
) -> int:
    """Do the work of `scan` where documents are enough; `docs` is scratch space for a block."""
    has_bits = len(wanted.bits) > 0
    found = 0
    current = int64(-1)
    cursor = open_postings(term)
    while True:
        cursor = advance_wanted(lists, cursor, wanted)
        if cursor.size == 0:
            return found
        decode_docs(lists, cursor, docs)
        # The write is unconditional and `found` advances if it counts: no branch.
        for i in range(cursor.size):
            doc = int64(docs[i])
            is_new = doc != current
            if has_bits:
                is_new &= has_bit(wanted.bits, doc)
            out_docs[found] = doc
            found += is_new
            current = doc


@kernel(allocates=False)
def _scan_entries(
    scored: ScoredLists,
    term: ScoredTerm,
    wanted: Wanted,
    is_scored: bool,
    matched: Matched,
    scratch: ScanScratch,
) -> int:
    """Do the work of `scan` where fields, or frequencies, are needed as well."""
    lists = scored.lists
    out_docs, out_tfs = matched
    (docs, picked), entries = scratch
    found = 0
    current = int64(-1)
    cursor = open_postings(term.term)
    while True:
        cursor = advance_wanted(lists, cursor, wanted)
        if cursor.size == 0:
            return found
        # Narrow the block to the wanted entries, in fields that count.
        num_picked, packing = decode_wanted(lists, cursor, wanted.bits, scratch.block)
        if term.checks_fields:
            num_picked = _pick_counted(scored, packing, term.mask, picked, num_picked)
        # Gather these entries. Those of one document, one per field, share an owner; they may be in
        # two blocks, so `current` lives on.
        widths = widths_of(packing)
        for p in range(num_picked):
            doc = int64(docs[picked[p]])
            out_docs[found] = doc
            if is_scored and doc != current:
                out_tfs[found] = 0
            found += doc != current
            current = doc
            entries.owners[p] = found - 1
            entries.docs[p] = doc
            entries.bits[p] = packing.first + picked[p] * packing.width
            entries.packings[p] = widths
        if is_scored:
            add_tf_norms(scored, entries, num_picked, out_tfs)


@kernel(inline=True, allocates=False)
def scan(
    scored: ScoredLists,
    term: ScoredTerm,
    wanted: Wanted,
    is_scored: bool,
    matched: Matched,
    scratch: ScanScratch,
) -> int:
    """Write the wanted documents of a term, and with `is_scored` their weighted tfs.

    Where all fields count and no score is wanted, documents alone are decoded.

    Returns:
        How many were written.
    """
    expect_ascending(wanted.docs)
    if is_scored or term.checks_fields:
        return _scan_entries(scored, term, wanted, is_scored, matched, scratch)
    return _scan_docs(scored.lists, term.term, wanted, scratch.block.docs, matched.docs)


@kernel(allocates=False)
def _add_numbered(
    scored: ScoredLists, term: int, entries: EntryBatch, count: int, tfs: I64Array
) -> None:
    """Do the same as `add_tf_norms` for entries of which only the number in the list is known.

    All blocks but the last are full, so a number gives the block and the slot in it.
    """
    lists = scored.lists
    _, _, bits, packings, _, offsets = entries
    # Again one read a loop: the skip row, then the header of the block.
    for i in range(count):
        block = bits[i] // BLOCK_ENTRIES
        offsets[i] = block_offset(lists, lists.skip_postings, term, block)
    start = lists.posting_starts[term]
    for i in range(count):
        _, packing = open_block(lists.postings, start + int64(offsets[i]))
        bits[i] = packing.first + bits[i] % BLOCK_ENTRIES * packing.width
        packings[i] = widths_of(packing)
    add_tf_norms(scored, entries, count, tfs)


@kernel(allocates=False)
def sum_entries(
    scored: ScoredLists, term: int, ranges: EntryRanges, entries: EntryBatch, tfs: I64Array
) -> None:
    """Write the weighted tfs of documents whose entries in a list are known, in batches.

    Args:
        scored: the lists of the segment.
        term: whose list.
        ranges: the documents with their entries.
        entries: scratch.
        tfs: output, by document.
    """
    docs, firsts, counts = ranges
    num_entries = 0
    for i in range(len(docs)):
        tfs[i] = 0
        for entry in range(firsts[i], firsts[i] + counts[i]):
            if num_entries == BLOCK_ENTRIES:
                _add_numbered(scored, term, entries, num_entries, tfs)
                num_entries = 0
            entries.owners[num_entries] = i
            entries.docs[num_entries] = docs[i]
            entries.bits[num_entries] = entry
            num_entries += 1
    _add_numbered(scored, term, entries, num_entries, tfs)


@kernel(allocates=False)
def mark_counted(
    scored: ScoredLists, term: ScoredTerm, ranges: EntryRanges, marked: U64Array
) -> None:
    """Set the bits of documents that have a term in a field that counts; their entries are known.

    Only these entries are decoded.
    """
    lists, lengths, tf_norms, row_classes = scored
    docs, firsts, counts = ranges
    for i in range(len(docs)):
        for entry in range(firsts[i], firsts[i] + counts[i]):
            block = entry // BLOCK_ENTRIES
            offset = block_offset(lists, lists.skip_postings, term.term, block)
            _, packing = open_block(lists.postings, lists.posting_starts[term.term] + offset)
            field, _ = decode_entry(lists.postings, packing, entry % BLOCK_ENTRIES)
            row = uint64(lengths.field_rows[field])  # unsigned: no test for a negative index
            if row_classes[row] & term.mask != 0 and tf_norms[row, 1] != 0.0:
                set_bit(marked, int64(docs[i]))
