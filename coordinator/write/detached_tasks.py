"""Tasks that outlive the request that started them: a change continues without its client."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Final

from common.deadline import Deadline
from common.errors import DeadlineExceeded, ServiceError, Unavailable
from common.process.logs import Log
from common.process.uncancelled_waiting import result_of

TASKS_MAX: Final = 256
"""Unfinished tasks beyond which no request starts another one."""

_log = Log("ingest")


class DetachedTasks:
    """Starts tasks and holds them until they end, whether or not a request waits for them."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    def _check_room(self) -> None:
        """Refuse a request that would start another task.

        Raises:
            Unavailable: `overloaded`.
        """
        if len(self._tasks) >= TASKS_MAX:
            raise Unavailable(
                f"{TASKS_MAX} earlier changes are not finished yet; nothing was changed: send this "
                "one again shortly",
                code="overloaded",
            )

    def start(self, coroutine: Any) -> asyncio.Task[Any]:
        """Start a task that continues after its request has ended."""
        task = asyncio.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._finish)
        return task

    def _finish(self, task: asyncio.Task[Any]) -> None:
        """Release a finished task; retrieve its exception in case nothing else does."""
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None and not isinstance(error, ServiceError):
            _log.error("write failed", cause=error)

    async def wait_for(self, coroutine: Coroutine[Any, Any, Any], deadline: Deadline | None) -> Any:
        """Wait for a task that continues in the background past the deadline.

        Raises:
            Unavailable: `overloaded`, it was not started.
            DeadlineExceeded: it continues.
        """
        try:
            self._check_room()
        except Unavailable:
            coroutine.close()
            raise
        task = self.start(coroutine)
        try:
            seconds = None if deadline is None else deadline.remaining_seconds
            async with asyncio.timeout(seconds):
                return await result_of(task)
        except TimeoutError:
            raise DeadlineExceeded(
                "it takes longer than this request's deadline, and continues; look again later"
            ) from None
