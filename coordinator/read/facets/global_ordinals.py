"""One numbering of a facet's values over all shards.

The question: shard 0 says "my value 17 has 230 hits", shard 1 says "my value 4 has 198". Which
texts are these, and are they the same?

    shard 0's dictionary   0 drama  1 crime  2 comedy           (append-only, one epoch)
    shard 1's dictionary   0 comedy 1 drama
    FacetValues            0 drama  1 crime  2 comedy           (append-only)
    to_number[0]           [0, 1, 2]
    to_number[1]           [2, 0]                               merged[to_number[s]] += counts[s]

A shard's response names the epoch and length of its dictionary. If our map is shorter or of another
epoch, we fetch the missing part once (`lacks`, `extend`) before adding up the counts
(`summed_counts`), by the `Numbering` of that moment.

The order of the values as texts is known for those that existed when the numbering was last sorted;
`bucket_selection` says when it is sorted again. An event loop may add values to a numbering while a
thread reads it, but never changes one. The values are bytes in one arena, and become texts where
they are shown: a million of them take 0.2 s to learn (0.8 s as strings; an Intel Xeon, 2026-11-29).
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Hashable, Sequence
from typing import Final, NamedTuple, cast

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from common.analysis.collation_names import CODE_POINTS
from common.errors import FacetRenumbered
from common.facet_dictionary import FacetDictionary
from common.key_arena import KeyArena
from common.process.thread_pool import to_the_end
from coordinator.read.facets.facet_value_collation import sorted_numbers

_NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]+)?\Z")
_ORDERS_MAX = 4
"""Collations of a facet whose order is cached, 8 bytes a value each."""
_TEXTS_KEPT_MAX = 4_096
"""Values of a facet that are kept as texts: searches show the same ones repeatedly."""
_ALL_TEXTS_MAX = 16_384
"""Of a facet with up to this many values, all are kept as texts once many are shown: 1.5 MB."""
_ENLARGED_FAST_MAX = 30_000
"""Arrays of up to this many values are enlarged within a millisecond."""
_READ_AT_ONCE = 4_096
"""Values that become texts in one step, to be read as numbers."""
_NO_NUMBERS = np.zeros(0, np.uint32)


class Order(NamedTuple):
    """The order of the values of a numbering as texts; of the first of them, if it has grown."""

    ranks: NDArray[np.uint32]
    """By number."""
    by_rank: NDArray[np.uint32]
    """The number at each rank."""


NO_ORDER: Final = Order(_NO_NUMBERS, _NO_NUMBERS)


def renumbered(field: str, shard: int) -> FacetRenumbered:
    """Return the error for counts by numbers that a shard no longer uses."""
    return FacetRenumbered(f"facet {field!r} has just been rebuilt on shard {shard}; try again")


class Numbering(Struct, frozen=True):
    """The coordinator's numbers of a facet's values, by the numbers that shards use at a time.

    It stays valid for counts of that time: values of a shard that starts over go to other arrays.
    """

    to_number: NDArray[np.uint32]
    """Our number, by shard and the shard's number."""
    is_same: NDArray[np.bool_]
    """Whether a shard's numbers equal ours, as the first shard's usually do."""


class _Texts(dict[int, str]):
    """Values by number, as texts."""

    def __init__(self, dictionary: FacetDictionary) -> None:
        super().__init__()
        self._dictionary = dictionary

    def __missing__(self, number: int) -> str:
        if len(self) >= _TEXTS_KEPT_MAX:
            self.clear()
        text = self[number] = self._dictionary.text(number)
        return text


class FacetValues:
    """The values of one facet of one index, numbered by the coordinator."""

    def __init__(self, num_shards: int) -> None:
        self._dictionary = FacetDictionary()
        self.texts: dict[int, str] = _Texts(self._dictionary)
        """The value of a number, for few of them."""
        self.learning = asyncio.Lock()
        """Held by the task that adds values."""
        self.known = [(-1, 0)] * num_shards
        """By shard, what is known of its dictionary: the epoch, and how many values."""
        self.numbering = Numbering(
            np.zeros((num_shards, 64), np.uint32), np.ones(num_shards, np.bool_)
        )
        """The newest."""
        self._orders: dict[str, Order] = {}
        self.derived: dict[str, object] = {}
        """Results that callers derived from all values; dropped when the numbering grows."""
        self.kept: dict[Hashable, object] = {}
        """Results that callers derived from some values; they stay."""

    def __len__(self) -> int:
        return len(self._dictionary)

    def number(self, key: str) -> int | None:
        """Return the number of a value, or None if no shard has reported it."""
        return self._dictionary.number(key)

    def texts_of(self, numbers: Sequence[int]) -> list[str]:
        """Return the values of some numbers."""
        if len(numbers) <= _TEXTS_KEPT_MAX // 8:
            return list(map(self.texts.__getitem__, numbers))
        if len(self) <= _ALL_TEXTS_MAX and len(numbers) > len(self) // 4:
            return list(map(self._all_texts().__getitem__, numbers))
        return self._dictionary.texts(numbers)

    def _all_texts(self) -> list[str]:
        """Return all values, which take ten times as long to decode as to list."""
        known = self.derived.get("texts")
        if known is None:
            known = self.derived["texts"] = self._dictionary.values()
        return cast("list[str]", known)

    def arena(self, start: int, end: int) -> KeyArena:
        """Return the values of the numbers [start, end), which never change."""
        return self._dictionary.arena(start, end)

    def lacks(self, shard: int, epoch: int, num_values: int) -> bool:
        """Return whether any of the first values of a shard's dictionary are not known yet."""
        known_epoch, num_known = self.known[shard]
        return known_epoch != epoch or num_known < num_values

    async def make_room(self, values: KeyArena) -> None:
        """Make room for some more values; arrays of many values are enlarged on a thread.

        The caller holds `learning`.
        """
        num_keys, num_bytes = values.num_keys, int(values.offsets[-1] - values.offsets[0])
        if len(self) > _ENLARGED_FAST_MAX and not self._dictionary.has_room(num_keys, num_bytes):
            await to_the_end(self._dictionary.make_room, num_keys, num_bytes)

    def extend(self, shard: int, epoch: int, start: int, values: KeyArena) -> None:
        """Add a part of a shard's dictionary, skipping known values."""
        to_number, is_same = self.numbering.to_number, self.numbering.is_same
        if self.known[shard][0] != epoch:
            # In new arrays: others are adding up by the numbers of the former epoch.
            self.known[shard] = epoch, 0
            to_number, is_same = to_number.copy(), is_same.copy()
            is_same[shard] = True
            self.numbering = Numbering(to_number, is_same)
        _, known = self.known[shard]
        if start > known:
            return
        end = start + values.num_keys
        if end <= known:
            return
        num_shards, capacity = to_number.shape
        if end > capacity:
            longer = np.zeros((num_shards, max(end, 2 * capacity)), np.uint32)
            longer[:, :capacity] = to_number
            to_number = longer
            self.numbering = Numbering(to_number, is_same)
        before = len(self)
        ours = self._dictionary.encode(values.keys, values.offsets[known - start :])
        to_number[shard, known:end] = ours
        is_same[shard] = is_same[shard] and np.array_equal(ours, np.arange(known, end))
        self.known[shard] = epoch, end
        if len(self) > before:
            self.derived.clear()

    def ranks(self, collation: str = CODE_POINTS) -> NDArray[np.uint32]:
        """Return the rank of every value in the order of texts; shape (len,), cached."""
        return self.order(collation).ranks

    def known_order(self, collation: str) -> Order:
        """Return the order of the values that existed when it was last requested."""
        return self._orders.get(collation, NO_ORDER)

    def order(self, collation: str) -> Order:
        """Return the order of all values; cached."""
        num_values = len(self)
        order = self.known_order(collation)
        if len(order.ranks) < num_values:
            by_rank = sorted_numbers(self._dictionary, num_values, order.by_rank, collation)
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
        num_values = len(self)
        # A thread may have cached those of a numbering that has grown meanwhile.
        if isinstance(known, np.ndarray) and len(known) == num_values:
            return known
        numbers = np.empty(num_values, np.float64)
        for start in range(0, num_values, _READ_AT_ONCE):
            end = min(start + _READ_AT_ONCE, num_values)
            numbers[start:end] = [
                float(text) if _NUMBER.match(text) else np.nan
                for text in self._dictionary.values(start, end)
            ]
        numbers[~np.isfinite(numbers)] = np.nan
        self.derived["numeric_values"] = numbers
        return numbers
