"""The queue of one index on several hosts: one group is published at a time.

Publishing and applying a group of a hundred operations costs about as much as of one. So the next
group gathers batches until the one before is applied here. If many are waiting (a bulk load), it is
published as soon as the log has the one before.
"""

from __future__ import annotations

import asyncio

from common.deadline import Deadline
from common.errors import ServiceError
from common.process.logs import Log
from coordinator.replication.publishing.write_group_publishing import GroupPublisher
from coordinator.settings import Settings
from coordinator.write.batch_queue import BatchQueue
from coordinator.write.deleted_index_checks import index_deleted
from coordinator.write.group_commit_queue import LARGE_BYTES, LARGE_OPERATIONS
from coordinator.write.write_batch import AppliedBatch, WriteBatch

_log = Log("replica")


class PublishQueue(BatchQueue):
    """Batches of one index that are waiting to be published.

    Args:
        publisher: publishes them.
        index: number of the index.
        settings: sizes.
    """

    def __init__(self, publisher: GroupPublisher, index: int, settings: Settings) -> None:
        super().__init__(
            group_bytes=settings.group_bytes,
            group_operations=settings.group_operations,
            waiting_max=settings.writes_waiting_max,
        )
        self._publisher = publisher
        self._index = index
        self._publishing: asyncio.Task[None] | None = None
        self._num_under_way = 0  # groups that are not applied yet

    async def write(self, batch: WriteBatch, deadline: Deadline) -> AppliedBatch:
        """Write a batch; see `BatchQueue.write`.

        Raises:
            Unavailable: `log_unavailable`: nothing was written, unless the message says otherwise.
            StorageFull: this host has no room; nothing was written.
        """
        self._publisher.check_writable()
        return await super().write(batch, deadline)

    def _pump(self) -> None:
        """Publish the next group unless it should gather more batches."""
        if self._publishing is not None or not self._waiting or not self._may_begin():
            return
        try:
            self._publisher.check_writable()
        except ServiceError as error:
            self.fail_waiting(error)
            return
        batches = self._take_batches()
        applied: asyncio.Future[bool] = self._loop.create_future()
        applied.add_done_callback(self._applied)
        self._num_under_way += 1
        self._publishing = self._loop.create_task(
            self._publisher.publish(self._index, batches, applied)
        )
        self._publishing.add_done_callback(self._published)

    def _may_begin(self) -> bool:
        """Return whether to publish the next group now, rather than gather more batches."""
        if not self._num_under_way:
            return True
        num_bytes = num_operations = 0
        for batch in self._waiting:
            num_bytes += batch.num_bytes
            num_operations += batch.num_operations
            if num_bytes >= LARGE_BYTES or num_operations >= LARGE_OPERATIONS:
                return True
        return False

    def _published(self, task: asyncio.Task[None]) -> None:
        self._publishing = None
        if not task.cancelled() and task.exception() is not None:
            _log.error("publishing failed", cause=task.exception())
        self._schedule_pump()

    def _applied(self, _: asyncio.Future[bool]) -> None:
        self._num_under_way -= 1
        self._schedule_pump()


class PublishQueues:
    """The queues of all indexes, by number.

    Args:
        publisher: publishes what waits.
        settings: sizes.
    """

    def __init__(self, publisher: GroupPublisher, settings: Settings) -> None:
        self._publisher = publisher
        self._settings = settings
        self._queues: dict[int, PublishQueue] = {}

    def queue(self, index: int) -> PublishQueue:
        """Return the queue of an index."""
        queue = self._queues.get(index)
        if queue is None:
            queue = PublishQueue(self._publisher, index, self._settings)
            self._queues[index] = queue
        return queue

    def forget(self, index: int) -> None:
        """Refuse what waits to be written to an index that has been deleted."""
        queue = self._queues.pop(index, None)
        if queue is not None:
            queue.fail_waiting(index_deleted())

    @property
    def num_waiting(self) -> int:
        """Number of waiting batches."""
        return sum(queue.num_waiting for queue in self._queues.values())

    def fail_waiting(self, error: ServiceError) -> None:
        """Refuse everything that waits."""
        for queue in self._queues.values():
            queue.fail_waiting(error)
