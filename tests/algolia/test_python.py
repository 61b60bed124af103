"""The Python package algoliasearch, unchanged but for its host; and what no client shows."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
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


def test_hits_without_an_id_can_be_told_apart(shop: Shop) -> None:
    items = [{"name": "x"}, {"name": "y"}]
    header = {"Content-Type": "application/json"}
    assert post(shop.port, "/anonymous/configuration", {}, **header)[0] == 200
    assert post(shop.port, "/anonymous/items", items, **header)[0] == 200
    found = client_of(shop.port).search_single_index("anonymous", {"query": ""})
    assert len({hit.object_id for hit in found.hits} - {""}) == 2
    again = client_of(shop.port).search_single_index("anonymous", {"query": "x"})
    assert again.hits[0].object_id == next(h.object_id for h in found.hits if h.name == "x")


def test_folded_queries_answer_as_separate_ones(shop: Shop) -> None:
    path = "/1/indexes/*/queries"
    main = {
        "indexName": "shop",
        "query": "lamp",
        "facets": ["brand", "size"],
        "facetFilters": [["brand:B", "brand:C"], ["size:S"]],
    }
    counts = {"hitsPerPage": 0, "analytics": False}
    brand = {**main, "facets": "brand", "facetFilters": [["size:S"]], **counts}
    size = {**main, "facets": "size", "facetFilters": main["facetFilters"][:1], **counts}
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


def test_operations_of_partial_updates(shop: Shop) -> None:
    client = client_of(shop.port)

    def change(name: str, operation: str, value: Any, object_id: str = "x", **options: Any) -> Any:
        body = {name: {"_operation": operation, "value": value}}
        client.partial_update_object("counted", object_id, body, **options)
        return client.get_object("counted", object_id).get(name)

    client.save_objects("counted", [{"objectID": "x", "n": 5, "tags": ["a", 1, "a"], "t": "text"}])

    assert change("n", "Increment", 2) == 7
    assert change("n", "Decrement", 0.5) == 6.5
    assert change("new", "Decrement", 3) == -3
    assert change("tags", "Add", "a") == ["a", 1, "a", "a"]
    assert change("tags", "AddUnique", "b") == ["a", 1, "a", "a", "b"]
    assert change("tags", "AddUnique", 1) == ["a", 1, "a", "a", "b"]
    assert change("tags", "Remove", "a") == [1, "b"]
    assert change("more", "AddUnique", "c") == ["c"]
    assert change("none", "Remove", "c") is None
    assert change("version", "IncrementFrom", 0) == 1
    assert change("version", "IncrementFrom", 5) == 1, "it is not 5"
    assert change("version", "IncrementSet", 9) == 9
    assert change("version", "IncrementSet", 9) == 9, "it is not greater"
    assert change("n", "Increment", 4, "made") == 4
    for operation, value in (("IncrementFrom", 1), ("IncrementSet", 0)):
        with pytest.raises(Exception, match="does not exist"):
            change("n", operation, value, "not-made")
    with pytest.raises(Exception, match="does not exist"):
        change("n", "Increment", 1, "not-made", create_if_not_exists=False)
    found = client.search_single_index("counted", {"filters": "version = 9 AND more:c"})
    assert [hit.object_id for hit in found.hits] == ["x"], "what was changed is searched"


def test_operations_of_a_batch_follow_each_other(shop: Shop) -> None:
    client = client_of(shop.port)
    step = {"objectID": "b", "n": {"_operation": "Increment", "value": 1}}
    skipped = {**step, "v": {"_operation": "IncrementFrom", "value": 7}, "name": "not set"}

    client.partial_update_objects("steps", [step, step, skipped, {**step, "name": "set"}], True)

    stored = client.get_object("steps", "b")
    assert (stored["n"], stored["name"]) == (3, "set")
    wrong = {"objectID": "b", "name": {"_operation": "Increment", "value": 1}}
    requests = [{"action": "partialUpdateObject", "body": one} for one in (step, wrong)]
    status, answer = post(shop.port, "/1/indexes/steps/batch", {"requests": requests})
    assert status == answer["status"] == 400
    assert answer["message"].startswith("requests[1]: the stored object cannot take the change")
    assert answer["message"].endswith("1 of 2 changes were applied")
    assert client.get_object("steps", "b")["n"] == 4


@pytest.mark.parametrize(
    ("action", "change", "said"),
    [
        ("partialUpdateObject", {"_operation": "Multiply", "value": 2}, "must be one of Increment"),
        ("partialUpdateObject", {"_operation": "Increment"}, '"_operation" and "value"'),
        ("partialUpdateObject", {"_operation": "Increment", "value": "2"}, "must be a number"),
        ("partialUpdateObject", {"_operation": "Increment", "value": True}, "must be a number"),
        ("partialUpdateObject", {"_operation": "IncrementSet", "value": 1.5}, "be an integer"),
        ("partialUpdateObject", {"_operation": "Add", "value": ["a"]}, "a number or a text"),
        ("addObject", {"_operation": "Increment", "value": 2}, "is for partial updates"),
    ],
)
def test_operations_that_cannot_be_applied(
    shop: Shop, action: str, change: dict[str, Any], said: str
) -> None:
    requests = [{"action": action, "body": {"objectID": "x", "n": change}}]
    status, answer = post(shop.port, "/1/indexes/wrong/batch", {"requests": requests})
    assert status == answer["status"] == 400
    assert said in answer["message"]
    assert "'n'" in answer["message"]


def test_deletions_by_filter_remove_what_a_search_finds(shop: Shop) -> None:
    """Of an array one number must be within both bounds, and a text is no number."""
    client = client_of(shop.port)
    sizes = {"both": [1, 9], "none": [], "text": ["4"], "found": [1, 4, 9], "equal": 4}
    client.save_objects("sizes", [{"objectID": name, "s": one} for name, one in sizes.items()])
    filters = {"numericFilters": ["s:3 TO 5"]}

    found = client.search_single_index("sizes", filters).hits
    equal = client.search_single_index("sizes", {"filters": "s = 4"}).hits
    client.delete_by("sizes", filters)
    rest = client.search_single_index("sizes", {}).hits

    assert [hit.object_id for hit in found] == [hit.object_id for hit in equal]
    assert sorted(hit.object_id for hit in found) == ["equal", "found"]
    assert sorted(hit.object_id for hit in rest) == ["both", "none", "text"]


def test_objects_are_filtered_by_their_id(shop: Shop) -> None:
    client = client_of(shop.port)
    client.save_objects("ids", [{"objectID": name} for name in ("7", "a:b", "007")])
    client.save_objects("ids", [{"objectID": "8", "id": 8}])

    def found(**parameters: Any) -> list[str]:
        hits = client.search_single_index("ids", parameters).hits
        return [hit.object_id for hit in hits]

    assert found(filters='objectID:7 OR objectID:"a:b" OR objectID:8') == ["7", "a:b", "8"]
    assert found(filters="NOT objectID:7") == ["a:b", "007", "8"]
    assert found(facetFilters=[["objectID:007", "objectID:8"]]) == ["007", "8"]
    client.delete_by("ids", {"facetFilters": ["objectID:-7"]})
    assert found() == ["7"]


def test_concurrent_increments_all_count(shop: Shop) -> None:
    body = {"n": {"_operation": "Increment", "value": 1}}

    def run(_: int) -> None:
        client = client_of(shop.port)
        for _ in range(25):
            client.partial_update_object("race", "counter", body)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(run, range(8)))

    assert client_of(shop.port).get_object("race", "counter")["n"] == 200


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
    for retrieved, has_points in (
        (["*"], True),
        (["_geoloc"], True),
        (["name"], False),
        ([], False),
        (["*", "-_geoloc"], False),
        (["-_geoloc"], False),
    ):
        asked = {"attributesToRetrieve": retrieved}
        _, answer = post(shop.port, "/1/indexes/places/query", asked)
        assert ["_geoloc" in hit for hit in answer["hits"]] == [has_points] * 3


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
