"""The route table: every page of the service, one file per resource."""

from __future__ import annotations

from typing import Final

from coordinator.http.routing import ServedRoute
from coordinator.routes import (
    algolia,
    algolia_stored,
    analytics,
    changes,
    explain,
    followed,
    hosts,
    indexes,
    items,
    operations,
    pages,
    proposal,
    search,
    suggest,
)

ROUTES: Final[tuple[ServedRoute, ...]] = (
    *search.ROUTES,
    *suggest.ROUTES,
    *explain.ROUTES,
    *items.ROUTES,
    *changes.ROUTES,
    *followed.ROUTES,
    *indexes.ROUTES,
    *proposal.ROUTES,
    *operations.ROUTES,
    *hosts.ROUTES,
    *analytics.ROUTES,
    *algolia.ROUTES,
    *algolia_stored.ROUTES,
    *pages.ROUTES,
)
