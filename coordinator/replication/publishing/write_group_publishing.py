"""Publishes batches of writes as one group of the log."""

from __future__ import annotations

import asyncio

from common.errors import InternalError, ServiceError, Unavailable
from coordinator.replication.host.pending_changes import PendingChange, PendingChanges
from coordinator.replication.log.log_entries import Kind, WriteGroup, pack
from coordinator.replication.log.log_errors import LogAway, NotPublished
from coordinator.replication.log.long_entries import THREAD_BYTES
from coordinator.replication.publishing.entry_publishing import Publisher, not_confirmed
from coordinator.write.write_batch import WriteBatch, unconfirmed


class GroupPublisher:
    """Publishes the writes of this host.

    Args:
        publisher: of this host's entries.
        own: changes of this host that are under way.
    """

    def __init__(self, publisher: Publisher, own: PendingChanges) -> None:
        self._publisher = publisher
        self._own = own

    def check_writable(self) -> None:
        """Refuse a change that could not be carried out now; see `Publisher.check_writable`."""
        self._publisher.check_writable()

    async def publish(
        self, index: int, batches: list[WriteBatch], applied: asyncio.Future[bool]
    ) -> None:
        """Publish batches as one group; return when it is in the log, applied, or given up.

        Args:
            index: number of the index.
            batches: to publish.
            applied: done when the group is applied here, or cancelled if it was given up.
        """
        id = self._publisher.next_id()
        self._own[id] = PendingChange(batches, applied)
        num_bytes = sum(batch.num_bytes for batch in batches)
        try:
            if num_bytes > THREAD_BYTES:
                packed = await asyncio.to_thread(lambda: pack(WriteGroup.of(index, batches)))
            else:
                packed = pack(WriteGroup.of(index, batches))
            for batch in batches:
                batch.items = None
            await self._publisher.append(Kind.WRITE, id, packed, applied)
        except LogAway as error:
            self._own.pop(id, None)
            applied.cancel()
            for batch in batches:
                batch.fail(_given_up(batch, error))
        except BaseException:
            self._own.pop(id, None)
            applied.cancel()
            for batch in batches:
                batch.fail(InternalError("internal error"))
            raise


def _given_up(batch: WriteBatch, error: LogAway) -> ServiceError:
    """Return the error of a batch whose group was given up."""
    if isinstance(error, NotPublished):
        return Unavailable(not_confirmed(error), code="log_unavailable")
    return unconfirmed(batch, not_confirmed(error))
