"""The components of the OpenAPI document: every schema that routes name."""

from __future__ import annotations

from typing import Any, Final

from coordinator.http.api_description.schemas.administration_schemas import ADMINISTRATION_SCHEMAS
from coordinator.http.api_description.schemas.algolia_schemas import ALGOLIA_SCHEMAS
from coordinator.http.api_description.schemas.analytics_schemas import ANALYTICS_SCHEMAS
from coordinator.http.api_description.schemas.configuration_schemas import CONFIGURATION_SCHEMAS
from coordinator.http.api_description.schemas.item_schemas import ITEM_SCHEMAS
from coordinator.http.api_description.schemas.schema_parts import (
    COUNT_SCHEMA,
    TEXT_SCHEMA,
    list_of,
    object_schema,
)
from coordinator.http.api_description.schemas.search_schemas import SEARCH_SCHEMAS

SCHEMAS: Final[dict[str, Any]] = {
    "Error": object_schema(
        "error",
        error=object_schema(
            "code message status request_id",
            code=TEXT_SCHEMA,
            message=TEXT_SCHEMA,
            status={"type": "integer"},
            param=TEXT_SCHEMA,
            fault=TEXT_SCHEMA,
            request_id=TEXT_SCHEMA,
            errors=list_of({"type": "object"}),
            created=COUNT_SCHEMA,
            updated=COUNT_SCHEMA,
            deleted=COUNT_SCHEMA,
            rejected=COUNT_SCHEMA,
        ),
    ),
    **SEARCH_SCHEMAS,
    **ITEM_SCHEMAS,
    **ANALYTICS_SCHEMAS,
    **CONFIGURATION_SCHEMAS,
    **ALGOLIA_SCHEMAS,
    **ADMINISTRATION_SCHEMAS,
}

REQUIRED_BODIES: Final = frozenset(
    {
        "Item",
        "Items",
        "Searches",
        "ChangedItems",
        "Clicks",
        "ItemChanges",
        "Renaming",
        "Copying",
        "Aliases",
        "NewSnapshot",
        "ShardMove",
        "NewKey",
        "AlgoliaQueries",
        "AlgoliaObject",
        "AlgoliaFields",
        "AlgoliaWantedObjects",
        "AlgoliaBatch",
        "AlgoliaBatches",
        "AlgoliaDeletion",
        "AlgoliaSettings",
        "AlgoliaNewKey",
        "AlgoliaRule",
        "AlgoliaRules",
        "AlgoliaSynonym",
        "AlgoliaSynonyms",
        "AlgoliaOperation",
    }
)
"""Schemas of bodies that a request cannot leave out."""
