"""One numbering of a facet's values over all shards, and buckets from merged counts.

Question answered: shard 0 says "my value 17 has 230 hits", shard 1 says "my value 4 has 198":
which texts are these, are they the same one, and which ten buckets come first?

    shard 0's dictionary   0 drama  1 crime  2 comedy           (append-only, one epoch)
    shard 1's dictionary   0 comedy 1 drama
    FacetValues.values     0 drama  1 crime  2 comedy           (append-only)
    to_number[0]           [0, 1, 2]
    to_number[1]           [2, 0]                               merged[to_number[s]] += counts[s]

A shard's answer names the epoch and length of its dictionary. Where the map is shorter, or of
another epoch, the tail is fetched once (`missing_from`, `extend`) before the counts are added. So
counts cross the wire as arrays of integers, the merge is an addition, and nothing is cut before it
is exact.

Cost: adding is one kernel pass per shard over its (dense or sparse) counts; choosing the top k is
one pass with a heap of k counts; only the values of the page are touched as texts. Key ranks,
needed for orders by key and for very many ties, are sorted once per length of the numbering.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from common.kernels import kernel
from common.protocol.messages import FacetCounts

_NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]+)?\Z")
_TIES_MAX = 4_096
"""Values of equal count that are sorted as texts; more are sorted by rank."""


def _read_only(types: Any) -> Any:
    """Return numba's type of the counts of an answer, which are a part of its bytes."""
    return types.Array(types.uint32, 1, "C", readonly=True)


@kernel(lambda types: types.void(types.int64[::1], types.int64[::1], _read_only(types)))
def _add_dense(merged: NDArray[np.int64], to_number: NDArray[np.int64], counts: object) -> None:
    for i in range(len(counts)):  # type: ignore[arg-type]
        merged[to_number[i]] += counts[i]  # type: ignore[index]


@kernel(
    lambda types: types.void(
        types.int64[::1], types.int64[::1], _read_only(types), _read_only(types)
    )
)
def _add_sparse(
    merged: NDArray[np.int64], to_number: NDArray[np.int64], numbers: object, counts: object
) -> None:
    for i in range(len(counts)):  # type: ignore[arg-type]
        merged[to_number[numbers[i]]] += counts[i]  # type: ignore[index]


@kernel("int64(int64[::1], int64, int64[::1], int64[::1])")
def _select_top(
    merged: NDArray[np.int64],
    k: int,
    chosen: NDArray[np.int64],
    num_positive: NDArray[np.int64],
) -> int:
    """Write the numbers of all values whose count is at least the k-th greatest (and positive).

    A min-heap of the k greatest counts finds the threshold in one pass; a second pass gathers.

    Args:
        merged: counts by number.
        k: at least 1.
        chosen: output; its length bounds how many are written.
        num_positive: output of one element: how many counts are positive.

    Returns:
        How many numbers were written, or -1 if there were more than fit.
    """
    heap = np.zeros(k, np.int64)
    size = 0
    positive = 0
    for i in range(len(merged)):
        count = merged[i]
        if count <= 0:
            continue
        positive += 1
        if size < k:
            at = size
            size += 1
            while at > 0 and heap[(at - 1) >> 1] > count:
                heap[at] = heap[(at - 1) >> 1]
                at = (at - 1) >> 1
            heap[at] = count
        elif count > heap[0]:
            at = 0
            while True:
                child = 2 * at + 1
                if child >= k:
                    break
                if child + 1 < k and heap[child + 1] < heap[child]:
                    child += 1
                if heap[child] >= count:
                    break
                heap[at] = heap[child]
                at = child
            heap[at] = count
    num_positive[0] = positive
    if size == 0:
        return 0
    threshold = heap[0] if size == k else 1
    num = 0
    for i in range(len(merged)):
        if merged[i] >= threshold:
            if num == len(chosen):
                return -1
            chosen[num] = i
            num += 1
    return num


@dataclass(slots=True)
class _ShardNumbering:
    """What one shard's value numbers mean."""

    epoch: int = -1
    length: int = 0
    to_number: NDArray[np.int64] = field(default_factory=lambda: np.zeros(64, np.int64))


class FacetValues:
    """The values of one facet of one index, numbered by the coordinator."""

    def __init__(self, num_shards: int) -> None:
        self.values: list[str] = []
        self._number_of: dict[str, int] = {}
        self._shards = [_ShardNumbering() for _ in range(num_shards)]
        self._ranks: NDArray[np.int64] | None = None
        self.derived: dict[str, object] = {}
        """What callers computed from all values; dropped when the numbering grows."""

    def __len__(self) -> int:
        return len(self.values)

    def number(self, key: str) -> int | None:
        """Return the number of a value, or None if no shard has reported it."""
        return self._number_of.get(key)

    def missing_from(self, shard: int, epoch: int, num_values: int) -> int | None:
        """Return where to fetch the shard's dictionary from, or None if enough of it is known."""
        known = self._shards[shard]
        if known.epoch != epoch:
            return 0
        return known.length if known.length < num_values else None

    def extend(self, shard: int, epoch: int, start: int, values: Sequence[str]) -> None:
        """Take in a part of a shard's dictionary; what is known already is skipped."""
        known = self._shards[shard]
        if known.epoch != epoch:
            known.epoch, known.length = epoch, 0
        if start > known.length:
            return
        fresh = values[known.length - start :]
        if not fresh:
            return
        end = known.length + len(fresh)
        if end > len(known.to_number):
            known.to_number = np.concatenate(
                (known.to_number, np.zeros(max(end, len(known.to_number)), np.int64))
            )
        numbers = self._number_of
        before = len(self.values)
        for i, key in enumerate(fresh, known.length):
            number = numbers.setdefault(key, len(self.values))
            if number == len(self.values):
                self.values.append(key)
            known.to_number[i] = number
        known.length = end
        if len(self.values) > before:
            self._ranks = None
            self.derived.clear()

    def ranks(self) -> NDArray[np.int64]:
        """Return the rank of every value in code point order; shape (len,), cached."""
        if self._ranks is None:
            order = sorted(range(len(self.values)), key=self.values.__getitem__)
            ranks = np.empty(len(order), np.int64)
            ranks[order] = np.arange(len(order))
            self._ranks = ranks
        return self._ranks

    def numeric_values(self) -> NDArray[np.float64]:
        """Return every value as a number, NaN where its text is none; shape (len,), cached."""
        known = self.derived.get("numeric_values")
        if isinstance(known, np.ndarray):
            return known
        numbers = np.array(
            [float(text) if _NUMBER.match(text) else np.nan for text in self.values], np.float64
        )
        numbers[~np.isfinite(numbers)] = np.nan
        self.derived["numeric_values"] = numbers
        return numbers

    def merge(self, parts: Sequence[tuple[int, FacetCounts]]) -> MergedCounts:
        """Add up the counts of the shards.

        Args:
            parts: shard ordinal and its counts; every dictionary is known far enough.
        """
        merged = np.zeros(len(self.values), np.int64)
        alive: NDArray[np.bool_] | None = None
        for shard, part in parts:
            to_number = self._shards[shard].to_number
            counts = np.frombuffer(part.counts, np.uint32)
            if part.numbers:
                _add_sparse(merged, to_number, np.frombuffer(part.numbers, np.uint32), counts)
            elif len(counts):
                _add_dense(merged, to_number, counts)
            if part.alive is not None:
                if alive is None:
                    alive = np.zeros(len(self.values), np.bool_)
                bits = np.frombuffer(part.alive, np.uint8)
                living = np.unpackbits(bits, count=part.num_values, bitorder="little")
                alive[to_number[: part.num_values][living.view(np.bool_)]] = True
        return MergedCounts(merged, alive)


class MergedCounts(NamedTuple):
    """Counts of one facet over all shards, by the coordinator's value number."""

    counts: NDArray[np.int64]
    alive: NDArray[np.bool_] | None
    """Which values belong to a live document; None if no shard found it worth sending, which it
    does whenever a value without hits could be listed."""

    def exists(self, number: int) -> bool:
        """Return whether any live document has the value."""
        if number >= len(self.counts):
            return False  # became known after these counts were made
        return bool(self.counts[number] > 0 or (self.alive is not None and self.alive[number]))


@dataclass(frozen=True, slots=True)
class BucketOrder:
    """How to choose and order the buckets of one facet."""

    keys: tuple[tuple[str, bool], ...] = (("selected", True), ("count", True), ("key", False))
    """(selected | count | key, is_descending), most significant first."""
    hides_zero: bool = False

    @property
    def is_by_count(self) -> bool:
        """Whether this is the usual order, which needs no pass over all values as texts."""
        return self.keys in (
            (("selected", True), ("count", True), ("key", False)),
            (("count", True), ("key", False)),
        )

    @property
    def has_selected_on_top(self) -> bool:
        """Whether selected values come first."""
        return bool(self.keys) and self.keys[0][0] == "selected"


class Bucket(Struct, frozen=True, gc=False, rename={"is_selected": "selected"}):
    """One value of a facet as the user sees it; encoded as JSON it is a bucket of the interface."""

    key: str
    doc_count: int
    is_selected: bool


def page_of_buckets(
    values: FacetValues,
    merged: MergedCounts,
    selected: frozenset[str],
    order: BucketOrder,
    offset: int,
    limit: int,
    accepts: NDArray[np.bool_] | None = None,
) -> tuple[list[Bucket], int]:
    """Return one page of a facet's buckets, and how many buckets there are.

    Args:
        values: the numbering that `merged` is in.
        merged: exact counts.
        selected: keys chosen in filters; one that no live document has is no bucket.
        order: what comes first.
        offset: buckets to leave out.
        limit: buckets to return.
        accepts: by number: which values may be listed at all; None for all.

    Returns:
        The buckets, and the total. The total is exact when `alive` was sent or zeros are hidden;
        otherwise it counts the buckets with hits.

    Cost: O(values) in a kernel, plus O(page) texts; orders by key sort all values once.
    """
    counts = merged.counts
    if accepts is not None:
        accepts = accepts[: len(counts)]
        counts = np.where(accepts, counts, 0)
    chosen = {
        number
        for key in selected
        if (number := values.number(key)) is not None
        and merged.exists(number)
        and (accepts is None or accepts[number])
    }
    if order.is_by_count:
        top = chosen if order.has_selected_on_top else frozenset[int]()
        numbers, total = _numbers_by_count(
            values, counts, merged.alive, accepts, chosen, top, order.hides_zero, offset + limit
        )
    else:
        numbers, total = _numbers_by_keys(
            values, counts, merged.alive, accepts, chosen, order, offset + limit
        )
    texts = values.values
    page = numbers[offset : offset + limit]
    page_counts = counts[page].tolist() if page else []
    return [
        Bucket(texts[n], count, n in chosen) for n, count in zip(page, page_counts, strict=True)
    ], total


def _numbers_by_count(
    values: FacetValues,
    counts: NDArray[np.int64],
    alive: NDArray[np.bool_] | None,
    accepts: NDArray[np.bool_] | None,
    selected: set[int],
    on_top: set[int] | frozenset[int],
    hides_zero: bool,
    num_wanted: int,
) -> tuple[list[int], int]:
    """Order by (on top,) count descending, key ascending; return the first `num_wanted`, total."""
    texts = values.values
    num_positive = np.zeros(1, np.int64)
    k = max(1, min(num_wanted + len(on_top), len(counts)))
    room = np.empty(min(len(counts), k + _TIES_MAX), np.int64)
    num = _select_top(counts, k, room, num_positive) if len(counts) else 0
    if num >= 0:
        chosen = room[:num]
        rows = [
            (-count, texts[n], n)
            for n, count in zip(chosen.tolist(), counts[chosen].tolist(), strict=True)
        ]
        rows.sort()
        best = [n for _, _, n in rows]
    else:
        positive = np.flatnonzero(counts > 0)
        order = np.lexsort((values.ranks()[positive], -counts[positive]))
        best = positive[order[:k]].tolist()
    total = int(num_positive[0])
    if on_top:
        first = sorted(on_top, key=lambda n: (-counts[n], texts[n]))
        total += sum(1 for n in first if counts[n] == 0)
        best = first + [n for n in best if n not in on_top]
    extra = [n for n in selected if n not in on_top and counts[n] == 0]
    zeros: list[int] | NDArray[np.int64] = []
    if hides_zero:
        zeros = sorted(extra, key=texts.__getitem__)
    elif alive is not None:
        silent = alive & (counts == 0)
        if accepts is not None:
            silent &= accepts
        for n in on_top:
            silent[n] = False
        zeros = np.flatnonzero(silent)
    total += len(zeros)
    if len(best) < num_wanted and len(zeros):
        best += _first_by_key(values, zeros, num_wanted - len(best))
    return best[:num_wanted], total


def _first_by_key(
    values: FacetValues, numbers: list[int] | NDArray[np.int64], num_wanted: int
) -> list[int]:
    """Return the first of the numbers in the order of their texts."""
    if num_wanted < 64 and len(numbers) <= _TIES_MAX:
        texts = values.values
        return heapq.nsmallest(num_wanted, map(int, numbers), key=texts.__getitem__)
    array = np.asarray(numbers, np.int64)
    order = np.argsort(values.ranks()[array])[:num_wanted]
    first: list[int] = array[order].tolist()
    return first


def _numbers_by_keys(
    values: FacetValues,
    counts: NDArray[np.int64],
    alive: NDArray[np.bool_] | None,
    accepts: NDArray[np.bool_] | None,
    selected: set[int],
    order: BucketOrder,
    num_wanted: int,
) -> tuple[list[int], int]:
    """Order by any list of keys; return the first `num_wanted` numbers, and the total."""
    listed = counts > 0
    if alive is not None and not order.hides_zero:
        listed = listed | alive
        if accepts is not None:
            listed &= accepts
    for number in selected:
        listed[number] = True
    numbers = np.flatnonzero(listed)
    is_selected = np.zeros(len(counts), np.int64)
    is_selected[list(selected)] = 1
    columns: dict[str, Callable[[], NDArray[np.int64]]] = {
        "selected": lambda: is_selected[numbers],
        "count": lambda: counts[numbers],
        "key": lambda: values.ranks()[numbers],
    }
    keys = [
        -columns[name]() if is_descending else columns[name]()
        for name, is_descending in reversed(order.keys)
    ]
    ranked = numbers[np.lexsort([columns["key"](), *keys])]
    return ranked[:num_wanted].tolist(), len(numbers)
