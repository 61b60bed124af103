"""Typesense: the export of a collection (one document per line) and its schema.

FILE with --settings SCHEMA.json        as returned by GET /collections/NAME
http://host:8108/collections/NAME       fetches both, with --source-key
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import quote, unquote

from common.search_option_parsers import parse_language
from coordinator.cli.importers.export_reading import (
    converting,
    fetch,
    fetch_object,
    object_of,
    read_items,
    read_object,
    sampled,
)
from coordinator.cli.importers.imported_index import ImportedIndex
from coordinator.cli.sources.source import SourceError
from coordinator.cli.sources.url_fetching import is_url

_TEXTS: Final = ("string", "string[]", "string*")

_SETS: Final = {"synonyms": "synonym_sets", "overrides": "curation_sets"}
"""A collection has lists until Typesense 29; since Typesense 30 it names sets that hold them."""

_KNOWN: Final = (
    *(*_SETS, *_SETS.values()),
    *("name", "fields", "num_documents", "created_at", "num_memory_shards"),
    *("default_sorting_field", "enable_nested_fields"),
)

_OVERRIDE_PARTS: Final = (
    *("id", "rule", "includes", "excludes", "metadata"),
    *("effective_from_ts", "effective_to_ts", "filter_curated_hits", "stop_processing"),
)

_OVERRIDES_HERE: Final = {
    "filter_by": "is the rule's filter here, as an expression: brand = Nike AND price < 100",
    "rule.filter_by": "is the rule's when.filters here",
    "sort_by": "is the sort of the request here",
}


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

    _fetch_lists(schema, url, headers)
    schema.setdefault("name", unquote(url.rpartition("/")[2]))
    return [_collection(schema, documents())]


def _fetch_lists(schema: dict[str, Any], url: str, headers: dict[str, str]) -> None:
    """Complete a schema: fetch the sets that it names, else the lists of its collection.

    Args:
        schema: to complete; a list or set that cannot be had becomes None.
        url: of the collection.
        headers: of every request.
    """
    service = url.rpartition("/collections/")[0]
    for part, sets in _SETS.items():
        names = schema.get(sets)
        if isinstance(names, list) and names:
            schema[sets] = [
                _fetched(f"{service}/{sets}/{quote(one, safe='')}", headers)
                if isinstance(one, str)
                else one
                for one in names
            ]
        elif part not in schema:
            found = _fetched(f"{url}/{part}", headers)
            schema[part] = None if found is None else found.get(part, [])


def _fetched(url: str, headers: dict[str, str]) -> dict[str, Any] | None:
    """Fetch an object; None: the service does not give it."""
    try:
        return fetch_object(url, headers)
    except SourceError:
        return None


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
    with converting(f"the schema of {imported.name or 'the collection'}"):
        _convert_fields(schema.get("fields") or [], imported)
        _convert_synonyms(schema, imported)
        _convert_overrides(schema, imported)
    if schema.get("default_sorting_field"):
        imported.notes.append(
            f"default_sorting_field: search with sort={schema['default_sorting_field']}:desc"
        )
    imported.note_rest(schema, _KNOWN)
    return imported


def _convert_fields(fields: Iterable[Any], imported: ImportedIndex) -> None:
    """Convert the fields of a schema to facets, searchable fields, orders, points and languages."""
    facets: dict[str, Any] = {}
    lists: dict[str, list[str]] = {}
    for one in fields:
        if not isinstance(one, dict):
            continue
        path, kind = str(one.get("name", "")), str(one.get("type", ""))
        if "*" in path:
            imported.notes.append(f"fields.{path}: name the fields that it stands for")
            continue
        if one.get("facet"):
            facets[path] = {"conjunction": kind.endswith("[]")}
        for member, holds in (
            ("searchable_fields", kind in _TEXTS and one.get("index", True)),
            ("sorting_fields", kind == "string" and one.get("sort")),
            ("nested", kind == "object[]"),
            ("geo_fields", kind.startswith("geopoint")),
            ("infix", one.get("infix")),
        ):
            if holds:
                lists.setdefault(member, []).append(path)
        if one.get("num_dim") or one.get("embed"):
            imported.vector_fields.append(path)
            imported.notes.append(f"fields.{path}: embeddings have no equivalent here, left out")
        locale = one.get("locale") or ("en" if one.get("stem") else None)  # as Typesense stems
        if locale:
            _convert_locale(path, locale, imported, is_text=kind in _TEXTS)
        if kind == "geopolygon":
            imported.notes.append(f"fields.{path}: areas are kept, and not searched; points are")
        for option in (
            *("reference", "stem_dictionary"),
            *("token_separators", "symbols_to_index"),
        ):
            if one.get(option):
                imported.notes.append(f"fields.{path}.{option}: has no equivalent here, left out")
    if facets:
        imported.configuration["aggregations"] = facets
    imported.configuration.update(lists)
    if "searchable_fields" in lists:
        imported.notes.append(
            "query_by and query_by_weights: are searchable_fields here, with weights: a^3"
        )


def _convert_locale(path: str, locale: object, imported: ImportedIndex, *, is_text: bool) -> None:
    """Convert the locale of a field to its language."""
    language = parse_language(locale)
    if language is None:
        imported.notes.append(f"fields.{path}.locale {locale}: is not a language here")
    elif is_text:
        imported.configuration.setdefault("field_languages", {})[path] = language


def _listed(schema: dict[str, Any], part: str) -> list[dict[str, Any]]:
    """Return the synonyms or overrides of a collection: its own, and those of the sets it names."""
    own = schema.get(part)
    sets = schema.get(_SETS[part])
    found = list(own) if isinstance(own, list) else []
    for one in sets if isinstance(sets, list) else ():
        items = one.get("items") if isinstance(one, dict) else None
        found += items if isinstance(items, list) else []
    return [one for one in found if isinstance(one, dict)]


def _note_missing(schema: dict[str, Any], part: str, ours: str, imported: ImportedIndex) -> None:
    """Note lists and sets of a collection that the service or the file has not given."""
    if part in schema and schema[part] is None:
        imported.notes.append(f"{part}: the service has not given them; see {ours} here")
    sets = schema.get(_SETS[part])
    if isinstance(sets, list) and not all(isinstance(one, dict) for one in sets):
        imported.notes.append(f"{_SETS[part]}: not given with their items; see {ours} here")


def _convert_synonyms(schema: dict[str, Any], imported: ImportedIndex) -> None:
    """Convert the synonyms of a collection."""
    _note_missing(schema, "synonyms", "synonyms", imported)
    rules: list[Any] = []
    for one in _listed(schema, "synonyms"):
        words = one.get("synonyms")
        if not isinstance(words, list) or not words:
            continue
        rules.append({"from": one["root"], "to": words} if one.get("root") else words)
    if rules:
        imported.configuration["synonyms"] = rules


def _convert_overrides(schema: dict[str, Any], imported: ImportedIndex) -> None:
    """Convert what is curated to rules."""
    _note_missing(schema, "overrides", "rules", imported)
    rules: list[dict[str, Any]] = []
    for one in _listed(schema, "overrides"):
        if not isinstance(one.get("rule"), dict):
            continue
        name = f"overrides.{one.get('id', len(rules))}"
        condition = one["rule"]
        left_out = [f"rule.{part}" for part in condition if part not in ("query", "match")]
        left_out += [part for part in one if part not in _OVERRIDE_PARTS and one[part]]
        imported.notes += [
            f"{name}.{part}: {_OVERRIDES_HERE.get(part, 'has no equivalent here, left out')}"
            for part in left_out
        ]
        if "{" in str(condition.get("query", "")):
            imported.notes.append(f"{name}: left out, its query stands for any value of a field")
            continue
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
        does = {"pin": pinned, "hide": hidden, "data": one.get("metadata")}
        parts = {part: value for part, value in does.items() if value}
        if parts:
            rules.append({"name": str(one.get("id", "")), "when": when, **parts})
    if rules:
        imported.configuration["rules"] = rules
