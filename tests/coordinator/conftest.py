"""A coordinator over model shards, all in this process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from common.deadline import Deadline
from coordinator.catalog.catalog import Catalog, Index
from coordinator.cluster import shard_client
from coordinator.cluster.all_shards import Cluster
from coordinator.cluster.shard_client import ShardState, locate_in
from coordinator.settings import Settings
from coordinator.write.bulk_loads import BulkLoads
from coordinator.write.index_administration import IndexAdministration
from coordinator.write.ingest import Ingest
from coordinator.write.known_fields import KnownFields
from coordinator.write.write_ordering import EmbeddedLog
from tests.coordinator.model_shard import SECRET, ModelShard


@dataclass
class Service:
    """A coordinator without HTTP, on model shards."""

    data: Path
    shards: list[ModelShard]
    catalog: Catalog
    cluster: Cluster
    ingest: Ingest
    loads: BulkLoads
    administration: IndexAdministration

    async def configure(self, name: str = "films") -> Index:
        index, _ = await self.administration.configure(name, {})
        return index

    async def wait_state(self, shard: int, state: ShardState) -> None:
        """Return when a shard is in a state."""
        changed = asyncio.Event()
        self.cluster.on_state(lambda _: changed.set())
        while self.cluster.shards[shard].state is not state:
            changed.clear()
            await changed.wait()


MakeService = Callable[..., Awaitable[Service]]


def soon() -> Deadline:
    """Return a deadline that no test reaches."""
    return Deadline.after_ms(60_000)


@pytest_asyncio.fixture
async def make_service(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[MakeService]:
    monkeypatch.setattr(shard_client, "RETRY_MIN_SECONDS", 0.001)
    monkeypatch.setattr(shard_client, "RETRY_MAX_SECONDS", 0.002)
    services: list[Service] = []

    async def make(num_shards: int = 2, **changes: Any) -> Service:
        settings = replace(Settings(), data_dir=tmp_path, shards=num_shards, **changes)
        catalog = Catalog.open(tmp_path, num_shards)
        shards = [ModelShard(shard, num_shards) for shard in range(num_shards)]
        for shard in shards:
            await shard.announce(tmp_path)
        cluster = Cluster(
            catalog,
            tuple(locate_in(tmp_path, shard) for shard in range(num_shards)),
            SECRET,
        )
        log, fields = EmbeddedLog(cluster, catalog, settings), KnownFields(cluster, settings.limits)
        service = Service(
            tmp_path,
            shards,
            catalog,
            cluster,
            Ingest(cluster, catalog, settings.limits, log, fields),
            BulkLoads(cluster, catalog, settings, log, fields),
            IndexAdministration(cluster, catalog, settings.limits, log),
        )
        services.append(service)
        cluster.start()
        await cluster.wait_ready()
        return service

    yield make
    for service in services:
        for shard in service.shards:
            shard.gate.set()
            shard.catalog_gate.set()
        await service.cluster.stop()
        for shard in service.shards:
            await shard.die()
    for _ in range(3):  # let transports close
        await asyncio.sleep(0)
