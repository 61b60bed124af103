"""Items: read, written, updated, deleted, loaded in bulk.

One row of the interface after another, against real processes with 1 and 3 shards.
"""

from __future__ import annotations

import gzip
import zlib
from typing import Any
from urllib.parse import quote

import brotli
import pytest

from tests.cluster.conftest import FILMS, Index, error_of


def test_item_is_read_by_its_id(films: Index) -> None:
    assert films.get("items/3").json == FILMS[2]
    error = error_of(films.get("items/99"))
    assert (error["status"], error["code"]) == (404, "item_not_found")


def test_integer_and_text_ids_are_one(index: Index) -> None:
    index.configure({})
    index.put([{"id": 5, "v": 1}])
    index.put([{"id": "5", "v": 2}])

    assert index.get("items/5").json == {"id": "5", "v": 2}
    assert index.search()["pagination"]["total"] == 1


def test_items_without_an_id_are_counted_in_a_warning(index: Index) -> None:
    index.configure({})
    one = index.put([{"a": 1}, {"id": 1}]).json["warnings"]
    assert one == [
        "1 item has no id: it is stored again when sent again, and only filters reach it"
    ]
    two = index.client.post_text(f"{index.path}/index", b'{"a":1}\n{"id":2}\n{"a":2}\n').json
    assert two["warnings"] == [
        "2 items have no id: they are stored again when sent again, and only filters reach them"
    ]
    assert "warnings" not in index.put([{"id": 3}]).json


@pytest.mark.parametrize("item_id", ["ü/ö", "a b", "%", "..", "名", "x" * 256, "007", "?&#"])
def test_id_is_any_text(index: Index, item_id: str) -> None:
    index.configure({})
    path = "items/" + quote(item_id, safe="")

    assert index.put([{"id": item_id}]).status == 200
    assert index.get(path).json == {"id": item_id}
    assert index.post(f"{path}/partial", {"a": 1}).status == 200
    assert index.get(path).json == {"id": item_id, "a": 1}
    assert index.client.delete(f"{index.path}/{path}").json["id"] == item_id
    assert index.get(path).status == 404


def test_update_replaces_the_whole_item(films: Index) -> None:
    reply = films.post("items/4/update", {"name": "New"})

    assert reply.status == 200
    assert reply.json["status"] == "updated"
    assert films.get("items/4").json["name"] == "New"
    assert "tags" not in films.get("items/4").json
    assert films.ids(query="new") == [4]
    assert films.ids(query="fight") == []
    assert ("drama", 2) in films.buckets("tags")
    assert films.ids() == [1, 2, 3, 4, 5, 6]


def test_update_may_repeat_the_id_but_not_change_it(films: Index) -> None:
    assert films.post("items/4/update", {"id": 4, "name": "a"}).status == 200
    assert films.post("items/4/update", {"id": "4", "name": "a"}).status == 200
    error = error_of(films.post("items/4/update", {"id": 5, "name": "a"}))
    assert (error["status"], error["code"]) == (400, "id_mismatch")
    assert error_of(films.post("items/99/update", {"name": "a"}))["code"] == "item_not_found"


def test_partial_update_merges_shallowly(films: Index) -> None:
    reply = films.post("items/1/partial", {"tags": ["new"], "year": None, "extra": {"x": 1}})

    assert reply.status == 200
    assert reply.json["status"] == "updated"
    assert films.get("items/1").json == FILMS[0] | {
        "tags": ["new"],
        "year": None,
        "extra": {"x": 1},
    }
    assert ("new", 1) in films.buckets("tags")
    assert ("1999", 1) in films.buckets("year")
    assert error_of(films.post("items/99/partial", {"a": 1}))["code"] == "item_not_found"
    assert error_of(films.post("items/1/partial", {"id": 2}))["code"] == "id_mismatch"


def test_deleted_item_leaves_hits_and_counts(films: Index) -> None:
    reply = films.client.delete(f"{films.path}/items/2")

    assert reply.status == 200
    assert (reply.json["status"], reply.json["id"]) == ("deleted", 2)
    assert films.get("items/2").status == 404
    assert films.ids() == [1, 3, 4, 5, 6]
    assert ("crime", 1) in films.buckets("tags")
    assert error_of(films.client.delete(f"{films.path}/items/2"))["code"] == "item_not_found"


def test_write_counts_what_it_created_and_updated(index: Index) -> None:
    index.configure({})
    first = index.put([{"id": 1}, {"id": 2}, {"a": 1}]).json
    second = index.put([{"id": 1}, {"id": 3}]).json

    assert first["status"] == "indexed"
    assert (first["created"], first["updated"], first["rejected"]) == (3, 0, 0)
    assert first["errors"] == []
    assert (second["created"], second["updated"]) == (1, 1)
    assert second["seq"] > first["seq"]


def test_write_is_seen_when_it_is_acknowledged(index: Index) -> None:
    index.configure({"aggregations": {"v": {"size": 100}}})
    for i in range(30):
        index.put([{"id": i, "v": str(i), "t": f"word{i}"}])
        assert index.get(f"items/{i}").status == 200
        assert index.ids(query=f'"word{i}"') == [i]
        assert len(index.buckets("v")) == i + 1


@pytest.mark.parametrize(
    ("bad", "code"),
    [
        ({"id": -1}, "invalid_id"),
        ({"id": 1.5}, "invalid_id"),
        ({"id": ""}, "invalid_id"),
        ({"id": None}, "invalid_id"),
        ({"id": [1]}, "invalid_id"),
        ({"id": 2**63}, "invalid_id"),
        (5, "invalid_item"),
        ([], "invalid_item"),
        (None, "invalid_item"),
        ({"a": 2**64}, "invalid_number"),
        ({f"f{i}": i for i in range(513)}, "too_many_fields"),
    ],
)
def test_one_bad_item_refuses_the_batch(index: Index, bad: Any, code: str) -> None:
    index.configure({})
    reply = index.put([{"id": "a"}, bad, {"id": "b"}, bad])

    error = error_of(reply)
    assert error["status"] == 400
    named = error["items"] if "items" in error else error["errors"]
    assert [(one["index"], one["code"]) for one in named] == [(1, code), (3, code)]
    assert index.search()["pagination"]["total"] == 0


@pytest.mark.parametrize("body", [b"[{]", b"[{}", b"", b"{", b"[1,]", b"5", b"\xff"])
def test_body_that_is_neither_an_item_nor_an_array_of_items_is_refused(
    index: Index, body: bytes
) -> None:
    index.configure({})
    path = f"{index.path}/items"
    reply = index.client.request("POST", path, body, {"content-type": "application/json"})

    assert error_of(reply)["status"] == 400


def test_last_item_of_an_id_wins_within_a_batch(index: Index) -> None:
    index.configure({"aggregations": {"v": {}}})
    reply = index.put([{"id": 1, "v": "a"}, {"id": 2, "v": "b"}, {"id": 1, "v": "c"}])

    assert reply.json["created"] + reply.json["updated"] in (2, 3)
    assert reply.json["created"] == 2
    assert index.search()["data"]["items"] == [{"id": 1, "v": "c"}, {"id": 2, "v": "b"}]
    assert index.buckets("v") == [("b", 1), ("c", 1)]


def test_each_load_adds_items_without_id_again(index: Index) -> None:
    index.configure({"aggregations": {"v": {}}})
    for _ in range(3):
        index.put([{"v": "x"}, {"v": "y"}])

    assert index.buckets("v") == [("x", 3), ("y", 3)]
    assert index.search()["data"]["items"] == [{"v": "x"}, {"v": "y"}] * 3


LINES = b'{"id":1,"t":"one"}\n\n{"id":2,"t":"two"}\r\n{"id":"3","t":"three"}'
ARRAY = b' [ {"id":1,"t":"one"},\n{"id":2,"t":"two"} , {"id":"3","t":"three"} ] '


@pytest.mark.parametrize("body", [LINES, ARRAY, LINES + b"\n", b"\n" + LINES])
@pytest.mark.parametrize("encoding", ["", "gzip", "deflate", "br"])
def test_bulk_load_takes_lines_arrays_and_compressed_bodies(
    index: Index, body: bytes, encoding: str
) -> None:
    packers = {"gzip": gzip.compress, "deflate": zlib.compress, "br": brotli.compress}
    headers = {"content-encoding": encoding} if encoding else {}
    index.configure({})
    index.put([{"id": 0}])

    packed = packers[encoding](body) if encoding else body
    reply = index.load(packed, **headers)

    assert reply.status == 200, reply.body
    assert (reply.json["status"], reply.json["created"]) == ("indexed", 3)
    assert index.ids() == [0, 1, 2, "3"]


@pytest.mark.parametrize(
    "body",
    [
        b'{"id":1}\n{"id":2',
        b'[{"id":1},{"id":2}',
        b'[{"id":1},{"id":2},]',
        b'{"id":1}\n{"id":-2}\n',
        b'{"id":1}\nnot json\n',
        b'[{"id":1}] x',
    ],
)
def test_bulk_load_that_is_broken_changes_nothing(index: Index, body: bytes) -> None:
    index.configure({})

    assert error_of(index.load(body))["status"] == 400
    assert index.search()["pagination"]["total"] == 0


def test_bulk_load_skips_bad_lines_where_asked(index: Index) -> None:
    index.configure({})
    body = b'{"id":1}\n{"id":2\n{"id":-3}\n5\n{"id":"four"}\n'

    reply = index.load(body, "?on_error=skip")

    assert reply.status == 200
    assert (reply.json["created"], reply.json["rejected"]) == (2, 3)
    assert [(error["line"], error["code"]) for error in reply.json["errors"]] == [
        (2, "invalid_json"),
        (3, "invalid_id"),
        (4, "invalid_item"),
    ]
    assert index.ids() == [1, "four"]


@pytest.mark.parametrize(
    "action",
    [
        b'{"index":{}}',
        b'{"index":{"_index":"films","_id":"1"}}',
        b'{ "create" : { "_id" : 1 , "routing": null } }',
        b'{"delete":{"_id":"1"}}',
    ],
)
def test_actions_of_a_bulk_body_do_not_become_items(index: Index, action: bytes) -> None:
    index.configure({})

    error = error_of(index.load(action + b'\n{"name":"a"}\n'))

    assert (error["status"], error["code"]) == (400, "invalid_body")
    assert "facetd import elasticsearch" in error["message"]
    assert index.search()["pagination"]["total"] == 0


@pytest.mark.parametrize(
    "item", [b'{"index":7}', b'{"index":{"a":{"b":1}}}', b'{"id":1,"index":{}}']
)
def test_items_may_have_a_field_named_like_an_action(index: Index, item: bytes) -> None:
    index.configure({})

    assert index.load(item).json["created"] == 1


def test_large_bulk_load_is_found_and_counted(index: Index) -> None:
    index.configure({"aggregations": {"v": {"size": 10}}})
    body = b"".join(
        b'{"id":%d,"v":"%d","t":"word%d"}\n' % (i, i % 7, i % 100) for i in range(30_000)
    )

    reply = index.load(body)

    assert reply.json["created"] == 30_000
    answer = index.search(query="word42", prefix="none", typo=0, page=30, per_page=10)
    assert answer["pagination"]["total"] == 300
    assert [item["id"] for item in answer["data"]["items"]] == [29042 + 100 * i for i in range(10)]
    assert [count for _, count in index.buckets("v")] == [4286] * 5 + [4285] * 2


def test_content_type_decides_whether_a_body_is_read(index: Index) -> None:
    index.configure({})
    path = f"{index.path}/items"

    for content_type, status in [
        ("application/json", 200),
        ("application/json; charset=utf-8", 200),
        ("application/xml", 415),
        ("image/png", 415),
    ]:
        reply = index.client.request("POST", path, b'[{"id":1}]', {"content-type": content_type})
        assert reply.status == status, content_type
    for content_type, status in [("text/plain", 200), ("text/plain; charset=utf-8", 200),
                                 ("image/png", 415)]:  # fmt: skip
        reply = index.client.request(
            "POST", f"{index.path}/index", b'[{"id":1}]', {"content-type": content_type}
        )
        assert reply.status == status, content_type


def test_patch_sets_some_fields_of_many_items(index: Index) -> None:
    index.configure({})
    index.put([{"id": i, "name": "a", "price": i} for i in range(4)])
    body = b"""[{"id":0,"price":7.50},{"id":"1","new":[1]},{"id":9,"price":1},{"id":0,"name":"b"},
        {"price":null,"id":2}]"""

    json_type = {"content-type": "application/json"}
    reply = index.client.request("PATCH", f"{index.path}/items", body, json_type)

    assert (reply.json["updated"], reply.json["rejected"]) == (4, 1)
    assert [(one["id"], one["code"]) for one in reply.json["errors"]] == [(9, "item_not_found")]
    assert [index.client.get(f"{index.path}/items/{i}").body for i in range(4)] == [
        b'{"id":0,"name":"b","price":7.50}',
        b'{"id":1,"name":"a","price":1,"new":[1]}',
        b'{"id":2,"name":"a","price":null}',
        b'{"id": 3, "name": "a", "price": 3}',
    ]
    assert index.search(filter="price = 7.5")["pagination"]["total"] == 1
    assert index.client.get(f"{index.path}/items/9").status == 404
