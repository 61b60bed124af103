"""Changes of this host that are under way: published, or about to be, and not yet answered."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from common.errors import ServiceError
from coordinator.write.write_batch import AppliedBatch, WriteBatch, unconfirmed


@dataclass(slots=True)
class PendingChange:
    """A change of ours.

    Attributes:
        batches: of a write.
        applied: done when the entry has been applied here; for a change of the catalog the result
            is whether it is in force.
    """

    batches: Sequence[WriteBatch]
    applied: asyncio.Future[bool]

    def settle(self, seq: int, outcomes: NDArray[np.uint8], text_ids: frozenset[int]) -> None:
        """Answer the requests of a group.

        Args:
            seq: of the group.
            outcomes: by position.
            text_ids: operations that deleted an item whose all-digit id was stored as text.
        """
        first = 0
        for batch in self.batches:
            last = first + batch.num_operations
            if not batch.future.done():
                own = frozenset(one - first for one in text_ids if first <= one < last)
                batch.future.set_result(AppliedBatch(outcomes[first:last].copy(), seq, own))
            first = last

    def fail(self, error: ServiceError) -> None:
        """Answer the requests of a group: the outcome is unknown."""
        for batch in self.batches:
            batch.fail(unconfirmed(batch, error.message))

    def conclude(self, is_in_force: bool = True) -> None:
        """Note that the entry has been applied here, or is in the log at least."""
        if not self.applied.done():
            self.applied.set_result(is_in_force)


class PendingChanges(dict[str, PendingChange]):
    """Changes of ours by the id of their entry."""

    def fail(self, error: ServiceError) -> None:
        """Answer all requests: the outcome is unknown."""
        for own in self.values():
            own.fail(error)
            own.applied.cancel()
        self.clear()
