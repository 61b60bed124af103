"""Deadlines: moments on the monotonic clock by which an answer must be there.

A request gets one deadline when it arrives; everything done for it is given what is left of it.
Wall clock time is never used: it jumps.
"""

from __future__ import annotations

import time

from msgspec import Struct

from common.errors import DeadlineExceeded


class Deadline(Struct, frozen=True, gc=False):
    """A moment by which an answer must be there.

    Attributes:
        at: seconds on `time.monotonic`.
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

    def check(self) -> None:
        """Raise `DeadlineExceeded` if it is too late."""
        if self.has_passed:
            raise DeadlineExceeded("the request's deadline passed before an answer was there")

    def within_ms(self, duration_ms: int) -> Deadline:
        """Return the earlier one of this deadline and `duration_ms` from now."""
        return Deadline(min(self.at, time.monotonic() + duration_ms / 1000))
