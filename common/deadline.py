"""Deadlines: moments on the monotonic clock by which a response is due.

A request gets one deadline when it arrives; everything done for it gets the time that is left. Wall
clock time is never used: it jumps.

In a shard the deadline of the present call is a context variable. Work that may take long calls
`check_call` between its steps, at any depth of the call; it is abandoned once no caller waits for
it. That is so when the deadline has passed, and from the moment when the caller gives up
(`Deadline.end_now`): the next check finds it out, on whichever thread.
"""

from __future__ import annotations

import time
from contextvars import ContextVar
from typing import Final

from msgspec import Struct

from common.errors import DeadlineExceeded


class Deadline(Struct, gc=False):
    """A moment by which a response is due.

    Attributes:
        at: seconds on `time.monotonic`; changes only by `end_now`.
    """

    at: float

    @classmethod
    def after_ms(cls, duration_ms: int) -> Deadline:
        """Return the deadline that is `duration_ms` from now."""
        return cls(time.monotonic() + duration_ms / 1000)

    @property
    def remaining_ms(self) -> int:
        """Milliseconds left; 0 when it has passed, and at least 1 before."""
        left = self.at - time.monotonic()
        return max(1, int(left * 1000)) if left > 0 else 0

    @property
    def remaining_seconds(self) -> float:
        """Seconds left, never negative."""
        return max(0.0, self.at - time.monotonic())

    @property
    def has_passed(self) -> bool:
        """Whether it is too late."""
        return time.monotonic() >= self.at

    def end_now(self) -> None:
        """Let it have passed: the caller waits no longer."""
        self.at = float("-inf")

    def check(self) -> None:
        """Raise `DeadlineExceeded` if it is too late."""
        if self.has_passed:
            raise DeadlineExceeded("the request's deadline passed before the response was ready")


NEVER: Final = Deadline(float("inf"))
"""The deadline of work that must be finished however long it takes."""

CALL_DEADLINE: Final[ContextVar[Deadline]] = ContextVar("call_deadline", default=NEVER)
"""By which the response to the present call is due; set where the call starts."""


def check_call() -> None:
    """Abandon the present call if its caller no longer waits; 0.1 µs otherwise.

    Raises:
        DeadlineExceeded: it is too late.
    """
    if time.monotonic() >= CALL_DEADLINE.get().at:
        CALL_DEADLINE.get().check()
