"""How far the indexes of a shard are opened, for who waits for its start."""

from __future__ import annotations

import threading


class Opening:
    """Counts what there is to be done and what is done; any thread may count.

    Attributes:
        num_indexes: that are there.
        num_open: that serve already.
        num_records: stored items that no segment covers, and that are indexed again.
        num_built: of these, so many are.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.num_indexes = 0
        self.num_open = 0
        self.num_records = 0
        self.num_built = 0

    def expect_records(self, number: int) -> None:
        """Note that so many more items are to be indexed."""
        with self._lock:
            self.num_records += number

    def add_built(self, number: int) -> None:
        """Note that so many more of them are."""
        with self._lock:
            self.num_built += number

    def add_open(self) -> None:
        """Note that one more index serves."""
        with self._lock:
            self.num_open += 1
