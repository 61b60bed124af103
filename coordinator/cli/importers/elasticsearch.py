"""Elasticsearch and OpenSearch: an index over scroll, or files by elasticdump, _search or _bulk.

http://host:9200/NAME     fetches mapping and documents (--source-key USER:PASSWORD or a key)
FILE                      {"hits":{"hits":[…]}}, or lines of {"_id":…,"_source":…}, or a _bulk
                          body; with --settings MAPPING.json as returned by GET /NAME/_mapping
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any, Final
from urllib.parse import unquote

from common.search_option_parsers import LANGUAGES
from coordinator.cli.importers.export_reading import (
    converting,
    fetch_object,
    read_items,
    read_object,
    sampled,
)
from coordinator.cli.importers.imported_index import ImportedIndex
from coordinator.cli.sources.source import SourceError
from coordinator.cli.sources.url_fetching import basic_authorization, is_url, split_url

PAGE: Final = 1_000
_PLAIN: Final = frozenset(
    (
        *("long", "integer", "short", "byte", "double", "float", "half_float", "scaled_float"),
        *("unsigned_long", "date", "date_nanos", "ip", "version", "object", "flattened", "binary"),
        "wildcard",
    )
)
"""Types whose values need no configuration."""
_VECTORS: Final = ("dense_vector", "knn_vector", "sparse_vector", "rank_features")
"""Types of embeddings, and of weights of words, which are left out."""
_LOST: Final = {
    "copy_to": "name all fields to search in searchable_fields",
    "normalizer": "values of a facet are as they were sent",
    "null_value": "a missing value stays missing",
    "search_analyzer": "queries are analysed like items",
    "similarity": "all fields are ranked by BM25",
}
"""Options of a field without an equivalent, with what holds here."""
_DYNAMIC: Final = {"keyword": {"type": "keyword", "ignore_above": 256}}
"""The subfield that dynamic mapping gives to every string."""


def read(name: str, settings: str | None, key: str | None) -> list[ImportedIndex]:
    """Read a file, or fetch an index."""
    if not is_url(name):
        mapping = read_object(settings) if settings else None
        return [_index("", mapping, _hits_of_file(name))]
    url = name.rstrip("/")
    parts = split_url(url)
    headers = _authorization(key)
    root = f"{parts.scheme}://{parts.netloc}{parts.path.rpartition('/')[0]}"
    index = unquote(parts.path.rpartition("/")[2])
    if not index:
        raise SourceError(f"name the index in the address: {url}/NAME")
    mapping = read_object(settings) if settings else fetch_object(f"{url}/_mapping", headers)
    return [_index(index, mapping, _scroll(url, root, headers))]


def _authorization(key: str | None) -> dict[str, str]:
    """Return the header for `user:password` or an API key."""
    if key is None:
        return {}
    return basic_authorization(key) if ":" in key else {"Authorization": f"ApiKey {key}"}


def _scroll(url: str, root: str, headers: dict[str, str]) -> Iterator[dict[str, Any]]:
    """Yield all hits of an index, as of one moment."""
    page = fetch_object(
        f"{url}/_search?scroll=2m", headers, {"size": PAGE, "sort": ["_doc"]}, "POST"
    )
    scroll_id = page.get("_scroll_id")
    try:
        while hits := _complete(page, url).get("hits"):
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
            with suppress(SourceError):  # it ends by itself, two minutes later
                fetch_object(f"{root}/_search/scroll", headers, {"scroll_id": scroll_id}, "DELETE")


def _complete(answer: dict[str, Any], source: str) -> dict[str, Any]:
    """Return the member `hits` of an answer of _search.

    Raises:
        SourceError: the answer lacks the hits of a shard that failed.
    """
    shards = answer.get("_shards") or {}
    if shards.get("failed") or answer.get("timed_out"):
        failed = f"{shards.get('failed', 0)} of {shards.get('total', '?')} shards failed"
        raise SourceError(
            f"{source}: {failed if shards.get('failed') else 'the search timed out'}, so hits are "
            "missing; import it when its cluster is healthy"
        )
    hits = answer.get("hits")
    return hits if isinstance(hits, dict) else {}


def _hits_of_file(name: str) -> Iterator[dict[str, Any]]:
    """Yield hits from a file in any of the supported forms."""
    action: dict[str, Any] | None = None
    num_paged = total = 0
    for one in read_items(name):
        if action is not None:  # the line after an action of _bulk
            yield {**action, "_source": one}
            action = None
        elif isinstance(one.get("hits"), dict):
            hits = _complete(one, name)
            found = hits.get("hits") or []
            yield from found
            num_paged += len(found)
            total = max(total, _total(hits))
        elif "_source" in one:
            yield one
        elif len(one) == 1 and next(iter(one)) in ("index", "create"):
            first = next(iter(one.values()))
            action = first if isinstance(first, dict) else {}
        else:
            raise SourceError(
                f'{name}: {str(one)[:80]} is not a hit; lines are {{"_id": …, "_source": {{…}}}}, '
                "a _bulk body, or the answer of _search; plain items are for facetd load"
            )
    if num_paged < total:
        raise SourceError(
            f"{name} has {num_paged:,} of at least {total:,} hits, a page of a search; export all "
            "of them with elasticdump, or import from the address of the index"
        )


def _total(hits: dict[str, Any]) -> int:
    """Return how many hits a search has, at least."""
    total = hits.get("total")
    number = total.get("value") if isinstance(total, dict) else total
    if not isinstance(number, int):
        return 0
    is_lower_bound = isinstance(total, dict) and total.get("relation") == "gte"
    return number + is_lower_bound


def _index(
    name: str, mapping: dict[str, Any] | None, hits: Iterable[dict[str, Any]]
) -> ImportedIndex:
    """Return an index, with its mapping converted to a configuration.

    Args:
        name: of the index; "" if the source does not say it.
        mapping: as returned by GET /NAME/_mapping; None: there is none.
        hits: all of them.
    """
    sample, hits = sampled(hits)

    def items() -> Iterator[dict[str, Any]]:
        for hit in hits:
            source = _source(hit)
            if "_id" in hit:
                yield imported.with_id(source, hit["_id"], "_id")
            else:
                yield imported.converted(source)

    imported = ImportedIndex(name, items, has_longitude_first=True)
    with converting(f"the mapping of {name or 'the index'}"):
        properties = _properties(mapping or {})
        _convert(properties, imported)
    if not properties:
        imported.is_open = True
        missing = "none was given (--settings FILE)" if mapping is None else "it names no fields"
        imported.notes.append(f"mapping: {missing}")
        imported.find_points(map(_source, sample))
    return imported


def _source(hit: dict[str, Any]) -> dict[str, Any]:
    """Return the document of a hit."""
    source = hit.get("_source")
    if not isinstance(source, dict):
        raise SourceError(f"a hit has no _source: {str(hit)[:80]}")
    return source


def _convert(properties: dict[str, Any], imported: ImportedIndex) -> None:
    """Convert the fields of a mapping to a configuration; note what has no equivalent."""
    facets: dict[str, Any] = {}
    texts: list[str] = []
    dynamic: list[str] = []
    _walk(properties, "", facets, texts, dynamic, imported)
    for target in _copy_targets(properties):  # no item has them
        facets.pop(target, None)
        texts = [path for path in texts if path != target]
    if facets:
        imported.configuration["aggregations"] = facets
    if texts:
        imported.configuration["searchable_fields"] = list(dict.fromkeys(texts))
    if dynamic:
        imported.is_open = True
        imported.notes.append(
            f"{', '.join(dict.fromkeys(dynamic))}: mapped dynamically (text with a keyword); "
            "facets are proposed from the items"
        )


def _copy_targets(properties: dict[str, Any]) -> set[str]:
    """Return the fields that the engine fills from others, which no source of a hit has."""
    targets: set[str] = set()
    for field in properties.values():
        named = field.get("copy_to", ())
        targets.update([named] if isinstance(named, str) else named)
        targets |= _copy_targets(field.get("properties", {}))
    return targets


def _properties(mapping: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of all indexes in a mapping, also of those with types (before 7)."""
    members = [mapping] if {"mappings", "properties"} & mapping.keys() else mapping.values()
    properties: dict[str, Any] = {}
    for one in members:
        inner = one.get("mappings", one) if isinstance(one, dict) else {}
        typed = inner.values() if isinstance(inner, dict) and "properties" not in inner else [inner]
        for body in typed:
            found = body.get("properties") if isinstance(body, dict) else None
            properties |= found if isinstance(found, dict) else {}
    return properties


def _walk(
    properties: dict[str, Any],
    prefix: str,
    facets: dict[str, Any],
    texts: list[str],
    dynamic: list[str],
    imported: ImportedIndex,
) -> None:
    """Convert the fields of a mapping.

    Args:
        properties: the fields, of a mapping or of an object.
        prefix: of their paths.
        facets: what is configured as a facet, added to.
        texts: what is searched, added to.
        dynamic: texts of which the mapping does not say whether they are facets, added to.
        imported: takes the rest.
    """
    configuration, notes = imported.configuration, imported.notes
    for name, field in properties.items():
        path = f"{prefix}{name}"
        if not isinstance(field, dict):
            raise SourceError(f"the mapping of {path} is not an object: {str(field)[:80]}")
        kind = field.get("type", "object")
        if kind in _VECTORS:
            imported.vector_fields.append(path)
            notes.append(
                f"{path}: the type {kind!r} has no equivalent here; its values are left out"
            )
            continue
        notes += [f"{path}: {name}: {here}" for name, here in _LOST.items() if field.get(name)]
        if kind == "nested":
            configuration.setdefault("nested", []).append(path)
        if "properties" in field:
            _walk(field["properties"], f"{path}.", facets, texts, dynamic, imported)
            continue
        has_keyword = any(one.get("type") == "keyword" for one in field.get("fields", {}).values())
        if kind == "text" and field.get("fields") == _DYNAMIC:
            dynamic.append(path)
        elif kind in ("keyword", "constant_keyword", "boolean") or (kind == "text" and has_keyword):
            facets[path] = {"conjunction": False}
        if kind in ("text", "search_as_you_type", "match_only_text"):
            if field.get("index") is False:
                continue
            texts.append(path)
            others = [one.get("analyzer") for one in field.get("fields", {}).values()]
            if any(others):
                listed = ", ".join(filter(None, others))
                notes.append(f"{path}: has subfields with the analyzers {listed}; it has one here")
            analyzer = field.get("analyzer")
            if analyzer in LANGUAGES.values():
                configuration.setdefault("field_languages", {})[path] = analyzer
            elif analyzer not in (None, "standard", "default", "simple"):
                notes.append(f"{path}: the analyzer {analyzer!r} has no equivalent here")
        elif kind == "geo_point":
            configuration.setdefault("geo_fields", []).append(path)
        elif kind not in _PLAIN and path not in facets and kind != "nested":
            notes.append(f"{path}: the type {kind!r} has no equivalent here; its values are kept")
