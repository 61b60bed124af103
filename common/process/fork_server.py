"""The fork server: imports each program once, then makes processes of it in a few milliseconds.

    supervisor ──[ordinal, program, …]──▶ fork server ── fork ──▶ shard 0, shard 1, coordinator
               ◀──{"ordinal", "pid"}─────  or "status", if it could not be forked
               ◀──{"pid", "status"}──────  when one has ended

Importing everything takes half a second of CPU; a killed process should serve again within two
seconds, even while all processors are busy. And imported modules and tables are shared: they are in
memory once, however many processes there are.

A fork is safe here because this process has one thread, no event loop and no LMDB environment: it
only waits. All processes are its children, so its death signals them
(`common.process.parent_death`), and the supervisor's death signals it.

Each process writes its own arguments over ours, so that `ps` tells them apart.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import gc
import importlib
import json
import logging
import os
import select
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, NoReturn

from common.process.parent_death import ask_for_parent_death_signal
from common.process.python_command import python_command

MESSAGE_BYTES_MAX: Final = 16 * 1024
DESCRIPTORS_MAX: Final = 64
_FOR_PROCESSES: Final = (signal.SIGTERM, signal.SIGINT)
"""Blocked here. One that arrives before a new process is ready for it waits, and is not lost."""


class Program(NamedTuple):
    """A program that is imported once.

    Attributes:
        package: `python -m` runs it by this name.
        main: module and name of the function that runs it with a list of arguments.
        imports: further modules that it will use.
    """

    package: str
    main: str
    imports: tuple[str, ...] = ()

    def load(self) -> Callable[[list[str]], Any]:
        """Import everything; return the function."""
        for name in self.imports:
            importlib.import_module(name)
        module, _, name = self.main.partition(":")
        main: Callable[[list[str]], Any] = getattr(importlib.import_module(module), name)
        return main


class ProcessRequest(NamedTuple):
    """A process that the supervisor wants.

    Attributes:
        ordinal: of this request.
        program: what it runs.
        arguments: of the program.
        descriptors: those sent with it, by the numbers that the arguments give them.
    """

    ordinal: int
    program: Program
    arguments: list[str]
    descriptors: Sequence[int] = ()

    def send(self, connection: socket.socket) -> None:
        """Send it to the fork server.

        Raises:
            OSError: the fork server has ended.
        """
        socket.send_fds(connection, [json.dumps(self).encode()], self.descriptors)

    @classmethod
    def receive(cls, connection: socket.socket) -> tuple[ProcessRequest, list[int]] | None:
        """Receive one, and the descriptors under their numbers here; None at the end."""
        packet, received, _, _ = socket.recv_fds(connection, MESSAGE_BYTES_MAX, DESCRIPTORS_MAX)
        if not packet:
            return None
        ordinal, program, arguments, descriptors = json.loads(packet)
        return cls(ordinal, Program(*program), arguments, descriptors), received


def serve(connection: socket.socket) -> int:
    """Fork a process for each request until the supervisor closes the connection."""
    gc.disable()  # collections during imports find nothing
    wake, wake_end = os.pipe()
    os.set_blocking(wake, False)
    os.set_blocking(wake_end, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)  # so that it wakes `select`
    signal.set_wakeup_fd(wake_end, warn_on_full_buffer=False)
    signal.pthread_sigmask(signal.SIG_BLOCK, _FOR_PROCESSES)
    poll = select.poll()
    poll.register(connection, select.POLLIN)
    poll.register(wake, select.POLLIN)
    while True:
        for descriptor, _ in poll.poll():
            if descriptor == wake:
                with contextlib.suppress(BlockingIOError):
                    os.read(wake, 4096)
                _report_ended(connection)
                continue
            message = ProcessRequest.receive(connection)
            if message is None:
                return 0
            request, received = message
            main = request.program.load()
            # Shared pages stay shared: no collector writes into what exists now.
            gc.freeze()
            try:
                pid = os.fork()
            except OSError as error:  # no memory or too many processes, for now: the others go on
                print(f"facetd: no process can be forked: {error.strerror}", file=sys.stderr)
                _close(received)
                _send(connection, {"ordinal": request.ordinal, "status": 1})
                continue
            if pid == 0:
                _close((connection.detach(), wake, wake_end))
                _become(main, request, received)
            _close(received)
            _send(connection, {"ordinal": request.ordinal, "pid": pid})


def _report_ended(connection: socket.socket) -> None:
    """Report every child that has ended."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        _send(connection, {"pid": pid, "status": os.waitstatus_to_exitcode(status)})


def _send(connection: socket.socket, message: dict[str, Any]) -> None:
    """Send a message, unless the supervisor has ended."""
    with contextlib.suppress(OSError):
        connection.send(json.dumps(message).encode())


def _become(
    main: Callable[[list[str]], Any], request: ProcessRequest, received: Sequence[int]
) -> NoReturn:
    """Be the process, in the child of a fork; never returns into the server's loop."""
    status = 1
    try:
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGCHLD, *_FOR_PROCESSES):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _FOR_PROCESSES)
        os.setpgid(0, 0)
        ask_for_parent_death_signal()
        renumber(received, request.descriptors)
        package = request.program.package
        write_arguments(python_command(package, *request.arguments))
        sys.argv = [package, *request.arguments]
        gc.enable()
        main(request.arguments)
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        logging.shutdown()
        os._exit(status)


def renumber(descriptors: Sequence[int], numbers: Sequence[int]) -> None:
    """Give open descriptors other numbers; whatever has these now is closed."""
    above = max((*descriptors, *numbers), default=0) + 1
    copies = [fcntl.fcntl(one, fcntl.F_DUPFD_CLOEXEC, above) for one in descriptors]
    _close(descriptors)
    for copy, number in zip(copies, numbers, strict=True):
        os.dup2(copy, number, inheritable=False)
        os.close(copy)


def _close(descriptors: Sequence[int]) -> None:
    for one in descriptors:
        os.close(one)


def write_arguments(arguments: list[str]) -> None:
    """Show other arguments in /proc/self/cmdline: write them over the ones we were started with.

    They are in our own memory, between two addresses that the kernel reports; arguments that do
    not fit are cut. (The supervisor starts us with a long filler as last argument.)
    """
    try:
        fields = Path("/proc/self/stat").read_text().rpartition(") ")[2].split()
        start, end = int(fields[45]), int(fields[46])  # arg_start and arg_end: 48 and 49 in proc(5)
    except (OSError, IndexError, ValueError):
        return  # not Linux: all processes look alike
    text = b"".join(os.fsencode(argument) + b"\0" for argument in arguments)
    capacity = end - start
    if 0 < capacity < 1 << 20:
        ctypes.memmove(start, text[: capacity - 1].ljust(capacity, b"\0"), capacity)


if __name__ == "__main__":
    ask_for_parent_death_signal()
    sys.exit(serve(socket.socket(fileno=int(sys.argv[1]))))
