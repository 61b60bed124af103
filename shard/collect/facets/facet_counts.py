"""Facet counts: how many matching documents have each value, exactly.

For each segment the cheapest of four ways, by how many documents match (times measured for 500,000
documents and 75,000 matches):

    all match      stored totals, less the deleted documents    0 per match
    most match     totals less the counts of those that do not match
    few values     matches intersected with the stored sets     8 values: 10 µs
    otherwise      one pass over the codes of the matches       35 µs, multi-valued 180 µs

In a large segment that would be a cache miss a match and column, or more. There, facets that count
within the same matches are counted together, by rows that have the codes of all of them
(`facet_rows`, `_JointCounts`).

All ways add into one array by value number; the shard's segments share the numbers, so nothing is
translated. The array stays zero between searches: packing the counts for the wire (packed_counts)
clears them. Where a dictionary is longer than the matches have codes (500 matches, 5,000 brands),
each code is noted when first counted, and only the noted ones are visited.

Counts over all live documents do not depend on the query. They are cached with the snapshot, packed
as they are sent (`SnapshotTotals`).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
from msgspec import structs

from common.deadline import check_call
from common.protocol.messages import FacetCounts, FacetRequest
from common.protocol.packed_counts import pack_counts, pack_touched, units_max
from shard.caches.derived_values import derived_by_key
from shard.collect.facets.drill_sideways import CountedMatches
from shard.collect.nested.element_counts import WithinCounter, count_without
from shard.segment.columns.code_counting import count_codes, count_codes_noting
from shard.segment.columns.facet_columns import FacetColumn, facet_column
from shard.segment.columns.facet_rows import ROWS_DOCS_MIN, columns_of, facet_rows

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from shard.query.matches import Matches
    from shard.segment.snapshot import SegmentView, Snapshot

_WALKED_PER_NOTED: Final = 2
"""Values visited in the time that noting one code takes."""
_CODE_NS: Final = 0.5
"""Reading one code of a single-valued column; listing the match costs the same again."""
_CODES_NS: Final = 2.5
"""Reading the codes of one document of a multi-valued column."""
_SET_UNIT_NS: Final = 0.06
"""Intersecting and counting one uint16 of a stored bitset."""
_SET_DOC_NS: Final = 1.0
"""Looking up one document of a stored list."""
_SETS_MATCHES_MIN: Final = 1_024
"""With fewer matches, stored sets never pay off."""
_ROWS_MATCHES_MIN: Final = 1_024
"""With fewer matches, counting them together never pays off."""
_ROWS_SHARE: Final = 16
"""Nor does it where more than one document in this many matches: columns are then read in order."""


_KEPT_VALUES_MAX: Final = 1_000_000
"""Room for more values is given back when no search has needed it for `_KEPT_SECONDS`: up to 16
bytes a value, on each thread."""
_KEPT_SECONDS: Final = 60.0


class _Scratch(threading.local):
    """Per-thread counters; they grow with the longest dictionary.

    They are kept between searches, because page faults cost as much as counting.

    Attributes:
        counts: by code; zeros between facets.
        touched: codes with a count.
        packed: the units to send.
    """

    def __init__(self) -> None:
        self._release()

    def _release(self) -> None:
        self.counts = np.zeros(0, np.uint32)
        self.touched = np.zeros(0, np.uint32)
        self.packed = np.zeros(0, np.uint16)
        self._is_large = False
        self._needed_at = 0.0

    def ensure(self, num_values: int, num_units: int) -> None:
        """Make room for a dictionary of `num_values`, and for `num_units` to send."""
        if max(num_values, num_units >> 2) > _KEPT_VALUES_MAX:
            self._is_large = True
            self._needed_at = time.monotonic()
        elif self._is_large and time.monotonic() - self._needed_at > _KEPT_SECONDS:
            self._release()
        if len(self.counts) < num_values + 2:
            self.counts = np.zeros(2 * num_values + 2, np.uint32)
            self.touched = np.empty(2 * num_values + 2, np.uint32)
        if len(self.packed) < num_units:
            self.packed = np.empty(2 * num_units, np.uint16)


_SCRATCH: Final = _Scratch()


def count_facets(
    snapshot: Snapshot,
    requests: Sequence[FacetRequest],
    counted: CountedMatches,
) -> tuple[tuple[FacetCounts, ...], bytes]:
    """Count all facets of a search.

    Args:
        snapshot: to search.
        requests: the facets, and how much to send of each.
        counted: the matches that they count within.

    Returns:
        What to report of each facet, and the counts of all as `packed_counts` draws them. A field
        that is not, or no longer, a facet has no values.
    """
    if not requests:
        return (), b""
    scratch = _SCRATCH
    counters = []
    num_values = num_units = 0
    for request in requests:
        counter = facet_counter(snapshot, request.field)
        counters.append(counter)
        if counter.num_values > num_values:
            num_values = counter.num_values
        num_units += counter.units_max
    scratch.ensure(num_values, num_units)
    joint = _JointCounts(snapshot, requests, counted)
    within = None
    answers = []
    at = 0
    try:
        for request, counter in zip(requests, counters, strict=True):
            matches = counted.of_facet(request)
            if request.within is None:
                at, num_present = counter.count(matches, scratch, at, joint)
            else:
                check_call()
                within = within or WithinCounter(snapshot)
                counts = scratch.counts[: counter.num_values + 1]
                within.count(request.field, request.within, matches, counts)
                at, num_present = pack_counts(counts, counter.num_values, scratch.packed, at)
            wants_live = num_present < request.num_live_wanted
            answer = counter.with_live if wants_live else counter.complete
            if request.wants_missing:
                check_call()
                missing = counter.count_missing(snapshot, request, matches)
                answer = structs.replace(answer, num_missing=missing)
            answers.append(answer)
    except BaseException:
        scratch.counts = np.zeros(0, np.uint32)  # they may not be zeros
        raise
    return tuple(answers), scratch.packed[:at].tobytes()


class _JointCounts:
    """Counts of the facets of a search that are counted together, made when first asked for.

    Facets of one scope count within the same matches, so one pass over the rows of a segment counts
    all of them.

    Args:
        snapshot: to search.
        requests: the facets.
        counted: the matches that they count within.
    """

    __slots__ = ("_by_part", "_counted", "_requests", "_snapshot")

    def __init__(
        self, snapshot: Snapshot, requests: Sequence[FacetRequest], counted: CountedMatches
    ) -> None:
        self._snapshot = snapshot
        self._requests = requests
        self._counted = counted
        self._by_part: dict[Matches, Mapping[int, NDArray[np.uint32]] | None] = {}

    def of(
        self, field: str, matches: Sequence[Matches], part: Matches
    ) -> NDArray[np.uint32] | None:
        """Return a facet's counts by code within the matches of a segment; None: count it alone.

        Args:
            field: path of the facet.
            matches: those that it counts.
            part: one of them.
        """
        num_docs = part.view.segment.num_docs
        if num_docs < ROWS_DOCS_MIN:
            return None
        if not _ROWS_MATCHES_MIN <= part.count <= num_docs // _ROWS_SHARE:
            return None
        if part not in self._by_part:
            self._by_part[part] = self._count(matches, part)
        counts = self._by_part[part]
        number = self._snapshot.registry.number(field)
        return None if counts is None or number is None else counts.get(number)

    def _count(
        self, matches: Sequence[Matches], part: Matches
    ) -> Mapping[int, NDArray[np.uint32]] | None:
        """Count the facets within the matches of a segment, if several count these."""
        numbers: set[int] = set()
        num_sharing = 0
        for request in self._requests:
            number = self._snapshot.registry.number(request.field)
            if number is not None and request.within is None:
                numbers.add(number)
                num_sharing += self._counted.of_facet(request) is matches
        if num_sharing < 2:
            return None
        segment = part.view.segment
        ordered = tuple(sorted(numbers))
        rows = facet_rows(segment, ordered)
        return None if rows is None else rows.count(part.docs, columns_of(segment, ordered))


class SnapshotTotals:
    """Counts of one facet over all live documents of a snapshot.

    Attributes:
        num_present: how many are positive.
        live: bitset of those, as sent.
        packed: the counts as sent.
    """

    __slots__ = ("live", "num_present", "packed")

    def __init__(self, counts: NDArray[np.uint32]) -> None:
        num_values = len(counts) - 1
        self.live = np.packbits(counts[1:] > 0, bitorder="little").tobytes()
        packed = np.empty(units_max(num_values), np.uint16)
        end, self.num_present = pack_counts(counts, num_values, packed, 0)
        self.packed = packed[:end].copy()


class FacetCounter:
    """Counts one facet over the segments of a snapshot; one instance per snapshot and facet.

    Attributes:
        field: path of the facet.
        epoch: of the dictionary.
        num_values: length of the dictionary as of the snapshot.
        complete: what to report of the facet besides its counts.
        units_max: upper bound on the units of its packed counts.
    """

    __slots__ = (
        "_codes_per_doc",
        "_columns",
        "_num_docs",
        "_totals",
        "_views",
        "_with_live",
        "complete",
        "epoch",
        "field",
        "num_values",
        "units_max",
    )

    def __init__(self, snapshot: Snapshot, field: str) -> None:
        self.field = field
        number = None
        self.epoch = self.num_values = 0
        if field in snapshot.dictionaries:
            self.epoch = snapshot.dictionaries[field].epoch
            self.num_values = snapshot.dictionary_lengths[field]
            number = snapshot.registry.number(field)
        self.units_max = units_max(self.num_values)
        self._totals: SnapshotTotals | None = None
        self._columns: list[FacetColumn | None] = [
            None if number is None else facet_column(view.segment, number)
            for view in snapshot.views
        ]
        self._codes_per_doc = max(
            [column.codes_per_doc for column in self._columns if column is not None], default=1.0
        )
        # Not the snapshot itself: it caches this counter, and a cycle would keep all its segments
        # live.
        self._views = snapshot.views
        self._num_docs = snapshot.num_docs
        self.complete = FacetCounts(field, self.epoch, self.num_values, None)
        self._with_live: FacetCounts | None = None

    @property
    def totals(self) -> SnapshotTotals:
        """Counts over all live documents; computed on first use."""
        if self._totals is None:
            counts = np.zeros(self.num_values + 1, np.uint32)
            for view, column in zip(self._views, self._columns, strict=True):
                if column is not None:
                    _add_live_totals(view, column, counts)
            self._totals = SnapshotTotals(counts)
        return self._totals

    def count(
        self,
        matches: Sequence[Matches],
        scratch: _Scratch,
        at: int,
        joint: _JointCounts,
    ) -> tuple[int, int]:
        """Count the facet within the matches, and pack the counts.

        Args:
            matches: by segment of the snapshot.
            scratch: with room for the facet.
            at: where its packed counts begin.
            joint: the counts of facets that are counted together.

        Returns:
            Where they end, and how many values have a count.
        """
        num_matches = 0
        for part in matches:
            num_matches += part.count
        if num_matches == self._num_docs:
            totals = self.totals
            end = at + len(totals.packed)
            scratch.packed[at:end] = totals.packed
            return end, totals.num_present
        num_values = self.num_values
        counts = scratch.counts[: num_values + 1]
        # Few codes to count, many values: note which ones are counted.
        if num_matches * self._codes_per_doc * _WALKED_PER_NOTED < num_values:
            touched = scratch.touched
            num_touched = 0
            for part, column in zip(matches, self._columns, strict=True):
                if part.count and column is not None:
                    num_touched = count_codes_noting(
                        part.docs, column.codes, column.starts, counts, touched, num_touched
                    )
            return pack_touched(counts, touched, num_touched, num_values, scratch.packed, at)
        check_call()
        for part, column in zip(matches, self._columns, strict=True):
            if part.count and column is not None:
                known = joint.of(self.field, matches, part)
                if known is None:
                    _add_counts(part, column, counts)
                else:
                    counts[: len(known)] += known
        return pack_counts(counts, num_values, scratch.packed, at)

    def count_missing(
        self, snapshot: Snapshot, request: FacetRequest, matches: Sequence[Matches]
    ) -> int:
        """Return how many matches have no value; for elements, have none in those that pass."""
        if request.within is not None:
            return count_without(snapshot, request.field, request.within, matches)
        missing = 0
        for part, column in zip(matches, self._columns, strict=True):
            if column is None or not part.count:
                missing += part.count
            elif column.is_single:
                missing += part.count - int(np.count_nonzero(column.codes[part.docs]))
            else:
                lengths = column.starts[part.docs + np.uint32(1)] - column.starts[part.docs]
                missing += part.count - int(np.count_nonzero(lengths))
        return missing

    @property
    def with_live(self) -> FacetCounts:
        """`complete` with the values that live documents have; made on first use."""
        if self._with_live is None:
            live = self.totals.live
            self._with_live = FacetCounts(self.field, self.epoch, self.num_values, live)
        return self._with_live


def _add_live_totals(view: SegmentView, column: FacetColumn, counts: NDArray[np.uint32]) -> None:
    """Add the number of live documents of each value to counts[number + 1]."""
    column.add_totals(counts)
    deleted = view.deleted_docs
    if deleted is not None:
        _subtract_codes(deleted, column, counts)


def _subtract_codes(
    docs: NDArray[np.uint32], column: FacetColumn, counts: NDArray[np.uint32]
) -> None:
    fewer = np.zeros(len(counts), np.uint32)
    count_codes(docs, column.codes, column.starts, fewer)
    counts -= fewer


def _add_counts(part: Matches, column: FacetColumn, counts: NDArray[np.uint32]) -> None:
    """Add the matches of one segment, in the way estimated as cheapest."""
    if part.is_all:
        _add_live_totals(part.view, column, counts)
        return
    num_others = part.view.num_docs - part.count
    code_ns = _CODE_NS if column.is_single else _CODES_NS
    listing_ns = 0.0 if part.has_docs else _CODE_NS
    if part.count > _SETS_MATCHES_MIN:
        limit_ns = (code_ns + listing_ns) * min(part.count, num_others)
        if column.intersects_within(_SET_UNIT_NS, _SET_DOC_NS, limit_ns):
            column.add_intersections(part.bitset, counts)
            return
    if num_others * (code_ns + _CODE_NS) + len(counts) < part.count * (code_ns + listing_ns):
        _add_live_totals(part.view, column, counts)
        _subtract_codes(part.other_docs(), column, counts)
        return
    count_codes(part.docs, column.codes, column.starts, counts)


@derived_by_key
def facet_counter(snapshot: Snapshot, field: str) -> FacetCounter:
    """Return the counter of a facet; if the field is not a facet, one that finds nothing."""
    return FacetCounter(snapshot, field)
