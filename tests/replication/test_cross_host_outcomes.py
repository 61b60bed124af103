"""Groups of hosts that hold some of the shards each: when their requests are answered."""

from __future__ import annotations

import asyncio
from functools import partial
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import AsyncMock

import numpy as np
import pytest

from common.deadline import NEVER
from common.errors import DeadlineExceeded, Unavailable
from common.protocol.messages import ApplyResponse, GroupOutcomesRequest
from common.protocol.write_operations_and_outcomes import Operation, Outcome
from coordinator.cluster.shard_copies import STALLED_SECONDS
from coordinator.replication.applying.cross_host_outcomes import CrossHostGroups
from coordinator.replication.applying.joined_write_groups import DividedGroup
from coordinator.replication.host.host_background_tasks import HostTasks
from coordinator.replication.host.pending_changes import PendingChange, PendingChanges
from coordinator.replication.log.log_entries import WriteGroup, operations_of
from coordinator.replication.placement.own_placement import OwnPlacement
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


class _OtherHost:
    """Has a copy of every shard, and applies nothing if it stands still."""

    def __init__(self, address: str, *, stands_still: bool) -> None:
        self.address = address
        self.stands_still = stands_still
        self.waited_ms = 0

    def kept_from(self, shard: int) -> int:
        return 0

    async def outcomes(self, request: GroupOutcomesRequest, timeout_ms: int) -> ApplyResponse:
        if self.stands_still:
            self.waited_ms += timeout_ms
            raise DeadlineExceeded("no response in time")
        return ApplyResponse(bytes([Outcome.UPDATED]))


async def test_a_copy_that_stands_still_is_asked_no_longer_than_it_is_read() -> None:
    """A host with a full disk: writes of the others waited for it for five seconds."""
    full, other = _OtherHost("a", stands_still=True), _OtherHost("b", stands_still=False)
    placement = cast(
        OwnPlacement,
        SimpleNamespace(
            _cluster=SimpleNamespace(here={}),
            _host=SimpleNamespace(catalog=SimpleNamespace(has_number=lambda number: True)),
            _known=SimpleNamespace(others={"a": full, "b": other}),
            _placed=SimpleNamespace(shards=[SimpleNamespace(host=full)]),
        ),
    )

    found = await OwnPlacement.outcomes(placement, 1, 5, 0)

    assert found.outcomes == bytes([Outcome.UPDATED])
    assert 0 < full.waited_ms <= 1000 * STALLED_SECONDS


async def test_a_deleted_index_is_not_asked_for_until_the_deadline() -> None:
    """Its other host had restarted, and knows neither the index nor what became of the write."""
    forgetful = _OtherHost("a", stands_still=True)
    placement = SimpleNamespace(
        _cluster=SimpleNamespace(here={}),
        _host=SimpleNamespace(catalog=SimpleNamespace(has_number=lambda number: False)),
        _known=SimpleNamespace(others={"a": forgetful}),
        _placed=SimpleNamespace(shards=[SimpleNamespace(host=forgetful)] * NUM_SHARDS),
    )
    tasks, own = HostTasks(), PendingChanges()
    host = SimpleNamespace(
        serving=SimpleNamespace(wait_for=AsyncMock()),
        cluster=SimpleNamespace(here={}),
        settings=SimpleNamespace(write_timeout_ms=1_000),
    )
    placed = SimpleNamespace(pending=set())
    groups = CrossHostGroups(cast(Any, host), cast(Any, placed), cast(Any, _Applier()), own, tasks)
    groups.ask_others = partial(OwnPlacement.outcomes, cast(OwnPlacement, placement))
    batch = WriteBatch(1, 8, items=operations_of([(Operation.PUT, b"7", b'{"id":7}')]))
    group = WriteGroup.of(1, [batch])
    change = PendingChange([batch], asyncio.get_running_loop().create_future())
    own["a"] = change

    await groups.apply(DividedGroup(5, group, group.divide(NUM_SHARDS, 5)), "a", change)

    async with asyncio.timeout(10):
        with pytest.raises(Unavailable, match="the index was deleted after the write"):
            await batch.future
    assert (own, placed.pending) == ({}, set())
    await tasks.stop()
