"""Presence: the documents that have a field, by the form of its value; for every field.

Questions it answers: EXISTS, IS NULL and IS EMPTY filters; which documents have `true` or `false`
there; whose value is an array (and so cannot be sorted by); which kinds of values a field has in
the segment, so that a filter need not look for texts where there are only numbers.

One row per field and aspect that occurs, in order of `key` = field number * 8 + aspect:

    presence.keys     uint32   3·8+EXISTS   3·8+NULL   7·8+EXISTS
    presence.counts   uint32   4            1          9,000      documents of each row
    presence.offsets  int64    0            0          1      1126    where each row's words begin
    presence.words    uint64   (nothing)    docs       bitset

    all documents of the segment     no words
    fewer than one in 64             their ordinals, two to a word (the last one repeated if odd)
    otherwise                        a bitset, as in doc_sets

    presence.fields   uint16   3 7          fields that occur
    presence.kinds    uint16   by field: bit set of ValueKind; bits 8-15 the same for scalars only

The kinds are a superset: a merge that drops the last document with a kind may keep the bit. Values
nested in arrays of arrays count for EXISTS and ARRAY only.

Costs: build 6 ns a value, whatever the number of fields; at most one bit a document and row, so 15
fields that some documents lack take 15 bits a document. A row is read in 1-10 µs.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from pyroaring import FrozenBitMap

from common.distinct_values import distinct_values, without_repeats
from common.kernels.decorator import arguments, kernel
from common.kernels.intrinsics import trailing_zeros
from common.kernels.types import (
    U8,
    U32,
    I64Array,
    U16Array,
    U32Array,
    int64,
    uint16,
    uint32,
    uint64,
)
from common.value_kinds_and_facet_keys import Shape, ValueKind
from shard.caches.derived_values import derived
from shard.segment.doc_sets import add_docs, empty_bitset, full_bitset, list_docs
from shard.segment.items.value_extraction import Extraction
from shard.segment.merge_state import MergeState

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from shard.segment.segment import Segment


class Aspect(IntEnum):
    """The property that a row's documents share."""

    EXISTS = 0
    """The field has a value other than null; an array of only nulls has none."""
    NULL = 1
    """The field is null."""
    EMPTY_TEXT = 2
    """The field is an empty text."""
    EMPTY = 3
    """The field is an empty array or object."""
    TRUE = 4
    """The field is `true`, or an array with that element."""
    FALSE = 5
    """The field is `false`, or an array with that element."""
    ARRAY = 6
    """The field is an array with elements, or is reached through one."""


_EXISTS: Final = int(Aspect.EXISTS)
_NULL: Final = int(Aspect.NULL)
_EMPTY_TEXT: Final = int(Aspect.EMPTY_TEXT)
_EMPTY: Final = int(Aspect.EMPTY)
_TRUE: Final = int(Aspect.TRUE)
_FALSE: Final = int(Aspect.FALSE)
_ARRAY: Final = int(Aspect.ARRAY)
_NUM_ASPECTS: Final = 8

_KIND_STRING: Final = int(ValueKind.STRING)
_KIND_TRUE: Final = int(ValueKind.TRUE)
_KIND_FALSE: Final = int(ValueKind.FALSE)
_KIND_NULL: Final = int(ValueKind.NULL)
_KIND_EMPTY_ARRAY: Final = int(ValueKind.EMPTY_ARRAY)
_SCALAR: Final = int(Shape.SCALAR)
_NESTED: Final = int(Shape.NESTED)
_SPARSE_SHARE: Final = 64
"""Rows with less than 1 / `_SPARSE_SHARE` of the documents are stored as ordinals: that is smaller.
"""


@kernel(inline=True, allocates=False)
def _aspects(kind: U8, shape: U8, is_empty: bool) -> int:
    """Return the bit set of the rows to which a value adds its document."""
    if shape == _SCALAR:
        if kind == _KIND_NULL:
            return 1 << _NULL
        aspects = 1 << _EXISTS
        if kind == _KIND_STRING and is_empty:
            aspects |= 1 << _EMPTY_TEXT
        elif kind >= _KIND_EMPTY_ARRAY:
            aspects |= 1 << _EMPTY
    else:
        aspects = 1 << _ARRAY
        if kind != _KIND_NULL:
            aspects |= 1 << _EXISTS
        if shape == _NESTED:
            return aspects
    if kind == _KIND_TRUE:
        aspects |= 1 << _TRUE
    elif kind == _KIND_FALSE:
        aspects |= 1 << _FALSE
    return aspects


@kernel(allocates=False)
def _count_rows(
    extraction: Extraction, last_docs: I64Array, counts: U32Array, kinds: U16Array
) -> None:
    """Count the documents of every row, and collect the kinds of every field.

    `last_docs` holds the last document by row, so that several values of a document count once.
    """
    docs, shapes = extraction.doc, extraction.shape
    for i in range(len(docs)):
        number = int64(extraction.field[i])
        kind = extraction.kind[i]
        is_empty = extraction.start[i] == extraction.end[i]
        if shapes[i] != _NESTED and not (kind == _KIND_STRING and is_empty):
            kinds[number] |= uint16(1 << int64(kind))
            if shapes[i] == _SCALAR:
                kinds[number] |= uint16(256 << int64(kind))
        aspects = _aspects(kind, shapes[i], is_empty)
        while aspects != 0:
            row = number * _NUM_ASPECTS + trailing_zeros(uint64(aspects))
            aspects &= aspects - 1
            if last_docs[row] != docs[i]:
                last_docs[row] = docs[i]
                counts[row] += uint32(1)


_FULL: Final = 0
_LIST: Final = 1
_BITSET: Final = 2


@arguments
class _Rows(NamedTuple):
    """Rows being written.

    Attributes:
        forms: of each.
        cursors: where the next document of each goes.
        halves: `presence.words` as 32-bit halves.
    """

    forms: NDArray[np.int64]
    cursors: NDArray[np.int64]
    halves: NDArray[np.uint32]


@kernel(inline=True, allocates=False)
def _put(rows: _Rows, row: int, doc: U32) -> None:
    """Add a document, greater than all before it, to a row."""
    forms, cursors, halves = rows
    if forms[row] == _LIST:
        halves[cursors[row]] = doc
        halves[cursors[row] | 1] = doc  # pads an odd list with its last document
        cursors[row] += 1
    elif forms[row] == _BITSET:
        halves[cursors[row] + int64(doc >> uint32(5))] |= uint32(1) << (doc & uint32(31))


@kernel(allocates=False)
def _fill_rows(
    extraction: Extraction, last_docs: I64Array, row_of_key: I64Array, rows: _Rows
) -> None:
    """Add every document to its rows."""
    docs = extraction.doc
    for i in range(len(docs)):
        is_empty = extraction.start[i] == extraction.end[i]
        aspects = _aspects(extraction.kind[i], extraction.shape[i], is_empty)
        while aspects != 0:
            key = int64(extraction.field[i]) * _NUM_ASPECTS + trailing_zeros(uint64(aspects))
            aspects &= aspects - 1
            if last_docs[key] != docs[i]:
                last_docs[key] = docs[i]
                _put(rows, row_of_key[key], docs[i])


@kernel(allocates=False)
def _merge_row(
    source: U32Array,
    form: int,
    doc_map: I64Array,
    source_count: int,
    counts: U32Array,
    row: int,
    rows: _Rows,
) -> None:
    """Map one row of a part to new ordinals and write it; without halves, only count it."""
    num_docs = len(doc_map)
    for position in range(source_count if form == _LIST else num_docs):
        doc = int64(position)
        if form == _LIST:
            doc = int64(source[position])
        elif form == _BITSET and not (source[position >> 5] >> uint32(position & 31)) & 1:
            continue
        if doc_map[doc] >= 0:
            if len(rows.halves) == 0:
                counts[row] += uint32(1)
            else:
                _put(rows, row, uint32(doc_map[doc]))


def _forms(counts: NDArray[np.uint32], num_docs: int) -> NDArray[np.int64]:
    """Return the form of each row, given its number of documents."""
    forms = np.full(len(counts), _BITSET, np.int64)
    forms[counts.astype(np.int64) * _SPARSE_SHARE < num_docs] = _LIST
    forms[counts == num_docs] = _FULL
    return forms


def _lay_out(
    counts: NDArray[np.uint32], num_docs: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the form of each row and where its words begin (num_rows + 1)."""
    forms = _forms(counts, num_docs)
    sizes = np.zeros(len(counts), np.int64)
    sizes[forms == _LIST] = (counts[forms == _LIST].astype(np.int64) + 1) >> 1
    sizes[forms == _BITSET] = (num_docs + 63) >> 6
    offsets = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(sizes, out=offsets[1:])
    return forms, offsets


def build_presence(extraction: Extraction) -> dict[str, NDArray[Any]]:
    """Build the rows of all fields of a batch; see the module's drawing.

    Two passes over the values: one counts, which decides the forms; one writes.
    """
    num_keys = (int(extraction.field.max(initial=0)) + 1) * _NUM_ASPECTS
    counts_by_key = np.zeros(num_keys, np.uint32)
    kinds = np.zeros(num_keys // _NUM_ASPECTS, np.uint16)
    _count_rows(extraction, np.full(num_keys, -1, np.int64), counts_by_key, kinds)
    keys = np.flatnonzero(counts_by_key)
    counts = counts_by_key[keys]
    forms, offsets = _lay_out(counts, extraction.num_docs)
    row_of_key = np.zeros(num_keys, np.int64)
    row_of_key[keys] = np.arange(len(keys))
    words = np.zeros(int(offsets[-1]), np.uint64)
    last_docs = np.full(num_keys, -1, np.int64)
    rows = _Rows(forms, 2 * offsets[:-1], words.view(np.uint32))
    _fill_rows(extraction, last_docs, row_of_key, rows)
    fields = without_repeats(keys // _NUM_ASPECTS)
    return _name_arrays(keys, counts, offsets, words, fields, kinds[fields])


def _name_arrays(
    keys: NDArray[np.int64],
    counts: NDArray[np.uint32],
    offsets: NDArray[np.int64],
    words: NDArray[np.uint64],
    fields: NDArray[np.int64],
    kinds: NDArray[np.uint16],
) -> dict[str, NDArray[Any]]:
    return {
        "presence.keys": keys.astype(np.uint32),
        "presence.counts": counts,
        "presence.offsets": offsets,
        "presence.words": words,
        "presence.fields": fields.astype(np.uint16),
        "presence.kinds": kinds,
    }


def merge_presence(state: MergeState) -> dict[str, NDArray[Any]]:
    """Merge the rows of segments; equals a build, except that `presence.kinds` may keep more."""
    all_keys = distinct_values(
        np.concatenate([part["presence.keys"] for part in state.parts]).astype(np.int64)
    )
    counts = np.zeros(len(all_keys), np.uint32)
    no_rows = np.zeros(0, np.int64)
    _merge_rows(state, all_keys, counts, _Rows(no_rows, no_rows, np.zeros(0, np.uint32)))
    occurs = counts > 0
    keys, counts = all_keys[occurs], counts[occurs]
    forms, offsets = _lay_out(counts, state.num_docs)
    words = state.allocator.zeros(int(offsets[-1]), np.uint64)
    rows = _Rows(forms, 2 * offsets[:-1], words.view(np.uint32))
    _merge_rows(state, keys, counts, rows)
    fields = without_repeats(keys // _NUM_ASPECTS)
    kinds = np.zeros(len(fields), np.uint16)
    for part in state.parts:
        still_occurs = np.isin(part["presence.fields"], fields)
        known = part["presence.fields"][still_occurs]
        kinds[np.searchsorted(fields, known)] |= part["presence.kinds"][still_occurs]
    return _name_arrays(keys, counts, offsets, words, fields, kinds)


def _merge_rows(
    state: MergeState,
    keys: NDArray[np.int64],
    counts: NDArray[np.uint32],
    rows: _Rows,
) -> None:
    """Map the rows of all parts to new ordinals, to count or to write them."""
    row_of_key = {key: row for row, key in enumerate(keys.tolist())}
    is_counting = len(rows.forms) == 0
    for part, doc_map in state.mapped_parts:
        source_forms = _forms(part["presence.counts"], part.num_docs).tolist()
        offsets = (2 * part["presence.offsets"]).tolist()
        source = part["presence.words"].view(np.uint32)
        for i, key in enumerate(part["presence.keys"].tolist()):
            row = row_of_key.get(key)
            if row is None or (not is_counting and rows.forms[row] == _FULL):
                continue
            count = int(part["presence.counts"][i])
            content = source[offsets[i] : offsets[i + 1]]
            _merge_row(content, source_forms[i], doc_map, count, counts, row, rows)


class Presence:
    """The rows of one segment, by field and aspect; one instance per segment."""

    __slots__ = ("_counts", "_kinds", "_num_docs", "_offsets", "_rows", "_words")

    def __init__(self, segment: Segment) -> None:
        keys: list[int] = segment["presence.keys"].tolist()
        self._rows = {key: row for row, key in enumerate(keys)}
        self._counts = segment["presence.counts"]
        self._offsets = segment["presence.offsets"]
        self._words = segment["presence.words"]
        self._num_docs = segment.num_docs
        fields = segment["presence.fields"].tolist()
        self._kinds: dict[int, int] = dict(
            zip(fields, segment["presence.kinds"].tolist(), strict=True)
        )

    @property
    def fields(self) -> Sequence[int]:
        """Field numbers that occur in the segment, or did before a merge."""
        return list(self._kinds)

    def kinds(self, field: int) -> int:
        """Return the bit set of `ValueKind` of a field's values: elements and scalars."""
        return self._kinds.get(field, 0) & 0xFF

    def scalar_kinds(self, field: int) -> int:
        """Return the bit set of `ValueKind` of a field's scalar values."""
        return self._kinds.get(field, 0) >> 8

    def count(self, field: int, aspect: Aspect) -> int:
        """Return the number of documents in a row, deleted ones included."""
        row = self._rows.get(field * _NUM_ASPECTS + aspect)
        return 0 if row is None else int(self._counts[row])

    def add_docs(self, field: int, aspect: Aspect, bitset: NDArray[np.uint64]) -> None:
        """Set the bits of a row's documents."""
        row = self._rows.get(field * _NUM_ASPECTS + aspect)
        if row is None:
            return
        count = int(self._counts[row])
        content = self._words[self._offsets[row] : self._offsets[row + 1]]
        if count == self._num_docs:
            bitset |= full_bitset(self._num_docs)
        elif count * _SPARSE_SHARE < self._num_docs:
            add_docs(bitset, content.view(np.uint32)[:count])
        else:
            bitset |= content

    def docs(self, field: int, aspect: Aspect) -> NDArray[np.uint32]:
        """Return the documents of a row, ascending."""
        bitset = empty_bitset(self._num_docs)
        self.add_docs(field, aspect, bitset)
        return list_docs(bitset, self.count(field, aspect))

    def has_docs_besides(self, field: int, docs: FrozenBitMap) -> bool:
        """Return whether any document but the given ones has the field, in any form."""
        for aspect in (Aspect.EXISTS, Aspect.NULL, Aspect.ARRAY):
            if self.count(field, aspect) > len(docs) or not docs.issuperset(
                FrozenBitMap(self.docs(field, aspect))
            ):
                return True
        return False


@derived
def presence_of(segment: Segment) -> Presence:
    """Return the presence rows of a segment."""
    return Presence(segment)
