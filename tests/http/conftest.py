"""A coordinator that is asked over a socket, with model shards as its shards."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from common import data_directory
from common.process.cooperative_scheduler import LoopScheduler
from coordinator.analytics.search_analytics import Analytics
from coordinator.catalog.catalog import Catalog
from coordinator.cluster import shard_client
from coordinator.cluster.all_shards import Cluster
from coordinator.cluster.shard_client import locate_in
from coordinator.http.api_description.openapi import InterfaceDocument
from coordinator.http.app import HttpApp, create_app
from coordinator.http.metrics import Metrics
from coordinator.http.security.access_control import Guard
from coordinator.http.services import Services
from coordinator.http.slow_queries import SlowQueries
from coordinator.read.item_explanation import ItemExplanations
from coordinator.read.read_services import ReadServices
from coordinator.read.result_cache import ResultCache
from coordinator.routes import ROUTES
from coordinator.settings import Settings
from coordinator.snapshots.snapshot_maker import SnapshotMaker
from coordinator.write.bulk_loads import BulkLoads
from coordinator.write.index_administration import IndexAdministration
from coordinator.write.ingest import Ingest
from coordinator.write.known_fields import KnownFields
from coordinator.write.write_ordering import EmbeddedLog
from tests.coordinator.model_shard import SECRET, ModelShard
from tests.http.fakes import (
    CONFIGURATION,
    FakeFacetPages,
    FakeSearch,
    FakeSelection,
    FakeSuggestions,
)
from tests.http.raw_client import RawConnection, Reply, exchange
from tests.http.raw_requests import get, post


@dataclass
class Web:
    """The real HTTP side and write path, on model shards; searches are answered by a fake."""

    port: int
    app: HttpApp
    services: Services
    shards: list[ModelShard]
    search: FakeSearch

    async def send(self, data: bytes, *, half_closes: bool = False) -> Reply:
        """Send the bytes of one request on a connection of its own."""
        return await exchange(self.port, data, half_closes=half_closes)

    async def get(self, target: str, **parameters: Any) -> Reply:
        return await self.send(get(target, **parameters))

    async def post(self, target: str, document: Any, *headers: str) -> Reply:
        return await self.send(post(target, document, *headers))

    async def connect(self) -> RawConnection:
        return await RawConnection.open(self.port)


MakeWeb = Callable[..., Awaitable[Web]]


@pytest_asyncio.fixture
async def make_web(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[MakeWeb]:
    """Start services; `changes` are settings, `limits` single limits."""
    monkeypatch.setattr(shard_client, "RETRY_MIN_SECONDS", 0.001)
    monkeypatch.setattr(shard_client, "RETRY_MAX_SECONDS", 0.002)
    stack = AsyncExitStack()

    async def make(*, limits: dict[str, int] | None = None, **changes: Any) -> Web:
        settings = Settings(data_dir=tmp_path, shards=2)
        settings = replace(settings, limits=replace(settings.limits, **(limits or {})), **changes)
        catalog = Catalog.open(tmp_path, 2)
        shards = [ModelShard(shard, 2) for shard in range(2)]
        for shard in shards:
            await shard.announce(tmp_path)
            stack.push_async_callback(shard.die)
        cluster = Cluster(catalog, tuple(locate_in(tmp_path, i) for i in range(2)), SECRET)
        search = FakeSearch()
        read_services = ReadServices.over(cluster, catalog, settings.limits, LoopScheduler())
        log, fields = EmbeddedLog(cluster, catalog, settings), KnownFields(cluster, settings.limits)
        services: Any = Services(
            settings=settings,
            interface=InterfaceDocument(ROUTES, settings.limits),
            catalog=catalog,
            cluster=cluster,
            ingest=Ingest(cluster, catalog, settings.limits, log, fields),
            loads=BulkLoads(cluster, catalog, settings, log, fields),
            administration=IndexAdministration(cluster, catalog, settings.limits, log),
            snapshot_maker=SnapshotMaker(settings, cluster, catalog),
            explanations=ItemExplanations(read_services, search),  # type: ignore[arg-type]
            suggestions=FakeSuggestions(),  # type: ignore[arg-type]
            search=search,  # type: ignore[arg-type]
            facet_pages=FakeFacetPages(search),  # type: ignore[arg-type]
            selection=FakeSelection(search),  # type: ignore[arg-type]
            guard=Guard(settings, catalog),
            metrics=Metrics(),
            slow_queries=SlowQueries(settings.slow_query_ms),
            analytics=Analytics(
                data_directory.analytics_folder(settings.data_dir),
                settings.analytics_days,
                settings.limits.analytics_queries_max,
            ),
            results=ResultCache(settings.result_cache_bytes),
        )
        stack.push_async_callback(cluster.stop)
        cluster.start()
        await cluster.wait_ready()
        await services.administration.configure("films", CONFIGURATION)
        app = create_app(services, ROUTES)
        stack.push_async_callback(app.stop, 1.0)
        web = Web(await app.start(settings.host, 0), app, services, shards, search)
        reply = await web.post("/films/items", [{"id": 1, "name": "one"}])
        assert reply.status == 200, reply.body
        return web

    async with stack:
        yield make


@pytest_asyncio.fixture
async def web(make_web: MakeWeb) -> Web:
    return await make_web()
