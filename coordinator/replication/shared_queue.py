"""The queue of one index on several hosts: one group is published at a time."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from common.deadline import Deadline
from common.errors import ServiceError
from common.process.logs import Log
from coordinator.settings import Settings
from coordinator.write.write_queue import Applied, BatchQueue, WriteBatch

if TYPE_CHECKING:
    from coordinator.replication.shared_log import SharedLog

_log = Log("replica")


class SharedQueue(BatchQueue):
    """Batches of one index that are waiting to be published.

    Args:
        log: publishes them.
        index: number of the index.
        settings: sizes.
    """

    def __init__(self, log: SharedLog, index: int, settings: Settings) -> None:
        super().__init__(
            group_bytes=settings.group_bytes,
            group_operations=settings.group_operations,
            waiting_max=settings.writes_waiting_max,
        )
        self._log = log
        self._index = index
        self._publishing: asyncio.Task[None] | None = None

    async def write(self, batch: WriteBatch, deadline: Deadline) -> Applied:
        """Write a batch; see `BatchQueue.write`.

        Raises:
            Unavailable: `log_unavailable`: nothing was written, unless the message says otherwise.
            StorageFull: this host has no room; nothing was written.
        """
        self._log.check_writable()
        return await super().write(batch, deadline)

    def _pump(self) -> None:
        """Publish the next group unless one is being published."""
        if self._publishing is not None or not self._waiting:
            return
        try:
            self._log.check_writable()
        except ServiceError as error:
            self.fail_waiting(error)
            return
        batches = self._take_batches()
        self._publishing = self._loop.create_task(self._log.publish_group(self._index, batches))
        self._publishing.add_done_callback(self._published)

    def _published(self, task: asyncio.Task[None]) -> None:
        self._publishing = None
        if not task.cancelled() and task.exception() is not None:
            _log.error("publishing failed", cause=task.exception())
        self._schedule_pump()
