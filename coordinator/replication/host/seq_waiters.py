"""Requests that wait until this host has reached an entry of the log."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from common.deadline import Deadline
from common.errors import DeadlineExceeded, ServiceError


class SeqWaiters:
    """The waiting requests, each with the entry that it waits for.

    Args:
        reached_seq: returns the entry that this host has reached, for error messages.
    """

    def __init__(self, reached_seq: Callable[[], int]) -> None:
        self._reached_seq = reached_seq
        self._waiters: list[tuple[int, asyncio.Future[None]]] = []

    async def wait(self, seq: int, deadline: Deadline) -> None:
        """Return when an entry is reached.

        Raises:
            DeadlineExceeded: it was not in time.
            ServiceError: it never will be.
        """
        waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append((seq, waiting))
        try:
            async with asyncio.timeout(deadline.remaining_seconds):
                await waiting
        except TimeoutError:
            raise DeadlineExceeded(
                f"this host has applied the log up to {self._reached_seq()}, not to {seq}"
            ) from None
        finally:
            self._waiters[:] = [one for one in self._waiters if one[1] is not waiting]

    def reach(self, seq: int) -> None:
        """Wake the requests that wait for an entry or an earlier one."""
        for wanted, waiting in self._waiters:
            if wanted <= seq and not waiting.done():
                waiting.set_result(None)

    def fail(self, make_error: Callable[[], ServiceError]) -> None:
        """Fail all."""
        for _, waiting in self._waiters:
            if not waiting.done():
                waiting.set_exception(make_error())
