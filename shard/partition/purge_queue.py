"""Dead records that LMDB still stores, although no segment has them any more.

    a merge drops documents ─▶ add ─▶ queue ─▶ take ─▶ the writer removes items and tombstones

A tombstone may go only when no file can bring its record back: a segment that still has the record
as a hidden document would show it again after a restart.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from common.distinct_values import distinct_values
from shard.segment.doc_records_and_places import docs_of_records, records_of
from shard.segment.snapshot import SegmentView


class PurgeQueue:
    """The records of one index that can be purged; any thread may use it.

    Args:
        views: the segments of the newest state.
        dead: records that are dead in all states.
    """

    def __init__(self, views: Sequence[SegmentView], dead: NDArray[np.uint64]) -> None:
        self._lock = threading.Lock()
        self._batches: list[NDArray[np.uint64]] = []
        self._num_holds = 0
        self.refill(views, dead)

    def __len__(self) -> int:
        """Return the number of records."""
        return sum(map(len, self._batches))

    def refill(self, views: Sequence[SegmentView], dead: NDArray[np.uint64]) -> None:
        """Add dead records, and remove those that the segments of a new state have."""
        with self._lock:
            gone = _without(views, np.concatenate([dead, *self._batches]))
            self._batches = [gone] if len(gone) else []

    def add(self, records: NDArray[np.uint64], views: Sequence[SegmentView] = ()) -> None:
        """Add dead records that a merge has dropped, once the manifest names its result.

        Args:
            records: to be purged.
            views: segments; the records that these have are left out.
        """
        gone = _without(views, records) if views else records
        with self._lock:
            if len(gone):
                self._batches.append(gone)

    def take(self, count_max: int) -> NDArray[np.uint64] | None:
        """Remove some records and return them; None if there are none, or they are held."""
        with self._lock:
            if not self._batches or self._num_holds:
                return None
            records = self._batches.pop()
            if len(records) > count_max:
                self._batches.append(records[count_max:])
                records = records[:count_max]
            return records

    def hold(self) -> None:
        """Hand out nothing until `release`: segments of another configuration are being built.

        They need the tombstones to know which of their records are dead.
        """
        with self._lock:
            self._num_holds += 1

    def release(self) -> None:
        """End one `hold`."""
        with self._lock:
            self._num_holds -= 1


def _without(views: Sequence[SegmentView], records: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the records that no segment has, ascending."""
    gone = distinct_values(records)
    for view in views:
        kept = docs_of_records(view.segment, gone)
        gone = np.setdiff1d(gone, records_of(view.segment, kept), assume_unique=True)
    return gone
