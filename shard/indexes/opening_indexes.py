"""The indexes of a shard that are being opened, or made, for a request or by the start."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from common.errors import InternalError, ServiceError, StorageFull, Unavailable
from common.process.logs import Log
from common.process.request_id_context import carried
from common.process.thread_pool import ThreadPool
from common.protocol.messages import IndexEntry
from shard.indexes.closed_indexes import ClosedIndexes
from shard.indexes.closing_indexes import ClosingIndexes
from shard.indexes.index_folders import IndexFolders
from shard.partition.opening_progress import OpeningProgress
from shard.partition.partition import Partition
from shard.storage.storage_errors import StorageFailure, cause_of, is_disk_full
from shard.storage.verify_and_warm_up import WarmUp

_log = Log("shard")

MAKING_MAX = 2
"""Indexes made at the same time before they are used: requests that open others wait for them."""

T = TypeVar("T")


class OpeningIndexes:
    """Opens indexes on threads of its own, each once; used on the event loop.

    Args:
        folders: opens and makes them.
        closed: what is not open.
        closing: an index cannot be opened while it closes.
        warm_up: reads the files of those that were opened.
        serve: serves what was opened.
        on_failure: called, on any thread, when the process must end.

    Attributes:
        progress: of the start.
        threads: open, make and configure indexes.
    """

    def __init__(
        self,
        folders: IndexFolders,
        closed: ClosedIndexes,
        closing: ClosingIndexes,
        warm_up: WarmUp,
        serve: Callable[[Partition], None],
        on_failure: Callable[[BaseException], None],
    ) -> None:
        self._folders = folders
        self._closed = closed
        self._closing = closing
        self._warm_up = warm_up
        self._serve = serve
        self._on_failure = on_failure
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self.progress = OpeningProgress()
        self.threads = ThreadPool(2, "opener")

    def start(self, numbers: list[int]) -> None:
        """Begin to open the indexes that the start does not leave closed."""
        self.progress.num_indexes = len(numbers)
        for number in numbers:
            self._begin(number, self.progress)

    def numbers(self) -> list[int]:
        """Return the numbers of those that are being opened or made."""
        return list(self._tasks)

    def make_ahead(self, number: int) -> None:
        """Begin to make an index before it is used, unless others are being made or opened."""
        if self._closed.unmade(number) is not None and len(self._tasks) < MAKING_MAX:
            self.begin(number)

    def begin(self, number: int) -> asyncio.Task[None]:
        """Begin to open or make an index, unless that is under way; return its task."""
        return self._tasks.get(number) or self._begin(number, OpeningProgress())

    def _begin(self, number: int, opening: OpeningProgress) -> asyncio.Task[None]:
        entry = self._closed.unmade(number)
        opened = self._open(number, opening) if entry is None else self._make(entry)
        task = asyncio.ensure_future(opened)
        task.add_done_callback(lambda done: done.cancelled() or done.exception())  # it was logged
        self._tasks[number] = task
        return task

    async def _open(self, number: int, opening: OpeningProgress) -> None:
        try:
            await self._closing.wait_while_many()
            await self._closing.wait_released(number)
            partition = await self.in_thread(lambda: self._folders.open(number, opening))
        except Exception as error:
            if opening is not self.progress and not isinstance(error, StorageFailure):
                self._tasks.pop(number, None)
                raise _error_for_client(number, error) from error
            error = self._folders.explained(error)
            self._on_failure(error)
            raise
        self._opened(number, partition)
        for view in partition.newest.views:
            for segment in (view.segment, *view.segment.text_files.values()):
                if not segment.is_verified:
                    self._warm_up.verify(segment.verify_searched, segment.verify_all)
        self._warm_up.read(partition.environment.data_path, partition.environment.file_bytes())
        opening.add_open()

    async def _make(self, entry: IndexEntry) -> None:
        """Make an index that the catalog has, or shall have.

        Raises:
            StorageFull, Unavailable: the disk refused it; the next use tries again.
        """
        number = entry.number
        try:
            await self._closing.wait_while_many()
            partition = await self.in_thread(lambda: self._folders.make(entry))
        except (OSError, StorageFailure) as error:
            _log.warning("an index cannot be made", index=number, reason=str(error))
            if is_disk_full(error):
                raise StorageFull("there is no room on the disk to make the index") from error
            raise Unavailable(f"the index cannot be made now: {cause_of(error)}") from error
        finally:
            self._tasks.pop(number, None)
        self._opened(number, partition)

    def _opened(self, number: int, partition: Partition) -> None:
        self._tasks.pop(number, None)
        self._closed.drop(number)
        self._serve(partition)

    async def in_thread(self, function: Callable[[], T]) -> T:
        """Run a function on one of the threads."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self.threads, carried(function))

    async def wait_for(self, number: int) -> bool:
        """Wait until an index is not being opened, even if that fails; return whether it was."""
        opening = self._tasks.get(number)
        if opening is None or opening.done():
            return False
        await asyncio.wait([opening])
        return True

    async def wait_for_all(self) -> None:
        """Wait until none is being opened.

        Raises:
            Exception: of one that the start could not open.
        """
        while self._tasks:
            await asyncio.gather(*self._tasks.values())

    def cancel(self) -> None:
        """Give up opening them; threads finish what they have begun, and nothing uses it."""
        for task in self._tasks.values():
            task.cancel()


def _error_for_client(number: int, error: Exception) -> ServiceError:
    """Log why an index cannot be opened; return the error for the client."""
    _log.error("an index cannot be opened", index=number, reason=str(error))
    if isinstance(error, ServiceError):
        return error
    if isinstance(error, OSError):
        return Unavailable(f"the index cannot be opened now: {cause_of(error)}")
    if isinstance(error, (RuntimeError, MemoryError)):
        return Unavailable("the index cannot be opened now: memory or threads ran out")
    return InternalError(
        "the index is damaged: restore it from a backup, or remove it", code="item_corrupt"
    )
