"""Everything that requests need, created at the start of a coordinator."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from common import data_directory
from common.process.cooperative_scheduler import LoopScheduler
from coordinator.analytics.search_analytics import Analytics
from coordinator.catalog.catalog import Catalog
from coordinator.cluster.all_shards import Cluster
from coordinator.cluster.cursor_leases import Leases
from coordinator.http.api_description.openapi import InterfaceDocument
from coordinator.http.metrics import Metrics
from coordinator.http.security.access_control import Guard
from coordinator.http.services import Services
from coordinator.http.slow_queries import SlowQueries
from coordinator.read.facet_pages import FacetPages
from coordinator.read.item_explanation import ItemExplanations
from coordinator.read.item_selection import Selection
from coordinator.read.read_services import ReadServices
from coordinator.read.result_cache import ResultCache
from coordinator.read.search import Search
from coordinator.read.suggestions import Suggestions
from coordinator.routes import ROUTES
from coordinator.settings import Settings
from coordinator.snapshots.snapshot_maker import SnapshotMaker
from coordinator.write.bulk_loads import BulkLoads
from coordinator.write.index_administration import IndexAdministration
from coordinator.write.ingest import Ingest
from coordinator.write.known_fields import KnownFields
from coordinator.write.write_ordering import EmbeddedLog

if TYPE_CHECKING:
    from coordinator.replication.shared_log import SharedLog


def make_services(
    settings: Settings,
    catalog: Catalog,
    cluster: Cluster,
    *,
    log: SharedLog | None = None,
    analytics: Analytics | None = None,
    leases: Leases | None = None,
) -> Services:
    """Create everything that a request may need.

    Args:
        settings: of the service.
        catalog: of the indexes.
        cluster: the shards.
        log: of several hosts, if this is one of them.
        analytics: counts searches; None: they are counted here.
        leases: of cursors; None: of this coordinator's own.
    """
    scheduler = LoopScheduler()
    if analytics is None:
        analytics = Analytics(*analytics_arguments(settings))
    read_services = ReadServices.over(cluster, catalog, settings.limits, scheduler)
    if leases is None:
        leases = Leases(cluster, settings.limits)
    search = Search(read_services, leases)
    write_log = EmbeddedLog(cluster, catalog, settings) if log is None else log
    fields = KnownFields(cluster, settings.limits)
    return Services(
        settings=settings,
        interface=InterfaceDocument(ROUTES, settings.limits),
        catalog=catalog,
        cluster=cluster,
        ingest=Ingest(cluster, catalog, settings.limits, write_log, fields),
        loads=BulkLoads(cluster, catalog, settings, write_log, fields),
        administration=IndexAdministration(cluster, catalog, settings.limits, write_log),
        snapshot_maker=SnapshotMaker(settings, cluster, catalog),
        shared_log=log,
        search=search,
        facet_pages=FacetPages(read_services),
        selection=Selection(read_services),
        suggestions=Suggestions(read_services, analytics),
        explanations=ItemExplanations(read_services, search),
        guard=Guard(settings, catalog),
        metrics=Metrics(),
        slow_queries=SlowQueries(settings.slow_query_ms),
        analytics=analytics,
        results=ResultCache(settings.result_cache_bytes // settings.coordinators),
        scheduler=scheduler,
    )


def analytics_arguments(settings: Settings) -> tuple[Path, int, int]:
    """Return where searches are counted, for how many days, and how many of them."""
    return (
        data_directory.analytics_folder(settings.data_dir),
        settings.analytics_days,
        settings.limits.analytics_queries_max,
    )
