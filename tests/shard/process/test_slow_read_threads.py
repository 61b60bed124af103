"""Slow reads: indexes take turns, abandoned reads are not started."""

from __future__ import annotations

import asyncio
import gc
import threading

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
