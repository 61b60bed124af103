"""OpenAPI says of every value, however deep in a body, what the parsers say.

Each document below is valid. One of its values after another is replaced by probes, such as numbers
just within and just beyond a bound; the schema and the parser must both accept or both refuse.
Texts may have a meaning beyond their form (a filter's grammar): what the schema forbids must be
refused, and what is refused need not be forbidden.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeAlias

import pytest
from jsonschema import Draft202012Validator

from common.curation_rules import POSITION_MAX
from common.errors import InvalidRequest
from common.index_configuration_parser import parse_configuration
from common.limits import DEFAULT_LIMITS
from coordinator.http.api_description.schemas.configuration_schemas import CONFIGURATION_SCHEMAS
from coordinator.parameters.parameter_table import SEARCH_PARAMETERS
from coordinator.parameters.request_parsing import parse_search
from coordinator.write.configuration_patch_and_diff import with_empty_objects

Path: TypeAlias = tuple[str | int, ...]

CONFIGURED, _ = parse_configuration(
    {
        "aggregations": {"genres": {}, "place": {}, "brand": {}, "variants.size": {}},
        "nested": ["variants"],
        "hierarchies": {"region": {"path": "place"}},
    },
    DEFAULT_LIMITS,
)
BOUNDS: Final = (
    *(-180, -90, 0, 1, 3, 5, 90, 100, 180, 1_000),
    *(DEFAULT_LIMITS.geo_zoom_max, DEFAULT_LIMITS.per_page_max, DEFAULT_LIMITS.facet_size_max),
    *(DEFAULT_LIMITS.request_timeout_ms_max, POSITION_MAX, 10**6, 10**9, 2**32, 10**15, 2**63),
)
"""Numbers at which some value of a document ends, or may end."""
RELATED: Final = re.compile(
    r"filters\._geo\.box\..*|filters\.variants\.same.*|facet_ranges\.year\..*\.(from|to)"
    r"|facet_ranges\._geo\.rings\.\d|facet_cube\.edges\.\d|(field_)?typo_lengths(\.name)?\.0"
    r"|boost\.released\.(decay|origin)|boost\.(_geo|year)\.origin|sort\.0\.(point|seed)|rules\.0"
)
"""Values that depend on others of the document, or on the configuration: ranges and edges ascend,
within one element only facets are compared with values, a rule must do something.
"""
POINT: Final = {"lat": 48.2, "lng": 16.4}
RULES: Final = [
    {
        "name": "tv week",
        "when": {
            "query": {"contains": "tv"},
            "filters": {"category": ["tv", 5]},
            "from": "2026-11-20",
            "until": "2026-11-30",
        },
        "pin": [42, {"id": 7, "position": 5}],
        "hide": [13, "b"],
        "boost": [{"filter": "brand = acme", "factor": 3.5}],
        "bury": ["used = true"],
        "filter": "in_stock = true",
        "data": {"banner": "tv.webp"},
    }
]
BOOSTS: Final[list[dict[str, Any]]] = [
    {"votes": {"log": 0.3}},
    {"votes": {"linear": 1}},
    {"votes": {"saturation": 50, "weight": 2}},
    {"released": {"decay": "180d", "weight": 2, "origin": "2026-01-01"}},
    {"year": {"reciprocal": 5, "weight": 1, "origin": 2020}},
    {"_geo": {"decay": 2000, "weight": 1, "origin": POINT}},
]
SEARCHES: Final[list[dict[str, Any]]] = [
    {"page": 2, "per_page": 3, "timeout_ms": 500, "min_score": 0.5, "did_you_mean": True},
    {"typo": 1, "typo_lengths": [4, 8], "infix": True},
    {"rules": RULES},
    *[{"boost": boost} for boost in BOOSTS],
    {"filters": {"year": {"gte": 1990, "lt": 2000}, "genres": {"count": {"gte": 2, "lt": 5}}}},
    {"filters": {"genres": {"any": ["a", 5, True], "none": ["b"], "exists": True}}},
    {"filters": {"genres": {"count": 2}}},
    {"filters": {"variants": {"same": {"size": ["M"], "price": {"lt": 50}}}}},
    {"filters": {"_geo": {"radius": {**POINT, "metres": 2000}}}},
    {"filters": {"_geo": {"box": {"top_right": [49, 17], "bottom_left": {"lat": 48, "lng": 16}}}}},
    {"filters": {"_geo": {"polygon": [[48, 16], POINT, [49, 17], [47.5, 15]]}}},
    {"sort": [{"field": "year", "order": "desc", "missing": "first"}]},
    {"sort": [{"field": "_geo", "point": [48.2, 16.4]}]},
    {"sort": [{"field": "_score", "buckets": 10, "order": "desc"}]},
    {"sort": [{"field": "_random", "seed": 42}]},
    {"facets": {"genres": {"size": 5, "conjunction": True, "hide_zero": True, "offset": 5}}},
    {"facets": {"genres": {"stats": ["year"], "missing": True, "cardinality": True}}},
    {"facets": {"genres": {"stats": True, "percentiles": [5, 99.5]}}},
    {"facet_ranges": {"year": [{"from": 5, "to": 10.5}, {"to": 5}]}},
    {"facet_ranges": {"year": {"ranges": [{"from": 5}], "missing": True}}},
    {"facet_ranges": {"year": {"interval": 10, "missing": True}}},
    {"facet_ranges": {"made": {"calendar": "day", "time_zone": "UTC", "missing": True}}},
    {"facet_ranges": {"_geo": {"origin": POINT, "rings": [0, 1000]}}},
    {"facet_ranges": {"_geo": {"grid": 3}}},
    {"facet_cube": {"field": "year", "edges": [1, 2.5]}},
    {"facet_cube": {"field": "year", "interval": 1}},
    {"trees": {"region": {"size": 5, "open": ["Europe"]}}},
    {"distinct": {"field": "brand", "limit": 2, "sizes": True, "facets_by": "groups"}},
    {"distinct": {"field": "brand", "hits": 3}},
    {"highlight": {"fields": ["name"], "pre": "<b>", "post": "</b>"}},
    {"snippet": {"fields": ["name:20"], "ellipsis": "..."}},
]
CONFIGURATIONS: Final[list[dict[str, Any]]] = [
    {
        "aggregations": {"genres": {"size": 5, "conjunction": False, "position": 3, "title": "G",
                                    "chosen_filters_on_top": True, "show_facet_stats": True,
                                    "hide_zero_doc_count": True}},
        "searchable_fields": {"name": 3, "*": 0.5},
        "typo": 1,
        "typo_lengths": [4, 8],
        "field_typo_lengths": {"name": [4, 8]},
        "infix": ["name"],
        "rules": RULES,
    },
    *[{"boost": boost} for boost in BOOSTS],
]  # fmt: skip


def parses_search(document: Any) -> bool:
    return _parses(lambda: parse_search(copy.deepcopy(document), CONFIGURED, DEFAULT_LIMITS))


def parses_configuration(document: Any) -> bool:
    given = with_empty_objects(copy.deepcopy(document))
    return _parses(lambda: parse_configuration(given, DEFAULT_LIMITS))


def _parses(parse: Callable[[], object]) -> bool:
    try:
        parse()
    except InvalidRequest:
        return False
    return True


def paths_of(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Yield the path and the value of everything inside of a document."""
    if path:
        yield path, value
    members: Any = ()
    if isinstance(value, dict):
        members = value.items()
    elif isinstance(value, list):
        members = enumerate(value)
    for name, member in members:
        yield from paths_of(member, (*path, name))


def replaced(document: Any, path: Path, value: Any) -> Any:
    """Return a document with another value at a path."""
    changed = copy.deepcopy(document)
    parent = changed
    for name in path[:-1]:
        parent = parent[name]
    parent[path[-1]] = value
    return changed


def probes(value: Any) -> Iterator[Any]:
    """Yield values to put in the place of one: beyond every bound, near it, of other types."""
    if type(value) is int:
        yield from (number for bound in BOUNDS for number in (bound - 1, bound, bound + 1))
    if type(value) in (int, float):
        yield from (-(2**70), -2e15 - 0.5, -0.5, 0.5, 2e15 + 0.5, 2**70)
    yield from (True, None, [], {}, [[]], {"unknown": 1}, -1, 1.5)


@pytest.mark.parametrize(
    ("schema", "documents", "parses"),
    [
        (
            {
                "type": "object",
                "properties": {
                    one.name: {"anyOf": [one.schema, {"type": "null"}]} for one in SEARCH_PARAMETERS
                },
                "additionalProperties": False,
            },
            SEARCHES,
            parses_search,
        ),
        (CONFIGURATION_SCHEMAS["Configuration"], CONFIGURATIONS, parses_configuration),
    ],
    ids=["search", "configuration"],
)
def test_bounds_and_types_are_those_of_the_parsers(
    schema: Any, documents: list[Any], parses: Callable[[Any], bool]
) -> None:
    validator = Draft202012Validator(schema)
    different = set()
    for document in documents:
        assert (parses(document), validator.is_valid(document)) == (True, True), document
        for path, value in paths_of(document):
            names = ".".join(str(name) for name in path)
            for probe in probes(value):
                changed = replaced(document, path, probe)
                is_valid = validator.is_valid(changed)
                is_parsed = parses(changed)
                if is_parsed != is_valid and (is_parsed or not RELATED.fullmatch(names)):
                    different.add(f"{names} = {json.dumps(probe)}: schema {is_valid}")
    assert sorted(different) == []
