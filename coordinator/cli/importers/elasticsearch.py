"""Elasticsearch and OpenSearch: an index over scroll, or files by elasticdump, _search or _bulk.

http://host:9200/NAME     fetches mapping and documents (--source-key USER:PASSWORD or a key)
FILE                      {"hits":{"hits":[…]}}, or lines of {"_id":…,"_source":…}, or a _bulk
                          body; with --settings MAPPING.json as returned by GET /NAME/_mapping
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from common.option_forms import LANGUAGES
from coordinator.cli.importers.imported import (
    ImportedIndex,
    fetch_object,
    read_items,
    read_object,
)
from coordinator.cli.sources.opening import is_url
from coordinator.cli.sources.source import SourceError

PAGE: Final = 1_000
_PLAIN: Final = frozenset(
    (
        *("long", "integer", "short", "byte", "double", "float", "half_float", "scaled_float"),
        *("unsigned_long", "date", "date_nanos", "ip", "version", "object", "flattened", "binary"),
    )
)
"""Types whose values need no configuration."""


def read(name: str, settings: str | None, key: str | None) -> list[ImportedIndex]:
    """Read a file, or fetch an index."""
    if not is_url(name):
        mapping = read_object(settings) if settings else {}
        return [_index("", mapping, lambda: _hits_of_file(name))]
    url = name.rstrip("/")
    parts = urlsplit(url)
    headers = _authorization(key)
    mapping = read_object(settings) if settings else fetch_object(f"{url}/_mapping", headers)
    root = f"{parts.scheme}://{parts.netloc}{parts.path.rpartition('/')[0]}"
    index = unquote(parts.path.rpartition("/")[2])
    if not index:
        raise SourceError(f"name the index in the address: {url}/NAME")
    return [_index(index, mapping, lambda: _scroll(url, root, headers))]


def _authorization(key: str | None) -> dict[str, str]:
    """Return the header for `user:password` or an API key."""
    if key is None:
        return {}
    if ":" in key:
        return {"Authorization": f"Basic {base64.b64encode(key.encode()).decode()}"}
    return {"Authorization": f"ApiKey {key}"}


def _scroll(url: str, root: str, headers: dict[str, str]) -> Iterator[dict[str, Any]]:
    """Yield all hits of an index, as of one moment."""
    page = fetch_object(
        f"{url}/_search?scroll=2m", headers, {"size": PAGE, "sort": ["_doc"]}, "POST"
    )
    scroll_id = page.get("_scroll_id")
    try:
        while hits := (page.get("hits") or {}).get("hits"):
            yield from hits
            page = fetch_object(
                f"{root}/_search/scroll",
                headers,
                {"scroll": "2m", "scroll_id": scroll_id},
                "POST",
            )
            scroll_id = page.get("_scroll_id", scroll_id)
    finally:
        if scroll_id:
            fetch_object(f"{root}/_search/scroll", headers, {"scroll_id": scroll_id}, "DELETE")


def _hits_of_file(name: str) -> Iterator[dict[str, Any]]:
    """Yield hits from a file in any of the supported forms."""
    action: dict[str, Any] | None = None
    for one in read_items(name):
        if action is not None:  # the line after an action of _bulk
            yield {**action, "_source": one}
            action = None
        elif isinstance(one.get("hits"), dict):
            yield from one["hits"].get("hits") or []
        elif "_source" in one:
            yield one
        elif len(one) == 1 and next(iter(one)) in ("index", "create"):
            found = next(iter(one.values()))
            action = found if isinstance(found, dict) else {}
        else:
            raise SourceError(
                f'{name}: {str(one)[:80]} is no hit; lines are {{"_id": …, "_source": {{…}}}}, a '
                "_bulk body, or the answer of _search"
            )


def _index(name: str, mapping: dict[str, Any], hits: Callable[[], Any]) -> ImportedIndex:
    """Return an index, with its mapping converted to a configuration."""

    def items() -> Iterator[dict[str, Any]]:
        for hit in hits():
            source = hit.get("_source")
            if not isinstance(source, dict):
                raise SourceError(f"a hit has no _source: {str(hit)[:80]}")
            if "_id" in hit:
                yield imported.with_id(source, hit["_id"], "_id")
            else:
                yield imported.with_points(source)

    imported = ImportedIndex(name, items, has_longitude_first=True)
    found = mapping
    if "mappings" not in found and len(found) >= 1:
        inner = next(iter(found.values()))  # {"<index>": {"mappings": …}}
        found = inner if isinstance(inner, dict) else {}
    properties = (found.get("mappings") or found).get("properties") or {}
    facets: dict[str, Any] = {}
    texts: list[str] = []
    _walk(properties, "", facets, texts, imported)
    if facets:
        imported.configuration["aggregations"] = facets
    if texts:
        imported.configuration["searchable_fields"] = texts
    return imported


def _walk(
    properties: dict[str, Any],
    prefix: str,
    facets: dict[str, Any],
    texts: list[str],
    imported: ImportedIndex,
) -> None:
    """Convert the fields of a mapping."""
    configuration, notes = imported.configuration, imported.notes
    for name, field in properties.items():
        path = f"{prefix}{name}"
        kind = field.get("type", "object")
        if kind == "nested":
            configuration.setdefault("nested", []).append(path)
        if "properties" in field:
            _walk(field["properties"], f"{path}.", facets, texts, imported)
            continue
        has_keyword = any(one.get("type") == "keyword" for one in field.get("fields", {}).values())
        if kind in ("keyword", "constant_keyword", "boolean") or (kind == "text" and has_keyword):
            facets[path] = {"conjunction": False}
        if kind in ("text", "search_as_you_type", "match_only_text"):
            texts.append(path)
            analyzer = field.get("analyzer")
            if analyzer in LANGUAGES.values():
                configuration.setdefault("field_languages", {})[path] = analyzer
            elif analyzer not in (None, "standard", "default", "simple"):
                notes.append(f"{path}: the analyzer {analyzer!r} has no equivalent here")
        elif kind == "geo_point":
            configuration.setdefault("geo_fields", []).append(path)
        elif kind not in _PLAIN and path not in facets and kind != "nested":
            notes.append(f"{path}: the type {kind!r} has no equivalent here; its values are kept")
