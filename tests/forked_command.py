"""`facetd` in a process that is forked from one that has imported everything.

    python -m tests.forked_command DESCRIPTOR FILLER

is a fork server (`common.process.fork_server`) for `tests.forking`. What it forks runs `main` here:
the function that `facetd` runs, with the arguments, environment, folder and streams of a command
that is typed. The fork server of a service is forked, too.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import socket
import sys
from importlib import import_module
from typing import Any, Final, NoReturn
from unittest import mock

from common.process import fork_server
from common.process.parent_death import ask_for_parent_death_signal
from common.process.python_command import python_command
from coordinator.cli.commands import SECTIONS
from coordinator.cli.commands import main as facetd
from coordinator.process import fork_server_client, supervisor
from coordinator.process.fork_server_client import COORDINATOR, SHARD
from tests.forking import DESCRIPTION, STREAMS

ENVIRONMENT_BYTES_MAX: Final = 1 << 20


def main(arguments: list[str]) -> None:
    """Run a command to its end, in the process that was forked for it."""
    with open(DESCRIPTION, "rb") as file:
        description = json.load(file)
    os.chdir(description["folder"])
    _set_environment(description["environment"])
    for descriptor in STREAMS:
        os.set_inheritable(descriptor, True)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    start = _ForkThenStart() if arguments[0] == "serve" else None
    with mock.patch.object(
        fork_server_client, "start_fork_server", start or fork_server_client.start_fork_server
    ):
        facetd(arguments, prog_name="facetd")


class _ForkThenStart:
    """In place of `start_fork_server`: the first one is forked, later ones start as users' do.

    It is forked at once, while this process has one thread and no event loop, and waits until the
    supervisor hands it a connection and its environment.
    """

    def __init__(self) -> None:
        self._start = fork_server_client.start_fork_server
        self._connection, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._pid = os.fork()
        if self._pid == 0:
            self._connection.close()
            _be_fork_server(theirs)
        theirs.close()

    def __call__(self, connection: socket.socket) -> Any:
        if self._connection.fileno() < 0:
            return self._start(connection)
        with self._connection:
            environment = json.dumps(dict(os.environ)).encode()
            socket.send_fds(self._connection, [environment], [connection.fileno()])
        return _ForkedChild(self._pid)


class _ForkedChild:
    """A child of this process: what a supervisor uses of `subprocess.Popen`."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._status: int | None = None

    def poll(self, options: int = os.WNOHANG) -> int | None:
        if self._status is None:
            pid, status = os.waitpid(self._pid, options)
            if pid:
                self._status = os.waitstatus_to_exitcode(status)
        return self._status

    def wait(self) -> int | None:
        return self.poll(options=0)

    def kill(self) -> None:
        if self.poll() is None:
            os.kill(self._pid, signal.SIGKILL)


def _be_fork_server(connection: socket.socket) -> NoReturn:
    """Be the fork server of a service when its supervisor wants one."""
    status = 1
    try:
        ask_for_parent_death_signal()
        os.setpgid(0, 0)
        environment, received, _, _ = socket.recv_fds(connection, ENVIRONMENT_BYTES_MAX, 1)
        connection.close()
        if received:
            _set_environment(json.loads(environment))
            (number,) = received
            fork_server.write_arguments(python_command("common.process.fork_server", str(number)))
            status = fork_server.serve(socket.socket(fileno=number))
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(status)


def _set_environment(environment: dict[str, str]) -> None:
    os.environ.clear()
    os.environ.update(environment)


def _import_everything() -> None:
    """Import what any command will use."""
    gc.disable()  # collections during imports find nothing
    os.environ.update(supervisor.LEAN)
    SHARD.load()
    COORDINATOR.load()
    for entries in SECTIONS.values():
        for entry in entries:
            import_module(f"coordinator.cli.commands.{entry.module}")


if __name__ == "__main__":
    _import_everything()
    sys.exit(fork_server.serve(socket.socket(fileno=int(sys.argv[1]))))
