"""Sort levels: each turns one criterion of an order into a uint64 per match; smaller comes first.

An order is a list of levels: the sort keys, then the score, then the insertion number ("place"),
which is unique and so breaks every tie. `segment_top_k` compares them level by level, and asks
the later ones for keys of ties only.

    FieldLevel     rank of a text, ordered bits of a number or a distance
    MinorLevel     what integers beyond 2^53 have more than their doubles
    ScoreLevel     ordered bits of a score, or of the step that it is in
    RandomLevel    a number that follows from the item's id and a seed
    PlaceLevel     the insertion number
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from shard.collect.top_hits.random_order import NUMBER_BITS, random_numbers
from shard.query.matches import Matches
from shard.segment.columns.sort_columns import SortColumn
from shard.segment.columns.sort_keys import MISSING_KEY, ordered_keys
from shard.segment.doc_records_and_places import places_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from common.protocol.messages import SortKey
    from shard.segment.segment import Segment

_MINOR_OFFSET = 1 << 15


class Level(Protocol):
    """One criterion of the order, over the matches of one segment."""

    def keys(self, positions: NDArray[np.int64] | None) -> NDArray[np.uint64]:
        """Return one key for each position in the matches, in this order; None: for all matches."""
        ...

    def bounds(self, value: Any) -> tuple[int, int]:
        """Return (least key equal to a value, least key after all equal to it), in this order."""
        ...


class FieldLevel:
    """A field's values."""

    def __init__(self, column: SortColumn, docs: NDArray[np.uint32], key: SortKey) -> None:
        self.column = column
        self.sort_key = key
        self._docs = docs

    def keys(self, positions: NDArray[np.int64] | None) -> NDArray[np.uint64]:
        """Return the ranks or bits of the values, inverted where the order descends."""
        docs = self._docs if positions is None else self._docs[positions]
        return self.column.keys(
            docs,
            is_descending=self.sort_key.is_descending,
            is_missing_first=self.sort_key.is_missing_first,
        )

    def bounds(self, value: Any) -> tuple[int, int]:
        """Return the bounds of a value of the field; None: of the documents without one."""
        low, high, _ = self.column.key_bounds(value)
        if value is None:
            return (0, 1) if self.sort_key.is_missing_first else (low, high)
        return _flipped(low, high) if self.sort_key.is_descending else (low, high)


class MinorLevel:
    """The low part of integers beyond 2^53, which doubles drop; follows the level of the field."""

    def __init__(self, column: SortColumn, docs: NDArray[np.uint32], key: SortKey) -> None:
        self._column = column
        self._docs = docs
        self._flip = np.uint64(MISSING_KEY if key.is_descending else 0)

    def keys(self, positions: NDArray[np.int64] | None) -> NDArray[np.uint64]:
        """Return by how much each integer exceeds its double, shifted to be positive."""
        docs = self._docs if positions is None else self._docs[positions]
        minors = self._column.minor_keys
        if minors is None:
            return np.full(len(docs), np.uint64(_MINOR_OFFSET) ^ self._flip)
        return (minors[docs].astype(np.int64) + _MINOR_OFFSET).astype(np.uint64) ^ self._flip

    def bounds(self, value: Any) -> tuple[int, int]:
        """Return the bounds of an integer's excess over its double."""
        low = self._column.key_bounds(value)[2] + _MINOR_OFFSET
        return _flipped(low, low + 1) if int(self._flip) else (low, low + 1)


class ScoreLevel:
    """The score, or the step it is in; constant if there are no scores."""

    def __init__(
        self, matches: Matches, *, is_descending: bool, bucket_height: float = 0.0
    ) -> None:
        self._matches = matches
        self._is_descending = is_descending
        self._bucket_height = bucket_height

    def keys(self, positions: NDArray[np.int64] | None) -> NDArray[np.uint64]:
        """Return the bits of the scores, or of their steps; zeros without scores."""
        scores = self._matches.scores
        if scores is None:
            return np.zeros(self._matches.count if positions is None else len(positions), np.uint64)
        chosen = scores if positions is None else scores[positions]
        if self._bucket_height:
            chosen = _score_buckets(chosen, self._bucket_height)
        return ordered_keys(chosen, is_descending=self._is_descending)

    def bounds(self, value: Any) -> tuple[int, int]:
        """Return the bounds of a score, or of the step that it is in."""
        if value is None or self._matches.scores is None:
            return 0, 1
        scores = np.array([float(value)])
        if self._bucket_height:
            scores = _score_buckets(scores, self._bucket_height)
        key = int(ordered_keys(scores, is_descending=self._is_descending)[0])
        return key, key + 1


class RandomLevel:
    """A random order, determined by the seed."""

    def __init__(self, segment: Segment, docs: NDArray[np.uint32], key: SortKey) -> None:
        assert key.seed is not None, "a random order without a seed"
        self._segment = segment
        self._docs = docs
        self._seed = key.seed
        self._flip = np.uint64(MISSING_KEY if key.is_descending else 0)

    def keys(self, positions: NDArray[np.int64] | None) -> NDArray[np.uint64]:
        """Return the random numbers."""
        docs = self._docs if positions is None else self._docs[positions]
        return random_numbers(self._segment, docs, self._seed) ^ self._flip

    def bounds(self, value: Any) -> tuple[int, int]:
        """Return the bounds of a random number; those of 0 for any other value."""
        number = value if type(value) is int and 0 <= value >> NUMBER_BITS == 0 else 0
        key = number ^ int(self._flip)
        return key, key + 1


class PlaceLevel:
    """The insertion number."""

    def __init__(self, segment: Segment, docs: NDArray[np.uint32], *, is_descending: bool) -> None:
        self._segment = segment
        self._docs = docs
        self._flip = np.uint64(MISSING_KEY if is_descending else 0)

    def keys(self, positions: NDArray[np.int64] | None) -> NDArray[np.uint64]:
        """Return the insertion numbers."""
        docs = self._docs if positions is None else self._docs[positions]
        return places_of(self._segment, docs) ^ self._flip

    def bounds(self, value: Any) -> tuple[int, int]:
        """Return the bounds of an insertion number."""
        key = value ^ int(self._flip)
        return key, key + 1


def _score_buckets(scores: NDArray[np.float64], height: float) -> NDArray[np.float64]:
    """Return the step of each score, counted from 0."""
    buckets: NDArray[np.float64] = np.floor(scores / height)
    return buckets


def _flipped(low: int, high: int) -> tuple[int, int]:
    """Return the bounds of the inverted keys of [low, high); low == high is a gap between keys."""
    return MISSING_KEY - (high - 1), MISSING_KEY - low + 1
