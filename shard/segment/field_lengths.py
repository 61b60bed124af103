"""Field lengths: how many words does a field of a document have? BM25 normalizes by length.

One byte per (field, document) that has words; a *row* is a field with words in this segment:

    text.field_rows       int32[max field + 1]  row of a field number, -1: no words here
    text.length_fields    uint16[rows]          field number of a row, ascending
    text.length_starts    int64[rows + 1]       where the row's bytes begin in text.lengths
    text.lengths          uint8[…]              length codes; 0 = no words
    text.length_doc_starts int64[rows]          sparse rows: where its documents begin in
                                                text.length_docs; dense rows: -1
    text.length_docs      uint32[…]             ascending documents of sparse rows
    text.field_num_docs   int64[rows]           documents with words
    text.field_totals     int64[rows]           sum of their (quantized) lengths

A row is dense (a byte for every document) when at least one in five documents has the field, which
is where five bytes a document (sparse) begin to cost more.

Length codes are exact below 64, then rise in steps of 6.4 % up to 10 M words. Sums are of *decoded*
lengths, which are integers: so a deleted document can be subtracted exactly, and average lengths do
not depend on how documents came into segments.

Worked example: 10 documents, `title` (field 4) in all with 3 words, `note` (field 9) in document 6
with 70 words: length_fields [4, 9]; lengths = ten times 3, then code 65 (71 words);
length_starts [0, 10, 11]; length_doc_starts [-1, 0]; length_docs [6].
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from common.kernels.decorator import arguments, kernel
from common.kernels.types import U8, I32Array, I64Array, U8Array, U16Array, U32Array, int64, uint8

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from shard.segment.segment import Segment

NUM_EXACT_LENGTHS: Final = 64
"""Lengths below are their own codes."""
_LENGTH_MAX: Final = 10_000_000
_DENSE_SHARE: Final = 5


@arguments
class FieldLengths(NamedTuple):
    """The lengths of a segment's fields; see the module."""

    field_rows: NDArray[np.int32]
    length_starts: NDArray[np.int64]
    lengths: NDArray[np.uint8]
    length_doc_starts: NDArray[np.int64]
    length_docs: NDArray[np.uint32]


def _make_decoded() -> NDArray[np.int64]:
    steps = np.arange(1, 256 - NUM_EXACT_LENGTHS + 1) / (256 - NUM_EXACT_LENGTHS)
    coarse = np.round(NUM_EXACT_LENGTHS * (_LENGTH_MAX / NUM_EXACT_LENGTHS) ** steps)
    return np.concatenate([np.arange(NUM_EXACT_LENGTHS), coarse]).astype(np.int64)


DECODED_LENGTHS: Final = _make_decoded()
"""int64 length by code, ascending."""


@kernel(allocates=False)
def encode_length(length: int, decoded: I64Array) -> U8:
    """Return the code of the nearest length in `DECODED_LENGTHS`, the lower one if two tie."""
    if length < NUM_EXACT_LENGTHS:
        return uint8(length)
    low = NUM_EXACT_LENGTHS - 1
    high = 255
    while low < high:  # the last code whose length is at most `length`
        middle = (low + high + 1) >> 1
        if decoded[middle] <= length:
            low = middle
        else:
            high = middle - 1
    if low < 255 and decoded[low + 1] - length < length - decoded[low]:
        low += 1
    return uint8(low)


@kernel
def _arrange(
    docs: U32Array,
    fields: U16Array,
    codes: U8Array,
    num_docs: int,
    num_fields: int,
    decoded: I64Array,
) -> tuple[I32Array, U16Array, I64Array, U8Array, I64Array, U32Array, I64Array, I64Array]:
    """Arrange (document, field, code) triples, documents ascending, in rows; see the module."""
    # Number the fields that occur.
    counts = np.zeros(num_fields, np.int64)
    for field in fields:
        counts[field] += 1
    rows = np.full(num_fields, -1, np.int32)
    num_rows = 0
    for field in range(num_fields):
        if counts[field] > 0:
            rows[field] = num_rows
            num_rows += 1
    # Lay the rows out: dense where that is smaller.
    row_fields = np.empty(num_rows, np.uint16)
    starts = np.zeros(num_rows + 1, np.int64)
    doc_starts = np.full(num_rows, -1, np.int64)
    num_sparse = 0
    for field in range(num_fields):
        row = rows[field]
        if row >= 0:
            row_fields[row] = field
            if counts[field] * _DENSE_SHARE >= num_docs:
                starts[row + 1] = starts[row] + num_docs
            else:
                starts[row + 1] = starts[row] + counts[field]
                doc_starts[row] = num_sparse
                num_sparse += counts[field]
    # Fill them; a sparse row records the document beside each code.
    lengths = np.zeros(starts[num_rows], np.uint8)
    sparse_docs = np.empty(num_sparse, np.uint32)
    filled = np.zeros(num_rows, np.int64)
    totals = np.zeros(num_rows, np.int64)
    for i in range(len(docs)):
        row = rows[fields[i]]
        if doc_starts[row] < 0:
            lengths[starts[row] + docs[i]] = codes[i]
        else:
            lengths[starts[row] + filled[row]] = codes[i]
            sparse_docs[doc_starts[row] + filled[row]] = docs[i]
        filled[row] += 1
        totals[row] += decoded[codes[i]]
    return rows, row_fields, starts, lengths, doc_starts, sparse_docs, filled, totals


@kernel
def _list_row(
    part: FieldLengths, row: int, field: int, doc_map: I64Array
) -> tuple[U32Array, U16Array, U8Array]:
    """Return new document, field and code of one row's kept documents."""
    _, length_starts, lengths, doc_starts, sparse_docs = part
    start = length_starts[row]
    end = length_starts[row + 1]
    doc_start = doc_starts[row]
    docs = np.empty(end - start, np.uint32)
    fields = np.empty(end - start, np.uint16)
    codes = np.empty(end - start, np.uint8)
    count = 0
    for i in range(start, end):
        if lengths[i] == 0:
            continue
        doc = i - start if doc_start < 0 else int64(sparse_docs[doc_start + i - start])
        if doc_map[doc] >= 0:
            docs[count] = doc_map[doc]
            fields[count] = field
            codes[count] = lengths[i]
            count += 1
    return docs[:count], fields[:count], codes[:count]


def arrange_lengths(
    docs: NDArray[np.uint32],
    fields: NDArray[np.uint16],
    codes: NDArray[np.uint8],
    num_docs: int,
) -> dict[str, NDArray[np.generic]]:
    """Build the arrays from (document, field, code) triples; documents ascend within a field."""
    num_fields = int(fields.max()) + 1 if len(fields) else 0
    names = (
        "text.field_rows",
        "text.length_fields",
        "text.length_starts",
        "text.lengths",
        "text.length_doc_starts",
        "text.length_docs",
        "text.field_num_docs",
        "text.field_totals",
    )
    arrays = _arrange(docs, fields, codes, num_docs, num_fields, DECODED_LENGTHS)
    return dict(zip(names, arrays, strict=True))


def merge_lengths(
    parts: Sequence[Segment], doc_maps: Sequence[NDArray[np.int64]], num_docs: int
) -> dict[str, NDArray[np.generic]]:
    """Merge the lengths of several segments; new ordinals of a part follow those before it."""
    pieces: tuple[list[NDArray[np.generic]], ...] = ([], [], [])
    for part, doc_map in zip(parts, doc_maps, strict=True):
        lengths = part.group(FieldLengths, "text")
        for row, field in enumerate(part["text.length_fields"].tolist()):
            listed: tuple[NDArray[np.generic], ...] = _list_row(lengths, row, field, doc_map)
            for piece, array in zip(pieces, listed, strict=True):
                piece.append(array)
    if not pieces[0]:
        pieces[0].append(np.zeros(0, np.uint32))
        pieces[1].append(np.zeros(0, np.uint16))
        pieces[2].append(np.zeros(0, np.uint8))
    docs, fields, codes = (np.concatenate(piece) for piece in pieces)
    return arrange_lengths(docs, fields, codes, num_docs)
