"""Writes of Algolia's protocol that would store or remove what nobody meant are refused whole."""

from __future__ import annotations

from typing import Any

import pytest

from tests.http.catalogue import request
from tests.http.conftest import Web

ADDED = {"action": "addObject", "body": {"name": "two"}}


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "films"),
        ("PUT", "films/1"),
        ("POST", "films/1/partial"),
        ("PUT", "films/settings"),
    ],
)
async def test_an_empty_body_is_no_object(web: Web, method: str, path: str) -> None:
    refused = await web.send(request(method, f"/1/indexes/{path}", b""))

    assert (refused.status, refused.code) == (400, "invalid_body")
    assert "the body is empty" in refused.json["error"]["message"]


@pytest.mark.parametrize("name", [{}, {"indexName": None}, {"indexName": 7}])
async def test_a_change_without_an_index_changes_nothing(web: Web, name: dict[str, Any]) -> None:
    seq = web.services.cluster.horizon(web.services.catalog.indexes["films"].number)

    refused = await web.post(
        "/1/indexes/*/batch", {"requests": [{**ADDED, "indexName": "films"}, {**ADDED, **name}]}
    )

    assert (refused.status, refused.code) == (400, "invalid_index_name")
    assert refused.json["error"]["param"] == "requests[1].indexName"
    assert list(web.services.catalog.indexes) == ["films"]
    assert web.services.cluster.horizon(web.services.catalog.indexes["films"].number) == seq


@pytest.mark.parametrize(
    ("path", "status"), [("*/batch", 405), ("*/objects", 405), ("*/queries", 405), ("%2A/7", 404)]
)
async def test_all_indexes_are_none(web: Web, path: str, status: int) -> None:
    refused = await web.send(request("PUT", f"/1/indexes/{path}", b"{}"))

    assert refused.status == status
    assert list(web.services.catalog.indexes) == ["films"]


@pytest.mark.parametrize(
    "body",
    [{"filters": ""}, {"filters": None, "facetFilters": []}, {"params": "filters="}, {}],
)
async def test_deletion_by_filters_that_select_nothing(web: Web, body: dict[str, Any]) -> None:
    refused = await web.post("/1/indexes/films/deleteByQuery", body)

    assert refused.status == 400, refused.body
    assert (await web.get("/films/items/1")).status == 200
