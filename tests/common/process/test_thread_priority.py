"""Background threads yield to those that answer requests."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from common.process import thread_priority
from common.process.thread_priority import (
    BACKGROUND_NICENESS,
    REPLICA_BACKGROUND_NICENESS,
    REPLICA_WRITER_NICENESS,
    WRITER_NICENESS,
    run_after_searches,
    run_in_background,
)


def _niceness() -> int:
    return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())


def _lowered_to(niceness: int) -> int:
    """Return what a thread gets that wants this: these tests may run at a low priority."""
    return max(niceness, _niceness())


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere threads share one nice value")
@pytest.mark.parametrize(
    ("lower", "niceness"),
    [(run_in_background, BACKGROUND_NICENESS), (run_after_searches, WRITER_NICENESS)],
)
def test_only_the_thread_that_asks_is_lowered(lower: Callable[[], None], niceness: int) -> None:
    before = _niceness()

    with ThreadPoolExecutor(1, initializer=lower) as background:
        lowered = background.submit(_niceness).result()
    with ThreadPoolExecutor(1) as other:
        untouched = other.submit(_niceness).result()

    assert lowered == _lowered_to(niceness)
    assert untouched == before
    assert _niceness() == before


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere threads share one nice value")
def test_of_several_hosts_threads_are_lowered_by_less(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thread_priority, "_is_replica", False)
    thread_priority.keep_up()
    with ThreadPoolExecutor(1, initializer=run_in_background) as background:
        assert background.submit(_niceness).result() == _lowered_to(REPLICA_BACKGROUND_NICENESS)
    with ThreadPoolExecutor(1, initializer=run_after_searches) as writer:
        assert writer.submit(_niceness).result() == _lowered_to(REPLICA_WRITER_NICENESS)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere threads share one nice value")
def test_a_service_of_low_priority_stays_there() -> None:
    def lowered() -> int:
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _lowered_to(15))
        run_after_searches()  # to raise it would need a privilege
        return _niceness()

    with ThreadPoolExecutor(1) as thread:
        assert thread.submit(lowered).result() == _lowered_to(15)
