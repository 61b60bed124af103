"""The route table: every page of the service, one file per resource.

search                        one search; several in one request: multi_search. suggest, explain
items                         one item, a batch, a stream of any size. export: all of them back
update_and_delete_by_query    changes by ids or by filter; matching_scan: which items these concern
source_changes                changes of a followed table, and the position in it
configuration                 of an index; configuration_proposal: one made from its items
rename_copy_and_delete_index  also replace and reset; index_statistics: list, sizes; aliases
monitoring                    health, metrics, statistics; snapshots, keys, analytics
hosts                         several hosts: their state, and the places of shards
algolia_search, algolia_objects, algolia_indexes, algolia_copies, algolia_keys,
algolia_rules_and_synonyms    Algolia's protocol; what its routes share: algolia_conventions;
                              algolia_index_lookup, the index that a name denotes;
                              algolia_index_creation, by the first write to it
static_files                  the dashboard
documentation                 /_docs and OpenAPI; reference_generator: as a page of docs/
"""

from __future__ import annotations

from typing import Final

from coordinator.http.routing import ServedRoute
from coordinator.routes import (
    algolia_copies,
    algolia_indexes,
    algolia_keys,
    algolia_objects,
    algolia_rules_and_synonyms,
    algolia_search,
    aliases,
    analytics,
    configuration,
    configuration_proposal,
    documentation,
    explain,
    export,
    hosts,
    index_statistics,
    items,
    keys,
    monitoring,
    multi_search,
    rename_copy_and_delete_index,
    search,
    snapshots,
    source_changes,
    static_files,
    suggest,
    update_and_delete_by_query,
)

ROUTES: Final[tuple[ServedRoute, ...]] = (
    *search.ROUTES,
    *multi_search.ROUTES,
    *suggest.ROUTES,
    *explain.ROUTES,
    *items.ROUTES,
    *export.ROUTES,
    *update_and_delete_by_query.ROUTES,
    *source_changes.ROUTES,
    *configuration.ROUTES,
    *rename_copy_and_delete_index.ROUTES,
    *index_statistics.ROUTES,
    *aliases.ROUTES,
    *configuration_proposal.ROUTES,
    *monitoring.ROUTES,
    *snapshots.ROUTES,
    *keys.ROUTES,
    *documentation.ROUTES,
    *hosts.ROUTES,
    *analytics.ROUTES,
    *algolia_search.ROUTES,
    *algolia_objects.ROUTES,
    *algolia_indexes.ROUTES,
    *algolia_keys.ROUTES,
    *algolia_rules_and_synonyms.ROUTES,
    *algolia_copies.ROUTES,
    *static_files.ROUTES,
)
