"""A whole service in the test's own process: shards, coordinator and HTTP on one event loop.

For tests that look at objects, or that set what the real processes have as constants. Clients run
in other threads than the event loop's.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path

from common import data_directory
from common.endpoint_files import Endpoint, write_endpoint
from common.shard_settings import ShardSettings
from coordinator.catalog.catalog import Catalog
from coordinator.cluster.all_shards import Cluster
from coordinator.http.app import create_app
from coordinator.http.services import Services
from coordinator.process.service_factory import make_services
from coordinator.routes import ROUTES
from coordinator.settings import Settings
from shard.indexes.catalog_follower import CatalogFollower
from shard.indexes.indexes import Indexes
from shard.process.shard_process import Identity, _make_server
from tests.service import Client

NUM_SHARDS = 2
DEFAULTS = Settings()
SHARD_DEFAULTS = ShardSettings(map_bytes_max=1 << 30)


class LocalService:
    """A service in this process."""

    def __init__(self, port: int, services: Services) -> None:
        self.port = port
        self.services = services

    def client(self, timeout: float = 30.0) -> Client:
        """Return a new client, for another thread than the event loop's."""
        return Client(self.port, timeout)


def _fail(error: BaseException) -> None:
    raise AssertionError from error


@asynccontextmanager
async def local_service(
    data: Path,
    base: Settings = DEFAULTS,
    *,
    num_shards: int = NUM_SHARDS,
    of_shards: ShardSettings = SHARD_DEFAULTS,
    **limits: int,
) -> AsyncIterator[LocalService]:
    """Run shards and a coordinator on this event loop, with some settings and limits set."""
    settings = replace(base, data_dir=data, shards=num_shards)
    settings = replace(settings, limits=replace(settings.limits, **limits))
    async with AsyncExitStack() as stack:
        data_directory.create(data)
        catalog = Catalog.open(data, num_shards)
        for shard in range(num_shards):
            folder = data_directory.shard_folder(data, shard)
            data_directory.create(folder)
            indexes = Indexes(
                folder,
                shard=shard,
                num_shards=num_shards,
                settings=of_shards,
                on_failure=_fail,
            )
            indexes.start()
            stack.push_async_callback(indexes.close)
            server = _make_server(
                Identity(data, shard, num_shards, "127.0.0.1", 0, None),
                indexes,
                CatalogFollower(indexes, _fail),
                slow_ms=0,
            )
            port = await server.listen("127.0.0.1", 0)
            stack.push_async_callback(server.close, 1.0)
            write_endpoint(data, shard, Endpoint("127.0.0.1", port, 0))
        cluster = Cluster.from_settings(settings, catalog)
        stack.push_async_callback(cluster.stop)
        services = make_services(settings, catalog, cluster)
        app = create_app(services, ROUTES)
        stack.push_async_callback(app.stop, 1.0)
        cluster.start()
        await cluster.wait_ready()
        yield LocalService(await app.start("127.0.0.1", 0), services)
