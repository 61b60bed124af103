"""Changes of the catalog on all hosts: proposed through the log, put in force by each host.

An entry names the revision on which it is based. If another host was faster, it has no effect, and
the change is made again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Final

from common.deadline import Deadline
from common.errors import DeadlineExceeded, NotFound, StorageFull, Unavailable
from common.protocol.messages import IndexEntry
from coordinator.catalog.catalog_state import CatalogState
from coordinator.replication.applying.entry_applying import Applier
from coordinator.replication.host.host_context import HostContext
from coordinator.replication.host.pending_changes import PendingChange, PendingChanges
from coordinator.replication.log.log_entries import CatalogChange, Kind, pack
from coordinator.replication.log.log_errors import LogAway
from coordinator.replication.publishing.entry_publishing import Publisher, not_confirmed
from coordinator.replication.publishing.publish_queue import PublishQueues
from coordinator.write.write_ordering import prepare_on_shards

BLOCKED_SECONDS: Final = 0.5
"""Interval between two looks whether a full disk keeps this host from carrying out a change."""


class CatalogChanges:
    """Proposes changes, and puts them in force here.

    Args:
        host: this one.
        publisher: of this host's entries.
        applier: retries what fails here.
        own: changes of this host that are under way.
        queues: of what is written to each index.
    """

    def __init__(
        self,
        host: HostContext,
        publisher: Publisher,
        applier: Applier,
        own: PendingChanges,
        queues: PublishQueues,
    ) -> None:
        self._publisher = publisher
        self._applier = applier
        self._own = own
        self._queues = queues
        self._serving = host.serving
        self._timeout_ms = host.settings.configure_timeout_ms
        self._cluster = host.cluster
        self._catalog = host.catalog
        self._adopting = asyncio.Lock()
        self._proposing = asyncio.Lock()

    async def adopt(self, seq: int, change: CatalogChange) -> bool:
        """Put a change of the catalog in force, however often that fails.

        Returns:
            Whether it is in force: only if nothing has changed since it was made.
        """
        async with self._adopting:
            if change.base != self._catalog.state.revision:
                return False
            for index in change.put:
                await self._applier.until_done(partial(self.prepare, index.entry))
            if self._cluster.placed is not None:
                # All hosts switch together: a request reads some shards here and others there.
                self._cluster.local_shards.prepared = seq
                self._serving.tell_position()
                await self._cluster.placed.all_prepared(seq)
            await self._applier.until_done(
                lambda: self._catalog.change_here(change.applied_to, is_active=False)
            )
            await self._cluster.push_catalog()
            self._catalog.activate()
            if self._cluster.placed is not None:
                self._cluster.local_shards.in_force = seq
            for number in change.dropped:
                self._queues.forget(number)
                self._cluster.horizons.forget(number)
        return True

    async def prepare(self, entry: IndexEntry) -> None:
        """Have all shards of this host build a new revision."""
        await prepare_on_shards(self._cluster, entry, self._timeout_ms)

    @asynccontextmanager
    async def holding_indexes(self) -> AsyncIterator[None]:
        """Keep the catalog as it is; entries that change it wait, and all after them.

        Raises:
            StorageFull: a change is under way that this host has no room for.
        """
        while not await self._is_held_soon():
            self._check_not_blocked("nothing was done")
        try:
            yield
        finally:
            self._adopting.release()

    async def _is_held_soon(self) -> bool:
        """Return whether the catalog is held, after a short wait."""
        try:
            async with asyncio.timeout(BLOCKED_SECONDS):
                return await self._adopting.acquire()
        except TimeoutError:
            return False

    def _check_not_blocked(self, what_is_done: str) -> None:
        """Refuse to wait until this host has room again.

        Raises:
            StorageFull: it has none.
        """
        blocked = self._applier.blocked
        if blocked is not None:
            raise StorageFull(
                f"this host cannot apply what the log has: {blocked.message}; {what_is_done}"
            )

    async def change(
        self,
        function: Callable[[CatalogState], CatalogState],
        deadline: Deadline | None = None,
    ) -> CatalogState:
        """Change the catalog on all hosts.

        Args:
            function: returns the new state; called again if another host was faster.
            deadline: how long to wait; None: the caller looks after that.

        Raises:
            NotFound: of `function`; there is no such index or alias on any host.
            Unavailable: `log_unavailable`; nothing was changed unless the message says otherwise.
            StorageFull: this host has no room; nothing was changed unless the message says
                otherwise.
            DeadlineExceeded: it is not known whether anything was changed.
        """
        try:
            async with asyncio.timeout(None if deadline is None else deadline.remaining_seconds):
                return await self._change(function)
        except TimeoutError:
            raise DeadlineExceeded(
                "the change was not confirmed within its deadline; it may still be carried out"
            ) from None

    async def _change(self, function: Callable[[CatalogState], CatalogState]) -> CatalogState:
        self._publisher.check_writable()  # what is refused need not wait for others
        async with self._proposing:
            while True:
                self._publisher.check_writable()
                before = self._catalog.state
                try:
                    after = function(before)
                except NotFound:
                    self._catalog.check_complete()
                    raise
                if after == before:
                    return after
                if await self._propose(CatalogChange.between(before, after)):
                    return after

    async def _propose(self, change: CatalogChange) -> bool:
        """Publish a change of the catalog; return whether it was put in force."""
        id = self._publisher.next_id()
        own = self._own[id] = PendingChange([], asyncio.get_running_loop().create_future())
        try:
            await self._publisher.append(Kind.CATALOG, id, pack(change), own.applied)
            return await self._applied(own)
        except LogAway as error:
            raise Unavailable(not_confirmed(error), code="log_unavailable") from error
        except asyncio.CancelledError:
            if self._serving.why_stopped:
                raise Unavailable(self._serving.why_stopped, code="replica_stopped") from None
            raise
        finally:
            self._own.pop(id, None)

    async def _applied(self, own: PendingChange) -> bool:
        """Return whether a change was put in force, once this host has come to it.

        Raises:
            StorageFull: this host has no room for it, or for something before it.
        """
        while not own.applied.done():
            self._check_not_blocked(
                "the log has the change, so the other hosts may carry it out, and this one does "
                "when there is room"
            )
            await asyncio.wait((own.applied,), timeout=BLOCKED_SECONDS)
        return own.applied.result()
