"""Tasks outlive their requests, but not in any number."""

from __future__ import annotations

import asyncio

import pytest

from common.deadline import Deadline
from common.errors import DeadlineExceeded, Unavailable
from coordinator.write import detached_tasks
from coordinator.write.detached_tasks import DetachedTasks


async def test_requests_whose_deadlines_pass_do_not_pile_up_tasks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(detached_tasks, "TASKS_MAX", 2)
    tasks = DetachedTasks()
    may_end = asyncio.Event()
    ended: list[int] = []

    async def work(number: int) -> int:
        await may_end.wait()
        ended.append(number)
        return number

    for number in (1, 2):
        with pytest.raises(DeadlineExceeded):
            await tasks.wait_for(work(number), Deadline.after_ms(1))
    with pytest.raises(Unavailable, match="2 earlier changes") as refused:
        await tasks.wait_for(work(3), None)
    assert refused.value.code == "overloaded"
    may_end.set()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert await tasks.wait_for(work(4), None) == 4
    assert ended == [1, 2, 4]
