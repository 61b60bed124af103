"""Who is inside an LMDB environment: readers, copies, or the one thread that must be alone.

LMDB must not move its map under a reader, and its binding does not abort a transaction before there
is a moment without any other call: constant readers would leave none. So readers pass a gate, and a
writer closes it and waits until those inside have left. New readers wait meanwhile, so they must be
short. A copy takes long; it does not pass the gate, and a writer that must be alone waits for it.

Cost: 0.5 µs to enter and leave (2-core virtual machine).
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class ReaderGate:
    """Lets many readers in, or one writer alone."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._num_readers = 0
        self._num_copies = 0
        self._is_closed = False

    @property
    def is_closed(self) -> bool:
        """Whether a writer is alone, or waits until it is."""
        return self._is_closed

    def enter(self) -> None:
        """Go inside as a reader, once the gate is open; not for a thread that is inside."""
        with self._lock:
            while self._is_closed:
                self._changed.wait()
            self._num_readers += 1

    def leave(self) -> None:
        """Go outside again."""
        with self._lock:
            self._num_readers -= 1
            if self._is_closed and not self._num_readers:
                self._changed.notify_all()

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Be inside as a reader."""
        self.enter()
        try:
            yield
        finally:
            self.leave()

    def begin_copy(self) -> None:
        """Keep writers from being alone; for the thread that writes."""
        with self._lock:
            self._num_copies += 1

    def end_copy(self) -> None:
        """Let writers be alone again."""
        with self._lock:
            self._num_copies -= 1
            self._changed.notify_all()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Be alone; for the thread that writes, so that no copy begins."""
        with self._lock:
            self._changed.wait_for(lambda: not self._num_copies)
            self._is_closed = True
            try:
                self._changed.wait_for(lambda: not self._num_readers)
                yield
            finally:
                self._is_closed = False
                self._changed.notify_all()
