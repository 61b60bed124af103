"""The shard process: owns its folder, listens, serves, drains at SIGTERM.

    lock folder → open indexes (in threads) → listen → write endpoint.json → serve
    SIGTERM → stop listening → finish calls → write what is in memory → status 0

It ends at once when its parent does (`common.process.parent_death`): that loses nothing, since the
truth is in LMDB. It ends with status 70 when the disk refused a commit: only a new process may
trust what it reads there. It ends with `EXIT_CANNOT_START` when it finds data that it must not
serve.
"""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
from dataclasses import dataclass
from pathlib import Path

import uvloop

from common import data_directory
from common.data_directory import DataDirectoryError
from common.endpoint_files import Endpoint, write_endpoint
from common.process.available_memory import available_bytes
from common.process.cooperative_scheduler import LoopScheduler
from common.process.descriptor_limit_and_table import enlarge_descriptor_table
from common.process.glibc_malloc import configure_allocator, trim_periodically
from common.process.logs import Log
from common.process.parent_death import (
    EXIT_CANNOT_START,
    EXIT_STORAGE_FAILED,
    ask_for_parent_death_signal,
    watch_parent,
)
from common.process.thread_pool import ThreadPool
from common.protocol.authentication import Authenticator
from common.protocol.messages import Welcome
from common.protocol.server import RpcServer
from common.shard_settings import ShardSettings
from shard.caches.lru_cache import widen_caches
from shard.indexes.catalog_follower import CatalogFollower
from shard.indexes.indexes import Indexes
from shard.indexes.mapped_page_budget import page_budget
from shard.process.handlers import Handlers
from shard.storage.storage_errors import DamagedEnvironment, StorageFailure

STOP_GRACE_SECONDS = 2.0
"""Grace period for calls in progress at SIGTERM."""

FAILURE_GRACE_SECONDS = 0.05
"""Delay between a refused commit and the exit: its response should reach the client."""

_log = Log("shard")


@dataclass(frozen=True, slots=True)
class Identity:
    """The shard that this process serves, and its address.

    Attributes:
        data_dir: the data directory.
        shard: ordinal.
        num_shards: how many there are.
        host: to listen on.
        port: to listen on; 0 takes a free one.
        parent_pipe: descriptor whose end means that the parent has ended, or None.
    """

    data_dir: Path
    shard: int
    num_shards: int
    host: str
    port: int
    parent_pipe: int | None


def run(identity: Identity, settings: ShardSettings) -> int:
    """Serve until a signal comes; return the exit status."""
    if identity.parent_pipe is not None:
        ask_for_parent_death_signal()
    enlarge_descriptor_table()
    configure_allocator()
    widen_caches(available_bytes() // identity.num_shards)
    try:
        data_directory.create(identity.data_dir)
        data_directory.check_manifest(identity.data_dir, identity.num_shards)
        folder = data_directory.shard_folder(identity.data_dir, identity.shard)
        data_directory.create(folder)
        data_directory.acquire_lock(folder)
        return uvloop.run(_serve(identity, settings, folder))
    except StorageFailure as error:
        _log.error("ending", status=EXIT_STORAGE_FAILED, reason=str(error))
        return EXIT_STORAGE_FAILED
    except (DataDirectoryError, DamagedEnvironment) as error:
        _log.error("cannot start", reason=str(error))
        print(f"facetd: {error}", file=sys.stderr)
        return EXIT_CANNOT_START


async def _serve(identity: Identity, settings: ShardSettings, folder: Path) -> int:
    sys.setswitchinterval(settings.switch_interval_us / 1e6)
    loop = asyncio.get_running_loop()
    loop.set_default_executor(ThreadPool())
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    if identity.parent_pipe is not None:
        watch_parent(identity.parent_pipe)

    def on_failure(error: BaseException) -> None:
        loop.call_soon_threadsafe(_fail, error)

    indexes = Indexes(
        folder,
        shard=identity.shard,
        num_shards=identity.num_shards,
        settings=settings,
        on_failure=on_failure,
    )
    with data_directory.start_explained(identity.data_dir):
        indexes.start()
        catalog = CatalogFollower(indexes, on_failure)
        server = _make_server(identity, indexes, catalog, settings.slow_call_ms)
        port = await server.listen(identity.host, identity.port)
        endpoint = Endpoint(identity.host, port, os.getpid())
        write_endpoint(identity.data_dir, identity.shard, endpoint)
    _log.info("listening", host=identity.host, port=port)
    # What exists now lives as long as the process: the collector need not look at it again.
    gc.collect()
    gc.freeze()
    pages = page_budget(indexes.open, identity.num_shards, settings)
    background = [
        asyncio.create_task(trim_periodically()),
        asyncio.create_task(pages.run()),
    ]
    await stop.wait()
    for task in background:
        task.cancel()
    _log.info("stopping")
    await server.close(STOP_GRACE_SECONDS)
    await indexes.close()
    return 0


def _make_server(
    identity: Identity, indexes: Indexes, catalog: CatalogFollower, slow_ms: int
) -> RpcServer:
    scheduler = LoopScheduler()
    handlers = Handlers(indexes, catalog, lambda: server.num_in_flight, scheduler)
    server = RpcServer(
        handlers.table(),
        Authenticator(
            secret=data_directory.read_or_create_secret(identity.data_dir),
            shard=identity.shard,
            num_shards=identity.num_shards,
            make_welcome=lambda: Welcome(pid=os.getpid(), seq_max=indexes.folders.seq_max),
        ),
        slow_ms,
        scheduler,
    )
    return server


def _fail(error: BaseException) -> None:
    """End the process soon: it would serve data that may not be on disk."""
    status = EXIT_STORAGE_FAILED
    if isinstance(error, DamagedEnvironment | DataDirectoryError):
        status = EXIT_CANNOT_START
        print(f"facetd: {error}", file=sys.stderr)
    _log.error("ending", status=status, reason=str(error) or type(error).__name__)
    asyncio.get_running_loop().call_later(FAILURE_GRACE_SECONDS, os._exit, status)
