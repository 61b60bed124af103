"""Changes of the catalog on all hosts: proposed through the log, put in force by each host.

An entry names the revision on which it is based. If another host was faster, it has no effect, and
the change is made again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial

from common.errors import NotFound, Unavailable
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
        """Keep the catalog as it is; entries that change it wait, and all after them."""
        async with self._adopting:
            yield

    async def change(self, function: Callable[[CatalogState], CatalogState]) -> CatalogState:
        """Change the catalog on all hosts.

        Args:
            function: returns the new state; called again if another host was faster.

        Raises:
            NotFound: of `function`; there is no such index or alias on any host.
            Unavailable: `log_unavailable`; nothing was changed unless the message says otherwise.
        """
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
            return await own.applied
        except LogAway as error:
            raise Unavailable(not_confirmed(error), code="log_unavailable") from error
        except asyncio.CancelledError:
            if self._serving.why_stopped:
                raise Unavailable(self._serving.why_stopped, code="replica_stopped") from None
            raise
        finally:
            self._own.pop(id, None)
