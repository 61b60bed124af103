"""Progress of opening the indexes of a shard, for those who wait for its start."""

from __future__ import annotations

import threading


class OpeningProgress:
    """Counters of the progress of a start; thread-safe.

    Attributes:
        num_indexes: to open.
        num_open: opened so far.
        num_records: stored items that no segment covers, to be indexed again.
        num_built: how many of these are indexed.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.num_indexes = 0
        self.num_open = 0
        self.num_records = 0
        self.num_built = 0

    def expect_records(self, number: int) -> None:
        """Add to the items to be indexed."""
        with self._lock:
            self.num_records += number

    def add_built(self, number: int) -> None:
        """Add to the items that are indexed."""
        with self._lock:
            self.num_built += number

    def add_open(self) -> None:
        """Count one more index that serves."""
        with self._lock:
            self.num_open += 1
