"""Routes that read and write items."""

from __future__ import annotations

from typing import Any

import pytest

from tests.http.conftest import Web
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


async def test_etag_of_an_item_changes_with_it(web: Web) -> None:
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
        ("PATCH", "/films/items", 'If-Match: "0123456789abcdef"'),
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


async def test_items_are_changed_by_ids_and_by_filter(web: Web) -> None:
    await web.post("/films/items", [{"id": i} for i in range(40, 45)])
    by_ids = await web.post("/films/items/delete", {"ids": [40, "41", "nope"]})
    web.search.items = [b'{"id":42}']
    by_filter = await web.post("/films/items/delete", {"filter": "year > 1"})
    web.search.items = [b'{"name":"no id"}']
    change = {"filter": "year > 1", "fields": {"seen": True}}
    without_id = await web.post("/films/items/update", change)
    web.search.items = [b'{"id":43}']
    updated = await web.post("/films/items/update", {"ids": [43, 99], "fields": {"seen": True}})

    assert by_ids.json["deleted"] == 2
    assert (by_filter.json["deleted"], by_filter.json["rejected"]) == (1, 0)
    assert (without_id.json["updated"], without_id.json["rejected"]) == (0, 1)
    assert without_id.json["errors"][0]["id"] is None
    assert updated.json["updated"] == 1
    assert [(one["id"], one["code"]) for one in updated.json["errors"]] == [(99, "item_not_found")]
    assert (await web.get("/films/items/44")).status == 200


@pytest.mark.parametrize("body", [{}, {"filter": None}, {"ids": None, "query": None}])
async def test_null_never_means_all_items(web: Web, body: dict[str, Any]) -> None:
    for path in ("/films/items/delete", "/films/items/update"):
        fields = {"fields": {"name": "gone"}} if path.endswith("update") else {}
        reply = await web.post(path, {**body, **fields})
        assert (reply.status, reply.code) == (400, "invalid_body")

    assert (await web.get("/films/items/1")).json == {"id": 1, "name": "one"}


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


async def test_patch_changes_some_fields_of_many_items(web: Web) -> None:
    await web.post("/films/items", [{"id": i, "name": "a", "price": i} for i in range(60, 64)])
    body = b"""[{"id":60,"price":7.50},{"id":"61","new":[1]},{"id":99,"price":1},
        {"id":60,"name":"b"},{"price":null,"id":62}]"""

    reply = await web.send(request("PATCH", "/films/items", body))
    one = await web.send(request("PATCH", "/films/items", b'{"id":63,"name":"c"}'))
    nothing = await web.send(request("PATCH", "/films/items", b"[]"))

    assert (reply.status, reply.json["updated"], reply.json["rejected"]) == (200, 4, 1)
    assert [(one["id"], one["code"]) for one in reply.json["errors"]] == [(99, "item_not_found")]
    assert (one.json["updated"], nothing.json["updated"]) == (1, 0)


@pytest.mark.parametrize(
    ("body", "code", "num_rejected"),
    [
        (b'[{"id":1,"name":"x"},{"name":"y"},{"title":"z"}]', "invalid_id", 2),
        (b'[{"id":1,"name":"x"},{"id":-1}]', "invalid_id", 1),
        (b'[{"id":1,"name":"x"},7]', "invalid_item", 1),
        (b'[{"id":1,"name":"x"}', "invalid_json", 1),
        (b'{"id":1,"name":"x"}\n{"id":2}', "invalid_json", None),
        (b'{"items":[{"id":1,"name":"x"}]}', "invalid_body", None),
        (b"7", "invalid_body", None),
    ],
)
async def test_one_wrong_item_changes_none_of_many(
    web: Web, body: bytes, code: str, num_rejected: int | None
) -> None:
    reply = await web.send(request("PATCH", "/films/items", body))

    assert (reply.status, reply.code) == (400, code), reply.body
    assert reply.json["error"].get("rejected") == num_rejected
    assert "/index" not in reply.json["error"]["message"]  # that would replace the items
    assert (await web.get("/films/items/1")).json == {"id": 1, "name": "one"}


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


async def test_a_byte_order_mark_is_left_out_of_every_body(web: Web) -> None:
    """As Windows PowerShell and Excel write JSON."""
    mark = b"\xef\xbb\xbf"
    assert (await web.post("/films/items", mark + b'[{"id":91}]')).json["created"] == 1
    assert (await web.get("/films/items/91")).body == b'{"id":91}'
    for method, path, body in (
        ("POST", "/films/items", b'{"id":92}'),
        ("PUT", "/films/items/91", b'{"a":1}'),
        ("PATCH", "/films/items", b'[{"id":91,"b":2}]'),
        ("POST", "/films/items/91/update", b'{"c":3}'),
        ("POST", "/films/search", b'{"per_page":0}'),
        ("POST", "/_search", b'{"searches":[{"index":"films"}]}'),
        ("POST", "/marked/configuration", b'{"typo":1}'),
    ):
        reply = await web.send(request(method, path, mark + body))
        assert reply.status == 200, (path, reply.body)
    assert (await web.get("/marked/configuration")).json["typo"] == 1


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


@pytest.mark.parametrize(
    ("method", "path", "body", "advice"),
    [
        (
            "GET",
            "/films/items?page=2",
            b"",
            "all items are streamed; GET /{index}/search has pages",
        ),
        ("GET", "/films/items?ids=1,2", b"", "filter selects items: id IN [1, 2]"),
        ("POST", "/films/items/delete", b'{"id": 5}', "ids lists them: [7, 8]"),
        ("POST", "/films/items/update", b'{"ids": [5], "set": {}}', "fields has the values to set"),
    ],
)
async def test_parameters_that_people_try_are_answered_with_ours(
    web: Web, method: str, path: str, body: bytes, advice: str
) -> None:
    error = (await web.send(request(method, path, body))).json["error"]
    assert error["code"] == "unknown_parameter"
    assert f"; here, {advice}; known are " in error["message"]
