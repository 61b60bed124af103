"""One numbering of a facet's values over all shards.

The question: shard 0 says "my value 17 has 230 hits", shard 1 says "my value 4 has 198". Which
texts are these, and are they the same?

    shard 0's dictionary   0 drama  1 crime  2 comedy           (append-only, one epoch)
    shard 1's dictionary   0 comedy 1 drama
    FacetValues.values     0 drama  1 crime  2 comedy           (append-only)
    to_number[0]           [0, 1, 2]
    to_number[1]           [2, 0]                               merged[to_number[s]] += counts[s]

A shard's response names the epoch and length of its dictionary. If our map is shorter or of another
epoch, we fetch the missing part once (`missing_from`, `extend`) before adding up the counts
(`merged_counts`).

The order of the values as texts is known for those that existed when the numbering was last sorted;
`bucket_selection` says when it is sorted again. An event loop may add values to a numbering while a
thread reads it, but never changes one.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from common.analysis.collation_names import CODE_POINTS
from coordinator.read.facets.text_order import sorted_numbers

_NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]+)?\Z")
_ORDERS_MAX = 4
"""Collations of a facet whose order is cached, 8 bytes a value each."""
_NUM_TABLES = 64
"""Tables over which the numbers of a facet's values are spread."""
_NO_NUMBERS = np.zeros(0, np.uint32)


class Order(NamedTuple):
    """The order of the values of a numbering as texts; of the first of them, if it has grown."""

    ranks: NDArray[np.uint32]
    """By number."""
    by_rank: NDArray[np.uint32]
    """The number at each rank."""


_NO_ORDER = Order(_NO_NUMBERS, _NO_NUMBERS)


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
        """Whether a shard's numbers equal ours, as the first shard's usually do."""
        self._orders: dict[str, Order] = {}
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
        num_shards, capacity = self.to_number.shape
        if end > capacity:
            longer = np.zeros((num_shards, max(end, 2 * capacity)), np.uint32)
            longer[:, :capacity] = self.to_number
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
        return self.order(collation).ranks

    def known_order(self, collation: str) -> Order:
        """Return the order of the values that existed when it was last requested."""
        return self._orders.get(collation, _NO_ORDER)

    def order(self, collation: str) -> Order:
        """Return the order of all values; cached."""
        num_values = len(self.values)
        order = self.known_order(collation)
        if len(order.ranks) < num_values:
            by_rank = sorted_numbers(self.values, num_values, order.by_rank, collation)
            ranks = np.empty(num_values, np.uint32)
            ranks[by_rank] = np.arange(num_values, dtype=np.uint32)
            order = Order(ranks, by_rank)
            orders = {**self._orders, collation: order}
            if len(orders) > _ORDERS_MAX:
                del orders[next(one for one in orders if one not in (CODE_POINTS, collation))]
            self._orders = orders  # a thread may be looking at the others
        return order

    def numeric_values(self) -> NDArray[np.float64]:
        """Return every value as a number, NaN if it is not numeric; shape (len,), cached."""
        known = self.derived.get("numeric_values")
        # A thread may have cached those of a numbering that has grown meanwhile.
        if isinstance(known, np.ndarray) and len(known) == len(self.values):
            return known
        numbers = np.array(
            [float(text) if _NUMBER.match(text) else np.nan for text in self.values], np.float64
        )
        numbers[~np.isfinite(numbers)] = np.nan
        self.derived["numeric_values"] = numbers
        return numbers
