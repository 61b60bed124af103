"""A log collector that hangs does not stop the service."""

from __future__ import annotations

import fcntl
import os
import signal
from pathlib import Path

import pytest

from tests.service import Service

LEAST_PIPE_BYTES = 4096


class _UnreadService(Service):
    """Writes its log into a pipe."""

    def log(self) -> str:
        return "without a reader"


def _fill(writing: int) -> None:
    """Leave no room in a pipe."""
    try:
        while True:
            os.write(writing, b"x")
    except BlockingIOError:
        return


@pytest.mark.timeout(180)
def test_a_pipe_without_a_reader_stops_no_process(tmp_path: Path) -> None:
    service = _UnreadService(tmp_path / "data", 2)
    os.mkfifo(service.log_path)
    reading = os.open(service.log_path, os.O_RDONLY | os.O_NONBLOCK)
    writing = os.open(service.log_path, os.O_WRONLY | os.O_NONBLOCK)
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, LEAST_PIPE_BYTES)
    _fill(writing)
    with service:  # it starts
        client = service.client()
        client.make_films()
        (victim, *_) = service.pids_of("--shard-id")
        os.kill(victim, signal.SIGKILL)  # which the supervisor logs
        service.wait_ready(20)
        (coordinator,) = service.pids_of("coordinator")
        os.kill(coordinator, signal.SIGKILL)
        service.wait_ready(20)
        client.close()
        assert client.search("films", query="", per_page=0)["pagination"]["total"] == 314
        client.close()
        assert service.terminate() == 0
    os.close(writing)
    os.close(reading)
