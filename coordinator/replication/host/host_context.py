"""This host and the log that it follows: every part of replication works with these."""

from __future__ import annotations

from dataclasses import dataclass

from coordinator.catalog.catalog import Catalog
from coordinator.cluster.all_shards import Cluster
from coordinator.replication.host.log_position import Progress
from coordinator.replication.host.replica_file import host_name
from coordinator.replication.host.serving_state import Serving
from coordinator.replication.log.log_stream import LogStream
from coordinator.settings import Settings


@dataclass(frozen=True, slots=True)
class HostContext:
    """This host, as one of several that follow a log.

    Attributes:
        settings: of this host; they name the log.
        cluster: its shards.
        catalog: its copy of the catalog.
        stream: the log.
        progress: how far it has applied the log, and what it remembers of itself.
        serving: whether it answers, and how far searches see.
    """

    settings: Settings
    cluster: Cluster
    catalog: Catalog
    stream: LogStream
    progress: Progress
    serving: Serving

    @property
    def name(self) -> str:
        """Names this host, for people."""
        return host_name(self.settings)

    @property
    def id(self) -> str:
        """Names this copy of the data; empty before it follows a log."""
        return self.progress.host

    @property
    def shards(self) -> tuple[int, ...]:
        """Shards of this host, where each holds some; else none."""
        return () if self.cluster.placed is None else tuple(sorted(self.cluster.here))
