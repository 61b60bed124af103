"""Background threads give way to those that answer."""

from __future__ import annotations

import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from common.priority import BACKGROUND_NICENESS, run_in_background


def _niceness() -> int:
    return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere threads share one nice value")
def test_only_the_thread_that_asks_is_lowered() -> None:
    before = _niceness()

    with ThreadPoolExecutor(1, initializer=run_in_background) as background:
        lowered = background.submit(_niceness).result()
    with ThreadPoolExecutor(1) as other:
        untouched = other.submit(_niceness).result()

    assert lowered == BACKGROUND_NICENESS
    assert untouched == before
    assert _niceness() == before
