"""The table of parameters: name, aliases, reader, JSON Schema, description.

The parser, the list of known names in an error, the OpenAPI document and the documentation page
come from here; a parameter that is not here does not exist.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from common.limits import DEFAULT_LIMITS
from coordinator.parameter_reader import Parameter, ParameterReader, Schema

_MAX: Final = DEFAULT_LIMITS
"""Bounds as documented; an operator may have set others."""


def _parameter(
    name: str,
    read: Callable[[ParameterReader, Any], None],
    schema: Schema,
    description: str,
    *,
    code: str | None = None,
    aliases: tuple[str, ...] = (),
    is_list: bool = False,
    is_json: bool = False,
    stage: int = 0,
) -> Parameter:
    """Build a row of the table; the error code is `invalid_<name>` unless given."""
    return Parameter(
        name, read, schema, description, code or f"invalid_{name}", aliases, is_list, is_json, stage
    )


_TEXT: Final[Schema] = {"type": "string"}
_NAMES: Final[Schema] = {
    "anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "string"}]
}
_SCALAR: Final[Schema] = {"type": ["string", "number", "boolean"]}
_BOUND: Final[Schema] = {"type": ["string", "number"]}
_FILTERS: Final[Schema] = {
    "type": "object",
    "additionalProperties": {
        "anyOf": [
            _SCALAR,
            {"type": "array", "items": _SCALAR},
            {
                "type": "object",
                "properties": {
                    "gt": _BOUND,
                    "gte": _BOUND,
                    "lt": _BOUND,
                    "lte": _BOUND,
                    "any": {"type": "array", "items": _SCALAR},
                    "all": {"type": "array", "items": _SCALAR},
                    "none": {"type": "array", "items": _SCALAR},
                    "exists": {"type": "boolean"},
                },
                "additionalProperties": False,
            },
        ]
    },
}


def _integer(low: int, high: int | None = None, default: int | None = None) -> Schema:
    schema: Schema = {"type": "integer", "minimum": low}
    if high is not None:
        schema["maximum"] = high
    if default is not None:
        schema["default"] = default
    return schema


_RESTRICTIONS: Final = (
    _parameter(
        "filters",
        ParameterReader.read_filters,
        _FILTERS,
        'Values to keep, by field: {"tags": ["a", "b"]}, {"price": {"gte": 10, "lt": 50}}, '
        '{"tags": {"any": […], "all": […], "none": […], "exists": true}}.',
        is_json=True,
        stage=3,
    ),
    _parameter(
        "not_filters",
        ParameterReader.read_not_filters,
        _FILTERS,
        "Values to exclude, by field.",
        aliases=("exclude_filters",),
        is_json=True,
        stage=4,
    ),
    _parameter(
        "filter",
        ParameterReader.read_filter,
        _TEXT,
        'A filter expression: year >= 1990 AND (tags = a OR tags IN [b, "c d"]).',
        stage=5,
    ),
)
_TEXT_MODES: Final = (
    _parameter(
        "match",
        ParameterReader.read_match,
        _TEXT,
        'How many words must match: "all", "any", "last" (leave out words from the end) or "75%".',
    ),
    _parameter(
        "prefix",
        ParameterReader.read_prefix,
        {"enum": ["last", "none", "all"]},
        "Which words also match as the beginning of a word.",
    ),
    _parameter(
        "typo",
        ParameterReader.read_typo,
        {"enum": ["auto", 0, 1, 2, "0", "1", "2"]},
        "Typos forgiven per word; auto: by its length.",
    ),
    _parameter(
        "search_fields",
        ParameterReader.read_search_fields,
        _NAMES,
        'Fields to search, with weights: ["name^3", "description"].',
        is_list=True,
    ),
)
_CONDUCT: Final = (
    _parameter(
        "partial",
        ParameterReader.read_partial,
        {"enum": ["fail", "allow"]},
        "What a shard that is away does: an error, or an answer without it that says so.",
    ),
    _parameter(
        "timeout_ms",
        ParameterReader.read_timeout_ms,
        _integer(1, _MAX.request_timeout_ms_max, _MAX.request_timeout_ms),
        "The request's deadline in milliseconds.",
    ),
)
_FACET_MODE: Final = _parameter(
    "facet_mode",
    ParameterReader.read_facet_mode,
    {"enum": ["auto", "strict"]},
    "strict: facets count within the hits; auto: disjunctive ones leave out their own filter.",
)

SEARCH_PARAMETERS: Final = (
    _parameter("query", ParameterReader.read_query, _TEXT, "Full text; empty: all items."),
    _parameter(
        "page",
        ParameterReader.read_page,
        _integer(1, _MAX.page_max, 1),
        "Which page, from 1.",
    ),
    _parameter(
        "per_page",
        ParameterReader.read_per_page,
        _integer(0, _MAX.per_page_max, 10),
        "Items of a page; 0: only total and facets.",
    ),
    *_RESTRICTIONS,
    _parameter(
        "facet_fields",
        ParameterReader.read_facet_fields,
        _NAMES,
        "Facets to compute and return; all configured ones by default. Unknown names are ignored.",
        aliases=("facets_fields",),
        is_list=True,
    ),
    _parameter(
        "sort_field",
        ParameterReader.read_sort_field,
        _TEXT,
        "Any field with scalar values.",
    ),
    _parameter(
        "order",
        ParameterReader.read_order,
        {"enum": ["asc", "desc"]},
        "Of sort_field, or of insertion where there is neither sort_field nor query.",
        stage=1,
    ),
    _parameter(
        "sort",
        ParameterReader.read_sort,
        {
            "anyOf": [
                {"type": "string"},
                {
                    "type": "array",
                    "items": {
                        "anyOf": [
                            {"type": "string"},
                            {
                                "type": "object",
                                "properties": {
                                    "field": _TEXT,
                                    "order": {"enum": ["asc", "desc"]},
                                    "missing": {"enum": ["first", "last"]},
                                },
                                "required": ["field"],
                                "additionalProperties": False,
                            },
                        ]
                    },
                },
            ]
        },
        'Keys of the order: ["year:desc", "name:asc:missing=first", "_score:desc"].',
        is_list=True,
        stage=2,
    ),
    *_TEXT_MODES,
    _parameter(
        "fields",
        ParameterReader.read_fields,
        _NAMES,
        "Return only these paths of each item.",
        is_list=True,
    ),
    _parameter(
        "exclude_fields",
        ParameterReader.read_exclude_fields,
        _NAMES,
        "Leave out these paths of each item.",
        is_list=True,
    ),
    _parameter(
        "highlight",
        ParameterReader.read_highlight,
        {
            "anyOf": [
                {"type": "boolean"},
                _NAMES,
                {
                    "type": "object",
                    "properties": {"fields": _NAMES, "pre": _TEXT, "post": _TEXT},
                    "additionalProperties": False,
                },
            ]
        },
        'Mark the words found: {"fields": ["name"], "pre": "<em>", "post": "</em>"}.',
        is_list=True,
    ),
    _parameter(
        "snippet",
        ParameterReader.read_snippet,
        {
            "anyOf": [
                {"type": "boolean"},
                _NAMES,
                {
                    "type": "object",
                    "properties": {
                        "fields": _NAMES,
                        "pre": _TEXT,
                        "post": _TEXT,
                        "ellipsis": _TEXT,
                    },
                    "additionalProperties": False,
                },
            ]
        },
        'The best part of long texts: {"fields": ["description:20"]} (words).',
        is_list=True,
    ),
    _parameter(
        "facets",
        ParameterReader.read_facets,
        {
            "type": "object",
            "additionalProperties": {
                "type": "object",
                "properties": {
                    "size": _integer(0, _MAX.facet_size_max),
                    "sort": {"anyOf": [_TEXT, {"type": "array", "items": _TEXT}]},
                    "order": {"anyOf": [_TEXT, {"type": "array", "items": _TEXT}]},
                    "conjunction": {"type": "boolean"},
                    "hide_zero": {"type": "boolean"},
                    "query": _TEXT,
                    "offset": _integer(0),
                    "stats": {"type": "boolean"},
                },
                "additionalProperties": False,
            },
        },
        "Options of facets for this request, by facet.",
        is_json=True,
        stage=1,
    ),
    _parameter(
        "facet_ranges",
        ParameterReader.read_facet_ranges,
        {
            "type": "object",
            "additionalProperties": {
                "anyOf": [
                    {
                        "type": "array",
                        "items": {
                            "type": "object",
                            "properties": {"from": _BOUND, "to": _BOUND},
                            "additionalProperties": False,
                        },
                    },
                    {
                        "type": "object",
                        "properties": {"interval": {"type": "number", "exclusiveMinimum": 0}},
                        "required": ["interval"],
                        "additionalProperties": False,
                    },
                    {
                        "type": "object",
                        "properties": {"calendar": {"enum": ["year", "month", "day"]}},
                        "required": ["calendar"],
                        "additionalProperties": False,
                    },
                ]
            },
        },
        'Counts by interval, by field: {"price": [{"to": 10}, {"from": 10, "to": 50}]}, '
        '{"price": {"interval": 10}}, {"date": {"calendar": "month"}}.',
        is_json=True,
        stage=2,
    ),
    _FACET_MODE,
    _parameter(
        "cursor",
        ParameterReader.read_cursor,
        _TEXT,
        'Continue behind the last hit of an answer, on the same state of the index; "*" begins.',
        stage=1,
    ),
    _parameter(
        "distinct",
        ParameterReader.read_distinct,
        {
            "anyOf": [
                _TEXT,
                {
                    "type": "object",
                    "properties": {
                        "field": _TEXT,
                        "limit": _integer(1, _MAX.distinct_max, 1),
                    },
                    "required": ["field"],
                    "additionalProperties": False,
                },
            ]
        },
        'Only the best hits per value of a field: {"field": "brand", "limit": 1}.',
    ),
    _parameter(
        "show",
        ParameterReader.read_show,
        _NAMES,
        "Also return: score, score_details, timings.",
        is_list=True,
    ),
    *_CONDUCT,
)

FACET_PARAMETERS: Final = (
    _parameter("name", ParameterReader.read_name, _TEXT, "The facet.", code="missing_name"),
    _parameter(
        "page",
        ParameterReader.read_page,
        _integer(1, _MAX.page_max, 1),
        "Which page, from 1.",
    ),
    _parameter(
        "per_page",
        ParameterReader.read_facet_per_page,
        _integer(0, _MAX.facet_per_page_max, 10),
        "Buckets of a page.",
    ),
    *_RESTRICTIONS,
    _parameter(
        "search_query", ParameterReader.read_query, _TEXT, "A full text that the items must match."
    ),
    _parameter(
        "query",
        ParameterReader.read_key_pattern,
        _TEXT,
        "A pattern over whole keys, case and accents folded; * stands for any text.",
    ),
    _parameter(
        "facet_query",
        ParameterReader.read_facet_query,
        _TEXT,
        "The start of any word of the key, typos forgiven.",
    ),
    *_TEXT_MODES,
    _FACET_MODE,
    *_CONDUCT,
)


def _by_name(parameters: Iterable[Parameter]) -> Mapping[str, Parameter]:
    """Index a table by name and aliases."""
    return {
        name: parameter for parameter in parameters for name in (parameter.name, *parameter.aliases)
    }


SEARCH_BY_NAME: Final = _by_name(SEARCH_PARAMETERS)
FACET_BY_NAME: Final = _by_name(FACET_PARAMETERS)
