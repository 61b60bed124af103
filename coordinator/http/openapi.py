"""The API describes itself: an OpenAPI 3.1 document, and a page for people.

Everything is derived from what serves the requests: paths and methods from the route table,
parameters from the table that the parser uses (`coordinator.parameters.table`), bounds from
`Limits`. The page is plain HTML rendered here, so it needs neither internet access nor scripts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cached_property
from html import escape
from typing import TYPE_CHECKING, Any, Final

import orjson

from common.configuration import LANGUAGES
from common.limits import DEFAULT_LIMITS, Limits
from common.placement import ID_BYTES_MAX
from coordinator.algolia.keys import NEW_KEY_SCHEMA
from coordinator.algolia.objects import OBJECT_ID_SCHEMA, OBJECT_SCHEMA, batch_schema
from coordinator.algolia.parameters import BY_NAME as ALGOLIA_PARAMETERS
from coordinator.algolia.parameters import or_null
from coordinator.algolia.parameters import parameters_schema as algolia_parameters
from coordinator.algolia.settings import settings_schema
from coordinator.cluster.catalog import program_version
from coordinator.cluster.snapshots import NAME as SNAPSHOT_NAME
from coordinator.http.error_codes import ERROR_CODES, PARAMETER_CODE
from coordinator.http.middleware import RESERVED_NAMES
from coordinator.parameters.table import (
    COLLATION_SCHEMA,
    RESTRICTING_PARAMETERS,
    SEARCH_BY_NAME,
    SEARCH_PARAMETERS,
    TYPO_LENGTHS_SCHEMA,
)

if TYPE_CHECKING:
    from coordinator.http.routing import Route
    from coordinator.parameters.reader import Parameter

TAGS: Final = {
    "search": "Search: hits, facets, ranges.",
    "items": "Items: read, write, load, export.",
    "indexes": "Indexes: configuration, removal, sizes, aliases.",
    "algolia": "Algolia's protocol: search, objects, settings, keys.",
    "operations": "Operations: health, metrics, keys, documentation.",
    "pages": "Pages for people.",
}

INLINE_BYTES_MAX: Final = 200
"""Larger parameter schemas are described once and referenced."""

_TEXT: Final[dict[str, Any]] = {"type": "string"}
_COUNT: Final[dict[str, Any]] = {"type": "integer", "minimum": 0}
_FIELD: Final[dict[str, Any]] = {
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
_INDEX: Final[dict[str, Any]] = {
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
_SNAPSHOT: Final[dict[str, Any]] = {"type": "string", "pattern": f"^{SNAPSHOT_NAME.pattern}$"}


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


def _schema_of(parameter: Parameter) -> dict[str, Any]:
    """Return the schema of a parameter, or a reference to the components if it is large."""
    if len(orjson.dumps(parameter.schema)) <= INLINE_BYTES_MAX:
        return parameter.schema
    return _ref(f"parameter.{parameter.name}")


def parameters_schema(parameters: Iterable[Parameter], **more: Any) -> dict[str, Any]:
    """Return the schema of a body with the given parameters and further members."""
    properties: dict[str, Any] = dict(more)
    twice = []
    for parameter in parameters:
        schema = {"anyOf": [_schema_of(parameter), {"type": "null"}]}
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
        name: _schema_of(parameter)
        for parameter in RESTRICTING_PARAMETERS
        for name in (parameter.name, *parameter.aliases)
    }
    return {
        "oneOf": [
            _body(
                f"ids {required}",
                ids={**_list(_ID), "maxItems": DEFAULT_LIMITS.batch_items_max},
                **more,
            ),
            {**_body(required, **more, **restrictions), "minProperties": 1 + len(more)},
        ]
    }


def _algolia_deletion() -> dict[str, Any]:
    """Return the schema of a body that says which objects to delete."""
    names = ("filters", "facetFilters", "numericFilters", "tagFilters")
    known = {name: ALGOLIA_PARAMETERS[name].schema for name in names if name in ALGOLIA_PARAMETERS}
    properties = {name: or_null(schema) for name, schema in {**known, "params": _TEXT}.items()}
    return {
        "type": "object",
        "properties": properties,
        "minProperties": 1,
        "additionalProperties": False,
    }


def _list(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items}


def _ref(name: str) -> dict[str, str]:
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
    name=_TEXT,
    title=_TEXT,
    position=_COUNT,
    buckets=_list(
        _object(
            "key doc_count selected",
            key=_TEXT,
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
_JOINT_COUNTS: Final = _object("counts", counts=_list({"type": "integer"}))
_PAGINATION: Final = _object(
    "per_page page total", per_page=_COUNT, page=_COUNT, total=_COUNT, cursor=_TEXT
)
_META: Final = _object(
    "request_id seq took_us shards",
    request_id=_TEXT,
    seq=_COUNT,
    took_us=_COUNT,
    ignored_words=_list(_TEXT),
    rules=_list(_TEXT),
    match={"enum": ["all", "last", "any"]},
    words_cut=_COUNT,
    did_you_mean=_TEXT,
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
_FACET_SORT: Final = {"anyOf": [_TEXT, _list(_TEXT)]}
_FACET_SETTINGS: Final = _open_body(
    title=_TEXT,
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
            code=_TEXT,
            message=_TEXT,
            status={"type": "integer"},
            param=_TEXT,
            request_id=_TEXT,
            errors=_list({"type": "object"}),
        ),
    ),
    "SearchAnswer": _object(
        "pagination timings data meta",
        pagination=_PAGINATION,
        timings=_TIMINGS,
        data=_object(
            "items aggregations",
            items=_list({"type": "object"}),
            aggregations={"type": "object", "additionalProperties": _FACET},
            ranges={"type": "object", "additionalProperties": _list({"type": "object"})},
            facet_cube=_object(
                "field edges total facets ranges trees",
                field=_TEXT,
                edges=_list({"type": "number"}),
                total=_list({"type": "integer"}),
                facets={"type": "object", "additionalProperties": _list(_JOINT_COUNTS)},
                ranges={"type": "object", "additionalProperties": _list(_JOINT_COUNTS)},
                trees={"type": "object", "additionalProperties": _list(_JOINT_COUNTS)},
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
            reasons=_list(
                _object(
                    "kind",
                    kind={
                        "enum": ["filter", "word", "rule", "min_score", "similar_to", "combination"]
                    },
                    param=_TEXT,
                    text=_TEXT,
                    value={},
                    rule=_TEXT,
                    score={"type": "number"},
                    min_score={"type": "number"},
                )
            ),
            score={"type": "number"},
            score_details={"type": ["object", "null"]},
        ),
        meta=_object("request_id seq took_us", request_id=_TEXT, seq=_COUNT, took_us=_COUNT),
    ),
    "Suggestions": _object(
        "data meta",
        data=_object(
            "suggestions",
            suggestions=_list(
                _object(
                    "text source count",
                    text=_TEXT,
                    source={"enum": ["word", "field", "facet", "search"]},
                    count=_COUNT,
                    field=_TEXT,
                )
            ),
        ),
        meta=_object("request_id seq took_us", request_id=_TEXT, seq=_COUNT, took_us=_COUNT),
    ),
    "Searches": _body(
        "searches",
        searches={
            "type": "array",
            "minItems": 1,
            "maxItems": DEFAULT_LIMITS.searches_max,
            "items": {
                **parameters_schema(SEARCH_PARAMETERS, index=_INDEX, weight=_WEIGHT),
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
            _object("results", results=_list({"anyOf": [_ref("SearchAnswer"), _ref("Error")]})),
            _object(
                "pagination data meta",
                pagination=_PAGINATION,
                data=_object(
                    "items aggregations",
                    items=_list({"type": "object"}),
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
    "Items": {"anyOf": [_list(_ref("Item")), _ref("Item")]},
    "WriteAnswer": _object(
        "status created updated rejected errors seq",
        status={"enum": ["indexed", "updated", "deleted"]},
        id={"type": ["integer", "string"]},
        created=_COUNT,
        updated=_COUNT,
        deleted=_COUNT,
        rejected=_COUNT,
        errors=_list(
            _object("code message", line=_COUNT, index=_COUNT, id={}, code=_TEXT, message=_TEXT)
        ),
        seq=_COUNT,
    ),
    "ItemChanges": {
        **_body(
            "",
            put={
                **_list({**_ref("Item"), "required": ["id"]}),
                "maxItems": DEFAULT_LIMITS.batch_items_max,
            },
            delete={**_list(_ID), "maxItems": DEFAULT_LIMITS.batch_items_max},
            position=_POSITION,
            source={**_POSITION, "maxLength": DEFAULT_LIMITS.source_chars_max},
        ),
        "dependentRequired": {"source": ["position"], "position": ["source"]},
    },
    "Positions": _object("positions", positions={"type": "object", "additionalProperties": _TEXT}),
    "Clicks": _body(
        "clicks",
        clicks={
            "type": "array",
            "minItems": 1,
            "maxItems": DEFAULT_LIMITS.clicks_max,
            "items": {
                "type": "object",
                "properties": {
                    "index": _INDEX,
                    "query": _TEXT,
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
        days=_list(
            _object(
                "date searches no_hits took_us",
                date=_TEXT,
                searches=_COUNT,
                no_hits=_COUNT,
                took_us=_COUNT,
            )
        ),
        searches=_COUNT,
        no_hits=_COUNT,
        popular=_list(_ref("CountedQuery")),
        without_hits=_list(_ref("CountedQuery")),
        slow=_list(
            _object("index query took_us at", index=_TEXT, query=_TEXT, took_us=_COUNT, at=_TEXT)
        ),
        clicked=_list(
            _object(
                "index id clicks position",
                index=_TEXT,
                id=_TEXT,
                clicks=_COUNT,
                position={"type": "number"},
            )
        ),
    ),
    "CountedQuery": _object(
        "index query searches no_hits took_us clicks",
        index=_TEXT,
        query=_TEXT,
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
            "propertyNames": _FIELD,
            "additionalProperties": _FACET_SETTINGS,
            "maxProperties": DEFAULT_LIMITS.facets_max,
        },
        searchable_fields={
            "anyOf": [_list(_FIELD), {"type": "object", "additionalProperties": _WEIGHT}]
        },
        sorting_fields=_list(_FIELD),
        language=_LANGUAGE,
        field_languages={
            "type": "object",
            "propertyNames": _FIELD,
            "additionalProperties": _LANGUAGE,
        },
        collation=COLLATION_SCHEMA,
        field_collations={
            "type": "object",
            "propertyNames": _FIELD,
            "additionalProperties": COLLATION_SCHEMA,
        },
        stop_words={"anyOf": [_list(_WORD), _LANGUAGE, {"type": "boolean"}]},
        synonyms={"anyOf": [_list(_SYNONYMS), {"type": "object"}]},
        match=_SEARCH_SCHEMAS["match"],
        prefix=_SEARCH_SCHEMAS["prefix"],
        typo=_SEARCH_SCHEMAS["typo"],
        typo_lengths=TYPO_LENGTHS_SCHEMA,
        infix={"anyOf": [{"type": "boolean"}, _list(_FIELD)]},
        field_typo_lengths={
            "type": "object",
            "propertyNames": _FIELD,
            "additionalProperties": {"anyOf": [TYPO_LENGTHS_SCHEMA, {"enum": ["none"]}]},
        },
        suggestions=_open_body(
            fields=_list(_FIELD),
            facets=_list(_FIELD),
            popularity=_FIELD,
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
        warnings=_list(_TEXT),
        changes=_list(_object("path before after", path=_TEXT, before={}, after={})),
    ),
    "AlgoliaQuery": algolia_parameters(),
    "AlgoliaQueries": _object(
        "requests",
        requests={
            **_list(
                algolia_parameters(
                    indexName=_TEXT, type={"enum": ["default", "facet"]}, facet=_TEXT
                )
            ),
            "minItems": 1,
            "maxItems": DEFAULT_LIMITS.searches_max,
        },
    ),
    "AlgoliaFacetQuery": algolia_parameters(facetQuery=_TEXT, maxFacetHits=_COUNT),
    "AlgoliaObject": OBJECT_SCHEMA,
    "AlgoliaFields": {
        "type": "object",
        "description": "The fields of an object; its objectID is that in the path.",
    },
    "AlgoliaWantedObjects": _object(
        "requests",
        requests={
            **_list(
                _object(
                    "indexName objectID",
                    indexName=_TEXT,
                    objectID=OBJECT_ID_SCHEMA,
                    attributesToRetrieve=_list(_TEXT),
                )
            ),
            "maxItems": DEFAULT_LIMITS.batch_items_max,
        },
    ),
    "AlgoliaBatch": batch_schema(DEFAULT_LIMITS.batch_items_max),
    "AlgoliaBatches": batch_schema(DEFAULT_LIMITS.batch_items_max, indexName=_TEXT),
    "AlgoliaDeletion": _algolia_deletion(),
    "AlgoliaSettings": settings_schema(),
    "AlgoliaNewKey": NEW_KEY_SCHEMA,
    "Status": _object("status", status=_TEXT),
    "Document": {"type": "object"},
    "Aliases": _body(
        "aliases",
        aliases={
            "type": "object",
            "minProperties": 1,
            "propertyNames": _INDEX,
            "additionalProperties": {"anyOf": [_INDEX, {"type": "null"}]},
        },
    ),
    "Renaming": _body("to", to=_INDEX, alias={"type": "boolean"}),
    "Copying": _body("to", to=_INDEX),
    "NewSnapshot": _body("name", name=_SNAPSHOT),
    "RestoredIndexes": _body(
        "",
        indexes={"type": "array", "minItems": 1, "uniqueItems": True, "items": _INDEX},
        rename={
            "type": "object",
            "propertyNames": _INDEX,
            "additionalProperties": _INDEX,
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

_TEXT_ANSWERS: Final = {
    "Text": "text/plain",
    "Style": "text/css",
    "Script": "text/javascript",
    "Page": "text/html",
    "ItemLines": "application/x-ndjson",
}


def document(routes: Iterable[Route], limits: Limits) -> dict[str, Any]:
    """Return the OpenAPI document of a route table."""
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        if route.tag != "pages":
            paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, limits)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "facetd",
            "version": program_version(),
            "summary": "Faceted full-text search for one host",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "tags": [{"name": name, "description": text} for name, text in TAGS.items()],
        "paths": paths,
        "components": {
            "schemas": {
                **SCHEMAS,
                **{
                    f"parameter.{one.name}": one.schema
                    for one in SEARCH_PARAMETERS
                    if "$ref" in _schema_of(one)
                },
            },
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "header": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
            },
        },
        "security": [{}, {"bearer": []}, {"header": []}],
    }


def _operation(route: Route, limits: Limits) -> dict[str, Any]:
    """Return the operation of one route."""
    parameters = [_path_parameter(name) for name in re.findall(r"\{(\w+)\}", route.path)]
    body: dict[str, Any] | None = None
    if route.parameters and route.method == "GET":
        parameters += [_query_parameter(parameter) for parameter in route.parameters]
    elif route.parameters:
        body = parameters_schema(route.parameters)
    parameters += [
        {"name": name, "in": "query", "schema": schema}
        for name, schema in route.document.get("query", {}).items()
    ]
    operation: dict[str, Any] = {
        "operationId": _operation_id(route),
        "summary": route.summary,
        "tags": [route.tag],
        "responses": {
            "200": _answer(route.document["answer"]),
            "default": {
                "description": "Refused or failed; see the code and the message.",
                "content": {"application/json": {"schema": _ref("Error")}},
            },
        },
    }
    if route.action is not None:
        operation["description"] = f"Needs a key with the action {route.action.value}, if any."
    if parameters:
        operation["parameters"] = parameters
    name = route.document.get("body")
    if name is not None:
        body = _ref(name)
    if body is not None:
        operation["requestBody"] = {
            "content": {"application/json": {"schema": body}},
            "required": name
            in (
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
            ),
        }
    elif route.body.name == "STREAM":
        operation["requestBody"] = {
            "content": {
                media_type: {"schema": {"type": "string"}}
                for media_type in ("text/plain", "application/x-ndjson")
            },
            "description": f"Up to {limits.bulk_body_bytes_max} bytes; gzip, deflate and br.",
        }
    return operation


def _operation_id(route: Route) -> str:
    """Return a unique name: one handler may serve several routes."""
    words = re.findall(r"\w+", route.path)
    return "_".join([route.method.lower(), *(word.strip("_") for word in words)])


_PATH_ARGUMENTS: Final = {
    "index": {**_INDEX, "examples": ["films"]},
    "id": {"type": "string", "minLength": 1, "maxLength": ID_BYTES_MAX, "examples": ["1"]},
    "name": _SNAPSHOT,
    "indexName": {"type": "string", "minLength": 1, "examples": ["films:year:desc"]},
    "objectID": {"type": "string", "minLength": 1, "maxLength": ID_BYTES_MAX},
    "facetName": _FIELD,
    "taskID": {"type": "string", "minLength": 1},
    "host": {"type": "string", "minLength": 1},
    "key": {"type": "string", "minLength": 1},
}


def _path_parameter(name: str) -> dict[str, Any]:
    return {"name": name, "in": "path", "required": True, "schema": _PATH_ARGUMENTS[name]}


def _query_parameter(parameter: Parameter) -> dict[str, Any]:
    """Return a parameter as it appears in a query string."""
    described: dict[str, Any] = {
        "name": parameter.name,
        "in": "query",
        "description": parameter.description,
        "required": parameter.name in ("name", "id"),
    }
    if parameter.is_json:
        described["content"] = {"application/json": {"schema": _schema_of(parameter)}}
    elif parameter.is_list:
        described["schema"] = _list(_TEXT)
    else:
        # An empty value counts as absent.
        described["schema"] = {"anyOf": [_schema_of(parameter), {"type": "string", "maxLength": 0}]}
    return described


def _answer(name: str) -> dict[str, Any]:
    """Return the description of a successful response."""
    media_type = _TEXT_ANSWERS.get(name)
    if media_type is not None:
        return {"description": "Done.", "content": {media_type: {"schema": {"type": "string"}}}}
    return {"description": "Done.", "content": {"application/json": {"schema": _ref(name)}}}


class InterfaceDocument:
    """The API's description of itself; each form is rendered on first use.

    Args:
        routes: the route table.
        limits: in force.
    """

    def __init__(self, routes: tuple[Route, ...], limits: Limits) -> None:
        self._routes = routes
        self._limits = limits

    @cached_property
    def json(self) -> bytes:
        """The OpenAPI document as JSON."""
        return orjson.dumps(document(self._routes, self._limits), option=orjson.OPT_INDENT_2)

    @cached_property
    def page(self) -> bytes:
        """The documentation page for people."""
        return _page(self._routes, self._limits)


# --- the page ---------------------------------------------------------------------------------

STYLE: Final = b"""\
:root {
  color-scheme: light dark; background: Canvas; color: CanvasText;
  --line: color-mix(in srgb, currentColor 18%, transparent);
}
body {
  font: 16px/1.5 system-ui, sans-serif;
  max-width: 60rem; margin: 0 auto; padding: 1rem 1.25rem 4rem;
}
h1 { margin-bottom: 0; }
h2 { margin-top: 3rem; border-bottom: 1px solid var(--line); }
section { margin: 1.5rem 0; }
h3 { font: 600 1rem/1.4 ui-monospace, monospace; margin: 0; overflow-wrap: anywhere; }
h3 b { display: inline-block; min-width: 4.5rem; }
p { margin: .25rem 0; }
.muted { opacity: .75; font-size: .9rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .92rem; margin-top: .5rem; }
th, td {
  text-align: left; vertical-align: top;
  padding: .3rem .75rem .3rem 0; border-top: 1px solid var(--line);
}
td:first-child { font-family: ui-monospace, monospace; white-space: nowrap; }
nav { display: flex; flex-wrap: wrap; gap: 0 1rem; }
details { margin: .5rem 0; }
summary { cursor: pointer; font-size: .9rem; }
.try { margin: .5rem 0; }
.try-line { display: flex; gap: .5rem; align-items: center; }
.try input, .try textarea {
  box-sizing: border-box; width: 100%; min-width: 0; padding: .4rem .5rem;
  font: .85rem/1.4 ui-monospace, monospace;
}
.try textarea { margin-top: .5rem; }
.try button { padding: .4rem .9rem; font: inherit; cursor: pointer; }
.try pre {
  max-height: 24rem; overflow: auto; margin: 0; padding: .75rem; font-size: .8rem;
  border: 1px solid var(--line); white-space: pre-wrap; overflow-wrap: anywhere;
}
code { font-family: ui-monospace, monospace; }
"""


def _page(routes: tuple[Route, ...], limits: Limits) -> bytes:
    parts = [
        "<!doctype html><html lang=en><head><meta charset=utf-8>"
        '<meta name=viewport content="width=device-width, initial-scale=1">'
        "<title>facetd: the interface</title>"
        '<link rel=stylesheet href="_docs/style.css">'
        '<script type=module src="dashboard/assets/docs.js"></script></head><body>'
        f"<main><h1>facetd</h1><p class=muted>Version {escape(program_version())}. The same as "
        '<a href="_openapi.json">OpenAPI 3.1</a>. GET and POST take the same parameters; in a '
        "query string objects are JSON. Pages that only read can be tried in place.</p>"
        "<nav aria-label=Sections>"
    ]
    parts += [f'<a href="#{tag}">{tag}</a>' for tag in TAGS]
    parts.append('<a href="#errors">errors</a><a href="#limits">limits</a></nav>')
    for tag, text in TAGS.items():
        parts.append(f'<h2 id="{tag}">{escape(text)}</h2>')
        parts += [_section(route) for route in routes if route.tag == tag]
    parts.append('<h2 id="errors">Errors: codes are stable, messages are for people.</h2>')
    parts.append(
        _table(
            ("Code", "Status", "Meaning"),
            [
                (PARAMETER_CODE, "400", "the value of that parameter is wrong"),
                *((one.code, str(one.status), one.meaning) for one in ERROR_CODES.values()),
            ],
        )
    )
    parts.append('<h2 id="limits">Limits, each a setting.</h2>')
    parts.append(
        _table(
            ("Limit", "Value", "Why"),
            (
                (one.name, f"{getattr(limits, one.name):,} {one.unit}", one.reason)
                for one in Limits.describe()
            ),
        )
    )
    parts.append("</main></body></html>")
    return "".join(parts).encode()


def _section(route: Route) -> str:
    """Return the HTML of one route."""
    need = f"Needs a key with <code>{route.action.value}</code>, if any." if route.action else ""
    html = (
        f"<section><h3><b>{route.method}</b> {escape(route.path)}</h3>"
        f"<p>{escape(route.summary)} <span class=muted>{need}</span></p>"
    )
    # GET and POST of one page share their parameters: list them once.
    if route.parameters and route.method == "GET":
        html += _table(
            ("Parameter", "Value", "Meaning"),
            (
                (", ".join((one.name, *one.aliases)), shown_type(one.schema), one.description)
                for one in route.parameters
            ),
        )
    return html + "</section>"


def _table(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a table; cells are plain text."""
    head = "".join(f"<th>{escape(cell)}</th>" for cell in heads)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    return f"<div class=scroll tabindex=0><table><tr>{head}</tr>{body}</table></div>"


def shown_type(schema: dict[str, Any]) -> str:
    """Return a schema in a few words."""
    if "enum" in schema:
        return " | ".join(str(one) for one in schema["enum"])
    if "anyOf" in schema:
        return " | ".join(dict.fromkeys(shown_type(one) for one in schema["anyOf"]))
    kind = schema.get("type", "any")
    if "minimum" in schema and isinstance(kind, list):
        kind = kind[0]  # digits in a text are the same number
    text = " | ".join(kind) if isinstance(kind, list) else str(kind)
    if "minimum" in schema and "maximum" in schema:
        text += f" {schema['minimum']:,}\u2013{schema['maximum']:,}"
    elif "minimum" in schema:
        text += f" \u2265 {schema['minimum']}"
    return text if "default" not in schema else f"{text}, default {schema['default']}"
