"""Other pages, and errors that are not about one parameter.

One row of the interface after another, against real processes with 1 and 3 shards.
"""

from __future__ import annotations

import http.client
import json

import pytest

from tests.cluster.conftest import Index, error_of
from tests.service import Client

JSON = {"content-type": "application/json"}


def test_pages_for_people_are_served(films: Index) -> None:
    client = films.client
    root = client.request("GET", "/")

    assert root.status in (301, 302, 303, 307, 308)
    assert root.headers["location"] == "dashboard"
    for page in ("/dashboard", f"/dashboard/{films.name}"):
        reply = client.get(page)
        assert reply.status == 200
        assert reply.headers["content-type"].startswith("text/html")
    assert client.get("/status").json["status"] == "ok"
    assert films.get("status").json["status"] == "ok"


@pytest.mark.parametrize(
    ("method", "page"),
    [
        ("GET", "search"),
        ("POST", "search"),
        ("GET", "facet?name=x"),
        ("POST", "items"),
        ("POST", "index"),
        ("GET", "items/1"),
        ("POST", "items/1/update"),
        ("POST", "items/1/partial"),
        ("DELETE", "items/1"),
        ("GET", "configuration"),
        ("GET", "status"),
        ("DELETE", ""),
        ("POST", "reset"),
    ],
)
def test_every_operation_needs_a_configuration_first(index: Index, method: str, page: str) -> None:
    content_type = "text/plain" if page == "index" else "application/json"
    body = b"[]" if method == "POST" else None
    path = f"{index.path}/{page}".rstrip("/")
    reply = index.client.request(method, path, body, {"content-type": content_type})

    error = error_of(reply)
    assert (error["status"], error["code"]) == (404, "index_not_found")
    assert "configuration" in error["message"]


def test_an_index_is_described_in_short(films: Index) -> None:
    shown = films.client.get(films.path).json
    assert shown["name"] == films.name
    assert shown["items"] == films.search()["pagination"]["total"]
    assert shown["state"] == "ready"
    names = [facet["name"] for facet in shown["facets"]]
    assert names == sorted(films.get("configuration").json["aggregations"])
    assert set(names) <= set(shown["fields"])
    assert films.client.get("/nothing-there").status == 404


def test_patch_of_an_item_keeps_what_it_does_not_name(index: Index) -> None:
    index.configure({})
    put = index.client.request("PUT", f"{index.path}/items/7", b'{"name":"a","year":1}', JSON)
    assert put.json["created"] == 1
    patched = index.client.request("PATCH", f"{index.path}/items/7", b'{"name":"c"}', JSON)
    assert patched.json["updated"] == 1
    stored = index.get("items/7")
    assert stored.json == {"id": 7, "name": "c", "year": 1}
    match = {**JSON, "if-match": stored.headers["etag"]}
    for status in (200, 409):
        reply = index.client.request("PUT", f"{index.path}/items/7", b'{"name":"d"}', match)
        assert reply.status == status
    missing = index.client.request("PUT", f"{index.path}/items/8", b'{"name":"d"}', match)
    assert missing.status == 404


def test_method_that_a_route_lacks_is_answered_with_those_it_has(films: Index) -> None:
    reply = films.client.request("PUT", f"{films.path}/search", b"{}")

    assert error_of(reply)["code"] == "method_not_allowed"
    assert "GET" in reply.headers["allow"]


def test_unknown_route_is_not_found(shared_films: Index) -> None:
    assert error_of(shared_films.get("nothing/here"))["code"] == "not_found"


def test_broken_json_is_refused(films: Index) -> None:
    path = f"{films.path}/search"
    reply = films.client.request("POST", path, b"{", {"content-type": "application/json"})

    assert (reply.status, error_of(reply)["code"]) == (400, "invalid_json")


def test_several_mistakes_are_named_at_once(shared_films: Index) -> None:
    error = error_of(shared_films.post("search", {"page": 0, "per_page": -1, "nope": 1}))

    assert {one["param"] for one in error["errors"]} == {"page", "per_page", "nope"}


def test_refusal_by_the_http_library_is_an_error_in_json(client: Client) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", client.port, timeout=10)
    connection.putrequest("GET", "/status", skip_host=False)
    connection.putheader("x-long", "x" * 20_000)
    connection.endheaders()
    answer = connection.getresponse()
    body = json.loads(answer.read())
    connection.close()

    assert answer.status in (400, 431)
    assert body["error"]["status"] == answer.status
