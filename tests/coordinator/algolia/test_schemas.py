"""Values of the wrong type are refused, even empty ones: 0, "", [], {}."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from common.errors import InvalidRequest
from common.index_configuration_parser import parse_configuration
from common.limits import DEFAULT_LIMITS
from coordinator.algolia.keys import NEW_KEY_SCHEMA, new_key
from coordinator.algolia.parameter_table import parameters_schema
from coordinator.algolia.search_request import SearchedIndex, flattened, read_search
from coordinator.algolia.settings_translation import changed, settings_schema

LIMITS = DEFAULT_LIMITS
CONFIGURATION, _ = parse_configuration({})
NOTHINGS: tuple[Any, ...] = (0, 0.5, False, "", [], {})
TYPES: dict[str, type | tuple[type, ...]] = {
    "array": list,
    "boolean": bool,
    "integer": int,
    "null": type(None),
    "number": (int, float),
    "object": dict,
    "string": str,
}


def _allows(schema: dict[str, Any], value: Any) -> bool:
    """Return whether a schema allows a value, as far as types go."""
    if "anyOf" in schema:
        return any(_allows(one, value) for one in schema["anyOf"])
    if "enum" in schema:
        return any(type(one) is type(value) and one == value for one in schema["enum"])
    types = schema.get("type", list(TYPES))
    return any(
        isinstance(value, TYPES[name]) and (name == "boolean" or not isinstance(value, bool))
        for name in ([types] if isinstance(types, str) else types)
    )


def _wrong(schema: dict[str, Any]) -> Iterator[Any]:
    """Yield members whose values have a type that the schema of a body forbids."""
    for name, member in schema["properties"].items():
        for value in NOTHINGS:
            if not _allows(member, value):
                yield pytest.param(name, value, id=f"{name}={value!r}")


@pytest.mark.parametrize(("name", "value"), list(_wrong(settings_schema())))
def test_settings(name: str, value: Any) -> None:
    with pytest.raises(InvalidRequest):
        changed({}, {name: value}, LIMITS)


@pytest.mark.parametrize(("name", "value"), list(_wrong(parameters_schema())))
def test_parameters(name: str, value: Any) -> None:
    with pytest.raises(InvalidRequest):
        read_search(SearchedIndex("films", CONFIGURATION, {}), flattened({name: value}), LIMITS)


OWN_KEY_MEMBERS = {name: NEW_KEY_SCHEMA["properties"][name] for name in ("acl", "queryParameters")}
"""`POST /_keys` checks the others."""


@pytest.mark.parametrize(("name", "value"), list(_wrong({"properties": OWN_KEY_MEMBERS})))
def test_keys(name: str, value: Any) -> None:
    with pytest.raises(InvalidRequest):
        new_key({"acl": ["search"], name: value}, LIMITS)
