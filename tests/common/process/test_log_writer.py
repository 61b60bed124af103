"""A log without a reader, or whose reader hangs, stops no process."""

from __future__ import annotations

import fcntl
import logging
import os
import threading
import time
from collections.abc import Iterator

import pytest

from common.process import log_writer
from common.process.log_writer import LINES_MAX, LogWriter

NUM_LINES = 3 * LINES_MAX
TEXT = "x" * 200


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    reading, writing = os.pipe()
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 4096)
    yield reading, writing
    os.close(reading)
    os.close(writing)


def _log(writer: LogWriter, text: str) -> None:
    writer.handle(logging.LogRecord("facetd.x", logging.INFO, "", 0, text, None, None))


def _read_until(reading: int, last: bytes) -> list[bytes]:
    """Return the lines up to one that ends in this way."""
    content = b""
    while not content.endswith(last + b"\n"):
        content += os.read(reading, 1 << 16)
    return content.splitlines()


def test_lines_without_a_reader_are_counted_and_stop_no_thread(pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    writer = LogWriter(writing)
    started = time.monotonic()
    for number in range(NUM_LINES):
        _log(writer, f"{number} {TEXT}")
    assert time.monotonic() - started < 5
    lines = _read_until(reading, b"lines lost")
    numbers = [int(line.split()[0]) for line in lines[:-1]]
    assert numbers == sorted(set(numbers))  # a thread that starts late loses some in between
    assert LINES_MAX <= len(numbers) < NUM_LINES
    _log(writer, "again")
    assert _read_until(reading, b"again") == [b"again"]


def test_the_number_of_lost_lines_is_told(
    pipe: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    reading, writing = pipe
    told: list[logging.LogRecord] = []
    writer = LogWriter(writing)

    def shown(record: logging.LogRecord) -> str:
        told.append(record)
        return record.getMessage()

    monkeypatch.setattr(writer, "format", shown)
    for _ in range(NUM_LINES):
        _log(writer, TEXT)
    lines = _read_until(reading, b"lines lost")
    assert told[-1].__dict__["fields"]["num"] == NUM_LINES - (len(lines) - 1)


def test_the_end_of_a_process_waits_for_its_lines(pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    writer = LogWriter(writing)
    for number in range(100):
        _log(writer, f"{number} {TEXT}")
    lines: list[bytes] = []
    reader = threading.Thread(
        target=lambda: lines.extend(_read_until(reading, b"99 " + TEXT.encode()))
    )
    reader.start()
    writer.flush()
    reader.join()
    assert len(lines) == 100


def test_the_end_of_a_process_does_not_wait_for_a_reader_that_hangs(
    pipe: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_writer, "FLUSH_SECONDS", 0.1)
    reading, writing = pipe
    writer = LogWriter(writing)
    for number in range(100):
        _log(writer, f"{number} {TEXT}")
    started = time.monotonic()
    writer.flush()
    assert 0.1 <= time.monotonic() - started < 5
    # Otherwise its thread would write the rest to whatever has the number of the closed pipe next.
    assert len(_read_until(reading, b"99 " + TEXT.encode())) == 100


def test_without_a_reader_lines_are_lost_in_silence() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    writer = LogWriter(writing)
    for _ in range(3):
        _log(writer, TEXT)
    writer.flush()
    assert not writer._lines
    os.close(writing)


def test_lines_wait_while_the_system_starts_no_thread(
    pipe: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    reading, writing = pipe
    writer = LogWriter(writing)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        _log(writer, "one")
    _log(writer, "two")
    assert _read_until(reading, b"two") == [b"one", b"two"]


def test_lines_that_wait_for_a_thread_are_written_although_some_were_lost(
    pipe: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    reading, writing = pipe
    writer = LogWriter(writing)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        for _ in range(LINES_MAX + 1):
            _log(writer, "early")
    _log(writer, "late")
    assert writer._thread is not None, "it was tried again"
    assert _read_until(reading, b"lines lost")[:-1] == [b"early"] * LINES_MAX
