"""The fork server: imports everything once, then makes shard processes in a few milliseconds.

    supervisor ──{"ordinal", "arguments"}──▶ fork server ── fork ──▶ shard 0, shard 1, …
               ◀──{"ordinal", "pid"}──────
               ◀──{"pid", "status"}───────  when one has ended

Importing everything takes 0.3 s of CPU; a killed shard should serve again within two seconds, even
while all processors are busy. And imported modules and tables are shared: they are in memory once,
however many shards there are.

A fork is safe here because this process has one thread, no event loop and no LMDB environment: it
only waits. Shards are its children, so its death signals them (`common.process.parent_death`), and
the supervisor's death signals it.

Each shard writes its own arguments over ours, so that `ps` tells them apart.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import json
import os
import select
import signal
import socket
import sys
from pathlib import Path
from typing import Any, NoReturn

from common.process.parent_death import ask_for_parent_death_signal
from common.process.python import python_command

MESSAGE_BYTES_MAX = 16 * 1024


def serve(connection: socket.socket) -> int:
    """Fork a shard for each message until the supervisor closes the connection."""
    gc.disable()  # collections during imports find nothing
    from shard.process.main import main  # this import takes the time

    wake, wake_end = os.pipe()
    os.set_blocking(wake, False)
    os.set_blocking(wake_end, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)  # so that it wakes `select`
    signal.set_wakeup_fd(wake_end, warn_on_full_buffer=False)
    # The supervisor stops the shards one by one; Ctrl-C is for the supervisor alone.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Shared pages stay shared: the collector does not write into what exists now.
    gc.collect()
    gc.freeze()
    gc.enable()
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
            packet = connection.recv(MESSAGE_BYTES_MAX)
            if not packet:
                return 0
            request: dict[str, Any] = json.loads(packet)
            pid = os.fork()
            if pid == 0:
                for unneeded in (connection.detach(), wake, wake_end):
                    os.close(unneeded)
                _become_shard(main, request["arguments"])
            _send(connection, {"ordinal": request["ordinal"], "pid": pid})


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


def _become_shard(main: Any, arguments: list[str]) -> NoReturn:
    """Be a shard process, in the child of a fork; never returns into the server's loop."""
    status = 1
    try:
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)
        os.setpgid(0, 0)
        ask_for_parent_death_signal()
        _write_arguments(python_command("shard", *arguments))
        sys.argv = ["shard", *arguments]
        main(arguments)
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)


def _write_arguments(arguments: list[str]) -> None:
    """Show other arguments in /proc/self/cmdline: write them over the ones we were started with.

    They are in our own memory, between two addresses that the kernel reports; arguments that do
    not fit are cut. (The supervisor starts us with a long filler as last argument.)
    """
    try:
        fields = Path("/proc/self/stat").read_text().rpartition(") ")[2].split()
        start, end = int(fields[45]), int(fields[46])  # arg_start and arg_end: 48 and 49 in proc(5)
    except (OSError, IndexError, ValueError):
        return  # not Linux: all shards look alike
    text = b"".join(os.fsencode(argument) + b"\0" for argument in arguments)
    capacity = end - start
    if 0 < capacity < 1 << 20:
        ctypes.memmove(start, text[: capacity - 1].ljust(capacity, b"\0"), capacity)


if __name__ == "__main__":
    ask_for_parent_death_signal()
    sys.exit(serve(socket.socket(fileno=int(sys.argv[1]))))
