"""JSON Schemas of the values that parameters take: the parts of which the table is made.

Bounds are those of the default limits; an operator may have set others.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from common.item_ids import ID_BYTES_MAX, ID_INTEGER_MAX
from common.limits import DEFAULT_LIMITS
from common.search_option_parsers import TYPO_LENGTHS_MAX, TYPO_LENGTHS_MIN
from coordinator.parameters.filter_objects import COUNT_MAX
from coordinator.parameters.geo import METRES_MAX
from coordinator.parameters.parameter_row import Schema
from coordinator.parameters.value_parsers import DIGITS

_MAX: Final = DEFAULT_LIMITS


def text(chars_max: int, chars_min: int = 0) -> Schema:
    """Return the schema of a text."""
    return {"type": "string", "minLength": chars_min, "maxLength": chars_max}


def integer(low: int, high: int, default: int | None = None) -> Schema:
    """Return the schema of an integer, as a number or as a text."""
    # The bounds apply to numbers only, the pattern to texts only: both forms are described.
    schema: Schema = {"type": ["integer", "string"], "minimum": low, "maximum": high}
    schema["pattern"] = f"^(?!0+$){DIGITS.pattern}$" if low > 0 else f"^{DIGITS.pattern}$"
    return schema if default is None else {**schema, "default": default}


def options(*required: str, **members: Schema) -> Schema:
    """Return the schema of an object of options; null means "not given"."""
    properties = {
        name: schema if name in required else {"anyOf": [schema, {"type": "null"}]}
        for name, schema in members.items()
    }
    schema: Schema = {"type": "object", "properties": properties, "additionalProperties": False}
    return {**schema, "required": list(required)} if required else schema


def by_field(schema: Schema, num_max: int | None = None) -> Schema:
    """Return the schema of an object by field."""
    by_field: Schema = {
        "type": "object",
        "propertyNames": FIELD,
        "additionalProperties": schema,
    }
    if num_max is not None:
        by_field["maxProperties"] = num_max
    return or_empty_list(by_field)


def or_empty_list(schema: Schema) -> Schema:
    """Return the schema of an object that may be empty; some languages encode that as a list."""
    return {"anyOf": [schema, {"type": "array", "maxItems": 0}]}


def list_of(schema: Schema, num_max: int | None = None, num_min: int = 0) -> Schema:
    """Return the schema of a list."""
    listed: Schema = {"type": "array", "items": schema}
    if num_max is not None:
        listed["maxItems"] = num_max
    if num_min:
        listed["minItems"] = num_min
    return listed


def pair_of(first: Schema, second: Schema) -> Schema:
    """Return the schema of a list of two different values."""
    return {"type": "array", "prefixItems": [first, second], "minItems": 2, "maxItems": 2}


def some_of(schema: Schema) -> Schema:
    """Return the schema of an object that has at least one member."""
    return {**schema, "minProperties": 1}


def names(num_max: int, num_min: int = 0) -> Schema:
    """Return the schema of a list of names, or of a comma-separated list."""
    return {"anyOf": [list_of(FIELD, num_max, num_min), TEXT]}


TEXT: Final[Schema] = {"type": "string"}
ID: Final[Schema] = {
    "anyOf": [
        {"type": "integer", "minimum": 0, "maximum": ID_INTEGER_MAX},
        {"type": "string", "minLength": 1, "maxLength": ID_BYTES_MAX},
    ]
}
QUERY: Final = text(_MAX.query_chars_max)
FIELD: Final = text(_MAX.field_name_bytes_max, 1)
SCALAR: Final[Schema] = {
    "anyOf": [{"type": ["number", "boolean"]}, text(_MAX.filter_value_bytes_max)]
}
SCALARS: Final[Schema] = list_of(SCALAR, _MAX.filter_values_max)
CHOICE: Final[Schema] = {"anyOf": [SCALAR, SCALARS]}
BOUND: Final[Schema] = {"anyOf": [{"type": "number"}, text(_MAX.filter_value_bytes_max)]}
LAT: Final[Schema] = {"type": "number", "minimum": -90, "maximum": 90}
LNG: Final[Schema] = {"type": "number", "minimum": -180, "maximum": 180}
POINT: Final[Schema] = {
    "anyOf": [
        options("lat", "lng", lat=LAT, lng=LNG),
        pair_of(LAT, LNG),
    ]
}
METRES: Final[Schema] = {"type": "number", "minimum": 0, "maximum": METRES_MAX}
COUNT: Final[Schema] = {"type": "integer", "minimum": 0, "maximum": COUNT_MAX}
COMPARED: Final[Mapping[str, Schema]] = {
    "gt": BOUND,
    "gte": BOUND,
    "lt": BOUND,
    "lte": BOUND,
    "any": CHOICE,
    "all": CHOICE,
    "none": CHOICE,
    "exists": {"type": "boolean"},
}
FILTERS: Final = by_field(
    {
        "anyOf": [
            CHOICE,
            options(
                **COMPARED,
                count={
                    "anyOf": [COUNT, some_of(options(gt=COUNT, gte=COUNT, lt=COUNT, lte=COUNT))]
                },
                same=by_field({"anyOf": [CHOICE, options(**COMPARED)]}, _MAX.filter_fields_max),
                radius=options("lat", "lng", "metres", lat=LAT, lng=LNG, metres=METRES),
                box=options("top_right", "bottom_left", top_right=POINT, bottom_left=POINT),
                polygon=list_of(POINT, _MAX.geo_corners_max, 3),
            ),
        ]
    },
    _MAX.filter_fields_max,
)


BOOLEAN: Final[Schema] = {
    "type": ["boolean", "string"],
    "enum": [True, False, "true", "false"],
}
_ONE_TYPO, _TWO_TYPOS = (
    {"type": "integer", "minimum": least, "maximum": TYPO_LENGTHS_MAX} for least in TYPO_LENGTHS_MIN
)
TYPO_LENGTHS_SCHEMA: Final = pair_of(_ONE_TYPO, _TWO_TYPOS)
COLLATION_SCHEMA: Final[Schema] = {
    "type": "string",
    "examples": ["none", "root", "de", "de-phonebook", "root+numeric"],
}
