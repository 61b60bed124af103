"""Everything that makes a coordinator one of several: the log's stream, what follows it, the donor.

Replica ─┬─ LogStream    the connection to JetStream
         ├─ SharedLog    publishes and applies
         ├─ Placement    who has which shard, where each host holds some
         └─ Donor        gives new hosts their data
"""

from __future__ import annotations

import asyncio

from coordinator.cluster.catalog import Catalog
from coordinator.cluster.cluster import Cluster
from coordinator.cluster.snapshot_maker import SnapshotMaker
from coordinator.replication.moving import ShardProcesses
from coordinator.replication.placement import Placement
from coordinator.replication.shared_log import SharedLog
from coordinator.replication.stream import LogStream
from coordinator.replication.this_host import ThisHost
from coordinator.replication.transfer import Donor, maker
from coordinator.settings import Settings
from coordinator.write.index_administration import IndexAdministration


class Replica:
    """This host as one of several.

    Args:
        settings: name the log.
        catalog: this host's copy.
        cluster: the shards of this host.
        processes: of these shards.

    Attributes:
        log: decides the order of all changes.
    """

    def __init__(
        self, settings: Settings, catalog: Catalog, cluster: Cluster, processes: ShardProcesses
    ) -> None:
        self._settings = settings
        self._catalog = catalog
        self._cluster = cluster
        self._stream = LogStream(settings.log_url, settings.log_stream, settings.log_credentials)
        host = ThisHost(settings, cluster, catalog, self._stream)
        self.log = SharedLog(host)
        self._giving: asyncio.Task[None] | None = None
        self._placement: Placement | None = None
        if cluster.placed is not None:
            self._placement = self.log.placement = Placement(
                host, self.log, cluster.placed, processes
            )

    def start(self, administration: IndexAdministration) -> None:
        """Begin to follow the log, and to answer other hosts."""
        self.log.start()
        here = SnapshotMaker(self._settings, self._cluster, self._catalog)
        make = maker(administration.while_unchanged, here)
        if self._placement is not None:
            self._placement.start(make)
        donor = Donor(self.log, self._stream, self._settings, make)
        self._giving = asyncio.create_task(donor.run(), name="give data to other hosts")

    async def stop(self) -> None:
        """Stop both."""
        if self._giving is not None:
            self._giving.cancel()
            await asyncio.gather(self._giving, return_exceptions=True)
        if self._placement is not None:
            await self._placement.stop()
        await self.log.stop()
