"""Groups of hosts that hold some of the shards each: when their requests are answered."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import AsyncMock

import numpy as np

from common.deadline import NEVER
from common.protocol.messages import ApplyResponse
from common.protocol.write_operations_and_outcomes import Operation, Outcome
from coordinator.replication.applying.cross_host_outcomes import CrossHostGroups
from coordinator.replication.applying.joined_write_groups import DividedGroup
from coordinator.replication.host.host_background_tasks import HostTasks
from coordinator.replication.host.pending_changes import PendingChange, PendingChanges
from coordinator.replication.log.log_entries import WriteGroup, operations_of
from coordinator.write.write_batch import WriteBatch

NUM_SHARDS = 3


class _Applier:
    """Has shards that create whatever they get."""

    async def apply_parts(
        self, seq: int, group: WriteGroup, parts: dict[int, Any]
    ) -> dict[int, ApplyResponse]:
        return {
            shard: ApplyResponse(bytes([Outcome.CREATED] * len(part.lengths)))
            for shard, part in parts.items()
        }


async def test_shards_that_store_a_position_alone_are_not_asked_for_outcomes() -> None:
    """A host has no outcomes of a part without operations, and was asked until the deadline."""
    tasks, own = HostTasks(), PendingChanges()
    serving = SimpleNamespace(wait_for=AsyncMock())
    host = cast(
        Any,
        SimpleNamespace(
            serving=serving,
            cluster=SimpleNamespace(here={0: None}),
            settings=SimpleNamespace(write_timeout_ms=1_000),
        ),
    )
    placed = cast(Any, SimpleNamespace(pending=set()))
    groups = CrossHostGroups(host, placed, cast(Any, _Applier()), own, tasks)
    asked: list[int] = []

    async def ask_others(index: int, seq: int, shard: int) -> ApplyResponse:
        asked.append(shard)
        return ApplyResponse(bytes([Outcome.UPDATED]))

    groups.ask_others = ask_others
    operations = [(Operation.PUT, b"7", b'{"id":7}')]
    batch = WriteBatch(1, 8, items=operations_of(operations), positions={"shop": "1"})
    group = WriteGroup.of(1, [batch])
    parts = group.divide(NUM_SHARDS, 5)
    (shard,) = (one for one, part in parts.items() if len(part.lengths))
    assert len(parts) == NUM_SHARDS
    change = PendingChange([batch], asyncio.get_running_loop().create_future())
    own["a"] = change
    await groups.apply(DividedGroup(5, group, parts), "a", change)
    async with asyncio.timeout(10):
        applied = await batch.future
    assert asked == [shard] * (shard != 0)
    assert applied.seq == 5
    np.testing.assert_array_equal(applied.outcomes, [Outcome.UPDATED if shard else Outcome.CREATED])
    serving.wait_for.assert_awaited_once_with(5, NEVER)  # by then all shards have the position
    await tasks.stop()
