"""Tracks which index keeps the event loop busy while other indexes are read too.

    index 3   ■■■■■■ ■■■■■ ■■■■■■ …     uses most of the time: its reads go to threads
    index 8   ▪         ▪               finds the event loop idle, and is answered at once

A read of a millisecond is fast for its own caller, who would pay for a hand-over to a thread. It is
slow for the callers of other indexes if many such reads come in a row. The threads have a lower
priority than the event loop, so a read of another index preempts them. An index that is read alone
stays on the event loop, and so do indexes that keep it equally busy.
"""

from __future__ import annotations

import time
from typing import Final

PERIOD_SECONDS: Final = 0.25
"""Time is counted in periods. The current one and the one before it decide."""
SHARE_MAX: Final = 0.2
"""Time that the reads of an index may take in a period while others are read."""
TIMES_OTHERS: Final = 2
"""An index moves off the loop if it takes this multiple of all others together."""


class LoopShare:
    """The time that reads take, by index; used on the event loop only."""

    __slots__ = ("_alone", "_began", "_last", "_now")

    def __init__(self) -> None:
        self._began = 0.0
        self._alone: int | None = None
        """The index of both periods, if it is the only one."""
        self._now: dict[int, float] = {}
        """Seconds used in the current period, by index that was read."""
        self._last: dict[int, float] = {}
        """The same for the previous period."""

    def begin(self, index: int) -> float:
        """Note that an index is read; return the time, in seconds, for `end`."""
        now = time.perf_counter()
        if now - self._began >= PERIOD_SECONDS:
            is_next = now - self._began < 2 * PERIOD_SECONDS
            self._last, self._now = self._now if is_next else {}, {}
            self._began = now
        if index not in self._now:
            self._add(index)
        return now

    def _add(self, index: int) -> None:
        """Note that an index is read, or still is, in the current period."""
        self._now[index] = 0.0
        is_alone = len(self._now) == 1 and (not self._last or self._last.keys() == {index})
        self._alone = index if is_alone else None

    def end(self, index: int, began: float) -> None:
        """Count the time since `began` as taken by a read of an index, wherever it ran.

        Reads on a thread count too, else an index would return to the event loop every two periods.
        """
        if index not in self._now:
            self._add(index)
        self._now[index] += time.perf_counter() - began

    def is_alone(self, index: int) -> bool:
        """Return whether only this index, which is being read, has been read recently."""
        return index == self._alone

    def is_exceeded(self, index: int) -> bool:
        """Return whether an index uses more than its share while others are read."""
        used = self._used(index)
        if used <= SHARE_MAX * PERIOD_SECONDS:
            return False
        others = (self._now.keys() | self._last.keys()) - {index}
        return bool(others) and used > TIMES_OTHERS * sum(map(self._used, others))

    def _used(self, index: int) -> float:
        return max(self._now.get(index, 0.0), self._last.get(index, 0.0))
