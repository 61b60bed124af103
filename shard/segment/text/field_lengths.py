"""Field lengths: the number of words in each field of a document. BM25 normalizes by length.

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
with 70 words: length_fields [4, 9]; lengths = ten times 3, then code 64 (68 words);
length_starts [0, 10, 11]; length_doc_starts [-1, 0]; length_docs [6].
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from common.kernels.decorator import arguments, kernel
from common.kernels.types import U8, I32Array, I64Array, U8Array, U16Array, U32Array, int64, uint8
from shard.segment.merge_state import MergeState

if TYPE_CHECKING:
    from numpy.typing import NDArray


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


@arguments
class _Layout(NamedTuple):
    """The row layout of a segment; see the module.

    Attributes:
        rows: by field number.
        row_fields: by row.
        starts: by row, with a sentinel.
        doc_starts: by row.
        num_sparse: documents of all sparse rows.
    """

    rows: NDArray[np.int32]
    row_fields: NDArray[np.uint16]
    starts: NDArray[np.int64]
    doc_starts: NDArray[np.int64]
    num_sparse: int


@kernel
def _lay_out(counts: I64Array, num_docs: int) -> _Layout:
    """Lay the rows out, given by field how many documents have it: dense where that is smaller."""
    num_fields = len(counts)
    rows = np.full(num_fields, -1, np.int32)
    num_rows = 0
    for field in range(num_fields):
        if counts[field] > 0:
            rows[field] = num_rows
            num_rows += 1
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
    return _Layout(rows, row_fields, starts, doc_starts, num_sparse)


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
    counts = np.zeros(num_fields, np.int64)
    for field in fields:
        counts[field] += 1
    rows, row_fields, starts, doc_starts, num_sparse = _lay_out(counts, num_docs)
    num_rows = len(row_fields)
    # Fill them; a sparse row records the document of each code.
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


@kernel(allocates=False)
def _count_row(part: FieldLengths, row: int, doc_map: I64Array) -> int:
    """Return how many kept documents have one row of a part."""
    _, length_starts, lengths, doc_starts, sparse_docs = part
    start = length_starts[row]
    doc_start = doc_starts[row]
    count = 0
    # Two loops: as one, it has vector loads that skip lanes, slow on pages that are not mapped yet.
    if doc_start < 0:
        for doc in range(length_starts[row + 1] - start):
            count += int64(lengths[start + doc] != 0) & int64(doc_map[doc] >= 0)
        return count
    for i in range(length_starts[row + 1] - start):
        doc = int64(sparse_docs[doc_start + i])
        count += int64(lengths[start + i] != 0) & int64(doc_map[doc] >= 0)
    return count


@kernel(allocates=False)
def _merge_row(
    part: FieldLengths,
    row: int,
    doc_map: I64Array,
    lengths: U8Array,
    docs: U32Array,
    filled: int,
    decoded: I64Array,
) -> tuple[int, int]:
    """Write one row of a part to a row of the result.

    Args:
        part: lengths of the part.
        row: in the part.
        doc_map: of the part.
        lengths: of the row of the result.
        docs: of that row, if it is sparse; empty: it is dense.
        filled: documents that it has so far.
        decoded: length by code.

    Returns:
        Documents that it has now, and the sum of the lengths that were added.
    """
    _, length_starts, part_lengths, doc_starts, sparse_docs = part
    start = length_starts[row]
    doc_start = doc_starts[row]
    total = int64(0)
    for i in range(length_starts[row + 1] - start):
        code = part_lengths[start + i]
        doc = doc_map[i if doc_start < 0 else int64(sparse_docs[doc_start + i])]
        if code == 0 or doc < 0:
            continue
        if len(docs) == 0:
            lengths[doc] = code
        else:
            lengths[filled] = code
            docs[filled] = doc
        filled += 1
        total += decoded[code]
    return filled, total


_NAMES: Final = (
    "text.field_rows",
    "text.length_fields",
    "text.length_starts",
    "text.lengths",
    "text.length_doc_starts",
    "text.length_docs",
    "text.field_num_docs",
    "text.field_totals",
)


def arrange_lengths(
    docs: NDArray[np.uint32],
    fields: NDArray[np.uint16],
    codes: NDArray[np.uint8],
    num_docs: int,
) -> dict[str, NDArray[np.generic]]:
    """Build the arrays from (document, field, code) triples; documents ascend within a field."""
    num_fields = int(fields.max()) + 1 if len(fields) else 0
    arrays = _arrange(docs, fields, codes, num_docs, num_fields, DECODED_LENGTHS)
    return dict(zip(_NAMES, arrays, strict=True))


def merge_lengths(state: MergeState) -> dict[str, NDArray[np.generic]]:
    """Merge the lengths of several segments; new ordinals of a part follow those before it."""
    sources = [
        (part.group(FieldLengths, "text"), row, field, doc_map)
        for part, doc_map in state.mapped_parts
        for row, field in enumerate(part["text.length_fields"].tolist())
    ]
    counts = np.zeros(max((field for _, _, field, _ in sources), default=-1) + 1, np.int64)
    for lengths, row, field, doc_map in sources:
        counts[field] += _count_row(lengths, row, doc_map)
    counts = np.trim_zeros(counts, "b")
    rows, row_fields, starts, doc_starts, num_sparse = _lay_out(counts, state.num_docs)
    merged = state.allocator.zeros(int(starts[-1]), np.uint8)
    merged_docs = state.allocator.empty(num_sparse, np.uint32)
    filled = np.zeros(len(row_fields), np.int64)
    totals = np.zeros(len(row_fields), np.int64)
    for lengths, row, field, doc_map in sources:
        if field >= len(rows) or rows[field] < 0:
            continue
        at = rows[field]
        own_docs = merged_docs[:0]
        if doc_starts[at] >= 0:
            own_docs = merged_docs[doc_starts[at] : doc_starts[at] + counts[field]]
        own = merged[starts[at] : starts[at + 1]]
        filled[at], total = _merge_row(
            lengths, row, doc_map, own, own_docs, int(filled[at]), DECODED_LENGTHS
        )
        totals[at] += total
    arrays = (rows, row_fields, starts, merged, doc_starts, merged_docs, filled, totals)
    return dict(zip(_NAMES, arrays, strict=True))
