"""Schemas of clicks, and of what was searched for."""

from __future__ import annotations

from typing import Any, Final

from common.limits import DEFAULT_LIMITS
from coordinator.http.api_description.schemas.schema_parts import (
    COUNT_SCHEMA,
    ID_SCHEMA,
    INDEX_NAME_SCHEMA,
    TEXT_SCHEMA,
    body_schema,
    described,
    list_of,
    object_schema,
    ref,
)

ANALYTICS_SCHEMAS: Final[dict[str, Any]] = {
    "CountedClicks": object_schema("status counted", status=TEXT_SCHEMA, counted=COUNT_SCHEMA),
    "Clicks": body_schema(
        "clicks",
        clicks=described(
            {
                "type": "array",
                "minItems": 1,
                "maxItems": DEFAULT_LIMITS.clicks_max,
                "items": {
                    "type": "object",
                    "properties": {
                        "index": INDEX_NAME_SCHEMA,
                        "query": TEXT_SCHEMA,
                        "id": ID_SCHEMA,
                        "position": {"type": "integer", "minimum": 1, "maximum": 1_000_000_000},
                    },
                    "required": ["index", "id"],
                    "additionalProperties": False,
                },
            },
            "Hits that people chose: index and id, and the query and position, from 1, if known.",
            [{"index": "films", "query": "godfather", "id": 2, "position": 1}],
        ),
    ),
    "Analytics": object_schema(
        "days searches no_hits popular without_hits slow clicked",
        days=list_of(
            object_schema(
                "date searches no_hits took_us",
                date=TEXT_SCHEMA,
                searches=COUNT_SCHEMA,
                no_hits=COUNT_SCHEMA,
                took_us=COUNT_SCHEMA,
            )
        ),
        searches=COUNT_SCHEMA,
        no_hits=COUNT_SCHEMA,
        popular=list_of(ref("CountedQuery")),
        without_hits=list_of(ref("CountedQuery")),
        slow=list_of(
            object_schema(
                "index query took_us at",
                index=TEXT_SCHEMA,
                query=TEXT_SCHEMA,
                took_us=COUNT_SCHEMA,
                at=TEXT_SCHEMA,
            )
        ),
        clicked=list_of(
            object_schema(
                "index id clicks position",
                index=TEXT_SCHEMA,
                id=TEXT_SCHEMA,
                clicks=COUNT_SCHEMA,
                position={"type": "number"},
            )
        ),
    ),
    "CountedQuery": object_schema(
        "index query searches no_hits took_us clicks",
        index=TEXT_SCHEMA,
        query=TEXT_SCHEMA,
        searches=COUNT_SCHEMA,
        searches_max=COUNT_SCHEMA,
        no_hits=COUNT_SCHEMA,
        took_us=COUNT_SCHEMA,
        clicks=COUNT_SCHEMA,
        position={"type": "number"},
    ),
}
