"""Algolia's index settings, kept in the index's configuration (pure).

    searchableAttributes ["name", "text,tags"]  ─▶ searchable_fields ["name^2", "text", "tags"]
    attributesForFaceting ["brand", "searchable(maker)"] ─▶ aggregations {"brand": {}, "maker": {}}
    indexLanguages ["en"]                       ─▶ language "en"
    removeStopWords true                        ─▶ stop_words true
    attributeForDistinct, hitsPerPage, …        ─▶ algolia {…}: defaults for searches by this API

Settings without an equivalent are rejected by name. The rest of a configuration is unchanged. Lists
of attributes are shown as they were sent, with `searchable(…)` and `unordered(…)`, which make no
difference here, until the configuration says otherwise.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from common.errors import InvalidRequest
from common.index_configuration import IndexConfiguration
from common.index_configuration_parser import parse_stored
from common.limits import Limits
from common.nearest_name import did_you_mean
from common.search_option_parsers import parse_weighted_field
from coordinator.algolia.parameter_errors import UNHONOURED, WRONG
from coordinator.algolia.parameter_readers import QUERY_TYPES, REMOVALS
from coordinator.algolia.parameter_table import BY_NAME
from coordinator.algolia.search_draft import HITS_PER_PAGE, VALUES_PER_FACET
from coordinator.algolia.search_request import SearchedIndex, read_search

KEY: Final = "algolia"
"""Key in the configuration document: settings that are defaults for searches by this protocol."""
OBJECTS: Final = "objects"
"""Key within it: rules and synonyms as this protocol stored them (`stored_rules_and_synonyms`)."""
_SENT: Final = "sent"
"""Key within it: lists of attributes as they were sent."""

_OF_INDEX: Final = frozenset(
    ("searchableAttributes", "attributesForFaceting", "indexLanguages", "removeStopWords")
)
_ATTRIBUTES: Final = frozenset(("searchableAttributes", "attributesForFaceting"))
_KEPT: Final = frozenset(("attributeForDistinct", "userData", "numericAttributesForFiltering"))
_OF_SEARCHES: Final = frozenset(BY_NAME) - {"query", "page", "offset", "length", "removeStopWords"}
_DEFAULTS: Final[Mapping[str, Any]] = {
    **dict.fromkeys(
        (
            *("searchableAttributes", "attributesToRetrieve", "unretrievableAttributes"),
            *("attributesToHighlight", "attributesToSnippet", "attributeForDistinct"),
            *("optionalWords", "numericAttributesForFiltering"),
        )
    ),
    "hitsPerPage": HITS_PER_PAGE,
    "maxValuesPerFacet": VALUES_PER_FACET,
    "highlightPreTag": "<em>",
    "highlightPostTag": "</em>",
    "separatorsToIndex": "",
}
"""Settings that every index has before others are sent."""
_MODIFIERS: Final = ("searchable", "filterOnly", "afterDistinct", "unordered", "ordered")
_MODIFIED: Final = re.compile(r"(\w+)\((.+)\)\Z")


def settings_schema() -> dict[str, Any]:
    """Return the JSON Schema of settings, for the documentation; null resets a setting."""
    names = {"type": "array", "items": {"type": "string"}}
    of_index: dict[str, dict[str, Any]] = {
        "searchableAttributes": {
            **names,
            "description": "Fields by priority; those of one text, separated by commas, are equal.",
        },
        "attributesForFaceting": {
            **names,
            "description": "Facets; filterOnly(field) is not counted.",
        },
        "indexLanguages": {**names, "maxItems": 1, "description": "The language of the index."},
        "removeStopWords": {
            "type": "boolean",
            "description": "Ignore frequent words of that language.",
        },
        "attributeForDistinct": {
            "type": "string",
            "description": "The field that distinct searches group by.",
        },
        "numericAttributesForFiltering": {**names, "description": "Kept; all numbers can filter."},
        "userData": {"description": "Anything; settings show it."},
    }
    of_searches = {
        name: {**BY_NAME[name].schema, "description": BY_NAME[name].description}
        for name in sorted(_OF_SEARCHES)
    }
    properties = {}
    for name, schema in {**of_index, **of_searches}.items():
        kind = {key: value for key, value in schema.items() if key != "description"}
        text = schema["description"]
        properties[name] = {"anyOf": [kind, {"type": "null"}], "description": text}
    return {"type": "object", "properties": properties}


def split_name(name: str) -> tuple[str, list[str]]:
    """Split a name such as `films:year:desc` into index and sort keys."""
    parts = name.split(":")
    end = len(parts)
    while end > 2 and parts[end - 1] in ("asc", "desc") and parts[end - 2]:
        end -= 2
    if end == 1 and not parts[0]:
        return name, []  # an order of no index
    keys = [f"{parts[at]}:{parts[at + 1]}" for at in range(end, len(parts), 2)]
    return ":".join(parts[:end]), keys


def stored(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the settings stored verbatim in a configuration document."""
    kept = document.get(KEY)
    if not isinstance(kept, dict):
        return {}
    return {name: value for name, value in kept.items() if name not in (OBJECTS, _SENT)}


def _sent(document: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the lists of attributes as they were sent, by setting."""
    kept = document.get(KEY)
    sent = kept.get(_SENT) if isinstance(kept, dict) else None
    if not isinstance(sent, dict):
        return {}
    return {name: value for name, value in sent.items() if _is_of_names(value)}


def shown(document: Mapping[str, Any], configuration: IndexConfiguration) -> dict[str, Any]:
    """Return an index's settings in the form of Algolia's protocol."""
    kept = dict(stored(document))
    facets: list[str] = list(configuration.facets)
    filtered = kept.pop("filterOnly", None)
    facets += [f"filterOnly({name})" for name in (filtered if isinstance(filtered, list) else ())]
    settings: dict[str, Any] = {
        "version": 2,
        **_defaults(configuration),
        "attributesForFaceting": facets,
        **kept,
    }
    fields = configuration.searchable_fields
    if fields is not None:
        by_weight: dict[float, list[str]] = {}
        for field in fields:
            by_weight.setdefault(field.weight, []).append(field.path)
        settings["searchableAttributes"] = [
            ",".join(by_weight[weight]) for weight in sorted(by_weight, reverse=True)
        ]
    sent = _sent(document)
    searched = sent.get("searchableAttributes")
    if searched and tuple(map(parse_weighted_field, _weighted(searched))) == fields:
        settings["searchableAttributes"] = searched
    faceted = sent.get("attributesForFaceting", [])
    names, others = _faceted(faceted)
    if set(names) == set(configuration.facets) and others == (filtered or []):
        settings["attributesForFaceting"] = faceted
    if configuration.language is not None:
        settings["indexLanguages"] = [document.get("language")]
    if configuration.stop_words_language is not None:
        settings["removeStopWords"] = True
    return settings


def _defaults(configuration: IndexConfiguration) -> dict[str, Any]:
    """Return the settings of an index to which none were sent."""
    query_types = {prefix: name for name, prefix in QUERY_TYPES.items()}
    removals = {match: name for name, match in REMOVALS.items()}
    settings = {**_DEFAULTS, "queryType": query_types[configuration.prefix]}
    if configuration.match in removals:
        settings["removeWordsIfNoResults"] = removals[configuration.match]
    return settings


def changed(
    document: Mapping[str, Any], settings: Mapping[str, Any], limits: Limits
) -> dict[str, Any]:
    """Return a configuration document with settings applied; null resets a setting.

    Raises:
        InvalidRequest: a setting is invalid or has no equivalent; `param` names it.
    """
    result = dict(document)
    kept = dict(stored(document))
    sent = _sent(document)
    initial = _defaults(parse_stored(result))
    defaults: dict[str, Any] = {}
    for name, value in settings.items():
        if name == "version":
            continue  # clients send back what they have read
        if name in _OF_INDEX:
            _apply(name, value, result, kept)
            if name in _ATTRIBUTES:
                sent[name] = value
        elif name == "replicas":
            _check_replicas([] if value is None else value)
        elif value is None:
            kept.pop(name, None)
            if name not in _KEPT:
                defaults[name] = None  # which resets what exists only
        elif name in _KEPT:
            if name == "numericAttributesForFiltering":
                _names(name, value)
            kept[name] = value
        elif name in kept or name not in initial or value != initial[name]:
            defaults[name] = value
    if not isinstance(kept.get("attributeForDistinct", ""), str):
        raise _refused("attributeForDistinct", "must name a field", WRONG)
    # Validate search defaults by reading them as a search, of the index with its new settings.
    read_search(SearchedIndex("", parse_stored(result), kept), defaults, limits)
    given = ((name, value) for name, value in defaults.items() if value is not None)
    kept.update({name: value for name, value in given if name in _OF_SEARCHES})
    objects = (document.get(KEY) or {}).get(OBJECTS)
    if objects:
        kept[OBJECTS] = objects
    sent = {name: value for name, value in sent.items() if value}
    if sent:
        kept[_SENT] = sent
    result[KEY] = kept
    if not kept:
        del result[KEY]
    return result


def _apply(name: str, value: Any, result: dict[str, Any], kept: dict[str, Any]) -> None:
    """Apply a setting that maps to a key of the configuration."""
    match name:
        case "searchableAttributes":
            result.pop("searchableFields", None)
            result.pop("searchable_fields", None)
            if value is not None and value != ["*"]:
                result["searchable_fields"] = _weighted(_modified_names(name, value))
        case "attributesForFaceting":
            facets, filtered = _faceted(_modified_names(name, [] if value is None else value))
            old = result.get("aggregations") or {}
            result["aggregations"] = {facet: old.get(facet, {}) for facet in facets}
            kept.pop("filterOnly", None)
            if filtered:
                kept["filterOnly"] = filtered
        case "indexLanguages":
            languages = _names(name, [] if value is None else value)
            if len(languages) > 1:
                raise _refused(name, "can name one language; others are set in field_languages")
            result.pop("language", None)
            if languages:
                result["language"] = languages[0]
        case _:
            result.pop("stop_words", None)
            if value is not None and value is not False:
                if value is not True:
                    raise _refused(name, "must be true or false here, for the index's language")
                result["stop_words"] = True


def _names(name: str, value: Any) -> list[str]:
    if not _is_of_names(value):
        raise _refused(name, "must be a list of names", WRONG)
    names: list[str] = value
    return names


def _is_of_names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) and one for one in value)


def _modified_names(setting: str, value: Any) -> list[str]:
    """Read names that may have modifiers.

    A field may be called weight(kg), but serchable(brand) is a mistyped modifier.
    """
    attributes = _names(setting, value)
    for attribute in attributes:
        for one in attribute.split(","):
            match = _MODIFIED.match(one.strip())
            if match is None or match[1] in _MODIFIERS:
                continue
            if meant := did_you_mean(match[1], _MODIFIERS, 0.75):
                raise _refused(setting, f"has {one.strip()[:100]!r}{meant}", WRONG)
    return attributes


def _unmodified(attribute: str) -> tuple[str, str]:
    """Return the modifier of an attribute, or nothing, and the field."""
    match = _MODIFIED.match(attribute)
    if match is None or match[1] not in _MODIFIERS:
        return "", attribute
    return match[1], match[2]


def _weighted(attributes: list[str]) -> list[str]:
    """Return fields with weights that decrease from the first attribute to the last."""
    fields = []
    for weight, attribute in zip(range(len(attributes), 0, -1), attributes, strict=True):
        for one in attribute.split(","):
            _, path = _unmodified(one.strip())
            fields.append(f"{path}^{weight}" if weight > 1 else path)
    return fields


def _faceted(attributes: list[str]) -> tuple[list[str], list[str]]:
    """Return the facets, and the fields used only in filters."""
    facets: list[str] = []
    filtered: list[str] = []
    for attribute in attributes:
        modifier, name = _unmodified(attribute)
        if modifier == "afterDistinct":
            raise _refused("attributesForFaceting", "cannot count after distinct")
        (filtered if modifier == "filterOnly" else facets).append(name)
    return facets, filtered


def _check_replicas(value: Any) -> None:
    """Accept replicas that need not be created: sort orders of the index itself."""
    for one in _names("replicas", value):
        if one.startswith("virtual(") and one.endswith(")"):
            one = one[len("virtual(") : -1]
        if not split_name(one)[1]:
            raise _refused(
                "replicas",
                'can be orders only, which need not be made: "films:year:desc" is films by year',
            )


def _refused(name: str, message: str, code: str = UNHONOURED) -> InvalidRequest:
    return InvalidRequest(f"{name} {message}", code=code, param=name)
