"""The route table: every page of the service, one file per resource."""

from __future__ import annotations

from typing import Final

from coordinator.http.routing import ServedRoute
from coordinator.routes import (
    algolia_copies,
    algolia_indexes,
    algolia_keys,
    algolia_objects,
    algolia_rules,
    algolia_search,
    aliases,
    analytics,
    configuration,
    configuration_proposal,
    documentation,
    explain,
    followed,
    hosts,
    index_statistics,
    indexes,
    item_changes,
    items,
    keys,
    operations,
    pages,
    search,
    snapshots,
    suggest,
)

ROUTES: Final[tuple[ServedRoute, ...]] = (
    *search.ROUTES,
    *suggest.ROUTES,
    *explain.ROUTES,
    *items.ROUTES,
    *item_changes.ROUTES,
    *followed.ROUTES,
    *configuration.ROUTES,
    *indexes.ROUTES,
    *index_statistics.ROUTES,
    *aliases.ROUTES,
    *configuration_proposal.ROUTES,
    *operations.ROUTES,
    *snapshots.ROUTES,
    *keys.ROUTES,
    *documentation.ROUTES,
    *hosts.ROUTES,
    *analytics.ROUTES,
    *algolia_search.ROUTES,
    *algolia_objects.ROUTES,
    *algolia_indexes.ROUTES,
    *algolia_keys.ROUTES,
    *algolia_rules.ROUTES,
    *algolia_copies.ROUTES,
    *pages.ROUTES,
)
