"""Facet columns: the values of each document, and the documents of each value.

Questions it answers, for one facet field of one segment: count the values of a given set of
documents (collect/facets); which documents have one of these values (query/filters); how many
documents does each value have in all? Values are numbers of the shard's dictionary of the field;
`code` = number + 1, so that 0 can mean "no value".

    documents        0 drama     1 crime, drama     2 -        (drama = 0, crime = 1)

    facet.<f>.codes  1 | 1 2 | -        smallest of uint8/16/32 that holds them
    facet.<f>.starts 0 1 3 3            document d has codes[starts[d]:starts[d + 1]], ascending;
                                        absent if no document has several: then codes[d] is the
                                        one code of document d, 0 if it has none

    in segments of SETS_DOCS_MIN documents and more, also by value:
    facet.<f>.numbers      0 1          values that occur, ascending
    facet.<f>.counts       2 1          documents of each
    facet.<f>.sets         {0, 1} {1}   `facet_value_sets`, one after the other
    facet.<f>.set_offsets               where each begins

A smaller segment is scanned instead, so that small writes need not build sets: 4,096 documents take
2-4 µs. A field without a value in the segment has no arrays at all.

Memory: 1-4 bytes a value and column, 2-4 bytes a value for the sets, which only filters touch.
`facet_column_builder` makes them, `facet_column_merge` merges them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from common.kernels.decorator import kernel
from common.kernels.types import U8Array, U32Array, U64Array, int64
from shard.caches.derived_values import derived_by_key
from shard.segment.columns.code_counting import NO_STARTS, Codes, count_codes
from shard.segment.doc_sets import LISTED_AHEAD, set_bit
from shard.segment.facet_value_sets import (
    StoredSets,
    add_stored_sets,
    bound_stored,
    count_intersections,
    list_stored_set,
    measure_stored,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from shard.segment.segment import Segment


@kernel
def _scan_codes(codes: Codes, starts: U32Array, wanted: U32Array, bitset: U64Array) -> None:
    """Set the bits of the documents that have one of the wanted codes (ascending)."""
    num_docs = len(codes) if len(starts) == 0 else len(starts) - 1
    for doc in range(num_docs):
        begin = int64(doc)
        end = begin + 1
        if len(starts) != 0:
            begin = int64(starts[doc])
            end = int64(starts[doc + 1])
        for position in range(begin, end):
            code = codes[position]
            low = 0
            high = len(wanted)
            while low < high:
                middle = (low + high) >> 1
                if wanted[middle] < code:
                    low = middle + 1
                else:
                    high = middle
            if low < len(wanted) and wanted[low] == code:
                set_bit(bitset, doc)
                break


@kernel
def _pick_coded(docs: U32Array, codes: Codes, is_wanted: U8Array, picked: U32Array) -> int:
    """Write the documents whose single code is wanted; return their number."""
    count: Any = 0
    for doc in docs:
        picked[count] = doc
        count += int64(is_wanted[codes[doc]])
    return count


def code_table(numbers: Iterable[int], num_values: int) -> NDArray[np.uint8]:
    """Return, by code of a dictionary with `num_values` values, whether its number is listed."""
    is_wanted = np.zeros(num_values + 1, np.uint8)
    for number in numbers:
        is_wanted[number + 1] = 1
    return is_wanted


StoredSet: TypeAlias = tuple[int, int]
"""Offset of a set among the stored sets of a column, and its number of documents."""


def num_in(stored_sets: Sequence[StoredSet]) -> int:
    """Return the sum of the numbers of documents of stored sets."""
    num_docs = 0
    for _, count in stored_sets:
        num_docs += count
    return num_docs


class FacetColumn:
    """The facet column of one field of one segment; one instance per segment and field.

    Attributes:
        codes: see the module's drawing.
        starts: empty if every document has at most one value.
        is_single: whether no document has several values.
        codes_per_doc: the average number of values of a document, at least 1.
    """

    __slots__ = (
        "_least_sizes",
        "_set_sizes",
        "_sets",
        "codes",
        "codes_per_doc",
        "is_single",
        "num_docs",
        "starts",
    )

    def __init__(self, arrays: Mapping[str, NDArray[Any] | None], num_docs: int) -> None:
        codes = arrays["codes"]
        assert codes is not None, "a facet column without codes"
        starts = arrays.get("starts")
        self.codes = codes
        self.starts: NDArray[np.uint32] = NO_STARTS if starts is None else starts
        self.is_single = len(self.starts) == 0
        self.codes_per_doc = 1.0 if self.is_single else max(1.0, len(codes) / max(num_docs, 1))
        self.num_docs = num_docs
        sets = [arrays.get(name) for name in StoredSets._fields]
        self._sets = None if sets[0] is None else StoredSets._make(sets)
        self._least_sizes: tuple[int, int] | None = None
        self._set_sizes: tuple[int, int] | None = None

    def intersects_within(self, unit_ns: float, doc_ns: float, limit_ns: float) -> bool:
        """Return whether `add_intersections` is estimated to take less than some time.

        The exact sizes are in the headers of all sets, which are far apart in the file. A bound
        that does not read them mostly suffices to say no.

        Args:
            unit_ns: nanoseconds per uint16 of a stored bitset.
            doc_ns: nanoseconds per document of a stored list, no less.
            limit_ns: the time.
        """
        sets = self._sets
        if sets is None:
            return False
        if self._set_sizes is None:
            if self._least_sizes is None:
                self._least_sizes = bound_stored(sets, self.num_docs)
            num_units, num_listed = self._least_sizes
            if num_units * unit_ns + num_listed * doc_ns >= limit_ns:
                return False
            self._set_sizes = measure_stored(sets)
        num_units, num_listed = self._set_sizes
        return num_units * unit_ns + num_listed * doc_ns < limit_ns

    def add_docs_with(
        self, numbers: Sequence[int] | NDArray[np.integer[Any]], bitset: NDArray[np.uint64]
    ) -> None:
        """Set the bits of the documents that have one of the values.

        Args:
            numbers: value numbers, ascending.
            bitset: over the segment's documents, to add to.

        Cost: with stored sets, that of reading them; otherwise a scan of the column.
        """
        if self._sets is None:
            wanted = np.array(numbers, np.uint32)
            wanted += np.uint32(1)
            _scan_codes(self.codes, self.starts, wanted, bitset)
            return
        known = self._sets.numbers
        wanted = np.array(numbers, np.uint32)
        positions = np.searchsorted(known, wanted)
        positions = positions[positions < len(known)]
        positions = positions[known[positions] == wanted[: len(positions)]]
        if len(positions):
            add_stored_sets(self._sets, positions, bitset)

    def numbers(self) -> NDArray[np.intp]:
        """Return the numbers of the values that occur, ascending."""
        if self._sets is not None:
            return self._sets.numbers.astype(np.intp)
        present = np.flatnonzero(np.bincount(self.codes))
        return present[present > 0] - 1

    @property
    def has_sets(self) -> bool:
        """Whether the column stores each value's documents."""
        return self._sets is not None

    def stored_sets(self, numbers: Iterable[int]) -> list[StoredSet]:
        """Return the stored sets of the values that occur."""
        sets = self._sets
        assert sets is not None, "the segment is too small to have sets"
        stored = []
        for number in numbers:
            at = self._position(number)
            if at is not None:
                stored.append((int(sets.set_offsets[at]), int(sets.counts[at])))
        return stored

    def docs_in(self, stored_sets: Sequence[StoredSet]) -> NDArray[np.uint32]:
        """Return the documents of stored sets, one set after the other, ascending within a set."""
        assert self._sets is not None, "the segment is too small to have sets"
        num_docs = num_in(stored_sets)
        docs = np.empty(num_docs + LISTED_AHEAD, np.uint32)
        at = 0
        for begin, count in stored_sets:
            list_stored_set(self._sets.sets, begin, count, docs[at:])
            at += count
        return docs[:num_docs]

    def _position(self, number: int) -> int | None:
        """Return the index of a value's stored set, or None if no document has the value."""
        assert self._sets is not None, "the segment is too small to have sets"
        numbers = self._sets.numbers
        # If all lower values occur too, which is common, a value's index is its number.
        if number < len(numbers) and numbers[number] == number:
            return number
        position = int(np.searchsorted(numbers, np.uint32(number)))
        return position if position < len(numbers) and numbers[position] == number else None

    def pick_with(
        self, is_wanted: NDArray[np.uint8], docs: NDArray[np.uint32]
    ) -> NDArray[np.uint32]:
        """Return the given documents that have a wanted value; for single-valued columns.

        Args:
            is_wanted: by code, see `code_table`.
            docs: ascending.
        """
        assert self.is_single, "a document has several codes"
        picked = np.empty(len(docs), np.uint32)
        return picked[: _pick_coded(docs, self.codes, is_wanted, picked)]

    def add_totals(self, counts: NDArray[np.uint32]) -> None:
        """Add the number of documents of each value, deleted ones included, to counts[number + 1].

        counts[0] becomes meaningless.
        """
        if self._sets is not None:
            counts[self._sets.numbers + np.uint32(1)] += self._sets.counts
        else:
            ordinals = np.arange(self.num_docs, dtype=np.uint32)
            count_codes(ordinals, self.codes, self.starts, counts)

    def add_intersections(self, bitset: NDArray[np.uint64], counts: NDArray[np.uint32]) -> None:
        """Add to counts[number + 1] how many documents of each value are in a bitset."""
        assert self._sets is not None, "the segment is too small to have sets"
        count_intersections(self._sets, bitset, counts)


_ARRAY_NAMES: Final = ("codes", "starts", *StoredSets._fields)


@derived_by_key
def facet_column(segment: Segment, field: int) -> FacetColumn | None:
    """Return the facet column of a field, or None if no document of the segment has a value."""
    arrays = {name: segment.get(f"facet.{field}.{name}") for name in _ARRAY_NAMES}
    return None if arrays["codes"] is None else FacetColumn(arrays, segment.num_docs)
