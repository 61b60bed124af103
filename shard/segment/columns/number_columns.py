"""Number columns: the numbers of every field that has any, exact, as narrow as they allow.

Questions it answers, for one field of one segment: which documents have a value in a range
(query/filters), what is the value of this document (sort_columns, collect/facets)? Every
field has one, facet or not, because any scalar field may be sorted and filtered without
configuration. Texts that look like numbers are not included: a range of numbers matches numbers.

    documents   0: 1994     1: -     2: 2001          (year)
    number.<f>.values    int16 [1994, -32768, 2001]   dense: by document; the least value of the
                                                      type (NaN in float64) says "no number"

    documents   0: -     …     900: [3.5, 4]          (rare, or several in a document)
    number.<f>.values    float64 [3.5, 4.0]           sparse: pairs in document order
    number.<f>.docs      uint32  [900, 900]

The type is the smallest of int8/16/32 that holds whole numbers, int64 beyond, float64 if any number
has a fraction. Numbers beyond 2^53 stay exact: int64 holds them, and where it cannot (fractions
beside them, or 2^63 and more), the difference from the double is kept as well:

    number.<f>.residuals int16   value = values[i] + residuals[i]; rounding is monotone, so pairs
                                 (double, residual) have the order of the numbers

A column is dense if at least 1 / `SPARSE_SHARE` of the documents have a number, and none has
several.

Costs: build 30 ns a number; memory 1-8 bytes a document; a range is a scan of 0.2 ns a document,
several numbers are one of 2 to 5 ns, more where many documents have them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import numpy as np

from common.distinct_values import distinct_values
from common.kernels.decorator import kernel
from common.kernels.types import (
    I8,
    I16,
    I32,
    F64Array,
    I8Array,
    I16Array,
    I32Array,
    I64Array,
    U32Array,
    U64Array,
    int64,
    uint8,
    uint32,
    uint64,
)
from common.value_kinds_and_facet_keys import ValueKind
from shard.caches.derived_values import derived_by_key
from shard.segment.columns.batch_values_by_column import NUMBER_KINDS, group_values
from shard.segment.doc_sets import add_docs, has_bit, set_bit
from shard.segment.items.numbers_and_facet_keys import parse_numbers
from shard.segment.items.value_extraction import Extraction
from shard.segment.merge_allocator import IN_MEMORY, MergeAllocator
from shard.segment.merge_state import MergeState
from shard.segment.segment import fields_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from shard.segment.segment import Segment

Numbers = TypeVar("Numbers", I8Array, I16Array, I32Array, I64Array, F64Array)
Number = TypeVar("Number", I8, I16, I32, int, float)

SPARSE_SHARE: Final = 8
"""A field that less than 1 / `SPARSE_SHARE` of the documents have is stored as pairs."""

_INTEGER: Final = int(ValueKind.INTEGER)
_EXACT_MAX: Final = 2.0**53
_INT64_BOUND: Final = 2.0**63
_ALL_ROWS: Final = slice(None)
_NO_DOCS: Final = np.zeros(0, np.uint32)

_FILTER_BITS_MIN: Final = 4_096
_FILTER_BITS_PER_NUMBER: Final = 32
"""Of a filter of wanted numbers: one in 32 of the others passes it."""
_HASH_FACTOR: Final = uint64(0x9E3779B97F4A7C15)
"""2^64 divided by the golden ratio (Knuth, The art of computer programming, vol. 3, 6.4)."""


@kernel(allocates=False)
def _find_residuals(
    extraction: Extraction, selection: I64Array, values: F64Array, residuals: I16Array
) -> bool:
    """Write by how much each integer exceeds its double; return whether any does."""
    text = extraction.text
    is_any = False
    for i in range(len(selection)):
        residuals[i] = 0
        if abs(values[i]) < _EXACT_MAX or extraction.kind[selection[i]] != _INTEGER:
            continue
        position = extraction.start[selection[i]]
        is_negative = text[position] == 0x2D
        magnitude = uint64(0)
        for at in range(position + (1 if is_negative else 0), extraction.end[selection[i]]):
            magnitude = magnitude * uint64(10) + uint64(text[at] - uint8(0x30))
        rounded = abs(values[i])
        # The greatest integers round to 2^64, which is 0 modulo 2^64: the difference stays right.
        nearest = uint64(0) if rounded >= 2.0 * _INT64_BOUND else uint64(rounded)
        residual = int64(magnitude - nearest)
        residuals[i] = -residual if is_negative else residual
        is_any = is_any or residual != 0
    return is_any


class _Numbers(NamedTuple):
    """(document, number) pairs in document order."""

    docs: NDArray[np.uint32]
    values: NDArray[np.float64]
    residuals: NDArray[np.int16] | None
    """None: all zero."""


def build_numbers(extraction: Extraction) -> dict[str, NDArray[Any]]:
    """Build the number columns of all fields of a batch; see the module's drawing."""
    fields = range(int(extraction.field.max(initial=0)) + 1)
    selection, offsets = group_values(extraction, fields, NUMBER_KINDS)
    if len(selection) == 0:
        return {}
    values = parse_numbers(extraction, selection)
    values += 0.0  # -0.0 becomes 0.0
    docs = extraction.doc[selection]
    found = np.empty(len(selection), np.int16)
    residuals = found if _find_residuals(extraction, selection, values, found) else None
    arrays: dict[str, NDArray[Any]] = {}
    bounds = offsets.tolist()
    for field in np.flatnonzero(np.diff(offsets)).tolist():
        begin, end = bounds[field], bounds[field + 1]
        numbers = _Numbers(
            docs[begin:end],
            values[begin:end],
            None if residuals is None else residuals[begin:end],
        )
        arrays |= _encode_column(f"number.{field}", (numbers,), extraction.num_docs, IN_MEMORY)
    return arrays


def merge_numbers(state: MergeState) -> Iterator[dict[str, NDArray[Any]]]:
    """Merge the number columns of segments; equal to a build from the same documents.

    Yields:
        The arrays of one field after the other.
    """
    for field in fields_of(state.parts, "number", "values"):
        columns = [
            (column, doc_map)
            for part, doc_map in state.mapped_parts
            if (column := number_column(part, field)) is not None
        ]
        kept: Iterable[_Numbers] = _KeptNumbers(columns, state.allocator)
        if sum(len(column.values) for column, _ in columns) <= state.allocator.piece_rows:
            kept = (_join(list(kept)),)
        yield _encode_column(f"number.{field}", kept, state.num_docs, state.allocator)


class _KeptNumbers:
    """The numbers of the kept documents of several columns, under their new ordinals, in pieces."""

    def __init__(
        self, columns: Sequence[tuple[NumberColumn, NDArray[np.int64]]], allocator: MergeAllocator
    ) -> None:
        self._columns = columns
        self._allocator = allocator

    def __iter__(self) -> Iterator[_Numbers]:
        for column, doc_map in self._columns:
            for piece in self._allocator.pieces(len(column.values)):
                docs, values, residuals = column.pairs(piece)
                new_docs = doc_map[docs]
                keep = new_docs >= 0
                yield _Numbers(
                    new_docs[keep].astype(np.uint32),
                    values[keep],
                    None if residuals is None else residuals[keep],
                )


def _join(numbers: Sequence[_Numbers]) -> _Numbers:
    """Return a few numbers in one piece."""
    residuals = None
    if any(one.residuals is not None for one in numbers):
        residuals = np.concatenate(
            [
                np.zeros(len(one.docs), np.int16) if one.residuals is None else one.residuals
                for one in numbers
            ]
        )
    return _Numbers(
        np.concatenate([one.docs for one in numbers]),
        np.concatenate([one.values for one in numbers]),
        residuals,
    )


@dataclass(slots=True)
class _Survey:
    """Facts about all numbers of a column that decide its encoding.

    Attributes:
        count: how many there are.
        lowest: of them.
        greatest: of them.
        are_whole: whether none has a fraction.
        has_residuals: whether a double differs from its number.
        has_several: whether a document has more than one.
    """

    count: int = 0
    lowest: float = math.inf
    greatest: float = -math.inf
    are_whole: bool = True
    has_residuals: bool = False
    has_several: bool = False
    _last_doc: int = -1

    def add(self, numbers: _Numbers) -> None:
        """Add the next numbers, at least one."""
        docs, values, residuals = numbers
        self.count += len(docs)
        self.lowest = min(self.lowest, float(values.min()))
        self.greatest = max(self.greatest, float(values.max()))
        self.are_whole = self.are_whole and _are_whole(values)
        self.has_residuals = self.has_residuals or (residuals is not None and bool(residuals.any()))
        self.has_several = (
            self.has_several
            or int(docs[0]) == self._last_doc
            or bool((docs[1:] == docs[:-1]).any())
        )
        self._last_doc = int(docs[-1])

    def dtype(self) -> type[np.int8 | np.int16 | np.int32 | np.int64 | np.float64]:
        """Return the smallest type that holds the numbers exactly (doubles: with residuals)."""
        if self.lowest <= -_INT64_BOUND or self.greatest >= _INT64_BOUND or not self.are_whole:
            return np.float64
        if self.has_residuals or max(-self.lowest, self.greatest) >= _EXACT_MAX:
            return np.int64
        for dtype in (np.int8, np.int16, np.int32, np.int64):
            bounds = np.iinfo(dtype)
            if self.lowest > bounds.min and self.greatest <= bounds.max:
                return dtype
        raise AssertionError("unreachable: every whole number below 2^53 fits int64")


def _encode_column(
    prefix: str, numbers: Iterable[_Numbers], num_docs: int, allocator: MergeAllocator
) -> dict[str, NDArray[Any]]:
    """Return the arrays of one column, in the narrowest form that keeps every number exact.

    Args:
        prefix: of their names.
        numbers: in document order, in pieces; iterated over twice.
        num_docs: documents of the segment.
        allocator: makes the large arrays.

    Returns:
        Nothing if there are no numbers.
    """
    survey = _Survey()
    for piece in numbers:
        if len(piece.docs):
            survey.add(piece)
    if not survey.count:
        return {}
    dtype = survey.dtype()
    is_sparse = survey.has_several or survey.count * SPARSE_SHARE < num_docs
    length = survey.count if is_sparse else num_docs
    values: NDArray[Any] = allocator.empty(length, dtype)
    residuals: NDArray[np.int16] | None = None
    if survey.has_residuals and dtype is np.float64:
        residuals = allocator.zeros(length, np.int16)
    docs = allocator.empty(length if is_sparse else 0, np.uint32)
    if survey.count < length:
        values[:] = missing_value(values.dtype)
    at = 0
    for piece in numbers:
        # Numbers of consecutive documents are consecutive; so are those of a sparse column.
        end = at + len(piece.docs)
        target: Any = slice(at, end) if is_sparse or survey.count == length else piece.docs
        if is_sparse:
            docs[at:end] = piece.docs
        values[target] = piece.values
        if piece.residuals is not None and residuals is not None:
            residuals[target] = piece.residuals
        elif piece.residuals is not None and survey.has_residuals:
            values[target] += piece.residuals
        at = end
    arrays: dict[str, NDArray[Any]] = {f"{prefix}.values": values}
    if is_sparse:
        arrays[f"{prefix}.docs"] = docs
    if residuals is not None:
        arrays[f"{prefix}.residuals"] = residuals
    return arrays


def missing_value(dtype: np.dtype[Any]) -> float | int:
    """Return the value that means "no number" in a dense column of a type."""
    return math.nan if dtype.kind == "f" else int(np.iinfo(dtype).min)


@kernel
def _are_whole(values: F64Array) -> bool:
    """Return whether no value has a fraction."""
    for value in values:  # noqa: SIM110 - a kernel has no generators
        if value != np.floor(value):
            return False
    return True


class NumberColumn:
    """The numbers of one field of one segment; one instance per segment and field.

    Attributes:
        values: by document, or by pair.
        docs: document of each pair; None if `values` is by document.
        residuals: by how much each value exceeds its double, or None.
    """

    __slots__ = ("docs", "num_docs", "residuals", "values")

    def __init__(self, segment: Segment, field: int) -> None:
        self.values: NDArray[Any] = segment[f"number.{field}.values"]
        self.docs: NDArray[np.uint32] | None = segment.get(f"number.{field}.docs")
        self.residuals: NDArray[np.int16] | None = segment.get(f"number.{field}.residuals")
        self.num_docs = segment.num_docs

    @property
    def is_dense(self) -> bool:
        """Whether `values` is by document (and no document has several)."""
        return self.docs is None

    @property
    def is_exact_as_double(self) -> bool:
        """Whether float64 holds every value of the column exactly."""
        return self.residuals is None and self.values.dtype != np.int64

    def pairs(self, rows: slice = _ALL_ROWS) -> _Numbers:
        """Return (document, double, residual) of every number, in document order.

        Args:
            rows: of `values`; by default all.
        """
        docs = None if self.docs is None else self.docs[rows]
        values = self.values[rows]
        residuals = None if self.residuals is None else self.residuals[rows]
        if docs is None:
            has_number = _has_number(values)
            docs = np.flatnonzero(has_number).astype(np.uint32)
            docs += np.uint32(rows.start or 0)
            values = values[has_number]
            residuals = None if residuals is None else residuals[has_number]
        return _exact(docs, values, residuals)

    def pairs_of(self, chosen: NDArray[np.uint32]) -> _Numbers:
        """Return (document, double, residual) of every number of some documents, in their order.

        Args:
            chosen: ascending.

        Cost: 2 ns a chosen document where each has one number at most; otherwise that of `pairs`.
        """
        rows: NDArray[Any]
        if self.docs is None:
            values = self.values[chosen]
            has_number = _has_number(values)
            docs = rows = chosen[has_number]
            values = values[has_number]
        else:
            is_chosen = np.zeros(self.num_docs, np.bool_)
            is_chosen[chosen] = True
            rows = is_chosen[self.docs]
            docs, values = self.docs[rows], self.values[rows]
        return _exact(docs, values, None if self.residuals is None else self.residuals[rows])

    def one_each(self, chosen: NDArray[np.uint32]) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
        """Return which of some documents have a number, and these, for columns that `is_dense`.

        Args:
            chosen: in any order, also repeatedly.
        """
        assert self.is_dense, "a document has several numbers"
        values = self.values[chosen]
        has_number = _has_number(values)
        return has_number, values[has_number].astype(np.float64)

    def add_docs_in_range(
        self,
        lower: float | int | None,
        is_lower_open: bool,
        upper: float | int | None,
        is_upper_open: bool,
        bitset: NDArray[np.uint64],
    ) -> None:
        """Set the bits of the documents that have a number between the bounds; exact."""
        if self.residuals is not None:
            is_match = self._exact_in_range(lower, is_lower_open, upper, is_upper_open)
            self._add_matches(is_match, bitset)
            return
        if self.values.dtype.kind == "f":
            first, last = _closed_doubles(lower, is_lower_open, upper, is_upper_open)
        else:
            first, last = self._closed_integers(lower, is_lower_open, upper, is_upper_open)
            if first > last:
                return
        if self.docs is None:
            scalar = self.values.dtype.type
            _scan_range(self.values, scalar(first), scalar(last), bitset)
        else:
            self._add_matches((self.values >= first) & (self.values <= last), bitset)

    def _closed_integers(
        self,
        lower: float | int | None,
        is_lower_open: bool,
        upper: float | int | None,
        is_upper_open: bool,
    ) -> tuple[int, int]:
        """Return inclusive bounds of the range, clipped to the column's type."""
        bounds = np.iinfo(self.values.dtype)
        first, last = bounds.min + (1 if self.is_dense else 0), bounds.max
        if lower is not None:
            first = max(first, math.floor(lower) + 1 if is_lower_open else math.ceil(lower))
        if upper is not None:
            last = min(last, math.ceil(upper) - 1 if is_upper_open else math.floor(upper))
        return first, last

    def add_docs_among(self, numbers: NDArray[np.float64], bitset: NDArray[np.uint64]) -> None:
        """Set the bits of the documents that have one of the numbers, all exact as doubles."""
        assert self.is_exact_as_double, "doubles cannot tell the column's numbers apart"
        if self.is_dense:  # what stands for "no number" is not one of the column's numbers
            numbers = numbers[numbers != missing_value(self.values.dtype)]
        wanted = distinct_values(numbers) + 0.0  # -0.0 equals 0.0, but has other bits
        docs = _NO_DOCS if self.docs is None else self.docs
        num_bits = max(_FILTER_BITS_MIN, len(wanted) * _FILTER_BITS_PER_NUMBER)
        _scan_among(self.values, docs, wanted, (num_bits - 1).bit_length(), bitset)

    def _add_matches(self, matches: NDArray[np.bool_], bitset: NDArray[np.uint64]) -> None:
        """Set the bits of the documents at some positions of `values`."""
        if self.docs is not None:
            add_docs(bitset, self.docs[matches])
            return
        packed = np.packbits(matches, bitorder="little")
        bitset.view(np.uint8)[: len(packed)] |= packed

    def _exact_in_range(
        self,
        lower: float | int | None,
        is_lower_open: bool,
        upper: float | int | None,
        is_upper_open: bool,
    ) -> NDArray[np.bool_]:
        """Return which (double, residual) pairs lie between the bounds; NaN never does."""
        assert self.residuals is not None
        is_match: NDArray[np.bool_] = ~np.isnan(self.values)
        for bound, is_open, sign in ((lower, is_lower_open, 1), (upper, is_upper_open, -1)):
            if bound is None:
                continue
            # Compare (double, residual) lexicographically; negating both turns an upper bound into
            # a lower one.
            nearest, residual = split_number(bound)
            values, residuals = sign * self.values, sign * self.residuals
            nearest, residual = sign * nearest, sign * residual
            ties = (residuals > residual) if is_open else (residuals >= residual)
            is_match &= (values > nearest) | ((values == nearest) & ties)
        return is_match


@kernel
def _scan_range(values: Numbers, first: Number, last: Number, bitset: U64Array) -> None:
    """Set the bits of the documents whose value is in [first, last], 64 at a time.

    The inner loop has constant length and no branch, so it vectorizes.
    """
    num_whole = len(values) >> 6
    for word in range(num_whole):
        bits = uint64(0)
        base = word << 6
        for i in range(64):
            value = values[base + i]
            bits |= uint64((value >= first) & (value <= last)) << uint64(i)
        bitset[word] |= bits
    for doc in range(num_whole << 6, len(values)):
        value = values[doc]
        bitset[num_whole] |= uint64((value >= first) & (value <= last)) << uint64(doc & 63)


@kernel(inline=True)
def _hash_of(number: float, num_bits: int) -> int:
    """Return the first bits of a hash of a double."""
    bits = uint64(np.float64(number).view(np.uint64))
    return uint32(bits * _HASH_FACTOR >> uint64(64 - num_bits))


@kernel
def _scan_among(
    values: Numbers, docs: U32Array, wanted: F64Array, num_bits: int, bitset: U64Array
) -> None:
    """Set the bits of the documents that have one of the wanted numbers.

    Few values are among them: a filter of 2^`num_bits` bits leaves out nearly all of the others
    (Bloom: Space/time trade-offs in hash coding with allowable errors, CACM 1970).

    Args:
        values: by document, or by pair.
        docs: document of each pair; empty: values are by document.
        wanted: ascending.
        num_bits: at least 6.
        bitset: of documents; changed.
    """
    may_be_wanted = np.zeros(1 << (num_bits - 6), np.uint64)
    for number in wanted:
        set_bit(may_be_wanted, _hash_of(number, num_bits))
    for i in range(len(values)):
        value = np.float64(values[i]) + 0.0
        if not has_bit(may_be_wanted, _hash_of(value, num_bits)):
            continue
        low = 0
        high = len(wanted)
        while low < high:
            middle = (low + high) >> 1
            if wanted[middle] < value:
                low = middle + 1
            else:
                high = middle
        if low < len(wanted) and wanted[low] == value:
            set_bit(bitset, docs[i] if len(docs) else uint32(i))


def _closed_doubles(
    lower: float | int | None,
    is_lower_open: bool,
    upper: float | int | None,
    is_upper_open: bool,
) -> tuple[float, float]:
    """Return the least and the greatest double of a range."""
    first, last = -math.inf, math.inf
    if lower is not None:
        first, residual = split_number(lower)
        if residual > 0 or (residual == 0 and is_lower_open):
            first = math.nextafter(first, math.inf)
    if upper is not None:
        last, residual = split_number(upper)
        if residual < 0 or (residual == 0 and is_upper_open):
            last = math.nextafter(last, -math.inf)
    return first, last


def split_number(number: float | int) -> tuple[float, int]:
    """Return the nearest double of a number, and by how much the number exceeds it."""
    if isinstance(number, float):
        return number, 0
    try:
        nearest = float(number)
    except OverflowError:
        return (math.inf, 0) if number > 0 else (-math.inf, 0)
    return nearest, number - int(nearest)


def _has_number(values: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which of some documents have a number, in a column with a value for each."""
    if values.dtype.kind == "f":
        return ~np.isnan(values)
    return values != missing_value(values.dtype)


def _exact(
    docs: NDArray[np.uint32], values: NDArray[Any], residuals: NDArray[np.int16] | None
) -> _Numbers:
    """Return stored numbers as doubles with residuals."""
    doubles = values.astype(np.float64)
    if values.dtype == np.int64:
        residuals = int64_residuals(values, doubles)
    return _Numbers(docs, doubles, residuals)


def int64_residuals(
    values: NDArray[np.int64], doubles: NDArray[np.float64]
) -> NDArray[np.int16] | None:
    """Return by how much int64 values exceed their doubles, or None if none does."""
    # The greatest values round to 2^63, which wraps to -2^63; the difference wraps back.
    with np.errstate(invalid="ignore", over="ignore"):
        nearest = np.where(doubles >= _INT64_BOUND, -_INT64_BOUND, doubles).astype(np.int64)
        residuals = (values - nearest).astype(np.int16)
    return residuals if residuals.any() else None


@derived_by_key
def number_column(segment: Segment, field: int) -> NumberColumn | None:
    """Return the number column of a field, or None if the segment has no number there."""
    return NumberColumn(segment, field) if f"number.{field}.values" in segment else None


def plain_number(double: float, residual: int) -> int | float:
    """Return a number as a double if that is exact, so that the storage type does not show."""
    return double if residual == 0 else int(double) + residual
