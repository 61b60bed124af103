"""Schemas of the configuration of an index."""

from __future__ import annotations

from typing import Any, Final

from common.limits import DEFAULT_LIMITS
from common.search_option_parsers import LANGUAGES
from coordinator.http.api_description.schemas.schema_parts import (
    FIELD_SCHEMA,
    TEXT_SCHEMA,
    WEIGHT_SCHEMA,
    described,
    list_of,
    object_schema,
    open_body_schema,
)
from coordinator.parameters.object_parameter_schemas import BOOSTS
from coordinator.parameters.parameter_table import SEARCH_BY_NAME
from coordinator.parameters.value_schemas import (
    COLLATION_SCHEMA,
    TYPO_LENGTHS_SCHEMA,
    by_field,
    or_empty_list,
)

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
        aggregations=described(
            by_field(or_empty_list(_FACET_SETTINGS), DEFAULT_LIMITS.facets_max),
            "The facets, by field: size, conjunction, sort, order, hide_zero_doc_count, "
            "chosen_filters_on_top, show_facet_stats, title, position.",
            {"genres": {"title": "Genres", "size": 10}, "year": {"conjunction": False}},
        ),
        searchable_fields=described(
            {
                "anyOf": [
                    list_of(FIELD_SCHEMA),
                    {"type": "object", "additionalProperties": WEIGHT_SCHEMA},
                ]
            },
            'The fields that a query searches, with weights; "*": all others. By default, every '
            "string.",
            ["name^4", "description"],
        ),
        sorting_fields=described(
            list_of(FIELD_SCHEMA),
            "Fields that count as known while no item has them. Any scalar field sorts.",
            ["year"],
        ),
        geo_fields=described(
            list_of(FIELD_SCHEMA), "Fields of points, instead of `_geo`.", ["location"]
        ),
        nested=described(
            list_of(FIELD_SCHEMA),
            "Arrays of objects whose elements are filtered one by one.",
            ["variants"],
        ),
        hierarchies=described(
            by_field({"anyOf": [_TREE_OF_PATHS, _TREE_OF_LEVELS]}, DEFAULT_LIMITS.hierarchies_max),
            "Trees of categories, over one facet of paths or one facet for each level.",
            {"place": {"levels": ["country", "language"]}},
        ),
        language=described(
            _LANGUAGE,
            "The language of all texts, in which words match in their other "
            "forms; none by default.",
            "en",
        ),
        field_languages=described(
            by_field(_LANGUAGE),
            "Languages by field, instead of `language`.",
            {"storyline": "en"},
        ),
        collation=described(
            COLLATION_SCHEMA,
            "The order of texts; code points by default. With +numeric, 2 comes before 10.",
            "root",
        ),
        field_collations=described(
            by_field(COLLATION_SCHEMA),
            "Collations by field, instead of `collation`.",
            {"name": "de+numeric"},
        ),
        stop_words=described(
            {"anyOf": [list_of(_WORD), _LANGUAGE, {"type": "boolean"}]},
            "Words that a query does without unless it has no others: a list, a language, or true "
            "for those of `language`; none by default.",
            ["the", "of"],
        ),
        synonyms=described(
            {"anyOf": [list_of(_SYNONYMS), {"type": "object"}]},
            "Groups of words, or words with alternatives.",
            [["film", "movie"], {"from": "scifi", "to": ["science fiction"]}],
        ),
        match=described(
            SEARCH_BY_NAME["match"].schema, "For requests that do not set it: as there.", "all"
        ),
        prefix=described(
            SEARCH_BY_NAME["prefix"].schema, "For requests that do not set it: as there.", "last"
        ),
        typo=described(
            SEARCH_BY_NAME["typo"].schema, "For requests that do not set it: as there.", "auto"
        ),
        typo_lengths=described(
            TYPO_LENGTHS_SCHEMA,
            "Letters from which on a word may have one typo, and two.",
            [5, 9],
        ),
        infix=described(
            {"anyOf": [{"type": "boolean"}, list_of(FIELD_SCHEMA)]},
            "Fields in which any three letters or more of a word are found; true: all.",
            ["name"],
        ),
        field_typo_lengths=described(
            by_field({"anyOf": [TYPO_LENGTHS_SCHEMA, {"enum": ["none"]}]}),
            "The same by field; none: no typos.",
            {"name": [4, 8], "director": "none"},
        ),
        suggestions=described(
            or_empty_list(
                open_body_schema(
                    fields=list_of(FIELD_SCHEMA),
                    facets=list_of(FIELD_SCHEMA),
                    popularity=FIELD_SCHEMA,
                    searches={"type": "boolean"},
                )
            ),
            "What suggestions draw on: texts of fields, values of facets, a number that makes "
            "items popular, and frequent searches.",
            {"fields": ["name"], "facets": ["genres"], "popularity": "votes", "searches": True},
        ),
        display=described(
            or_empty_list(
                open_body_schema(
                    title=FIELD_SCHEMA, image=FIELD_SCHEMA, fields=list_of(FIELD_SCHEMA)
                )
            ),
            "How the dashboard shows an item.",
            {"title": "name", "fields": ["year", "rating"]},
        ),
        algolia=described(
            or_empty_list({"type": "object"}),
            "Settings of Algolia's protocol, which keeps them here.",
        ),
        ranking=described(
            or_empty_list(
                open_body_schema(
                    k1={"type": "number", "minimum": 0, "maximum": 100},
                    b={"type": "number", "minimum": 0, "maximum": 1},
                    proximity={"type": "number", "minimum": 0, "maximum": 10},
                )
            ),
            "BM25's k1 and b, and the weight of words that are close together.",
            {"k1": 0.8, "b": 0.68, "proximity": 0.2},
        ),
        boost=described(
            BOOSTS,
            "For requests that do not set it: as there.",
            SEARCH_BY_NAME["boost"].example,
        ),
        rules=described(
            SEARCH_BY_NAME["rules"].schema,
            "For requests that do not set it: as there.",
            SEARCH_BY_NAME["rules"].example,
        ),
    ),
    "ConfigurationPatch": described(
        {"type": "object"},
        "Members of the configuration to set, at any depth; null removes one.",
    ),
    "ConfigurationAnswer": object_schema(
        "status warnings changes",
        status={"enum": ["configuration accepted", "preview"]},
        warnings=list_of(TEXT_SCHEMA),
        changes=list_of(object_schema("path before after", path=TEXT_SCHEMA, before={}, after={})),
    ),
}
