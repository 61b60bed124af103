"""Counts of a facet, added up over all shards by the coordinator's numbers (`global_ordinals`).

Counts cross the wire as integer arrays, merging is addition, and nothing is truncated before the
sums are exact.

Cost: one kernel pass per shard over its (dense or sparse) counts. If all shards sent sparse pairs,
it visits only the values that have a count, and so does the choice of the greatest
(`bucket_selection`). The sums share one array per process, which is all zeros between searches.
Long numberings are merged on a thread (`facet_scheduling`), with sums of their own.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from common.kernels.decorator import kernel
from common.kernels.types import BoolArray, I64Array, ReadOnly, Rows, U16Array, U32Array
from common.protocol.packed_counts import EVERY, add_packed, clear_sums
from coordinator.cluster.shard_responses import ShardResponses
from coordinator.read.facets.global_ordinals import NO_ORDER, FacetValues, Numbering, Order
from coordinator.read.facets.greatest_counts import select_greatest

_CHOSEN: Final = -2
"""What `_add_and_choose` returns when it has chosen; otherwise what `add_packed` returned."""
_NO_NUMBERS = np.zeros(0, np.uint32)
_NONE_WANTED: Final = np.zeros((2, 0), np.int64)


@kernel
def _add_and_choose(
    packed: ReadOnly[U16Array],
    ends: I64Array,
    shards: I64Array,
    to_number: Rows[np.uint32],
    is_same: BoolArray,
    sums: I64Array,
    touched: U32Array,
    num_values: int,
    ranks: U32Array,
    by_rank: U32Array,
    chosen: Rows[np.int64],
) -> int:
    """Add up one facet as `add_packed` does, and choose its greatest counts if any are wanted.

    One call instead of three, for what most searches need of a facet. The arguments are theirs,
    and `chosen`, an output: numbers, and their counts. If there are enough values with a count, and
    it is known which come first, the sums are zeros again afterwards.
    """
    num_touched = add_packed(packed, ends, shards, to_number, is_same, sums, touched)
    numbers = chosen[0]
    if len(numbers) == 0:
        return num_touched
    found = select_greatest(sums[:num_values], touched, num_touched, ranks, by_rank, numbers)
    if found < len(numbers):
        return num_touched
    for i in range(len(numbers)):
        chosen[1, i] = sums[numbers[i]]
    clear_sums(sums, num_values, touched, num_touched)
    return _CHOSEN


class LiveValues:
    """The values of a facet that occur in a live document.

    Attributes:
        reports: the reports it is made from: (shard, epoch, number of values, bit set).
        mask: by number.
    """

    __slots__ = ("_by_key", "mask", "reports")

    def __init__(
        self, reports: tuple[tuple[int, int, int, bytes | None], ...], mask: NDArray[np.bool_]
    ) -> None:
        self.reports = reports
        self.mask = mask
        self._by_key: tuple[str, NDArray[np.int64]] | None = None

    def has(self, number: int) -> bool:
        """Return whether a value is live."""
        return number < len(self.mask) and bool(self.mask[number])

    def of_first(self, num_values: int) -> NDArray[np.bool_]:
        """Return the mask of the first `num_values` values; the numbering may have grown."""
        mask = self.mask[:num_values]
        return mask if len(mask) == num_values else np.pad(mask, (0, num_values - len(mask)))

    def first_by_key(self, values: FacetValues, num: int, collation: str) -> list[int]:
        """Return the first `num` numbers in the order of their texts; the full order is cached."""
        if self._by_key is None or self._by_key[0] != collation:
            numbers = np.flatnonzero(self.mask)
            self._by_key = collation, numbers[np.argsort(values.ranks(collation)[numbers])]
        first: list[int] = self._by_key[1][:num].tolist()
        return first


class Accumulator:
    """The array in which counts are added up.

    One suffices for the event loop: a search does not yield between adding up and choosing its
    buckets. A search that does so on a thread has its own.

    Attributes:
        sums: by value number; zeros between facets.
        touched: numbers that may have a sum.
    """

    def __init__(self) -> None:
        self.sums = np.zeros(0, np.int64)
        self.touched = np.zeros(0, np.uint32)

    def ensure(self, num_values: int) -> None:
        """Make room for a numbering."""
        if len(self.sums) <= num_values:
            self.sums = np.zeros(2 * num_values + 1, np.int64)
            self.touched = np.empty(2 * num_values + 1, np.uint32)

    def forget(self) -> None:
        """Start over with a new array: the old one may not be all zeros."""
        self.sums = np.zeros(0, np.int64)


_ACCUMULATOR = Accumulator()


class MergedCounts:
    """Counts of one facet over all shards, by the coordinator's value number.

    They live in a shared array until the `with` block ends (see `CountsReader`), unless
    they are `kept`.

    Attributes:
        counts: by number; as long as the numbering was at the time.
        touched: the numbers that may have a count.
        num_touched: how many, or `EVERY`.
    """

    __slots__ = ("_alive", "_find_alive", "_sums", "counts", "num_touched", "touched")

    def __init__(
        self,
        counts: NDArray[np.int64],
        touched: NDArray[np.uint32],
        num_touched: int,
        find_alive: Callable[[], LiveValues | None],
        sums: Accumulator | None = None,
    ) -> None:
        self._sums = sums
        self.counts = counts
        self.touched = touched
        self.num_touched = num_touched
        self._find_alive: Callable[[], LiveValues | None] | None = find_alive
        self._alive: LiveValues | None = None

    @property
    def live(self) -> LiveValues | None:
        """Which values occur in a live document; None if no shard reported it.

        Shards do so whenever a value without hits could be listed.
        """
        if self._find_alive is not None:
            self._alive = self._find_alive()
            self._find_alive = None
        return self._alive

    def exists(self, number: int) -> bool:
        """Return whether any live document has the value."""
        if number >= len(self.counts):
            return False  # added after these counts were made
        if self.counts.item(number) > 0:
            return True
        return (live := self.live) is not None and live.has(number)

    def has_hits(self, number: int) -> bool:
        """Return whether any counted document has the value."""
        return number < len(self.counts) and self.counts.item(number) > 0

    def kept(self) -> MergedCounts:
        """Return a copy of the counts."""
        live = self.live
        return MergedCounts(self.counts.copy(), _NO_NUMBERS, EVERY, lambda: live)

    def plus(self, more: NDArray[np.int64]) -> MergedCounts:
        """Return a copy of the sums with other counts, by number."""
        found = self.kept()
        found.counts[: len(more)] += more
        return found

    def __enter__(self) -> MergedCounts:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._sums is not None:
            clear_sums(self._sums.sums, len(self.counts), self._sums.touched, self.num_touched)


class CountsReader:
    """Adds up the shards' counts of one search, facet by facet, in the order of the request.

    Args:
        answers: pairs (shard ordinal, response).
        numberings: of their facets, as learned (`FacetCache.learn`).
        sums: where to add up; None: in the array of the event loop.
    """

    __slots__ = (
        *("_answers", "_ends", "_num_touched", "_numberings", "_packed", "_position", "_shards"),
        "_sums",
    )

    def __init__(
        self,
        answers: ShardResponses,
        numberings: Sequence[Numbering],
        sums: Accumulator | None = None,
    ) -> None:
        self._answers = answers
        self._numberings = numberings
        self._sums = _ACCUMULATOR if sums is None else sums
        parts = [answer.facet_counts for _, answer in answers]
        self._packed = np.frombuffer(b"".join(parts), np.uint16)
        ends = [0, *itertools.accumulate([len(part) >> 1 for part in parts])]
        self._ends = np.array(ends[:-1], np.int64)
        self._shards = np.array([shard for shard, _ in answers], np.int64)
        self._position = 0
        self._num_touched: int | None = None  # of the next facet, if it is added up already

    def next(self, values: FacetValues) -> MergedCounts:
        """Return the counts of the next facet, for use in a `with` statement.

        Args:
            values: of that facet.
        """
        num_touched, self._num_touched = self._num_touched, None
        if num_touched is None:
            num_touched = self._add_and_choose(len(values), NO_ORDER, _NONE_WANTED)
        position, answers, accumulator = self._position, self._answers, self._sums
        numbering = self._numberings[position]
        self._position += 1
        return MergedCounts(
            accumulator.sums[: len(values)],
            accumulator.touched,
            num_touched,
            lambda: _live_values(values, numbering, answers, position),
            accumulator,
        )

    def next_greatest(
        self, values: FacetValues, order: Order, num_wanted: int
    ) -> tuple[list[int], list[int]] | None:
        """Return the greatest counts of the next facet, best first; equal ones by rank.

        Args:
            values: of that facet.
            order: of the values, or of some of them.
            num_wanted: at least 1.

        Returns:
            Numbers, and their counts. None if fewer have a count, or if the order does not tell
            which come first: then the facet is still the next, added up already.
        """
        num_values = len(values)
        chosen = np.empty((2, min(num_wanted, num_values)), np.int64)
        num_touched = self._add_and_choose(num_values, order, chosen)
        if num_touched != _CHOSEN:
            self._num_touched = num_touched
            return None
        self._position += 1
        numbers, counts = chosen.tolist()
        return numbers, counts

    def _add_and_choose(self, num_values: int, order: Order, chosen: NDArray[np.int64]) -> int:
        """Add up the counts of the next facet; see the kernel."""
        numbering, accumulator = self._numberings[self._position], self._sums
        accumulator.ensure(num_values)
        try:
            num_touched: int = _add_and_choose(
                self._packed,
                self._ends,
                self._shards,
                numbering.to_number,
                numbering.is_same,
                accumulator.sums,
                accumulator.touched,
                num_values,
                order.ranks,
                order.by_rank,
                chosen,
            )
        except BaseException:
            accumulator.forget()
            raise
        return num_touched


def _live_values(
    values: FacetValues, numbering: Numbering, answers: ShardResponses, position: int
) -> LiveValues | None:
    """Return the values that occur in a live document, or None if no shard reported them.

    Cached until a shard reports something else: it depends on the state of the index, not on
    the search.

    Args:
        values: of the facet.
        numbering: of the values that the responses count.
        answers: pairs (shard ordinal, response).
        position: of the facet within each response.
    """
    reports = tuple(
        [
            (shard, part.epoch, part.num_values, part.live)
            for shard, answer in answers
            if (part := answer.facets[position]).live is not None
        ]
    )
    if not reports:
        return None
    known = values.derived.get("live")
    if isinstance(known, LiveValues) and known.reports == reports:
        return known
    mask = np.zeros(len(values), np.bool_)
    for shard, _, num_values, live in reports:
        assert live is not None
        bits = np.frombuffer(live, np.uint8)
        living = np.unpackbits(bits, count=num_values, bitorder="little")
        mask[numbering.to_number[shard, :num_values][living.view(np.bool_)]] = True
    made = values.derived["live"] = LiveValues(reports, mask)
    return made


class GroupCounts(NamedTuple):
    """How many groups (values of the `distinct` field) have each value of a facet."""

    counts: NDArray[np.int64]
    """By the coordinator's number of the value."""
    num_missing: int
    """Groups with a hit that has none; 0 unless requested."""
