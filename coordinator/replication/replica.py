"""Everything that makes a coordinator one of several: the log's stream, what follows it, the donor.

Replica ─┬─ LogStream    the connection to JetStream
         ├─ SharedLog    publishes and applies
         ├─ OwnPlacement who has which shard, where each host holds some
         └─ Donor        gives new hosts their data
"""

from __future__ import annotations

from coordinator.catalog.catalog import Catalog
from coordinator.cluster.all_shards import Cluster
from coordinator.replication.host.host_background_tasks import HostTasks
from coordinator.replication.host.host_context import HostContext
from coordinator.replication.host.log_position import Progress
from coordinator.replication.host.serving_state import Serving
from coordinator.replication.log.log_stream import LogStream
from coordinator.replication.placement.shard_moving import ShardProcesses
from coordinator.replication.shared_log import SharedLog
from coordinator.replication.snapshot_transfer.donor import Donor, maker
from coordinator.settings import Settings
from coordinator.snapshots.snapshot_maker import SnapshotMaker
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
        stream = LogStream(settings.log_url, settings.log_stream, settings.log_credentials)
        progress = Progress(settings.data_dir)
        serving = Serving(cluster, progress)
        self._host = HostContext(settings, cluster, catalog, stream, progress, serving)
        self.log = SharedLog(self._host, processes)
        self._tasks = HostTasks()

    def start(self, administration: IndexAdministration) -> None:
        """Begin to follow the log, and to answer other hosts."""
        self.log.start()
        host = self._host
        here = SnapshotMaker(host.settings, host.cluster, host.catalog)
        make = maker(administration.while_unchanged, here)
        if self.log.placement is not None:
            self.log.placement.start(make)
        self._tasks.start(Donor(host, make).run(), "give data to other hosts")

    async def stop(self) -> None:
        """Stop all of it."""
        await self._tasks.stop()
        if self.log.placement is not None:
            await self.log.placement.stop()
        await self.log.stop()
