"""Facet rows: the codes that a document has in several facets, adjacent, to count them together.

Question: how many of some documents have each value of several facets? Columns (facet_columns)
answer it for one facet after the other. Once the columns of a segment exceed the processor's
caches, each document costs a cache miss a column, and three where documents have several values.
A row is 16 bytes, hence one miss for all facets.

    codes       brand 3     color 1     tags 2, 5          as in the columns
    numbers     3           10 + 1      14 + 2, 14 + 5     one numbering: code + the facet's base
    row         3 | 11 | 16 | 19 | filler | filler | …     slots of `bits` bits, from the low end

`bits` follows from how many numbers there are: 13 for 7,300 values, so a row has 128 // 13 = 9
slots. *Fillers* are numbers beyond those of all codes. They differ by slot and document: adding to
the same counter repeatedly would wait for the last addition each time. A document with more codes
than slots *spills*: its first slot says so, the others are fillers, and the columns count it.

Rows are derived: made in the background when searches count several facets of a large segment, and
kept in an LRU cache. Nothing is stored, so disks and merges do not pay for them.

Costs, of 5,000,000 documents with four facets, one of which has up to six values: 80 MB, made in
0.14 s. A document takes 14 ns among 1 % of all, by columns 51 ns; 13 and 30 ns among 3 %. By
columns it is 10 ns among 10 %, because these are then read from end to end.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from common.kernels.decorator import kernel
from common.kernels.intrinsics import prefetch
from common.kernels.types import U8Array, U32Array, U64Array, int64, uint8, uint32, uint64
from shard.caches.background_derivation import BACKGROUND_TASKS
from shard.caches.lru_cache import FACET_ROWS_CACHE
from shard.segment.columns.code_counting import Codes, count_codes
from shard.segment.columns.facet_columns import FacetColumn, facet_column

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from shard.segment.segment import Segment

ROWS_DOCS_MIN: Final = 1 << 20
"""The columns of smaller segments stay in the processor's caches."""
_ROW_BITS: Final = 128
_ROW_BYTES: Final = _ROW_BITS // 8
_BITS_MIN: Final = 8
_BITS_MAX: Final = 16
_SLOTS_MAX: Final = _ROW_BITS // _BITS_MIN
_FILLERS_PER_SLOT: Final = 8
_SPILLED_SHARE_MAX: Final = 0.25
"""If more documents spill, rows gain too little."""
_PREFETCH_DOCS: Final = 32
"""How many documents ahead rows are prefetched: counting these takes as long as a cache miss."""
_ONE: Final = uint32(1)


@kernel(inline=True, allocates=False)
def _put(rows: U64Array, doc: int, slot: int, bits: int, number: int) -> None:
    """Write a number to an empty slot of a document's row."""
    at = slot * bits
    value = uint64(number)
    if at >= 64:
        rows[2 * doc + 1] |= value << uint64(at - 64)
        return
    rows[2 * doc] |= value << uint64(at)
    if at + bits > 64:
        rows[2 * doc + 1] |= value >> uint64(64 - at)


@kernel(allocates=False)
def _add_column(
    codes: Codes, starts: U32Array, base: int, bits: int, taken: U8Array, rows: U64Array
) -> None:
    """Write the codes of a column to the next free slots; `taken` counts them, up to 255."""
    num_slots = _ROW_BITS // bits
    for doc in range(len(taken)):
        begin = int64(doc)
        end = begin + 1
        if len(starts) != 0:
            begin = int64(starts[doc])
            end = int64(starts[doc + 1])
        slot = int64(taken[doc])
        for position in range(begin, end):
            code = int64(codes[position])
            if code != 0 and slot < num_slots:
                _put(rows, doc, slot, bits, base + code)
            slot += 1 if code != 0 else 0
        taken[doc] = uint8(min(slot, 255))


@kernel(allocates=False)
def _fill_up(num_numbers: int, bits: int, taken: U8Array, rows: U64Array) -> int:
    """Write fillers to free slots, and the mark to documents that spill; return their number."""
    num_slots = _ROW_BITS // bits
    num_spilled = 0
    for doc in range(len(taken)):
        slot = int64(taken[doc])
        if slot > num_slots:
            num_spilled += 1
            rows[2 * doc] = uint64(num_numbers)
            rows[2 * doc + 1] = uint64(0)
            slot = int64(1)
        variant = doc % _FILLERS_PER_SLOT
        for free in range(slot, num_slots):
            _put(rows, doc, free, bits, num_numbers + 1 + free * _FILLERS_PER_SLOT + variant)
    return num_spilled


@kernel(allocates=False)
def _count_rows(
    docs: U32Array, rows: U64Array, bits: int, mark: int, counts: U32Array, spilled: U32Array
) -> int:
    """Add 1 to counts[number] for every slot of every document.

    Returns:
        How many documents spill; `spilled` begins with them, and has room for one more than all.
    """
    num_slots = _ROW_BITS // bits
    mask = uint64((1 << bits) - 1)
    shift = uint64(bits)
    carry = uint64(64 - bits)
    last = len(docs) - 1
    num_spilled: Any = 0
    for i in range(len(docs)):
        prefetch(rows, 2 * int64(docs[min(i + _PREFETCH_DOCS, last)]))
        doc = int64(docs[i])
        low = rows[2 * doc]
        high = rows[2 * doc + 1]
        spilled[num_spilled] = docs[i]
        num_spilled += int64(low & mask == uint64(mark))
        for _ in range(num_slots):
            counts[low & mask] += _ONE
            low = low >> shift | high << carry
            high >>= shift
    return num_spilled


class FacetRows:
    """The rows of some facets of one segment.

    Attributes:
        bases: by field, where its codes begin among the numbers.
        ends: by field, where they end.
        bits: of a slot.
        rows: two words a document; empty if rows do not pay off for these facets.
    """

    __slots__ = ("bases", "bits", "ends", "num_numbers", "rows")

    def __init__(self, columns: Mapping[int, FacetColumn]) -> None:
        """Make the rows of columns, by field."""
        self.bases: dict[int, int] = {}
        self.ends: dict[int, int] = {}
        self.num_numbers = 0
        for field, column in columns.items():
            self.bases[field] = self.num_numbers
            self.num_numbers += int(column.codes.max(initial=0)) + 1
            self.ends[field] = self.num_numbers
        self.bits = max(_BITS_MIN, (self._num_counters - 1).bit_length())
        self.rows: NDArray[np.uint64] = np.zeros(0, np.uint64)
        codes_per_doc = sum([column.codes_per_doc for column in columns.values()])
        if columns and self.bits <= _BITS_MAX and codes_per_doc <= _ROW_BITS // self.bits:
            self._make(columns)

    @property
    def _num_counters(self) -> int:
        """One for each number, for the mark, and for each filler."""
        return self.num_numbers + 1 + _SLOTS_MAX * _FILLERS_PER_SLOT

    def _make(self, columns: Mapping[int, FacetColumn]) -> None:
        num_docs = next(iter(columns.values())).num_docs
        rows = np.zeros(2 * num_docs, np.uint64)
        taken = np.zeros(num_docs, np.uint8)
        for field, column in columns.items():
            base = self.bases[field]
            _add_column(column.codes, column.starts, base, self.bits, taken, rows)
        num_spilled = _fill_up(self.num_numbers, self.bits, taken, rows)
        if num_spilled <= _SPILLED_SHARE_MAX * num_docs:
            self.rows = rows

    @property
    def pays_off(self) -> bool:
        """Whether there are rows to count."""
        return len(self.rows) > 0

    def count(
        self, docs: NDArray[np.uint32], columns: Mapping[int, FacetColumn]
    ) -> dict[int, NDArray[np.uint32]]:
        """Return counts by code of each field; that of code 0, no value, is meaningless.

        Args:
            docs: of the segment, ascending.
            columns: those that the rows were made of, for documents that spill.
        """
        numbers = np.zeros(self._num_counters, np.uint32)
        spilled = np.empty(len(docs) + 1, np.uint32)
        mark = self.num_numbers
        num_spilled = _count_rows(docs, self.rows, self.bits, mark, numbers, spilled)
        counts = {field: numbers[base : self.ends[field]] for field, base in self.bases.items()}
        for field, column in columns.items():
            count_codes(spilled[:num_spilled], column.codes, column.starts, counts[field])
        return counts


def columns_of(segment: Segment, fields: tuple[int, ...]) -> dict[int, FacetColumn]:
    """Return those columns of some fields that the segment has."""
    found = {field: facet_column(segment, field) for field in fields}
    return {field: column for field, column in found.items() if column is not None}


def facet_rows(segment: Segment, fields: tuple[int, ...]) -> FacetRows | None:
    """Return the rows of some facets, if they are made and pay off; if not made, schedule them.

    Args:
        segment: of at least `ROWS_DOCS_MIN` documents.
        fields: numbers of the facets, ascending.
    """
    known: FacetRows | None = FACET_ROWS_CACHE.get((segment.uid, fields))
    if known is not None:
        return known if known.pays_off else None
    if FACET_ROWS_CACHE.takes(_ROW_BYTES * segment.num_docs):
        key = (segment.uid, "facet rows", fields)
        BACKGROUND_TASKS.add(key, segment, partial(_make_rows, fields))
    return None


def _make_rows(fields: tuple[int, ...], segment: Segment) -> None:
    """Make the rows of some facets, and keep them."""
    made = FacetRows(columns_of(segment, fields))
    FACET_ROWS_CACHE.put((segment.uid, fields), made, made.rows.nbytes, segment)
