"""Shards that move: what one host does does not wait for what another waits for."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock, Mock

import pytest

from coordinator.cluster.shard_client import ShardState
from coordinator.replication.log.log_errors import LogAway
from coordinator.replication.placement import shard_moving
from coordinator.replication.placement.shard_moving import Mover, ShardProcesses


class _TakingMover(Mover):
    """Notes what it would take."""

    def __init__(self, here: set[int], wanted: set[int], missing: list[str]) -> None:
        cluster = SimpleNamespace(
            here=dict.fromkeys(here), local_shards=SimpleNamespace(leaving=set()), placed=Mock()
        )
        host: Any = SimpleNamespace(
            settings=Mock(),
            cluster=cluster,
            catalog=Mock(),
            stream=Mock(),
            progress=SimpleNamespace(arriving={}),
            serving=Mock(),
        )
        known: Any = SimpleNamespace(wanted_here=wanted, hosts_without=lambda shard: missing)
        super().__init__(host, Mock(), known, ShardProcesses(None, Mock()))
        self.taken: list[int] = []

    async def _take(self, shard: int) -> None:
        self.taken.append(shard)


async def test_hosts_that_exchange_shards_do_not_wait_for_each_other() -> None:
    """Each gives up one that the other shall have, which it may take before it gives up its own."""
    first = _TakingMover({0}, {1}, ["the second"])
    second = _TakingMover({1}, {0}, ["the first"])
    for mover in (first, second):
        with pytest.raises(LogAway, match="not served yet"):
            await mover._move()
    assert (first.taken, second.taken) == ([1], [0])


async def test_one_shard_that_cannot_be_given_up_yet_holds_up_no_other() -> None:
    mover = _TakingMover({0, 2}, set(), [])
    given_up = []

    async def give_up(shard: int) -> None:
        if shard == 0:
            raise LogAway("shard 0 is not served yet by another")
        given_up.append(shard)

    mover._give_up = give_up  # type: ignore[method-assign]
    with pytest.raises(LogAway, match="shard 0"):
        await mover._move()
    assert given_up == [2]


async def test_one_shard_that_cannot_be_taken_yet_holds_up_no_other() -> None:
    mover = _TakingMover(set(), {0, 1, 2}, [])
    taken = []

    async def take(shard: int) -> None:
        if shard == 0:
            raise LogAway("shard 0 has not started on this host")
        taken.append(shard)

    mover._take = take  # type: ignore[method-assign]
    with pytest.raises(LogAway, match="shard 0"):
        await mover._move()
    assert taken == [1, 2]


class _FollowingMover(Mover):
    """Is taking shard 1, whose process does not answer."""

    def __init__(self) -> None:
        self.client = SimpleNamespace(state=ShardState.AWAY)
        local_shards = SimpleNamespace(
            begin_arriving=lambda *_: self.client, end_arriving=AsyncMock()
        )
        cluster = SimpleNamespace(here={}, local_shards=local_shards, placed=Mock())
        host: Any = SimpleNamespace(
            settings=Mock(),
            cluster=cluster,
            catalog=Mock(),
            stream=Mock(),
            progress=SimpleNamespace(arriving={1: 7}),
            serving=SimpleNamespace(position=SimpleNamespace(seq=1_000)),
        )
        known: Any = SimpleNamespace(wanted_here={1})
        self.reconcile = Mock()
        super().__init__(host, Mock(), known, ShardProcesses(self.reconcile, Mock()))

    async def _follow(self, *_: object) -> None:
        await asyncio.Event().wait()


async def test_a_shard_that_does_not_start_is_reported_and_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(shard_moving, "START_SECONDS", 0.01)
    monkeypatch.setattr(shard_moving, "PAUSE_SECONDS", 0.001)
    mover = _FollowingMover()
    for _ in range(2):
        with pytest.raises(LogAway, match="shard 1 has not started on this host"):
            await mover._take(1)
    assert mover.reconcile.call_count == 2
    mover.client.state = ShardState.OPENING  # however long that takes
    taking = asyncio.ensure_future(mover._take(1))
    await asyncio.sleep(0.1)
    assert not taking.done()
    taking.cancel()
