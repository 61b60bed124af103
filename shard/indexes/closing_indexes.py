"""The indexes of a shard that are being closed: until then, they cannot be opened again."""

from __future__ import annotations

import asyncio
import gc
import itertools
import threading
from collections.abc import Callable
from functools import partial

from common.process.logs import Log
from common.process.thread_pool import ThreadPool
from common.process.thread_priority import run_after_searches
from common.process.uncancelled_waiting import result_of
from shard.indexes.closed_index_facts import ClosedIndex
from shard.indexes.open_index import OpenIndex
from shard.partition.merge_flush_and_purge_scheduler import MergeScheduler

_log = Log("shard")

CLOSING_MAX = 32
"""Most indexes that may be closing when another opens: each holds threads and mappings."""
RELEASE_SECONDS = 0.001
"""Pause between two checks whether an environment is released."""
GARBAGE_ATTEMPTS = 20
"""Checks after which it may be part of a cycle, which only the garbage collector frees."""


class ClosingIndexes:
    """Closes indexes on a thread of its own; used on the event loop.

    Args:
        merge_scheduler: leaves those alone that are being closed.
    """

    def __init__(self, merge_scheduler: MergeScheduler) -> None:
        self._merge_scheduler = merge_scheduler
        self._tasks: dict[int, asyncio.Future[None]] = {}
        self._released: dict[int, threading.Event] = {}
        self._thread = ThreadPool(1, "closer", run_after_searches)
        # Not when the system may refuse it: an index that cannot close could not open again.
        self._thread.start_thread()

    def begin(self, index: OpenIndex, on_closed: Callable[[ClosedIndex], None]) -> None:
        """Close an index that is not in use; segments in memory become files.

        The caller must drop its reference, or the environment would not close.
        """
        number = index.partition.number
        self._released[number] = index.partition.environment.closed
        self._tasks[number] = asyncio.ensure_future(self._close(number, index, on_closed))

    async def _close(
        self, number: int, index: OpenIndex, on_closed: Callable[[ClosedIndex], None]
    ) -> None:
        loop = asyncio.get_running_loop()
        closing = loop.run_in_executor(self._thread, partial(self._close_on_thread, number, index))
        del index  # or its environment would not close
        try:
            on_closed(await closing)
        except Exception as error:  # the next open finds what is on disk
            _log.error("closing failed", index=number, cause=error)
        finally:
            del self._tasks[number]

    def _close_on_thread(self, number: int, index: OpenIndex) -> ClosedIndex:
        self._merge_scheduler.remove(number)
        index.close()
        return ClosedIndex.after(index.partition)

    def __contains__(self, number: int) -> bool:
        return number in self._tasks

    def numbers(self) -> list[int]:
        """Return the numbers of those that are being closed or copied."""
        return list(self._tasks)

    async def copying(self, number: int, copy: asyncio.Future[None]) -> None:
        """Copy the file of a closed index; requests that need it open wait, as while it closes.

        If it is cancelled, the copy ends first; if it is cancelled again, later.
        """
        self._tasks[number] = copy
        copy.add_done_callback(lambda _: self._tasks.pop(number))
        try:
            await result_of(copy)
        finally:
            await asyncio.wait([copy])

    async def wait_for(self, number: int) -> None:
        """Wait until an index is not being closed."""
        while number in self._tasks:
            await asyncio.wait([self._tasks[number]])

    async def wait_for_all(self) -> None:
        """Wait until no index is being closed."""
        while self._tasks:
            await asyncio.wait(list(self._tasks.values()))

    async def wait_while_many(self) -> None:
        """Wait while many are being closed: writes to many new indexes would outpace it."""
        while len(self._tasks) >= CLOSING_MAX:
            await asyncio.wait(list(self._tasks.values()), return_when=asyncio.FIRST_COMPLETED)

    async def wait_released(self, number: int) -> None:
        """Wait until the environment of an index has closed: a process may open it only once."""
        for attempt in itertools.count():
            released = self._released.get(number)
            if released is None or released.is_set():
                return
            if attempt == GARBAGE_ATTEMPTS:
                gc.collect()
            await asyncio.sleep(RELEASE_SECONDS)

    def forget(self, number: int) -> None:
        """Forget an index that was removed."""
        self._released.pop(number, None)

    def stop(self) -> None:
        """End the thread, once all are closed."""
        self._thread.shutdown()
