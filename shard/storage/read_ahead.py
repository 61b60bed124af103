"""After a start: verify segments and read stored items into the page cache, before they are needed.

Opening an index maps its large segments, whose blocks are verified when they are first touched, and
its data.mdb. So the first searches wait for the disk: for whole blocks, and for each hit, ten times
for a page of ten, one after the other: 10-60 ms where the same search takes one later. A thread of
the lowest priority reads the files once from their beginning to their end, by short calls, so that
searches pass.

Segments are read as a whole, because damage shall be found soon. Of data.mdb it reads no more than
a share of the memory that is free or holds other cached pages, since pages that do not stay would
only evict needed ones. The limit of a control group counts: a container has no more than that,
whatever the host has.
"""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

from common.file_io import CALL_BYTES
from common.process.memory import available_bytes
from common.process.priority import run_in_background

MEMORY_SHARE: Final = 2
"""All shards together read at most 1 / `MEMORY_SHARE` of what is available."""
FILE_BYTES_MIN: Final = 1 << 20
"""Smaller files are not worth it: the kernel reads their surroundings with the first item."""


class ReadAhead:
    """The thread; tell it what to `verify` and to `read`, `stop` it.

    Args:
        num_shards: that share the memory.
    """

    def __init__(self, num_shards: int) -> None:
        self._num_shards = num_shards
        self._steps: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._is_stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def verify(self, verify_all: Callable[[threading.Event], None]) -> None:
        """Verify something before what is added later.

        Args:
            verify_all: does it; returns early once the event is set.
        """
        self._add(lambda: verify_all(self._is_stopping))

    def read(self, path: Path, size: int) -> None:
        """Read a file as soon as what was added before is done.

        Args:
            path: of the file.
            size: bytes of it that are in use.
        """
        if size >= FILE_BYTES_MIN:
            self._add(lambda: self._read(path))

    def _add(self, step: Callable[[], None]) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="read-ahead", daemon=True)
            self._thread.start()
        self._steps.put(step)

    def stop(self) -> None:
        """End after the call in progress."""
        self._is_stopping.set()
        if self._thread is not None:
            self._steps.put(None)
            self._thread.join()

    def _run(self) -> None:
        run_in_background()
        while (step := self._steps.get()) is not None and not self._is_stopping.is_set():
            step()
            del step  # what it holds may be closed

    def _read(self, path: Path) -> None:
        bytes_max = available_bytes() // (MEMORY_SHARE * self._num_shards)
        with contextlib.suppress(OSError):  # dropped meanwhile, or the device failed: no matter
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
