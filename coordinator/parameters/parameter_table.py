"""The table of parameters: name, aliases, reader, JSON Schema, description.

It is the single source for the parser, the known names in errors, the OpenAPI document and the
documentation page.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from common.limits import DEFAULT_LIMITS
from coordinator.parameters import readers_by_parameter as readers
from coordinator.parameters.object_parameter_schemas import (
    BOOSTS,
    DISTINCT,
    FACET_CUBE,
    FACET_OPTIONS,
    FACET_RANGES,
    HIGHLIGHT,
    RULES,
    SCORE,
    SNIPPET,
    SORT,
    TREES,
)
from coordinator.parameters.parameter_row import Parameter
from coordinator.parameters.parsed_parameters import SUGGESTIONS_DEFAULT
from coordinator.parameters.value_schemas import (
    BOOLEAN,
    FIELD,
    FILTERS,
    ID,
    QUERY,
    TEXT,
    TYPO_LENGTHS_SCHEMA,
    integer,
    list_of,
    names,
    text,
)

_MAX: Final = DEFAULT_LIMITS
"""Bounds as documented; an operator may have set others."""

_RESTRICTIONS: Final = (
    Parameter(
        "filters",
        readers.read_filters,
        FILTERS,
        'Values to keep, by field: {"tags": ["a", "b"]}, {"price": {"gte": 10, "lt": 50}}, '
        '{"tags": {"any": […], "all": […], "none": […], "exists": true, "count": {"gte": 2}}}; '
        'within one element of a nested field: {"variants": {"same": {"size": ["M"], "price": '
        '{"lt": 50}}}}; of points: {"_geo": {"radius": {"lat": 48.2, "lng": 16.4, "metres": '
        '2000}}}, {"_geo": {"box": {"top_right": …, "bottom_left": …}}}, {"_geo": {"polygon": '
        "[…]}}.",
        {"genres": ["Drama"], "year": {"gte": 1990}},
        is_json=True,
        stage=3,
    ),
    Parameter(
        "not_filters",
        readers.read_not_filters,
        FILTERS,
        "Values to exclude, by field; of a hierarchy, branches.",
        {"genres": ["Horror"]},
        aliases=("exclude_filters",),
        is_json=True,
        stage=4,
    ),
    Parameter(
        "filter",
        readers.read_filter,
        text(_MAX.filter_expression_chars_max),
        'A filter expression: year >= 1990 AND (tags = a OR tags IN [b, "c d"]), '
        "variants{size = M AND price < 50}, _count(tags) >= 2, _geoRadius(48.2, 16.4, 2000), "
        "_geoBoundingBox([49, 17], [48, 16]), _geoPolygon([48, 16], [49, 16], [49, 17]).",
        "year >= 1990 AND NOT genres = Horror",
        stage=5,
    ),
)
_TEXT_MODES: Final = (
    Parameter(
        "match",
        readers.read_match,
        {"type": "string", "pattern": "^(?:all|any|last|auto|0*(?:100|[1-9][0-9]?)%)$"},
        'How many words must match: "all", "any", "last" (the first one; items with more of the '
        'first words rank higher) or "75%" (rounded down); "auto": as "all"; without hits the same '
        'without function words (the, of), then, up to five words, as "last", then as "any"; '
        "`meta.match` and `meta.dropped_words` tell which.",
        "75%",
    ),
    Parameter(
        "prefix",
        readers.read_prefix,
        {"enum": ["last", "none", "all"]},
        "Which words also match as prefixes.",
        "none",
    ),
    Parameter(
        "typo",
        readers.read_typo,
        {"enum": ["auto", 0, 1, 2, "0", "1", "2"]},
        "Typos forgiven per word; auto: depends on its length; 1 and 2: in words of any length, "
        "but at most one in words of three or four letters, and none in shorter ones. Never in "
        "words with digits.",
        1,
    ),
    Parameter(
        "infix",
        readers.read_infix,
        {"enum": [True, False, "true", "false"]},
        "Whether words of three letters or more also match inside words, in all fields: 3201 in "
        "lp3201x; by default, in the fields that the configuration names.",
        True,
    ),
    Parameter(
        "typo_lengths",
        readers.read_typo_lengths,
        {"anyOf": [TYPO_LENGTHS_SCHEMA, TEXT]},
        "Letters from which on a word may have one typo, and two: [5, 9]; not in fields that the "
        "configuration gives lengths of their own.",
        [5, 9],
        is_list=True,
    ),
    Parameter(
        "search_fields",
        readers.read_search_fields,
        names(_MAX.search_fields_max, num_min=1),
        'Fields to search, with weights: ["name^3", "description"]; "*": all others that the '
        "configuration searches, with its weights. If no item has any of them, "
        "or `searchable_fields` of the configuration names none, that is an error; "
        "`meta.warnings` lists each that is so.",
        ["name^3", "description"],
        is_list=True,
    ),
)
_BOOST: Final = Parameter(
    "boost",
    readers.read_boost,
    BOOSTS,
    'Numbers and dates that multiply scores, instead of the configured ones: {"popularity": '
    '{"log": 0.3}} by 1 + 0.3 · ln(1 + popularity), {"released": {"decay": "180d"}} by 1 + 0.5 '
    '^ (age / 180 days); also linear, saturation, reciprocal, with weight and origin; {"_geo": '
    '{"decay": 2000, "origin": {"lat": 48.2, "lng": 16.4}}} by the metres from a point. Without '
    "a query, every item starts with a score of 1.",
    {"votes": {"log": 0.3}},
    is_json=True,
)
_RULES: Final = Parameter(
    "rules",
    readers.read_rules,
    RULES,
    'Curation rules, instead of the configured ones: [{"name": "tv week", "when": {"query": '
    '{"contains": "tv"}, "filters": {"category": "tv"}, "from": "2026-11-20", "until": '
    '"2026-11-30"}, "pin": [42, {"id": 7, "position": 5}], "hide": [13], "boost": [{"filter": '
    '"brand = acme", "factor": 3}], "bury": ["used = true"], "filter": "in_stock = true", '
    '"data": {"banner": "tv.webp"}}]. '
    "Pinned items are hits if they pass the filters; `meta.rule_data` lists the data of the rules "
    "that applied. `meta.warnings` lists fields of "
    "`when.filters` that no item has: such a rule never applies.",
    [{"name": "classics first", "pin": [2], "hide": [13]}],
    is_json=True,
)
_MIN_SCORE: Final = Parameter(
    "min_score",
    readers.read_min_score,
    SCORE,
    "Items that score lower are not hits: they are neither listed nor counted.",
    0.5,
)
_TIMEOUT: Final = Parameter(
    "timeout_ms",
    readers.read_timeout_ms,
    integer(1, _MAX.request_timeout_ms_max, _MAX.request_timeout_ms),
    "The request's deadline in milliseconds.",
    500,
)
_CONDUCT: Final = (
    Parameter(
        "partial",
        readers.read_partial,
        {"enum": ["fail", "allow"]},
        "If a shard is down: fail with an error, or allow a partial response that says so.",
        "allow",
    ),
    _TIMEOUT,
)
_FACET_MODE: Final = Parameter(
    "facet_mode",
    readers.read_facet_mode,
    {"enum": ["auto", "strict"]},
    "strict: all facets count the hits; auto: disjunctive facets ignore their own filter.",
    "strict",
)

_QUERY_PARAMETER: Final = Parameter(
    "query",
    readers.read_query,
    QUERY,
    "Full-text query; empty: all items.",
    "godfathr",
)

RESTRICTING_PARAMETERS: Final = (_QUERY_PARAMETER, *_RESTRICTIONS, *_TEXT_MODES)
"""Parameters that select items; exports and changes by filter accept them too."""

SEARCH_PARAMETERS: Final = (
    _QUERY_PARAMETER,
    Parameter(
        "page",
        readers.read_page,
        integer(1, _MAX.page_max, 1),
        "Page number, from 1.",
        2,
    ),
    Parameter(
        "per_page",
        readers.read_per_page,
        integer(0, _MAX.per_page_max, 10),
        "Items per page; 0 returns only the total and facets.",
        20,
    ),
    *_RESTRICTIONS,
    Parameter(
        "facet_fields",
        readers.read_facet_fields,
        {"anyOf": [list_of(TEXT, _MAX.facet_fields_max), TEXT]},
        'Facets to return; by default, and for "*", all that are configured. `meta.warnings` lists '
        "names that are not facets.",
        ["genres", "country"],
        aliases=("facets_fields",),
        is_list=True,
    ),
    Parameter(
        "sort_field",
        readers.read_sort_field,
        FIELD,
        "Any field with scalar values.",
        "year",
    ),
    Parameter(
        "order",
        readers.read_order,
        {"enum": ["asc", "desc"]},
        "Direction of sort_field; without sort_field and query, of the insertion order. Not with "
        "sort, whose keys have their own.",
        "desc",
        stage=1,
    ),
    Parameter(
        "sort",
        readers.read_sort,
        SORT,
        'Sort keys: ["year:desc", "name:asc:missing=first", "_score:desc"]; by distance: '
        "_geo(48.2,16.4):asc, which adds _geoDistance in metres to each hit. A field inside a "
        "nested one sorts by the smallest (desc: the greatest) number among the elements that "
        'pass `same`. "_score:buckets=10:desc" divides scores into ten equal steps below the '
        'best one, so that the next key decides among similar scores; "_random:42" is a '
        "shuffled order, which the number determines. Texts sort by the collation of the field, "
        'or by another: "name:asc:collation=sv".',
        ["year:desc", "name:asc"],
        is_list=True,
        stage=2,
    ),
    *_TEXT_MODES,
    _BOOST,
    _RULES,
    _MIN_SCORE,
    Parameter(
        "fields",
        readers.read_fields,
        names(_MAX.projected_fields_max),
        'Return only these paths of each item, each with all inside it; "*": all. `meta.warnings` '
        "lists those that no item has.",
        ["name", "year"],
        is_list=True,
    ),
    Parameter(
        "exclude_fields",
        readers.read_exclude_fields,
        names(_MAX.projected_fields_max),
        'Leave out these paths of each item, each with all inside it; "*": all.',
        ["storyline"],
        is_list=True,
    ),
    Parameter(
        "highlight",
        readers.read_highlight,
        HIGHLIGHT,
        'Mark the matching words: {"fields": ["name"], "pre": "<em>", "post": "</em>"}.',
        ["name"],
        is_list=True,
    ),
    Parameter(
        "snippet",
        readers.read_snippet,
        SNIPPET,
        'The best-matching part of long texts, with its length in words: {"fields": '
        '["description:20"]}. It has at most 128 bytes for each.',
        {"fields": ["storyline:20"]},
        is_list=True,
    ),
    Parameter(
        "facets",
        readers.read_facets,
        FACET_OPTIONS,
        "Options of facets for this request, by facet; missing, cardinality and percentiles "
        '([50, 95]) tell more about the values: {"price": {"size": 0, "percentiles": [50]}}; '
        '{"brand": {"stats": ["price"]}} adds the count, sum, minimum, maximum and mean of the '
        "prices to each brand. Any field with values can be counted, configured as a facet or "
        'not: {"year": {}}; a field that is not is disjunctive, and lists only values with '
        'hits. {"brand": {"sort": "term", "collation": "sv"}} sorts keys by the rules of a '
        "language.",
        {"genres": {"size": 5}, "year": {"sort": "term"}},
        is_json=True,
        stage=1,
    ),
    Parameter(
        "facet_ranges",
        readers.read_facet_ranges,
        FACET_RANGES,
        'Counts by interval, by field: {"price": [{"to": 10}, {"from": 10, "to": 50}]}, '
        '{"price": {"interval": 10}}, {"date": {"calendar": "week"}} (also "6h"; "time_zone": '
        '"Europe/Vienna"); {"price": {"ranges": […], "missing": true}}; of points: {"_geo": '
        '{"origin": {"lat": 48.2, "lng": 16.4}, "rings": [0, 1000, 5000]}}, {"_geo": {"grid": '
        "6}} (cells of a grid of 2^6 columns and rows over the earth). Like the values of a "
        "facet, the counts ignore the filter on their own field, so that other intervals can be "
        "selected; except for a conjunctive facet, or with `facet_mode` strict. Statistics of a "
        "facet always cover the hits only.",
        {"year": {"interval": 10}},
        is_json=True,
        stage=2,
    ),
    Parameter(
        "facet_cube",
        readers.read_facet_cube,
        FACET_CUBE,
        "Joint counts of a numeric field with all facets, ranges and trees of the response: "
        '{"field": "price", "interval": 10} or {"field": "price", "edges": [0, 10, 50]}. '
        "data.facet_cube has cumulative counts up to each edge, for each listed value and "
        "interval: the count for prices from the i-th to the j-th edge is counts[j] - "
        "counts[i], so a page with a range slider needs no further request. The counts ignore "
        "the filter on the field, and cover items that have at most one number there.",
        {"field": "year", "interval": 10},
        is_json=True,
        stage=1,
    ),
    Parameter(
        "trees",
        readers.read_trees,
        TREES,
        "Trees to count, of the configured hierarchies: the top level, and the children of the "
        'nodes that `filters` select ({"category": ["Home > Garden"]}) or that are opened: '
        '{"category": {"size": 10, "open": ["Home"]}}.',
        ["place"],
        is_list=True,
        stage=6,
    ),
    _FACET_MODE,
    Parameter(
        "cursor",
        readers.read_cursor,
        text(_MAX.cursor_chars_max),
        'Continue after the last hit of a response, on the same state of the index; "*" starts.',
        "*",
        stage=1,
    ),
    Parameter(
        "distinct",
        readers.read_distinct,
        DISTINCT,
        'Only the best "limit" hits per value of a field: {"field": "brand", "limit": 1}. Items '
        "without a value are all listed. pagination.total counts the hits that remain; facets "
        "count all matching items. An array counts as the set of its values. sizes: true adds "
        "to each item how many hits share its value (_group.size); hits: 3 adds the best of "
        'these (_group.items); facets_by: "groups" makes facets count values of the field '
        "instead of items.",
        {"field": "director", "limit": 1},
    ),
    Parameter(
        "similar_to",
        readers.read_similar_to,
        ID,
        "More like this: the id of an item. The 25 words that best distinguish it from others "
        "become the query; hits have at least 30 % of them, and the item itself is left out. "
        "All other parameters apply, except match, prefix and typo.",
        2,
        stage=1,
    ),
    Parameter(
        "did_you_mean",
        readers.read_did_you_mean,
        BOOLEAN,
        "Suggest another spelling of the query in `meta.did_you_mean`, which has hits under the "
        "same filters: where a word occurs nowhere, or where it has ten times as many hits. By "
        "default it is looked up if there are no hits or a word occurs nowhere; true: always; "
        "false: never.",
        True,
    ),
    Parameter(
        "show",
        readers.read_show,
        {"anyOf": [list_of({"enum": list(readers.SHOWN)}), TEXT]},
        "Also return: score, score_details, timings, elements (of nested fields: which passed).",
        ["score", "timings"],
        is_list=True,
    ),
    *_CONDUCT,
)

FACET_PARAMETERS: Final = (
    Parameter(
        "name",
        readers.read_name,
        FIELD,
        "The facet.",
        "genres",
        code="missing_name",
        is_required=True,
    ),
    Parameter(
        "page",
        readers.read_page,
        integer(1, _MAX.page_max, 1),
        "Page number, from 1.",
        2,
    ),
    Parameter(
        "per_page",
        readers.read_facet_per_page,
        integer(0, _MAX.facet_per_page_max, 10),
        "Buckets per page.",
        50,
    ),
    *_RESTRICTIONS,
    Parameter(
        "search_query",
        readers.read_query,
        QUERY,
        "A full-text query that the items must match.",
        "godfathr",
    ),
    Parameter(
        "query",
        readers.read_key_pattern,
        QUERY,
        "A pattern for whole keys, ignoring case, accents and signs; * matches any text, a space "
        "beside it the end of a word.",
        "*war*",
    ),
    Parameter(
        "facet_query",
        readers.read_facet_query,
        QUERY,
        "The beginning of any word of the key; typos are forgiven.",
        "dra",
    ),
    Parameter(
        "hide_zero",
        readers.read_hide_zero,
        BOOLEAN,
        "Leave out values without hits, unless selected; pagination.total does not count them.",
        True,
    ),
    *_TEXT_MODES,
    _BOOST,
    _RULES,
    _MIN_SCORE,
    _FACET_MODE,
    *_CONDUCT,
)


SUGGEST_PARAMETERS: Final = (
    Parameter(
        "query",
        readers.read_query,
        QUERY,
        "The text typed so far. If empty: the most frequent facet values, the texts of the most "
        "popular items and the most frequent searches, as configured.",
        "godf",
    ),
    Parameter(
        "size",
        readers.read_suggestions_size,
        integer(1, _MAX.suggestions_max, SUGGESTIONS_DEFAULT),
        "The maximum number of suggestions.",
        5,
    ),
    *_RESTRICTIONS,
    _TIMEOUT,
)


EXPLAIN_PARAMETERS: Final = (
    Parameter("id", readers.read_id, ID, "The item to explain.", 2, is_required=True),
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
