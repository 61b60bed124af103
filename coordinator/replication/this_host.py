"""This host and the log that it follows: every part of replication works with these."""

from __future__ import annotations

from typing import NamedTuple

from coordinator.cluster.catalog import Catalog
from coordinator.cluster.cluster import Cluster
from coordinator.replication.stream import LogStream
from coordinator.settings import Settings


class ThisHost(NamedTuple):
    """This host, as one of several that follow a log.

    Attributes:
        settings: of this host; they name the log.
        cluster: its shards.
        catalog: its copy of the catalog.
        stream: the log.
    """

    settings: Settings
    cluster: Cluster
    catalog: Catalog
    stream: LogStream
