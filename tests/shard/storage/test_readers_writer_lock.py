"""Many readers are inside, or one writer is alone."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

from shard.storage.readers_writer_lock import ReadersWriterLock
from tests.waiting import wait_until


def test_a_writer_waits_for_the_readers_inside_and_keeps_out_the_next_ones() -> None:
    lock = ReadersWriterLock()
    may_leave = threading.Event()
    order: list[str] = []

    def write() -> None:
        with lock.alone():
            order.append("writer")
            assert may_leave.wait(10)

    def read() -> None:
        with lock.reading():
            order.append("reader")

    with ThreadPoolExecutor(2) as pool:
        with lock.reading():
            writer = pool.submit(write)
            wait_until(lambda: lock._is_closed)
            assert order == []
            later = pool.submit(read)
        wait_until(lambda: order == ["writer"])
        assert not later.done()
        may_leave.set()
        writer.result()
        later.result()
    assert order == ["writer", "reader"]
    assert not lock._is_closed


def test_a_writer_waits_for_a_copy_and_readers_do_not() -> None:
    lock = ReadersWriterLock()
    lock.begin_copy()
    order: list[str] = []

    def write() -> None:
        with lock.alone():
            order.append("writer")

    with ThreadPoolExecutor(1) as pool:
        writer = pool.submit(write)
        with lock.reading():
            order.append("reader")
        assert not writer.done()
        order.append("copy")
        lock.end_copy()
        writer.result()
    assert order == ["reader", "copy", "writer"]


def test_a_writer_that_fails_lets_the_readers_in_again() -> None:
    lock = ReadersWriterLock()
    try:
        with lock.alone():
            raise KeyError
    except KeyError:
        pass
    with lock.reading():
        assert not lock._is_closed
