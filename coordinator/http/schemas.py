"""JSON Schemas of bodies and responses: the components of the OpenAPI document.

Bounds come from `Limits`, parameters from the table that the parser uses. The bodies of Algolia's
protocol are in `algolia_schemas`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

import orjson

from common.limits import DEFAULT_LIMITS
from common.option_forms import LANGUAGES
from coordinator.cluster.snapshots import NAME as SNAPSHOT_NAME
from coordinator.http.algolia_schemas import ALGOLIA_SCHEMAS
from coordinator.http.schema_parts import (
    COUNT_SCHEMA,
    FIELD_SCHEMA,
    INDEX_NAME_SCHEMA,
    TEXT_SCHEMA,
    body_schema,
    list_of,
    object_schema,
    open_body_schema,
    ref,
)
from coordinator.parameters.table import (
    RESTRICTING_PARAMETERS,
    SEARCH_BY_NAME,
    SEARCH_PARAMETERS,
)
from coordinator.parameters.value_schemas import COLLATION_SCHEMA, TYPO_LENGTHS_SCHEMA

if TYPE_CHECKING:
    from coordinator.parameters.parameter import Parameter

INLINE_BYTES_MAX: Final = 200
"""Larger parameter schemas are described once and referenced."""

_WORD: Final[dict[str, Any]] = {"type": "string", "pattern": r"\S"}
_WEIGHT: Final[dict[str, Any]] = {"type": "number", "exclusiveMinimum": 0, "maximum": 1000}
_SEARCH_SCHEMAS: Final = {name: one.schema for name, one in SEARCH_BY_NAME.items()}
_ID: Final[dict[str, Any]] = {
    "anyOf": [
        {"type": "integer", "minimum": 0, "maximum": 2**63 - 1},
        {"type": "string", "minLength": 1, "maxLength": 256},
    ]
}


_POSITION: Final[dict[str, Any]] = {
    "type": "string",
    "minLength": 1,
    "maxLength": DEFAULT_LIMITS.position_chars_max,
}
SNAPSHOT_NAME_SCHEMA: Final[dict[str, Any]] = {
    "type": "string",
    "pattern": f"^{SNAPSHOT_NAME.pattern}$",
}


def schema_of(parameter: Parameter) -> dict[str, Any]:
    """Return the schema of a parameter, or a reference to the components if it is large."""
    if len(orjson.dumps(parameter.schema)) <= INLINE_BYTES_MAX:
        return parameter.schema
    return ref(f"parameter.{parameter.name}")


def parameters_schema(
    parameters: Iterable[Parameter], more_required: str = "", /, **more: Any
) -> dict[str, Any]:
    """Return the schema of a body with the given parameters and further members."""
    properties: dict[str, Any] = dict(more)
    required = more_required.split()
    twice = []
    for parameter in parameters:
        schema = schema_of(parameter)
        if parameter.is_required:
            required.append(parameter.name)
        else:
            schema = {"anyOf": [schema, {"type": "null"}]}
        properties[parameter.name] = {**schema, "description": parameter.description}
        for alias in parameter.aliases:
            properties[alias] = {**schema, "description": f"The same as {parameter.name}."}
            # One of the two is absent or null.
            either = ({name: {"type": "null"}} for name in (parameter.name, alias))
            twice.append({"anyOf": [{"properties": absent} for absent in either]})
    body: dict[str, Any] = {
        "type": "object",
        "properties": properties,
        "additionalProperties": False,
    }
    if required:
        body["required"] = required
    if twice:
        body["allOf"] = twice
    return body


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
                ids={**list_of(_ID), "maxItems": DEFAULT_LIMITS.batch_items_max},
                **more,
            ),
            {
                **body_schema(required, ids={"type": "null"}, **more, **restrictions),
                "minProperties": 1 + len(more),
            },
        ]
    }


_STATISTICS: Final = object_schema(
    "",
    min={"type": ["number", "null"]},
    max={"type": ["number", "null"]},
    avg={"type": ["number", "null"]},
    sum={"type": "number"},
    count=COUNT_SCHEMA,
)
_FACET: Final = object_schema(
    "name title position buckets",
    name=TEXT_SCHEMA,
    title=TEXT_SCHEMA,
    position=COUNT_SCHEMA,
    buckets=list_of(
        object_schema(
            "key doc_count selected",
            key=TEXT_SCHEMA,
            doc_count=COUNT_SCHEMA,
            selected={"type": "boolean"},
            stats={
                "type": "object",
                "additionalProperties": {"anyOf": [_STATISTICS, {"type": "null"}]},
            },
        )
    ),
    facet_stats=_STATISTICS,
    missing=COUNT_SCHEMA,
    cardinality=COUNT_SCHEMA,
    percentiles={"type": "object", "additionalProperties": {"type": ["number", "null"]}},
)
_TIMINGS: Final = object_schema(
    "total search facets sort sorting",
    total=COUNT_SCHEMA,
    search=COUNT_SCHEMA,
    facets=COUNT_SCHEMA,
    sort=COUNT_SCHEMA,
    sorting=COUNT_SCHEMA,
)
_JOINT_COUNTS: Final = object_schema(
    "counts", key=TEXT_SCHEMA, path=TEXT_SCHEMA, counts=list_of({"type": "integer"})
)
_PAGINATION: Final = object_schema(
    "per_page page total",
    per_page=COUNT_SCHEMA,
    page=COUNT_SCHEMA,
    total=COUNT_SCHEMA,
    cursor=TEXT_SCHEMA,
)
_SHARDS: Final = object_schema(
    "total ok failed", total=COUNT_SCHEMA, ok=COUNT_SCHEMA, failed=COUNT_SCHEMA
)
_META: Final = object_schema(
    "request_id seq took_us shards",
    request_id=TEXT_SCHEMA,
    seq=COUNT_SCHEMA,
    took_us=COUNT_SCHEMA,
    ignored_words=list_of(TEXT_SCHEMA),
    rules=list_of(TEXT_SCHEMA),
    match={"enum": ["all", "last", "any"]},
    dropped_words=list_of(TEXT_SCHEMA),
    words_cut=COUNT_SCHEMA,
    did_you_mean=TEXT_SCHEMA,
    warnings=list_of(TEXT_SCHEMA),
    timings_us={"type": "object", "additionalProperties": COUNT_SCHEMA},
    shards=_SHARDS,
)
_MERGED_META: Final = object_schema(
    "request_id took_us searches",
    request_id=TEXT_SCHEMA,
    took_us=COUNT_SCHEMA,
    searches=list_of(
        object_schema(
            "index total seq ignored_words shards",
            index=TEXT_SCHEMA,
            total=COUNT_SCHEMA,
            seq=COUNT_SCHEMA,
            ignored_words=list_of(TEXT_SCHEMA),
            warnings=list_of(TEXT_SCHEMA),
            shards=_SHARDS,
        )
    ),
)
_LANGUAGE: Final = {"enum": ["none", *LANGUAGES, *LANGUAGES.values()]}
_WORDS: Final = {
    "type": "array",
    "items": _WORD,
    "maxItems": DEFAULT_LIMITS.synonym_alternatives_max,
}
_SYNONYMS: Final = {
    "anyOf": [
        {**_WORDS, "minItems": 2},
        {
            "type": "object",
            "properties": {name: {"anyOf": [_WORD, _WORDS]} for name in ("from", "to")},
            "required": ["from", "to"],
            "additionalProperties": False,
        },
    ]
}
_FACET_SORT: Final = {"anyOf": [TEXT_SCHEMA, list_of(TEXT_SCHEMA)]}
_FACET_SETTINGS: Final = open_body_schema(
    title=TEXT_SCHEMA,
    position={"type": "integer", "minimum": 0, "maximum": 1_000_000},
    size={"type": "integer", "minimum": 1, "maximum": DEFAULT_LIMITS.facet_size_max},
    conjunction={"type": "boolean"},
    sort=_FACET_SORT,
    order=_FACET_SORT,
    hide_zero={"type": "boolean"},
    hide_zero_doc_count={"type": "boolean"},
    chosen_filters_on_top={"type": "boolean"},
    show_facet_stats={"type": "boolean"},
)
_SEPARATOR: Final = {"type": "string", "minLength": 1}
_TREE_OF_PATHS: Final = {
    "type": "object",
    "properties": {"path": FIELD_SCHEMA, "separator": _SEPARATOR},
    "required": ["path"],
}
_TREE_OF_LEVELS: Final = {
    "type": "object",
    "properties": {
        "levels": {
            **list_of(FIELD_SCHEMA),
            "minItems": 2,
            "maxItems": DEFAULT_LIMITS.hierarchy_levels_max,
        },
        "separator": _SEPARATOR,
    },
    "required": ["levels"],
}

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
    "SearchAnswer": object_schema(
        "pagination timings data meta",
        pagination=_PAGINATION,
        timings=_TIMINGS,
        data=object_schema(
            "items aggregations",
            items=list_of({"type": "object"}),
            aggregations={"type": "object", "additionalProperties": _FACET},
            ranges={"type": "object", "additionalProperties": list_of({"type": "object"})},
            trees={"type": "object", "additionalProperties": list_of(ref("TreeNode"))},
            facet_cube=object_schema(
                "field edges total facets ranges trees",
                field=TEXT_SCHEMA,
                edges=list_of({"type": "number"}),
                total=list_of({"type": "integer"}),
                facets={"type": "object", "additionalProperties": list_of(_JOINT_COUNTS)},
                ranges={"type": "object", "additionalProperties": list_of(_JOINT_COUNTS)},
                trees={"type": "object", "additionalProperties": list_of(_JOINT_COUNTS)},
            ),
        ),
        meta=_META,
    ),
    "TreeNode": object_schema(
        "key path doc_count selected",
        key=TEXT_SCHEMA,
        path=TEXT_SCHEMA,
        doc_count=COUNT_SCHEMA,
        selected={"type": "boolean"},
        children=list_of(ref("TreeNode")),
    ),
    "FacetAnswer": object_schema(
        "pagination timings data meta",
        pagination=_PAGINATION,
        timings=_TIMINGS,
        data=_FACET,
        meta=_META,
    ),
    "Explanation": object_schema(
        "data meta",
        data=object_schema(
            "id is_hit reasons",
            id={"type": ["integer", "string"]},
            is_hit={"type": "boolean"},
            reasons=list_of(
                object_schema(
                    "kind",
                    kind={
                        "enum": ["filter", "word", "rule", "min_score", "similar_to", "combination"]
                    },
                    param=TEXT_SCHEMA,
                    text=TEXT_SCHEMA,
                    value={},
                    rule=TEXT_SCHEMA,
                    score={"type": "number"},
                    min_score={"type": "number"},
                )
            ),
            score={"type": "number"},
            score_details={"type": ["object", "null"]},
        ),
        meta=object_schema(
            "request_id seq took_us", request_id=TEXT_SCHEMA, seq=COUNT_SCHEMA, took_us=COUNT_SCHEMA
        ),
    ),
    "Suggestions": object_schema(
        "data meta",
        data=object_schema(
            "suggestions",
            suggestions=list_of(
                object_schema(
                    "text source count",
                    text=TEXT_SCHEMA,
                    source={"enum": ["word", "field", "facet", "search"]},
                    count=COUNT_SCHEMA,
                    field=TEXT_SCHEMA,
                )
            ),
        ),
        meta=object_schema(
            "request_id seq took_us", request_id=TEXT_SCHEMA, seq=COUNT_SCHEMA, took_us=COUNT_SCHEMA
        ),
    ),
    "Searches": body_schema(
        "searches",
        searches={
            "type": "array",
            "minItems": 1,
            "maxItems": DEFAULT_LIMITS.searches_max,
            "items": parameters_schema(
                SEARCH_PARAMETERS,
                "index",
                index=INDEX_NAME_SCHEMA,
                weight={"anyOf": [_WEIGHT, {"type": "null"}]},
            ),
        },
        merge={
            "anyOf": [
                {"enum": [True]},
                {
                    "type": "object",
                    "properties": {
                        "page": SEARCH_BY_NAME["page"].schema,
                        "per_page": SEARCH_BY_NAME["per_page"].schema,
                    },
                    "additionalProperties": False,
                },
            ]
        },
    ),
    "SearchesAnswer": {
        "anyOf": [
            object_schema(
                "results", results=list_of({"anyOf": [ref("SearchAnswer"), ref("Error")]})
            ),
            object_schema(
                "pagination data meta",
                pagination=_PAGINATION,
                data=object_schema(
                    "items aggregations",
                    items=list_of({"type": "object"}),
                    aggregations={"type": "object", "additionalProperties": _FACET},
                    ranges={"type": "object"},
                ),
                meta=_MERGED_META,
            ),
        ]
    },
    "Item": {
        "type": "object",
        "properties": {"id": _ID},
        "propertyNames": {"maxLength": DEFAULT_LIMITS.field_name_bytes_max},
        "maxProperties": DEFAULT_LIMITS.item_fields_max,
    },
    "Items": {"anyOf": [list_of(ref("Item")), ref("Item")]},
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
    ),
    "ItemChanges": {
        **body_schema(
            "",
            put={
                **list_of({**ref("Item"), "required": ["id"]}),
                "maxItems": DEFAULT_LIMITS.batch_items_max,
            },
            delete={**list_of(_ID), "maxItems": DEFAULT_LIMITS.batch_items_max},
            position=_POSITION,
            source={**_POSITION, "maxLength": DEFAULT_LIMITS.source_chars_max},
        ),
        "dependentRequired": {"source": ["position"], "position": ["source"]},
    },
    "CountedClicks": object_schema("status counted", status=TEXT_SCHEMA, counted=COUNT_SCHEMA),
    "Positions": object_schema(
        "positions", positions={"type": "object", "additionalProperties": TEXT_SCHEMA}
    ),
    "Clicks": body_schema(
        "clicks",
        clicks={
            "type": "array",
            "minItems": 1,
            "maxItems": DEFAULT_LIMITS.clicks_max,
            "items": {
                "type": "object",
                "properties": {
                    "index": INDEX_NAME_SCHEMA,
                    "query": TEXT_SCHEMA,
                    "id": _ID,
                    "position": {"type": "integer", "minimum": 1, "maximum": 1_000_000_000},
                },
                "required": ["index", "id"],
                "additionalProperties": False,
            },
        },
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
    "ChosenItems": _restricted(),
    "ChangedItems": _restricted(
        fields={
            "type": "object",
            "minProperties": 1,
            "propertyNames": {
                "not": {"const": "id"},
                "maxLength": DEFAULT_LIMITS.field_name_bytes_max,
            },
        }
    ),
    "Configuration": open_body_schema(
        aggregations={
            "type": "object",
            "propertyNames": FIELD_SCHEMA,
            "additionalProperties": _FACET_SETTINGS,
            "maxProperties": DEFAULT_LIMITS.facets_max,
        },
        searchable_fields={
            "anyOf": [list_of(FIELD_SCHEMA), {"type": "object", "additionalProperties": _WEIGHT}]
        },
        sorting_fields=list_of(FIELD_SCHEMA),
        geo_fields=list_of(FIELD_SCHEMA),
        nested=list_of(FIELD_SCHEMA),
        hierarchies={
            "type": "object",
            "propertyNames": FIELD_SCHEMA,
            "additionalProperties": {"anyOf": [_TREE_OF_PATHS, _TREE_OF_LEVELS]},
            "maxProperties": DEFAULT_LIMITS.hierarchies_max,
        },
        language=_LANGUAGE,
        field_languages={
            "type": "object",
            "propertyNames": FIELD_SCHEMA,
            "additionalProperties": _LANGUAGE,
        },
        collation=COLLATION_SCHEMA,
        field_collations={
            "type": "object",
            "propertyNames": FIELD_SCHEMA,
            "additionalProperties": COLLATION_SCHEMA,
        },
        stop_words={"anyOf": [list_of(_WORD), _LANGUAGE, {"type": "boolean"}]},
        synonyms={"anyOf": [list_of(_SYNONYMS), {"type": "object"}]},
        match=_SEARCH_SCHEMAS["match"],
        prefix=_SEARCH_SCHEMAS["prefix"],
        typo=_SEARCH_SCHEMAS["typo"],
        typo_lengths=TYPO_LENGTHS_SCHEMA,
        infix={"anyOf": [{"type": "boolean"}, list_of(FIELD_SCHEMA)]},
        field_typo_lengths={
            "type": "object",
            "propertyNames": FIELD_SCHEMA,
            "additionalProperties": {"anyOf": [TYPO_LENGTHS_SCHEMA, {"enum": ["none"]}]},
        },
        suggestions=open_body_schema(
            fields=list_of(FIELD_SCHEMA),
            facets=list_of(FIELD_SCHEMA),
            popularity=FIELD_SCHEMA,
            searches={"type": "boolean"},
        ),
        display=open_body_schema(
            title=FIELD_SCHEMA, image=FIELD_SCHEMA, fields=list_of(FIELD_SCHEMA)
        ),
        algolia={"type": "object"},
        ranking=open_body_schema(
            k1={"type": "number", "minimum": 0, "maximum": 100},
            b={"type": "number", "minimum": 0, "maximum": 1},
            proximity={"type": "number", "minimum": 0, "maximum": 10},
        ),
        boost=_SEARCH_SCHEMAS["boost"],
        rules=_SEARCH_SCHEMAS["rules"],
    ),
    "ConfigurationPatch": {"type": "object"},
    "ConfigurationAnswer": object_schema(
        "status warnings changes",
        status={"enum": ["configuration accepted", "preview"]},
        warnings=list_of(TEXT_SCHEMA),
        changes=list_of(object_schema("path before after", path=TEXT_SCHEMA, before={}, after={})),
    ),
    **ALGOLIA_SCHEMAS,
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
        filter=_SEARCH_SCHEMAS["filter"],
        description={"type": "string", "maxLength": 500},
    ),
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
