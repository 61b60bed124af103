"""The coordinator process: creates the components, runs them, stops them in order.

settings ─▶ Catalog ─▶ Cluster ─▶ Ingest ─┐
                          └─────▶ Search ─┴─▶ Services ─▶ HttpApp
"""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import socket
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

import uvloop

from common import data_directory
from common.data_directory import DataDirectoryError, Endpoint
from common.process import logs
from common.process.logs import Log
from common.process.memory import configure_allocator, keep_small
from common.process.parent_death import EXIT_CANNOT_START, ask_for_parent_death_signal, watch_parent
from common.process.priority import run_in_background
from common.settings import SettingError
from coordinator.cluster.catalog import Catalog
from coordinator.cluster.cluster import Cluster
from coordinator.cluster.shared_state import SharedState
from coordinator.cluster.snapshots import remove_unfinished
from coordinator.http.app import HttpApp, create_app
from coordinator.http.exchange import Inbox
from coordinator.http.reports import Reports
from coordinator.http.security import UnsafeAddress, is_open_to_all
from coordinator.http.services import Services
from coordinator.process.coordinator_slots import CoordinatorSlot
from coordinator.process.services import SWITCH_SECONDS, make_services
from coordinator.process.startup_listener import request_takeover
from coordinator.process.supervisor import (
    PORT_TRY_SECONDS,
    PORT_WAIT_SECONDS,
    port_taken,
    raise_descriptor_limit,
)
from coordinator.settings import Settings

if TYPE_CHECKING:
    from coordinator.replication.replica import Replica


MISSED_SECONDS: Final = 5.0
"""Time after which shards to be started elsewhere are reported as missing."""

KEYS_SECONDS: Final = 0.05
"""Between two looks for an API key that comes with the log."""

_log = Log("coordinator")


def run(
    settings: Settings,
    *,
    lock: int | None = None,
    parent_pipe: int | None = None,
    takeover_pipe: int | None = None,
    slot: CoordinatorSlot | None = None,
) -> int:
    """Run the coordinator until a signal arrives.

    Args:
        settings: of the service.
        lock: descriptor that holds the lock of the data directory, if the supervisor took it.
        parent_pipe: read end of the supervisor's pipe, if there is a supervisor.
        takeover_pipe: write end of the pipe to the supervisor's startup listener, if it holds the
            port.
        slot: among several coordinators; None: there are no others.

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
        if settings.coordinators > 1 and slot is None:
            raise SettingError("several coordinators take facetd serve, which starts them")
        return uvloop.run(_run(settings, lock, parent_pipe, takeover_pipe, slot))
    except (DataDirectoryError, UnsafeAddress, SettingError) as error:
        print(f"facetd: {error}", file=sys.stderr)
        return EXIT_CANNOT_START if is_supervised else 1


async def _run(
    settings: Settings,
    lock: int | None,
    parent_pipe: int | None,
    takeover_pipe: int | None = None,
    slot: CoordinatorSlot | None = None,
) -> int:
    """Start the service, wait for a signal, stop the service."""
    data = settings.data_dir
    if parent_pipe is not None:
        watch_parent(parent_pipe)
    if lock is None:
        data_directory.create(data)
        lock = data_directory.acquire_lock(data)
    else:
        os.set_inheritable(lock, False)
    raise_descriptor_limit()
    num_shards = len(settings.shard_addresses) or settings.all_shards
    with data_directory.start_explained(data):
        catalog = Catalog.open(data, num_shards)
        cluster = Cluster.from_settings(settings, catalog, held_here(settings))
        shared = make_shared_log(
            settings, catalog, cluster, process_starter(parent_pipe is not None)
        )
    log = None if shared is None else shared.log
    services = make_services(settings, catalog, cluster, log=log)
    readers = None
    if slot is not None:
        readers = ReaderProcesses(settings, slot, services)
        services = replace(services, shared=readers.shared)
    app = create_app(services)

    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    # Threads run bulk work only (scanning, partitioning, files).
    loop.set_default_executor(ThreadPoolExecutor(None, "worker", run_in_background))
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)

    if not settings.snapshot_dir:  # else it may be shared
        await asyncio.to_thread(remove_unfinished, settings.snapshot_folder, catalog)
    cluster.start()
    if shared is not None:
        shared.start(services.administration)
    try:
        if shared is not None:
            await _take_keys(shared, settings, catalog, stop)
        if takeover_pipe is not None:
            request_takeover(takeover_pipe)
        port = await _listen(app, settings, slot)
        if readers is not None:
            readers.start(app)
        # Objects that live as long as the process need not be visited by every collection.
        gc.collect()
        gc.freeze()
        gc.enable()
        _log.info("listening", url=url(settings.host, port))
        background = (
            asyncio.create_task(_announce(cluster, settings, port, is_alone=parent_pipe is None)),
            asyncio.create_task(keep_small()),
            asyncio.create_task(services.analytics.keep()),
        )
        await stop.wait()
        for task in background:
            task.cancel()
        _log.info("stopping")
        data_directory.forget_coordinator_endpoint(data)
        grace = max(settings.stop_grace_seconds - 1.5, 0.0)
        await app.stop(grace, None if readers is None else readers.wait_gone)
        await services.analytics.save()
    finally:
        if shared is not None:
            await shared.stop()
        await cluster.stop()
    return 0


async def _take_keys(
    shared: Replica, settings: Settings, catalog: Catalog, stop: asyncio.Event
) -> None:
    """Return once an API key has come with the log, or this host has all that is in it.

    Without a key, a host must not listen for others; one that was empty learns the keys of all
    hosts from the log.
    """
    while is_open_to_all(settings, catalog) and shared.log.is_withheld and not stop.is_set():
        if shared.log.why_stopped:
            break
        await asyncio.sleep(KEYS_SECONDS)


def held_here(settings: Settings) -> tuple[int, ...] | None:
    """Return the shards that this host holds after moves; None: as the settings say.

    Raises:
        DataDirectoryError: replica.json cannot be read.
    """
    if not settings.has_placed_shards:
        return None
    from coordinator.replication.position import held_shards, read_replica

    return held_shards(settings, read_replica(settings.data_dir))


def process_starter(is_supervised: bool) -> Callable[[], None] | None:
    """Return a callback by which the supervisor starts and ends shard processes."""
    return partial(os.kill, os.getppid(), signal.SIGUSR1) if is_supervised else None


def make_shared_log(
    settings: Settings, catalog: Catalog, cluster: Cluster, look: Callable[[], None] | None
) -> Replica | None:
    """Create the follower of the log that several hosts share; None for a single host.

    Args:
        settings: of the service.
        catalog: of its indexes.
        cluster: its shards.
        look: makes the supervisor start and end processes of shards; None: there is no supervisor.

    Raises:
        DataDirectoryError: the directory belongs to such a log, and the settings name none.
    """
    if settings.log_url:
        from coordinator.process.maintenance import restore
        from coordinator.replication.moving import ShardProcesses
        from coordinator.replication.replica import Replica

        return Replica(settings, catalog, cluster, ShardProcesses(look, restore))
    if data_directory.placement_path(settings.data_dir).exists():
        raise DataDirectoryError(
            f"{settings.data_dir} has some of the shards that several hosts hold together: start "
            "with --log, --shards-here and --of"
        )
    if data_directory.replica_path(settings.data_dir).exists():
        raise DataDirectoryError(
            f"{settings.data_dir} follows the log of several hosts: start with --log, or, to go on "
            "with this host alone, remove replica.json from it"
        )
    return None


class ReaderProcesses:
    """The owner's side of its exchange with the readers.

    Args:
        settings: of the service.
        slot: of the owner.
        services: whose changes the readers follow.
    """

    def __init__(self, settings: Settings, slot: CoordinatorSlot, services: Services) -> None:
        shared = self.shared = SharedState(slot.state, settings.coordinators, slot.ordinal)
        catalog = services.catalog
        self._exchange = slot.exchange
        self._reports = Reports(services.metrics, services.analytics, services.slow_queries)

        def publish() -> None:
            shared.publish_catalog(catalog.state.revision if catalog.is_active else 0)

        services.cluster.share(shared)
        catalog.on_stored = publish
        publish()

    def start(self, app: HttpApp) -> None:
        """Receive the readers' messages."""
        Inbox(self._exchange, app.take, self._take_report).start()

    def _take_report(self, message: bytes) -> None:
        self._reports.keep_only(self.shared.readers())
        self._reports.take(message)

    async def wait_gone(self) -> None:
        """Return once no reader is left."""
        while self.shared.readers():  # noqa: ASYNC110 - another process
            await asyncio.sleep(PORT_TRY_SECONDS)


async def _listen(app: HttpApp, settings: Settings, slot: CoordinatorSlot | None) -> int:
    """Start to listen; wait if the port is about to be released."""
    if slot is not None:
        listeners = [socket.socket(fileno=one) for one in slot.listeners]
        return await app.start(settings.host, settings.port, listeners)
    give_up_at = asyncio.get_running_loop().time() + PORT_WAIT_SECONDS
    while True:
        try:
            return await app.start(settings.host, settings.port)
        except OSError as error:
            if asyncio.get_running_loop().time() >= give_up_at:
                raise SettingError(port_taken(settings, error)) from error
        await asyncio.sleep(PORT_TRY_SECONDS)


async def _announce(cluster: Cluster, settings: Settings, port: int, *, is_alone: bool) -> None:
    """Publish the endpoint for the command line; log once the service is complete.

    If no other program starts the shards, say which ones are missing.
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
