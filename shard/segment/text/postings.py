"""Postings: the documents and fields in which a term occurs, and how often.

One posting list a term; its *entries* are (document ordinal, field number, term frequency), sorted
by document, then field. All lists share one byte array, cut into blocks of up to 128 entries:

    text.postings        uint8[…]     blocks, one after the other, 8 bytes of padding at the end
    text.posting_starts  int64[V + 1] where each term's first block begins
    text.entry_counts    uint32[V]    entries of each term
    text.doc_freqs       uint32[V]    documents of each term (an entry a field, so never more)

    block   2 bytes   bits of a document delta (6), of a field (5), of a frequency (5)
            1 byte    least field, at most 255
            4 bytes   document of the first entry
            …         entries, each `document delta | field - least | frequency - 1` in that many
                      bits, from the lowest bit of the first byte on; the first delta is 0

A term with several blocks has one row per block in the skip arrays, so that a search for the
documents of a rarer word skips whole blocks:

    text.skip_starts     uint32[V + 1]  first row of each term (equal to the next: no rows)
    text.skip_docs       uint32[rows]   first document of the block
    text.skip_postings   uint32[rows]   its offset from the term's start in text.postings
    text.skip_positions  uint32[rows]   its offset from the term's start in text.positions

Why one width per block and not per list: deltas of a list vary a hundredfold between clusters of
similar items. Why the least field: searched fields have neighbouring numbers after those of the
facets, so a title and a description are told apart by one bit. Why not separate streams for the
three numbers: one unaligned load gets all three.

Costs: about 1.1-1.5 bytes an entry in long lists, 7 bytes for a term that occurs once; decoding
1.3 ns an entry, encoding 2 ns.

Worked example: entries (7, f8, 1x), (9, f6, 3x), (9, f8, 1x): delta bits 2, field bits 2, frequency
bits 2; header `2 | 2 << 6 | 2 << 11`, least field 6, first document 7, then three times 6 bits:
delta 0, 2, 0 | field - 6 = 2, 0, 2 | frequency - 1 = 0, 2, 0: 18 bits, so 10 bytes in all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from common.kernels.decorator import arguments, kernel
from common.kernels.intrinsics import load_u32, load_u64, store_u64
from common.kernels.types import U32, U64, I64Array, U8Array, U32Array, int64, uint32, uint64

if TYPE_CHECKING:
    from numpy.typing import NDArray

BLOCK_ENTRIES: Final = 128
BLOCK_HEADER_BYTES: Final = 7
LEAST_FIELD_MAX: Final = 255
POSTINGS_PADDING: Final = 8
"""Bytes after the last block, because entries are loaded and stored eight bytes at a time."""
ENTRY_BYTES_MAX: Final = 9
"""Upper bound of an encoded entry (72 bits), for the size of output buffers."""
TERM_FREQ_MAX: Final = (1 << 24) - 1

_ONE: Final = uint64(1)


@arguments
class PostingLists(NamedTuple):
    """The posting lists of a segment's terms; see the module."""

    postings: NDArray[np.uint8]
    posting_starts: NDArray[np.int64]
    entry_counts: NDArray[np.uint32]
    skip_starts: NDArray[np.uint32]
    skip_docs: NDArray[np.uint32]
    skip_postings: NDArray[np.uint32]


@arguments
class Entries(NamedTuple):
    """Decoded entries of a block, or room for them."""

    docs: NDArray[np.uint32]
    fields: NDArray[np.uint16]
    freqs: NDArray[np.uint32]


@arguments
class Packing(NamedTuple):
    """How the entries of a block are packed, in bits (but the last).

    Attributes:
        first: offset of the first entry.
        width: of an entry.
        low: of its field and frequency together.
        freq: of its frequency.
        field: the least field, to be added.
    """

    first: int
    width: int
    low: int
    freq: int
    field: int


@kernel
def new_block() -> Entries:
    """Return room for the entries of a block."""
    return Entries(
        np.empty(BLOCK_ENTRIES, np.uint32),
        np.empty(BLOCK_ENTRIES, np.uint16),
        np.empty(BLOCK_ENTRIES, np.uint32),
    )


@kernel(inline=True, allocates=False)
def _bit_length(number: U64) -> int:
    """Return how many bits a number needs (0 for 0)."""
    length = 0
    while number != 0:
        number >>= _ONE
        length += 1
    return length


@kernel(inline=True, allocates=False)
def _store(out: U8Array, cursor: int, pending: U64, num_pending: int) -> tuple[U64, int, int]:
    """Write the pending bits; return those of the last byte if it is not full, and its position.

    Returns:
        (the bits, how many they are, where their byte is).
    """
    store_u64(out, cursor, pending)
    return pending >> uint64(num_pending & ~7), num_pending & 7, cursor + (num_pending >> 3)


@kernel(allocates=False)
def encode_block(out: U8Array, cursor: int, block: Entries, count: int) -> int:
    """Write the first `count` entries as one block; return the cursor after it.

    The bytes after the block change, up to `POSTINGS_PADDING` of them.
    """
    docs, fields, freqs = block
    # The OR of all numbers needs as many bits as the greatest.
    all_deltas = uint64(0)
    all_fields = uint64(0)
    all_freqs = uint64(0)
    for i in range(1, count):
        all_deltas |= uint64(docs[i] - docs[i - 1])
    least_field: Any = int64(LEAST_FIELD_MAX)
    for i in range(count):
        least_field = min(least_field, int64(fields[i]))
    for i in range(count):
        all_fields |= uint64(int64(fields[i]) - least_field)
        all_freqs |= uint64(freqs[i] - uint32(1))
    delta_bits = _bit_length(all_deltas)
    field_bits = _bit_length(all_fields)
    freq_bits = _bit_length(all_freqs)
    header = delta_bits | field_bits << 6 | freq_bits << 11
    out[cursor] = header & 255
    out[cursor + 1] = header >> 8
    out[cursor + 2] = least_field
    first_doc = int64(docs[0])
    for i in range(4):
        out[cursor + 3 + i] = first_doc >> (8 * i) & 255
    cursor += BLOCK_HEADER_BYTES
    # Pack from the lowest bit on. What a stored word has beyond the last entry is zero, and
    # overwritten.
    low_bits = field_bits + freq_bits
    width = delta_bits + low_bits
    pending = uint64(0)
    num_pending = 0
    previous = docs[0]
    for i in range(count):
        low = uint64(int64(fields[i]) - least_field) << uint64(freq_bits) | uint64(
            freqs[i] - uint32(1)
        )
        delta = uint64(docs[i] - previous)
        previous = docs[i]
        if width <= 56:
            pending |= (delta << uint64(low_bits) | low) << uint64(num_pending)
            pending, num_pending, cursor = _store(out, cursor, pending, num_pending + width)
        else:  # up to 72 bits do not fit a word together with pending ones
            pending |= low << uint64(num_pending)
            pending, num_pending, cursor = _store(out, cursor, pending, num_pending + low_bits)
            pending |= delta << uint64(num_pending)
            pending, num_pending, cursor = _store(out, cursor, pending, num_pending + delta_bits)
    return cursor + (num_pending > 0)


@kernel(allocates=False)
def open_block(postings: U8Array, cursor: int) -> tuple[U32, Packing]:
    """Return the first document of the block at the cursor, and its packing."""
    header: Any = int64(postings[cursor]) | int64(postings[cursor + 1]) << 8
    freq_bits = header >> 11 & 31
    low_bits = (header >> 6 & 31) + freq_bits
    first_bit = (cursor + BLOCK_HEADER_BYTES) << 3
    least_field = int64(postings[cursor + 2])
    packing = Packing(first_bit, low_bits + (header & 63), low_bits, freq_bits, least_field)
    return load_u32(postings, cursor + 3), packing


@kernel(allocates=False)
def decode_block(postings: U8Array, cursor: int, count: int, entries: Entries) -> int:
    """Decode the block of `count` entries at the cursor; return the cursor after it."""
    docs, fields, freqs = entries
    doc, (bit, width, low_bits, freq_bits, least_field) = open_block(postings, cursor)
    least = uint64(least_field)
    delta_bits = width - low_bits
    field_mask = (_ONE << uint64(low_bits - freq_bits)) - _ONE
    freq_mask = (_ONE << uint64(freq_bits)) - _ONE
    delta_mask = (_ONE << uint64(delta_bits)) - _ONE
    # An entry of up to 56 bits lies within eight bytes, at any bit offset: one load. Wider ones
    # take two.
    if width <= 56:
        for i in range(count):
            entry = load_u64(postings, bit >> 3) >> uint64(bit & 7)
            freqs[i] = (entry & freq_mask) + _ONE
            fields[i] = least + (entry >> uint64(freq_bits) & field_mask)
            doc += uint32(entry >> uint64(low_bits) & delta_mask)
            docs[i] = doc
            bit += width
    else:
        for i in range(count):
            entry = load_u64(postings, bit >> 3) >> uint64(bit & 7)
            freqs[i] = (entry & freq_mask) + _ONE
            fields[i] = least + (entry >> uint64(freq_bits) & field_mask)
            bit += low_bits
            entry = load_u64(postings, bit >> 3) >> uint64(bit & 7)
            doc += uint32(entry & delta_mask)
            docs[i] = doc
            bit += delta_bits
    return (bit + 7) >> 3


@kernel(inline=True, allocates=False)
def read_block(postings: U8Array, cursor: int, left: int, entries: Entries) -> tuple[int, int, int]:
    """Decode the block at the cursor of a list that is read from its beginning to its end.

    Args:
        postings: of a segment.
        cursor: where the block begins.
        left: entries of the list that have not been read yet.
        entries: output.

    Returns:
        (entries of the block, cursor after it, entries that are left).
    """
    count = min(left, BLOCK_ENTRIES)
    return count, decode_block(postings, cursor, count, entries), left - count


@kernel(inline=True, allocates=False)
def decode_block_docs(postings: U8Array, cursor: int, count: int, docs: U32Array) -> Packing:
    """Decode only the documents of the block of `count` entries at the cursor; return packing."""
    doc, packing = open_block(postings, cursor)
    width = packing.width
    delta_bits = width - packing.low
    delta_mask = (_ONE << uint64(delta_bits)) - _ONE
    bit = packing.first + packing.low
    i = int64(0)
    if 3 * width + delta_bits <= 57:  # four documents fit one load, at any bit offset
        second, third, fourth = uint64(width), uint64(2 * width), uint64(3 * width)
        while i + 4 <= count:
            four = load_u64(postings, bit >> 3) >> uint64(bit & 7)
            doc += uint32(four & delta_mask)
            docs[i] = doc
            doc += uint32(four >> second & delta_mask)
            docs[i + 1] = doc
            doc += uint32(four >> third & delta_mask)
            docs[i + 2] = doc
            doc += uint32(four >> fourth & delta_mask)
            docs[i + 3] = doc
            bit += 4 * width
            i += 4
    while i < count:
        doc += uint32(load_u64(postings, bit >> 3) >> uint64(bit & 7) & delta_mask)
        docs[i] = doc
        bit += width
        i += 1
    return packing


@kernel(inline=True, allocates=False)
def decode_entry(postings: U8Array, packing: Packing, i: int) -> tuple[int, int]:
    """Return field and frequency of entry i of a block."""
    bit = packing.first + i * packing.width
    low = load_u64(postings, bit >> 3) >> uint64(bit & 7)
    low &= (_ONE << uint64(packing.low)) - _ONE
    freq = int64(low & ((_ONE << uint64(packing.freq)) - _ONE)) + 1
    return packing.field + int64(low >> uint64(packing.freq)), freq


@kernel(allocates=False)
def skip_to(
    postings: U8Array, packing: Packing, count: int, i: int, doc: U32, wanted: U32
) -> tuple[int, U32]:
    """Return the first entry from `i` on that is not before the wanted document, and its document.

    Args:
        postings: of all lists.
        packing: of the block.
        count: entries of the block; returned if there is none.
        i: the first entry to look at.
        doc: document of the entry before; for the first entry, that of the block.
        wanted: document.
    """
    width = packing.width
    delta_bits = width - packing.low
    delta_mask = (_ONE << uint64(delta_bits)) - _ONE
    bit = packing.first + packing.low + i * width
    if 3 * width + delta_bits <= 57:  # four at a time, see `decode_block_docs`
        second, third, fourth = uint64(width), uint64(2 * width), uint64(3 * width)
        while i + 4 <= count:
            four = load_u64(postings, bit >> 3) >> uint64(bit & 7)
            # The sum of four deltas is enough to know whether all four entries can be skipped.
            two = (four & delta_mask) + (four >> second & delta_mask)
            last = doc + uint32(two + (four >> third & delta_mask) + (four >> fourth & delta_mask))
            if last >= wanted:
                break
            doc = last
            bit += 4 * width
            i += 4
    while i < count:
        doc += uint32(load_u64(postings, bit >> 3) >> uint64(bit & 7) & delta_mask)
        if doc >= wanted:
            break
        bit += width
        i += 1
    return i, doc


@kernel(allocates=False)
def sum_freqs(postings: U8Array, packing: Packing, start: int, end: int) -> int:
    """Return the sum of the frequencies of the entries [start, end) of a block."""
    if packing.freq == 0:
        return end - start
    mask = (_ONE << uint64(packing.freq)) - _ONE
    bit = packing.first + start * packing.width
    total = end - start
    for _ in range(end - start):
        total += int64(load_u64(postings, bit >> 3) >> uint64(bit & 7) & mask)
        bit += packing.width
    return total


@kernel(allocates=False)
def sum_freqs_before(postings: U8Array, packing: Packing, count: int, befores: I64Array) -> None:
    """Write, by entry of a block, the sum of the frequencies of the entries before it.

    `befores` has one more element, for the sum of all.
    """
    mask = (_ONE << uint64(packing.freq)) - _ONE
    bit = packing.first
    total = int64(0)
    for i in range(count):
        befores[i] = total
        total += int64(load_u64(postings, bit >> 3) >> uint64(bit & 7) & mask) + 1
        bit += packing.width
    befores[count] = total
