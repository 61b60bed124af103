"""An index that serves: its partition, its writer and the writer's thread."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TypeVar

from common.errors import ServiceError, StorageFull
from common.process.logs import Log
from common.process.request_id_context import carried
from common.process.thread_pool import ThreadPool
from shard.partition.merge_and_flush import flush
from shard.partition.partition import Partition
from shard.partition.reindex import Reindex
from shard.partition.writer import Writer

_log = Log("shard")

T = TypeVar("T")


@dataclass(slots=True)
class OpenIndex:
    """An open index.

    Attributes:
        partition: its data.
        writer: applies groups, on `thread`.
        thread: one thread; also for maintenance that must not run concurrently with a group.
        prepared: a configuration that was built and waits for the catalog.
        used: when it was used last, by a counter.
        num_users: calls in progress that need it open after this turn of the event loop.
    """

    partition: Partition
    writer: Writer
    thread: ThreadPool
    prepared: Reindex | None = field(default=None)
    used: int = 0
    num_users: int = 0

    def submit(self, function: Callable[[], T]) -> Future[T]:
        """Run a function on the writer's thread."""
        return self.thread.submit(carried(function))

    def close(self) -> None:
        """Finish the writer, write segments in memory, so that the next open has nothing to index.

        The environment stays open: a slow search may still read from it. What fails is logged, and
        left for the next open: a damaged index is no reason for others to stay as they are.
        """
        self.thread.shutdown()
        self.writer.close()
        if self.partition.is_settled:
            return
        try:
            self.writer.compact()
            flush(self.partition)
        except (OSError, StorageFull) as error:
            _log.warning("left for the next open", index=self.partition.number, reason=str(error))
        except ServiceError as error:  # a damaged page, say: it says what to do
            _log.error("closing failed", index=self.partition.number, reason=error.message)
        except Exception as error:
            _log.error("closing failed", index=self.partition.number, cause=error)
