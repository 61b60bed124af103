"""Schemas of what operators send: names of indexes, keys, snapshots, hosts."""

from __future__ import annotations

from typing import Any, Final

from coordinator.http.api_description.schemas.schema_parts import (
    INDEX_NAME_SCHEMA,
    TEXT_SCHEMA,
    body_schema,
    described,
    object_schema,
)
from coordinator.parameters.parameter_table import SEARCH_BY_NAME
from coordinator.snapshots.snapshots_on_disk import NAME as SNAPSHOT_NAME

SNAPSHOT_NAME_SCHEMA: Final[dict[str, Any]] = {
    "type": "string",
    "pattern": f"^{SNAPSHOT_NAME.pattern}$",
}

ADMINISTRATION_SCHEMAS: Final[dict[str, Any]] = {
    "Status": object_schema("status", status=TEXT_SCHEMA),
    "Document": {"type": "object"},
    "Aliases": body_schema(
        "aliases",
        aliases=described(
            {
                "type": "object",
                "minProperties": 1,
                "propertyNames": INDEX_NAME_SCHEMA,
                "additionalProperties": {"anyOf": [INDEX_NAME_SCHEMA, {"type": "null"}]},
            },
            "The index of each alias; null removes the alias.",
            {"movies": "films", "cinema": None},
        ),
    ),
    "Renaming": body_schema(
        "to",
        to=described(INDEX_NAME_SCHEMA, "The new name.", "films-2025"),
        alias=described(
            {"type": "boolean"}, "Whether the former name becomes an alias; not with `replace`."
        ),
        replace=described(
            {"type": "boolean"}, "Whether an index that has the new name is deleted.", True
        ),
    ),
    "Copying": body_schema(
        "to", to=described(INDEX_NAME_SCHEMA, "The name of the copy.", "films-test")
    ),
    "NewSnapshot": body_schema(
        "name", name=described(SNAPSHOT_NAME_SCHEMA, "The name of the snapshot.", "monday")
    ),
    "ShardMove": body_schema(
        "shard",
        shard=described(
            {"type": "integer", "minimum": 0, "maximum": 63}, "The ordinal of the shard.", 3
        ),
        **{
            "from": described({"type": "string"}, "The host that gives it up, if any.", "host1"),
            "to": described({"type": "string"}, "The host that takes it, if any.", "host2"),
        },
    ),
    "RestoredIndexes": body_schema(
        "",
        indexes=described(
            {"type": "array", "minItems": 1, "uniqueItems": True, "items": INDEX_NAME_SCHEMA},
            "The indexes to restore; all by default.",
            ["films"],
        ),
        rename=described(
            {
                "type": "object",
                "propertyNames": INDEX_NAME_SCHEMA,
                "additionalProperties": INDEX_NAME_SCHEMA,
            },
            "Other names for some of them.",
            {"films": "films-monday"},
        ),
    ),
    "NewKey": body_schema(
        "actions",
        actions=described(
            {
                "type": "array",
                "minItems": 1,
                "maxItems": 100,
                "items": {"enum": ["search", "write", "configure", "admin"]},
            },
            "What the key may do: search, write, configure, admin.",
            ["search"],
        ),
        indexes=described(
            {
                "type": "array",
                "minItems": 1,
                "maxItems": 100,
                "items": {"type": "string", "minLength": 1, "maxLength": 64},
            },
            "The indexes it may use, `*` stands for any text; all by default.",
            ["films", "shop-*"],
        ),
        expires_at=described(
            {"type": "string", "format": "date-time"},
            "When it ends; never by default.",
            "2030-01-01T00:00:00Z",
        ),
        expires_in_seconds=described(
            {"type": "integer", "minimum": 1, "maximum": 10**10 - 1},
            "The same as a span; not beside `expires_at`.",
            86_400,
        ),
        filter=described(
            SEARCH_BY_NAME["filter"].schema,
            "A filter expression that all of its searches get in addition.",
            "year >= 1990",
        ),
        description=described({"type": "string", "maxLength": 500}, "A note.", "shop page"),
    ),
}
