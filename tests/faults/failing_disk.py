"""A disk whose n-th change fails: builds and controls failing_disk.c.

Unlike strace's injection, which counts in each thread alone, this counts over all threads and
processes, only what is below one folder, and knows a disk that stays full until there is room.
It needs a C compiler.
"""

from __future__ import annotations

import errno
import json
import mmap
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from common.process.fork_server import ProcessRequest
from coordinator.process.fork_server_client import SHARD
from tests.service import ROOT

COMPILER: Final = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")

_SOURCE: Final = Path(__file__).with_name("failing_disk.c")
_CONTROL: Final = struct.Struct("<6q4096s")
_COUNTS: Final = struct.Struct("<2q")
_ORDER: Final = struct.Struct("<6q")


class FailingDisk:
    """The library, and the block of memory by which it is told what to do.

    Args:
        place: a folder for both.

    Attributes:
        environment: what a process needs in its environment to be concerned.
    """

    def __init__(self, place: Path) -> None:
        assert COMPILER is not None
        library, control = place / "failing_disk.so", place / "control"
        command = [COMPILER, "-O1", "-shared", "-fPIC", "-o", str(library), str(_SOURCE), "-ldl"]
        subprocess.run(command, check=True)
        control.write_bytes(bytes(_CONTROL.size))
        with control.open("r+b") as file:
            self._block = mmap.mmap(file.fileno(), _CONTROL.size)
        self.environment = {"LD_PRELOAD": str(library), "FAILING_DISK": str(control)}

    def close(self) -> None:
        """Let go of the block."""
        self._block.close()

    def watch(self, folder: Path) -> None:
        """Count what is done below a folder from now on; nothing fails."""
        self._block[:] = _CONTROL.pack(0, 0, 0, 0, 0, 0, os.fsencode(folder.resolve()))

    def fail(self, nth: int, *, is_late: bool = False) -> None:
        """Let the n-th change from now on fail with EIO, and no other.

        Args:
            nth: from 1.
            is_late: a write is done all the same: the disk has what it refused.
        """
        self._block[: _ORDER.size] = _ORDER.pack(0, 0, nth, errno.EIO, 0, is_late)

    def fill(self, nth: int) -> None:
        """Let the n-th change from now on that needs room fail with ENOSPC, and all after it."""
        self._block[: _ORDER.size] = _ORDER.pack(0, 0, nth, errno.ENOSPC, 1, 0)

    def heal(self) -> int:
        """Let nothing fail any more; returns how many calls have failed."""
        _, num_failures = _COUNTS.unpack_from(self._block)
        self._block[: _ORDER.size] = _ORDER.pack(0, 0, 0, 0, 0, 0)
        return int(num_failures)

    @property
    def has_failed(self) -> bool:
        """Whether a call has failed since it was told to."""
        return bool(_COUNTS.unpack_from(self._block)[1])

    @property
    def num_calls(self) -> int:
        """Changes since the last order."""
        return int(_COUNTS.unpack_from(self._block)[0])


class ShardMaker:
    """Starts shard processes as the supervisor does: forked from one that has loaded everything.

    Args:
        environment: of the processes, beside ours.
        log: file for what they say.
    """

    def __init__(self, environment: Mapping[str, str], log: Path) -> None:
        self._connection, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs, log.open("ab") as output:
            number = theirs.fileno()
            self._process = subprocess.Popen(
                [sys.executable, "-m", "common.process.fork_server", str(number), "-" * 400],
                cwd=ROOT,
                env={**os.environ, **environment},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                pass_fds=(number,),
            )
        self._num_made = 0
        self._statuses: dict[int, int] = {}
        self._pids: dict[int, int] = {}

    def close(self) -> None:
        """End the process that makes them; they end with it."""
        self._connection.close()
        self._process.wait()

    def make(self, data: Path) -> int:
        """Start shard 0 of 1 on a data directory; returns its pid."""
        arguments = ["--shard-id", "0", "--shards", "1", "--data-dir", str(data), "--port", "0"]
        ordinal = self._num_made
        self._num_made += 1
        ProcessRequest(ordinal, SHARD, arguments).send(self._connection)
        while ordinal not in self._pids:
            self._hear(None)
        return self._pids[ordinal]

    def status(self, pid: int) -> int | None:
        """Return the exit status of a process, None while it runs."""
        while self._hear(0):
            pass
        return self._statuses.get(pid)

    def wait(self, pid: int, seconds: float = 30) -> int:
        """Wait until a process has ended; returns its exit status."""
        while pid not in self._statuses:
            assert self._hear(seconds), "a shard does not end"
        return self._statuses[pid]

    def kill(self, pid: int) -> None:
        """End a process at once, if it still runs."""
        if self.status(pid) is None:
            os.kill(pid, signal.SIGKILL)
            self.wait(pid)

    def _hear(self, seconds: float | None) -> bool:
        """Take one message; returns whether there was one in time."""
        self._connection.settimeout(seconds)
        try:
            packet = self._connection.recv(4096)
        except (TimeoutError, BlockingIOError):
            return False
        assert packet, "the fork server has ended"
        message = json.loads(packet)
        if "ordinal" in message:
            self._pids[message["ordinal"]] = message["pid"]
        else:
            self._statuses[message["pid"]] = message["status"]
        return True
