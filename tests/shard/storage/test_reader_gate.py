"""Many readers are inside, or one writer is alone."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

from shard.storage.reader_gate import ReaderGate
from tests.waiting import wait_until


def test_a_writer_waits_for_the_readers_inside_and_keeps_out_the_next_ones() -> None:
    gate = ReaderGate()
    may_leave = threading.Event()
    order: list[str] = []

    def write() -> None:
        with gate.alone():
            order.append("writer")
            assert may_leave.wait(10)

    def read() -> None:
        with gate.reading():
            order.append("reader")

    with ThreadPoolExecutor(2) as pool:
        with gate.reading():
            writer = pool.submit(write)
            wait_until(lambda: gate._is_closed)
            assert order == []
            later = pool.submit(read)
        wait_until(lambda: order == ["writer"])
        assert not later.done()
        may_leave.set()
        writer.result()
        later.result()
    assert order == ["writer", "reader"]
    assert not gate._is_closed


def test_a_writer_waits_for_a_copy_and_readers_do_not() -> None:
    gate = ReaderGate()
    gate.begin_copy()
    order: list[str] = []

    def write() -> None:
        with gate.alone():
            order.append("writer")

    with ThreadPoolExecutor(1) as pool:
        writer = pool.submit(write)
        with gate.reading():
            order.append("reader")
        assert not writer.done()
        order.append("copy")
        gate.end_copy()
        writer.result()
    assert order == ["reader", "copy", "writer"]


def test_a_writer_that_fails_lets_the_readers_in_again() -> None:
    gate = ReaderGate()
    try:
        with gate.alone():
            raise KeyError
    except KeyError:
        pass
    with gate.reading():
        assert not gate._is_closed
