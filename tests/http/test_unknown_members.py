"""A name that does not exist is the same error, whatever its value: null does not hide it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from tests.service import Client, Service

SEARCH: dict[str, Any] = {"query": "a"}
RULE: dict[str, Any] = {"objectID": "a", "consequence": {"hide": [{"objectID": "1"}]}}
SYNONYM: dict[str, Any] = {"objectID": "a", "type": "synonym", "synonyms": ["a", "b"]}


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    with (
        Service(tmp_path_factory.mktemp("names") / "data", 1) as service,
        closing(service.client()) as client,
    ):
        client.post("/books/configuration", {"aggregations": {"kind": {}}})
        client.post("/books/items", [{"id": 1, "kind": "a", "n": 1}])
        yield client


def error_of(client: Client, method: str, path: str, body: Any) -> tuple[str, str, str]:
    """Return code, name and message of the error that a request is answered with."""
    if method == "POST":
        reply = client.post(path, body)
    else:
        headers = {"content-type": "application/json"}
        reply = client.request(method, path, json.dumps(body).encode(), headers)
    assert reply.status == 400, (path, body, reply.body[:300])
    error = reply.json["error"]
    return error["code"], error.get("param"), error["message"]


@pytest.mark.parametrize(
    ("method", "path", "body", "place"),
    [
        ("POST", "/books/search", SEARCH, ()),
        ("POST", "/books/search", {"highlight": {}}, ("highlight",)),
        ("POST", "/books/search", {"filters": {"n": {"gt": 1}}}, ("filters", "n")),
        ("POST", "/books/search", {"rules": [{"hide": [1], "when": {}}]}, ("rules", 0, "when")),
        ("POST", "/books/facet", {"name": "kind"}, ()),
        ("POST", "/books/suggest", SEARCH, ()),
        ("POST", "/books/explain", {"id": 1}, ()),
        ("POST", "/books/items/delete", {"filter": "kind = a"}, ()),
        ("POST", "/books/items/update", {"filter": "kind = a", "fields": {"n": 2}}, ()),
        ("POST", "/_search", {"searches": [{"index": "books"}]}, ()),
        ("POST", "/_search", {"searches": [{"index": "books"}]}, ("searches", 0)),
        ("POST", "/_search", {"searches": [{"index": "books"}], "merge": {}}, ("merge",)),
        ("POST", "/_aliases", {"aliases": {}}, ()),
        ("POST", "/_snapshots", {"name": "s"}, ()),
        ("POST", "/_keys", {"actions": ["admin"]}, ()),
        ("POST", "/books/rename", {"to": "films"}, ()),
        ("POST", "/1/indexes/books/query", SEARCH, ()),
        ("POST", "/1/indexes/books/browse", {}, ()),
        ("POST", "/1/indexes/books/facets/kind/query", {"facetQuery": ""}, ()),
        ("POST", "/1/indexes/*/queries", {"requests": [{"indexName": "books"}]}, ("requests", 0)),
        ("POST", "/1/indexes/books/deleteByQuery", {"filters": "kind:a"}, ()),
        ("PUT", "/1/indexes/books/settings", {}, ()),
        ("POST", "/1/indexes/books/rules/batch", [RULE], (0,)),
        ("POST", "/1/indexes/books/rules/batch", [RULE], (0, "consequence")),
        (
            "POST",
            "/1/indexes/books/rules/batch",
            [{**RULE, "conditions": [{"pattern": "a", "anchoring": "is"}]}],
            (0, "conditions", 0),
        ),
        (
            "POST",
            "/1/indexes/books/rules/batch",
            [{**RULE, "consequence": {"params": {"filters": "n:1"}}}],
            (0, "consequence", "params"),
        ),
        ("POST", "/1/indexes/books/synonyms/batch", [SYNONYM], (0,)),
        ("POST", "/1/indexes/books/operation", {"operation": "copy", "destination": "b"}, ()),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_an_unknown_name_is_the_same_error_with_null(
    client: Client, method: str, path: str, body: Any, place: tuple[str | int, ...]
) -> None:
    errors = {
        error_of(client, method, path, with_member(body, place, value)) for value in (1, None)
    }
    ((_, param, message),) = errors
    assert "nope" in (param or message)


def with_member(body: Any, place: tuple[str | int, ...], value: Any) -> Any:
    """Return a body with an unknown member in the object at a place."""
    if not place:
        return {**body, "nope": value}
    first, *rest = place
    inner = with_member(body[first], tuple(rest), value)
    if isinstance(body, list):
        return [*body[: int(first)], inner, *body[int(first) + 1 :]]
    return {**body, first: inner}


def test_null_for_a_known_name_is_as_if_it_were_not_given(client: Client) -> None:
    found = client.post("/books/search", {"page": None, "filters": None})
    assert found.json["pagination"]["total"] == 1
    given = {"similarQuery": None, "page": None, "facetName": None, "cursor": None}
    assert client.post("/1/indexes/books/query", given).json["nbHits"] == 1
    query = {"indexName": "books", "type": None, "facet": None, **given}
    (result,) = client.post("/1/indexes/*/queries", {"requests": [query]}).json["results"]
    assert result["nbHits"] == 1
