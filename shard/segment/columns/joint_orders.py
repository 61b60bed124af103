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
from typing import NamedTuple

import numpy as np

from common.distinct_values import starts_run
from shard.caches.lru_cache import COLUMN_CACHE
from shard.segment.columns.sort_columns import Permutation, Permuted, SortColumn

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
        rows = []
        for reference, (is_descending, is_missing_first) in zip(
            self._columns, self._directions, strict=True
        ):
            column = reference()
            if column is None:
                return None
            rows.append(
                column.keys(docs, is_descending=is_descending, is_missing_first=is_missing_first)
            )
        order = np.lexsort(rows[::-1])
        return Permutation(order.astype(np.uint32), starts_run(*[row[order] for row in rows]))


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
