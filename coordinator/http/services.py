"""Services: everything that a request may need, created at startup and passed to every route."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from common.process.cooperative_scheduler import LoopScheduler
from coordinator.parameters.parsed_request_cache import ParsedRequests

if TYPE_CHECKING:
    import asyncio

    from coordinator.analytics.search_analytics import Analytics
    from coordinator.catalog.catalog import Catalog
    from coordinator.cluster.all_shards import Cluster
    from coordinator.cluster.shared_memory import SharedState
    from coordinator.http.api_description.openapi import InterfaceDocument
    from coordinator.http.metrics import Metrics
    from coordinator.http.reader_coordinator_messages import Outbox
    from coordinator.http.security.access_control import Guard
    from coordinator.http.slow_queries import SlowQueries
    from coordinator.read.facet_pages import FacetPages
    from coordinator.read.item_explanation import ItemExplanations
    from coordinator.read.item_selection import Selection
    from coordinator.read.result_cache import ResultCache
    from coordinator.read.search import Search
    from coordinator.read.suggestions import Suggestions
    from coordinator.replication.shared_log import SharedLog
    from coordinator.settings import Settings
    from coordinator.snapshots.snapshot_maker import SnapshotMaker
    from coordinator.write.bulk_loads import BulkLoads
    from coordinator.write.index_administration import IndexAdministration
    from coordinator.write.ingest import Ingest

BODY_FAST_BYTES: Final = 4_096
"""Requests with longer bodies queue in the scheduler: decoding and checking one takes
milliseconds."""
COMMON_LANE: Final = 0
"""Lane of requests whose path names no index; indexes are numbered from 1."""


@dataclass(frozen=True, slots=True)
class Services:
    """Dependencies of the routes."""

    settings: Settings
    interface: InterfaceDocument
    catalog: Catalog
    cluster: Cluster
    ingest: Ingest
    loads: BulkLoads
    administration: IndexAdministration
    snapshot_maker: SnapshotMaker
    search: Search
    facet_pages: FacetPages
    selection: Selection
    suggestions: Suggestions
    explanations: ItemExplanations
    guard: Guard
    metrics: Metrics
    slow_queries: SlowQueries
    results: ResultCache
    analytics: Analytics
    shared_log: SharedLog | None = None
    """The log of several hosts, if this is one of them."""
    shared: SharedState | None = None
    """Memory shared with the other coordinators, if there are several."""
    outbox: Outbox | None = None
    """Leads to the owner, if this is a reader."""
    filled: asyncio.Event | None = None
    """Set once the service has the items that it starts with; None: it starts with none."""
    scheduler: LoopScheduler = field(default_factory=LoopScheduler)
    parsed: ParsedRequests = field(default_factory=ParsedRequests)
