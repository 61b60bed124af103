"""Slow reads: indexes take turns, abandoned reads are not started."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import pytest

from common.deadline import CALL_DEADLINE, Deadline, check_call
from common.errors import DeadlineExceeded
from shard.process.slow_read_threads import READERS, READERS_OF_ONE_INDEX, Readers
from tests.threads import no_new_threads
from tests.waiting import until


async def test_one_index_leaves_a_thread_to_the_others() -> None:
    readers = Readers()
    gate = threading.Event()
    blocked = [asyncio.ensure_future(readers.run(1, gate.wait)) for _ in range(50)]
    await asyncio.sleep(0)

    assert await readers.run(2, lambda: "other") == "other"
    assert not any(one.done() for one in blocked)

    gate.set()
    assert all(await asyncio.gather(*blocked))


async def test_indexes_take_turns() -> None:
    readers = Readers()
    gate = threading.Event()
    order: list[int] = []
    occupied = [readers.run(index, gate.wait) for index in (8, 9, 9)]
    waiting = [readers.run(1, lambda: order.append(1)) for _ in range(20)]
    waiting.append(readers.run(2, lambda: order.append(2)))
    tasks = [asyncio.ensure_future(one) for one in (*occupied, *waiting)]
    await asyncio.sleep(0)
    gate.set()
    await asyncio.gather(*tasks)
    assert order.index(2) <= READERS_OF_ONE_INDEX


async def test_abandoned_reads_fail_without_running() -> None:
    readers = Readers()
    begun = []
    CALL_DEADLINE.set(Deadline.after_ms(0))
    with pytest.raises(DeadlineExceeded):
        await readers.run(1, lambda: begun.append(1))
    CALL_DEADLINE.set(Deadline.after_ms(60_000))
    await readers.run(1, check_call)
    assert not begun


async def test_an_error_reaches_its_caller() -> None:
    def fail() -> None:
        raise KeyError("no")

    with pytest.raises(KeyError):
        await Readers().run(1, fail)


async def test_reads_that_got_no_thread_fail_and_leave_the_threads_to_others() -> None:
    readers = Readers()
    with no_new_threads():
        for _ in range(2 * READERS):
            with pytest.raises(RuntimeError):
                await readers.run(1, lambda: None)
    async with asyncio.timeout(10):
        assert await readers.run(1, lambda: "read") == "read"


@contextmanager
def a_gate() -> Iterator[threading.Event]:
    """Yield what reads wait for; it opens at the end, also of a test that fails."""
    gate = threading.Event()
    try:
        yield gate
    finally:
        gate.set()


async def test_a_read_that_is_given_up_while_it_waits_is_dropped_at_once() -> None:
    readers = Readers()
    begun: list[int] = []
    with a_gate() as gate:
        blocked = [asyncio.ensure_future(readers.run(1, gate.wait)) for _ in range(READERS)]
        waiting = [
            asyncio.ensure_future(readers.run(index, partial(begun.append, number)))
            for index, number in ((1, 1), (1, 2), (1, 3), (2, 4))
        ]
        await until(lambda: begun == [4])
        for one in waiting[1:3]:
            one.cancel()
        await until(lambda: all(one.done() for one in waiting[1:]))
        assert [len(reads) for reads in readers._waiting.values()] == [2]

    await asyncio.gather(waiting[0], *blocked)
    assert begun == [4, 1]
    assert not readers._waiting


async def test_a_read_that_is_given_up_in_the_moment_of_its_turn_is_not_begun() -> None:
    readers = Readers()
    begun: list[int] = []
    with a_gate() as gate:
        blocked = [
            asyncio.ensure_future(readers.run(1, gate.wait)) for _ in range(READERS_OF_ONE_INDEX)
        ]
        waiting = asyncio.ensure_future(readers.run(1, lambda: begun.append(1)))
        await until(lambda: readers._waiting)
        waiting.cancel()
        readers._running[1] -= 1
        readers._begin()  # before its task knows that it is cancelled
        readers._running[1] += 1
        assert not readers._waiting
        with pytest.raises(asyncio.CancelledError):
            await waiting

    await asyncio.gather(*blocked)
    assert not begun


async def test_a_read_that_is_given_up_while_it_runs_has_ended_before_its_caller_goes_on() -> None:
    """Then the index may be closed that it reads."""
    readers = Readers()
    deadline = Deadline.after_ms(60_000)
    is_running, has_ended = threading.Event(), threading.Event()

    def search() -> None:
        is_running.set()
        try:
            while True:
                check_call()
                time.sleep(0.001)
        finally:
            time.sleep(0.01)
            has_ended.set()

    async def call() -> None:
        CALL_DEADLINE.set(deadline)
        try:
            await readers.run(1, search)
        finally:
            assert has_ended.is_set()

    calling = asyncio.ensure_future(call())
    await until(is_running.is_set)
    deadline.end_now()
    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling
    assert not readers._num_running


async def test_the_error_of_an_abandoned_read_is_not_logged() -> None:
    problems: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, problem: problems.append(problem))
    readers = Readers()
    gate = threading.Event()

    def fail() -> None:
        gate.wait()
        raise KeyError("no")

    abandoned = asyncio.ensure_future(readers.run(1, fail))
    await asyncio.sleep(0)
    abandoned.cancel()
    gate.set()
    await until(lambda: not readers._num_running)
    gc.collect()
    assert not problems
