"""Schemas of searches and what they return: hits, facets, suggestions, explanations."""

from __future__ import annotations

from typing import Any, Final

from common.limits import DEFAULT_LIMITS
from coordinator.http.api_description.schemas.parameter_schemas import parameters_schema
from coordinator.http.api_description.schemas.schema_parts import (
    COUNT_SCHEMA,
    INDEX_NAME_SCHEMA,
    TEXT_SCHEMA,
    WEIGHT_SCHEMA,
    body_schema,
    described,
    list_of,
    object_schema,
    ref,
)
from coordinator.parameters.parameter_table import SEARCH_BY_NAME, SEARCH_PARAMETERS

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
    rule_data=list_of({"type": "object"}),
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

SEARCH_SCHEMAS: Final[dict[str, Any]] = {
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
        searches=described(
            {
                "type": "array",
                "minItems": 1,
                "maxItems": DEFAULT_LIMITS.searches_max,
                "items": parameters_schema(
                    SEARCH_PARAMETERS,
                    "index",
                    index=INDEX_NAME_SCHEMA,
                    weight={"anyOf": [WEIGHT_SCHEMA, {"type": "null"}]},
                ),
            },
            "The searches: an index and the parameters of a search each; with `merge`, also a "
            "weight of its scores.",
            [{"index": "films", "query": "godfathr"}, {"index": "films", "per_page": 0}],
        ),
        merge=described(
            {
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
            "One list of hits, ordered by score, and one set of facets, instead of a response "
            "each; true, or which page of it.",
            {"page": 1, "per_page": 20},
        ),
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
}
