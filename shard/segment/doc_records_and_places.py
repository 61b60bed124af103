"""Doc records: the record and the place of each document, in 32 bits each.

Questions it answers: under which record is a document stored, which documents have some records,
when was a document inserted?

    docs.record      uint32[n]  record, less the segment's first one (`first_record` in its `meta`)
    docs.place       uint32[n]  code of the place; codes have the order of the places
    docs.seqs        uint32[k]  seqs of the write groups that these places are from, ascending
    docs.seq_codes   uint32[k]  code of the first place of each

A place is `seq << 32 | position`, 64 bits. But a segment has items of few groups, and a group takes
no more codes than its greatest position + 1, so the codes fit 32 bits. The exceptions are stored
unchanged, as uint64: records, where the first and the last are 2^32 apart (`first_record` is 0
then); places, without a table, where they need more than 2^32 codes, where they are of so many
groups that the table would take more than it saves (items written one by one), and in small
segments. (Up to version 8, all segments had both unchanged.)

Costs: 8 bytes a document. A place takes a search among groups: codes that share their upper bits
have few groups, and which these are is known (in memory, 16 bytes a group).

Worked example: records 7, 8, 9 with the places 4 << 32 | 2, 4 << 32 | 3, 6 << 32 | 0:
first_record 7, docs.record [0, 1, 2]; seqs [4, 6] take the codes 0 to 3 and 4: seq_codes [0, 4],
docs.place [2, 3, 4].
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from common.kernels.decorator import arguments, kernel
from common.kernels.types import U32, U64, U32Array, U64Array, int64, uint32, uint64
from shard.caches.derived_values import derived
from shard.segment.merge_allocator import IN_MEMORY, MergeAllocator
from shard.segment.merge_state import MergeState

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from shard.segment.segment import Segment

_NARROW_MAX: Final = (1 << 32) - 1
TABLE_DOCS_MIN: Final = 1_024
"""Smaller segments store places unchanged, so that small writes need not examine them."""
_TABLE_SHARE: Final = 2
"""A table of seqs pays off with at least this many documents for each seq: it takes 8 bytes a seq,
and saves 4 a document."""

DOCS: Final = "docs."
"""The names of the arrays begin with it."""
TABLE_NAMES: Final = frozenset({"docs.seqs", "docs.seq_codes"})
"""Arrays that some segments lack."""

_BITS_PER_SEQ: Final = 1
"""So many more bits of a code are looked up than it takes to tell all seqs apart."""

_S32: Final = uint64(32)
_LOW32: Final = uint64(0xFFFFFFFF)
_NO_NUMBERS: Final = np.zeros(0, np.uint32)
_NO_WIDE: Final = np.zeros(0, np.uint64)


@arguments
class DocRecords(NamedTuple):
    """The arrays of a segment; see the module.

    Attributes:
        first_record: to add to `records`.
        records: less the first one; empty if they are wide.
        wide_records: the records; empty if they are not wide.
        codes: of the places; empty if these are wide.
        seqs: of the table.
        seq_codes: of the table.
        first_seqs: by the upper bits of a code, the index of the last seq whose codes begin at or
            before the least such code; the last index comes once more.
        low_bits: how many bits of a code are not such upper bits.
        wide_places: the places; empty if they are not wide.
    """

    first_record: int
    records: NDArray[np.uint32]
    wide_records: NDArray[np.uint64]
    codes: NDArray[np.uint32]
    seqs: NDArray[np.uint32]
    seq_codes: NDArray[np.uint32]
    first_seqs: NDArray[np.uint32]
    low_bits: int
    wide_places: NDArray[np.uint64]


@kernel(allocates=False)
def _last_up_to(numbers: U32Array, wanted: U32, low: int, high: int) -> int:
    """Return the index of the last of ascending numbers that is at most `wanted`.

    Args:
        numbers: ascending.
        wanted: a number.
        low: the least index that is possible, and the result if none is so small.
        high: above the greatest that is possible.
    """
    while high - low > 1:
        middle = (low + high) >> 1
        if numbers[middle] <= wanted:
            low = middle
        else:
            high = middle
    return low


@kernel(inline=True, allocates=False)
def record_of(numbers: DocRecords, doc: int) -> U64:
    """Return the record of a document."""
    if len(numbers.wide_records) > 0:
        return numbers.wide_records[doc]
    return uint64(numbers.first_record) + uint64(numbers.records[doc])


@kernel(inline=True, allocates=False)
def place_of(numbers: DocRecords, doc: int) -> U64:
    """Return the place of a document."""
    if len(numbers.wide_places) > 0:
        return numbers.wide_places[doc]
    code = numbers.codes[doc]
    first_seqs = numbers.first_seqs
    upper = min(int64(code) >> numbers.low_bits, len(first_seqs) - 2)
    low, high = int64(first_seqs[upper]), int64(first_seqs[upper + 1])
    at = _last_up_to(numbers.seq_codes, code, low, high + 1)
    return uint64(numbers.seqs[at]) << _S32 | uint64(code - numbers.seq_codes[at])


@kernel(allocates=False)
def _read(numbers: DocRecords, docs: U32Array, places: U64Array, records: U64Array) -> None:
    """Write the places and records of some documents."""
    for i in range(len(docs)):
        places[i] = place_of(numbers, int64(docs[i]))
        records[i] = record_of(numbers, int64(docs[i]))


@kernel(allocates=False)
def _read_places(numbers: DocRecords, docs: U32Array, places: U64Array) -> None:
    """Write the places of some documents."""
    for i in range(len(docs)):
        places[i] = place_of(numbers, int64(docs[i]))


@kernel(allocates=False)
def _find_runs(places: U64Array, seqs: U64Array, lasts: U64Array) -> int:
    """Write the seq of each run of places with the same one, and its greatest position."""
    count = int64(0)
    for place in places:
        seq = place >> _S32
        if count == 0 or seqs[count - 1] != seq:
            seqs[count] = seq
            lasts[count] = 0
            count += 1
        lasts[count - 1] = max(lasts[count - 1], place & _LOW32)
    return count


@kernel(allocates=False)
def _encode_places(places: U64Array, seqs: U32Array, seq_codes: U32Array, codes: U32Array) -> None:
    """Write the code of each place."""
    at: Any = int64(0)
    for i in range(len(places)):
        seq = uint32(places[i] >> _S32)
        if seq != seqs[at]:  # mostly it is that of the place before
            at = _last_up_to(seqs, seq, int64(0), int64(len(seqs)))
        codes[i] = seq_codes[at] + uint32(places[i] & _LOW32)


@derived
def doc_records(segment: Segment) -> DocRecords:
    """Return the records and places of a segment's documents, for kernels."""
    records, places = segment["docs.record"], segment["docs.place"]
    are_records_wide = records.dtype == np.uint64
    are_places_wide = places.dtype == np.uint64
    seq_codes = _NO_NUMBERS if are_places_wide else segment["docs.seq_codes"]
    first_seqs, low_bits = _first_seqs(seq_codes)
    return DocRecords(
        _first_record(segment),
        _NO_NUMBERS if are_records_wide else records,
        records if are_records_wide else _NO_WIDE,
        _NO_NUMBERS if are_places_wide else places,
        _NO_NUMBERS if are_places_wide else segment["docs.seqs"],
        seq_codes,
        first_seqs,
        low_bits,
        places if are_places_wide else _NO_WIDE,
    )


def _first_seqs(seq_codes: NDArray[np.uint32]) -> tuple[NDArray[np.uint32], int]:
    """Return where to look for the seq of a code: `first_seqs` and `low_bits` of `DocRecords`."""
    if not len(seq_codes):
        return np.zeros(2, np.uint32), 0
    greatest = int(seq_codes[-1])
    low_bits = max(0, greatest.bit_length() - _BITS_PER_SEQ - len(seq_codes).bit_length())
    least_codes = np.arange((greatest >> low_bits) + 1, dtype=np.uint64) << np.uint64(low_bits)
    firsts = np.searchsorted(seq_codes, least_codes, side="right").clip(min=1) - 1
    return np.append(firsts, len(seq_codes) - 1).astype(np.uint32), low_bits


def is_of_earlier_program(segment: Segment) -> bool:
    """Return whether a segment file is of version 8 or before."""
    return "first_record" not in segment.meta


def _first_record(segment: Segment) -> int:
    first: int = segment.meta.get("first_record", 0)
    return first


@derived
def record_bounds(segment: Segment) -> tuple[int, int]:
    """Return the records of the first and the last document of a segment that has any."""
    own, first_record = segment["docs.record"], _first_record(segment)
    return first_record + int(own[0]), first_record + int(own[-1])


def place_bounds(segment: Segment) -> tuple[int, int]:
    """Return the places of the first and the last document of a segment that has any."""
    first, last = places_of(segment, np.array([0, segment.num_docs - 1], np.uint32)).tolist()
    return first, last


def records_of(segment: Segment, docs: NDArray[Any] | None = None) -> NDArray[np.uint64]:
    """Return the records of some documents, or of all."""
    own = segment["docs.record"]
    records: NDArray[np.uint64] = (own if docs is None else own[docs]).astype(np.uint64)
    records += np.uint64(_first_record(segment))
    return records


def records_of_few(segment: Segment, docs: NDArray[np.uint32]) -> list[int]:
    """Return the records of a few documents: for one, in a sixth of the time of `records_of`."""
    own, first_record = segment["docs.record"], _first_record(segment)
    return [first_record + int(own[doc]) for doc in docs.tolist()]


def places_of(segment: Segment, docs: NDArray[Any] | None = None) -> NDArray[np.uint64]:
    """Return the places of some documents, or of all."""
    wanted = np.arange(segment.num_docs) if docs is None else docs
    places = np.empty(len(wanted), np.uint64)
    _read_places(doc_records(segment), np.ascontiguousarray(wanted, np.uint32), places)
    return places


def numbers_of(
    segment: Segment, docs: NDArray[np.uint32]
) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Return the places and the records of some documents."""
    places, records = np.empty((2, len(docs)), np.uint64)
    _read(doc_records(segment), np.ascontiguousarray(docs, np.uint32), places, records)
    return places, records


def docs_of_records(segment: Segment, records: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Return the ordinals of a segment's documents that have any of some records, ascending.

    Args:
        segment: to search; its records ascend.
        records: ascending.
    """
    own = segment["docs.record"]
    if len(own) == 0 or len(records) == 0:
        return np.zeros(0, np.int64)
    first, last = record_bounds(segment)
    if records[-1] < first or records[0] > last:  # as in most segments, for the records of a write
        return np.zeros(0, np.int64)
    low, high = np.searchsorted(records, np.array([first, last + 1], np.uint64))
    inside = (records[low:high] - np.uint64(_first_record(segment))).astype(own.dtype)
    ordinals = np.searchsorted(own, inside)
    found: NDArray[np.int64] = ordinals[own[ordinals] == inside]
    return found


# --- building and merging


class NumberedDocs(NamedTuple):
    """Arrays and facts of a segment.

    Attributes:
        arrays: docs.*.
        facts: `first_record`; `places_ascending`: whether the documents are in order of insertion.
    """

    arrays: dict[str, NDArray[Any]]
    facts: dict[str, Any]


_Numbers = tuple["NDArray[np.uint64]", "NDArray[np.uint64]"]
"""Places and records of consecutive documents."""


def build_doc_records(places: NDArray[np.uint64], records: NDArray[np.uint64]) -> NumberedDocs:
    """Build the numbers of a batch's documents; the records ascend."""
    return _encode(lambda: iter([(places, records)]), len(records), IN_MEMORY)


def merge_doc_records(state: MergeState) -> NumberedDocs:
    """Merge the numbers of segments; equal to a build from the same documents."""

    def kept() -> Iterator[_Numbers]:
        for part, doc_map in state.mapped_parts:
            for rows in state.allocator.pieces(part.num_docs):
                docs = np.flatnonzero(doc_map[rows] >= 0) + rows.start
                yield numbers_of(part, docs.astype(np.uint32))

    return _encode(kept, state.num_docs, state.allocator)


class _Survey:
    """Facts about the records and places of documents that decide their form.

    Attributes:
        first_record: of all.
        last_record: of all.
        is_ascending: whether their places ascend.
        seqs: that occur, ascending; empty for small segments.
        last_positions: by seq, the greatest position.
    """

    def __init__(self, pieces: Iterable[_Numbers], num_docs: int) -> None:
        self.first_record = self.last_record = 0
        self.is_ascending = True
        self.seqs, self.last_positions = np.zeros((2, 0), np.uint64)
        last_place: int | None = None
        for places, records in pieces:
            if not len(places):
                continue
            is_first = last_place is None
            if is_first:
                self.first_record = int(records[0])
            self.last_record = int(records[-1])
            self.is_ascending &= (last_place is None or last_place < int(places[0])) and bool(
                (places[1:] > places[:-1]).all()
            )
            last_place = int(places[-1])
            if num_docs >= TABLE_DOCS_MIN:
                self._add(places)

    def _add(self, places: NDArray[np.uint64]) -> None:
        seqs, lasts = np.empty((2, len(places)), np.uint64)
        count = _find_runs(places, seqs, lasts)
        seqs = np.concatenate((self.seqs, seqs[:count]))
        lasts = np.concatenate((self.last_positions, lasts[:count]))
        order = np.argsort(seqs)
        self.seqs, firsts = np.unique(seqs[order], return_index=True)
        self.last_positions = np.maximum.reduceat(lasts[order], firsts)

    def table(self, num_docs: int) -> dict[str, NDArray[np.uint32]] | None:
        """Return the table of seqs; None if the places are stored unchanged."""
        if num_docs < TABLE_DOCS_MIN:
            return None
        ends = np.cumsum(self.last_positions + np.uint64(1))
        if len(ends) * _TABLE_SHARE > num_docs or int(ends[-1:].sum()) > _NARROW_MAX + 1:
            return None
        firsts = ends - self.last_positions - np.uint64(1)
        return {
            "docs.seqs": self.seqs.astype(np.uint32),
            "docs.seq_codes": firsts.astype(np.uint32),
        }


def _encode(
    pieces: Callable[[], Iterable[_Numbers]], num_docs: int, allocator: MergeAllocator
) -> NumberedDocs:
    """Return the arrays and facts of a segment; `pieces` is called twice, for two passes."""
    survey = _Survey(pieces(), num_docs)
    table = survey.table(num_docs)
    is_narrow = survey.last_record - survey.first_record <= _NARROW_MAX
    first_record = survey.first_record if is_narrow else 0
    all_records = allocator.empty(num_docs, np.uint32 if is_narrow else np.uint64)
    all_places: NDArray[Any] = allocator.empty(num_docs, np.uint64 if table is None else np.uint32)
    at = 0
    for places, records in pieces():
        rows = slice(at, at + len(places))
        all_records[rows] = records - np.uint64(first_record)
        if table is None:
            all_places[rows] = places
        else:
            _encode_places(places, table["docs.seqs"], table["docs.seq_codes"], all_places[rows])
        at = rows.stop
    return NumberedDocs(
        {"docs.record": all_records, "docs.place": all_places, **(table or {})},
        {"places_ascending": survey.is_ascending, "first_record": first_record},
    )
