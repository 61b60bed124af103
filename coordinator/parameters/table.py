"""The table of parameters: name, aliases, reader, JSON Schema, description.

It is the single source for the parser, the known names in errors, the OpenAPI document and the
documentation page.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from common.boosts import SCALE_MAX, WEIGHT_MAX
from common.limits import DEFAULT_LIMITS
from common.option_forms import TYPO_LENGTHS_MAX, TYPO_LENGTHS_MIN
from common.placement import ID_BYTES_MAX, ID_INTEGER_MAX
from common.rules import NAME_CHARS_MAX
from coordinator.parameters.facet_options import CALENDARS, SPAN
from coordinator.parameters.filter_objects import COUNT_MAX
from coordinator.parameters.geo import METRES_MAX
from coordinator.parameters.kinds import DIGITS
from coordinator.parameters.reader import (
    MIN_SCORE_MAX,
    NUMBER,
    Parameter,
    ParameterReader,
    Schema,
)
from coordinator.parameters.typed import SUGGESTIONS_DEFAULT

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
    """Build a row of the table; the error code defaults to `invalid_<name>`."""
    return Parameter(
        name, read, schema, description, code or f"invalid_{name}", aliases, is_list, is_json, stage
    )


def _text(chars_max: int, chars_min: int = 0) -> Schema:
    return {"type": "string", "minLength": chars_min, "maxLength": chars_max}


def _integer(low: int, high: int, default: int | None = None) -> Schema:
    # The bounds apply to numbers only, the pattern to texts only: both forms are described.
    schema: Schema = {"type": ["integer", "string"], "minimum": low, "maximum": high}
    schema["pattern"] = f"^(?!0+$){DIGITS.pattern}$" if low > 0 else f"^{DIGITS.pattern}$"
    return schema if default is None else {**schema, "default": default}


def _options(**members: Schema) -> Schema:
    """Return the schema of an object of options; null means "not given"."""
    properties = {name: {"anyOf": [schema, {"type": "null"}]} for name, schema in members.items()}
    return {"type": "object", "properties": properties, "additionalProperties": False}


def _by_field(schema: Schema, num_max: int | None = None) -> Schema:
    """Return the schema of an object by field; some languages encode an empty one as a list."""
    by_field: Schema = {
        "type": "object",
        "propertyNames": _FIELD,
        "additionalProperties": schema,
    }
    if num_max is not None:
        by_field["maxProperties"] = num_max
    return {"anyOf": [by_field, {"type": "array", "maxItems": 0}]}


def _names(num_max: int) -> Schema:
    """Return the schema of a list of names, or of a comma-separated list."""
    listed = {"type": "array", "items": _FIELD, "maxItems": num_max}
    return {"anyOf": [listed, {"type": "string"}]}


_TEXT: Final[Schema] = {"type": "string"}
_ID: Final[Schema] = {
    "anyOf": [
        {"type": "integer", "minimum": 0, "maximum": ID_INTEGER_MAX},
        {"type": "string", "minLength": 1, "maxLength": ID_BYTES_MAX},
    ]
}
_QUERY: Final = _text(_MAX.query_chars_max)
_FIELD: Final = _text(_MAX.field_name_bytes_max, 1)
_SCALAR: Final[Schema] = {
    "anyOf": [{"type": ["number", "boolean"]}, _text(_MAX.filter_value_bytes_max)]
}
_SCALARS: Final[Schema] = {
    "type": "array",
    "items": _SCALAR,
    "maxItems": _MAX.filter_values_max,
}
_CHOICE: Final[Schema] = {"anyOf": [_SCALAR, _SCALARS]}
_BOUND: Final[Schema] = {"anyOf": [{"type": "number"}, _text(_MAX.filter_value_bytes_max)]}
_DEGREES: Final[Schema] = {"type": "number", "minimum": -180, "maximum": 180}
_POINT: Final[Schema] = {
    "anyOf": [
        {
            "type": "object",
            "properties": {"lat": _DEGREES, "lng": _DEGREES},
            "required": ["lat", "lng"],
            "additionalProperties": False,
        },
        {"type": "array", "items": _DEGREES, "minItems": 2, "maxItems": 2},
    ]
}
_METRES: Final[Schema] = {"type": "number", "minimum": 0, "maximum": METRES_MAX}
_COUNT: Final[Schema] = {"type": "integer", "minimum": 0, "maximum": COUNT_MAX}
_COMPARED: Final[Mapping[str, Schema]] = {
    "gt": _BOUND,
    "gte": _BOUND,
    "lt": _BOUND,
    "lte": _BOUND,
    "any": _CHOICE,
    "all": _CHOICE,
    "none": _CHOICE,
    "exists": {"type": "boolean"},
}
_FILTERS: Final = _by_field(
    {
        "anyOf": [
            _CHOICE,
            _options(
                **_COMPARED,
                count={"anyOf": [_COUNT, _options(gt=_COUNT, gte=_COUNT, lt=_COUNT, lte=_COUNT)]},
                same=_by_field({"anyOf": [_CHOICE, _options(**_COMPARED)]}, _MAX.filter_fields_max),
                radius={
                    **_options(lat=_DEGREES, lng=_DEGREES, metres=_METRES),
                    "required": ["lat", "lng", "metres"],
                },
                box={
                    **_options(top_right=_POINT, bottom_left=_POINT),
                    "required": ["top_right", "bottom_left"],
                },
                polygon={
                    "type": "array",
                    "items": _POINT,
                    "minItems": 3,
                    "maxItems": _MAX.geo_corners_max,
                },
            ),
        ]
    },
    _MAX.filter_fields_max,
)


_BOOLEAN: Final[Schema] = {
    "type": ["boolean", "string"],
    "enum": [True, False, "true", "false"],
}
_FLAG: Final[Schema] = {"type": ["boolean", "null"]}
_RANGES: Final[Schema] = {
    "type": "array",
    "items": {**_options(**{"from": _BOUND, "to": _BOUND}), "minProperties": 1},
    "minItems": 1,
    "maxItems": _MAX.range_bounds_max,
}
TYPO_LENGTHS_SCHEMA: Final[Schema] = {
    "type": "array",
    "items": {
        "type": "integer",
        "minimum": TYPO_LENGTHS_MIN[0],
        "maximum": TYPO_LENGTHS_MAX,
    },
    "minItems": 2,
    "maxItems": 2,
}
COLLATION_SCHEMA: Final[Schema] = {
    "type": "string",
    "examples": ["none", "root", "de", "de-phonebook", "root+numeric"],
}
_SORT_KEY: Final[Schema] = {
    **_options(
        field=_FIELD,
        order={"enum": ["asc", "desc"]},
        missing={"enum": ["first", "last"]},
        collation=COLLATION_SCHEMA,
        point=_POINT,
        buckets=_integer(1, _MAX.score_buckets_max),
        seed=_integer(0, _MAX.seed_max),
    ),
    "required": ["field"],
}
_WEIGHT: Final[Schema] = {"type": "number", "exclusiveMinimum": 0, "maximum": WEIGHT_MAX}
_SCALE: Final[Schema] = {"type": "number", "exclusiveMinimum": 0, "maximum": SCALE_MAX}
_MARKED: Final = _names(_MAX.projected_fields_max)
_MARK: Final = _text(_MAX.mark_chars_max)
_SHOWN: Final = ["score", "score_details", "timings", "elements"]

_RESTRICTIONS: Final = (
    _parameter(
        "filters",
        ParameterReader.read_filters,
        _FILTERS,
        'Values to keep, by field: {"tags": ["a", "b"]}, {"price": {"gte": 10, "lt": 50}}, '
        '{"tags": {"any": […], "all": […], "none": […], "exists": true, "count": {"gte": 2}}}; '
        'within one element of a nested field: {"variants": {"same": {"size": ["M"], "price": '
        '{"lt": 50}}}}; of points: {"_geo": {"radius": {"lat": 48.2, "lng": 16.4, "metres": '
        '2000}}}, {"_geo": {"box": {"top_right": …, "bottom_left": …}}}, {"_geo": {"polygon": '
        "[…]}}.",
        is_json=True,
        stage=3,
    ),
    _parameter(
        "not_filters",
        ParameterReader.read_not_filters,
        _FILTERS,
        "Values to exclude, by field; of a hierarchy, branches.",
        aliases=("exclude_filters",),
        is_json=True,
        stage=4,
    ),
    _parameter(
        "filter",
        ParameterReader.read_filter,
        _text(_MAX.filter_expression_chars_max),
        'A filter expression: year >= 1990 AND (tags = a OR tags IN [b, "c d"]), '
        "variants{size = M AND price < 50}, _count(tags) >= 2, _geoRadius(48.2, 16.4, 2000), "
        "_geoBoundingBox([49, 17], [48, 16]), _geoPolygon([48, 16], [49, 16], [49, 17]).",
        stage=5,
    ),
)
_TEXT_MODES: Final = (
    _parameter(
        "match",
        ParameterReader.read_match,
        {"type": "string", "pattern": "^(?:all|any|last|auto|0*(?:100|[1-9][0-9]?)%)$"},
        'How many words must match: "all", "any", "last" (words are dropped from the end) or '
        '"75%"; "auto": as "all"; without hits as "last", then as "any"; `meta.match` tells '
        "which.",
    ),
    _parameter(
        "prefix",
        ParameterReader.read_prefix,
        {"enum": ["last", "none", "all"]},
        "Which words also match as prefixes.",
    ),
    _parameter(
        "typo",
        ParameterReader.read_typo,
        {"enum": ["auto", 0, 1, 2, "0", "1", "2"]},
        "Typos forgiven per word; auto: depends on its length.",
    ),
    _parameter(
        "infix",
        ParameterReader.read_infix,
        {"enum": [True, False, "true", "false"]},
        "Whether words of three letters or more also match inside words, in all fields: 3201 in "
        "lp3201x; by default, in the fields that the configuration names.",
    ),
    _parameter(
        "typo_lengths",
        ParameterReader.read_typo_lengths,
        TYPO_LENGTHS_SCHEMA,
        "Letters from which on a word may have one typo, and two: [5, 9]; not in fields that the "
        "configuration gives lengths of their own.",
        is_list=True,
    ),
    _parameter(
        "search_fields",
        ParameterReader.read_search_fields,
        _names(_MAX.search_fields_max),
        'Fields to search, with weights: ["name^3", "description"].',
        is_list=True,
    ),
)
_BOOST: Final = _parameter(
    "boost",
    ParameterReader.read_boost,
    _by_field(
        {
            "anyOf": [
                _options(log=_WEIGHT),
                _options(linear=_WEIGHT),
                _options(saturation=_SCALE, weight=_WEIGHT),
                *(
                    _options(
                        **{
                            function: {"anyOf": [_SCALE, _TEXT]},
                            "weight": _WEIGHT,
                            "origin": {"anyOf": [{"type": "number"}, _TEXT, _POINT]},
                        }
                    )
                    for function in ("decay", "reciprocal")
                ),
            ]
        },
        _MAX.boosts_max,
    ),
    'Numbers and dates that multiply scores, instead of the configured ones: {"popularity": '
    '{"log": 0.3}} by 1 + 0.3 · ln(1 + popularity), {"released": {"decay": "180d"}} by 1 + 0.5 '
    '^ (age / 180 days); also linear, saturation, reciprocal, with weight and origin; {"_geo": '
    '{"decay": 2000, "origin": {"lat": 48.2, "lng": 16.4}}} by the metres from a point. Without '
    "a query, every item starts with a score of 1.",
    is_json=True,
)
_RULES: Final = _parameter(
    "rules",
    ParameterReader.read_rules,
    {
        "type": "array",
        "items": {
            "type": "object",
            "properties": {
                "name": _text(NAME_CHARS_MAX, 1),
                "when": _options(
                    query={"anyOf": [_TEXT, _options(**{"is": _TEXT}), _options(contains=_TEXT)]},
                    filters={"type": "object", "additionalProperties": _CHOICE},
                    **{"from": _TEXT},
                    until=_TEXT,
                ),
                "pin": {"type": "array", "items": {}, "maxItems": _MAX.rule_items_max},
                "hide": {"type": "array", "items": {}, "maxItems": _MAX.rule_items_max},
                "boost": {"type": "array", "items": {"type": "object"}},
                "bury": {"type": "array", "items": _TEXT},
                "filter": _TEXT,
            },
            "additionalProperties": False,
        },
        "maxItems": _MAX.rules_max,
    },
    'Curation rules, instead of the configured ones: [{"name": "tv week", "when": {"query": '
    '{"contains": "tv"}, "filters": {"category": "tv"}, "from": "2026-11-20", "until": '
    '"2026-11-30"}, "pin": [42, {"id": 7, "position": 5}], "hide": [13], "boost": [{"filter": '
    '"brand = acme", "factor": 3}], "bury": ["used = true"], "filter": "in_stock = true"}]. '
    "Pinned items are hits if they pass the filters.",
    is_json=True,
)
_MIN_SCORE: Final = _parameter(
    "min_score",
    ParameterReader.read_min_score,
    {
        "type": ["number", "string"],
        "minimum": 0,
        "maximum": MIN_SCORE_MAX,
        "pattern": f"^{NUMBER.pattern}$",
    },
    "Items that score lower are not hits: they are neither listed nor counted.",
)
_TIMEOUT: Final = _parameter(
    "timeout_ms",
    ParameterReader.read_timeout_ms,
    _integer(1, _MAX.request_timeout_ms_max, _MAX.request_timeout_ms),
    "The request's deadline in milliseconds.",
)
_CONDUCT: Final = (
    _parameter(
        "partial",
        ParameterReader.read_partial,
        {"enum": ["fail", "allow"]},
        "If a shard is down: fail with an error, or allow a partial response that says so.",
    ),
    _TIMEOUT,
)
_FACET_MODE: Final = _parameter(
    "facet_mode",
    ParameterReader.read_facet_mode,
    {"enum": ["auto", "strict"]},
    "strict: all facets count the hits; auto: disjunctive facets ignore their own filter.",
)

_QUERY_PARAMETER: Final = _parameter(
    "query", ParameterReader.read_query, _QUERY, "Full-text query; empty: all items."
)

RESTRICTING_PARAMETERS: Final = (_QUERY_PARAMETER, *_RESTRICTIONS, *_TEXT_MODES)
"""Parameters that select items; exports and changes by filter accept them too."""

SEARCH_PARAMETERS: Final = (
    _QUERY_PARAMETER,
    _parameter(
        "page",
        ParameterReader.read_page,
        _integer(1, _MAX.page_max, 1),
        "Page number, from 1.",
    ),
    _parameter(
        "per_page",
        ParameterReader.read_per_page,
        _integer(0, _MAX.per_page_max, 10),
        "Items per page; 0 returns only the total and facets.",
    ),
    *_RESTRICTIONS,
    _parameter(
        "facet_fields",
        ParameterReader.read_facet_fields,
        {"anyOf": [{"type": "array", "items": _TEXT, "maxItems": _MAX.facet_fields_max}, _TEXT]},
        "Facets to return; by default all that are configured. Unknown names are ignored.",
        aliases=("facets_fields",),
        is_list=True,
    ),
    _parameter(
        "sort_field",
        ParameterReader.read_sort_field,
        _FIELD,
        "Any field with scalar values.",
    ),
    _parameter(
        "order",
        ParameterReader.read_order,
        {"enum": ["asc", "desc"]},
        "Direction of sort_field; without sort_field and query, of the insertion order.",
        stage=1,
    ),
    _parameter(
        "sort",
        ParameterReader.read_sort,
        {
            "anyOf": [
                {"type": "string"},
                _SORT_KEY,
                {
                    "type": "array",
                    "items": {"anyOf": [_FIELD, _SORT_KEY]},
                    "maxItems": _MAX.sort_keys_max,
                },
            ]
        },
        'Sort keys: ["year:desc", "name:asc:missing=first", "_score:desc"]; by distance: '
        "_geo(48.2,16.4):asc, which adds _geoDistance in metres to each hit. A field inside a "
        "nested one sorts by the smallest (desc: the greatest) number among the elements that "
        'pass `same`. "_score:buckets=10:desc" divides scores into ten equal steps below the '
        'best one, so that the next key decides among similar scores; "_random:42" is a '
        "shuffled order, which the number determines. Texts sort by the collation of the field, "
        'or by another: "name:asc:collation=sv".',
        is_list=True,
        stage=2,
    ),
    *_TEXT_MODES,
    _BOOST,
    _RULES,
    _MIN_SCORE,
    _parameter(
        "fields",
        ParameterReader.read_fields,
        _names(_MAX.projected_fields_max),
        "Return only these paths of each item.",
        is_list=True,
    ),
    _parameter(
        "exclude_fields",
        ParameterReader.read_exclude_fields,
        _names(_MAX.projected_fields_max),
        "Leave out these paths of each item.",
        is_list=True,
    ),
    _parameter(
        "highlight",
        ParameterReader.read_highlight,
        {"anyOf": [{"type": "boolean"}, _MARKED, _options(fields=_MARKED, pre=_MARK, post=_MARK)]},
        'Mark the matching words: {"fields": ["name"], "pre": "<em>", "post": "</em>"}.',
        is_list=True,
    ),
    _parameter(
        "snippet",
        ParameterReader.read_snippet,
        {
            "anyOf": [
                {"type": "boolean"},
                _MARKED,
                _options(fields=_MARKED, pre=_MARK, post=_MARK, ellipsis=_MARK),
            ]
        },
        'The best-matching part of long texts, with its length in words: {"fields": '
        '["description:20"]}.',
        is_list=True,
    ),
    _parameter(
        "facets",
        ParameterReader.read_facets,
        _by_field(
            _options(
                size=_integer(0, _MAX.facet_size_max),
                sort={"anyOf": [_TEXT, {"type": "array", "items": _TEXT}]},
                order={"anyOf": [_TEXT, {"type": "array", "items": _TEXT}]},
                conjunction={"type": "boolean"},
                hide_zero={"type": "boolean"},
                query=_QUERY,
                offset=_integer(0, _MAX.facet_offset_max),
                stats={
                    "anyOf": [
                        {"type": "boolean"},
                        {
                            "type": "array",
                            "items": _FIELD,
                            "maxItems": _MAX.value_statistics_max,
                        },
                    ]
                },
                missing={"type": "boolean"},
                cardinality={"type": "boolean"},
                percentiles={
                    "type": "array",
                    "items": {"type": "number", "minimum": 0, "maximum": 100},
                    "maxItems": _MAX.percentiles_max,
                },
                collation=COLLATION_SCHEMA,
            )
        ),
        "Options of facets for this request, by facet; missing, cardinality and percentiles "
        '([50, 95]) tell more about the values: {"price": {"size": 0, "percentiles": [50]}}; '
        '{"brand": {"stats": ["price"]}} adds the count, sum, minimum, maximum and mean of the '
        "prices to each brand. Any field with values can be counted, configured as a facet or "
        'not: {"year": {}}; a field that is not is disjunctive, and lists only values with '
        'hits. {"brand": {"sort": "term", "collation": "sv"}} sorts keys by the rules of a '
        "language.",
        is_json=True,
        stage=1,
    ),
    _parameter(
        "facet_ranges",
        ParameterReader.read_facet_ranges,
        _by_field(
            {
                "anyOf": [
                    _RANGES,
                    *(
                        {
                            "type": "object",
                            "properties": properties,
                            "required": list(properties),
                            "additionalProperties": False,
                        }
                        for properties in (
                            {"ranges": _RANGES},
                            {"ranges": _RANGES, "missing": {"type": "boolean"}},
                        )
                    ),
                    {
                        "type": "object",
                        "properties": {
                            "interval": {
                                "type": "number",
                                "exclusiveMinimum": 0,
                                "exclusiveMaximum": 1e300,
                            },
                            "missing": _FLAG,
                        },
                        "required": ["interval"],
                        "additionalProperties": False,
                    },
                    {
                        "type": "object",
                        "properties": {
                            "calendar": {
                                "anyOf": [
                                    {"enum": list(CALENDARS)},
                                    {"type": "string", "pattern": f"^{SPAN.pattern}$"},
                                ]
                            },
                            "time_zone": {"anyOf": [_TEXT, {"type": "null"}]},
                            "missing": _FLAG,
                        },
                        "required": ["calendar"],
                        "additionalProperties": False,
                    },
                    {
                        "type": "object",
                        "properties": {
                            "origin": _POINT,
                            "rings": {
                                "type": "array",
                                "items": _METRES,
                                "minItems": 1,
                                "maxItems": _MAX.geo_rings_max,
                            },
                        },
                        "required": ["origin", "rings"],
                        "additionalProperties": False,
                    },
                    {
                        "type": "object",
                        "properties": {
                            "grid": {"type": "integer", "minimum": 0, "maximum": _MAX.geo_zoom_max}
                        },
                        "required": ["grid"],
                        "additionalProperties": False,
                    },
                ]
            },
            _MAX.facet_ranges_max,
        ),
        'Counts by interval, by field: {"price": [{"to": 10}, {"from": 10, "to": 50}]}, '
        '{"price": {"interval": 10}}, {"date": {"calendar": "week"}} (also "6h"; "time_zone": '
        '"Europe/Vienna"); {"price": {"ranges": […], "missing": true}}; of points: {"_geo": '
        '{"origin": {"lat": 48.2, "lng": 16.4}, "rings": [0, 1000, 5000]}}, {"_geo": {"grid": '
        "6}} (cells of a grid of 2^6 columns and rows over the earth). Like the values of a "
        "facet, the counts ignore the filter on their own field, so that other intervals can be "
        "selected; except for a conjunctive facet, or with `facet_mode` strict. Statistics of a "
        "facet always cover the hits only.",
        is_json=True,
        stage=2,
    ),
    _parameter(
        "facet_cube",
        ParameterReader.read_facet_cube,
        {
            "anyOf": [
                {
                    "type": "object",
                    "properties": {
                        "field": _FIELD,
                        "interval": {
                            "type": "number",
                            "exclusiveMinimum": 0,
                            "exclusiveMaximum": 1e300,
                        },
                    },
                    "required": ["field", "interval"],
                    "additionalProperties": False,
                },
                {
                    "type": "object",
                    "properties": {
                        "field": _FIELD,
                        "edges": {
                            "type": "array",
                            "items": {"type": "number"},
                            "minItems": 2,
                            "maxItems": _MAX.facet_cube_bins_max + 1,
                        },
                    },
                    "required": ["field", "edges"],
                    "additionalProperties": False,
                },
            ]
        },
        "Joint counts of a numeric field with all facets, ranges and trees of the response: "
        '{"field": "price", "interval": 10} or {"field": "price", "edges": [0, 10, 50]}. '
        "data.facet_cube has cumulative counts up to each edge, for each listed value and "
        "interval: the count for prices from the i-th to the j-th edge is counts[j] - "
        "counts[i], so a page with a range slider needs no further request. The counts ignore "
        "the filter on the field, and cover items that have at most one number there.",
        is_json=True,
        stage=1,
    ),
    _parameter(
        "trees",
        ParameterReader.read_trees,
        {
            "anyOf": [
                _names(_MAX.hierarchies_max),
                _by_field(
                    {
                        "anyOf": [
                            _options(
                                size=_integer(0, _MAX.facet_size_max),
                                open={"type": "array", "items": _TEXT},
                            ),
                            {"type": "null"},
                        ]
                    },
                    _MAX.hierarchies_max,
                ),
            ]
        },
        "Trees to count, of the configured hierarchies: the top level, and the children of the "
        'nodes that `filters` select ({"category": ["Home > Garden"]}) or that are opened: '
        '{"category": {"size": 10, "open": ["Home"]}}.',
        is_list=True,
        stage=6,
    ),
    _FACET_MODE,
    _parameter(
        "cursor",
        ParameterReader.read_cursor,
        _text(_MAX.cursor_chars_max),
        'Continue after the last hit of a response, on the same state of the index; "*" starts.',
        stage=1,
    ),
    _parameter(
        "distinct",
        ParameterReader.read_distinct,
        {
            "anyOf": [
                _FIELD,
                {
                    **_options(
                        field=_FIELD,
                        limit=_integer(1, _MAX.distinct_max, 1),
                        sizes={"type": "boolean"},
                        hits=_integer(1, _MAX.distinct_max),
                        facets_by={"enum": ["items", "groups"]},
                    ),
                    "required": ["field"],
                },
            ]
        },
        'Only the best "limit" hits per value of a field: {"field": "brand", "limit": 1}. Items '
        "without a value are all listed. pagination.total counts the hits that remain; facets "
        "count all matching items. An array counts as the set of its values. sizes: true adds "
        "to each item how many hits share its value (_group.size); hits: 3 adds the best of "
        'these (_group.items); facets_by: "groups" makes facets count values of the field '
        "instead of items.",
    ),
    _parameter(
        "similar_to",
        ParameterReader.read_similar_to,
        _ID,
        "More like this: the id of an item. The 25 words that best distinguish it from others "
        "become the query; hits have at least 30 % of them, and the item itself is left out. "
        "All other parameters apply, except match, prefix and typo.",
        stage=1,
    ),
    _parameter(
        "did_you_mean",
        ParameterReader.read_did_you_mean,
        _BOOLEAN,
        "Suggest another spelling of the query in `meta.did_you_mean`, which has hits under the "
        "same filters: where a word occurs nowhere, or where it has ten times as many hits. By "
        "default it is looked up if there are no hits or a word occurs nowhere; true: always; "
        "false: never.",
    ),
    _parameter(
        "show",
        ParameterReader.read_show,
        {"anyOf": [{"type": "array", "items": {"enum": _SHOWN}}, _TEXT]},
        "Also return: score, score_details, timings, elements (of nested fields: which passed).",
        is_list=True,
    ),
    *_CONDUCT,
)

FACET_PARAMETERS: Final = (
    _parameter("name", ParameterReader.read_name, _FIELD, "The facet.", code="missing_name"),
    _parameter(
        "page",
        ParameterReader.read_page,
        _integer(1, _MAX.page_max, 1),
        "Page number, from 1.",
    ),
    _parameter(
        "per_page",
        ParameterReader.read_facet_per_page,
        _integer(0, _MAX.facet_per_page_max, 10),
        "Buckets per page.",
    ),
    *_RESTRICTIONS,
    _parameter(
        "search_query",
        ParameterReader.read_query,
        _QUERY,
        "A full-text query that the items must match.",
    ),
    _parameter(
        "query",
        ParameterReader.read_key_pattern,
        _QUERY,
        "A pattern for whole keys, ignoring case and accents; * matches any text.",
    ),
    _parameter(
        "facet_query",
        ParameterReader.read_facet_query,
        _QUERY,
        "The beginning of any word of the key; typos are forgiven.",
    ),
    _parameter(
        "hide_zero",
        ParameterReader.read_hide_zero,
        _BOOLEAN,
        "Leave out values without hits, unless selected; pagination.total does not count them.",
    ),
    *_TEXT_MODES,
    _BOOST,
    _RULES,
    _MIN_SCORE,
    _FACET_MODE,
    *_CONDUCT,
)


SUGGEST_PARAMETERS: Final = (
    _parameter(
        "query",
        ParameterReader.read_query,
        _QUERY,
        "The text typed so far. If empty: the most frequent facet values, the texts of the most "
        "popular items and the most frequent searches, as configured.",
    ),
    _parameter(
        "size",
        ParameterReader.read_suggestions_size,
        _integer(1, _MAX.suggestions_max, SUGGESTIONS_DEFAULT),
        "The maximum number of suggestions.",
    ),
    *_RESTRICTIONS,
    _TIMEOUT,
)


EXPLAIN_PARAMETERS: Final = (
    _parameter("id", ParameterReader.read_id, _ID, "The item to explain."),
    *SEARCH_PARAMETERS,
)


def _by_name(parameters: Iterable[Parameter]) -> Mapping[str, Parameter]:
    """Index parameters by name and alias."""
    return {
        name: parameter for parameter in parameters for name in (parameter.name, *parameter.aliases)
    }


SEARCH_BY_NAME: Final = _by_name(SEARCH_PARAMETERS)
FACET_BY_NAME: Final = _by_name(FACET_PARAMETERS)
SUGGEST_BY_NAME: Final = _by_name(SUGGEST_PARAMETERS)
EXPLAIN_BY_NAME: Final = _by_name(EXPLAIN_PARAMETERS)
