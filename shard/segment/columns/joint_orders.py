"""Joint orders: the documents of a segment by several fields at once.

    category asc, price desc       documents 7 2 5 | 4 | 0 1 …      | where a tuple of keys begins

By its first field alone, a search has to compare the further keys of all documents that tie: a
twentieth of all items may be in the first category. The orders that searches repeat are few, such
as the choices of a page, so their permutations are kept like those of single fields
(`sort_columns`). Directions are part of an order, and documents without a value are in it.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from common.distinct_values import starts_run
from shard.caches.lru_cache import COLUMN_CACHE
from shard.segment.columns.permutations import Permutation, Permuted
from shard.segment.columns.sort_columns import SortColumn

if TYPE_CHECKING:
    from numpy.typing import NDArray

_OBJECT_BYTES = 500


class Direction(NamedTuple):
    """The direction of a field in an order."""

    is_descending: bool
    is_missing_first: bool


class JointOrder(Permuted):
    """The order of the documents of a segment by several columns; it does not keep these alive."""

    __slots__ = ("_columns", "_directions")

    def __init__(self, columns: Sequence[SortColumn], directions: Sequence[Direction]) -> None:
        super().__init__(columns[0].num_docs)
        self._columns = [weakref.ref(column) for column in columns]
        self._directions = directions

    def _sorted_docs(self) -> Permutation | None:
        """Return all documents in order; those with equal keys ascend."""
        docs = np.arange(self.num_docs, dtype=np.uint32)
        # One column at a time, however many there are: keys are twice as large as documents. From
        # the last one to the first, each stable sort leaves ties in the order of those after it.
        for position in reversed(range(len(self._columns))):
            keys = self._keys(position, docs)
            if keys is None:
                return None
            docs = docs[np.argsort(keys, kind="stable")]
        is_first = np.zeros(self.num_docs, np.bool_)
        for position in range(len(self._columns)):
            keys = self._keys(position, docs)
            if keys is None:
                return None
            is_first |= starts_run(keys)
        return Permutation(docs, is_first)

    def _keys(self, position: int, docs: NDArray[np.uint32]) -> NDArray[np.uint64] | None:
        """Return the keys of documents by one of the columns; None if it is gone."""
        column = self._columns[position]()
        if column is None:
            return None
        is_descending, is_missing_first = self._directions[position]
        return column.keys(docs, is_descending=is_descending, is_missing_first=is_missing_first)


def joint_order(columns: Sequence[SortColumn], directions: Sequence[Direction]) -> JointOrder:
    """Return the order of the documents of a segment by several fields.

    Args:
        columns: of the fields, without minor keys.
        directions: as many.
    """
    return COLUMN_CACHE.get_or_make(
        ("joint order", tuple([column.serial for column in columns]), tuple(directions)),
        lambda: JointOrder(columns, directions),
        lambda _: _OBJECT_BYTES,
        columns[0],
    )
