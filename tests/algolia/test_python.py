"""The Python package algoliasearch, unchanged but for its host; and what no client shows."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.algolia.conftest import CONFIGURATION, ITEMS, Shop
from tests.service import Service

pytest.importorskip("algoliasearch", reason="the package algoliasearch is not installed")


def client_of(port: int, key: str = "key") -> Any:
    from algoliasearch.http.hosts import Host, HostsCollection
    from algoliasearch.search.client import SearchClientSync
    from algoliasearch.search.config import SearchConfig

    config = SearchConfig("app", key)
    config.hosts = HostsCollection([Host(f"127.0.0.1:{port}", scheme="http")])
    return SearchClientSync.create_with_config(config)


def post(port: int, path: str, body: Any, **headers: str) -> tuple[int, Any]:
    """Send what is JSON as the text that browsers may send unasked."""
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}{path}", json.dumps(body).encode(), headers
    )
    try:
        with urllib.request.urlopen(request, timeout=30) as reply:
            return reply.status, json.loads(reply.read())
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


def test_search_and_objects(shop: Shop) -> None:
    client = client_of(shop.port)
    found = client.search_single_index("shop", {"query": "lamp 7", "facets": ["brand"]})
    values = client.search_for_facet_values("shop", "brand", {"facetQuery": "a"})
    client.save_objects("python", [{"objectID": "a", "name": "x"}], wait_for_tasks=True)
    one = client.get_object("python", "a")
    client.delete_object("python", "a")
    rest = client.search_single_index("python", {})

    assert [hit.object_id for hit in found.hits] == ["7"]
    assert found.facets == {"brand": {"B": 1}}
    assert [hit.value for hit in values.facet_hits] == ["A"]
    assert one["name"] == "x"
    assert rest.nb_hits == 0


def test_folded_queries_answer_as_separate_ones(shop: Shop) -> None:
    path = "/1/indexes/*/queries"
    main = {
        "indexName": "shop",
        "query": "lamp",
        "facets": ["brand", "size"],
        "facetFilters": [["brand:B", "brand:C"], ["size:S"]],
    }
    brand = {**main, "facets": "brand", "facetFilters": [["size:S"]], "hitsPerPage": 0}
    size = {**main, "facets": "size", "facetFilters": main["facetFilters"][:1], "hitsPerPage": 0}
    _, together = post(shop.port, path, {"requests": [main, brand, size]})
    alone = [
        post(shop.port, path, {"requests": [one]})[1]["results"][0] for one in (main, brand, size)
    ]

    for one, other in zip(together["results"], alone, strict=True):
        wanted = list(json.loads(json.dumps(other["facets"])))
        assert {name: one["facets"][name] for name in wanted} == other["facets"]
    assert together["results"][0]["hits"] == alone[0]["hits"]
    assert together["results"][0]["facets"]["brand"] == {"B": 10, "C": 10}


def test_mistakes_are_placed_and_have_both_forms(shop: Shop) -> None:
    good = {"indexName": "shop"}
    status, answer = post(
        shop.port, "/1/indexes/*/queries", {"requests": [good, {**good, "hitsPerPage": -1}]}
    )

    assert status == answer["status"] == 400
    assert answer["message"] == answer["error"]["message"]
    assert answer["error"]["param"] == "requests[1].hitsPerPage"
    assert post(shop.port, "/1/indexes/none/query", {})[0] == 404


def test_highlights_keep_the_shape_of_the_item(shop: Shop) -> None:
    asked = {"query": "lamp 7", "attributesToRetrieve": ["name"], "attributesToSnippet": ["*:1"]}
    _, answer = post(shop.port, "/1/indexes/shop/query", asked)
    (hit,) = answer["hits"]

    assert set(hit) == {"name", "objectID", "_highlightResult", "_snippetResult"}
    levels = hit["_highlightResult"]["hierarchy"]
    assert levels["lvl0"]["matchLevel"] == "none"
    assert levels["lvl1"]["value"] == "<em>Lamp</em> <em>7</em>"
    assert hit["_highlightResult"]["size"] == [
        {"value": "S", "matchLevel": "none", "matchedWords": []}
    ]
    assert "lvl1" in hit["_snippetResult"]["hierarchy"]


def test_offset_and_length(shop: Shop) -> None:
    asked = {"offset": 7, "length": 3}
    _, answer = post(shop.port, "/1/indexes/shop:price:asc/query", asked)

    assert [hit["price"] for hit in answer["hits"]] == [7, 8, 9]
    assert (answer["offset"], answer["length"], "page" in answer) == (7, 3, False)


def test_batch_is_all_or_nothing_and_in_order(shop: Shop) -> None:
    bad = [
        {"action": "addObject", "body": {"objectID": "x", "a": 1}},
        {"action": "addObject", "body": {"objectID": "y", "id": "z"}},
    ]
    status, answer = post(shop.port, "/1/indexes/batch/batch", {"requests": bad})
    assert (status, answer["error"]["code"]) == (400, "id_mismatch")
    good = [
        {"action": "addObject", "body": {"objectID": "x", "a": 1}},
        {"action": "partialUpdateObject", "body": {"objectID": "x", "b": 2}},
        {"action": "partialUpdateObject", "body": {"objectID": "y", "c": 3}},
        {"action": "addObject", "body": {"a": 9}},
        {"action": "deleteObject", "body": {"objectID": "x2"}},
    ]
    status, answer = post(shop.port, "/1/indexes/batch/batch", {"requests": good})
    _, found = post(shop.port, "/1/indexes/batch/query", {})
    by_id = {hit["objectID"]: hit for hit in found["hits"]}

    assert status == 200
    assert answer["objectIDs"][:3] == ["x", "x", "y"]
    assert found["nbHits"] == 3
    assert (by_id["x"]["a"], by_id["x"]["b"], by_id["y"]["c"]) == (1, 2, 3)
    step = {"objectID": "x", "a": {"_operation": "Increment", "value": 1}}
    status, answer = post(
        shop.port,
        "/1/indexes/batch/batch",
        {"requests": [{"action": "partialUpdateObject", "body": step}]},
    )
    assert (status, answer["error"]["code"]) == (400, "unsupported_parameter")


def test_places_of_objects_are_searched(shop: Shop) -> None:
    client = client_of(shop.port)
    client.set_settings("places", {"searchableAttributes": ["name"]})
    places = {"vienna": (48.2, 16.4), "graz": (47.1, 15.4), "apia": (-13.8, -171.8)}
    client.save_objects(
        "places",
        [
            {"objectID": name, "_geoloc": {"lat": lat, "lng": lng}}
            for name, (lat, lng) in places.items()
        ],
    )

    def found(**parameters: Any) -> list[str]:
        hits = client.search_single_index("places", parameters).hits
        return [hit.object_id for hit in hits]

    assert found(aroundLatLng="47, 15", aroundRadius=200_000) == ["graz", "vienna"]
    assert found(insideBoundingBox=[[-20, 170, -10, -170]]) == ["apia"]
    assert found(insidePolygon=[[48, 16, 49, 16, 49, 17, 48, 17]]) == ["vienna"]


def test_keys_open_what_they_are_for(tmp_path: Path) -> None:
    with Service(tmp_path / "data", 1) as service:
        client = service.client()
        assert client.post("/shop/configuration", CONFIGURATION).status == 200
        assert client.post("/shop/items", ITEMS).status == 200
        admin = client.post("/_keys", {"actions": ["admin", "search", "write", "configure"]})
        client.close()
        key = admin.json["key"]
        ours = client_of(service.port, key)
        made = ours.add_api_key(
            {"acl": ["search"], "indexes": ["shop"], "queryParameters": "filters=brand:A"}
        )
        theirs = client_of(service.port, made.key)
        shown = ours.get_api_key(made.key)

        assert theirs.search_single_index("shop", {}).nb_hits == 10
        path = "/1/indexes/shop/query"
        in_query = f"{path}?x-algolia-application-id=app&x-algolia-api-key={made.key}"
        assert post(service.port, in_query, {})[1]["nbHits"] == 10
        assert post(service.port, path, {})[0] == 401
        assert post(service.port, path, {}, **{"X-Algolia-API-Key": "fk_wrong"})[0] == 401
        other = {"X-Algolia-API-Key": made.key}
        assert post(service.port, "/1/indexes/other/query", {}, **other)[0] == 403
        assert post(service.port, "/1/indexes/shop/batch", {"requests": []}, **other)[0] == 403
        assert shown.indexes == ["shop"]
        ours.delete_api_key(made.key)
        assert post(service.port, path, {}, **other)[0] == 401
