"""JSON Schemas that bodies and responses of several routes share, and functions that build them."""

from __future__ import annotations

import re
from typing import Any, Final

from common.limits import DEFAULT_LIMITS
from coordinator.catalog.index_names import RESERVED_NAMES

TEXT_SCHEMA: Final[dict[str, Any]] = {"type": "string"}
COUNT_SCHEMA: Final[dict[str, Any]] = {"type": "integer", "minimum": 0}
PAGE_SCHEMA: Final[dict[str, Any]] = {**COUNT_SCHEMA, "maximum": DEFAULT_LIMITS.page_max}
FIELD_SCHEMA: Final[dict[str, Any]] = {
    "type": "string",
    "minLength": 1,
    "maxLength": DEFAULT_LIMITS.field_name_bytes_max,
}
ID_SCHEMA: Final[dict[str, Any]] = {
    "anyOf": [
        {"type": "integer", "minimum": 0, "maximum": 2**63 - 1},
        {"type": "string", "minLength": 1, "maxLength": 256},
    ]
}
WEIGHT_SCHEMA: Final[dict[str, Any]] = {"type": "number", "exclusiveMinimum": 0, "maximum": 1000}
_RESERVED: Final = "|".join(map(re.escape, sorted(RESERVED_NAMES)))
_NAME_CHARACTERS: Final = r"[^/\u0000-\u001f\u007f-\u009f]"
INDEX_NAME_SCHEMA: Final[dict[str, Any]] = {
    "type": "string",
    "minLength": 1,
    "maxLength": DEFAULT_LIMITS.index_name_chars_max,
    "pattern": rf"^(?!(?:{_RESERVED})$)(?![_.]){_NAME_CHARACTERS}+$",
}


def described(schema: dict[str, Any], description: str, example: Any = None) -> dict[str, Any]:
    """Return a schema with what the documentation says of it.

    Args:
        schema: of a member of a body, or of a parameter of a query string.
        description: its meaning.
        example: a valid value; None: the description has one, or none is needed.
    """
    shown: dict[str, Any] = {} if example is None else {"examples": [example]}
    return {**schema, "description": description, **shown}


def object_schema(required: str = "", /, **properties: Any) -> dict[str, Any]:
    """Return the schema of an object in a response; it may gain members later."""
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    if required:
        schema["required"] = required.split()
    return schema


def body_schema(required: str = "", /, **properties: Any) -> dict[str, Any]:
    """Return the schema of a body; optional members may be null, meaning "not given"."""
    needed = required.split()
    return {
        "type": "object",
        "properties": {
            name: schema if name in needed else _optional(schema)
            for name, schema in properties.items()
        },
        "required": needed,
        "additionalProperties": False,
    }


def _optional(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema that allows null too; what the documentation says stays on top."""
    said: dict[str, Any] = {
        name: schema[name] for name in ("description", "examples") if name in schema
    }
    plain = {name: value for name, value in schema.items() if name not in said}
    return {"anyOf": [plain, {"type": "null"}], **said}


def open_body_schema(**properties: Any) -> dict[str, Any]:
    """Return the schema of a body that may have more members (kept, with a warning)."""
    schema = body_schema("", **properties)
    del schema["additionalProperties"]
    return schema


def list_of(items: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of an array."""
    return {"type": "array", "items": items}


def ref(name: str) -> dict[str, str]:
    """Return a reference to one of the components."""
    return {"$ref": f"#/components/schemas/{name}"}
