"""Tests of when the next group of an index is published."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, cast

import numpy as np
import pytest

from common.deadline import NEVER
from coordinator.replication.publishing.publish_queue import PublishQueue
from coordinator.replication.publishing.write_group_publishing import GroupPublisher
from coordinator.settings import Settings
from coordinator.write.group_commit_queue import LARGE_OPERATIONS
from coordinator.write.write_batch import AppliedBatch, WriteBatch


class _Publisher:
    """Publishes nothing: the test says what becomes of each group."""

    def __init__(self) -> None:
        self.groups: list[list[WriteBatch]] = []
        self.is_stored: list[asyncio.Event] = []
        self.applied: list[asyncio.Future[bool]] = []

    def check_writable(self) -> None:
        pass

    async def publish(
        self, _: int, batches: list[WriteBatch], applied: asyncio.Future[bool]
    ) -> None:
        self.groups.append(batches)
        self.applied.append(applied)
        self.is_stored.append(asyncio.Event())
        await self.is_stored[-1].wait()

    @property
    def num_batches(self) -> list[int]:
        return [len(batches) for batches in self.groups]


class _Scene:
    """A queue over such a log."""

    def __init__(self) -> None:
        self.publisher = _Publisher()
        self.queue = PublishQueue(cast(GroupPublisher, self.publisher), 1, Settings())
        self._writing: list[asyncio.Task[Any]] = []

    async def write(self, num_operations: int = 1) -> None:
        batch = WriteBatch(num_operations, 10, parts={})
        self._writing.append(asyncio.create_task(self.queue.write(batch, NEVER)))
        await self.settle()

    async def settle(self) -> None:
        """Let everything that can run do so; nothing here waits for time."""
        for _ in range(20):
            await asyncio.sleep(0)

    async def close(self) -> None:
        for batches, is_stored, applied in zip(
            self.publisher.groups, self.publisher.is_stored, self.publisher.applied, strict=True
        ):
            is_stored.set()
            applied.cancel()
            for batch in batches:
                if not batch.future.done():
                    batch.future.set_result(AppliedBatch(np.zeros(0, np.uint8), 1))
        for one in self._writing:
            one.cancel()
        await asyncio.gather(*self._writing, return_exceptions=True)


@pytest.fixture
async def scene() -> AsyncIterator[_Scene]:
    made = _Scene()
    yield made
    await made.close()


@pytest.mark.parametrize("is_given_up", [False, True])
async def test_single_items_gather_until_the_group_before_is_applied(
    scene: _Scene, is_given_up: bool
) -> None:
    for _ in range(4):
        await scene.write()
    assert scene.publisher.num_batches == [1]
    scene.publisher.is_stored[0].set()
    await scene.settle()
    assert scene.publisher.num_batches == [1]
    if is_given_up:
        scene.publisher.applied[0].cancel()
    else:
        scene.publisher.applied[0].set_result(True)
    await scene.settle()
    assert scene.publisher.num_batches == [1, 3]


async def test_a_group_that_is_applied_before_its_publication_is_confirmed_comes_first(
    scene: _Scene,
) -> None:
    await scene.write()
    await scene.write()
    scene.publisher.applied[0].set_result(True)
    await scene.settle()
    assert scene.publisher.num_batches == [1]
    scene.publisher.is_stored[0].set()
    await scene.settle()
    assert scene.publisher.num_batches == [1, 1]


async def test_many_waiting_operations_are_published_once_the_log_has_the_group_before(
    scene: _Scene,
) -> None:
    await scene.write()
    await scene.write(LARGE_OPERATIONS)
    assert scene.publisher.num_batches == [1]
    scene.publisher.is_stored[0].set()
    await scene.settle()
    assert scene.publisher.num_batches == [1, 1]
