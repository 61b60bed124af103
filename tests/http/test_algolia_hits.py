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
