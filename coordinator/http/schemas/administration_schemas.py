"""Schemas of what operators send: names of indexes, keys, snapshots, hosts."""

from __future__ import annotations

from typing import Any, Final

from coordinator.cluster.snapshots import NAME as SNAPSHOT_NAME
from coordinator.http.schemas.schema_parts import (
    INDEX_NAME_SCHEMA,
    TEXT_SCHEMA,
    body_schema,
    object_schema,
)
from coordinator.parameters.table import SEARCH_BY_NAME

SNAPSHOT_NAME_SCHEMA: Final[dict[str, Any]] = {
    "type": "string",
    "pattern": f"^{SNAPSHOT_NAME.pattern}$",
}

ADMINISTRATION_SCHEMAS: Final[dict[str, Any]] = {
    "Status": object_schema("status", status=TEXT_SCHEMA),
    "Document": {"type": "object"},
    "Aliases": body_schema(
        "aliases",
        aliases={
            "type": "object",
            "minProperties": 1,
            "propertyNames": INDEX_NAME_SCHEMA,
            "additionalProperties": {"anyOf": [INDEX_NAME_SCHEMA, {"type": "null"}]},
        },
    ),
    "Renaming": body_schema(
        "to", to=INDEX_NAME_SCHEMA, alias={"type": "boolean"}, replace={"type": "boolean"}
    ),
    "Copying": body_schema("to", to=INDEX_NAME_SCHEMA),
    "NewSnapshot": body_schema("name", name=SNAPSHOT_NAME_SCHEMA),
    "ShardMove": body_schema(
        "shard",
        shard={"type": "integer", "minimum": 0, "maximum": 63},
        **{"from": {"type": "string"}, "to": {"type": "string"}},
    ),
    "RestoredIndexes": body_schema(
        "",
        indexes={"type": "array", "minItems": 1, "uniqueItems": True, "items": INDEX_NAME_SCHEMA},
        rename={
            "type": "object",
            "propertyNames": INDEX_NAME_SCHEMA,
            "additionalProperties": INDEX_NAME_SCHEMA,
        },
    ),
    "NewKey": body_schema(
        "actions",
        actions={
            "type": "array",
            "minItems": 1,
            "maxItems": 100,
            "items": {"enum": ["search", "write", "configure", "admin"]},
        },
        indexes={
            "type": "array",
            "minItems": 1,
            "maxItems": 100,
            "items": {"type": "string", "minLength": 1, "maxLength": 64},
        },
        expires_at={"type": "string", "format": "date-time"},
        expires_in_seconds={"type": "integer", "minimum": 1, "maximum": 10**10 - 1},
        filter=SEARCH_BY_NAME["filter"].schema,
        description={"type": "string", "maxLength": 500},
    ),
}
