"""Schemas of items, and of the changes and selections of them."""

from __future__ import annotations

from typing import Any, Final

from common.limits import DEFAULT_LIMITS
from coordinator.http.api_description.schemas.parameter_schemas import schema_of
from coordinator.http.api_description.schemas.schema_parts import (
    COUNT_SCHEMA,
    ID_SCHEMA,
    TEXT_SCHEMA,
    body_schema,
    described,
    list_of,
    object_schema,
    ref,
)
from coordinator.parameters.parameter_table import RESTRICTING_PARAMETERS

_POSITION: Final[dict[str, Any]] = {
    "type": "string",
    "minLength": 1,
    "maxLength": DEFAULT_LIMITS.position_chars_max,
}


def _restricted(**more: Any) -> dict[str, Any]:
    """Return the schema of a body that selects items: by ids, or by a restriction."""
    required = " ".join(more)
    restrictions = {
        name: schema_of(parameter)
        for parameter in RESTRICTING_PARAMETERS
        for name in (parameter.name, *parameter.aliases)
    }
    return {
        "oneOf": [
            body_schema(
                f"ids {required}",
                ids={**list_of(ID_SCHEMA), "maxItems": DEFAULT_LIMITS.batch_items_max},
                **more,
            ),
            {
                **body_schema(required, ids={"type": "null"}, **more, **restrictions),
                "minProperties": 1 + len(more),
            },
        ]
    }


ITEM_SCHEMAS: Final[dict[str, Any]] = {
    "Item": described(
        {
            "type": "object",
            "properties": {"id": ID_SCHEMA},
            "propertyNames": {"maxLength": DEFAULT_LIMITS.field_name_bytes_max},
            "maxProperties": DEFAULT_LIMITS.item_fields_max,
        },
        "Any JSON object; its `id`, if it has one, must be that of the path.",
    ),
    "Items": described(
        {"anyOf": [list_of(ref("Item")), ref("Item")]},
        "Objects, or a single one. `id` is an integer or a text.",
    ),
    "WriteAnswer": object_schema(
        "status created updated rejected errors seq",
        status={"enum": ["indexed", "updated", "deleted"]},
        id={"type": ["integer", "string"]},
        created=COUNT_SCHEMA,
        updated=COUNT_SCHEMA,
        deleted=COUNT_SCHEMA,
        rejected=COUNT_SCHEMA,
        errors=list_of(
            object_schema(
                "code message",
                line=COUNT_SCHEMA,
                index=COUNT_SCHEMA,
                id={},
                code=TEXT_SCHEMA,
                message=TEXT_SCHEMA,
            )
        ),
        seq=COUNT_SCHEMA,
        warnings=list_of(TEXT_SCHEMA),
    ),
    "ItemChanges": {
        **body_schema(
            "",
            put=described(
                {
                    **list_of({**ref("Item"), "required": ["id"]}),
                    "maxItems": DEFAULT_LIMITS.batch_items_max,
                },
                "Items to add or replace.",
                [{"id": 7, "name": "Alien", "year": 1979}],
            ),
            delete=described(
                {**list_of(ID_SCHEMA), "maxItems": DEFAULT_LIMITS.batch_items_max},
                "Ids to remove.",
                [8],
            ),
            position=described(
                _POSITION,
                "How far this write brings the source; stored with it, so that neither exists "
                "without the other.",
                "0/16B3748",
            ),
            source=described(
                {**_POSITION, "maxLength": DEFAULT_LIMITS.source_chars_max},
                "The name of the source; with `position`.",
                "orders-database",
            ),
            index_number=described(
                {"type": "integer"},
                "The number of the index, as its positions have it: nothing is stored if the name "
                "denotes another index by now (409 `index_replaced`).",
                1,
            ),
        ),
        "dependentRequired": {"source": ["position"], "position": ["source"]},
    },
    "Positions": object_schema(
        "positions index_number",
        positions={"type": "object", "additionalProperties": TEXT_SCHEMA},
        index_number=COUNT_SCHEMA,
    ),
    "ChosenItems": described(
        _restricted(),
        "`ids`, or what restricts a search: `query`, `filters`, `filter` and the like.",
    ),
    "ChangedItems": described(
        _restricted(
            fields={
                "type": "object",
                "minProperties": 1,
                "propertyNames": {
                    "not": {"const": "id"},
                    "maxLength": DEFAULT_LIMITS.field_name_bytes_max,
                },
            }
        ),
        "`fields` to set, and `ids` or what restricts a search.",
    ),
}
