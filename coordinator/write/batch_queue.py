"""The batches of one index that wait to be written, however their order is decided."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import deque

import numpy as np

from common.deadline import Deadline
from common.errors import DeadlineExceeded, ServiceError, Unavailable
from coordinator.write.write_batch import AppliedBatch, WriteBatch, batch_partly_stored


class BatchQueue(ABC):
    """Batches of one index that wait to be written, in the order in which they arrived.

    Args:
        group_bytes: approximate payload of a group.
        group_operations: most operations in a group.
        waiting_max: most waiting batches.
    """

    def __init__(self, *, group_bytes: int, group_operations: int, waiting_max: int) -> None:
        self._group_bytes = group_bytes
        self._group_operations = group_operations
        self._waiting_max = waiting_max
        self._waiting: deque[WriteBatch] = deque()
        self._loop = asyncio.get_running_loop()
        self._is_pump_scheduled = False

    @property
    def num_waiting(self) -> int:
        """Batches not yet in a group."""
        return len(self._waiting)

    async def write(self, batch: WriteBatch, deadline: Deadline) -> AppliedBatch:
        """Write a batch.

        Returns:
            Its outcome, once it is durable on every shard involved, and visible.

        Raises:
            Unavailable: `overloaded` or `starting`: nothing was written; `shard_unavailable`: the
                outcome is unknown unless the message says otherwise.
            DeadlineExceeded: if nothing has been written so far, nothing will be.
            PartlyStored: items without ids were stored, or may be; they must not be sent again.
        """
        if len(self._waiting) >= self._waiting_max:
            raise Unavailable(
                f"{len(self._waiting)} writes to this index are waiting already; try again in a "
                "second",
                code="overloaded",
            )
        self._waiting.append(batch)
        self._schedule_pump()
        timer = self._loop.call_later(deadline.remaining_seconds, self._expire, batch)
        try:
            return await batch.future
        except asyncio.CancelledError:
            # The client is gone. If the batch is in a group, that group still completes.
            self._withdraw(batch)
            raise
        finally:
            timer.cancel()

    def _expire(self, batch: WriteBatch) -> None:
        """Fail a batch whose deadline has passed; a group that contains it still completes."""
        if self._withdraw(batch):
            batch.fail(DeadlineExceeded("the write waited until its deadline; nothing was written"))
        elif batch.is_anonymous is not None:
            positions = np.arange(batch.num_operations)
            batch.fail(batch_partly_stored(np.zeros(batch.num_operations, np.bool_), positions))
        else:
            batch.fail(
                DeadlineExceeded(
                    "the write was not confirmed within its deadline; it may still be carried out"
                ),
            )

    def fail_waiting(self, error: ServiceError) -> None:
        """Fail all waiting batches; none of them was written."""
        while self._waiting:
            self._waiting.popleft().fail(error)

    def _withdraw(self, batch: WriteBatch) -> bool:
        """Remove a batch from the queue; False if it is in a group already."""
        try:
            self._waiting.remove(batch)
        except ValueError:
            return False
        return True

    def _schedule_pump(self) -> None:
        """Form groups after this loop iteration, to join all batches that arrive in it."""
        if not self._is_pump_scheduled:
            self._is_pump_scheduled = True
            self._loop.call_soon(self._run_pump)

    def _run_pump(self) -> None:
        self._is_pump_scheduled = False
        self._pump()

    @abstractmethod
    def _pump(self) -> None:
        """Form the groups that may begin now."""

    def _take_batches(self) -> list[WriteBatch]:
        """Take as many waiting batches as fit into one group, at least one."""
        batches: list[WriteBatch] = []
        num_bytes = num_operations = 0
        while self._waiting:
            batch = self._waiting[0]
            num_bytes += batch.num_bytes
            num_operations += batch.num_operations
            if batches and (
                num_bytes > self._group_bytes or num_operations > self._group_operations
            ):
                break
            batches.append(self._waiting.popleft())
        return batches
