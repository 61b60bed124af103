"""Pools of threads whose refusals are final.

A system may refuse to start a thread: a limit on processes, on memory or on address space. Python's
pool queues its work before it asks for a thread. Refused, it raises, but the work stays in its
queue, and runs as soon as a later call gets a thread: after its caller was told that it failed, and
has told its client. A catalog would be stored that no request sees, a write group committed by a
plan for an older state.
"""

from __future__ import annotations

import concurrent.futures
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, ParamSpec, TypeVar

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
            super().submit(_run, outcome, function, args, kwargs)
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


def _nothing() -> None:
    """Do nothing."""


def _run(outcome: Future[Any], function: Callable[..., Any], args: Any, kwargs: Any) -> None:
    """Run work that was not withdrawn."""
    if not outcome.set_running_or_notify_cancel():
        return
    try:
        outcome.set_result(function(*args, **kwargs))
    except BaseException as error:
        outcome.set_exception(error)
        del outcome  # or it and its error, which refers to this frame, would keep each other
