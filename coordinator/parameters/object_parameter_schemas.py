"""JSON Schemas of the parameters that take objects: how hits are ranked, counted and shown.

Bounds are those of the default limits; an operator may have set others.
"""

from __future__ import annotations

from typing import Final

from common.boosts import SCALE_MAX, WEIGHT_MAX
from common.curation_rules import FACTOR_MAX, NAME_CHARS_MAX, POSITION_MAX
from common.limits import DEFAULT_LIMITS
from coordinator.parameters.facet_ranges_and_cube import CALENDARS, SPAN
from coordinator.parameters.parameter_row import Schema
from coordinator.parameters.readers_by_parameter import MIN_SCORE_MAX, NUMBER
from coordinator.parameters.value_schemas import (
    BOUND,
    CHOICE,
    COLLATION_SCHEMA,
    FIELD,
    ID,
    METRES,
    POINT,
    QUERY,
    SCALAR,
    TEXT,
    by_field,
    integer,
    list_of,
    names,
    options,
    or_empty_list,
    some_of,
    text,
)

_MAX: Final = DEFAULT_LIMITS
_BOOLEAN: Final[Schema] = {"type": "boolean"}
_NUMBER: Final[Schema] = {"type": "number"}

# --- the order of hits

_WEIGHT: Final[Schema] = {"type": "number", "exclusiveMinimum": 0, "maximum": WEIGHT_MAX}
_SCALE: Final[Schema] = {"type": "number", "exclusiveMinimum": 0, "maximum": SCALE_MAX}
_DISTANCE: Final[Schema] = {"anyOf": [_SCALE, TEXT]}
_ORIGIN: Final[Schema] = {
    "anyOf": [{"type": "number", "minimum": -SCALE_MAX, "maximum": SCALE_MAX}, TEXT, POINT]
}
BOOST: Final[Schema] = {
    "anyOf": [
        options("log", log=_WEIGHT),
        options("linear", linear=_WEIGHT),
        options("saturation", saturation=_SCALE, weight=_WEIGHT),
        options("decay", decay=_DISTANCE, weight=_WEIGHT, origin=_ORIGIN),
        options("reciprocal", reciprocal=_DISTANCE, weight=_WEIGHT, origin=_ORIGIN),
    ]
}
BOOSTS: Final = by_field(BOOST, _MAX.boosts_max)

_EXPRESSION: Final[Schema] = {"type": "string", "pattern": r"\S"}
_POSITION: Final[Schema] = {"type": "integer", "minimum": 1, "maximum": POSITION_MAX}
_PIN: Final[Schema] = {
    "anyOf": [
        ID,
        {
            "type": "object",
            "properties": {"id": ID, "position": _POSITION},
            "required": ["id"],
            "additionalProperties": False,
        },
    ]
}
_FACTOR: Final = options(
    "filter",
    "factor",
    filter=_EXPRESSION,
    factor={"type": "number", "exclusiveMinimum": 0, "maximum": FACTOR_MAX},
)


def _one_or_more(schema: Schema, num_max: int) -> Schema:
    """Return the schema of a list, of which a single element may stand without brackets."""
    return {"anyOf": [schema, list_of(schema, num_max)]}


_RULE: Final = some_of(
    options(
        name=text(NAME_CHARS_MAX, 1),
        when=options(
            query={
                "anyOf": [TEXT, options("is", **{"is": TEXT}), options("contains", contains=TEXT)]
            },
            filters={
                "type": "object",
                "propertyNames": {"minLength": 1},
                "additionalProperties": {"anyOf": [SCALAR, list_of(SCALAR, num_min=1)]},
            },
            **{"from": TEXT},
            until=TEXT,
        ),
        pin=_one_or_more(_PIN, _MAX.rule_items_max),
        hide=_one_or_more(ID, _MAX.rule_items_max),
        boost=_one_or_more(_FACTOR, _MAX.boosts_max),
        bury=_one_or_more(_EXPRESSION, _MAX.boosts_max),
        filter=_EXPRESSION,
        data={"type": "object"},
    )
)
RULES: Final = list_of(_RULE, _MAX.rules_max)

SCORE: Final[Schema] = {
    "type": ["number", "string"],
    "minimum": 0,
    "maximum": MIN_SCORE_MAX,
    "pattern": f"^{NUMBER.pattern}$",
}

_SORT_KEY: Final = options(
    "field",
    field=FIELD,
    order={"enum": ["asc", "desc"]},
    missing={"enum": ["first", "last"]},
    collation=COLLATION_SCHEMA,
    point=POINT,
    buckets=integer(1, _MAX.score_buckets_max),
    seed=integer(0, _MAX.seed_max),
)
SORT: Final[Schema] = {
    "anyOf": [TEXT, _SORT_KEY, list_of({"anyOf": [FIELD, _SORT_KEY]}, _MAX.sort_keys_max)]
}

# --- the counts

_TEXTS: Final[Schema] = {"anyOf": [TEXT, list_of(TEXT)]}
FACET_OPTIONS: Final = by_field(
    or_empty_list(
        options(
            size=integer(0, _MAX.facet_size_max),
            sort=_TEXTS,
            order=_TEXTS,
            conjunction=_BOOLEAN,
            hide_zero=_BOOLEAN,
            query=QUERY,
            offset=integer(0, _MAX.facet_offset_max),
            stats={"anyOf": [_BOOLEAN, list_of(FIELD, _MAX.value_statistics_max)]},
            missing=_BOOLEAN,
            cardinality=_BOOLEAN,
            percentiles=list_of(
                {"type": "number", "minimum": 0, "maximum": 100}, _MAX.percentiles_max
            ),
            collation=COLLATION_SCHEMA,
        )
    )
)

_INTERVAL: Final[Schema] = {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1e300}
_RANGE: Final = some_of(options(**{"from": BOUND, "to": BOUND}))
_RANGES: Final = list_of(_RANGE, _MAX.range_bounds_max, 1)
_CALENDAR: Final[Schema] = {
    "anyOf": [{"enum": list(CALENDARS)}, {"type": "string", "pattern": f"^{SPAN.pattern}$"}]
}
_GRID: Final[Schema] = {"type": "integer", "minimum": 0, "maximum": _MAX.geo_zoom_max}
FACET_RANGES: Final = by_field(
    {
        "anyOf": [
            _RANGES,
            options("ranges", ranges=_RANGES, missing=_BOOLEAN),
            options("interval", interval=_INTERVAL, missing=_BOOLEAN),
            options("calendar", calendar=_CALENDAR, time_zone=TEXT, missing=_BOOLEAN),
            options("origin", "rings", origin=POINT, rings=list_of(METRES, _MAX.geo_rings_max, 1)),
            options("grid", grid=_GRID),
        ]
    },
    _MAX.facet_ranges_max,
)

_EDGES: Final = list_of(_NUMBER, _MAX.facet_cube_bins_max + 1, 2)
FACET_CUBE: Final[Schema] = {
    "anyOf": [
        options("field", "interval", field=FIELD, interval=_INTERVAL),
        options("field", "edges", field=FIELD, edges=_EDGES),
    ]
}

_TREE: Final = options(size=integer(0, _MAX.facet_size_max), open=CHOICE)
TREES: Final[Schema] = {
    "anyOf": [
        names(_MAX.hierarchies_max),
        by_field({"anyOf": [or_empty_list(_TREE), {"type": "null"}]}, _MAX.hierarchies_max),
    ]
}

# --- what is shown

DISTINCT: Final[Schema] = {
    "anyOf": [
        FIELD,
        options(
            "field",
            field=FIELD,
            limit=integer(1, _MAX.distinct_max, 1),
            sizes=_BOOLEAN,
            hits=integer(1, _MAX.distinct_max),
            facets_by={"enum": ["items", "groups"]},
        ),
    ]
}

_MARKED: Final = names(_MAX.projected_fields_max)
_MARK: Final = text(_MAX.mark_chars_max)


def _marks(**more: Schema) -> Schema:
    """Return the schema of what to mark, and with what."""
    return {"anyOf": [_BOOLEAN, _MARKED, options(fields=_MARKED, pre=_MARK, post=_MARK, **more)]}


HIGHLIGHT: Final = _marks()
SNIPPET: Final = _marks(ellipsis=_MARK)
