"""The OpenAPI document against the service: it must allow what is accepted, and describe answers.

Requests are valid ones in which one value is replaced by another, often an invalid one. What the
document allows may be refused for reasons that no schema knows: a field that no item has, a filter
that does not parse.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from tests.service import Client, Reply, Service

RULE = {
    "name": "week",
    "when": {"query": {"contains": "god"}, "filters": {"genres": "Drama"}, "from": "2026-01-01"},
    "pin": [1, {"id": 2, "position": 5}],
    "hide": [13],
    "boost": [{"filter": "year = 1999", "factor": 3}],
    "bury": ["year = 2000"],
    "filter": "year > 1900",
    "data": {"banner": "week.webp"},
}
GENRES = {
    "size": 3,
    "sort": "count",
    "order": "desc",
    "conjunction": True,
    "hide_zero": True,
    "query": "d*",
    "offset": 1,
    "stats": ["year"],
    "missing": True,
    "cardinality": True,
    "collation": "sv",
}
RESTRICTIONS: dict[str, list[Any]] = {
    "filters": [
        {"genres": ["Drama"], "year": 1994},
        {"year": {"gte": 1990, "lt": 2000}, "genres": {"any": ["Drama"], "none": ["Crime"]}},
        {"genres": {"exists": True, "count": {"gte": 2}}},
        [],
    ],
    "not_filters": [{"genres": ["War"]}],
    "filter": ["year >= 1990 AND genres = Drama", ""],
    "match": ["all", "any", "auto", "75%"],
    "prefix": ["none"],
    "typo": [0, "2"],
    "infix": [True, "false"],
    "typo_lengths": [[5, 9], "5,9"],
    "search_fields": [["name^3", "description"], "name"],
}
SEARCH: dict[str, list[Any]] = {
    **RESTRICTIONS,
    "query": ["godfather", ""],
    "page": [1, "2"],
    "per_page": [0, "5"],
    "facet_fields": [["genres"], "genres,year", []],
    "sort": [
        "year:desc",
        ["year:desc", "name"],
        {"field": "year", "order": "asc", "missing": "first"},
        [{"field": "_score", "buckets": 10}, {"field": "_random", "seed": 4}],
    ],
    "boost": [
        {"rating": {"log": 0.3}, "votes": {"saturation": 10, "weight": 2}},
        {"rating": {"linear": 1}, "year": {"reciprocal": 4, "origin": 2000}},
        [],
    ],
    "rules": [[RULE], [{"pin": 1, "hide": "2", "bury": "year = 2000"}]],
    "min_score": [1, "0.5"],
    "fields": [["name"], "name,year"],
    "exclude_fields": [["name"]],
    "highlight": [True, ["name"], {"fields": ["name"], "pre": "<", "post": ">"}],
    "snippet": [True, ["description:20"], {"fields": ["description"], "ellipsis": ".."}],
    "facets": [{"genres": GENRES}, {"year": {"percentiles": [50], "stats": True}}, []],
    "facet_ranges": [
        {"year": [{"to": 1990}, {"from": 1990}], "rating": {"interval": 1, "missing": True}},
        {"year": {"ranges": [{"to": 1}], "missing": True}},
    ],
    "facet_cube": [{"field": "year", "interval": 10}, {"field": "year", "edges": [1990, 2000]}],
    "trees": [["language"], {"language": {"size": 3, "open": ["en"]}}, {"language": None}],
    "facet_mode": ["strict"],
    "distinct": [
        "year",
        {"field": "year", "limit": 1, "sizes": True, "hits": 2, "facets_by": "groups"},
    ],
    "similar_to": [1, "2"],
    "did_you_mean": [True, "false"],
    "show": [["score", "score_details", "timings"], "score"],
    "partial": ["allow"],
}
FACET = {
    **{name: SEARCH[name] for name in (*RESTRICTIONS, "page", "per_page", "boost", "rules")},
    "name": ["genres", "year"],
    "search_query": ["god"],
    "query": ["d*"],
    "facet_query": ["dr"],
    "hide_zero": [True, "false"],
    "min_score": SEARCH["min_score"],
}
SEVERAL: dict[str, list[Any]] = {
    "searches": [[{"index": "films", "query": "god"}, {"index": "films", "per_page": 0}]],
    "merge": [True, {"page": 1, "per_page": "3"}, None],
}
SUGGEST: dict[str, list[Any]] = {
    "query": ["god"],
    "size": [3, "4"],
    "filters": RESTRICTIONS["filters"],
}
CONFIGURATION: dict[str, list[Any]] = {
    "aggregations": [
        {
            "genres": {"title": "Genre", "position": 1, "size": 3, "conjunction": False},
            "year": {"sort": ["count", "term"], "order": ["desc", "asc"], "hide_zero": True},
        },
    ],
    "searchable_fields": [["name^3", "description"], {"name": 3}],
    "sorting_fields": [["year"]],
    "geo_fields": [["_geo"]],
    "nested": [["variants"]],
    "hierarchies": [{"place": {"path": "country", "separator": "/"}}],
    "language": ["en", "none", "english"],
    "field_languages": [{"name": "en"}],
    "collation": ["sv"],
    "field_collations": [{"name": "de"}],
    "stop_words": [["a"], "en", False],
    "synonyms": [[["a", "b"], {"from": "a", "to": ["b"]}], {"a": ["b"]}],
    "match": ["all", "75%"],
    "prefix": ["last"],
    "typo": ["auto", 1],
    "typo_lengths": [[5, 9]],
    "infix": [True, ["name"]],
    "field_typo_lengths": [{"name": [5, 9], "genres": "none"}],
    "display": [{"title": "name", "image": "poster", "fields": ["year"]}],
    "suggestions": [{"fields": ["name"], "facets": ["country"], "popularity": "votes"}],
    "ranking": [{"k1": 1.2, "b": 0.5, "proximity": 1}],
    "boost": [{"rating": {"log": 0.3}}],
    "rules": SEARCH["rules"],
}
CHANGES: dict[str, list[Any]] = {"put": [[{"id": 9001, "x": 2}]], "delete": [[9002, "b"]]}
CLICKS: dict[str, list[Any]] = {
    "clicks": [[{"index": "films", "query": "q", "id": 1, "position": 2}]]
}
ROUTES: dict[str, tuple[str, dict[str, list[Any]], dict[str, Any]]] = {
    "/{index}/search": ("/films/search", SEARCH, {}),
    "/{index}/facet": ("/films/facet", FACET, {"name": "genres"}),
    "/{index}/suggest": ("/films/suggest", SUGGEST, {}),
    "/{index}/explain": ("/films/explain", {"id": [1, "2"], **SEARCH}, {"id": 3}),
    "/{index}/configuration": (
        "/films/configuration?preview=true",
        CONFIGURATION,
        {"aggregations": {"country": {}}},
    ),
    "/{index}/items/changes": ("/films/items/changes", CHANGES, {}),
    "/_search": ("/_search", SEVERAL, {"searches": [{"index": "films"}]}),
    "/_analytics/clicks": ("/_analytics/clicks", CLICKS, {}),
}
"""By path in the document: a target, valid values by member, and what every body has."""
ODD: list[Any] = [
    *(
        None,
        True,
        False,
        0,
        1,
        -1,
        1.5,
        2**63,
        1e300,
        "",
        "a",
        "0",
        "1.5",
        "true",
        "YES",
        "x" * 3000,
    ),
    *([], {}, [None], [[]], [{}], {"a": None}, ["year"], ["year", None], [1, 2], [91, 181]),
    *(
        "year",
        "_geo",
        "_score",
        "*",
        "01",
        "a,b,,c",
        "count",
        "2026-01-01",
        "0%",
        "6h",
        "day",
        1000,
    ),
]
NEW_MEMBERS = ("x", "size", "from", "field", "count", "missing", "limit", "gt", "name", "weight")


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    with Service(tmp_path_factory.mktemp("openapi") / "data", 2) as service:
        films = service.client()
        films.make_films(hierarchies={"language": {"path": "language"}})
        yield films
        films.close()


@pytest.fixture(scope="module")
def document(client: Client) -> Any:
    return client.get("/_openapi.json").json


def validator(document: Any, schema: dict[str, Any]) -> Draft202012Validator:
    return Draft202012Validator({**schema, "components": document["components"]})


def complete(schema: Any) -> Any:
    """Return a schema in which objects of answers have no other members than those described."""
    if isinstance(schema, list):
        return [complete(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    found = {name: complete(inner) for name, inner in schema.items()}
    if "properties" in found and found.get("type") == "object":
        found.setdefault("additionalProperties", False)
    return found


def content(described: Any) -> dict[str, Any]:
    schema: dict[str, Any] = described["content"]["application/json"]["schema"]
    return schema


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of each value in a document."""
    if path:
        yield path
    if isinstance(value, (dict, list)):
        for name, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from places(inner, (*path, name))


def changed(draw: random.Random, body: dict[str, Any]) -> dict[str, Any]:
    """Return a body with one value replaced, removed or added."""
    body = copy.deepcopy(body)
    path = draw.choice(list(places(body)))
    target: Any = body
    for name in path[:-1]:
        target = target[name]
    odd = copy.deepcopy(draw.choice(ODD))
    match draw.choice(("replace", "replace", "replace", "remove", "add")):
        case "remove":
            del target[path[-1]]
        case "add" if isinstance(target, dict):
            target[draw.choice(NEW_MEMBERS)] = odd or 0  # an unknown member may be null
        case _:
            target[path[-1]] = odd
    return body


def is_accepted(reply: Reply) -> bool:
    """Return whether a request was, and each of the searches in it."""
    return reply.status == 200 and not any("error" in one for one in reply.json.get("results", ()))


@pytest.mark.parametrize("path", ROUTES)
def test_what_is_accepted_and_answered_is_described(
    client: Client, document: Any, path: str
) -> None:
    target, values, always = ROUTES[path]
    operation = document["paths"][path]["post"]
    bodies = validator(document, content(operation["requestBody"]))
    answers = validator(complete(document), complete(content(operation["responses"]["200"])))
    errors = validator(document, content(operation["responses"]["default"]))
    draw = random.Random(path)
    for name in values:
        for value in values[name]:
            valid = {**always, name: value}
            assert list(bodies.iter_errors(valid)) == []
            assert client.post(target, valid).status == 200, valid
            for body in (changed(draw, valid) for _ in range(12)):
                reply = client.post(target, body)
                described = answers if reply.status == 200 else errors
                assert list(described.iter_errors(reply.json)) == [], body
                assert reply.status < 500, body
                if is_accepted(reply):
                    assert list(bodies.iter_errors(body)) == [], body
