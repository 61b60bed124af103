"""A command in a process that is forked from one that has imported everything.

    python -m tests.forked_command DESCRIPTOR FILLER

is a fork server (`common.process.fork_server`) for `tests.forking`. What it forks runs `main` here:
the program `facetd`, with the arguments, environment, folder and streams of a command that is
typed. The fork server of a service is forked, too, and so are the programs of the shard package
that offline commands start.
"""

from __future__ import annotations

import gc
import json
import os
import runpy
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from typing import Any, Final, NoReturn
from unittest import mock

from common.process import fault_injection, fork_server
from common.process.parent_death import ask_for_parent_death_signal
from common.process.python_command import python_command
from coordinator.cli.commands import SECTIONS
from coordinator.process import fork_server_client, offline_commands, supervisor
from coordinator.process.fork_server_client import COORDINATOR, SHARD
from tests.forking import DESCRIPTION, STREAMS

ENVIRONMENT_BYTES_MAX: Final = 1 << 20
SUPERVISORS: Final = ("serve", "demo")
SHARD_PROGRAMS: Final = ("shard.maintenance.check_and_rebuild", "shard.maintenance.reshard")
"""Programs that offline commands run."""


def main(arguments: list[str]) -> None:
    """Run a command to its end, in the process that was forked for it."""
    with open(DESCRIPTION, "rb") as file:
        description = json.load(file)
    os.chdir(description["folder"])
    _set_environment(description["environment"])
    _arm_faults()
    _open_streams()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    start = _ForkThenStart() if arguments[0] in SUPERVISORS else None
    with (
        mock.patch.object(
            fork_server_client, "start_fork_server", start or fork_server_client.start_fork_server
        ),
        mock.patch.object(offline_commands.OwnedData, "run", run_shard_program),
    ):
        runpy.run_module(description["module"], run_name="__main__")


def _arm_faults() -> None:
    """Arm what a program that is started arms when it imports the module."""
    fault_injection.arm(os.environ.get(fault_injection.VARIABLE, ""))


def _open_streams() -> None:
    """Open the standard streams that this process has been given.

    Those of the process that was forked remember what they were: whether they can be rewound, say.
    """
    for descriptor in STREAMS:
        os.set_inheritable(descriptor, True)
    for descriptor, name in enumerate(("stdin", "stdout", "stderr")):
        former = getattr(sys, name)
        stream = open(  # noqa: SIM115 (it ends with the process)
            descriptor,
            former.mode,
            buffering=1 if former.line_buffering else -1,
            encoding=former.encoding,
            errors=former.errors,
            closefd=False,
        )
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def run_shard_program(
    ours: offline_commands.OwnedData, module: str, *arguments: str, locks: tuple[int, ...] = ()
) -> int:
    """Fork what an offline command would start; what it inherits is more than its locks."""

    def run() -> None:
        _arm_faults()  # as if nothing had passed them yet
        import_module(module).main(list(arguments))

    return run_forked(run)


def run_forked(run: Callable[[], object]) -> int:
    """Run a program in a fork of this process; return its exit status."""
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            run()
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else int(end.code is not None)
        except BaseException:
            sys.excepthook(*sys.exc_info())
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


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
    for module in SHARD_PROGRAMS:
        import_module(module)
    with suppress(ImportError):  # commands import it when they need it
        import_module("psycopg")


if __name__ == "__main__":
    _import_everything()
    sys.exit(fork_server.serve(socket.socket(fileno=int(sys.argv[1]))))
