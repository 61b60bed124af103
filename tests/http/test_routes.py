"""The pages of the interface, on model shards: what each answers."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import msgspec
import orjson
import pytest

from common.protocol.messages import OpeningStatistics, SnapshotSource
from coordinator.http.route import Body
from coordinator.http.routing import ServedRoute
from coordinator.routes import ROUTES
from tests.http.conftest import MakeWeb, Web
from tests.http.raw_requests import request


async def test_item_comes_back_byte_for_byte(web: Web) -> None:
    body = b'[ {"id": 7 , "name":"caf\\u00e9",\n "n": 1.50} ]'
    stored = await web.send(request("POST", "/films/items", body))

    reply = await web.get("/films/items/7")

    assert stored.json["created"] == 1
    assert reply.body == b'{"id": 7 , "name":"caf\\u00e9",\n "n": 1.50}'


async def test_write_answers_have_one_shape(web: Web) -> None:
    indexed = await web.post("/films/items", [{"id": 5}, {"id": "6"}, {"id": 1}])
    updated = await web.post("/films/items/5/update", {"a": 1})
    merged = await web.post("/films/items/5/partial", {"b": None})
    deleted = await web.send(request("DELETE", "/films/items/5"))

    assert indexed.json | {"seq": 0} == {
        "status": "indexed",
        "created": 2,
        "updated": 1,
        "deleted": 0,
        "rejected": 0,
        "errors": [],
        "seq": 0,
    }
    assert (updated.json["status"], updated.json["updated"]) == ("updated", 1)
    assert (merged.json["status"], merged.json["updated"]) == ("updated", 1)
    assert (deleted.json["status"], deleted.json["id"]) == ("deleted", 5)
    assert deleted.json["seq"] > merged.json["seq"] > updated.json["seq"] > indexed.json["seq"]


async def test_deleted_id_keeps_its_kind(web: Web) -> None:
    await web.post("/films/items", [{"id": "007"}, {"id": "é/x"}])

    assert (await web.send(request("DELETE", "/films/items/007"))).json["id"] == "007"
    assert (await web.send(request("DELETE", "/films/items/%C3%A9%2Fx"))).json["id"] == "é/x"


async def test_refused_batch_names_every_bad_item(web: Web) -> None:
    reply = await web.post("/films/items", [{"id": 20}, {"id": -1}, {"id": 21}, {"id": 1.5}])

    error = reply.json["error"]
    assert (reply.status, error["code"]) == (400, "invalid_id")
    assert [one["index"] for one in error["errors"]] == [1, 3]
    assert (await web.get("/films/items/20")).status == 404


async def test_bulk_reports_lines_and_skips_them_when_asked(web: Web) -> None:
    body = b'{"id":30}\n{"id":-1}\n\nnope\n{"id":31}\n'
    refused = await web.send(request("POST", "/films/index", body, content_type="text/plain"))
    skipped = await web.send(
        request("POST", "/films/index?on_error=skip", body, content_type="text/plain")
    )

    assert [one["line"] for one in refused.json["error"]["errors"]] == [2, 4]
    assert (skipped.json["created"], skipped.json["rejected"]) == (2, 2)
    assert [one["line"] for one in skipped.json["errors"]] == [2, 4]


async def test_item_named_like_a_page_is_an_item(web: Web) -> None:
    await web.post("/films/items", [{"id": "delete"}, {"id": "update"}, {"id": "search"}])

    for name in ("delete", "update", "search"):
        assert (await web.get(f"/films/items/{name}")).json == {"id": name}
        assert (await web.post(f"/films/items/{name}/update", {"a": 1})).status == 200
        assert (await web.send(request("DELETE", f"/films/items/{name}"))).status == 200


async def test_etag_of_an_item(web: Web) -> None:
    first = await web.get("/films/items/1")
    tag = first.headers["etag"]

    known = await web.send(request("GET", "/films/items/1", None, f"If-None-Match: {tag}"))
    await web.post("/films/items/1/update", {"name": "other"})
    changed = await web.send(request("GET", "/films/items/1", None, f"If-None-Match: {tag}"))

    assert (known.status, known.body) == (304, b"")
    assert changed.status == 200
    assert changed.headers["etag"] != tag


async def test_if_match_reaches_the_shard(web: Web) -> None:
    tag = (await web.get("/films/items/1")).headers["etag"]

    await web.post("/films/items/1/update", {"a": 1}, f"If-Match: {tag}")

    versions = [
        version
        for shard in web.shards
        for one in shard.applied
        for version in one.versions.values()
    ]
    assert [version.hex() for version in versions] == [tag.strip('"')]


@pytest.mark.parametrize(
    ("method", "path", "condition"),
    [
        ("PUT", "/films/items/1", "If-None-Match: *"),
        ("PUT", "/films/items/1", "If-Unmodified-Since: Sat, 01 Jan 2000 00:00:00 GMT"),
        ("PATCH", "/films/items/1", 'If-None-Match: "0123456789abcdef"'),
        ("POST", "/films/items/1/update", "If-None-Match: *"),
        ("DELETE", "/films/items/1", "If-None-Match: *"),
        ("POST", "/films/items", "If-None-Match: *"),
        ("POST", "/films/items", 'If-Match: "0123456789abcdef"'),
        ("POST", "/films/index", "If-None-Match: *"),
        ("POST", "/films/items/delete", 'If-Match: "0123456789abcdef"'),
        ("POST", "/films/items/update", 'If-Match: "0123456789abcdef"'),
    ],
)
async def test_a_condition_is_kept_or_refused(
    web: Web, method: str, path: str, condition: str
) -> None:
    before = (await web.get("/films/items/1")).body
    is_by_ids = path.endswith(("/delete", "items/update"))
    body = None if method == "DELETE" else b'{"ids":[1]}' if is_by_ids else b'{"id":1}'
    answer = await web.send(request(method, path, body, condition))

    assert (answer.status, answer.json["error"]["code"]) == (400, "unsupported_condition")
    assert (await web.get("/films/items/1")).body == before


async def test_items_by_ids_and_by_filter(web: Web) -> None:
    await web.post("/films/items", [{"id": i} for i in range(40, 45)])
    by_ids = await web.post("/films/items/delete", {"ids": [40, "41", "nope"]})
    web.search.items = [b'{"id":42}', b'{"name":"no id"}']
    by_filter = await web.post("/films/items/delete", {"filter": "year > 1"})
    web.search.items = [b'{"id":43}']
    updated = await web.post("/films/items/update", {"ids": [43, 99], "fields": {"seen": True}})

    assert by_ids.json["deleted"] == 2
    assert (by_filter.json["deleted"], by_filter.json["rejected"]) == (1, 1)
    assert (by_filter.json["errors"][0]["id"], updated.json["updated"]) == (None, 1)
    assert [(one["id"], one["code"]) for one in updated.json["errors"]] == [(99, "item_not_found")]
    assert (await web.get("/films/items/44")).status == 200


@pytest.mark.parametrize("body", [{}, {"filter": None}, {"ids": None, "query": None}])
async def test_null_never_means_all_items(web: Web, body: dict[str, Any]) -> None:
    for path in ("/films/items/delete", "/films/items/update"):
        fields = {"fields": {"name": "gone"}} if path.endswith("update") else {}
        reply = await web.post(path, {**body, **fields})
        assert (reply.status, reply.code) == (400, "invalid_body")

    assert (await web.get("/films/items/1")).json == {"id": 1, "name": "one"}


async def test_configuration_comes_back_as_posted(web: Web) -> None:
    document = {"zzz": 1, "aggregations": {"b": {"size": 3}, "a": {}}, "searchable_fields": ["x^2"]}

    accepted = await web.post("/books/configuration", document)
    posted = await web.get("/books/configuration")
    full = await web.get("/books/configuration", effective="true")

    assert accepted.json == {
        "status": "configuration accepted",
        "warnings": ["zzz is unknown and has no effect"],
        "changes": [
            {"path": name, "before": None, "after": document[name]} for name in sorted(document)
        ],
    }
    assert list(posted.json) == list(document)
    assert posted.json == document
    assert full.json["aggregations"]["b"]["size"] == 3
    assert full.json["typo"] == "auto"


async def test_unknown_index_says_how_to_create_it(web: Web) -> None:
    for method, target in (
        ("GET", "/nope/search"),
        ("POST", "/nope/items"),
        ("POST", "/nope/index"),
        ("GET", "/nope/items/1"),
        ("DELETE", "/nope"),
        ("GET", "/nope/configuration"),
        ("GET", "/nope/status"),
        ("GET", "/nope/facet?name=x"),
    ):
        reply = await web.send(request(method, target, b"{nonsense" if method == "POST" else None))
        assert (reply.status, reply.code) == (404, "index_not_found"), target
        assert "configuration" in reply.json["error"]["message"]


@pytest.mark.parametrize(("method", "target"), [("DELETE", "/films"), ("POST", "/films/reset")])
async def test_index_is_removed(web: Web, method: str, target: str) -> None:
    assert (await web.send(request(method, target))).json["status"] == "deleted"
    assert (await web.get("/films/search")).code == "index_not_found"


@pytest.mark.parametrize("name", ["*", ".", "..", "_x", "status", "dashboard", "a/b", ""])
async def test_no_index_gets_a_name_that_no_path_can_have(web: Web, name: str) -> None:
    """`/*` stands for all indexes: one of that name could be neither searched nor deleted."""
    for target, document in (
        ("/films/rename", {"to": name}),
        ("/films/copy", {"to": name}),
        ("/_aliases", {"aliases": {name: "films"}}),
        ("/1/indexes/films/operation", {"operation": "copy", "destination": name}),
    ):
        answer = await web.post(target, document)
        assert (answer.status, answer.code) == (400, "invalid_index_name"), target
    assert list(web.services.catalog.indexes) == ["films"]


@pytest.mark.parametrize("target", ["/films/", "/films/?x=", "/1/indexes/films/"])
async def test_what_clients_make_of_an_item_of_dots_deletes_no_index(web: Web, target: str) -> None:
    """Clients send `DELETE /films/items/..` as `DELETE /films/`."""
    answer = await web.send(request("DELETE", target))

    assert (answer.status, answer.code) == (400, "invalid_index_name")
    assert "items/delete takes any ids" in answer.json["error"]["message"]
    assert "films" in web.services.catalog.indexes


async def test_aliases_change_all_at_once(web: Web) -> None:
    await web.post("/films-2/configuration", {})
    await web.post("/_aliases", {"aliases": {"movies": "films"}})
    assert (await web.get("/movies/items/1")).status == 200

    swapped = await web.post("/_aliases", {"aliases": {"movies": "films-2", "old": "films"}})
    failed = await web.post("/_aliases", {"aliases": {"movies": "films", "x": "nope"}})

    assert swapped.json["aliases"] == {"movies": "films-2", "old": "films"}
    assert failed.status == 404
    assert (await web.get("/_aliases")).json["aliases"] == swapped.json["aliases"]
    assert (await web.get("/movies/items/1")).status == 404
    assert (await web.send(request("DELETE", "/old"))).code == "invalid_index_name"


async def test_ready_only_when_all_shards_serve(web: Web) -> None:
    assert (await web.get("/_ready")).json == {"status": "ready", "shards": {"total": 2, "ok": 2}}

    gone = asyncio.Event()
    web.services.cluster.on_state(lambda _: gone.set())
    await web.shards[1].die()
    await gone.wait()
    reply = await web.get("/_ready")

    assert (reply.status, reply.code) == (503, "starting")
    assert reply.json["error"]["shards"] == {"total": 2, "failed": [1]}
    assert (await web.get("/_health")).status == 200


async def test_a_start_says_how_far_it_is(web: Web) -> None:
    cluster = web.services.cluster
    cluster.admission.has_started = cluster.admission.is_open = False
    cluster._ready.clear()
    cluster.starting.note(0, OpeningStatistics(4, 1, 1000, 900))
    cluster.starting.note(1, OpeningStatistics(4, 3, 1000, 100))
    for target in ("/_ready", "/films/items/1"):
        reply = await web.get(target)
        assert (reply.status, reply.code) == (503, "starting")
        error = reply.json["error"]
        assert reply.headers["retry-after"] == "1"
        assert error["progress"]["share"] == 0.5
        assert error["progress"]["items"] == {"done": 1000, "total": 2000}
        assert error["progress"]["indexes"] == {"done": 4, "total": 8}
        assert error["progress"]["seconds_left"] >= 0
        assert "1,000 of 2,000 items are indexed again" in error["message"]
    assert (await web.get("/dashboard")).status == 200, "the page is there, and will say so"


async def test_dashboard_is_served_from_memory_under_a_strict_policy(web: Web) -> None:
    for target in (
        "/dashboard",
        "/dashboard/films",
        "/dashboard/_health",
        "/dashboard/%F0%9F%8E%AC",
    ):
        page = await web.get(target)
        assert page.status == 200
        assert page.headers["content-type"] == "text/html; charset=utf-8"
        assert "default-src 'self'" in page.headers["content-security-policy"]
        assert "frame-ancestors 'none'" in page.headers["content-security-policy"]
    asset = await web.get("/dashboard/assets/app.js")
    again = await web.send(
        request("GET", "/dashboard/assets/app.js", None, f"If-None-Match: {asset.headers['etag']}")
    )
    assert asset.headers["content-type"].startswith("text/javascript")
    assert again.status == 304
    assert (await web.get("/dashboard/assets/nope.js")).status == 404
    root = await web.get("/")
    assert (root.status, root.headers["location"]) == (302, "dashboard")


async def test_metrics_count_requests_by_route_and_status(web: Web) -> None:
    for _ in range(3):
        await web.get("/films/search")
    await web.get("/films/search", page="x")

    text = (await web.get("/_metrics")).body.decode()

    route = 'route="GET /{index}/search"'
    assert f'facetd_http_requests_total{{{route},status="200"}} 3.0' in text
    assert f'facetd_http_requests_total{{{route},status="400"}} 1.0' in text
    assert f"facetd_http_request_seconds_count{{{route}}} 4.0" in text
    assert 'facetd_search_phase_seconds_bucket{le="0.0002",phase="search"} 3.0' in text
    assert "process_resident_memory_bytes" in text


async def test_stats_for_people(web: Web) -> None:
    await web.get("/films/search")

    stats: dict[str, Any] = (await web.get("/_stats")).json

    assert stats["requests"]["total"] >= 2
    assert stats["requests"]["per_second"] > 0
    assert stats["requests"]["p50_ms"] is not None
    assert stats["memory_bytes"] > 1_000_000
    assert [shard["id"] for shard in stats["shards"]] == [0, 1]


async def test_merged_searches_read_only_the_items_of_the_page(make_web: MakeWeb) -> None:
    """Each of 64 searches may have ten thousand hits up to the end of the page."""
    web = await make_web()
    merge = {"page": 4, "per_page": 2}

    reply = await web.post("/_search", {"searches": [{"index": "films"}] * 3, "merge": merge})

    assert [item["_index"] for item in reply.json["data"]["items"]] == ["films"] * 2
    assert web.search.ranks_read == [2, 2]


async def test_slow_searches_are_kept_and_logged(
    make_web: MakeWeb, caplog: pytest.LogCaptureFixture
) -> None:
    web = await make_web(slow_query_ms=1)
    answer = web.search.search

    async def slow_search(*arguments: Any) -> Any:
        result = await answer(*arguments)
        started = asyncio.get_running_loop().time()
        while asyncio.get_running_loop().time() - started < 0.002:
            pass
        return result

    web.search.search = slow_search  # type: ignore[method-assign, assignment]
    await web.get("/films/search", query="star\nwars")

    (slow,) = (await web.get("/_stats")).json["slow_queries"]
    assert slow["index"] == "films"
    assert slow["request"] == {"query": "star\nwars"}
    assert slow["took_ms"] >= 1
    assert "slow query" in caplog.text


@pytest.mark.parametrize("merge", [None, True])
async def test_slow_searches_of_several_at_once_are_kept_each(web: Web, merge: bool | None) -> None:
    web.services.slow_queries.threshold_us = 1
    searches = [{"index": "films", "query": "sea"}, {"index": "films"}]

    assert (await web.post("/_search", {"searches": searches, "merge": merge})).status == 200

    requests = [one["request"] for one in web.services.slow_queries.latest]
    assert requests == [{"query": "sea"}, {}]
    assert web.services.metrics.num_slow == 2


async def test_openapi_document_has_every_route(web: Web) -> None:
    document = (await web.get("/_openapi.json")).json

    assert document["openapi"].startswith("3.1")
    for route in ROUTES:
        if route.tag != "pages":
            assert route.method.lower() in document["paths"][route.path]
    for path, operations in document["paths"].items():
        for operation in operations.values():
            if path.startswith("/1/") and "requestBody" in operation:
                (content,) = operation["requestBody"]["content"].values()
                name = content["schema"]["$ref"].rpartition("/")[2]
                schema = document["components"]["schemas"][name]
                assert schema.get("properties") or schema["description"], path
    page = (await web.get("/_docs")).body.decode()
    assert page.count("<script") == page.count('src="dashboard/assets/docs.js"') == 1
    assert "style=" not in page
    assert "facet_fields" in page
    anchors = re.findall(r' id="([^"]+)"', page)
    assert len(set(anchors)) == len(anchors) > len(ROUTES)
    assert set(re.findall(r'href="#([^"]+)"', page)) == set(anchors)


async def test_snapshot_stays_while_an_index_is_restored_from_it(web: Web) -> None:
    """A shard that was killed in the middle makes the index of it again."""
    folder = web.services.settings.snapshot_folder / "monday"
    folder.mkdir(parents=True)
    catalog = web.services.catalog
    source = SnapshotSource(str(folder), 1, 5, ((1, "x"), (1, "y")))
    (films,) = catalog.state.indexes
    films = msgspec.structs.replace(films, source=source)
    catalog.state = catalog.state.with_index(films)

    refused = await web.send(request("DELETE", "/_snapshots/monday"))
    catalog.state = catalog.state.without_sources()
    removed = await web.send(request("DELETE", "/_snapshots/monday"))

    assert (refused.status, refused.code) == (409, "snapshot_in_use")
    assert removed.status == 200
    assert not folder.exists()


async def test_empty_body_makes_an_index_and_replaces_none(web: Web) -> None:
    before = (await web.get("/films/configuration")).json
    refused = await web.send(request("POST", "/films/configuration", b""))
    made = await web.send(request("POST", "/new/configuration", b""))
    assert (refused.status, refused.json["error"]["code"]) == (400, "invalid_body")
    assert "{}" in refused.json["error"]["message"]
    assert (await web.get("/films/configuration")).json == before
    assert made.status == 200
    again = await web.send(request("POST", "/new/configuration", b"{}"))
    assert again.status == 200


# --- habits of REST


async def test_put_adds_or_replaces_and_patch_changes_one_item(web: Web) -> None:
    added = await web.send(request("PUT", "/films/items/77", b'{"name":"a"}'))
    replaced = await web.send(request("PUT", "/films/items/77", b'{"name":"b"}'))
    changed = await web.send(request("PATCH", "/films/items/77", b'{"name":"c"}'))

    assert (added.json["status"], added.json["created"]) == ("indexed", 1)
    assert (replaced.json["created"], replaced.json["updated"]) == (0, 1)
    assert changed.json["status"] == "updated"
    item = await web.get("/films/items/77")
    assert item.json == {"id": 77, "name": "c"}

    other = request("PUT", "/films/items/78", b'{"id":79}')
    assert (await web.send(other)).json["error"]["code"] == "id_mismatch"


async def test_a_single_item_is_taken_for_a_list_of_one(web: Web) -> None:
    assert (await web.post("/films/items", {"id": 90, "name": "x"})).json["created"] == 1
    assert (await web.post("/films/items", b' {"name": "no id"}\n')).json["created"] == 1
    lines = await web.post("/films/items", b'{"id":91}\n{"id":92}')
    assert lines.status == 400
    assert "newline-delimited JSON goes to /{index}/index" in lines.json["error"]["message"]
    assert (await web.get("/films/items/91")).status == 404
    assert (await web.post("/films/items", {"id": -1})).json["error"]["code"] == "invalid_id"


@pytest.mark.parametrize("name", ["items", "documents", "data"])
async def test_a_list_inside_of_an_object_does_not_become_one_item(web: Web, name: str) -> None:
    refused = await web.post("/films/items", {name: [{"id": 91}, {"id": 92}]})
    assert (refused.status, refused.code) == (400, "invalid_body")
    assert f"nothing but the list {name}; send the list itself" in refused.json["error"]["message"]
    for item in ({"id": 93, name: [{"a": 1}]}, {name: [{"a": 1}], "b": 1}, {name: [{"a": 1}, 2]}):
        assert (await web.post("/films/items", item)).json["created"] == 1


async def test_a_byte_order_mark_before_items_is_left_out(web: Web) -> None:
    assert (await web.post("/films/items", b'\xef\xbb\xbf[{"id":91}]')).json["created"] == 1
    assert (await web.get("/films/items/91")).body == b'{"id":91}'


@pytest.mark.parametrize(
    ("target", "content_type", "advice"),
    [
        (
            "/films/search",
            "application/x-www-form-urlencoded",
            "-H 'Content-Type: application/json'",
        ),
        ("/films/index", "multipart/form-data; boundary=x", "curl --data-binary @FILE, not -F"),
        ("/films/index", "text/csv", "the command facetd load reads CSV"),
    ],
)
async def test_a_content_type_of_curl_is_answered_with_what_to_send(
    web: Web, target: str, content_type: str, advice: str
) -> None:
    refused = await web.send(request("POST", target, b"a=b", content_type=content_type))

    assert (refused.status, refused.code) == (415, "unsupported_media_type")
    assert advice in refused.json["error"]["message"]


# --- configuration by merging


async def _send(web: Web, method: str, document: Any, query: str = "") -> Any:
    body = orjson.dumps(document)
    reply = await web.send(request(method, f"/films/configuration{query}", body))
    assert reply.status == 200, reply.body
    return reply.json


async def test_patch_changes_what_it_names_and_null_removes(web: Web) -> None:
    await _send(web, "PUT", {"aggregations": {"tags": {"size": 5}, "year": {}}, "typo": 0})
    answer = await _send(
        web, "PATCH", {"aggregations": {"year": None, "tags": {"size": 7}}, "stop_words": ["the"]}
    )
    assert answer["warnings"] == ["aggregations.tags names 'tags', which no item has"]
    assert answer["changes"] == [
        {"path": "aggregations.tags.size", "before": 5, "after": 7},
        {"path": "aggregations.year", "before": {}, "after": None},
        {"path": "stop_words", "before": None, "after": ["the"]},
    ]
    expected = {"aggregations": {"tags": {"size": 7}}, "typo": 0, "stop_words": ["the"]}
    assert (await web.get("/films/configuration")).json == expected
    assert (await _send(web, "PATCH", {}))["changes"] == []
    assert (await web.get("/films/configuration")).json == expected


async def test_a_preview_changes_nothing(web: Web) -> None:
    before = (await web.get("/films/configuration")).json
    for method in ("POST", "PUT", "PATCH"):
        answer = await _send(web, method, {"match": "any"}, "?preview=true")
        assert answer["status"] == "preview"
        assert {"path": "match", "before": None, "after": "any"} in answer["changes"]
    wrong = request("PATCH", "/films/configuration?preview=true", b'{"match":"some"}')
    assert (await web.send(wrong)).json["error"]["code"] == "invalid_configuration"
    assert (await web.get("/films/configuration")).json == before
    new = request("PATCH", "/new/configuration?preview=true", b'{"match":"any"}')
    assert (await web.send(new)).status == 200
    assert (await web.get("/new")).status == 404, "a preview makes no index"


async def test_replacing_a_configuration_says_what_it_drops(web: Web) -> None:
    await _send(web, "PUT", {"aggregations": {"tags": {}}, "searchable_fields": ["name"]})
    answer = await _send(web, "POST", {"stop_words": ["the"]})
    assert [warning.split(" ")[0] for warning in answer["warnings"]] == [
        "aggregations",
        "searchable_fields",
    ]
    assert all("PATCH merges" in warning for warning in answer["warnings"])


async def test_patches_at_the_same_time_lose_nothing(web: Web) -> None:
    await _send(web, "PUT", {})
    names = [f"field{i}" for i in range(8)]
    await asyncio.gather(*(_send(web, "PATCH", {"aggregations": {name: {}}}) for name in names))
    assert sorted((await web.get("/films/configuration")).json["aggregations"]) == names


async def test_patch_makes_an_index_that_is_new(web: Web) -> None:
    reply = await web.send(request("PATCH", "/new/configuration", b'{"aggregations":{"a":{}}}'))
    assert reply.status == 200
    assert (await web.get("/new/configuration")).json == {"aggregations": {"a": {}}}


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "items"),
        ("POST", "items/delete"),
        ("POST", "items/update"),
        ("POST", "items/7/update"),
        ("PUT", "items/7"),
        ("PATCH", "items/7"),
        ("DELETE", "items/7"),
        ("POST", "index"),
    ],
)
async def test_writes_refuse_what_they_would_ignore(web: Web, method: str, path: str) -> None:
    body = None if method == "DELETE" else b'{"id":7}'

    refused = await web.send(request(method, f"/films/{path}?anything=1", body))

    assert (refused.status, refused.code) == (400, "unknown_parameter")
    assert refused.json["error"]["param"] == "anything"


@pytest.mark.parametrize(
    "route", [one for one in ROUTES if one.refuses_ignored], ids=lambda route: route.name
)
async def test_no_page_ignores_parameters_or_a_body(web: Web, route: ServedRoute) -> None:
    """`DELETE /films?query=x` would delete everything, a search whose body is ignored find it."""
    target = route.path.replace("{index}", "films").replace("{id}", "7")
    body = b'{"filters":{"year":1}}'

    if not route.parameters:
        sent = None if route.body is Body.NONE else b"{}"
        answer = await web.send(request(route.method, f"{target}?query=sea", sent))
        assert (answer.status, answer.code) == (400, "unknown_parameter"), answer
    if route.body is Body.NONE:
        answer = await web.send(request(route.method, target, body))
        assert (answer.status, answer.code) == (400, "invalid_body"), answer
        assert "takes no body" in answer.json["error"]["message"]
    assert "films" in web.services.catalog.indexes


@pytest.mark.parametrize("body", [b"", b" \n", b"{}"])
async def test_a_body_that_says_nothing_is_accepted_everywhere(web: Web, body: bytes) -> None:
    assert (await web.send(request("GET", "/films/search", body))).status == 200
    assert (await web.send(request("POST", "/films/reset", body))).status == 200


async def test_a_search_with_a_body_is_told_to_post_it(web: Web) -> None:
    searched = await web.send(request("GET", "/films/search", b'{"query":"sea"}'))
    exported = await web.send(request("GET", "/films/items", b'{"query":"sea"}'))

    assert searched.json["error"]["message"] == (
        "GET /{index}/search takes no body; send it with POST, or the parameters in the query "
        "string"
    )
    assert "POST" not in exported.json["error"]["message"]


async def test_algolias_deletion_may_have_a_query_string(web: Web) -> None:
    target = "/1/indexes/films/deleteByQuery?x-algolia-agent=any"

    reply = await web.post(target, {"filters": "year = 1"})

    assert (reply.status, list(reply.json)) == (200, ["taskID", "updatedAt"])


async def test_a_name_that_no_index_has_is_told(web: Web) -> None:
    for path in ("/_x/search", "/_x/items", "/_x/configuration"):
        reply = await web.get(path)

        assert (reply.status, reply.code) == (404, "not_found")
        assert "no index has a name that begins with _" in reply.json["error"]["message"]
    assert "index" not in (await web.get("/_x")).json["error"]["message"]


@pytest.mark.parametrize(
    ("target", "root"),
    [("/_nothing", ""), ("/dashboard/films/nothing?q=a/b", "../../"), ("/a/b/", "../../")],
)
async def test_a_browser_is_led_back_from_a_page_that_does_not_exist(
    web: Web, target: str, root: str
) -> None:
    reply = await web.send(request("GET", target, None, "Accept: text/html,*/*;q=0.8"))

    assert (reply.status, reply.headers["content-type"]) == (404, "text/html; charset=utf-8")
    assert f'href="{root}dashboard">dashboard</a>' in reply.body.decode()
    assert f'href="{root}_docs"' in reply.body.decode()


async def test_programs_get_the_error_as_json(web: Web) -> None:
    for accept in ("*/*", "application/json"):
        asked = request("GET", "/dashboard/films/nothing", None, f"Accept: {accept}")
        reply = await web.send(asked)

        assert (reply.status, reply.code) == (404, "not_found")


@pytest.mark.parametrize(
    ("target", "location"),
    [
        ("/dashboard/", "../dashboard"),
        ("/dashboard/films/?q=a", "../films?q=a"),
        ("/_docs/", "../_docs"),
    ],
)
async def test_addresses_that_end_with_a_slash_lead_to_the_page(
    web: Web, target: str, location: str
) -> None:
    """What a page refers to is relative to its address: below a slash it would not be found."""
    reply = await web.get(target)

    assert (reply.status, reply.headers["location"]) == (302, location)
    assert (await web.get(target.replace("/?", "?").removesuffix("/"))).status == 200
