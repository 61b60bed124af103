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

from common.search_option_parsers import LANGUAGES, parse_language
from coordinator.cli.importers.export_reading import converting, object_of
from coordinator.cli.importers.imported_index import (
    FACET_SIZE_MAX,
    ImportedIndex,
    add_typos,
    weighted,
)
from coordinator.cli.sources.opening_and_decompression import BROKEN, OpenedSource
from coordinator.cli.sources.source import SourceError

_VECTORS: Final = "_vectors"
"""The field of a document's embeddings."""
_THREE_LETTERS: Final = (
    *("ara", "cat", "ces", "dan", "deu", "ell", "eng", "epo", "spa", "est", "eus", "fas", "fin"),
    *("fra", "gle", "hin", "hun", "hye", "ind", "ita", "lit", "nep", "nld", "nor", "pol", "por"),
    *("ron", "rus", "srp", "sot", "swe", "tam", "tur", "yid"),
)
"""Codes (ISO 639-3) of the keys of LANGUAGES, in their order."""
_RANKING: Final = ["words", "typo", "proximity", "attribute", "sort", "exactness"]
_KNOWN: Final = (
    *("searchableAttributes", "filterableAttributes", "sortableAttributes", "displayedAttributes"),
    *("rankingRules", "stopWords", "synonyms", "distinctAttribute", "typoTolerance", "faceting"),
    *("pagination", "prefixSearch", "facetSearch", "localizedAttributes"),
)


def read(name: str) -> list[ImportedIndex]:
    """Read a dump.

    Raises:
        SourceError: it is not a dump.
    """
    opened = OpenedSource(name)
    found: list[ImportedIndex] = []
    try:
        with tarfile.open(opened.plain_path()) as archive:
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
    except BROKEN as error:
        raise SourceError(f"{name} is cut off or damaged: {error}") from error
    except tarfile.TarError as error:
        reason = (
            str(error).partition("\n")[0].rstrip(":")
        )  # the rest is a line for each format tried
        raise SourceError(f"{name} is not a Meilisearch dump (a .tar.gz): {reason}") from error
    if not found:
        raise SourceError(f"{name} is not a Meilisearch dump: it has no indexes/…/documents.jsonl")
    return found


def _object(
    archive: tarfile.TarFile, members: dict[PurePosixPath, tarfile.TarInfo], place: PurePosixPath
) -> dict[str, Any]:
    """Read a JSON object in the archive; empty if it is missing.

    Raises:
        SourceError: it is none.
    """
    member = members.get(place)
    stream = None if member is None else archive.extractfile(member)
    if stream is None:
        return {}
    return object_of(stream.read(), str(place))


def _index(
    opened: OpenedSource, member: str, uid: str, metadata: dict[str, Any], settings: dict[str, Any]
) -> ImportedIndex:
    """Return one index of a dump."""
    wanted_key = metadata.get("primaryKey")

    def items() -> Iterator[dict[str, Any]]:
        with tarfile.open(opened.plain_path()) as archive:
            stream = archive.extractfile(member)
            assert stream is not None
            for number, line in enumerate(stream, 1):
                if line.strip():
                    item = object_of(line, f"{opened.name}, {member}, line {number}")
                    key = wanted_key or "id"
                    yield imported.with_id(item, item.get(key), key, keeps_former=key != "id")

    imported = ImportedIndex(uid, items, vector_fields=[_VECTORS])
    with converting(f"{opened.name}, settings of {uid}"):
        convert(settings, imported)
    return imported


def convert(settings: dict[str, Any], imported: ImportedIndex) -> None:
    """Convert settings to a configuration; note those without an equivalent."""
    configuration, notes = imported.configuration, imported.notes
    _convert_facets(settings, imported)
    _convert_languages(settings, imported)
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
    for part in ("disableOnWords", "disableOnNumbers"):
        if typos.get(part):
            notes.append(f"typoTolerance.{part}: has no equivalent here, left out")
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
    if settings.get("proximityPrecision") in (None, "byWord"):
        settings = {name: settings[name] for name in settings.keys() - {"proximityPrecision"}}
    imported.note_rest(settings, _KNOWN)


def _convert_facets(settings: dict[str, Any], imported: ImportedIndex) -> None:
    """Convert filterable attributes and what is set about facets."""
    faceting = settings.get("faceting") or {}
    size = faceting.get("maxValuesPerFacet")
    orders = faceting.get("sortFacetValuesBy") or {}
    facets: dict[str, Any] = {}
    for one in settings.get("filterableAttributes") or []:
        patterns = one.get("attributePatterns", []) if isinstance(one, dict) else [one]
        for pattern in patterns:
            if "*" in pattern:
                imported.notes.append(
                    f"filterableAttributes: name the fields that {pattern!r} stands for"
                )
            elif pattern not in ("_geo", "_geojson"):
                facets[pattern] = {"conjunction": False}
                if isinstance(size, int) and size != 100:
                    facets[pattern]["size"] = max(1, min(size, FACET_SIZE_MAX))
                if orders.get(pattern) == "alpha":
                    facets[pattern]["sort"] = "term"
    if facets:
        imported.configuration["aggregations"] = facets


def _language(locale: str) -> str | None:
    """Return the language of a locale, a code of two or three letters; None: there is no such."""
    codes = dict(zip(_THREE_LETTERS, LANGUAGES, strict=True))
    return parse_language(codes.get(locale, locale))


def _convert_languages(settings: dict[str, Any], imported: ImportedIndex) -> None:
    """Convert localized attributes: the language of each."""
    languages: dict[str, str] = {}
    for one in settings.get("localizedAttributes") or []:
        locales = one.get("locales") or []
        language = _language(locales[0]) if len(locales) == 1 else None
        for pattern in one.get("attributePatterns") or []:
            if language is not None and pattern == "*":
                imported.configuration["language"] = language
            elif language is None or "*" in pattern:
                imported.notes.append(
                    f"localizedAttributes: {pattern} ({', '.join(locales) or 'any'}): set language "
                    "or field_languages"
                )
            else:
                languages[pattern] = language
    if languages:
        imported.configuration["field_languages"] = languages
