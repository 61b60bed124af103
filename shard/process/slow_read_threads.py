"""Threads for slow reads, on which the indexes take turns.

    index 3   ■ ■ ■ ■ ■ ■ …           one thread after the other takes the next read of the
    index 8   ■                       next index: 3, 8, 3, 3, …
                                      (index 3 has at most all threads but one)

A thousand slow searches of one index delay those of another by one search, not by a thousand. The
threads have a lower priority than the event loop, which serves the fast reads. A read whose caller
has given up before its turn is not started.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable
from functools import partial
from typing import Any, Final, NamedTuple, TypeVar, cast

from common.deadline import check_call
from common.process.request_id_context import carried
from common.process.thread_pool import ThreadPool
from common.process.thread_priority import run_after_searches

READERS: Final = 3
READERS_OF_ONE_INDEX: Final = READERS - 1

T = TypeVar("T")


class _Read(NamedTuple):
    """A read that waits for its turn."""

    function: Callable[[], Any]
    outcome: asyncio.Future[Any]


class Readers:
    """The threads; used on the event loop only."""

    def __init__(self) -> None:
        self._threads = ThreadPool(READERS, "reader", run_after_searches)
        self._waiting: OrderedDict[int, deque[_Read]] = OrderedDict()
        self._running: dict[int, int] = {}
        self._num_running = 0

    async def run(self, index: int, function: Callable[[], T]) -> T:
        """Run a function on a thread, with the deadline and the request ids of the caller.

        Args:
            index: whose turn it takes.
            function: the read.

        Raises:
            DeadlineExceeded: it was not started, or was abandoned.
        """

        def read() -> T:
            check_call()
            return function()

        outcome = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(index, deque()).append(_Read(carried(read), outcome))
        self._begin()
        return cast(T, await outcome)

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
            if not read.outcome.done():  # otherwise the caller has given up
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
