"""Schemas of the configuration of an index."""

from __future__ import annotations

from typing import Any, Final

from common.limits import DEFAULT_LIMITS
from common.option_forms import LANGUAGES
from coordinator.http.schemas.schema_parts import (
    FIELD_SCHEMA,
    TEXT_SCHEMA,
    WEIGHT_SCHEMA,
    list_of,
    object_schema,
    open_body_schema,
)
from coordinator.parameters.table import SEARCH_BY_NAME
from coordinator.parameters.value_schemas import COLLATION_SCHEMA, TYPO_LENGTHS_SCHEMA

_WORD: Final[dict[str, Any]] = {"type": "string", "pattern": r"\S"}
_LANGUAGE: Final = {"enum": ["none", *LANGUAGES, *LANGUAGES.values()]}
_WORDS: Final = {
    "type": "array",
    "items": _WORD,
    "maxItems": DEFAULT_LIMITS.synonym_alternatives_max,
}
_SYNONYMS: Final = {
    "anyOf": [
        {**_WORDS, "minItems": 2},
        {
            "type": "object",
            "properties": {name: {"anyOf": [_WORD, _WORDS]} for name in ("from", "to")},
            "required": ["from", "to"],
            "additionalProperties": False,
        },
    ]
}
_FACET_SORT: Final = {"anyOf": [TEXT_SCHEMA, list_of(TEXT_SCHEMA)]}
_FACET_SETTINGS: Final = open_body_schema(
    title=TEXT_SCHEMA,
    position={"type": "integer", "minimum": 0, "maximum": 1_000_000},
    size={"type": "integer", "minimum": 1, "maximum": DEFAULT_LIMITS.facet_size_max},
    conjunction={"type": "boolean"},
    sort=_FACET_SORT,
    order=_FACET_SORT,
    hide_zero={"type": "boolean"},
    hide_zero_doc_count={"type": "boolean"},
    chosen_filters_on_top={"type": "boolean"},
    show_facet_stats={"type": "boolean"},
)
_SEPARATOR: Final = {"type": "string", "minLength": 1}
_TREE_OF_PATHS: Final = {
    "type": "object",
    "properties": {"path": FIELD_SCHEMA, "separator": _SEPARATOR},
    "required": ["path"],
}
_TREE_OF_LEVELS: Final = {
    "type": "object",
    "properties": {
        "levels": {
            **list_of(FIELD_SCHEMA),
            "minItems": 2,
            "maxItems": DEFAULT_LIMITS.hierarchy_levels_max,
        },
        "separator": _SEPARATOR,
    },
    "required": ["levels"],
}

CONFIGURATION_SCHEMAS: Final[dict[str, Any]] = {
    "Configuration": open_body_schema(
        aggregations={
            "type": "object",
            "propertyNames": FIELD_SCHEMA,
            "additionalProperties": _FACET_SETTINGS,
            "maxProperties": DEFAULT_LIMITS.facets_max,
        },
        searchable_fields={
            "anyOf": [
                list_of(FIELD_SCHEMA),
                {"type": "object", "additionalProperties": WEIGHT_SCHEMA},
            ]
        },
        sorting_fields=list_of(FIELD_SCHEMA),
        geo_fields=list_of(FIELD_SCHEMA),
        nested=list_of(FIELD_SCHEMA),
        hierarchies={
            "type": "object",
            "propertyNames": FIELD_SCHEMA,
            "additionalProperties": {"anyOf": [_TREE_OF_PATHS, _TREE_OF_LEVELS]},
            "maxProperties": DEFAULT_LIMITS.hierarchies_max,
        },
        language=_LANGUAGE,
        field_languages={
            "type": "object",
            "propertyNames": FIELD_SCHEMA,
            "additionalProperties": _LANGUAGE,
        },
        collation=COLLATION_SCHEMA,
        field_collations={
            "type": "object",
            "propertyNames": FIELD_SCHEMA,
            "additionalProperties": COLLATION_SCHEMA,
        },
        stop_words={"anyOf": [list_of(_WORD), _LANGUAGE, {"type": "boolean"}]},
        synonyms={"anyOf": [list_of(_SYNONYMS), {"type": "object"}]},
        match=SEARCH_BY_NAME["match"].schema,
        prefix=SEARCH_BY_NAME["prefix"].schema,
        typo=SEARCH_BY_NAME["typo"].schema,
        typo_lengths=TYPO_LENGTHS_SCHEMA,
        infix={"anyOf": [{"type": "boolean"}, list_of(FIELD_SCHEMA)]},
        field_typo_lengths={
            "type": "object",
            "propertyNames": FIELD_SCHEMA,
            "additionalProperties": {"anyOf": [TYPO_LENGTHS_SCHEMA, {"enum": ["none"]}]},
        },
        suggestions=open_body_schema(
            fields=list_of(FIELD_SCHEMA),
            facets=list_of(FIELD_SCHEMA),
            popularity=FIELD_SCHEMA,
            searches={"type": "boolean"},
        ),
        display=open_body_schema(
            title=FIELD_SCHEMA, image=FIELD_SCHEMA, fields=list_of(FIELD_SCHEMA)
        ),
        algolia={"type": "object"},
        ranking=open_body_schema(
            k1={"type": "number", "minimum": 0, "maximum": 100},
            b={"type": "number", "minimum": 0, "maximum": 1},
            proximity={"type": "number", "minimum": 0, "maximum": 10},
        ),
        boost=SEARCH_BY_NAME["boost"].schema,
        rules=SEARCH_BY_NAME["rules"].schema,
    ),
    "ConfigurationPatch": {"type": "object"},
    "ConfigurationAnswer": object_schema(
        "status warnings changes",
        status={"enum": ["configuration accepted", "preview"]},
        warnings=list_of(TEXT_SCHEMA),
        changes=list_of(object_schema("path before after", path=TEXT_SCHEMA, before={}, after={})),
    ),
}
