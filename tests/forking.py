"""Services and commands that are forked instead of started, while tests run in parallel.

    test process ──▶ a process that has imported everything ── fork ──▶ facetd serve
                     (`tests.forked_command`)                              └─ fork ──▶ fork server

A service imports for more than a second of processor time, other commands for a third of one, and
the tests start hundreds of each; one that is forked takes a fifth of that. It runs the same program
with the same arguments, environment and streams. What it does not show is that a program finds its
modules by itself, how long that takes, and what they add to its memory. So a test that runs by
itself (those that measure do) starts everything as users do, and so do the tests of the supervisor,
of standard streams and of the package.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Final

from common.process.fork_server import ProcessRequest, Program

STREAMS: Final = (0, 1, 2)
DESCRIPTION: Final = 3
"""Descriptor of a file with the program, the environment and the folder of a command."""
COMMAND: Final = Program("coordinator", "tests.forked_command:main")
START_SECONDS: Final = 90
READ_AT_IMPORT: Final = ("FACETD_KERNELS",)
"""Variables of ours that modules read when they are imported, except FACETD_FAULTS: a command that
is forked reads that again."""
IS_PARALLEL = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")) > 1


class ForkedCommand:
    """A process that has been forked: what tests use of `subprocess.Popen`."""

    def __init__(self, maker: _Maker) -> None:
        self._maker = maker
        self.pid = 0
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Return the exit status, None while it runs."""
        while self.returncode is None and self._maker.hear(0):
            pass
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end.

        Raises:
            subprocess.TimeoutExpired: it runs on.
        """
        give_up_at = time.monotonic() + (float("inf") if timeout is None else timeout)
        while self.returncode is None:
            if time.monotonic() > give_up_at:
                raise subprocess.TimeoutExpired("facetd", timeout or 0)
            self._maker.hear(0.02)
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if self.poll() is None:
            with suppress(ProcessLookupError):  # we have not heard of its end yet
                os.kill(self.pid, number)

    def terminate(self) -> None:
        """Ask it to end."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Kill it."""
        self.send_signal(signal.SIGKILL)


class _Maker:
    """Our end of a process with everything imported."""

    def __init__(self) -> None:
        self.environment = dict(os.environ)
        """At its start."""
        self._lock = threading.Lock()
        self._commands: list[ForkedCommand] = []
        self._connection, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            number = theirs.fileno()
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.forked_command", str(number), "-" * 400],
                cwd=Path(__file__).resolve().parent.parent,
                stdin=subprocess.DEVNULL,
                pass_fds=(number,),
            )
        self._poll = select.poll()
        self._poll.register(self._connection, select.POLLIN)

    def has_ended(self) -> bool:
        """Return whether another one is needed."""
        return self._process.poll() is not None

    def make(
        self,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        folder: Path,
        streams: tuple[int, int, int],
        module: str,
    ) -> ForkedCommand:
        """Fork a command.

        Args:
            arguments: of the program.
            environment: all of it.
            folder: the working directory.
            streams: descriptors of its standard streams.
            module: the program, as `python -m` would run it.
        """
        description = {
            "module": module,
            "environment": dict(environment),
            "folder": str(folder),
        }
        with tempfile.TemporaryFile() as file, self._lock:
            file.write(json.dumps(description).encode())
            file.seek(0)
            command = ForkedCommand(self)
            request = ProcessRequest(
                len(self._commands), COMMAND, list(arguments), (*STREAMS, DESCRIPTION)
            )
            self._commands.append(command)
            socket.send_fds(
                self._connection, [json.dumps(request).encode()], [*streams, file.fileno()]
            )
        give_up_at = time.monotonic() + START_SECONDS
        while command.pid == 0:
            assert not self.has_ended(), "the process with everything imported has ended"
            assert time.monotonic() < give_up_at
            self.hear(0.02)
        return command

    def hear(self, seconds: float) -> bool:
        """Take one of its messages, if there is one within some seconds; return whether."""
        with self._lock:
            if not self._poll.poll(seconds * 1000):
                return False
            packet = self._connection.recv(4096)
            if not packet:
                for command in self._commands:
                    if command.returncode is None:
                        command.returncode = -signal.SIGKILL
                return False
            message = json.loads(packet)
            if "ordinal" in message:
                self._commands[message["ordinal"]].pid = message["pid"]
                return True
            for command in self._commands:
                if command.pid == message["pid"] and command.returncode is None:
                    command.returncode = message["status"]
            return True


_makers: list[_Maker] = []


def can_fork(environment: Mapping[str, str]) -> bool:
    """Return whether a command with this environment can be forked.

    Not if a variable differs that a process or a module reads when it starts.
    """
    if not IS_PARALLEL:
        return False
    known = _maker().environment
    return all(
        environment.get(name) == known.get(name)
        or name == "PYTEST_CURRENT_TEST"
        or (name.startswith("FACETD_") and name not in READ_AT_IMPORT)
        for name in environment.keys() | known.keys()
    )


def fork(
    arguments: Sequence[str],
    environment: Mapping[str, str],
    folder: Path,
    streams: tuple[int, int, int],
    module: str = "coordinator",
) -> ForkedCommand:
    """Fork a `facetd` command, or what another module runs."""
    return _maker().make(arguments, environment, folder, streams, module)


def run(
    arguments: Sequence[str],
    environment: Mapping[str, str],
    folder: Path,
    *,
    text: bytes,
    timeout: float,
    module: str = "coordinator",
) -> subprocess.CompletedProcess[bytes]:
    """Fork a command and let it run to its end, as `subprocess.run` would.

    Raises:
        subprocess.TimeoutExpired: it ran on, and was killed.
    """
    (their_input, our_input), (our_output, their_output), (our_errors, their_errors) = (
        os.pipe() for _ in STREAMS
    )
    theirs = their_input, their_output, their_errors
    try:
        command = fork(arguments, environment, folder, theirs, module)
    finally:
        for descriptor in theirs:
            os.close(descriptor)
    with ThreadPoolExecutor(len(STREAMS)) as threads:
        threads.submit(_write_all, our_input, text)
        output, errors = (threads.submit(_read_all, one) for one in (our_output, our_errors))
        try:
            status = command.wait(timeout)
        finally:
            command.kill()
    return subprocess.CompletedProcess([*arguments], status, output.result(), errors.result())


def _write_all(descriptor: int, content: bytes) -> None:
    with suppress(BrokenPipeError), open(descriptor, "wb") as stream:
        stream.write(content)


def _read_all(descriptor: int) -> bytes:
    with open(descriptor, "rb") as stream:
        return stream.read()


def _maker() -> _Maker:
    if not _makers or _makers[-1].has_ended():
        _makers.append(_Maker())
    return _makers[-1]
