"""After a start: verify segments and read stored items into the page cache, before they are needed.

Opening an index maps its large segments, whose blocks are verified when they are first touched, and
its data.mdb. So the first searches wait for the disk: for whole blocks, and for each hit, ten times
for a page of ten, one after the other: 10-60 ms where the same search takes one later. A thread
reads the files once, by short calls, so that searches pass.

It reads what most searches need first, so that this is in memory when the coordinator begins to
serve. The rest waits a few seconds, because the first searches need the disk, and is read at the
lowest priority.

Segments are read as a whole, so that damage is found soon. Of data.mdb it reads no more than
a share of the memory that is free or holds other cached pages, since pages that do not stay would
only evict needed ones. The limit of a control group counts: a container has no more than that,
whatever the host has.
"""

from __future__ import annotations

import contextlib
import itertools
import queue
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from common.file_io import CALL_BYTES
from common.process.logs import Log
from common.process.memory import available_bytes
from common.process.priority import run_in_background

MEMORY_SHARE: Final = 2
"""All shards together read at most 1 / `MEMORY_SHARE` of what is available."""
FILE_BYTES_MIN: Final = 1 << 20
"""Smaller files are not worth it: the kernel reads their surroundings with the first item."""


LATER_SECONDS: Final = 3.0
"""What is not read by most searches is read this long after the start."""
_POLL_SECONDS: Final = 0.05
_SOON, _LATER = 0, 1
_Verify: TypeAlias = Callable[[threading.Event], None]

_log = Log("shard")


class _Step(NamedTuple):
    """Something to do: the soonest first, then in order."""

    rank: int
    number: int
    do: Callable[[], None]


class ReadAhead:
    """The thread; tell it what to `verify` and to `read`, `stop` it.

    Args:
        num_shards: that share the memory.
    """

    def __init__(self, num_shards: int) -> None:
        self._num_shards = num_shards
        self._steps: queue.PriorityQueue[_Step] = queue.PriorityQueue()
        self._numbers = itertools.count()
        self._is_stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def verify(self, verify_searched: _Verify, verify_all: _Verify) -> None:
        """Verify a segment.

        Args:
            verify_searched: verifies what most searches read; returns early once the event is set.
            verify_all: the rest too.
        """
        self._add(_SOON, lambda: verify_searched(self._is_stopping))
        self._add(_LATER, lambda: verify_all(self._is_stopping))

    def read(self, path: Path, size: int) -> None:
        """Read a file as soon as what was added before is done.

        Args:
            path: of the file.
            size: bytes of it that are in use.
        """
        if size >= FILE_BYTES_MIN:
            self._add(_LATER, lambda: self._read(path))

    def _add(self, rank: int, do: Callable[[], None]) -> None:
        self._steps.put(_Step(rank, next(self._numbers), do))
        if self._thread is None:
            thread = threading.Thread(target=self._run, name="read-ahead", daemon=True)
            with contextlib.suppress(RuntimeError):  # none can be started now: the next call tries
                thread.start()
                self._thread = thread

    def stop(self) -> None:
        """End after the call in progress."""
        self._is_stopping.set()
        if self._thread is not None:
            self._add(_SOON, lambda: None)  # wakes it
            self._thread.join()

    def _run(self) -> None:
        later_at = time.monotonic() + LATER_SECONDS
        is_later = False
        while not self._is_stopping.is_set():
            step = self._steps.get()
            if step.rank == _LATER and time.monotonic() < later_at:
                self._steps.put(step)
                self._is_stopping.wait(_POLL_SECONDS)
                continue
            if step.rank == _LATER and not is_later:
                run_in_background()
                is_later = True
            if not self._is_stopping.is_set():
                try:
                    step.do()
                except Exception as error:  # a search that needs it meets the same, and reports it
                    _log.error("reading ahead failed", cause=error)
            del step  # what it holds may be closed

    def _read(self, path: Path) -> None:
        with contextlib.suppress(OSError):  # dropped meanwhile, or the device failed: no matter
            bytes_max = available_bytes() // (MEMORY_SHARE * self._num_shards)
            read_once(path, bytes_max, self._is_stopping)


def read_once(path: Path, bytes_max: int, is_stopping: threading.Event) -> int:
    """Read the beginning of a file and forget it; return how many bytes.

    Raises:
        OSError: it cannot be read.
    """
    buffer = bytearray(CALL_BYTES)
    num_read = 0
    with path.open("rb", buffering=0) as file:
        while num_read < bytes_max and not is_stopping.is_set():
            count = file.readinto(buffer)
            if not count:
                break
            num_read += count
    return num_read
