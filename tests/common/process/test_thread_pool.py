"""A pool that gets no thread refuses its work for good; what has begun on one is waited for."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from common.process.thread_pool import ThreadPool, to_the_end
from tests.threads import no_new_threads
from tests.waiting import until, wait_until


class _Failure(Exception):
    pass


@pytest.fixture
def pool() -> Iterator[ThreadPool]:
    with ThreadPool(2) as pool:
        yield pool


def test_work_that_got_no_thread_never_runs(pool: ThreadPool) -> None:
    ran: list[str] = []
    with no_new_threads(), pytest.raises(RuntimeError, match="can't start new thread"):
        pool.submit(ran.append, "refused")

    assert pool.submit(lambda: 2).result(10) == 2
    assert ran == []


def test_work_is_withdrawn_where_another_thread_might_take_it(pool: ThreadPool) -> None:
    gate = threading.Event()
    ran: list[str] = []
    busy = pool.submit(gate.wait)
    with no_new_threads(), pytest.raises(RuntimeError, match="can't start new thread"):
        pool.submit(ran.append, "refused")
    gate.set()
    assert busy.result(10)

    assert pool.submit(lambda: 2).result(10) == 2
    assert ran == []


def test_work_that_another_thread_has_begun_is_not_refused(
    pool: ThreadPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread took it from the queue before the pool asked for one more."""
    pool.start_thread()
    begun, gate = threading.Event(), threading.Event()

    def adjust_late(self: ThreadPoolExecutor) -> None:
        assert begun.wait(10)
        raise RuntimeError("can't start new thread")

    def work() -> str:
        begun.set()
        gate.wait()
        return "done"

    with monkeypatch.context() as patch:
        patch.setattr(ThreadPoolExecutor, "_adjust_thread_count", adjust_late)
        outcome = pool.submit(work)
    gate.set()
    assert outcome.result(10) == "done"


def test_results_errors_and_cancellation_are_those_of_any_pool(pool: ThreadPool) -> None:
    def fail() -> None:
        raise _Failure

    assert pool.submit(max, 3, 5, key=lambda one: -one).result(10) == 3
    outcome = pool.submit(fail)
    with pytest.raises(_Failure):
        outcome.result(10)
    gate = threading.Event()
    busy = [pool.submit(gate.wait) for _ in range(2)]
    waiting = pool.submit(fail)
    assert waiting.cancel()
    gate.set()
    assert all(one.result(10) for one in busy)


def test_nothing_keeps_the_work_or_its_error(pool: ThreadPool) -> None:
    """Environments close when the last reference to them goes, without the garbage collector."""

    class Held:
        def fail(self) -> None:
            raise _Failure

    held = Held()
    reference = weakref.ref(held)
    outcome = pool.submit(held.fail)
    assert isinstance(outcome.exception(10), _Failure)
    del held, outcome
    wait_until(lambda: reference() is None)


def test_a_pool_that_is_shut_down_refuses() -> None:
    pool = ThreadPool(1)
    pool.shutdown()
    with pytest.raises(RuntimeError, match="after shutdown"):
        pool.submit(print)


async def test_cancelled_work_on_a_thread_is_waited_for() -> None:
    begun, gate = threading.Event(), threading.Event()

    def work() -> str:
        begun.set()
        gate.wait()
        return "done"

    working = asyncio.ensure_future(to_the_end(work))
    await until(begun.is_set)
    for _ in range(3):
        working.cancel()
        for _ in range(10):
            await asyncio.sleep(0)
        assert not working.done()
    gate.set()
    with pytest.raises(asyncio.CancelledError):
        await working
    assert await to_the_end(max, 3, 5) == 5


async def test_an_error_after_a_cancellation_is_not_logged() -> None:
    problems: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, problem: problems.append(problem))
    begun, gate = threading.Event(), threading.Event()

    def fail() -> None:
        begun.set()
        gate.wait()
        raise _Failure

    working = asyncio.ensure_future(to_the_end(fail))
    await until(begun.is_set)
    working.cancel()
    await asyncio.sleep(0)
    gate.set()
    with pytest.raises(asyncio.CancelledError):
        await working
    del working
    gc.collect()
    assert not problems
    with pytest.raises(_Failure):
        await to_the_end(fail)
