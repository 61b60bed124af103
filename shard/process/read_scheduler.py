"""Decides where a read runs, so that it delays others least.

    at once       on the event loop: most reads take less than a millisecond, and handing one over
                  to a thread would cost more
    later         in another turn of the event loop, if this one has taken long: where many reads
                  arrive together, indexes take turns (`common/process/cooperative_scheduler.py`)
    on a thread   reads that are known to take long, and all reads of an index that keeps the loop
                  busy while others are read (`event_loop_share`); indexes take turns
                  (`slow_read_threads`)

After a read, a low-priority thread runs the tasks that it has scheduled
(`shard/caches/background_derivation.py`).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, TypeVar

from common.deadline import check_call
from common.process.cooperative_scheduler import LoopScheduler
from common.process.thread_pool import ThreadPool
from common.process.thread_priority import run_in_background
from shard.caches.background_derivation import BACKGROUND_TASKS
from shard.process.event_loop_share import LoopShare
from shard.process.slow_read_threads import Readers

if TYPE_CHECKING:
    from shard.indexes.open_indexes import OpenIndexes

T = TypeVar("T")


class ReadScheduler:
    """Runs the reads of a shard; used on the event loop only.

    Args:
        open_indexes: kept open while they are read.
        scheduler: orders reads on the event loop.
    """

    def __init__(self, open_indexes: OpenIndexes, scheduler: LoopScheduler) -> None:
        self._open = open_indexes
        self._scheduler = scheduler
        self._readers = Readers()
        self._share = LoopShare()
        self._deriver = ThreadPool(1, "deriver", run_in_background)
        self._running_tasks: Future[None] | None = None

    def run(self, index: int, read: Callable[[], T]) -> T | Awaitable[T]:
        """Read on the event loop: at once, or in a later turn if this one has taken long.

        An index that takes too much of it reads on a thread while others are read.
        """
        began = self._share.begin(index)
        is_alone = self._share.is_alone(index)
        if not is_alone and self._share.is_exceeded(index):
            return self._run_apart(index, read, began)
        if not self._scheduler.has_time(index, is_alone=is_alone):
            return self._run_later(index, read)
        try:
            response = read()
        finally:
            self._share.end(index, began)
        self._run_background_tasks()
        return response

    async def _run_apart(self, index: int, read: Callable[[], T], began: float) -> T:
        """Read on a reader thread, as long as the index takes more than its share."""
        try:
            return await self.run_on_thread(index, read)
        finally:
            self._share.end(index, began)

    def _run_later(self, index: int, read: Callable[[], T]) -> asyncio.Future[T]:
        """Read in a later turn of the event loop; there is no task, which would cost 15 µs more."""

        def read_if_wanted() -> T:
            check_call()
            began = self._share.begin(index)
            try:
                response = read()
            finally:
                self._share.end(index, began)
            self._run_background_tasks()
            return response

        outcome = self._scheduler.run_later(index, read_if_wanted)
        self._open.keep_until(outcome, index)
        return outcome

    async def run_on_thread(self, index: int, read: Callable[[], T]) -> T:
        """Read on a reader thread, so that other requests need not wait."""
        with self._open.kept(index):
            response = await self._readers.run(index, read)
        self._run_background_tasks()
        return response

    def _run_background_tasks(self) -> None:
        """Let the thread run the scheduled tasks; a later task wakes it again."""
        if BACKGROUND_TASKS and (self._running_tasks is None or self._running_tasks.done()):
            with contextlib.suppress(RuntimeError):  # no thread can be started: a later read tries
                self._running_tasks = self._deriver.submit(BACKGROUND_TASKS.run_all)
