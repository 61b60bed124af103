"""Nothing waits for the cyclic collector: what a request leaves behind goes with its last name.

A cycle that knows a snapshot keeps its segments, their files and what searches derived from them
until the collector looks at everything, which in a process with much that lives long is seldom:
memory, descriptors and disk would be taken by what nobody can name any more. So the whole service
runs in this process, under the mixed load, with a collector that only collects evidence.
"""

from __future__ import annotations

import asyncio
import gc
import types
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from common import data_directory
from coordinator.app import create_app
from coordinator.catalog import Catalog
from coordinator.cluster import Cluster
from coordinator.process import make_services
from coordinator.settings import Settings
from shard.indexes import Indexes
from shard.server import Identity, _make_server
from shard.settings import ShardSettings
from shard.snapshot import Snapshot
from tests.http.mixed_load import MixedLoad
from tests.service import ROOT, Client

NUM_SHARDS = 2
NUM_ROUNDS = 4
"""Until everything that is done in some rounds only was done."""


class Local:
    """A whole service in this process."""

    def __init__(self, port: int, indexes: list[Indexes]) -> None:
        self.port = port
        self.indexes = indexes

    def client(self, timeout: float = 30.0) -> Client:
        """Return a new client, for another thread than the event loop's."""
        return Client(self.port, timeout)


def _fail(error: BaseException) -> None:
    raise AssertionError from error


@asynccontextmanager
async def local_service(data: Path) -> AsyncIterator[Local]:
    """Run shards and a coordinator on this event loop."""
    settings = Settings(data_dir=data, shards=NUM_SHARDS)
    settings = replace(settings, limits=replace(settings.limits, cursor_lease_ms=2_000))
    async with AsyncExitStack() as stack:
        data_directory.create(data)
        catalog = Catalog.open(data, NUM_SHARDS)
        all_indexes = []
        for shard in range(NUM_SHARDS):
            folder = data_directory.shard_folder(data, shard)
            data_directory.create(folder)
            indexes = Indexes(
                folder,
                shard=shard,
                num_shards=NUM_SHARDS,
                settings=ShardSettings(map_bytes_max=1 << 30),
                on_failure=_fail,
            )
            indexes.start()
            stack.push_async_callback(indexes.close)
            server = _make_server(Identity(data, shard, NUM_SHARDS, "127.0.0.1", 0, None), indexes)
            port = await server.listen("127.0.0.1", 0)
            stack.push_async_callback(server.close, 1.0)
            data_directory.write_endpoint(
                data, shard, data_directory.Endpoint("127.0.0.1", port, 0)
            )
            all_indexes.append(indexes)
        cluster = Cluster.from_settings(settings, catalog)
        stack.push_async_callback(cluster.stop)
        app = create_app(make_services(settings, catalog, cluster))
        stack.push_async_callback(app.stop, 1.0)
        cluster.start()
        await cluster.wait_ready()
        yield Local(await app.start("127.0.0.1", 0), all_indexes)


@contextmanager
def uncollected() -> Iterator[list[Any]]:
    """Collect nothing meanwhile; return then what only the collector would have freed."""
    gc.collect()
    gc.disable()
    found: list[Any] = []
    try:
        yield found
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        found += gc.garbage
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


def _is_ours(one: Any) -> bool:
    """Return whether the service made an object (and not the client, which is here as well)."""
    if isinstance(one, types.FrameType):
        path = Path(one.f_code.co_filename)
        return path.is_relative_to(ROOT) and not path.is_relative_to(ROOT / "tests")
    module = str(type(one).__module__)
    return module.partition(".")[0] in ("common", "coordinator", "shard", "aiohttp")


async def test_requests_leave_no_cycles(tmp_path: Path) -> None:
    async with local_service(tmp_path / "data") as service:
        load = MixedLoad(service)
        await asyncio.to_thread(load.begin)
        await asyncio.to_thread(load.round)
        with uncollected() as garbage:
            for _ in range(NUM_ROUNDS):
                await asyncio.to_thread(load.round)
        found = Counter(type(one).__qualname__ for one in garbage if _is_ours(one))
        garbage.clear()
    assert not found, found.most_common(20)


async def test_cycle_is_found() -> None:
    with uncollected() as garbage:
        snapshot: Any = Snapshot.__new__(Snapshot)
        snapshot.caches = {"itself": snapshot}
        del snapshot
    found = [type(one).__qualname__ for one in garbage if _is_ours(one)]
    garbage.clear()
    assert found == ["Snapshot"]
