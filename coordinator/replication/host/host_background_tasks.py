"""Background work of a host: it lasts until it is done, or until the host stops."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from common.process.logs import Log

_log = Log("replica")


class HostTasks:
    """Tasks that end with this host at the latest; one that fails is logged at once."""

    def __init__(self) -> None:
        self._tasks: list[asyncio.Task[None]] = []

    def start(self, work: Coroutine[Any, Any, None], name: str | None = None) -> asyncio.Task[None]:
        """Begin some work."""
        task = asyncio.create_task(work, name=name)
        self._tasks.append(task)
        task.add_done_callback(self._finish)
        return task

    def _finish(self, task: asyncio.Task[None]) -> None:
        self._tasks.remove(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("a task of this host failed", task=task.get_name(), cause=error)

    async def stop(self) -> None:
        """Cancel all, in the order in which they began."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
