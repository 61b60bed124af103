"""Services: everything that a request may need, created at startup and passed to every route."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from coordinator.parameters.cache import ParsedRequests

if TYPE_CHECKING:
    from coordinator.cluster.catalog import Catalog
    from coordinator.cluster.cluster import Cluster
    from coordinator.http.metrics import Metrics, SlowQueries
    from coordinator.http.openapi import InterfaceDocument
    from coordinator.http.routing import Route
    from coordinator.http.security import Guard
    from coordinator.read.analytics import Analytics
    from coordinator.read.result_cache import ResultCache
    from coordinator.read.search import Search
    from coordinator.replication.shared_log import SharedLog
    from coordinator.settings import Settings
    from coordinator.write.ingest import Ingest


@dataclass(frozen=True, slots=True)
class Services:
    """Dependencies of the routes."""

    settings: Settings
    routes: tuple[Route, ...]
    interface: InterfaceDocument
    catalog: Catalog
    cluster: Cluster
    ingest: Ingest
    search: Search
    guard: Guard
    metrics: Metrics
    slow_queries: SlowQueries
    results: ResultCache
    analytics: Analytics
    shared_log: SharedLog | None = None
    """The log of several hosts, if this is one of them."""
    parsed: ParsedRequests = field(default_factory=ParsedRequests)
