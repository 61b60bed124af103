"""The supervisor's end of the fork server."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import subprocess
import sys
from typing import Any

import pytest

from common.process.fork_server import Program
from coordinator.process import fork_server_client
from coordinator.process.fork_server_client import ForkServer
from tests.service import ROOT
from tests.waiting import until

SERVER_WITHOUT_MEMORY = """
import errno, os, socket, sys
from common.process.fork_server import serve

fork = os.fork
refusals = [OSError(errno.ENOMEM, "Cannot allocate memory")]

def fork_later():
    if refusals:
        raise refusals.pop()
    return fork()

os.fork = fork_later
sys.exit(serve(socket.socket(fileno=int(sys.argv[1]))))
"""


async def test_a_process_that_cannot_be_forked_has_failed_alone(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def command(module: str, *arguments: str) -> list[str]:
        return [sys.executable, "-c", SERVER_WITHOUT_MEMORY, *arguments]

    monkeypatch.setattr(fork_server_client, "python_command", command)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    has_changed = asyncio.Event()
    server = ForkServer(has_changed.set)
    program = Program("none", "builtins:print")
    try:
        refused = server.make(program, ["1"], ())
        await until(lambda: refused.poll() is not None)
        forked = server.make(program, ["2"], ())
        await until(lambda: forked.poll() is not None)
    finally:
        server.kill()
        server.close()
    assert (refused.pid, refused.poll()) == (0, 1)
    assert forked.pid > 0
    assert capfd.readouterr().out == "['2']\n"
    assert has_changed.is_set()


async def test_what_cannot_be_started_now_has_ended_and_a_later_start_tries_again(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """An error here would end the supervisor, or leave a process without its next start."""

    def refuse(*_: Any, **__: Any) -> None:
        raise OSError(errno.EAGAIN, "Resource temporarily unavailable")

    has_changed = asyncio.Event()
    server = ForkServer(has_changed.set)
    program = Program("none", "builtins:print")
    try:
        with monkeypatch.context() as patch:
            patch.setattr(subprocess, "Popen", refuse)
            refused = server.make(program, ["1"], ())
        assert refused.poll() == -signal.SIGKILL
        assert has_changed.is_set()
        forked = server.make(program, ["2"], ())
        await until(lambda: forked.poll() is not None)
    finally:
        server.kill()
        server.close()
    assert capfd.readouterr().out == "['2']\n"


async def test_processes_end_with_their_fork_server_also_if_another_is_needed_at_once(
    capfd: pytest.CaptureFixture[str],
) -> None:
    server = ForkServer(lambda: None)
    try:
        former = server.make(Program("none", "time:sleep"), [], ())
        former_server = server._process
        assert former_server is not None
        os.kill(former_server.pid, signal.SIGSTOP)  # so that it cannot say what became of it
        os.kill(former_server.pid, signal.SIGKILL)
        former_server.wait()
        forked = server.make(Program("none", "builtins:print"), ["2"], ())
        assert former.poll() == -signal.SIGKILL
        await until(lambda: forked.poll() is not None)
    finally:
        server.kill()
        server.close()
    assert capfd.readouterr().out == "['2']\n"
