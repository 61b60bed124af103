"""Typesense: the export of a collection (one document per line) and its schema.

FILE with --settings SCHEMA.json        as returned by GET /collections/NAME
http://host:8108/collections/NAME       fetches both, with --source-key
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import unquote

from common.option_forms import parse_language
from coordinator.cli.importers.imported import (
    ImportedIndex,
    fetch,
    fetch_object,
    object_of,
    read_items,
    read_object,
    sampled,
)
from coordinator.cli.sources.fetching import is_url
from coordinator.cli.sources.source import SourceError

_TEXTS: Final = ("string", "string[]", "string*")
_LISTS: Final = ("synonyms", "overrides")
_KNOWN: Final = (*_LISTS, "name", "fields", "num_documents", "created_at", "num_memory_shards")

_OVERRIDE_PARTS: Final = (
    *("id", "rule", "includes", "excludes"),
    *("effective_from_ts", "effective_to_ts", "filter_curated_hits", "stop_processing"),
)


def read(name: str, settings: str | None, key: str | None) -> list[ImportedIndex]:
    """Read an export, or fetch a collection."""
    if not is_url(name):
        schema = read_object(settings) if settings else {}
        return [_collection(schema, read_items(name), is_open=not settings)]
    url = name.rstrip("/")
    headers = {} if key is None else {"X-TYPESENSE-API-KEY": key}
    schema = read_object(settings) if settings else fetch_object(url, headers)

    def documents() -> Iterator[dict[str, Any]]:
        for number, line in enumerate(fetch(f"{url}/documents/export", headers), 1):
            if line.strip():
                yield object_of(line, f"{url}/documents/export, line {number}")

    for part in _LISTS:
        if part not in schema:
            try:
                schema[part] = fetch_object(f"{url}/{part}", headers).get(part, [])
            except SourceError:
                schema[part] = None
    schema.setdefault("name", unquote(url.rpartition("/")[2]))
    return [_collection(schema, documents())]


def _collection(
    schema: dict[str, Any], documents: Iterable[dict[str, Any]], *, is_open: bool = False
) -> ImportedIndex:
    """Return a collection, with its schema converted to a configuration.

    Args:
        schema: as returned by GET /collections/NAME, with synonyms and overrides.
        documents: all of them.
        is_open: whether there is no schema, so that facets are proposed.
    """
    sample, documents = sampled(documents)

    def items() -> Iterator[dict[str, Any]]:
        for document in documents:
            yield imported.with_id(document, document.get("id"), "id")

    imported = ImportedIndex(str(schema.get("name") or ""), items, is_open=is_open)
    if is_open:
        imported.notes.append("schema: none was given (--settings FILE)")
        imported.find_points(sample)
    configuration, notes = imported.configuration, imported.notes
    fields = [one for one in schema.get("fields") or [] if isinstance(one, dict)]
    facets, texts, sorted_fields, nested = {}, [], [], []
    for one in fields:
        path, kind = str(one.get("name", "")), str(one.get("type", ""))
        if "*" in path:
            notes.append(f"fields.{path}: name the fields that it stands for")
            continue
        if one.get("facet"):
            facets[path] = {"conjunction": kind.endswith("[]")}
        if kind in _TEXTS and one.get("index", True):
            texts.append(path)
        if one.get("sort") and kind == "string":
            sorted_fields.append(path)
        if kind == "object[]":
            nested.append(path)
        if kind.startswith("geopoint"):
            configuration.setdefault("geo_fields", []).append(path)
        if one.get("locale"):
            language = parse_language(one["locale"])
            if language is None:
                notes.append(f"fields.{path}.locale {one['locale']}: is no language here")
            elif kind in _TEXTS:
                configuration.setdefault("field_languages", {})[path] = language
        if kind == "geopolygon":
            notes.append(f"fields.{path}: areas are kept, and not searched; points are")
        if one.get("infix"):
            configuration.setdefault("infix", []).append(path)
        for option in (
            *("embed", "reference", "stem", "stem_dictionary", "num_dim"),
            *("token_separators", "symbols_to_index"),
        ):
            if one.get(option):
                notes.append(f"fields.{path}.{option}: has no equivalent here, left out")
    if facets:
        configuration["aggregations"] = facets
    if texts:
        configuration["searchable_fields"] = texts
        notes.append("query_by and query_by_weights: are searchable_fields here, with weights: a^3")
    if sorted_fields:
        configuration["sorting_fields"] = sorted_fields
    if nested:
        configuration["nested"] = nested
    _convert_synonyms(schema, imported)
    _convert_overrides(schema, imported)
    if schema.get("default_sorting_field"):
        notes.append(
            f"default_sorting_field: search with sort={schema['default_sorting_field']}:desc"
        )
    imported.note_rest(schema, (*_KNOWN, "default_sorting_field", "enable_nested_fields"))
    return imported


def _convert_synonyms(schema: dict[str, Any], imported: ImportedIndex) -> None:
    """Convert the synonyms of a collection, in the form of GET /collections/NAME/synonyms."""
    found = schema.get("synonyms", ())
    if found is None:
        imported.notes.append("synonyms: the service has not given them; see synonyms here")
        return
    rules: list[Any] = []
    for one in found if isinstance(found, list) else ():
        words = one.get("synonyms") if isinstance(one, dict) else None
        if not isinstance(words, list) or not words:
            continue
        rules.append({"from": one["root"], "to": words} if one.get("root") else words)
    if rules:
        imported.configuration["synonyms"] = rules


def _convert_overrides(schema: dict[str, Any], imported: ImportedIndex) -> None:
    """Convert what is curated, in the form of GET /collections/NAME/overrides, to rules."""
    found = schema.get("overrides", ())
    if found is None:
        imported.notes.append("overrides: the service has not given them; see rules here")
        return
    rules: list[dict[str, Any]] = []
    for one in found if isinstance(found, list) else ():
        if not isinstance(one, dict) or not isinstance(one.get("rule"), dict):
            continue
        name = f"overrides.{one.get('id', len(rules))}"
        condition = one["rule"]
        left_out = [f"rule.{part}" for part in condition if part not in ("query", "match")]
        left_out += [part for part in one if part not in _OVERRIDE_PARTS and one[part]]
        imported.notes += [f"{name}.{part}: has no equivalent here, left out" for part in left_out]
        if "query" not in condition or any(part.startswith("rule.") for part in left_out):
            imported.notes.append(f"{name}: left out, its condition is not only a query")
            continue
        match = "contains" if condition.get("match") == "contains" else "is"
        when: dict[str, Any] = {"query": {match: condition["query"]}}
        for member, timestamp in (("from", "effective_from_ts"), ("until", "effective_to_ts")):
            if one.get(timestamp):
                when[member] = datetime.fromtimestamp(one[timestamp], UTC).isoformat()
        pinned = [{"id": pin["id"], "position": pin["position"]} for pin in one.get("includes", ())]
        hidden = [hit["id"] for hit in one.get("excludes", ())]
        parts = {part: value for part, value in (("pin", pinned), ("hide", hidden)) if value}
        if parts:
            rules.append({"name": str(one.get("id", "")), "when": when, **parts})
    if rules:
        imported.configuration["rules"] = rules
