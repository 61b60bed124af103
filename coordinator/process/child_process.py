"""One process that is kept running.

It is restarted when it ends: at once, or after increasing pauses if it keeps ending soon after its
start.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from typing import Final, Protocol

from common.process.logs import Log

BACK_OFF_SECONDS: Final = (0.0, 0.0, 0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0)
STABLE_SECONDS: Final = 2.0
"""A process that has lived this long started well: whatever ended it, its start was not to
blame."""
START_SECONDS: Final = 10.0
"""A process that exits on its own before this, not by a signal, failed to start."""

_log = Log("supervisor")


class Process(Protocol):
    """A running process, however it was created."""

    pid: int

    def poll(self) -> int | None:
        """Return the exit status, None while it runs."""
        ...

    def send_signal(self, number: int, /) -> None:
        """Send a signal, if it is still running."""
        ...


class Child:
    """One process that is kept running.

    Args:
        name: for log lines, such as "shard 0".
        make: starts the process.

    Attributes:
        process: the running process, if any.
        num_failed_starts: consecutive failed starts.
    """

    def __init__(self, name: str, make: Callable[[], Process]) -> None:
        self.name = name
        self.process: Process | None = None
        self._make = make
        self._started_at = 0.0
        self._num_failures = 0
        self.num_failed_starts = 0

    def start(self) -> None:
        """Start the process."""
        self._started_at = asyncio.get_running_loop().time()
        self.process = self._make()
        _log.info("starting", what=self.name)

    @property
    def is_running(self) -> bool:
        """Whether the process has not ended."""
        return self.process is not None and self.process.poll() is None

    @property
    def is_made(self) -> bool:
        """Whether there is a process; the fork server may still be about to create it."""
        return self.is_running and self.process is not None and self.process.pid != 0

    def reap(self) -> int | None:
        """Return the status if the process has ended since the last call, else None."""
        if self.process is None:
            return None
        status = self.process.poll()
        if status is not None:
            by = {"signal": signal.Signals(-status).name} if status < 0 else {}
            _log.warning("ended", what=self.name, pid=self.process.pid, status=status, **by)
            self.process = None
            could_not_start = status > 0 and self._age() < START_SECONDS
            self.num_failed_starts = self.num_failed_starts + 1 if could_not_start else 0
        return status

    def back_off(self) -> float:
        """Return how long to wait before the next start."""
        self._num_failures = 0 if self._age() > STABLE_SECONDS else self._num_failures
        pause = BACK_OFF_SECONDS[min(self._num_failures, len(BACK_OFF_SECONDS) - 1)]
        self._num_failures += 1
        return pause

    def _age(self) -> float:
        """Return the seconds since the process was started."""
        return asyncio.get_running_loop().time() - self._started_at

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the process, if it is running."""
        if self.process is not None and self.is_running:
            self.process.send_signal(number)
