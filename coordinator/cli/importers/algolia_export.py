"""Algolia: an export of records (an array, one per line, or answers of browse) and its settings.

FILE with --settings SETTINGS.json      as returned by getSettings, or {"settings": …, "rules": …,
                                        "synonyms": …} as its command line exports them
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from common.errors import ServiceError
from common.index_configuration import GEO_FIELD
from common.index_configuration_parser import parse_configuration
from common.limits import DEFAULT_LIMITS
from common.search_option_parsers import parse_language
from coordinator.algolia import settings_translation as index_settings
from coordinator.algolia.rule_translation import RULES
from coordinator.algolia.stored_rules_and_synonyms import ObjectKind, stored_entry, written
from coordinator.algolia.synonym_translation import SYNONYMS
from coordinator.cli.importers.export_reading import (
    converting,
    read_items,
    read_object,
    sampled,
)
from coordinator.cli.importers.imported_index import (
    FACET_SIZE_MAX,
    ImportedIndex,
    add_typos,
    weighted,
)
from coordinator.cli.sources.source import SourceError

_MODIFIER: Final = re.compile(r"(\w+)\((.*)\)")
_KNOWN: Final = (
    *("searchableAttributes", "attributesToIndex", "attributesForFaceting", "maxValuesPerFacet"),
    *("queryLanguages", "indexLanguages", "removeStopWords", "ignorePlurals", "typoTolerance"),
    *("disableTypoToleranceOnAttributes", "removeWordsIfNoResults", "sortFacetValuesBy"),
    "synonyms",
    *("customRanking", "ranking", "replicas", "slaves", "attributeForDistinct", "distinct"),
    *("attributesToRetrieve", "unretrievableAttributes", "hitsPerPage", "minWordSizefor1Typo"),
    *("minWordSizefor2Typos", "numericAttributesToIndex", "numericAttributesForFiltering"),
    *("paginationLimitedTo", "version", "exactOnSingleWordQuery", "highlightPreTag"),
    *("highlightPostTag", "snippetEllipsisText", "alternativesAsExact", "attributesToHighlight"),
    *("attributesToSnippet", "queryType", "optionalWords", "advancedSyntax", "userData"),
    "renderingContent",
)
_USUAL: Final[dict[str, Any]] = {
    **dict.fromkeys(("allowTyposOnNumericTokens", "replaceSynonymsInHighlight"), True),
    **dict.fromkeys(("decompoundQuery", "enableRules", "enableReRanking"), True),
    "minProximity": 1,
    "mode": "keywordSearch",
    "relevancyStrictness": 100,
    "responseFields": ["*"],
}
"""Settings without an equivalent that say nothing, as they have Algolia's defaults."""
_OF_A_SEARCH: Final = ("_highlightResult", "_snippetResult", "_rankingInfo", "_distinctSeqID")
"""Members that a search adds to a record."""
_DEFAULTS: Final = (
    *("hitsPerPage", "attributeForDistinct", "distinct", "attributesToRetrieve", "userData"),
    *("attributesToHighlight", "attributesToSnippet", "highlightPreTag", "highlightPostTag"),
    *("snippetEllipsisText", "maxValuesPerFacet", "advancedSyntax", "optionalWords"),
    "renderingContent",
)
"""Settings that become defaults of searches by Algolia's protocol."""
_EXACTNESS: Final[dict[str, Any]] = {
    "exactOnSingleWordQuery": "attribute",
    "alternativesAsExact": ["ignorePlurals", "singleWordSynonym"],
}
"""Settings about exact words, with Algolia's defaults."""
_MATCHES: Final = {"lastWords": "last", "allOptional": "auto"}
"""Values of removeWordsIfNoResults, as those of match."""
_RANKING: Final = [
    *("typo", "geo", "words", "filters", "proximity", "attribute", "exact", "custom")
]


def read(name: str, settings: str | None) -> list[ImportedIndex]:
    """Read records and settings."""
    sample, records = sampled(_records(name))

    def items() -> Iterator[dict[str, Any]]:
        for record in records:
            yield imported.with_id(record, record.get("objectID"), "objectID")

    imported = ImportedIndex("", items, {"geo_fields": ["_geoloc", GEO_FIELD]})
    document = read_object(settings) if settings else {}
    with converting(str(settings)):
        inner = document.get("settings")
        if isinstance(inner, dict):  # {"settings": …, "rules": …, "synonyms": …}
            convert(inner, imported)
            for kind in (RULES, SYNONYMS):
                _convert_objects(document.get(kind.name) or [], kind, imported)
        else:
            convert(document, imported)
    if not settings:
        imported.is_open = True
        imported.notes.append("settings: none were given (--settings FILE)")
        imported.find_points(sample)
    return [imported]


def _records(name: str) -> Iterator[dict[str, Any]]:
    """Yield records from a file: as they are, or as the hits of answers.

    Raises:
        SourceError: it has some pages of a search only.
    """
    num_paged = total = 0
    for one in read_items(name):
        hits = one.get("hits")
        page = hits if "objectID" not in one and isinstance(hits, list) else None
        for record in [one] if page is None else page:
            if not isinstance(record, dict):
                raise SourceError(f"{name}: a hit is not an object: {str(record)[:80]}")
            yield {key: value for key, value in record.items() if key not in _OF_A_SEARCH}
        if page is not None:
            num_paged += len(page)
            total = max(total, one.get("nbHits") or 0)
    if num_paged < total:
        raise SourceError(
            f"{name} has {num_paged:,} of {total:,} hits, a page of a search; export all of them "
            "with algolia objects browse"
        )


def convert(settings: dict[str, Any], imported: ImportedIndex) -> None:
    """Convert settings to a configuration; note those without an equivalent."""
    _convert_fields(settings, imported)
    _convert_languages(settings, imported)
    _convert_matching(settings, imported)
    _note_orders(settings, imported)
    _keep_defaults(settings, imported)
    for name, usual in _EXACTNESS.items():
        if settings.get(name, usual) != usual:
            imported.notes.append(
                f"{name}: exact words count more in all fields, whatever the query"
            )
    for name in ("attributesToRetrieve", "unretrievableAttributes"):
        if settings.get(name) not in (None, [], ["*"]):
            imported.notes.append(f"{name}: search with the parameter fields or exclude_fields")
    rest = {
        name: value
        for name, value in settings.items()
        if name not in _USUAL or value not in (None, _USUAL[name])
    }
    imported.note_rest(rest, _KNOWN)


def _convert_fields(settings: dict[str, Any], imported: ImportedIndex) -> None:
    """Convert which fields are facets, and which are searched."""
    configuration, notes = imported.configuration, imported.notes
    facets: dict[str, Any] = {}
    size = settings.get("maxValuesPerFacet")
    for text in settings.get("attributesForFaceting") or []:
        modifier, path = _split(str(text))
        if modifier == "filterOnly":
            continue  # any field can be filtered by
        if modifier == "afterDistinct":
            notes.append(f"afterDistinct({path}): search with facetingAfterDistinct instead")
        facets[path] = {"conjunction": False}
        if isinstance(size, int) and size != 100:
            facets[path]["size"] = max(1, min(size, FACET_SIZE_MAX))
    if settings.get("sortFacetValuesBy") == "alpha":
        for facet in facets.values():
            facet["sort"] = "term"
    if facets:
        configuration["aggregations"] = facets
    searchable = settings.get("searchableAttributes") or settings.get("attributesToIndex") or []
    paths = [_split(one.strip())[1] for text in searchable for one in text.split(",")]
    if paths:
        configuration["searchable_fields"] = weighted(paths)
        notes.append("searchableAttributes: their order has become weights")


def _convert_matching(settings: dict[str, Any], imported: ImportedIndex) -> None:
    """Convert how words match: with typos, as prefixes."""
    configuration, notes = imported.configuration, imported.notes
    typos = settings.get("typoTolerance")
    if typos in (False, "false"):
        configuration["typo"] = 0
    elif typos in ("min", "strict"):
        notes.append(f"typoTolerance {typos}: hits with typos come last, and are not left out")
    add_typos(
        imported,
        settings.get("minWordSizefor1Typo"),
        settings.get("minWordSizefor2Typos"),
        settings.get("disableTypoToleranceOnAttributes"),
        "minWordSizefor1Typo, minWordSizefor2Typos",
    )
    removed = settings.get("removeWordsIfNoResults")
    if removed in _MATCHES:
        configuration["match"] = _MATCHES[removed]
    elif removed == "firstWords":
        notes.append("removeWordsIfNoResults firstWords: the last words can be left out (match)")
    synonyms = settings.get("synonyms")
    if isinstance(synonyms, list) and synonyms:  # settings of version 1
        configuration["synonyms"] = synonyms
    if settings.get("queryType") == "prefixAll":
        configuration["prefix"] = "all"
    elif settings.get("queryType") == "prefixNone":
        configuration["prefix"] = "none"


def _note_orders(settings: dict[str, Any], imported: ImportedIndex) -> None:
    """Note what orders or groups hits there, and is a parameter of a search here."""
    notes = imported.notes
    custom = [_split(one) for one in settings.get("customRanking") or []]
    if custom:
        order = ",".join(f"{path}:{direction}" for direction, path in custom)
        notes.append(f"customRanking: hits are ordered by score; search with sort={order} instead")
    if settings.get("ranking") not in (None, _RANKING):
        notes.append("ranking: is not the default; search with the parameter sort instead")
    replicas = settings.get("replicas") or settings.get("slaves")
    if replicas:
        notes.append(
            f"replicas {', '.join(map(str, replicas))}: are not needed; any field can be sorted by"
        )
    if settings.get("attributeForDistinct"):
        notes.append(
            f"attributeForDistinct: search with distinct={settings['attributeForDistinct']}"
        )


def _convert_languages(settings: dict[str, Any], imported: ImportedIndex) -> None:
    """Convert what depends on languages: one is taken, several are noted."""
    configuration, notes = imported.configuration, imported.notes
    listed = settings.get("indexLanguages") or settings.get("queryLanguages") or []
    for name, member, more in (
        ("ignorePlurals", "language", "or field_languages"),
        ("removeStopWords", "stop_words", "to one language, or to words"),
    ):
        value = settings.get(name)
        if value in (None, False, "false", []):
            continue
        languages = value if isinstance(value, list) else listed
        if len(languages) == 1 and parse_language(languages[0]) is not None:
            configuration[member] = languages[0]
        else:
            shown = ", ".join(map(str, languages)) or "of every language"
            notes.append(f"{name} {shown}: set {member} {more}")
    if listed and "language" not in configuration:
        shown = ", ".join(map(str, listed))
        notes.append(f"queryLanguages {shown}: set language or field_languages")


def _split(text: str) -> tuple[str, str]:
    """Return modifier and path of `searchable(brand)`; the modifier may be empty."""
    found = _MODIFIER.fullmatch(text)
    return (found[1], found[2]) if found else ("", text)


def _keep_defaults(settings: dict[str, Any], imported: ImportedIndex) -> None:
    """Keep settings that searches by Algolia's protocol use as defaults; note unsupported ones."""
    for name in _DEFAULTS:
        if name not in settings:
            continue
        try:
            imported.configuration = index_settings.changed(
                imported.configuration, {name: settings[name]}, DEFAULT_LIMITS
            )
        except ServiceError as error:
            imported.notes.append(error.message)


def _convert_objects(objects: Any, kind: ObjectKind, imported: ImportedIndex) -> None:
    """Convert rules or synonyms; note those without an equivalent."""
    entries = []
    for i, one in enumerate(objects if isinstance(objects, list) else []):
        id_ = one.get("objectID", i) if isinstance(one, dict) else i
        try:
            _, entry = stored_entry(one, kind, f"{kind.name} {id_}")
            parse_configuration({kind.name: list(entry.native)}, DEFAULT_LIMITS)
        except ServiceError as error:
            imported.notes.append(error.message)
        else:
            entries.append(entry)
    if entries:
        imported.configuration = written(imported.configuration, kind, entries)
