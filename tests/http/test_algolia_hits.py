"""Hits of Algolia's protocol, made of the items of a search."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.http.conftest import Web


@pytest.mark.parametrize("own", ["a text", 5, ["x"], {"name": 7}, {"name": ["x"]}])
async def test_fields_with_the_names_of_marks_are_fields(web: Web, own: Any) -> None:
    item = {"id": 1, "name": "one", "_highlight": own, "_snippet": own}
    web.search.items = [json.dumps(item).encode()]

    for page in ("query", "browse"):
        found = await web.post(f"/1/indexes/films/{page}", {})

        assert found.status == 200, found.body
        (hit,) = found.json["hits"]
        assert {name: hit[name] for name in item} == item


async def test_large_pages_have_the_hits_of_small_ones(web: Web) -> None:
    """They are made on another thread."""
    item = json.loads(web.search.items[0])
    web.search.items = [json.dumps({**item, "text": "x" * 50_000}).encode()] * 3
    options = {"attributesToRetrieve": ["name", "tags"], "attributesToHighlight": ["name"]}

    large = (await web.post("/1/indexes/films/query", options)).json["hits"]
    web.search.items = [json.dumps(item).encode()] * 3
    small = (await web.post("/1/indexes/films/query", options)).json["hits"]

    assert large == small
    assert set(large[0]) == {"name", "tags", "objectID", "_highlightResult"}


async def test_snippets_of_an_array_of_texts_and_objects_are_those_of_the_texts(web: Web) -> None:
    """Its objects have the array's path and more: both cannot be at one place of the result."""
    item = {"id": 1, "tags": ["red car", {"b": "red bus"}], "name": "one"}
    snippets = {"tags": "red car", "tags.b": "red bus", "name": "one"}
    options = {"query": "red", "attributesToSnippet": ["*"]}

    for order in (snippets, dict(reversed(snippets.items()))):
        web.search.items = [json.dumps({**item, "_snippet": order}).encode()]
        found = await web.post("/1/indexes/films/query", options)

        assert found.status == 200, found.body
        (hit,) = found.json["hits"]
        shown = hit["_snippetResult"]
        assert shown["tags"] == [{"value": "red car", "matchLevel": "none"}]
        assert shown["name"] == {"value": "one", "matchLevel": "none"}


async def test_rules_are_found_by_conditions_of_both_forms(web: Web) -> None:
    condition = {"pattern": "tv", "anchoring": "contains"}
    hide = {"hide": [{"objectID": "1"}]}
    rules = [
        {"objectID": "new", "conditions": [condition], "consequence": hide, "enabled": True},
        {"objectID": "older", "condition": condition, "consequence": hide, "enabled": None},
        {"objectID": "off", "condition": condition, "consequence": hide, "enabled": False},
    ]
    saved = await web.post("/1/indexes/films/rules/batch", rules)
    assert saved.status == 200, saved.body

    for enabled, ids in ((True, {"new", "older"}), (False, {"off"})):
        asked = {"query": "", "anchoring": "contains", "enabled": enabled}
        found = await web.post("/1/indexes/films/rules/search", asked)
        assert {rule["objectID"] for rule in found.json["hits"]} == ids


async def test_attributes_of_an_object_are_listed_as_those_of_a_search(web: Web) -> None:
    put = await web.post("/1/indexes/films/batch", {"requests": [
        {"action": "addObject", "body": {"objectID": "x1", "name": "one", "year": 2, "a": 1}}
    ]})  # fmt: skip
    assert put.status == 200, put.body
    for text in ("name, year", '["name","year"]'):
        found = await web.get("/1/indexes/films/x1", attributesToRetrieve=text)
        assert found.json == {"name": "one", "year": 2, "objectID": "x1"}, found.body
