"""Services: everything that a request may need, made once at start and handed to every route."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from coordinator.parsed_requests import ParsedRequests

if TYPE_CHECKING:
    from coordinator.catalog import Catalog
    from coordinator.cluster import Cluster
    from coordinator.ingest import Ingest
    from coordinator.metrics import Metrics, SlowQueries
    from coordinator.result_cache import ResultCache
    from coordinator.search import Search
    from coordinator.security import Guard
    from coordinator.settings import Settings


@dataclass(frozen=True, slots=True)
class Services:
    """What the routes work with."""

    settings: Settings
    catalog: Catalog
    cluster: Cluster
    ingest: Ingest
    search: Search
    guard: Guard
    metrics: Metrics
    slow_queries: SlowQueries
    results: ResultCache
    parsed: ParsedRequests = field(default_factory=ParsedRequests)
