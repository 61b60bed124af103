"""Pages of other engines, and which of ours serves instead (pure).

Elasticsearch and OpenSearch, Meilisearch, Typesense, Solr; and what people guess. A client that
sends one of their requests is told ours, with the name of its index in it. Algolia's protocol is
served (`coordinator/algolia`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from coordinator.catalog.index_names import ALL_INDEXES, is_reserved


class _Page(NamedTuple):
    """A page of another engine."""

    methods: str
    """Separated by spaces; empty: any."""
    path: str
    """`*` is any segment, the first one the index; `**` is any end."""
    instead: str


_SEARCH: Final = "GET or POST /{index}/search finds items; query is the text"
_ADD: Final = "POST /{index}/items adds items, one or an array"
_PUT: Final = "PUT /{index}/items/{id} adds or replaces an item"
_GET: Final = "GET /{index}/items/{id} returns an item"
_DELETE: Final = "DELETE /{index}/items/{id} removes an item"
_CHANGE_MANY: Final = "PATCH /{index}/items changes some fields of items, each given with its id"
_CHANGE: Final = "PATCH /{index}/items/{id} changes some of its fields"
_EXPORT: Final = "GET /{index}/items streams all items"
_SOME: Final = "GET /{index}/items?filter=id IN [1, 2] returns several items"
_CHANGE_MATCHES: Final = "POST /{index}/items/update sets fields in what filters match"
_ADD_OR_DELETE: Final = f"{_ADD}; POST /{{index}}/items/delete removes items"
_DELETE_MATCHES: Final = "POST /{index}/items/delete removes what filters match"
_LOAD: Final = "POST /{index}/index loads newline-delimited JSON: items alone, one a line"
_CREATE: Final = "POST /{index}/configuration creates an index; {} is a configuration"
_CONFIGURE: Final = "PATCH /{index}/configuration changes its settings; there is no schema"
_SHOW: Final = "GET /{index}/configuration shows its settings"
_SUMMARY: Final = "GET /{index} says what an index has"
_DROP: Final = "DELETE /{index} removes an index"
_LIST: Final = "GET /_indexes lists the indexes"
_MANY: Final = "POST /_search takes several searches"
_EVERY: Final = "POST /_search takes several searches, each with the name of its index"
_NO_WAIT: Final = "there is nothing to wait for: writes are searchable when they are acknowledged"
_MERGES: Final = "there is nothing to do: segments are merged as needed, writes are on disk"
_PAGES_OF_HITS: Final = "GET /{index}/search?cursor=* begins to page through all hits"
_SIMILAR: Final = "GET /{index}/search?similar_to=7 finds items like item 7"
_EXPLAIN: Final = "GET /{index}/explain?id=7&query=sea says why an item matches"
_SUGGEST: Final = "GET /{index}/suggest completes what is being typed"
_COUNT: Final = "GET /{index}/search?per_page=0 has the number in pagination.total"
_FACETS: Final = "GET /{index}/search counts the values of all facets"
_FACET: Final = "POST /{index}/facet finds values of a facet"
_COPY: Final = "POST /{index}/copy copies an index, items and configuration"
_SWAP: Final = "POST /_aliases points aliases at other indexes, all at once"
_SYNONYMS: Final = "PATCH /{index}/configuration sets synonyms, stop words and rules"
_ANALYTICS: Final = "GET /_analytics has the most frequent searches"
_HEALTH: Final = "GET /_health"
_READY: Final = "GET /_ready says whether all shards serve"
_STATISTICS: Final = "GET /_stats has figures about the service"
_KEYS: Final = "POST /_keys makes an API key, GET /_keys lists them"
_ALIASES: Final = "POST /_aliases sets aliases, GET /_aliases lists them"
_SNAPSHOTS: Final = "POST /_snapshots makes a copy"

_PAGES: Final = (
    # Elasticsearch and OpenSearch
    _Page("", "*/_search", _SEARCH),
    _Page("", "_search", "GET or POST /{index}/search finds items of one index"),
    _Page("", "*/_search/scroll", _PAGES_OF_HITS),
    _Page("", "_search/scroll", _PAGES_OF_HITS),
    _Page("", "*/_pit", _PAGES_OF_HITS),
    _Page("", "_pit", _PAGES_OF_HITS),
    _Page("", "*/_msearch", _MANY),
    _Page("", "_msearch", _MANY),
    _Page("GET", "*/_doc/*", _GET),
    _Page("GET", "*/_source/*", _GET),
    _Page("DELETE", "*/_doc/*", _DELETE),
    _Page("", "*/_doc", _ADD),
    _Page("", "*/_doc/*", _PUT),
    _Page("", "*/_create/*", _PUT),
    _Page("", "*/_update/*", _CHANGE),
    _Page("", "*/_doc/*/_update", _CHANGE),
    _Page("", "*/_mget", _SOME),
    _Page("", "_mget", _SOME),
    _Page("", "*/_bulk", _LOAD),
    _Page("", "_bulk", _LOAD),
    _Page("", "*/_delete_by_query", _DELETE_MATCHES),
    _Page("", "*/_update_by_query", _CHANGE_MATCHES),
    _Page("", "_reindex", _COPY),
    _Page("", "*/_clone/*", _COPY),
    _Page("", "*/_explain/**", _EXPLAIN),
    _Page("", "*/_analyze", _EXPLAIN),
    _Page("", "_analyze", _EXPLAIN),
    _Page("", "*/_suggest", _SUGGEST),
    _Page("", "*/_count", _COUNT),
    _Page("", "*/_refresh", _NO_WAIT),
    _Page("", "*/_flush", _MERGES),
    _Page("", "*/_forcemerge", _MERGES),
    _Page("GET", "*/_mapping", _SUMMARY),
    _Page("GET", "*/_settings", _SHOW),
    _Page("", "*/_mapping", _CONFIGURE),
    _Page("", "*/_settings", _CONFIGURE),
    _Page("", "*/_stats", "GET /{index}/stats has sizes, fields and segments"),
    _Page("", "_cat/**", _LIST),
    _Page("", "_cluster/**", _READY),
    _Page("", "_nodes/**", _STATISTICS),
    _Page("", "_alias/**", _ALIASES),
    _Page("", "*/_alias/**", _ALIASES),
    _Page("", "*/_aliases/**", _ALIASES),
    _Page("", "_tasks/**", _NO_WAIT),
    _Page("", "_snapshot/**", _SNAPSHOTS),
    # Meilisearch
    _Page("GET", "indexes", _LIST),
    _Page("", "indexes", _CREATE),
    _Page("", "indexes/*/search", _SEARCH),
    _Page("", "indexes/*/facet-search", _FACET),
    _Page("", "indexes/*/similar", _SIMILAR),
    _Page("GET", "indexes/*/documents", _EXPORT),
    _Page("DELETE", "indexes/*/documents", _DELETE_MATCHES),
    _Page("PUT", "indexes/*/documents", _CHANGE_MANY),
    _Page("", "indexes/*/documents", _ADD),
    _Page("", "indexes/*/documents/delete", _DELETE_MATCHES),
    _Page("", "indexes/*/documents/delete-batch", _DELETE_MATCHES),
    _Page("", "indexes/*/documents/fetch", _EXPORT),
    _Page("", "indexes/*/documents/edit", _CHANGE_MATCHES),
    _Page("GET", "indexes/*/documents/*", _GET),
    _Page("DELETE", "indexes/*/documents/*", _DELETE),
    _Page("GET", "indexes/*/settings/**", _SHOW),
    _Page("", "indexes/*/settings/**", _CONFIGURE),
    _Page("", "indexes/*/stats", "GET /{index}/stats has sizes, fields and segments"),
    _Page("DELETE", "indexes/*", _DROP),
    _Page("GET", "indexes/*", _SUMMARY),
    _Page("", "indexes/*", _CREATE),
    _Page("", "multi-search", _MANY),
    _Page("", "tasks/**", _NO_WAIT),
    _Page("", "batches/**", _NO_WAIT),
    _Page("", "swap-indexes", _SWAP),
    _Page("", "dumps/**", _SNAPSHOTS),
    _Page("", "snapshots/**", _SNAPSHOTS),
    _Page("", "version", "GET /_health names the version"),
    # Typesense
    _Page("GET", "collections", _LIST),
    _Page("", "collections", _CREATE),
    _Page("", "collections/*/documents/search", _SEARCH),
    _Page("", "collections/*/documents/import", _LOAD),
    _Page("", "collections/*/documents/export", _EXPORT),
    _Page("DELETE", "collections/*/documents", _DELETE_MATCHES),
    _Page("PATCH", "collections/*/documents", _CHANGE_MATCHES),
    _Page("", "collections/*/documents", _ADD),
    _Page("GET", "collections/*/documents/*", _GET),
    _Page("DELETE", "collections/*/documents/*", _DELETE),
    _Page("", "collections/*/documents/*", _CHANGE),
    _Page("", "collections/*/synonyms/**", _SYNONYMS),
    _Page("", "collections/*/overrides/**", _SYNONYMS),
    _Page("", "synonym_sets/**", _SYNONYMS),
    _Page("", "curation_sets/**", _SYNONYMS),
    _Page("", "stopwords/**", _SYNONYMS),
    _Page("", "analytics/rules/**", _ANALYTICS),
    _Page("", "operations/snapshot", _SNAPSHOTS),
    _Page("DELETE", "collections/*", _DROP),
    _Page("GET", "collections/*", _SUMMARY),
    _Page("", "collections/*", _CONFIGURE),
    _Page("", "multi_search", _MANY),
    _Page("", "aliases/**", _ALIASES),
    # several engines
    _Page("", "health", _HEALTH),
    _Page("", "debug", _HEALTH),
    _Page("", "stats", _STATISTICS),
    _Page("", "stats.json", _STATISTICS),
    _Page("", "metrics", "GET /_metrics has figures for Prometheus"),
    _Page("", "metrics.json", "GET /_metrics has figures for Prometheus"),
    _Page("", "keys/**", _KEYS),
    _Page("", "docs", "GET /_docs describes all pages"),
    _Page("", "swagger/**", "GET /_docs describes all pages"),
    _Page("", "openapi.json", "GET /_openapi.json describes all pages"),
    _Page("", "swagger.json", "GET /_openapi.json describes all pages"),
    # habits of REST
    _Page("DELETE", "*/items", "POST /{index}/items/delete removes items by ids or filters"),
    _Page("PUT", "*/items", _ADD),
    _Page("POST", "*/items/batch", _ADD),
    _Page("POST", "*/items/bulk", _ADD),
    _Page("POST", "*/items/partial", _CHANGE_MANY),
    _Page("POST", "*/items/*", _PUT),
    _Page("GET", "*/documents", _EXPORT),
    _Page("DELETE", "*/documents", _DELETE_MATCHES),
    _Page("PATCH", "*/documents", _CHANGE_MANY),
    _Page("", "*/documents", _ADD),
    _Page("GET", "*/documents/*", _GET),
    _Page("DELETE", "*/documents/*", _DELETE),
    _Page("PATCH", "*/documents/*", _CHANGE),
    _Page("", "*/documents/*", _PUT),
    _Page("GET", "*/settings", _SHOW),
    _Page("", "*/settings", _CONFIGURE),
    _Page("GET", "*/count", _COUNT),
    _Page("GET", "*/facets", _FACETS),
    _Page("GET", "*/facet/*", _FACET),
    _Page("GET", "*/fields", _SUMMARY),
    _Page("GET", "*/schema", _SUMMARY),
    _Page("GET", "*/mapping", _SUMMARY),
    _Page("", "*/query", _SEARCH),
    _Page("", "*/autocomplete", _SUGGEST),
    # Solr
    _Page("", "solr/admin/cores", _LIST),
    _Page("", "solr/admin/collections", _LIST),
    _Page("", "solr/admin/**", _STATISTICS),
    _Page("", "solr/*/select", _SEARCH),
    _Page("", "solr/*/query", _SEARCH),
    _Page("", "solr/*/update/**", _ADD_OR_DELETE),
    _Page("", "solr/*/get", _SOME),
    _Page("", "solr/*/mlt", _SIMILAR),
    _Page("", "solr/*/suggest", _SUGGEST),
    _Page("", "solr/*/spell", "GET /{index}/search has the spelling meant in meta.did_you_mean"),
    _Page("", "solr/*/terms", _FACET),
    _Page("", "solr/*/export", _EXPORT),
    _Page("GET", "solr/*/schema/**", _SUMMARY),
    _Page("", "solr/*/schema/**", _CONFIGURE),
    _Page("GET", "solr/*/config/**", _SHOW),
    _Page("", "solr/*/config/**", _CONFIGURE),
    _Page("", "solr/*/admin/ping", _READY),
    _Page("", "solr/*/replication", _SNAPSHOTS),
    _Page("", "*/select", _SEARCH),
    _Page("", "*/update", _ADD_OR_DELETE),
    _Page("PUT", "*", _CREATE),
    _Page("POST", "*", _ADD),
)
"""The first one that fits counts."""
_NAME_CHARS_MAX: Final = 100
"""Of the index, in a message."""


def page_instead(method: str, segments: Sequence[str]) -> str | None:
    """Return what to request here instead of a page of another engine; None for unknown pages.

    Args:
        method: of the request.
        segments: of its path, decoded.
    """
    if segments[0] in (ALL_INDEXES, "_all") and "search" in segments[-1]:
        return _EVERY
    for page in _PAGES:
        index = _fitting(page.path.split("/"), segments)
        if index is not None and (not page.methods or method in page.methods.split()):
            return page.instead.replace("{index}", index[:_NAME_CHARS_MAX] or "{index}")
    return None


def _fitting(parts: Sequence[str], segments: Sequence[str]) -> str | None:
    """Return the index that a path names, empty if it names none; None if it does not fit."""
    has_end = parts[-1] == "**"
    fixed = parts[:-1] if has_end else parts
    if len(segments) < len(fixed) or (len(segments) > len(fixed) and not has_end):
        return None
    pairs = list(zip(fixed, segments, strict=False))
    if not all(part in ("*", one) for part, one in pairs):
        return None
    index = next((one for part, one in pairs if part == "*"), "")
    return None if index and is_reserved(index) else index
