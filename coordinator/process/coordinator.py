"""The coordinator process: creates the components, runs them, stops them in order.

settings ─▶ Catalog ─▶ Cluster ─▶ Ingest ─┐
                          └─────▶ Search ─┴─▶ Services ─▶ HttpApp
"""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

import uvloop

from common import data_directory
from common.data_directory import DataDirectoryError, Endpoint
from common.process import logs
from common.process.lifeline import EXIT_CANNOT_START, ask_for_parent_death_signal, watch_parent
from common.process.logs import Log
from common.process.memory import configure_allocator, keep_small
from common.process.priority import run_in_background
from common.process.turns import Turns
from common.settings import SettingError
from coordinator.cluster.catalog import Catalog
from coordinator.cluster.cluster import Cluster
from coordinator.http.app import HttpApp, create_app
from coordinator.http.metrics import Metrics, SlowQueries
from coordinator.http.openapi import InterfaceDocument
from coordinator.http.security import Guard, UnsafeAddress
from coordinator.http.services import Services
from coordinator.process.doorman import ring
from coordinator.process.supervisor import raise_descriptor_limit
from coordinator.read.analytics import Analytics
from coordinator.read.item_explanation import ItemExplanations
from coordinator.read.result_cache import ResultCache
from coordinator.read.search import Search
from coordinator.read.suggestions import Suggestions
from coordinator.routes import ROUTES
from coordinator.settings import Settings
from coordinator.write.bulk_loads import BulkLoads
from coordinator.write.index_administration import IndexAdministration
from coordinator.write.ingest import Ingest
from coordinator.write.known_fields import KnownFields
from coordinator.write.log import EmbeddedLog

if TYPE_CHECKING:
    from coordinator.replication.replica import Replica
    from coordinator.replication.shared_log import SharedLog

SWITCH_SECONDS: Final = 0.0002
"""For which a thread may hold the interpreter while the event loop waits for it."""
PORT_WAIT_SECONDS: Final = 5.0
"""How long a start waits for a port that a previous process is about to release."""

PORT_TRY_SECONDS: Final = 0.02

MISSED_SECONDS: Final = 5.0
"""After which shards that were to be started elsewhere are named as missing."""

_log = Log("coordinator")


def run(
    settings: Settings,
    *,
    lock: int | None = None,
    parent_pipe: int | None = None,
    bell: int | None = None,
) -> int:
    """Run the coordinator until a signal arrives.

    Args:
        settings: of the service.
        lock: descriptor that holds the lock of the data directory, if the supervisor took it.
        parent_pipe: read end of the supervisor's pipe, if there is a supervisor.
        bell: write end of the pipe to the supervisor's doorman, if it holds the port.

    Returns:
        The exit status.
    """
    is_supervised = parent_pipe is not None
    if is_supervised:
        ask_for_parent_death_signal()
    sys.setswitchinterval(SWITCH_SECONDS)
    logs.configure("coordinator", level=settings.log_level, style=settings.log_style)
    configure_allocator()
    try:
        return uvloop.run(_run(settings, lock, parent_pipe, bell))
    except (DataDirectoryError, UnsafeAddress, SettingError) as error:
        print(f"facetd: {error}", file=sys.stderr)
        return EXIT_CANNOT_START if is_supervised else 1


async def _run(
    settings: Settings, lock: int | None, parent_pipe: int | None, bell: int | None = None
) -> int:
    """Start, wait, stop."""
    data = settings.data_dir
    if parent_pipe is not None:
        watch_parent(parent_pipe)
    if lock is None:
        data_directory.create(data)
        lock = data_directory.acquire_lock(data)
    else:
        os.set_inheritable(lock, False)
    raise_descriptor_limit()
    num_shards = len(settings.shard_addresses) or settings.shards
    with data_directory.start_explained(data):
        catalog = Catalog.open(data, num_shards)
        cluster = Cluster.from_settings(settings, catalog)
        shared = make_shared_log(settings, catalog, cluster)
    services = make_services(settings, catalog, cluster, None if shared is None else shared.log)
    app = create_app(services)

    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    # Threads run bulk work only (scanning, partitioning, files).
    loop.set_default_executor(ThreadPoolExecutor(None, "worker", run_in_background))
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)

    cluster.start()
    if shared is not None:
        shared.start(services.administration)
    try:
        if bell is not None:
            ring(bell)
        port = await _listen(app, settings)
        address = url(settings.host, port)
        # Objects that live as long as the process need not be visited by every collection.
        gc.collect()
        gc.freeze()
        gc.enable()
        _log.info("listening", url=address)
        announcing = asyncio.create_task(
            _announce(cluster, settings, port, is_alone=parent_pipe is None)
        )
        keeping = asyncio.create_task(keep_small())
        counting = asyncio.create_task(services.analytics.keep())
        await stop.wait()
        announcing.cancel()
        keeping.cancel()
        counting.cancel()
        _log.info("stopping")
        data_directory.forget_coordinator_endpoint(data)
        await app.stop(max(settings.stop_grace_seconds - 1.5, 0.0))
        await services.analytics.save()
    finally:
        if shared is not None:
            await shared.stop()
        await cluster.stop()
    return 0


def make_shared_log(settings: Settings, catalog: Catalog, cluster: Cluster) -> Replica | None:
    """Create what follows the log of several hosts; None for a host of its own.

    Raises:
        DataDirectoryError: the directory belongs to such a log, and the settings name none.
    """
    if settings.log_url:
        from coordinator.replication.replica import Replica

        return Replica(settings, catalog, cluster)
    if data_directory.replica_path(settings.data_dir).exists():
        raise DataDirectoryError(
            f"{settings.data_dir} follows the log of several hosts: start with --log, or, to go on "
            "with this host alone, remove replica.json from it"
        )
    return None


def make_services(
    settings: Settings, catalog: Catalog, cluster: Cluster, log: SharedLog | None = None
) -> Services:
    """Create everything that a request may need."""
    turns = Turns()
    search = Search(cluster, catalog, settings.limits, turns)
    write_log = EmbeddedLog(cluster, catalog, settings) if log is None else log
    fields = KnownFields(cluster, settings.limits)
    analytics = Analytics(
        data_directory.analytics_folder(settings.data_dir),
        settings.analytics_days,
        settings.limits.analytics_queries_max,
    )
    return Services(
        settings=settings,
        routes=ROUTES,
        interface=InterfaceDocument(ROUTES, settings.limits),
        catalog=catalog,
        cluster=cluster,
        ingest=Ingest(cluster, catalog, settings.limits, write_log, fields),
        loads=BulkLoads(cluster, catalog, settings, write_log, fields),
        administration=IndexAdministration(cluster, catalog, settings.limits, write_log),
        shared_log=log,
        search=search,
        suggestions=Suggestions(cluster, search, analytics),
        explanations=ItemExplanations(cluster, search, settings.limits),
        guard=Guard(settings, catalog),
        metrics=Metrics(),
        slow_queries=SlowQueries(settings.slow_query_ms),
        analytics=analytics,
        results=ResultCache(settings.result_cache_bytes),
        turns=turns,
    )


async def _listen(app: HttpApp, settings: Settings) -> int:
    """Start to listen; wait if the port is about to be released."""
    give_up_at = asyncio.get_running_loop().time() + PORT_WAIT_SECONDS
    while True:
        try:
            return await app.start(settings.host, settings.port)
        except OSError as error:
            if asyncio.get_running_loop().time() >= give_up_at:
                raise SettingError(
                    f"cannot listen on {settings.host}:{settings.port}: {error.strerror or error}; "
                    "choose another --port or --host"
                ) from error
        await asyncio.sleep(PORT_TRY_SECONDS)


async def _announce(cluster: Cluster, settings: Settings, port: int, *, is_alone: bool) -> None:
    """Publish the endpoint for the command line; log once the service is complete.

    If nobody else starts the shards, say which ones are missing.
    """
    endpoint = Endpoint(settings.host, port, os.getpid())
    try:
        data_directory.write_coordinator_endpoint(settings.data_dir, endpoint)
    except OSError as error:  # the command line will need --url
        _log.warning("coordinator.json cannot be written", reason=error.strerror)
    try:
        await asyncio.wait_for(cluster.wait_ready(), MISSED_SECONDS if is_alone else None)
    except TimeoutError:
        _log.warning(
            "waiting for shards",
            missing=", ".join(map(str, cluster.failed_shards())),
            remedy=_remedy(settings),
        )
        await cluster.wait_ready()
    _log.info("ready", url=url(settings.host, port), shards=cluster.num_shards, seq=cluster.seq)


def _remedy(settings: Settings) -> str:
    """Return what to do about shards that do not answer."""
    if settings.shard_addresses:
        return f"see whether they run at {', '.join(settings.shard_addresses)}"
    return (
        f"start each with facetd shard --data-dir {settings.data_dir}, or name those that run "
        "elsewhere with --shard HOST:PORT; facetd serve runs everything"
    )


def url(host: str, port: int) -> str:
    """Return the address for a browser on this machine."""
    if host in ("0.0.0.0", "::"):
        host = "127.0.0.1"
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
