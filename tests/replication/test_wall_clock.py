"""The clock that the chaos test steps is the wall clock alone."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.faults.failing_disk import COMPILER
from tests.replication.wall_clock import WallClock

PROGRAM = """
import threading, time
for _ in range(2):
    input()
    lock = threading.Lock()
    lock.acquire()
    begun_at = time.monotonic()
    time.sleep(0.01)
    assert not lock.acquire(timeout=0.01)
    assert 0.02 <= time.monotonic() - begun_at < 30
    print(time.time(), time.monotonic(), flush=True)
"""


@pytest.mark.skipif(COMPILER is None, reason="needs a C compiler for the library that is the clock")
def test_a_step_concerns_the_wall_clock_alone(tmp_path: Path) -> None:
    clock = WallClock(tmp_path / "clock")
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | clock.environment,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for step in (86_400, -3_600):
            clock.set(step)
            process.stdin.write("\n")
            process.stdin.flush()
            wall, monotonic = process.stdout.readline().split()
            assert abs(float(wall) - time.time() - step) < 30
            assert abs(float(monotonic) - time.monotonic()) < 30
    assert process.returncode == 0
