"""The progress of a start, from what the shards say while they open."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from common.protocol.messages import OpeningStatistics
from coordinator.catalog.catalog import Catalog
from coordinator.cluster import shard_client, start_progress
from coordinator.cluster.all_shards import Cluster
from coordinator.cluster.shard_client import locate_in
from coordinator.cluster.start_progress import StartProgress
from tests.coordinator.model_shard import SECRET, ModelShard
from tests.waiting import until


def _starting(num_shards: int) -> StartProgress:
    shards: Any = [SimpleNamespace(shard=shard) for shard in range(num_shards)]
    return StartProgress(shards)


@pytest.mark.parametrize(
    ("heard", "share"),
    [
        ({}, 0.0),
        ({0: (4, 2, 0, 0)}, 0.25),
        ({0: (4, 2, 0, 0), 1: (4, 4, 0, 0)}, 0.75),
        ({0: (4, 2, 100, 10), 1: (4, 4, 100, 50)}, 0.3),
        ({0: (0, 0, 0, 0), 1: (0, 0, 0, 0)}, 0.0),
        ({0: (1, 0, 100, 120), 1: (1, 1, 0, 0)}, 1.0),
    ],
)
def test_the_share_is_that_of_work_done(
    heard: dict[int, tuple[int, int, int, int]], share: float
) -> None:
    found = _starting(2)
    for shard, numbers in heard.items():
        found.note(shard, OpeningStatistics(*numbers))
    shown = found.shown()
    assert shown["share"] == share
    assert (shown["seconds_left"] is None) == (share < 0.02 or share > 1.0 or numbers_over(heard))
    assert found.message().startswith("the service is starting")


def test_the_log_names_the_shards_that_have_not_reported() -> None:
    starting = _starting(3)
    assert starting.logged() == "nothing heard yet of shard 0, shard 1, shard 2"
    starting.note(1, OpeningStatistics(4, 2, 0, 0))
    assert "2 of 4 index parts are open, " in starting.logged()
    assert starting.logged().endswith("nothing heard yet of shard 0, shard 2")
    starting.note(0, OpeningStatistics(0, 0, 0, 0))
    starting.note(2, OpeningStatistics(0, 0, 0, 0))
    assert "nothing" not in starting.logged()


def numbers_over(heard: dict[int, tuple[int, int, int, int]]) -> bool:
    return sum(one[3] for one in heard.values()) > sum(one[2] for one in heard.values())


async def test_shards_are_asked_while_they_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(start_progress, "ASK_SECONDS", 0.001)
    monkeypatch.setattr(shard_client, "RETRY_MIN_SECONDS", 0.001)
    catalog = Catalog.open(tmp_path, 1)
    shard = ModelShard(0, 1)
    shard.catalog_gate.clear()
    await shard.announce(tmp_path)
    cluster = Cluster(catalog, (locate_in(tmp_path, 0),), SECRET)
    cluster.start()
    try:
        for done in (10, 60):
            shard.opening = OpeningStatistics(1, 0, 100, done)
            await until(lambda done=done: cluster.starting.shown()["items"]["done"] == done)  # type: ignore[misc]
            assert not cluster.is_ready
        shard.catalog_gate.set()
        await cluster.wait_ready()
        assert cluster._watching is not None
        await asyncio.wait_for(asyncio.shield(cluster._watching), 5)
    finally:
        await cluster.stop()
        await shard.die()
