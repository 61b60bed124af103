"""A host that cannot apply what is written says so until it can."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from common.errors import StorageFull
from common.protocol.messages import ApplyResponse
from common.protocol.write_operations_and_outcomes import Operation
from coordinator.replication.applying.entry_applying import Applier
from coordinator.replication.applying.joined_write_groups import DividedGroup
from coordinator.replication.log.log_entries import WriteGroup, operations_of
from coordinator.settings import Settings
from coordinator.write.write_batch import WriteBatch
from tests.waiting import until


class _Shard:
    epoch = 1

    def __init__(self) -> None:
        self.is_full = False
        self.has_applied = False

    async def call(self, *arguments: Any, **options: Any) -> ApplyResponse:
        if self.is_full:
            raise StorageFull("the disk is full")
        self.has_applied = True
        return ApplyResponse(b"\0")

    async def pause(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


def _group() -> WriteGroup:
    operations = [(Operation.PUT, str(id).encode(), b'{"id": %d}' % id) for id in range(20)]
    batch = WriteBatch(20, 200, items=operations_of(operations))
    return WriteGroup.of(1, [batch])


async def test_a_full_shard_blocks_whatever_another_one_applies() -> None:
    shards = {0: _Shard(), 1: _Shard()}
    cluster: Any = SimpleNamespace(here=shards, placed=None, oldest_horizon=lambda index: 0)
    applier = Applier(cluster, Settings())
    group = _group()
    parts = group.divide(2, 7)
    assert parts.keys() == {0, 1}
    shards[0].is_full = True
    applying = asyncio.create_task(applier.apply([DividedGroup(7, group, parts)], 6))
    await until(lambda: applier.blocked is not None and shards[1].has_applied)
    assert not applying.done()
    shards[0].is_full = False
    await applying
    assert applier.blocked is None
