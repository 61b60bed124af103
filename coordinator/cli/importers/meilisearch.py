"""Meilisearch: a dump, which is a tar archive of all indexes with their settings.

metadata.json   indexes/<uid>/metadata.json   primaryKey
                indexes/<uid>/settings.json   searchableAttributes, filterableAttributes, …
                indexes/<uid>/documents.jsonl
"""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any, Final

import orjson

from coordinator.cli.importers.imported import (
    FACET_SIZE_MAX,
    ImportedIndex,
    add_typos,
    weighted,
)
from coordinator.cli.sources.opening import OpenedSource
from coordinator.cli.sources.source import SourceError

_RANKING: Final = ["words", "typo", "proximity", "attribute", "sort", "exactness"]
_KNOWN: Final = (
    *("searchableAttributes", "filterableAttributes", "sortableAttributes", "displayedAttributes"),
    *("rankingRules", "stopWords", "synonyms", "distinctAttribute", "typoTolerance", "faceting"),
    *("pagination", "proximityPrecision", "searchCutoffMs", "prefixSearch", "facetSearch"),
)


def read(name: str) -> list[ImportedIndex]:
    """Read a dump.

    Raises:
        SourceError: it is not a dump.
    """
    opened = OpenedSource(name)
    path = opened.plain_path()
    found: list[ImportedIndex] = []
    try:
        with tarfile.open(path) as archive:
            members = {PurePosixPath(member.name): member for member in archive if member.isfile()}
            for place, member in sorted(members.items()):
                if place.name != "documents.jsonl" or place.parent.parent.name != "indexes":
                    continue
                if place.parent / "metadata.json" not in members:
                    raise SourceError(
                        f"{name} has {member.name} without its metadata.json, as dumps before V6 "
                        "do: import it into a newer Meilisearch, and make the dump there"
                    )
                metadata = _object(archive, members, place.parent / "metadata.json")
                settings = _object(archive, members, place.parent / "settings.json")
                uid = str(metadata.get("uid") or place.parent.name)
                found.append(_index(opened, member.name, uid, metadata, settings))
    except tarfile.TarError as error:
        reason = (
            str(error).partition("\n")[0].rstrip(":")
        )  # the rest is a line for each format tried
        raise SourceError(f"{name} is no Meilisearch dump (a .tar.gz): {reason}") from error
    if not found:
        raise SourceError(f"{name} is no Meilisearch dump: it has no indexes/…/documents.jsonl")
    return found


def _object(
    archive: tarfile.TarFile, members: dict[PurePosixPath, tarfile.TarInfo], place: PurePosixPath
) -> dict[str, Any]:
    """Read a JSON object in the archive; empty if it is missing."""
    member = members.get(place)
    stream = None if member is None else archive.extractfile(member)
    if stream is None:
        return {}
    document = orjson.loads(stream.read())
    return document if isinstance(document, dict) else {}


def _index(
    opened: OpenedSource, member: str, uid: str, metadata: dict[str, Any], settings: dict[str, Any]
) -> ImportedIndex:
    """Return one index of a dump."""
    wanted_key = metadata.get("primaryKey")

    def items() -> Iterator[dict[str, Any]]:
        with tarfile.open(opened.plain_path()) as archive:
            stream = archive.extractfile(member)
            assert stream is not None
            for line in stream:
                if line.strip():
                    item = orjson.loads(line)
                    key = wanted_key or "id"
                    yield imported.with_id(item, item.get(key), key, keeps_former=key != "id")

    imported = ImportedIndex(uid, items)
    convert(settings, imported)
    return imported


def convert(settings: dict[str, Any], imported: ImportedIndex) -> None:
    """Convert settings to a configuration; note those without an equivalent."""
    configuration, notes = imported.configuration, imported.notes
    size = (settings.get("faceting") or {}).get("maxValuesPerFacet")
    facet: dict[str, Any] = {"conjunction": False}
    if isinstance(size, int) and size != 100:
        facet["size"] = max(1, min(size, FACET_SIZE_MAX))
    facets = {}
    for one in settings.get("filterableAttributes") or []:
        patterns = one.get("attributePatterns", []) if isinstance(one, dict) else [one]
        for pattern in patterns:
            if "*" in pattern:
                notes.append(f"filterableAttributes: name the fields that {pattern!r} stands for")
            elif pattern not in ("_geo", "_geojson"):
                facets[pattern] = dict(facet)
    if facets:
        configuration["aggregations"] = facets
    searchable = settings.get("searchableAttributes") or ["*"]
    if searchable != ["*"] and "*" not in searchable:
        configuration["searchable_fields"] = weighted(searchable)
        notes.append("searchableAttributes: their order has become weights")
    sortable = [one for one in settings.get("sortableAttributes") or [] if one != "_geo"]
    if sortable:
        configuration["sorting_fields"] = sortable
    if settings.get("stopWords"):
        configuration["stop_words"] = settings["stopWords"]
    if settings.get("synonyms"):
        configuration["synonyms"] = settings["synonyms"]
    typos = settings.get("typoTolerance") or {}
    if typos.get("enabled") is False:
        configuration["typo"] = 0
    sizes = typos.get("minWordSizeForTypos") or {}
    add_typos(
        imported,
        sizes.get("oneTypo"),
        sizes.get("twoTypos"),
        typos.get("disableOnAttributes"),
        "typoTolerance.minWordSizeForTypos",
    )
    if typos.get("disableOnWords"):
        notes.append("typoTolerance.disableOnWords: has no equivalent here, left out")
    if settings.get("prefixSearch") == "disabled":
        configuration["prefix"] = "none"
    if settings.get("rankingRules") not in (None, [], _RANKING):
        own = [one for one in settings["rankingRules"] if one not in _RANKING]
        shown = f" ({', '.join(map(str, own))})" if own else ""
        notes.append(
            f"rankingRules: are not the default{shown}; order by the parameter sort, or by boost, "
            "instead"
        )
    if settings.get("displayedAttributes") not in (None, [], ["*"]):
        notes.append("displayedAttributes: ask for fields by the parameter fields")
    if settings.get("distinctAttribute"):
        notes.append(
            f"distinctAttribute: search with distinct={settings['distinctAttribute']} instead"
        )
    imported.note_rest(settings, _KNOWN)
