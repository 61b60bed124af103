"""Routes of an index: configuration, aliases, deletion, snapshots."""

from __future__ import annotations

import asyncio
import errno
from pathlib import Path
from typing import Any

import msgspec
import orjson
import pytest

from common.protocol.messages import SnapshotSource
from tests.http.conftest import Web
from tests.http.raw_requests import request


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


@pytest.mark.parametrize(
    "name", ["*", ".", "..", "_x", "status", "dashboard", "favicon.ico", "a/b", ""]
)
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


async def test_a_renamed_index_may_replace_another(web: Web) -> None:
    await web.post("/films-new/configuration", {})
    await web.post("/films-new/items", [{"id": 7}])
    await web.post("/_aliases", {"aliases": {"movies": "films", "next": "films-new"}})
    new = {"to": "films"}
    refused = await web.post("/films-new/rename", new)
    assert (refused.status, refused.code) == (409, "index_exists")

    moved = await web.post("/films-new/rename", {**new, "replace": True})

    assert moved.json == {"status": "renamed", "index": "films", "from": "films-new"}
    assert list(web.services.catalog.indexes) == ["films"]
    assert (await web.get("/films/items/7")).status == 200
    assert (await web.get("/films/items/1")).status == 404
    assert web.services.catalog.aliases == {"movies": "films", "next": "films"}
    free = await web.post("/films/rename", {"to": "cinema", "replace": True})
    assert free.json["index"] == "cinema"


@pytest.mark.parametrize(
    ("document", "status", "code", "param"),
    [
        ({"to": "films", "replace": True}, 400, "invalid_index_name", "to"),
        ({"to": "books", "replace": 1}, 400, "invalid_body", "replace"),
        ({"to": "books", "replace": True, "alias": True}, 400, "invalid_body", "alias"),
        ({"to": "movies", "replace": True}, 409, "index_exists", None),
    ],
)
async def test_a_rename_that_cannot_replace_changes_nothing(
    web: Web, document: dict[str, Any], status: int, code: str, param: str | None
) -> None:
    await web.post("/books/configuration", {})
    await web.post("/_aliases", {"aliases": {"movies": "books"}})

    refused = await web.post("/films/rename", document)

    assert (refused.status, refused.code) == (status, code)
    assert refused.json["error"].get("param") == param
    assert sorted(web.services.catalog.indexes) == ["books", "films"]
    assert (await web.get("/films/items/1")).status == 200


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


@pytest.mark.parametrize(
    ("method", "page", "outcome"),
    [
        ("GET", "/_snapshots", "no snapshots can be listed"),
        ("POST", "/_snapshots/monday/restore", "nothing was restored"),
    ],
)
async def test_a_folder_of_snapshots_that_cannot_be_read_is_named_as_the_cause(
    web: Web, monkeypatch: pytest.MonkeyPatch, method: str, page: str, outcome: str
) -> None:
    """It may be on a disk of its own; the answer was that something went wrong."""

    def refuse(_: Path) -> bool:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "is_dir", refuse)
    failed = await web.send(request(method, page))
    assert (failed.status, failed.code) == (500, "internal")
    assert f"(Permission denied): {outcome}" in failed.json["error"]["message"]


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
