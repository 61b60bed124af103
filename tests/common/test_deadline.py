"""The time that a deadline leaves."""

from __future__ import annotations

from contextvars import copy_context

import pytest

from common.deadline import CALL_DEADLINE, Deadline, check_call
from common.errors import DeadlineExceeded
from common.process.request_id_context import carried
from common.process.thread_pool import ThreadPool


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


def test_a_call_that_is_given_up_ends_at_its_next_check_on_whichever_thread() -> None:
    deadline = Deadline.after_ms(60_000)
    call = copy_context()
    call.run(CALL_DEADLINE.set, deadline)
    work = call.run(carried, check_call)
    work()

    deadline.end_now()

    assert (deadline.has_passed, deadline.remaining_ms) == (True, 0)
    with ThreadPool(1) as threads, pytest.raises(DeadlineExceeded):
        threads.submit(work).result()
