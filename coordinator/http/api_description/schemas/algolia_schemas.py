"""JSON Schemas of the bodies of Algolia's protocol; what they hold, `coordinator.algolia` knows."""

from __future__ import annotations

from typing import Any, Final

from common.limits import DEFAULT_LIMITS
from common.partial_updates import NAMES as CHANGES
from coordinator.algolia.keys import NEW_KEY_SCHEMA
from coordinator.algolia.object_changes import OBJECT_ID_SCHEMA, OBJECT_SCHEMA, batch_schema
from coordinator.algolia.parameter_table import BY_NAME, or_null, parameters_schema
from coordinator.algolia.rule_translation import RULE_SCHEMA
from coordinator.algolia.settings_translation import settings_schema
from coordinator.algolia.synonym_translation import SYNONYM_SCHEMA
from coordinator.http.api_description.schemas.schema_parts import (
    COUNT_SCHEMA,
    INDEX_NAME_SCHEMA,
    PAGE_SCHEMA,
    TEXT_SCHEMA,
    body_schema,
    list_of,
    object_schema,
)


def _deletion() -> dict[str, Any]:
    """Return the schema of a body that says which objects to delete."""
    names = ("filters", "facetFilters", "numericFilters", "tagFilters")
    known = {name: BY_NAME[name].schema for name in names if name in BY_NAME}
    properties = {
        name: or_null(schema)
        for name, schema in {
            **known,
            "params": {"anyOf": [TEXT_SCHEMA, {"type": "object"}]},
        }.items()
    }
    return {
        "type": "object",
        "properties": properties,
        "minProperties": 1,
        "additionalProperties": False,
    }


ALGOLIA_SCHEMAS: Final[dict[str, Any]] = {
    "AlgoliaQuery": parameters_schema(),
    "AlgoliaQueries": object_schema(
        "requests",
        requests={
            **list_of(
                parameters_schema(
                    indexName=TEXT_SCHEMA, type={"enum": ["default", "facet"]}, facet=TEXT_SCHEMA
                )
            ),
            "minItems": 1,
            "maxItems": DEFAULT_LIMITS.searches_max,
        },
    ),
    "AlgoliaFacetQuery": parameters_schema(facetQuery=TEXT_SCHEMA, maxFacetHits=COUNT_SCHEMA),
    "AlgoliaObject": OBJECT_SCHEMA,
    "AlgoliaFields": {
        "type": "object",
        "description": "The fields of an object; its objectID is that in the path. In a partial "
        'update a value {"_operation": …, "value": …} changes the stored one: '
        f"{', '.join(CHANGES)}.",
    },
    "AlgoliaWantedObjects": object_schema(
        "requests",
        requests={
            **list_of(
                object_schema(
                    "indexName objectID",
                    indexName=TEXT_SCHEMA,
                    objectID=OBJECT_ID_SCHEMA,
                    attributesToRetrieve=list_of(TEXT_SCHEMA),
                )
            ),
            "maxItems": DEFAULT_LIMITS.batch_items_max,
        },
    ),
    "AlgoliaBatch": batch_schema(DEFAULT_LIMITS.batch_items_max),
    "AlgoliaBatches": batch_schema(DEFAULT_LIMITS.batch_items_max, indexName=TEXT_SCHEMA),
    "AlgoliaDeletion": _deletion(),
    "AlgoliaSettings": settings_schema(),
    "AlgoliaNewKey": NEW_KEY_SCHEMA,
    "AlgoliaRule": RULE_SCHEMA,
    "AlgoliaRules": {
        **list_of({"type": "object"}),
        "description": "As in PUT, each with its objectID.",
    },
    "AlgoliaRuleSearch": body_schema(
        "",
        query=TEXT_SCHEMA,
        anchoring={"enum": ["is", "contains", "startsWith", "endsWith"]},
        enabled={"type": "boolean"},
        page=PAGE_SCHEMA,
        hitsPerPage=PAGE_SCHEMA,
    ),
    "AlgoliaSynonym": SYNONYM_SCHEMA,
    "AlgoliaSynonyms": {
        **list_of({"type": "object"}),
        "description": "As in PUT, each with its objectID.",
    },
    "AlgoliaSynonymSearch": body_schema(
        "",
        query=TEXT_SCHEMA,
        type={"type": "string", "examples": ["synonym"]},
        page=PAGE_SCHEMA,
        hitsPerPage=PAGE_SCHEMA,
    ),
    "AlgoliaOperation": body_schema(
        "operation destination",
        operation={"enum": ["copy", "move"]},
        destination=INDEX_NAME_SCHEMA,
        scope=list_of({"enum": ["settings", "synonyms", "rules"]}),
    ),
}
