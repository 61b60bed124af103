"""Processes that the fork server creates, as the supervisor sees them."""

from __future__ import annotations

import signal
import subprocess

from coordinator.process.forked_processes import ForkedProcess


def test_a_signal_sent_before_the_process_exists_arrives() -> None:
    """A service that is stopped while it starts must not wait for a coordinator that never ends."""
    process = ForkedProcess()
    process.send_signal(signal.SIGTERM)
    with subprocess.Popen(["sleep", "60"]) as real:
        process.is_created(real.pid)
        assert real.wait(10) == -signal.SIGTERM
