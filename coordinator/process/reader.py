"""A reader: one of several coordinators, which answers searches and changes nothing.

shared memory, catalog file ─▶ ReaderCatalog ─▶ ReaderCluster ─▶ Search ─▶ Services ─▶ HttpApp

It starts listening once it has all shards and the catalog; until then, and while it is being
replaced, the others answer.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
import socket
import sys
from dataclasses import replace

import uvloop

from common.data_directory import DataDirectoryError
from common.errors import Unavailable
from common.process import logs
from common.process.logs import Log
from common.process.memory import configure_allocator, trim_periodically
from common.process.parent_death import EXIT_CANNOT_START, ask_for_parent_death_signal, watch_parent
from common.process.priority import keep_up, run_in_background
from common.process.threads import ThreadPool
from common.settings import SettingError
from coordinator.analytics.analytics import ReaderAnalytics
from coordinator.cluster.leases import Leases
from coordinator.cluster.reader_cluster import (
    POLL_SECONDS,
    OwnerLeases,
    OwnerOnly,
    ReaderCatalog,
    ReaderCluster,
)
from coordinator.cluster.shared_state import SharedState
from coordinator.http.app import create_app
from coordinator.http.exchange import Outbox
from coordinator.http.reports import Reporter
from coordinator.http.security import UnsafeAddress
from coordinator.process.coordinator_slots import CoordinatorSlot
from coordinator.process.services import SWITCH_SECONDS, analytics_arguments, make_services
from coordinator.process.supervisor import raise_descriptor_limit
from coordinator.routes import ROUTES
from coordinator.settings import Settings

_log = Log("coordinator")


def run_reader(settings: Settings, slot: CoordinatorSlot, parent_pipe: int) -> int:
    """Run a reader until a signal arrives.

    Args:
        settings: of the service.
        slot: of this reader.
        parent_pipe: read end of the supervisor's pipe.

    Returns:
        The exit status.
    """
    ask_for_parent_death_signal()
    sys.setswitchinterval(SWITCH_SECONDS)
    name = f"reader {slot.ordinal}"
    logs.configure(name, level=settings.log_level, style=settings.log_style)
    configure_allocator()
    try:
        return uvloop.run(_run(settings, slot, parent_pipe))
    except (DataDirectoryError, UnsafeAddress, SettingError) as error:
        print(f"facetd: {error}", file=sys.stderr)
        return EXIT_CANNOT_START


async def _run(settings: Settings, slot: CoordinatorSlot, parent_pipe: int) -> int:
    """Start the reader, wait for a signal, stop the reader."""
    watch_parent(parent_pipe)
    raise_descriptor_limit()
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    if settings.log_url:
        keep_up()
    loop.set_default_executor(ThreadPool(None, "worker", run_in_background))
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)

    shared = SharedState(slot.state, settings.coordinators, slot.ordinal)
    shared.begin_reader()
    catalog = ReaderCatalog(settings, shared)
    cluster = ReaderCluster.for_reader(settings, catalog, shared)
    outbox = Outbox(slot.exchange)
    analytics = ReaderAnalytics(*analytics_arguments(settings))
    leases: Leases = OwnerLeases(cluster, settings.limits)
    services = replace(
        make_services(settings, catalog, cluster, analytics=analytics, leases=leases),
        shared=shared,
        outbox=outbox,
    )
    app = create_app(services, ROUTES)
    reporter = Reporter(services, outbox)
    starting = asyncio.ensure_future(_wait_ready(catalog, cluster, shared))
    cluster.start()
    tasks: list[asyncio.Task[None]] = []
    try:
        stopping = asyncio.ensure_future(stop.wait())
        await asyncio.wait((starting, stopping), return_when=asyncio.FIRST_COMPLETED)
        if starting.done():
            starting.result()
            listeners = [socket.socket(fileno=one) for one in slot.listeners]
            await app.start(settings.host, settings.port, listeners)
            gc.collect()
            gc.freeze()
            gc.enable()
            _log.info("reading", reader=slot.ordinal, pid=os.getpid())
            tasks = [
                asyncio.create_task(trim_periodically()),
                asyncio.create_task(reporter.report_periodically()),
            ]
            await stopping
            _log.info("stopping")
            for task in tasks:
                task.cancel()
            await app.stop(max(settings.stop_grace_seconds - 1.5, 0.0))
            with contextlib.suppress(Unavailable):  # the owner was killed
                await reporter.report()
    finally:
        starting.cancel()
        shared.end_reader()
        await cluster.stop()
    return 0


async def _wait_ready(catalog: ReaderCatalog, cluster: ReaderCluster, shared: SharedState) -> None:
    """Return once searches can be answered here."""
    await cluster.wait_ready()
    while not (shared.is_serving and catalog.is_current):
        with contextlib.suppress(OwnerOnly):
            await catalog.catch_up()
        await asyncio.sleep(POLL_SECONDS)
