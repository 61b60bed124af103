"""Warm-up: after a start, verifies segments and reads stored items into the page cache.

Opening an index maps its data.mdb and its large segments, whose blocks are verified when they are
first touched. So the first searches would wait for the disk: for whole blocks of segments, and once
for each hit of a page. That takes 10-60 ms, where the same search takes 1 ms later. A thread reads
the files once, by short calls, between which searches run.

It begins with what most searches read, which is in memory when the coordinator begins to serve. The
rest waits a few seconds, because the first searches need the disk, and is read at the lowest
priority.

Segments are read as a whole, so that damage is found soon. Of data.mdb it reads no more than a
share of the memory that is free or holds other cached pages: pages that cannot stay would only
evict others. In a container, the limit of its control group counts.
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

from common.chunked_file_io import CALL_BYTES
from common.process.available_memory import available_bytes
from common.process.logs import Log
from common.process.thread_priority import run_in_background

MEMORY_SHARE: Final = 2
"""All shards together read at most 1 / `MEMORY_SHARE` of what is available."""
FILE_BYTES_MIN: Final = 1 << 20
"""Smaller files are not worth it: with the first item, the kernel reads most of them ahead."""

LATER_SECONDS: Final = 3.0
"""What most searches do not read is read this long after the start."""
_POLL_SECONDS: Final = 0.05
_SOON, _LATER = 0, 1
_Verify: TypeAlias = Callable[[threading.Event], None]

_log = Log("shard")


class _Step(NamedTuple):
    """A piece of work; ordered by rank, then by number."""

    rank: int
    number: int
    do: Callable[[], None]


class WarmUp:
    """Verifies and reads files in a thread, which starts with the first of them.

    Args:
        num_shards: shards that share the memory.
    """

    def __init__(self, num_shards: int) -> None:
        self._num_shards = num_shards
        self._steps: queue.PriorityQueue[_Step] = queue.PriorityQueue()
        self._numbers = itertools.count()
        self._is_stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def verify(self, verify_searched: _Verify, verify_all: _Verify) -> None:
        """Schedule the verification of a segment.

        Args:
            verify_searched: verifies what most searches read; returns early once its event is set.
            verify_all: likewise, verifies the whole segment.
        """
        self._add(_SOON, lambda: verify_searched(self._is_stopping))
        self._add(_LATER, lambda: verify_all(self._is_stopping))

    def read(self, path: Path, size: int) -> None:
        """Schedule the reading of a file, unless it is small.

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
            with contextlib.suppress(RuntimeError):  # no thread for now: the next call retries
                thread.start()
                self._thread = thread

    def stop(self) -> None:
        """End the thread after the call in progress; further work is not done."""
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
                except Exception as error:  # a search that reads it fails likewise, and reports it
                    _log.error("reading ahead failed", cause=error)
            del step  # it would keep what it refers to open

    def _read(self, path: Path) -> None:
        with contextlib.suppress(OSError):  # dropped meanwhile, or the device failed: ignore it
            bytes_max = available_bytes() // (MEMORY_SHARE * self._num_shards)
            read_once(path, bytes_max, self._is_stopping)


def read_once(path: Path, bytes_max: int, is_stopping: threading.Event) -> int:
    """Read the beginning of a file into the page cache; return how many bytes.

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
