"""A reader: one of several coordinators, which answers searches and changes nothing.

shared memory, catalog file ─▶ ReaderCatalog ─▶ ReaderCluster ─▶ Search ─▶ Services ─▶ HttpApp

It starts listening once it has all shards and the catalog; until then, and while it is being
replaced, the others answer.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import sys
from dataclasses import replace

import uvloop

from common.data_directory import DataDirectoryError
from common.errors import Unavailable
from common.process.glibc_malloc import trim_periodically
from common.process.logs import Log
from common.process.parent_death import EXIT_CANNOT_START, ask_for_parent_death_signal, watch_parent
from common.setting_conversion import SettingError
from coordinator.analytics.search_analytics import ReaderAnalytics
from coordinator.cluster.read_only_cluster_and_catalog import (
    POLL_SECONDS,
    OwnerLeases,
    OwnerOnly,
    ReaderCatalog,
    ReaderCluster,
)
from coordinator.cluster.shared_memory import SharedState
from coordinator.http.app import create_app
from coordinator.http.reader_coordinator_messages import Outbox
from coordinator.http.reader_coordinator_reports import Reporter
from coordinator.http.security.listening_without_api_keys import UnsafeAddress
from coordinator.process.inherited_coordinator_slots import CoordinatorSlot
from coordinator.process.process_setup import freeze_objects, prepare_loop, prepare_process
from coordinator.process.service_factory import analytics_arguments, make_services
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
    prepare_process(f"reader {slot.ordinal}", settings)
    try:
        return uvloop.run(_run(settings, slot, parent_pipe))
    except (DataDirectoryError, UnsafeAddress, SettingError) as error:
        print(f"facetd: {error}", file=sys.stderr)
        return EXIT_CANNOT_START


async def _run(settings: Settings, slot: CoordinatorSlot, parent_pipe: int) -> int:
    """Start the reader, wait for a signal, stop the reader."""
    watch_parent(parent_pipe)
    stop = prepare_loop(settings)
    reader = _Reader(settings, slot)
    try:
        await reader.serve_until(stop)
    finally:
        await reader.disconnect()
    return 0


class _Reader:
    """The components of a reader, and the order in which they start and stop."""

    def __init__(self, settings: Settings, slot: CoordinatorSlot) -> None:
        self._settings = settings
        self._slot = slot
        shared = self._shared = SharedState(slot.state, settings.coordinators, slot.ordinal)
        shared.begin_reader()
        self._catalog = catalog = ReaderCatalog(settings, shared)
        self._cluster = ReaderCluster.for_reader(settings, catalog, shared)
        outbox = Outbox(slot.exchange)
        services = replace(
            make_services(
                settings,
                catalog,
                self._cluster,
                analytics=ReaderAnalytics(*analytics_arguments(settings)),
                leases=OwnerLeases(self._cluster, settings.limits),
            ),
            shared=shared,
            outbox=outbox,
        )
        self._app = create_app(services, ROUTES)
        self._reporter = Reporter(services, outbox)

    async def serve_until(self, stop: asyncio.Event) -> None:
        """Connect, listen and answer requests until `stop` is set; then finish those running."""
        self._cluster.start()
        starting = asyncio.ensure_future(self._wait_ready())
        stopping = asyncio.ensure_future(stop.wait())
        try:
            await asyncio.wait((starting, stopping), return_when=asyncio.FIRST_COMPLETED)
            if starting.done():
                starting.result()
                await self._serve(stop)
        finally:
            starting.cancel()
            stopping.cancel()

    async def _serve(self, stop: asyncio.Event) -> None:
        """Listen and answer requests until `stop` is set; then finish those running."""
        settings = self._settings
        listeners = [socket.socket(fileno=one) for one in self._slot.listeners]
        await self._app.start(settings.host, settings.port, listeners)
        freeze_objects()
        _log.info("reading", reader=self._slot.ordinal, pid=os.getpid())
        background = [
            asyncio.create_task(one)
            for one in (trim_periodically(), self._reporter.report_periodically())
        ]
        await stop.wait()
        _log.info("stopping")
        for task in background:
            task.cancel()
        await self._app.stop(max(settings.stop_grace_seconds - 1.5, 0.0))
        with contextlib.suppress(Unavailable):  # the owner was killed
            await self._reporter.report()

    async def _wait_ready(self) -> None:
        """Return once searches can be answered here."""
        await self._cluster.wait_ready()
        while not (self._shared.is_serving and self._catalog.is_current):
            with contextlib.suppress(OwnerOnly):
                await self._catalog.catch_up()
            await asyncio.sleep(POLL_SECONDS)

    async def disconnect(self) -> None:
        """Leave the shared memory, and close the connections to the shards."""
        self._shared.end_reader()
        await self._cluster.stop()
