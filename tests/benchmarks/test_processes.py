"""How benchmarks start, stop and measure processes."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from benchmarks import processes


def test_rest_begins_when_the_work_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "REST_SECONDS", 1.0)
    busy = "import time\nend = time.process_time() + 1\nwhile time.process_time() < end: pass\n"
    with subprocess.Popen([sys.executable, "-c", busy + "time.sleep(60)"]) as worker:
        started = time.monotonic()
        processes.wait_for_rest([worker.pid])
        used = sum(processes.processor_seconds([worker.pid]).values())
        worker.kill()

    assert used >= 1.0
    assert time.monotonic() - started >= 2.0


def test_what_never_rests_is_not_waited_for_forever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "REST_SECONDS_MAX", 1.0)
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as worker:
        started = time.monotonic()
        processes.wait_for_rest([worker.pid])
        worker.kill()

    assert 1.0 <= time.monotonic() - started < 20.0
