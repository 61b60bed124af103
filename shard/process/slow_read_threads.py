"""Threads for slow reads, on which the indexes take turns.

    index 3   ■ ■ ■ ■ ■ ■ …           one thread after the other takes the next read of the
    index 8   ■                       next index: 3, 8, 3, 3, …
                                      (index 3 has at most all threads but one)

A thousand slow searches of one index delay those of another by one search, not by a thousand. The
threads have a lower priority than the event loop, which serves the fast reads. A read whose caller
gives up before its turn is dropped; one that runs ends where it checks its deadline.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable
from functools import partial
from typing import Any, Final, TypeVar, cast

from common.deadline import check_call
from common.process.request_id_context import carried
from common.process.thread_pool import ThreadPool
from common.process.thread_priority import run_after_searches
from common.process.uncancelled_waiting import until_done

READERS: Final = 3
READERS_OF_ONE_INDEX: Final = READERS - 1

T = TypeVar("T")


class _Read:
    """A read, from its call to its outcome.

    Attributes:
        function: on a thread.
        outcome: for the caller.
        running: done when the thread is; None before the read's turn.
    """

    __slots__ = ("function", "outcome", "running")

    def __init__(self, function: Callable[[], Any]) -> None:
        self.function = function
        self.outcome: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.running: asyncio.Future[Any] | None = None


class Readers:
    """The threads; used on the event loop only."""

    def __init__(self) -> None:
        self._threads = ThreadPool(READERS, "reader", run_after_searches)
        self._waiting: OrderedDict[int, deque[_Read]] = OrderedDict()
        self._running: dict[int, int] = {}
        self._num_running = 0

    async def run(self, index: int, function: Callable[[], T]) -> T:
        """Run a function on a thread, with the deadline and the request ids of the caller.

        Once it has begun, this returns when it has ended, even if the caller is cancelled: what it
        reads stays open until then. The server lets the deadline pass, too, when it cancels.

        Args:
            index: whose turn it takes.
            function: the read.

        Raises:
            DeadlineExceeded: it was not started, or was abandoned.
        """

        def checked() -> T:
            check_call()
            return function()

        read = _Read(carried(checked))
        self._waiting.setdefault(index, deque()).append(read)
        self._begin()
        try:
            return cast(T, await read.outcome)
        except asyncio.CancelledError:
            if read.running is None:
                self._drop(index, read)
            else:
                await until_done(read.running)
            raise

    def _drop(self, index: int, read: _Read) -> None:
        """Forget a read that waits, if it still does."""
        reads = self._waiting.get(index)
        if reads is not None and read in reads:
            reads.remove(read)
            if not reads:
                del self._waiting[index]

    def _begin(self) -> None:
        """Assign idle threads to the next indexes in turn."""
        while self._num_running < READERS:
            index = next(
                (one for one in self._waiting if self._running.get(one, 0) < READERS_OF_ONE_INDEX),
                None,
            )
            if index is None:
                return
            reads = self._waiting[index]
            read = reads.popleft()
            if reads:
                self._waiting.move_to_end(index)
            else:
                del self._waiting[index]
            if not read.outcome.done():  # otherwise its caller gives up in this very moment
                self._start(index, read)

    def _start(self, index: int, read: _Read) -> None:
        self._running[index] = self._running.get(index, 0) + 1
        self._num_running += 1
        loop = asyncio.get_running_loop()
        running: asyncio.Future[Any]
        try:
            running = loop.run_in_executor(self._threads, read.function)
        except RuntimeError as error:  # the system starts no thread
            running = loop.create_future()
            running.set_exception(error)
        read.running = running
        running.add_done_callback(partial(self._end, index, read))

    def _end(self, index: int, read: _Read, done: asyncio.Future[Any]) -> None:
        """Deliver an outcome, and start the next read."""
        self._num_running -= 1
        self._running[index] -= 1
        if not self._running[index]:
            del self._running[index]
        # Also of a read whose caller has given up: asyncio logs an error that no caller retrieves.
        error = None if done.cancelled() else done.exception()
        if not read.outcome.done():
            if done.cancelled():
                read.outcome.cancel()
            elif error is not None:
                read.outcome.set_exception(error)
            else:
                read.outcome.set_result(done.result())
        self._begin()
