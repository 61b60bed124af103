"""Exports of other engines, as files."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path
from typing import Any

from common.index_configuration_parser import parse_configuration
from common.limits import DEFAULT_LIMITS
from coordinator.cli.importers.imported_index import ImportedIndex


def valid(one: ImportedIndex) -> dict[str, Any]:
    """Return the configuration; it must be one that we take without a warning."""
    _, warnings = parse_configuration(one.configuration, DEFAULT_LIMITS)
    assert warnings == []
    return one.configuration


def write(path: Path, document: Any) -> str:
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    return str(path)


def dump(path: Path, indexes: dict[str, tuple[Any, Any, str]]) -> str:
    """Write a dump of Meilisearch: metadata, settings and documents of each index."""
    with tarfile.open(path, "w:gz") as archive:

        def add(name: str, content: str) -> None:
            member = tarfile.TarInfo(name)
            member.size = len(content.encode())
            archive.addfile(member, io.BytesIO(content.encode()))

        add("./metadata.json", json.dumps({"dumpVersion": "V6"}))
        for uid, (metadata, settings, documents) in indexes.items():
            add(f"./indexes/{uid}/metadata.json", json.dumps(metadata))
            add(f"./indexes/{uid}/settings.json", json.dumps(settings))
            add(f"./indexes/{uid}/documents.jsonl", documents)
    return str(path)


SCHEMA = {
    "name": "books",
    "fields": [
        {"name": "title", "type": "string", "sort": True},
        {"name": "tags", "type": "string[]", "facet": True},
        {"name": "year", "type": "int32", "facet": True},
        {"name": "where", "type": "geopoint"},
        {"name": "code", "type": "string", "infix": True, "index": False},
    ],
    "default_sorting_field": "year",
    "token_separators": ["-"],
}


MAPPING = {
    "books": {
        "mappings": {
            "properties": {
                "title": {"type": "text", "analyzer": "english"},
                "genre": {"type": "keyword"},
                "author": {"type": "text", "fields": {"raw": {"type": "keyword"}}},
                "year": {"type": "integer"},
                "where": {"type": "geo_point"},
                "vector": {"type": "dense_vector"},
                "publisher": {"properties": {"country": {"type": "keyword"}}},
                "variants": {"type": "nested", "properties": {"size": {"type": "keyword"}}},
            }
        }
    }
}


FILMS: dict[str, Any] = {
    "name": "films",
    "fields": [{"name": "title", "type": "string"}],
    "synonym_sets": ["furniture", "a/b"],
    "curation_sets": ["shop"],
}


SETS: dict[str, Any] = {
    "/synonym_sets/furniture": {"items": [{"id": "1", "synonyms": ["sofa", "couch"]}]},
    "/curation_sets/shop": {
        "name": "shop",
        "items": [
            {"id": "tv", "rule": {"query": "tv", "match": "exact"}, "excludes": [{"id": "9"}]}
        ],
    },
}
