"""An example of each body, by route: for OpenAPI, `/_docs` and the reference.

All are accepted by a service with the films of `facetd demo`; a test sends them.
"""

from __future__ import annotations

from typing import Any, Final

_FILM: Final = {
    "id": 1001,
    "name": "Metropolis",
    "year": 1927,
    "director": "Fritz Lang",
    "genres": ["Drama", "Sci-Fi"],
}
_CONFIGURATION: Final = {
    "aggregations": {
        "genres": {"title": "Genres", "conjunction": False},
        "year": {"show_facet_stats": True},
    },
    "searchable_fields": ["name^4", "director^2", "description"],
    "sorting_fields": ["name", "year"],
    "language": "en",
}
_CHANGED_FIELDS: Final = {"rating": 8.3, "votes": 190_000}
_RULE: Final = {
    "conditions": [{"pattern": "mafia", "anchoring": "contains"}],
    "consequence": {"promote": [{"objectID": "2", "position": 0}]},
    "description": "The Godfather first",
}
_SYNONYM: Final = {"type": "synonym", "synonyms": ["film", "movie"]}

BODY_EXAMPLES: Final[dict[str, Any]] = {
    "POST /{index}/search": {
        "query": "godfathr",
        "filters": {"genres": ["Drama"], "year": {"gte": 1970}},
        "facet_fields": ["genres", "country"],
        "sort": ["_score:desc", "year:desc"],
        "per_page": 5,
    },
    "POST /{index}/facet": {"name": "director", "facet_query": "cop", "per_page": 5},
    "POST /_search": {
        "searches": [
            {"index": "films", "query": "sea", "per_page": 3},
            {"index": "films", "filter": "year >= 2010", "facet_fields": ["genres"], "per_page": 0},
        ]
    },
    "POST /{index}/suggest": {"query": "godf", "size": 5},
    "POST /{index}/explain": {"id": 2, "query": "godfathr", "filters": {"year": [1974]}},
    "PUT /{index}/items/{id}": {"name": "Metropolis", "year": 1927, "genres": ["Drama", "Sci-Fi"]},
    "PATCH /{index}/items/{id}": _CHANGED_FIELDS,
    "POST /{index}/items/{id}/update": {"name": "Metropolis", "year": 1927},
    "POST /{index}/items/{id}/partial": _CHANGED_FIELDS,
    "POST /{index}/items": [_FILM, {"id": 1002, "name": "Nosferatu", "year": 1922}],
    "PATCH /{index}/items": [{"id": 1, "rating": 9.2}, {"id": 2, "rating": 9.1}],
    "POST /{index}/items/delete": {"ids": [1001, 1002]},
    "POST /{index}/items/update": {
        "filter": "year < 1930 AND genres = Drama",
        "fields": {"era": "silent"},
    },
    "POST /{index}/items/changes": {
        "put": [_FILM],
        "delete": [1002],
        "source": "shop",
        "position": "17",
    },
    "POST /{index}/configuration": _CONFIGURATION,
    "PUT /{index}/configuration": _CONFIGURATION,
    "PATCH /{index}/configuration": {"aggregations": {"country": {"size": 20}}, "boost": None},
    "POST /{index}/rename": {"to": "films-2025"},
    "POST /{index}/copy": {"to": "films-test"},
    "POST /_aliases": {"aliases": {"movies": "films"}},
    "POST /_snapshots": {"name": "monday"},
    "POST /_snapshots/{name}/restore": {
        "indexes": ["films"],
        "rename": {"films": "films-monday"},
    },
    "POST /_keys": {
        "actions": ["search"],
        "indexes": ["films*"],
        "filter": 'country = "United States"',
        "expires_in_seconds": 2_592_000,
        "description": "the web page",
    },
    "POST /_cluster/shards": {"shard": 1, "from": "a:3000", "to": "c:3000"},
    "POST /_analytics/clicks": {
        "clicks": [{"index": "films", "query": "godfathr", "id": 2, "position": 1}]
    },
    "POST /1/indexes/{indexName}/query": {
        "query": "godfathr",
        "facets": ["genres"],
        "facetFilters": [["genres:Drama", "genres:Crime"]],
        "hitsPerPage": 5,
    },
    "POST /1/indexes/{indexName}": {"name": "Metropolis", "year": 1927},
    "POST /1/indexes/{indexName}/browse": {"filters": "year >= 2010"},
    "POST /1/indexes/{indexName}/facets/{facetName}/query": {"facetQuery": "dr"},
    "POST /1/indexes/*/queries": {
        "requests": [
            {"indexName": "films", "query": "sea", "hitsPerPage": 3},
            {"indexName": "films:year:desc", "facets": ["genres"], "hitsPerPage": 0},
        ]
    },
    "PUT /1/indexes/{indexName}/{objectID}": {"name": "Metropolis", "year": 1927},
    "POST /1/indexes/*/objects": {"requests": [{"indexName": "films", "objectID": "1"}]},
    "POST /1/indexes/{indexName}/batch": {
        "requests": [
            {"action": "addObject", "body": {"objectID": "1001", "name": "Metropolis"}},
            {"action": "deleteObject", "body": {"objectID": "1002"}},
        ]
    },
    "POST /1/indexes/*/batch": {
        "requests": [
            {
                "indexName": "films",
                "action": "partialUpdateObject",
                "body": {"objectID": "1", "rating": 9.2},
            }
        ]
    },
    "POST /1/indexes/{indexName}/{objectID}/partial": {
        "votes": {"_operation": "Increment", "value": 1}
    },
    "POST /1/indexes/{indexName}/deleteByQuery": {"filters": "year < 1930"},
    "PUT /1/indexes/{indexName}/settings": {
        "attributesForFaceting": ["genres", "searchable(director)"],
        "searchableAttributes": ["name", "director"],
    },
    "POST /1/keys": {"acl": ["search"], "indexes": ["films*"], "description": "the web page"},
    "PUT /1/indexes/{indexName}/rules/{objectID}": _RULE,
    "POST /1/indexes/{indexName}/rules/batch": [{"objectID": "mafia", **_RULE}],
    "POST /1/indexes/{indexName}/rules/search": {"query": "mafia"},
    "PUT /1/indexes/{indexName}/synonyms/{objectID}": _SYNONYM,
    "POST /1/indexes/{indexName}/synonyms/batch": [{"objectID": "film", **_SYNONYM}],
    "POST /1/indexes/{indexName}/synonyms/search": {"query": "movie"},
    "POST /1/indexes/{indexName}/operation": {"operation": "copy", "destination": "films-test"},
}
LOAD: Final = "POST /{index}/index"
"""The route whose body is lines."""
LINES_EXAMPLE: Final = '{"id": 1, "name": "The Godfather"}\n{"id": 2, "name": "Jaws"}\n'
