"""The coordinator process: creates the components, runs them, stops them in order.

settings ─▶ Catalog ─▶ Cluster ─▶ Ingest ─┐
                          └─────▶ Search ─┴─▶ Services ─▶ HttpApp
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Final

import uvloop

from common import data_directory
from common.data_directory import DataDirectoryError
from common.durable_files import remove_unfinished_writes
from common.endpoint_files import Endpoint, forget_coordinator_endpoint, write_coordinator_endpoint
from common.process.glibc_malloc import trim_periodically
from common.process.logs import Log
from common.process.parent_death import (
    EXIT_CANNOT_START,
    EXIT_STORAGE_FAILED,
    ask_for_parent_death_signal,
    watch_parent,
)
from common.setting_conversion import SettingError
from coordinator.addresses import local_url
from coordinator.catalog.catalog import Catalog
from coordinator.catalog.catalog_file import CatalogInDoubt
from coordinator.cluster.all_shards import Cluster
from coordinator.cluster.shared_memory import SharedState
from coordinator.http.app import HttpApp, create_app
from coordinator.http.reader_coordinator_messages import Inbox
from coordinator.http.reader_coordinator_reports import Reports
from coordinator.http.security.listening_without_api_keys import UnsafeAddress, is_open_to_all
from coordinator.http.services import Services
from coordinator.process.inherited_coordinator_slots import CoordinatorSlot
from coordinator.process.port_conflict import PORT_TRY_SECONDS, PORT_WAIT_SECONDS, port_taken
from coordinator.process.process_setup import freeze_objects, prepare_loop, prepare_process
from coordinator.process.refused_starts import check_log
from coordinator.process.service_factory import make_services
from coordinator.process.startup_listener import request_takeover
from coordinator.routes import ROUTES
from coordinator.settings import Settings
from coordinator.snapshots.snapshot_maker import refused_folder, remove_unfinished_snapshots

if TYPE_CHECKING:
    from coordinator.replication.replica import Replica


MISSED_SECONDS: Final = 5.0
"""Time after which shards to be started elsewhere are reported as missing."""

LAST_REPORT_SECONDS: Final = 1.0
"""Time after the end of a reader within which all that it has sent is taken."""

KEYS_SECONDS: Final = 0.05
"""Interval between two checks for an API key that comes with the log."""

_log = Log("coordinator")


@dataclass(frozen=True, slots=True)
class Inheritance:
    """What a coordinator inherits from the supervisor that starts it; nothing if it runs alone.

    Attributes:
        lock: descriptor that holds the lock of the data directory.
        parent_pipe: read end of the supervisor's pipe, which ends when the supervisor does.
        takeover_pipe: write end of the pipe to the startup listener, if that holds the port.
        slot: among several coordinators; None: there are no others.
        supervisor: its pid.
        filling_pipe: read end of a pipe that ends when the service is filled, if it is at its
            start; it is not ready before.
    """

    lock: int | None = None
    parent_pipe: int | None = None
    takeover_pipe: int | None = None
    slot: CoordinatorSlot | None = None
    supervisor: int | None = None
    filling_pipe: int | None = None

    @property
    def is_supervised(self) -> bool:
        """Whether there is a supervisor."""
        return self.parent_pipe is not None


def run(settings: Settings, inherited: Inheritance) -> int:
    """Run the coordinator until a signal arrives; return the exit status."""
    if inherited.is_supervised:
        ask_for_parent_death_signal()
    prepare_process("coordinator", settings)
    try:
        if settings.coordinators > 1 and inherited.slot is None:
            raise SettingError("several coordinators need facetd serve, which starts them")
        return uvloop.run(_run(settings, inherited))
    except (DataDirectoryError, UnsafeAddress, SettingError) as error:
        print(f"facetd: {error}", file=sys.stderr)
        return EXIT_CANNOT_START if inherited.is_supervised else 1


async def _run(settings: Settings, inherited: Inheritance) -> int:
    """Start the service, wait for a signal, stop the service."""
    if inherited.parent_pipe is not None:
        watch_parent(inherited.parent_pipe)
    if inherited.lock is None:
        data_directory.create(settings.data_dir)
        data_directory.acquire_lock(settings.data_dir)
    else:
        os.set_inheritable(inherited.lock, False)
        remove_unfinished_writes(settings.data_dir)
    coordinator = _Coordinator(settings, inherited)
    stop = prepare_loop(settings)
    if settings.snapshot_dir:  # may be shared, and on a disk that does not answer: nothing waits
        Thread(target=_warn_of_snapshots, args=(settings.snapshot_folder,), daemon=True).start()
    else:
        await asyncio.to_thread(coordinator.remove_unfinished_snapshots)
    coordinator.connect()
    try:
        await coordinator.serve_until(stop)
    finally:
        await coordinator.disconnect()
    return 0


def _warn_of_snapshots(folder: Path) -> None:
    """Log why no snapshot could be made in a folder, before one is needed; all else works."""
    if refused := refused_folder(folder):
        _log.warning("no snapshot can be made", reason=refused)


class _Coordinator:
    """The components of a coordinator, and the order in which they start and stop."""

    def __init__(self, settings: Settings, inherited: Inheritance) -> None:
        self._settings = settings
        self._inherited = inherited
        num_shards = len(settings.shard_addresses) or settings.all_shards
        starter = process_starter(inherited.supervisor)
        with data_directory.start_explained(settings.data_dir):
            self._catalog = catalog = Catalog.open(settings.data_dir, num_shards)
            catalog.on_doubt = _end_in_doubt
            self._cluster = Cluster.from_settings(settings, catalog, held_here(settings))
            self._replica = make_replica(settings, catalog, self._cluster, starter)
        log = None if self._replica is None else self._replica.log
        services = make_services(settings, catalog, self._cluster, log=log)
        self._readers: ReaderProcesses | None = None
        if inherited.slot is not None:
            self._readers = ReaderProcesses(settings, inherited.slot, services)
            services = replace(services, shared=self._readers.shared)
        if inherited.filling_pipe is not None:
            filled = asyncio.Event()
            watch_parent(inherited.filling_pipe, filled.set)
            services = replace(services, filled=filled)
        self._services = services
        self._app = create_app(services, ROUTES)

    def remove_unfinished_snapshots(self) -> None:
        """Remove the snapshots that a killed process has left unfinished."""
        settings = self._settings
        mark = data_directory.mark(settings.data_dir)
        remove_unfinished_snapshots(settings.snapshot_folder, self._catalog, mark)

    def connect(self) -> None:
        """Begin to connect to the shards, and to follow the log if there is one."""
        self._cluster.start()
        if self._replica is not None:
            self._replica.start(self._services.administration)

    async def disconnect(self) -> None:
        """Close the connections to the log and to the shards."""
        if self._replica is not None:
            await self._replica.stop()
        await self._cluster.stop()

    async def serve_until(self, stop: asyncio.Event) -> None:
        """Listen and answer requests until `stop` is set; then finish those that are running."""
        settings, inherited = self._settings, self._inherited
        if self._replica is not None:
            await _take_keys(self._replica, settings, self._catalog, stop)
        if inherited.takeover_pipe is not None:
            request_takeover(inherited.takeover_pipe)
        port = await _listen(self._app, settings, inherited.slot)
        if self._readers is not None:
            self._readers.start(self._app)
        freeze_objects()
        _log.info("listening", url=local_url(settings.host, port))
        announcing = _announce(self._services, port, is_alone=not inherited.is_supervised)
        analytics = self._services.analytics
        background = [
            asyncio.create_task(one)
            for one in (announcing, trim_periodically(), analytics.save_periodically())
        ]
        await stop.wait()
        for task in background:
            task.cancel()
        _log.info("stopping")
        _forget_endpoint(settings)
        grace = max(settings.stop_grace_seconds - 1.5, 0.0)
        await self._app.stop(grace, None if self._readers is None else self._readers.wait_gone)
        await analytics.save()


def _end_in_doubt(error: CatalogInDoubt) -> None:
    """End this process at once: it might acknowledge writes to an index that the disk has not.

    The next one serves what it reads.
    """
    _log.error("ending", status=EXIT_STORAGE_FAILED, reason=f"the catalog is in doubt: {error}")
    logging.shutdown()
    os._exit(EXIT_STORAGE_FAILED)


async def _take_keys(
    replica: Replica, settings: Settings, catalog: Catalog, stop: asyncio.Event
) -> None:
    """Return once an API key has come with the log, or this host has all that is in it.

    Without a key, a host must not listen for others; one that was empty learns the keys of all
    hosts from the log.
    """
    serving = replica.log.serving
    while is_open_to_all(settings, catalog) and serving.is_withheld and not stop.is_set():
        if serving.why_stopped:
            break
        await asyncio.sleep(KEYS_SECONDS)


def held_here(settings: Settings) -> tuple[int, ...] | None:
    """Return the shards that this host holds after moves; None: as the settings say.

    Raises:
        DataDirectoryError: replica.json cannot be read.
    """
    if not settings.has_placed_shards:
        return None
    from coordinator.replication.host.replica_file import held_shards, read_replica

    return held_shards(settings, read_replica(settings.data_dir))


def process_starter(supervisor: int | None) -> Callable[[], None] | None:
    """Return a callback by which the supervisor starts and ends shard processes."""
    return None if supervisor is None else partial(os.kill, supervisor, signal.SIGUSR1)


def make_replica(
    settings: Settings, catalog: Catalog, cluster: Cluster, starter: Callable[[], None] | None
) -> Replica | None:
    """Create the follower of the log that several hosts share; None for a single host.

    Args:
        settings: of the service.
        catalog: of its indexes.
        cluster: its shards.
        starter: makes the supervisor start and end shard processes; None: there is no supervisor.

    Raises:
        DataDirectoryError: the directory belongs to such a log, and the settings name none.
    """
    if settings.log_url:
        from coordinator.process.offline_commands import restore
        from coordinator.replication.placement.shard_moving import ShardProcesses
        from coordinator.replication.replica import Replica

        return Replica(settings, catalog, cluster, ShardProcesses(starter, restore))
    check_log(settings)
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
            shared.publish_catalog(catalog.state.revision if catalog.is_active else None)

        services.cluster.share(shared)
        catalog.on_stored = publish
        publish()

    def start(self, app: HttpApp) -> None:
        """Receive the readers' messages."""
        Inbox(self._exchange, app.take, self._take_report).start()

    def _take_report(self, message: bytes) -> None:
        reports = self._reports
        reports.take(message)
        for pid in reports.latest.keys() - set(self.shared.readers()):
            # Its last report may still wait in the exchange: taken after the end, it would count
            # twice.
            asyncio.get_running_loop().call_later(LAST_REPORT_SECONDS, reports.end, pid)

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


async def _announce(services: Services, port: int, *, is_alone: bool) -> None:
    """Publish the endpoint for the command line; log once the service is complete.

    If no other program starts the shards, say which ones are missing.
    """
    settings, cluster = services.settings, services.cluster
    endpoint = Endpoint(settings.host, port, os.getpid())
    try:
        write_coordinator_endpoint(settings.data_dir, endpoint)
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
    if services.filled is not None:
        await services.filled.wait()
    _log.info(
        "ready", url=local_url(settings.host, port), shards=cluster.num_shards, seq=cluster.seq
    )


def _forget_endpoint(settings: Settings) -> None:
    """Withdraw the endpoint; a disk that refuses that must not cut off those still served."""
    try:
        forget_coordinator_endpoint(settings.data_dir)
    except OSError as error:  # the command line will find that nothing answers there
        _log.warning("coordinator.json cannot be cleared", reason=error.strerror)


def _remedy(settings: Settings) -> str:
    """Return what to do about shards that do not answer."""
    if settings.shard_addresses:
        return f"see whether they run at {', '.join(settings.shard_addresses)}"
    return (
        f"start each with facetd shard --data-dir {settings.data_dir}, or name those that run "
        "elsewhere with --shard HOST:PORT; facetd serve runs everything"
    )
