"""One numbering of a facet's values over all shards, and buckets from merged counts.

The question: shard 0 says "my value 17 has 230 hits", shard 1 says "my value 4 has 198". Which
texts are these, are they the same, and which ten buckets come first?

    shard 0's dictionary   0 drama  1 crime  2 comedy           (append-only, one epoch)
    shard 1's dictionary   0 comedy 1 drama
    FacetValues.values     0 drama  1 crime  2 comedy           (append-only)
    to_number[0]           [0, 1, 2]
    to_number[1]           [2, 0]                               merged[to_number[s]] += counts[s]

A shard's response names the epoch and length of its dictionary. If our map is shorter or of another
epoch, we fetch the missing part once (`missing_from`, `extend`) before adding up the counts. So
counts cross the wire as integer arrays, merging is addition, and nothing is truncated before the
sums are exact.

Cost: addition is one kernel pass per shard over its (dense or sparse) counts; choosing the top k is
one pass with a heap of size k. If all shards sent sparse pairs, both passes visit only the values
that have a count. The sums share one array per process, which is all zeros between searches. Only
the values of the page are touched as texts: equal counts are ordered by *rank*, which is known for
the values that existed when the numbering was last sorted. It is sorted again when unranked values
get in the way too often (up to the length `_RANKED_MAX`).

Long numberings are merged and listed on a thread (`facet_listing`): with sums of their own, beside
an event loop that may add values to the numbering meanwhile, but never changes one.
"""

from __future__ import annotations

import heapq
import itertools
import re
from collections.abc import Callable, Hashable, Sequence
from types import TracebackType
from typing import NamedTuple

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from common.analysis.collation import collator
from common.analysis.collations import CODE_POINTS
from common.kernels.decorator import kernel
from common.kernels.heaps import replace_least
from common.kernels.types import I64Array, U32Array, int64
from common.protocol.messages import SearchResponse
from common.protocol.packed_counts import EVERY, add_packed, clear_sums
from coordinator.parameters.typed import BucketOrder
from coordinator.read.text_order import sorted_numbers

_NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]+)?\Z")
_TIES_MAX = 4_096
"""Up to this many values of equal count are sorted as texts; more are sorted by rank."""
_RANKED_MAX = 1 << 16
"""Longer numberings are sorted only to break very many ties: a million texts take half a second."""
_ORDERS_MAX = 4
"""Collations of a facet whose order is kept; 8 bytes a value each."""
_UNRANKED_MIN = 64
"""Unranked values tolerated before sorting again: this many, or a sixteenth of the ranked ones."""
_NUM_TABLES = 64
"""Among which the numbers of a facet's values are spread."""
_NO_NUMBERS = np.zeros(0, np.uint32)
_NONE_CHOSEN: frozenset[int] = frozenset()

Answers = Sequence[tuple[int, SearchResponse]]
"""Pairs (shard ordinal, response)."""


@kernel
def _select_top(
    counts: I64Array,
    touched: U32Array,
    num_touched: int,
    ranks: U32Array,
    by_rank: U32Array,
    best: I64Array,
) -> int:
    """Write the k values with the greatest counts, best first; the lower rank wins a tie.

    One pass with a min-heap of k keys: count in the upper half, inverted rank in the lower.

    Args:
        counts: by number; less than 2^31.
        touched: the numbers that may have a count.
        num_touched: how many, or `EVERY`.
        ranks: by number; may be shorter than `counts`.
        by_rank: the number at each rank.
        best: output of 2 k elements: k numbers, then their k counts.

    Returns:
        How many values were written. Negative if unranked values are among the k best or tie with
        the last of them: minus the k-th greatest count.
    """
    k = len(best) >> 1
    low_half = int64(0xFFFFFFFF)
    heap = np.empty(k, np.int64)
    size = 0
    floor = 0
    greatest_unranked = 0
    num_seen = len(counts) if num_touched == EVERY else num_touched
    for i in range(num_seen):
        number = int64(i) if num_touched == EVERY else int64(touched[i])
        count = counts[number]
        if count <= floor:
            continue
        key = count << 32
        if number < len(ranks):
            key |= low_half - int64(ranks[number])
        else:
            greatest_unranked = max(greatest_unranked, count)
        if size < k:
            at = size
            size += 1
            while at > 0 and heap[(at - 1) >> 1] > key:
                heap[at] = heap[(at - 1) >> 1]
                at = (at - 1) >> 1
            heap[at] = key
        elif key > heap[0]:
            replace_least(heap, k, key)
        if size == k:
            floor = (heap[0] >> 32) - 1
    if greatest_unranked > floor:
        return -(floor + 1)
    for i in range(size - 1, -1, -1):
        key = heap[0]
        best[i] = int64(by_rank[low_half - (key & low_half)])
        best[k + i] = key >> 32
        replace_least(heap, i, heap[i])
    return size


@kernel
def _list_at_least(
    counts: I64Array, touched: U32Array, num_touched: int, threshold: int, chosen: I64Array
) -> int:
    """Write the numbers of all values whose count is at least the threshold.

    Returns:
        How many numbers were written, or -1 if they did not fit.
    """
    num = 0
    num_seen = len(counts) if num_touched == EVERY else num_touched
    for i in range(num_seen):
        number = int64(i) if num_touched == EVERY else int64(touched[i])
        if counts[number] >= threshold:
            if num == len(chosen):
                return -1
            chosen[num] = number
            num += 1
    return num


class _Order(NamedTuple):
    """The order of the values of a numbering as texts; of the first of them, if it has grown."""

    ranks: NDArray[np.uint32]
    """By number."""
    by_rank: NDArray[np.uint32]
    """The number at each rank."""


_NO_ORDER = _Order(_NO_NUMBERS, _NO_NUMBERS)


def text_key(collation: str) -> Callable[[str], str | bytes]:
    """Return what gives a text that by which it is compared with others."""
    return str if collation == CODE_POINTS else collator(collation).key_of


class FacetValues:
    """The values of one facet of one index, numbered by the coordinator."""

    def __init__(self, num_shards: int) -> None:
        self.values: list[str] = []
        # Several tables: one of a million texts takes 50 ms to grow.
        self._number_of: tuple[dict[str, int], ...] = tuple({} for _ in range(_NUM_TABLES))
        self._epochs = [-1] * num_shards
        self._lengths = [0] * num_shards
        self.to_number: NDArray[np.uint32] = np.zeros((num_shards, 64), np.uint32)
        """Our number, by shard and the shard's number."""
        self.is_same: NDArray[np.bool_] = np.ones(num_shards, np.bool_)
        """Whether a shard's numbers equal ours, as the first shard's mostly do."""
        self._orders: dict[str, _Order] = {}
        self.derived: dict[str, object] = {}
        """Results that callers derived from all values; dropped when the numbering grows."""
        self.kept: dict[Hashable, object] = {}
        """Results that callers derived from some values; they stay."""

    def __len__(self) -> int:
        return len(self.values)

    def number(self, key: str) -> int | None:
        """Return the number of a value, or None if no shard has reported it."""
        return self._number_of[hash(key) % _NUM_TABLES].get(key)

    def missing_from(self, shard: int, epoch: int, num_values: int) -> int | None:
        """Return the offset to fetch the shard's dictionary from, or None if enough is known."""
        if self._epochs[shard] != epoch:
            return 0
        known = self._lengths[shard]
        return known if known < num_values else None

    def extend(self, shard: int, epoch: int, start: int, values: Sequence[str]) -> None:
        """Add a part of a shard's dictionary, skipping known values."""
        if self._epochs[shard] != epoch:
            self._epochs[shard], self._lengths[shard], self.is_same[shard] = epoch, 0, True
        known = self._lengths[shard]
        if start > known:
            return
        fresh = values[known - start :]
        if not fresh:
            return
        end = known + len(fresh)
        num_shards, room = self.to_number.shape
        if end > room:
            longer = np.zeros((num_shards, max(end, 2 * room)), np.uint32)
            longer[:, :room] = self.to_number
            self.to_number = longer
        tables = self._number_of
        before = len(self.values)
        ours = []
        for key in fresh:
            number = tables[hash(key) % _NUM_TABLES].setdefault(key, len(self.values))
            if number == len(self.values):
                self.values.append(key)
            ours.append(number)
        self.to_number[shard, known:end] = ours
        self.is_same[shard] = self.is_same[shard] and ours == list(range(known, end))
        self._lengths[shard] = end
        if len(self.values) > before:
            self.derived.clear()

    def ranks(self, collation: str = CODE_POINTS) -> NDArray[np.uint32]:
        """Return the rank of every value in the order of texts; shape (len,), cached."""
        return self._ordered(collation).ranks

    def _ordered(self, collation: str) -> _Order:
        """Return the order of all values; cached."""
        num_values = len(self.values)
        order = self._orders.get(collation, _NO_ORDER)
        if len(order.ranks) < num_values:
            by_rank = sorted_numbers(self.values, num_values, order.by_rank, collation)
            ranks = np.empty(num_values, np.uint32)
            ranks[by_rank] = np.arange(num_values, dtype=np.uint32)
            order = _Order(ranks, by_rank)
            orders = {**self._orders, collation: order}
            if len(orders) > _ORDERS_MAX:
                del orders[next(one for one in orders if one not in (CODE_POINTS, collation))]
            self._orders = orders  # a thread may be looking at the others
        return order

    def numeric_values(self) -> NDArray[np.float64]:
        """Return every value as a number, NaN if it is not numeric; shape (len,), cached."""
        known = self.derived.get("numeric_values")
        if isinstance(known, np.ndarray):
            return known
        numbers = np.array(
            [float(text) if _NUMBER.match(text) else np.nan for text in self.values], np.float64
        )
        numbers[~np.isfinite(numbers)] = np.nan
        self.derived["numeric_values"] = numbers
        return numbers

    def alive(self, answers: Answers, position: int) -> Alive | None:
        """Return which values occur in a live document, or None if no shard reported it.

        Cached until a shard reports something else: it depends on the state of the index, not on
        the search.

        Args:
            answers: pairs (shard ordinal, response) whose dictionaries are known.
            position: of the facet within each response.
        """
        said = tuple(
            [
                (shard, part.epoch, part.num_values, part.alive)
                for shard, answer in answers
                if (part := answer.facets[position]).alive is not None
            ]
        )
        if not said:
            return None
        known = self.derived.get("alive")
        if isinstance(known, Alive) and known.said == said:
            return known
        mask = np.zeros(len(self.values), np.bool_)
        for shard, _, num_values, alive in said:
            assert alive is not None
            bits = np.frombuffer(alive, np.uint8)
            living = np.unpackbits(bits, count=num_values, bitorder="little")
            mask[self.to_number[shard, :num_values][living.view(np.bool_)]] = True
        made = self.derived["alive"] = Alive(said, mask)
        return made

    def top(
        self, merged: MergedCounts, counts: NDArray[np.int64], k: int, collation: str = CODE_POINTS
    ) -> list[tuple[int, int]]:
        """Return (number, count) of the k values with the greatest counts, best first.

        Equal counts are ordered by text. Values without a count are left out, so there may be fewer
        than k.
        """
        best = np.empty(2 * k, np.int64)
        touched, num_touched = merged.touched, merged.num_touched
        order = self._orders.get(collation, _NO_ORDER)
        num: int = _select_top(counts, touched, num_touched, *order, best)
        if num < 0 and self._is_worth_ranking(len(order.ranks)):
            order = self._ordered(collation)
            num = _select_top(counts, touched, num_touched, *order, best)
        if num >= 0:
            both: list[int] = best.tolist()
            return list(zip(both[:num], both[k : k + num], strict=True))
        room = np.empty(min(len(counts), k + _TIES_MAX), np.int64)
        num = _list_at_least(counts, touched, num_touched, -num, room)
        if num >= 0:
            texts, sort_key = self.values, text_key(collation)
            chosen = room[:num]
            rows = [
                (-count, sort_key(texts[n]), n)
                for n, count in zip(chosen.tolist(), counts[chosen].tolist(), strict=True)
            ]
            rows.sort()
            return [(n, -negative) for negative, _, n in rows[:k]]
        positive = np.flatnonzero(counts > 0)
        rows_order = np.lexsort((self.ranks(collation)[positive], -counts[positive]))
        numbers = positive[rows_order[:k]]
        return list(zip(numbers.tolist(), counts[numbers].tolist(), strict=True))

    def _is_worth_ranking(self, num_ranked: int) -> bool:
        num_unranked = len(self.values) - num_ranked
        return len(self.values) <= _RANKED_MAX and num_unranked > max(
            _UNRANKED_MIN, num_ranked >> 4
        )


class Alive:
    """The values of a facet that occur in a live document.

    Attributes:
        said: the reports it is made from: (shard, epoch, number of values, bit set).
        mask: by number.
    """

    __slots__ = ("_by_key", "mask", "said")

    def __init__(
        self, said: tuple[tuple[int, int, int, bytes | None], ...], mask: NDArray[np.bool_]
    ) -> None:
        self.said = said
        self.mask = mask
        self._by_key: tuple[str, NDArray[np.int64]] | None = None

    def has(self, number: int) -> bool:
        """Return whether a value is alive."""
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


class Sums:
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


_SUMS = Sums()


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
        find_alive: Callable[[], Alive | None],
        sums: Sums | None = None,
    ) -> None:
        self._sums = sums
        self.counts = counts
        self.touched = touched
        self.num_touched = num_touched
        self._find_alive: Callable[[], Alive | None] | None = find_alive
        self._alive: Alive | None = None

    @property
    def alive(self) -> Alive | None:
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
        return bool(self.counts[number] > 0 or (self.alive is not None and self.alive.has(number)))

    def has_hits(self, number: int) -> bool:
        """Return whether any counted document has the value."""
        return number < len(self.counts) and bool(self.counts[number] > 0)

    def kept(self) -> MergedCounts:
        """Return the same counts in an array of their own."""
        alive = self.alive
        return MergedCounts(self.counts.copy(), _NO_NUMBERS, EVERY, lambda: alive)

    def plus(self, more: NDArray[np.int64]) -> MergedCounts:
        """Return the sums with other counts, by number, in an array of their own."""
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
        answers: pairs (shard ordinal, response) whose dictionaries are known.
        sums: where to add up; by default what the event loop has for that.
    """

    __slots__ = ("_answers", "_ends", "_packed", "_position", "_shards", "_sums")

    def __init__(self, answers: Answers, sums: Sums = _SUMS) -> None:
        self._answers = answers
        self._sums = sums
        parts = [answer.facet_counts for _, answer in answers]
        self._packed = np.frombuffer(b"".join(parts), np.uint16)
        ends = [0, *itertools.accumulate([len(part) >> 1 for part in parts])]
        self._ends = np.array(ends[:-1], np.int64)
        self._shards = np.array([shard for shard, _ in answers], np.int64)
        self._position = 0

    def next(self, values: FacetValues) -> MergedCounts:
        """Return the counts of the next facet, for use in a `with` statement.

        Args:
            values: the numbering of that facet.
        """
        answers, position = self._answers, self._position
        self._position += 1
        num_values = len(values)
        self._sums.ensure(num_values)
        sums, touched = self._sums.sums, self._sums.touched
        try:
            num_touched = add_packed(
                self._packed,
                self._ends,
                self._shards,
                values.to_number,
                values.is_same,
                sums,
                touched,
            )
            return MergedCounts(
                sums[:num_values],
                touched,
                num_touched,
                lambda: values.alive(answers, position),
                self._sums,
            )
        except BaseException:
            self._sums.forget()
            raise


class GroupCounts(NamedTuple):
    """How many groups (values of the `distinct` field) have each value of a facet."""

    counts: NDArray[np.int64]
    """By the coordinator's number of the value."""
    num_missing: int
    """Groups with a hit that has none; 0 unless requested."""


class NumberSummary(Struct, frozen=True, gc=False):
    """Statistics of the numbers of one field within the items of a bucket."""

    min: int | float
    max: int | float
    avg: float
    sum: float
    count: int


class Bucket(Struct, frozen=True, gc=False, rename={"is_selected": "selected"}):
    """One value of a facet as users see it; encoded as JSON, it is a bucket of the API."""

    key: str
    doc_count: int
    is_selected: bool


class SummedBucket(Bucket, frozen=True, gc=False):
    """A bucket with statistics of numbers within its items."""

    stats: dict[str, NumberSummary | None]
    """By field; None where no item has a number."""


def page_of_buckets(
    values: FacetValues,
    merged: MergedCounts,
    selected: frozenset[str],
    order: BucketOrder,
    offset: int,
    limit: int,
    accepts: NDArray[np.bool_] | None = None,
) -> list[Bucket]:
    """Return one page of a facet's buckets.

    Args:
        values: the numbering of `merged`.
        merged: exact counts.
        selected: keys chosen in filters; a key that occurs in no live document has no bucket.
        order: the order of the buckets.
        offset: buckets to skip.
        limit: buckets to return.
        accepts: by number: which values may be listed at all; None for all.

    Cost: O(values) in a kernel, plus O(page) texts; orders by key sort all values once.
    """
    if accepts is not None and not accepts.any():
        return []
    accepts = _as_long_as(accepts, merged)
    counts = _accepted(merged.counts, accepts)
    chosen = _chosen(values, merged, selected, order, accepts) if selected else _NONE_CHOSEN
    numbering = _numbered_by_count if order.is_by_count else _numbered_by_keys
    rows = numbering(values, merged, counts, accepts, chosen, order, offset + limit)
    texts = values.values
    if not chosen:
        return [Bucket(texts[n], count, False) for n, count in rows[offset : offset + limit]]
    return [Bucket(texts[n], count, n in chosen) for n, count in rows[offset : offset + limit]]


def num_buckets(
    values: FacetValues,
    merged: MergedCounts,
    selected: frozenset[str],
    order: BucketOrder,
    accepts: NDArray[np.bool_] | None = None,
) -> int:
    """Return the number of buckets on all pages; the arguments are those of `page_of_buckets`.

    Exact if `alive` was sent or zeros are hidden; otherwise it counts the buckets with hits.
    """
    accepts = _as_long_as(accepts, merged)
    chosen = _chosen(values, merged, selected, order, accepts)
    counts = _accepted(merged.counts, accepts)
    return int(np.count_nonzero(_listed(merged, counts, accepts, chosen, order)))


def _as_long_as(
    accepts: NDArray[np.bool_] | None, merged: MergedCounts
) -> NDArray[np.bool_] | None:
    """Return which values may be listed; values past the inspected ones have no counts here."""
    if accepts is None or len(accepts) >= len(merged.counts):
        return accepts
    return np.pad(accepts, (0, len(merged.counts) - len(accepts)))


def _accepted(counts: NDArray[np.int64], accepts: NDArray[np.bool_] | None) -> NDArray[np.int64]:
    return counts if accepts is None else np.where(accepts[: len(counts)], counts, 0)


def _chosen(
    values: FacetValues,
    merged: MergedCounts,
    selected: frozenset[str],
    order: BucketOrder,
    accepts: NDArray[np.bool_] | None,
) -> frozenset[int]:
    """Return the numbers of the selected keys that have a bucket."""
    exists = merged.has_hits if order.hides_chosen_zero else merged.exists
    return frozenset(
        number
        for key in selected
        if (number := values.number(key)) is not None
        and exists(number)
        and (accepts is None or accepts[number])
    )


def _listed(
    merged: MergedCounts,
    counts: NDArray[np.int64],
    accepts: NDArray[np.bool_] | None,
    chosen: frozenset[int],
    order: BucketOrder,
) -> NDArray[np.bool_]:
    """Return which values have a bucket."""
    listed = counts > 0
    if merged.alive is not None and not order.hides_zero:
        listed |= merged.alive.of_first(len(counts))
        if accepts is not None:
            listed &= accepts[: len(counts)]
    listed[list(chosen)] = True
    return listed


def _numbered_by_count(
    values: FacetValues,
    merged: MergedCounts,
    counts: NDArray[np.int64],
    accepts: NDArray[np.bool_] | None,
    chosen: frozenset[int],
    order: BucketOrder,
    num_wanted: int,
) -> list[tuple[int, int]]:
    """Order by (chosen,) count descending, key ascending; return the first (number, count)."""
    on_top = chosen if order.has_selected_on_top else _NONE_CHOSEN
    k = min(num_wanted + len(on_top), len(counts))
    best = values.top(merged, counts, k, order.collation) if k else []
    if on_top:
        texts, sort_key = values.values, text_key(order.collation)
        first = [(n, int(counts[n])) for n in on_top]
        first.sort(key=lambda row: (-row[1], sort_key(texts[row[0]])))
        best = first + [row for row in best if row[0] not in on_top]
    if len(best) >= num_wanted:
        return best
    # Every value with a count is in `best` by now.
    num_missing = num_wanted - len(best)
    zeros: list[int] = []
    if order.hides_zero:
        silent_chosen = [n for n in chosen - on_top if counts[n] == 0]
        zeros = _first_by_key(values, silent_chosen, num_missing, order.collation)
    elif (alive := merged.alive) is None:
        return best
    elif accepts is None and len(values) <= _RANKED_MAX:
        listed = {n for n, _ in best}
        first_alive = alive.first_by_key(values, num_wanted, order.collation)
        zeros = [n for n in first_alive if n not in listed]
    else:
        silent = alive.of_first(len(counts)) & (counts == 0)
        if accepts is not None:
            silent &= accepts[: len(counts)]
        silent[list(on_top)] = False
        zeros = _first_by_key(values, np.flatnonzero(silent), num_missing, order.collation)
    return best + [(n, 0) for n in zeros[:num_missing]]


def _first_by_key(
    values: FacetValues, numbers: list[int] | NDArray[np.int64], num_wanted: int, collation: str
) -> list[int]:
    """Return the first `num_wanted` of the numbers in the order of their texts."""
    if not len(numbers):
        return []
    if len(values) > _RANKED_MAX and num_wanted < 64 and len(numbers) <= _TIES_MAX:
        texts, sort_key = values.values, text_key(collation)
        return heapq.nsmallest(num_wanted, map(int, numbers), key=lambda n: sort_key(texts[n]))
    array = np.asarray(numbers, np.int64)
    ranks = values.ranks(collation)[array]
    if num_wanted < len(array):
        nearest = np.argpartition(ranks, num_wanted - 1)[:num_wanted]
        array, ranks = array[nearest], ranks[nearest]
    first: list[int] = array[np.argsort(ranks)].tolist()
    return first


def _numbered_by_keys(
    values: FacetValues,
    merged: MergedCounts,
    counts: NDArray[np.int64],
    accepts: NDArray[np.bool_] | None,
    chosen: frozenset[int],
    order: BucketOrder,
    num_wanted: int,
) -> list[tuple[int, int]]:
    """Order by any list of keys; return the first (number, count)."""
    numbers = np.flatnonzero(_listed(merged, counts, accepts, chosen, order))
    is_selected = np.zeros(len(counts), np.int64)
    is_selected[list(chosen)] = 1
    columns: dict[str, Callable[[], NDArray[np.int64]]] = {
        "selected": lambda: is_selected[numbers],
        "count": lambda: counts[numbers],
        "key": lambda: values.ranks(order.collation)[numbers].astype(np.int64),
    }
    keys = [
        -columns[name]() if is_descending else columns[name]()
        for name, is_descending in reversed(order.keys)
    ]
    ranked = numbers[np.lexsort([columns["key"](), *keys])][:num_wanted]
    return list(zip(ranked.tolist(), counts[ranked].tolist(), strict=True))
