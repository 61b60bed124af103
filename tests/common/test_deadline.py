"""The time that a deadline leaves."""

from __future__ import annotations

import pytest

from common.deadline import Deadline
from common.errors import DeadlineExceeded


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr("common.deadline.time.monotonic", lambda: now[0])
    return now


def test_what_is_left_shrinks_to_zero_and_not_below(clock: list[float]) -> None:
    deadline = Deadline.after_ms(1_500)
    assert (deadline.remaining_ms, deadline.remaining_seconds) == (1_500, 1.5)
    clock[0] += 1.4999
    assert deadline.remaining_ms == 1
    assert not deadline.has_passed
    deadline.check()
    clock[0] += 5
    assert (deadline.remaining_ms, deadline.remaining_seconds) == (0, 0.0)
    assert deadline.has_passed
    with pytest.raises(DeadlineExceeded):
        deadline.check()
