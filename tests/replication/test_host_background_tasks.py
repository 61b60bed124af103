"""Tasks of a host: one that fails is logged, since no other task waits for it."""

from __future__ import annotations

import asyncio
import logging

import pytest

from coordinator.replication.host.host_background_tasks import HostTasks


async def test_a_task_that_fails_is_logged_at_once(caplog: pytest.LogCaptureFixture) -> None:
    async def fail() -> None:
        raise ValueError("a bug")

    tasks = HostTasks()
    with caplog.at_level(logging.ERROR):
        task = tasks.start(fail(), "watch the log")
        await asyncio.wait([task])
        await asyncio.sleep(0)
    (record,) = caplog.records
    assert record.getMessage() == "a task of this host failed"
    assert record.fields["task"] == "watch the log"  # type: ignore[attr-defined]
    assert record.exc_info is not None
    await tasks.stop()


async def test_tasks_that_are_stopped_are_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    tasks = HostTasks()
    task = tasks.start(asyncio.sleep(60))
    await asyncio.sleep(0)

    await tasks.stop()

    assert task.cancelled()
    assert not caplog.records
