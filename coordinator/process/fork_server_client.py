"""Processes created by the fork server, so that they start at once.

The fork server itself is `common.process.fork_server`.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
from collections.abc import Callable, Sequence
from typing import Final

from common.process.fork_server import ProcessRequest, Program
from common.process.logs import Log
from common.process.python_command import python_command

SHARD: Final = Program("shard", "shard.process.shard_command:main")
COORDINATOR: Final = Program(
    "coordinator",
    "coordinator.cli.commands:main",
    imports=(
        "coordinator.process.aiohttp_without_system_files",
        "coordinator.process.coordinator_process",
        "coordinator.cli.commands.process_commands",
    ),
)

_log = Log("supervisor")


class ForkedProcess:
    """A process that the fork server has created or is about to create."""

    def __init__(self) -> None:
        self.pid = 0  # not made yet
        self.status: int | None = None
        self._due: list[int] = []

    def poll(self) -> int | None:
        """Return the exit status, None while it runs."""
        return self.status

    def send_signal(self, number: int, /) -> None:
        """Send a signal, unless it has ended; as soon as it is created if it is not yet."""
        if self.pid == 0:
            self._due.append(number)
        elif self.status is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def note_pid(self, pid: int) -> None:
        """Note its pid, and send it the signals that waited for that."""
        self.pid = pid
        for number in self._due:
            self.send_signal(number)


def start_fork_server(connection: socket.socket) -> subprocess.Popen[bytes]:
    """Start the process at the other end of a connection.

    Raises:
        OSError: the system refuses.
    """
    number = connection.fileno()
    filler = "-" * 400  # room for the arguments of the processes that it becomes
    return subprocess.Popen(
        python_command("common.process.fork_server", str(number), filler),
        stdin=subprocess.DEVNULL,
        pass_fds=(number,),
        process_group=0,
    )


class ForkServer:
    """Our end of `common.process.fork_server`, which creates processes that start at once.

    Args:
        wake: called when a message has arrived.
    """

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._connection: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._made: list[ForkedProcess] = []

    def make(
        self, program: Program, arguments: list[str], descriptors: Sequence[int]
    ) -> ForkedProcess:
        """Request a new process; start a fork server if there is none.

        If that is impossible for now, the process has ended already, as if killed: its next start
        tries again.

        Args:
            program: what it runs.
            arguments: of the program.
            descriptors: that it inherits, under their numbers.
        """
        process = ForkedProcess()
        try:
            self.poll()
            if self._process is None:
                self._start()
            self._made.append(process)
            request = ProcessRequest(len(self._made) - 1, program, arguments, descriptors)
            assert self._connection is not None
            request.send(self._connection)
        except OSError as error:  # it has just died, or the system has no memory or processes left
            _log.warning("no process can be started", what=program.package, reason=str(error))
            process.status = -int(signal.SIGKILL)
            self._wake()
        return process

    def poll(self) -> None:
        """Notice that the fork server has ended: all its processes ended with it."""
        if self._process is not None and self._process.poll() is not None:
            status = self._process.poll() or -int(signal.SIGKILL)
            _log.warning("ended", what="fork server", status=status)
            self.close()
            for process in self._made:
                if process.status is None:
                    process.status = status

    def close(self) -> None:
        """Drop the connection to the fork server."""
        if self._connection is not None:
            asyncio.get_running_loop().remove_reader(self._connection)
            self._connection.close()
            self._connection = None
        self._process = None

    def kill(self) -> None:
        """Kill the fork server with all its processes, including those not created yet."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def _start(self) -> None:
        """Start the fork server; requests sent before it is up wait in the connection.

        Raises:
            OSError: the system refuses.
        """
        connection, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        connection.setblocking(False)
        with theirs:
            try:
                self._process = start_fork_server(theirs)
            except BaseException:
                connection.close()
                raise
        self._connection = connection
        self._made = []
        asyncio.get_running_loop().add_reader(self._connection, self._read)

    def _read(self) -> None:
        """Handle the fork server's messages."""
        assert self._connection is not None
        while True:
            try:
                packet = self._connection.recv(4096)
            except BlockingIOError:
                break
            except OSError:
                packet = b""
            if not packet:  # end of stream; `poll` will find the fork server dead
                asyncio.get_running_loop().remove_reader(self._connection)
                break
            message = json.loads(packet)
            if "ordinal" in message:
                made = self._made[message["ordinal"]]
                if "pid" in message:
                    made.note_pid(message["pid"])
                else:
                    made.status = message["status"]
                continue
            for process in self._made:
                if process.pid == message["pid"] and process.status is None:
                    process.status = message["status"]
        self._wake()
