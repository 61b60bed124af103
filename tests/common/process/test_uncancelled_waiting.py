"""Work goes on, and nothing is logged, if the one who waits for it is cancelled."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Callable, Coroutine

import pytest

from common.process.uncancelled_waiting import result_of, until_done


class _Failure(Exception):
    pass


async def _fail_at(gate: asyncio.Event) -> None:
    await gate.wait()
    raise _Failure


async def test_the_result_or_error_of_work_is_the_callers() -> None:
    async def three() -> int:
        await asyncio.sleep(0)
        return 3

    work = asyncio.ensure_future(three())
    assert [await result_of(work) for _ in range(2)] == [3, 3]
    gate = asyncio.Event()
    failing = asyncio.ensure_future(_fail_at(gate))
    gate.set()
    for _ in range(2):
        with pytest.raises(_Failure):
            await result_of(failing)
    failing.cancel()
    cancelled = asyncio.ensure_future(asyncio.sleep(60))
    cancelled.cancel()
    with pytest.raises(asyncio.CancelledError):
        await result_of(cancelled)


@pytest.mark.parametrize("wait", [result_of, until_done])
async def test_work_goes_on_and_its_late_error_is_not_logged(
    wait: Callable[[asyncio.Future[None]], Coroutine[None, None, None]],
) -> None:
    problems: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, problem: problems.append(problem))
    gate = asyncio.Event()
    work = asyncio.ensure_future(_fail_at(gate))
    waiting = [asyncio.ensure_future(wait(work)) for _ in range(3)]
    await asyncio.sleep(0)
    for one in waiting:
        one.cancel()
    await asyncio.sleep(0)
    assert not work.done()
    gate.set()
    for one in waiting:
        with pytest.raises(asyncio.CancelledError):
            await one
    await asyncio.wait([work])
    reference = weakref.ref(work)
    del work, waiting, one
    gc.collect()
    assert reference() is None
    assert not problems


async def test_the_end_of_work_is_waited_for_however_often_the_caller_is_cancelled() -> None:
    gate = asyncio.Event()
    work = asyncio.ensure_future(gate.wait())
    waiting = asyncio.ensure_future(until_done(work))
    for _ in range(3):
        await asyncio.sleep(0)
        waiting.cancel()
        for _ in range(10):
            await asyncio.sleep(0)
        assert not waiting.done()
    gate.set()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert work.done()
    await until_done(work)


async def test_an_error_does_not_keep_the_work_that_raised_it() -> None:
    gate = asyncio.Event()
    work = asyncio.ensure_future(_fail_at(gate))
    gate.set()
    try:
        await result_of(work)
    except _Failure:
        reference = weakref.ref(work)
    del work
    await asyncio.sleep(0)
    assert reference() is None
