"""Writes log lines without waiting for their reader.

    any thread ── format, append ──▶ at most LINES_MAX lines ── a thread ──▶ pipe, socket, terminal

A pipe whose reader hangs takes no more after 64 KB, and a write to it would stop the event loop:
the service would hang with its log collector. So a separate thread writes. Lines that do not
fit are dropped; a later line says how many.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from collections import deque
from typing import Final

LINES_MAX: Final = 1_000
"""Most lines that wait to be written, in each process."""
FLUSH_SECONDS: Final = 1.0
"""How long the end of a process waits for its last lines to be written."""


class LogWriter(logging.Handler):
    """Writes to a descriptor, in the order of the events.

    Args:
        descriptor: of stderr.
    """

    def __init__(self, descriptor: int) -> None:
        super().__init__()
        self._descriptor = descriptor
        self._lines: deque[bytes] = deque()
        self._num_lost = 0
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def emit(self, record: logging.LogRecord) -> None:
        """Queue a line for the thread that writes."""
        line = self._line(record)
        with self._changed:
            if len(self._lines) < LINES_MAX:
                self._lines.append(line)
                self._changed.notify_all()
            else:
                self._num_lost += 1
            if self._thread is None:
                thread = threading.Thread(target=self._write, name="log", daemon=True)
                with contextlib.suppress(RuntimeError):  # no thread for now: the next line retries
                    thread.start()
                    self._thread = thread

    def flush(self) -> None:
        """Wait until all lines are written, but not for a reader that hangs."""
        with self._changed:
            self._changed.wait_for(lambda: not self._lines, FLUSH_SECONDS)

    def _line(self, record: logging.LogRecord) -> bytes:
        return f"{self.format(record)}\n".encode("utf-8", "backslashreplace")

    def _write(self) -> None:
        """Write lines for as long as the process lives."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._lines)
                line = self._lines[0]
            self._write_line(line)
            with self._changed:
                self._lines.popleft()
                if not self._lines and self._num_lost:
                    self._lines.append(self._loss())
                    self._num_lost = 0
                self._changed.notify_all()

    def _write_line(self, line: bytes) -> None:
        """Write a whole line; without a reader, it is lost."""
        rest = memoryview(line)
        with contextlib.suppress(OSError):
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]

    def _loss(self) -> bytes:
        record = logging.LogRecord("facetd.log", logging.WARNING, "", 0, "lines lost", None, None)
        record.fields = {"num": self._num_lost, "reason": "the log was not read"}
        return self._line(record)
