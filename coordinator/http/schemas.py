"""JSON Schemas of bodies and responses: the components of the OpenAPI document.

Bounds come from `Limits`, parameters from the table that the parser uses; what Algolia's protocol
takes is described by `coordinator.algolia`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

import orjson

from common.limits import DEFAULT_LIMITS
from common.option_forms import LANGUAGES
from common.value_changes import NAMES as CHANGES
from coordinator.algolia.keys import NEW_KEY_SCHEMA
from coordinator.algolia.objects import OBJECT_ID_SCHEMA, OBJECT_SCHEMA, batch_schema
from coordinator.algolia.rules import RULE_SCHEMA
from coordinator.algolia.settings import settings_schema
from coordinator.algolia.synonyms import SYNONYM_SCHEMA
from coordinator.algolia.table import BY_NAME as ALGOLIA_PARAMETERS
from coordinator.algolia.table import or_null
from coordinator.algolia.table import parameters_schema as algolia_parameters
from coordinator.cluster.snapshots import NAME as SNAPSHOT_NAME
from coordinator.http.middleware import RESERVED_NAMES
from coordinator.parameters.table import (
    COLLATION_SCHEMA,
    RESTRICTING_PARAMETERS,
    SEARCH_BY_NAME,
    SEARCH_PARAMETERS,
    TYPO_LENGTHS_SCHEMA,
)

if TYPE_CHECKING:
    from coordinator.parameters.reader import Parameter

INLINE_BYTES_MAX: Final = 200
"""Larger parameter schemas are described once and referenced."""

TEXT_SCHEMA: Final[dict[str, Any]] = {"type": "string"}
_COUNT: Final[dict[str, Any]] = {"type": "integer", "minimum": 0}
_PAGE: Final[dict[str, Any]] = {**_COUNT, "maximum": DEFAULT_LIMITS.page_max}
FIELD_SCHEMA: Final[dict[str, Any]] = {
    "type": "string",
    "minLength": 1,
    "maxLength": DEFAULT_LIMITS.field_name_bytes_max,
}
_WORD: Final[dict[str, Any]] = {"type": "string", "pattern": r"\S"}
_WEIGHT: Final[dict[str, Any]] = {"type": "number", "exclusiveMinimum": 0, "maximum": 1000}
_SEARCH_SCHEMAS: Final = {name: one.schema for name, one in SEARCH_BY_NAME.items()}
_ID: Final[dict[str, Any]] = {
    "anyOf": [
        {"type": "integer", "minimum": 0, "maximum": 2**63 - 1},
        {"type": "string", "minLength": 1, "maxLength": 256},
    ]
}


_NAME_CHARACTERS: Final = r"[^/\u0000-\u001f\u007f-\u009f]"
INDEX_NAME_SCHEMA: Final[dict[str, Any]] = {
    "type": "string",
    "minLength": 1,
    "maxLength": DEFAULT_LIMITS.index_name_chars_max,
    "pattern": rf"^(?!(?:{'|'.join(sorted(RESERVED_NAMES))})$)(?![_.]){_NAME_CHARACTERS}+$",
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


def _object(required: str = "", /, **properties: Any) -> dict[str, Any]:
    """Return the schema of an object in a response; it may gain members later."""
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    if required:
        schema["required"] = required.split()
    return schema


def _body(required: str = "", /, **properties: Any) -> dict[str, Any]:
    """Return the schema of a body; optional members may be null, meaning "not given"."""
    needed = required.split()
    return {
        "type": "object",
        "properties": {
            name: schema if name in needed else {"anyOf": [schema, {"type": "null"}]}
            for name, schema in properties.items()
        },
        "required": needed,
        "additionalProperties": False,
    }


def _open_body(**properties: Any) -> dict[str, Any]:
    """Return the schema of a body that may have more members (kept, with a warning)."""
    schema = _body("", **properties)
    del schema["additionalProperties"]
    return schema


def schema_of(parameter: Parameter) -> dict[str, Any]:
    """Return the schema of a parameter, or a reference to the components if it is large."""
    if len(orjson.dumps(parameter.schema)) <= INLINE_BYTES_MAX:
        return parameter.schema
    return ref(f"parameter.{parameter.name}")


def parameters_schema(parameters: Iterable[Parameter], **more: Any) -> dict[str, Any]:
    """Return the schema of a body with the given parameters and further members."""
    properties: dict[str, Any] = dict(more)
    twice = []
    for parameter in parameters:
        schema = {"anyOf": [schema_of(parameter), {"type": "null"}]}
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
    if twice:
        body["allOf"] = twice
    name = properties.get("name")
    if name is not None:
        body["required"] = ["name"]
        properties["name"] = {**name["anyOf"][0], "description": name["description"]}
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
            _body(
                f"ids {required}",
                ids={**list_of(_ID), "maxItems": DEFAULT_LIMITS.batch_items_max},
                **more,
            ),
            {**_body(required, **more, **restrictions), "minProperties": 1 + len(more)},
        ]
    }


def _algolia_deletion() -> dict[str, Any]:
    """Return the schema of a body that says which objects to delete."""
    names = ("filters", "facetFilters", "numericFilters", "tagFilters")
    known = {name: ALGOLIA_PARAMETERS[name].schema for name in names if name in ALGOLIA_PARAMETERS}
    properties = {
        name: or_null(schema) for name, schema in {**known, "params": TEXT_SCHEMA}.items()
    }
    return {
        "type": "object",
        "properties": properties,
        "minProperties": 1,
        "additionalProperties": False,
    }


def list_of(items: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of an array."""
    return {"type": "array", "items": items}


def ref(name: str) -> dict[str, str]:
    """Return a reference to one of the components."""
    return {"$ref": f"#/components/schemas/{name}"}


_STATISTICS: Final = _object(
    "",
    min={"type": ["number", "null"]},
    max={"type": ["number", "null"]},
    avg={"type": ["number", "null"]},
    sum={"type": "number"},
    count=_COUNT,
)
_FACET: Final = _object(
    "name title position buckets",
    name=TEXT_SCHEMA,
    title=TEXT_SCHEMA,
    position=_COUNT,
    buckets=list_of(
        _object(
            "key doc_count selected",
            key=TEXT_SCHEMA,
            doc_count=_COUNT,
            selected={"type": "boolean"},
            stats={
                "type": "object",
                "additionalProperties": {"anyOf": [_STATISTICS, {"type": "null"}]},
            },
        )
    ),
    facet_stats=_STATISTICS,
    missing=_COUNT,
    cardinality=_COUNT,
    percentiles={"type": "object", "additionalProperties": {"type": ["number", "null"]}},
)
_TIMINGS: Final = _object(
    "total search facets sort sorting",
    total=_COUNT,
    search=_COUNT,
    facets=_COUNT,
    sort=_COUNT,
    sorting=_COUNT,
)
_JOINT_COUNTS: Final = _object("counts", counts=list_of({"type": "integer"}))
_PAGINATION: Final = _object(
    "per_page page total", per_page=_COUNT, page=_COUNT, total=_COUNT, cursor=TEXT_SCHEMA
)
_META: Final = _object(
    "request_id seq took_us shards",
    request_id=TEXT_SCHEMA,
    seq=_COUNT,
    took_us=_COUNT,
    ignored_words=list_of(TEXT_SCHEMA),
    rules=list_of(TEXT_SCHEMA),
    match={"enum": ["all", "last", "any"]},
    words_cut=_COUNT,
    did_you_mean=TEXT_SCHEMA,
    shards=_object("total ok failed", total=_COUNT, ok=_COUNT, failed=_COUNT),
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
_FACET_SETTINGS: Final = _open_body(
    title=TEXT_SCHEMA,
    position={"type": "integer", "minimum": 0, "maximum": 1_000_000},
    size={"type": "integer", "minimum": 1, "maximum": DEFAULT_LIMITS.facet_size_max},
    conjunction={"type": "boolean"},
    sort=_FACET_SORT,
    order=_FACET_SORT,
    hide_zero_doc_count={"type": "boolean"},
    chosen_filters_on_top={"type": "boolean"},
    show_facet_stats={"type": "boolean"},
)

SCHEMAS: Final[dict[str, Any]] = {
    "Error": _object(
        "error",
        error=_object(
            "code message status request_id",
            code=TEXT_SCHEMA,
            message=TEXT_SCHEMA,
            status={"type": "integer"},
            param=TEXT_SCHEMA,
            fault=TEXT_SCHEMA,
            request_id=TEXT_SCHEMA,
            errors=list_of({"type": "object"}),
        ),
    ),
    "SearchAnswer": _object(
        "pagination timings data meta",
        pagination=_PAGINATION,
        timings=_TIMINGS,
        data=_object(
            "items aggregations",
            items=list_of({"type": "object"}),
            aggregations={"type": "object", "additionalProperties": _FACET},
            ranges={"type": "object", "additionalProperties": list_of({"type": "object"})},
            facet_cube=_object(
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
    "FacetAnswer": _object(
        "pagination timings data meta",
        pagination=_PAGINATION,
        timings=_TIMINGS,
        data=_FACET,
        meta=_META,
    ),
    "Explanation": _object(
        "data meta",
        data=_object(
            "id is_hit reasons",
            id={"type": ["integer", "string"]},
            is_hit={"type": "boolean"},
            reasons=list_of(
                _object(
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
        meta=_object("request_id seq took_us", request_id=TEXT_SCHEMA, seq=_COUNT, took_us=_COUNT),
    ),
    "Suggestions": _object(
        "data meta",
        data=_object(
            "suggestions",
            suggestions=list_of(
                _object(
                    "text source count",
                    text=TEXT_SCHEMA,
                    source={"enum": ["word", "field", "facet", "search"]},
                    count=_COUNT,
                    field=TEXT_SCHEMA,
                )
            ),
        ),
        meta=_object("request_id seq took_us", request_id=TEXT_SCHEMA, seq=_COUNT, took_us=_COUNT),
    ),
    "Searches": _body(
        "searches",
        searches={
            "type": "array",
            "minItems": 1,
            "maxItems": DEFAULT_LIMITS.searches_max,
            "items": {
                **parameters_schema(SEARCH_PARAMETERS, index=INDEX_NAME_SCHEMA, weight=_WEIGHT),
                "required": ["index"],
            },
        },
        merge={
            "anyOf": [
                {"enum": [True]},
                {
                    "type": "object",
                    "properties": {
                        "page": {"type": "integer", "minimum": 1},
                        "per_page": {
                            "type": "integer",
                            "minimum": 0,
                            "maximum": DEFAULT_LIMITS.per_page_max,
                        },
                    },
                    "additionalProperties": False,
                },
            ]
        },
    ),
    "SearchesAnswer": {
        "anyOf": [
            _object("results", results=list_of({"anyOf": [ref("SearchAnswer"), ref("Error")]})),
            _object(
                "pagination data meta",
                pagination=_PAGINATION,
                data=_object(
                    "items aggregations",
                    items=list_of({"type": "object"}),
                    aggregations={"type": "object", "additionalProperties": _FACET},
                    ranges={"type": "object"},
                ),
                meta={"type": "object"},
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
    "WriteAnswer": _object(
        "status created updated rejected errors seq",
        status={"enum": ["indexed", "updated", "deleted"]},
        id={"type": ["integer", "string"]},
        created=_COUNT,
        updated=_COUNT,
        deleted=_COUNT,
        rejected=_COUNT,
        errors=list_of(
            _object(
                "code message",
                line=_COUNT,
                index=_COUNT,
                id={},
                code=TEXT_SCHEMA,
                message=TEXT_SCHEMA,
            )
        ),
        seq=_COUNT,
    ),
    "ItemChanges": {
        **_body(
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
    "Positions": _object(
        "positions", positions={"type": "object", "additionalProperties": TEXT_SCHEMA}
    ),
    "Clicks": _body(
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
    "Analytics": _object(
        "days searches no_hits popular without_hits slow clicked",
        days=list_of(
            _object(
                "date searches no_hits took_us",
                date=TEXT_SCHEMA,
                searches=_COUNT,
                no_hits=_COUNT,
                took_us=_COUNT,
            )
        ),
        searches=_COUNT,
        no_hits=_COUNT,
        popular=list_of(ref("CountedQuery")),
        without_hits=list_of(ref("CountedQuery")),
        slow=list_of(
            _object(
                "index query took_us at",
                index=TEXT_SCHEMA,
                query=TEXT_SCHEMA,
                took_us=_COUNT,
                at=TEXT_SCHEMA,
            )
        ),
        clicked=list_of(
            _object(
                "index id clicks position",
                index=TEXT_SCHEMA,
                id=TEXT_SCHEMA,
                clicks=_COUNT,
                position={"type": "number"},
            )
        ),
    ),
    "CountedQuery": _object(
        "index query searches no_hits took_us clicks",
        index=TEXT_SCHEMA,
        query=TEXT_SCHEMA,
        searches=_COUNT,
        searches_max=_COUNT,
        no_hits=_COUNT,
        took_us=_COUNT,
        clicks=_COUNT,
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
    "Configuration": _open_body(
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
        suggestions=_open_body(
            fields=list_of(FIELD_SCHEMA),
            facets=list_of(FIELD_SCHEMA),
            popularity=FIELD_SCHEMA,
            searches={"type": "boolean"},
        ),
        algolia={"type": "object"},
        ranking=_open_body(
            k1={"type": "number", "minimum": 0, "maximum": 100},
            b={"type": "number", "minimum": 0, "maximum": 1},
            proximity={"type": "number", "minimum": 0, "maximum": 10},
        ),
        boost=_SEARCH_SCHEMAS["boost"],
        rules=_SEARCH_SCHEMAS["rules"],
    ),
    "ConfigurationPatch": {"type": "object"},
    "ConfigurationAnswer": _object(
        "status warnings changes",
        status={"enum": ["configuration accepted", "preview"]},
        warnings=list_of(TEXT_SCHEMA),
        changes=list_of(_object("path before after", path=TEXT_SCHEMA, before={}, after={})),
    ),
    "AlgoliaQuery": algolia_parameters(),
    "AlgoliaQueries": _object(
        "requests",
        requests={
            **list_of(
                algolia_parameters(
                    indexName=TEXT_SCHEMA, type={"enum": ["default", "facet"]}, facet=TEXT_SCHEMA
                )
            ),
            "minItems": 1,
            "maxItems": DEFAULT_LIMITS.searches_max,
        },
    ),
    "AlgoliaFacetQuery": algolia_parameters(facetQuery=TEXT_SCHEMA, maxFacetHits=_COUNT),
    "AlgoliaObject": OBJECT_SCHEMA,
    "AlgoliaFields": {
        "type": "object",
        "description": "The fields of an object; its objectID is that in the path. In a partial "
        'update a value {"_operation": …, "value": …} changes the stored one: '
        f"{', '.join(CHANGES)}.",
    },
    "AlgoliaWantedObjects": _object(
        "requests",
        requests={
            **list_of(
                _object(
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
    "AlgoliaDeletion": _algolia_deletion(),
    "AlgoliaSettings": settings_schema(),
    "AlgoliaNewKey": NEW_KEY_SCHEMA,
    "AlgoliaRule": RULE_SCHEMA,
    "AlgoliaRules": {
        **list_of({"type": "object"}),
        "description": "As in PUT, each with its objectID.",
    },
    "AlgoliaRuleSearch": _body(
        "",
        query=TEXT_SCHEMA,
        anchoring={"enum": ["is", "contains", "startsWith", "endsWith"]},
        enabled={"type": "boolean"},
        page=_PAGE,
        hitsPerPage=_PAGE,
    ),
    "AlgoliaSynonym": SYNONYM_SCHEMA,
    "AlgoliaSynonyms": {
        **list_of({"type": "object"}),
        "description": "As in PUT, each with its objectID.",
    },
    "AlgoliaSynonymSearch": _body(
        "",
        query=TEXT_SCHEMA,
        type={"type": "string", "examples": ["synonym"]},
        page=_PAGE,
        hitsPerPage=_PAGE,
    ),
    "AlgoliaOperation": _body(
        "operation destination",
        operation={"enum": ["copy", "move"]},
        destination=INDEX_NAME_SCHEMA,
        scope=list_of({"enum": ["settings", "synonyms", "rules"]}),
    ),
    "Status": _object("status", status=TEXT_SCHEMA),
    "Document": {"type": "object"},
    "Aliases": _body(
        "aliases",
        aliases={
            "type": "object",
            "minProperties": 1,
            "propertyNames": INDEX_NAME_SCHEMA,
            "additionalProperties": {"anyOf": [INDEX_NAME_SCHEMA, {"type": "null"}]},
        },
    ),
    "Renaming": _body("to", to=INDEX_NAME_SCHEMA, alias={"type": "boolean"}),
    "Copying": _body("to", to=INDEX_NAME_SCHEMA),
    "NewSnapshot": _body("name", name=SNAPSHOT_NAME_SCHEMA),
    "ShardMove": _body(
        "shard",
        shard={"type": "integer", "minimum": 0, "maximum": 63},
        **{"from": {"type": "string"}, "to": {"type": "string"}},
    ),
    "RestoredIndexes": _body(
        "",
        indexes={"type": "array", "minItems": 1, "uniqueItems": True, "items": INDEX_NAME_SCHEMA},
        rename={
            "type": "object",
            "propertyNames": INDEX_NAME_SCHEMA,
            "additionalProperties": INDEX_NAME_SCHEMA,
        },
    ),
    "NewKey": _body(
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
