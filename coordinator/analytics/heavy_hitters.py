"""Numbers of the most frequent keys, in bounded memory: a heavy-hitters sketch.

Beyond twice its size it evicts all but the best, and remembers the greatest count that it evicted.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
Values = list[int]


class FrequentKeys(Generic[K]):
    """Numbers by key, of the most frequent keys.

    Args:
        num_max: how many keys are always kept.
        num_values: numbers per key; the first one decides what is frequent.

    Attributes:
        floor: the greatest number that an evicted key can have.
    """

    def __init__(self, num_max: int, num_values: int) -> None:
        self.floor = 0
        self._num_max = num_max
        self._num_values = num_values
        self._values: dict[K, Values] = {}

    def __len__(self) -> int:
        return len(self._values)

    def at(self, key: K) -> Values:
        """Return the mutable numbers of a key; the last one is how much they may be short."""
        values = self._values.get(key)
        if values is None:
            if len(self._values) >= 2 * self._num_max:
                self._evict()
            values = self._values[key] = [0] * self._num_values + [self.floor]
        return values

    def get(self, key: K) -> Values | None:
        """Return the numbers of a key; None if it is not among the frequent ones."""
        return self._values.get(key)

    def rows(self) -> list[tuple[K, Values]]:
        """Return all keys with their numbers."""
        return list(self._values.items())

    def put(self, key: K, values: Values) -> None:
        """Set the numbers of a key, as `rows` returned them."""
        self._values[key] = values

    def discard(self, is_discarded: Callable[[K], bool]) -> None:
        """Discard some keys."""
        self._values = {key: one for key, one in self._values.items() if not is_discarded(key)}

    def _evict(self) -> None:
        """Evict all but the most frequent keys."""
        ordered = sorted(self._values.items(), key=lambda one: one[1][0] + one[1][-1], reverse=True)
        _, evicted = ordered[self._num_max]  # the most frequent of these
        self.floor = max(self.floor, evicted[0] + evicted[-1])
        self._values = dict(ordered[: self._num_max])
