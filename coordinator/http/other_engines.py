"""Pages of other engines, and which of ours serves instead (pure).

Elasticsearch and OpenSearch, Meilisearch, Typesense, Solr; and what people guess. A client that
sends one of their requests is told ours, with the name of its index in it. Algolia's protocol is
served (`coordinator/algolia`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from coordinator.http.index_names import is_reserved


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
_CHANGE: Final = "PATCH /{index}/items/{id} changes some of its fields"
_EXPORT: Final = "GET /{index}/items streams all items"
_DELETE_MATCHES: Final = "POST /{index}/items/delete removes what filters match"
_LOAD: Final = "POST /{index}/index loads newline-delimited JSON: items alone, one a line"
_CREATE: Final = "POST /{index}/configuration creates an index; {} is a configuration"
_CONFIGURE: Final = "PATCH /{index}/configuration changes its settings; there is no schema"
_SHOW: Final = "GET /{index}/configuration shows its settings"
_SUMMARY: Final = "GET /{index} says what an index has"
_DROP: Final = "DELETE /{index} removes an index"
_LIST: Final = "GET /_indexes lists the indexes"
_MANY: Final = "POST /_search takes several searches"
_NO_WAIT: Final = "there is nothing to wait for: writes are searchable when they are acknowledged"
_READY: Final = "GET /_ready says whether all shards serve"
_STATISTICS: Final = "GET /_stats has figures about the service"
_KEYS: Final = "POST /_keys makes an API key, GET /_keys lists them"
_ALIASES: Final = "POST /_aliases sets aliases"
_SNAPSHOTS: Final = "POST /_snapshots makes a copy"

_PAGES: Final = (
    # Elasticsearch and OpenSearch
    _Page("", "*/_search", _SEARCH),
    _Page("", "*/_msearch", _MANY),
    _Page("", "_msearch", _MANY),
    _Page("GET", "*/_doc/*", _GET),
    _Page("GET", "*/_source/*", _GET),
    _Page("DELETE", "*/_doc/*", _DELETE),
    _Page("", "*/_doc", _ADD),
    _Page("", "*/_doc/*", _PUT),
    _Page("", "*/_create/*", _PUT),
    _Page("", "*/_update/*", _CHANGE),
    _Page("", "*/_bulk", _LOAD),
    _Page("", "_bulk", _LOAD),
    _Page("", "*/_delete_by_query", _DELETE_MATCHES),
    _Page("", "*/_count", "GET /{index}/search?per_page=0 has the number in pagination.total"),
    _Page("", "*/_refresh", _NO_WAIT),
    _Page("GET", "*/_mapping", _SUMMARY),
    _Page("GET", "*/_settings", _SHOW),
    _Page("", "*/_mapping", _CONFIGURE),
    _Page("", "*/_settings", _CONFIGURE),
    _Page("", "*/_stats", "GET /{index}/stats has sizes, fields and segments"),
    _Page("", "_cat/**", _LIST),
    _Page("", "_cluster/**", _READY),
    _Page("", "_nodes/**", _STATISTICS),
    _Page("", "_alias/**", _ALIASES),
    _Page("", "_snapshot/**", _SNAPSHOTS),
    # Meilisearch
    _Page("GET", "indexes", _LIST),
    _Page("", "indexes", _CREATE),
    _Page("", "indexes/*/search", _SEARCH),
    _Page("", "indexes/*/facet-search", "POST /{index}/facet"),
    _Page("GET", "indexes/*/documents", _EXPORT),
    _Page("DELETE", "indexes/*/documents", _DELETE_MATCHES),
    _Page("", "indexes/*/documents", _ADD),
    _Page("", "indexes/*/documents/delete", _DELETE_MATCHES),
    _Page("", "indexes/*/documents/delete-batch", _DELETE_MATCHES),
    _Page("", "indexes/*/documents/fetch", _EXPORT),
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
    _Page("", "collections/*/documents", _ADD),
    _Page("GET", "collections/*/documents/*", _GET),
    _Page("DELETE", "collections/*/documents/*", _DELETE),
    _Page("", "collections/*/documents/*", _CHANGE),
    _Page("DELETE", "collections/*", _DROP),
    _Page("GET", "collections/*", _SUMMARY),
    _Page("", "collections/*", _CONFIGURE),
    _Page("", "multi_search", _MANY),
    _Page("", "aliases/**", _ALIASES),
    # several engines
    _Page("", "health", "GET /_health"),
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
    _Page("DELETE", "*/items", "POST /{index}/items/delete removes what filters match"),
    # Solr
    _Page("", "solr/*/select", _SEARCH),
    _Page("", "solr/*/update/**", _ADD),
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
