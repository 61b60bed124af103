"""Limits how many searches of one index run at a time while other indexes have searches too.

    index 3   ■ · · · · · …      one runs (of two cores), the others wait until it has ended
    index 8   ■                  finds one ahead of it, not sixteen

A tenant that sends many expensive searches at once fills every queue on the way: of both event
loops, of the sockets between them, of the operating system. Each of these is short where few
searches are under way. So as soon as a second index has searches, no index has more than
`RUNNING_MAX` under way; the others wait here, first come, first served. A lone index has no limit:
it could only wait for itself.

"Has searches" means under way now, or within the last `RECENT_SECONDS`: a client that waits for
each response before it sends the next request would otherwise find all slots taken every time.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from common.deadline import Deadline
from common.errors import DeadlineExceeded

RUNNING_MAX: Final = max(1, (os.cpu_count() or 1) // 2)
"""Half the number of cores: each search keeps several processes busy, and others get a share."""
RECENT_SECONDS: Final = 0.25

T = TypeVar("T")


class FairShare:
    """The searches under way, by index; used on the event loop only.

    Args:
        running_max: searches of one index under way, where there are others.
    """

    __slots__ = ("_latest", "_recent", "_running", "_running_max", "_waiting")

    def __init__(self, running_max: int = RUNNING_MAX) -> None:
        self._running_max = running_max
        self._running: dict[int, int] = {}
        self._waiting: dict[int, deque[asyncio.Future[None]]] = {}
        self._recent: dict[int, float] = {}
        """When the last two indexes began a search, the latest one last."""
        self._latest = -1

    @property
    def num_waiting(self) -> int:
        """Searches that wait."""
        return sum(map(len, self._waiting.values()))

    async def run(self, index: int, deadline: Deadline, search: Callable[[], Awaitable[T]]) -> T:
        """Run a search once its index may have one more under way.

        Args:
            index: its number.
            deadline: until when to wait.
            search: begins it.

        Raises:
            DeadlineExceeded: it did not begin in time.
        """
        if index != self._latest:
            self._note_change(index)
        self._recent[index] = time.monotonic()
        num_running = self._running.get(index, 0)
        if num_running and (index in self._waiting or self._has_its_share(index)):
            await self._wait(index, deadline)
        else:
            self._running[index] = num_running + 1
        try:
            return await search()
        finally:
            self._end(index)

    def _note_change(self, index: int) -> None:
        """Note that another index begins a search than the one before."""
        self._latest = index
        recent = self._recent
        if recent.pop(index, None) is None and len(recent) > 1:
            del recent[next(iter(recent))]

    def _has_its_share(self, index: int) -> bool:
        running = self._running
        if running.get(index, 0) < self._running_max:
            return False
        if len(running) > 1:
            return True
        others = [began for other, began in self._recent.items() if other != index]
        return bool(others) and time.monotonic() - others[0] < RECENT_SECONDS

    async def _wait(self, index: int, deadline: Deadline) -> None:
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(index, deque()).append(place)
        try:
            async with asyncio.timeout(deadline.remaining_seconds):
                await place
        except BaseException as error:
            if place.done() and not place.cancelled():
                self._end(index)  # it already had its slot
            else:
                self._give_up(index, place)
            if isinstance(error, TimeoutError):
                raise DeadlineExceeded(
                    "other searches of the index took all the time that this one had"
                ) from error
            raise

    def _give_up(self, index: int, place: asyncio.Future[None]) -> None:
        waiting = self._waiting.get(index)
        if waiting is not None and place in waiting:
            waiting.remove(place)
            if not waiting:
                del self._waiting[index]

    def _end(self, index: int) -> None:
        """Note that a search has ended; start those that now may run."""
        running = self._running
        if running[index] == 1:
            del running[index]
        else:
            running[index] -= 1
        if index in self._waiting:
            self._begin_waiting(index)

    def _begin_waiting(self, index: int) -> None:
        """Start the searches of an index that now may run."""
        running, waiting = self._running, self._waiting[index]
        while waiting and not self._has_its_share(index):
            place = waiting.popleft()
            if not place.done():  # otherwise it was cancelled in this tick
                running[index] = running.get(index, 0) + 1
                place.set_result(None)
        if not waiting:
            del self._waiting[index]
