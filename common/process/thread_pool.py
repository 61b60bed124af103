"""Work on threads: what is refused never runs, and what has begun ends before its caller goes on.

A system may refuse to start a thread: a limit on processes, on memory or on address space. Python's
pool queues its work before it asks for a thread. Refused, it raises, but the work stays in its
queue, and runs as soon as a later call gets a thread: after its caller was told that it failed, and
has told its client. A catalog would be stored that no request sees, a write group committed by a
plan for an older state.

A coroutine that is cancelled, because the process stops, leaves its thread at work: beside the next
one that takes its lock, and writes the same file. `to_the_end` waits for it.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any, ParamSpec, TypeVar

from common.process.uncancelled_waiting import until_done

P = ParamSpec("P")
T = TypeVar("T")


class ThreadPool(concurrent.futures.ThreadPoolExecutor):
    """A pool that withdraws the work for which it could start no thread."""

    def submit(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Run a function on a thread.

        Raises:
            RuntimeError: the system starts no thread, or the pool is shut down; the function has
                not run and will not.
        """
        outcome: Future[T] = Future()
        try:
            super().submit(_run, [outcome, partial(function, *args, **kwargs)])
        except RuntimeError:
            if outcome.cancel():
                raise
            # Another thread of the pool has begun it meanwhile.
        return outcome

    def start_thread(self) -> None:
        """Start the first thread now.

        Raises:
            RuntimeError: the system refuses.
        """
        self.submit(_nothing)


async def to_the_end(function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Run a function on a thread as `asyncio.to_thread` does; if cancelled, wait for its end first.

    For what a lock protects, or what must not happen beside the caller's clean-up.
    """
    running = asyncio.ensure_future(asyncio.to_thread(function, *args, **kwargs))
    await until_done(running)
    try:
        return running.result()
    finally:
        del running  # it has the error, which refers to this frame


def _nothing() -> None:
    """Do nothing."""


def _run(work: list[Any]) -> None:
    """Run work that was not withdrawn.

    An error refers to this frame and those around it, which must not refer to its outcome: the two
    would keep each other, and what the function refers to, until the garbage collector comes.
    """
    outcome, function = work
    work.clear()
    if not outcome.set_running_or_notify_cancel():
        return
    try:
        outcome.set_result(function())
    except BaseException as error:
        outcome.set_exception(error)
        del outcome
