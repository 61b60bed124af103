"""Indexes of a snapshot become indexes again while the service runs: whole, or not at all."""

from __future__ import annotations

import http.client
import os
import shutil
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from common.errors import NotFound
from coordinator.catalog.catalog_file import read_state
from coordinator.snapshots.restore_plan import plan_restore
from tests.service import Client, Reply, Service
from tests.waiting import wait_until

CONFIGURATION: dict[str, Any] = {
    "aggregations": {"colour": {}, "tags": {"conjunction": False}},
    "searchable_fields": ["name^2", "text"],
}
ITEMS = [
    {
        "id": i,
        "name": f"sea {i}",
        "text": "tide " * (i % 4),
        "colour": "red" if i % 3 else "blue",
        "tags": [f"t{i % 5}"],
    }
    for i in range(400)
]


def answers(client: Client, name: str) -> Any:
    """Return everything that an index answers, but what differs each time."""
    path = "/" + quote(name, safe="")
    found = client.search(
        name, query="sea tide", match="any", filters={"tags": ["t1", "t2"]}, show=["score"]
    )
    return (
        client.get(f"{path}/items").body,
        client.get(f"{path}/configuration").json,
        found["data"],
        found["pagination"],
    )


def make(client: Client, name: str) -> None:
    """Make an index."""
    path = "/" + quote(name, safe="")
    assert client.post(f"{path}/configuration", CONFIGURATION).status == 200
    assert client.post(f"{path}/items", ITEMS).status == 200


def fill(client: Client, name: str) -> Any:
    """Make an index with some history, and return what it answers."""
    make(client, name)
    path = "/" + quote(name, safe="")
    for i in range(0, 18, 3):
        assert client.post(f"{path}/items/{i}/partial", {"colour": "green"}).status == 200
        assert client.delete(f"{path}/items/{i + 1}").status == 200
    return answers(client, name)


def restore(client: Client, snapshot: str = "monday", **document: Any) -> Reply:
    return client.post(f"/_snapshots/{snapshot}/restore", document)


def folders(service: Service) -> list[set[str]]:
    """Return the names of the folders of indexes, by shard."""
    return [
        {path.name for path in (service.data / f"shard-{shard}").glob("index-*")}
        for shard in range(service.num_shards)
    ]


def code(reply: Reply) -> tuple[int, str]:
    return reply.status, reply.json["error"]["code"]


@contextmanager
def serving(
    data: Path, num_shards: int = 2, **environment: str
) -> Iterator[tuple[Service, Client]]:
    with (
        Service(data, num_shards, environment=environment) as service,
        closing(service.client()) as client,
    ):
        yield service, client


def test_indexes_are_restored_beside_what_is_there(tmp_path: Path) -> None:
    with serving(tmp_path / "data") as (service, client):
        films = fill(client, "films")
        books = fill(client, "büch/er".replace("/", " "))
        assert client.post("/_aliases", {"aliases": {"cinema": "films"}}).status == 200
        assert client.post("/_snapshots", {"name": "monday"}).status == 200
        assert client.post("/films/items", [{"id": "new", "name": "sea"}]).status == 200
        newer = answers(client, "films")

        reply = restore(client, indexes=["films"], rename={"films": "films of monday"})

        assert (reply.status, reply.json["indexes"]) == (
            200,
            [{"name": "films of monday", "from": "films"}],
        )
        assert answers(client, "films of monday") == films
        assert answers(client, "films") == newer
        wait_until_sources_are_gone(service)
        seqs = [client.search(name)["meta"]["seq"] for name in ("films", "films of monday")]
        written = client.post("/films%20of%20monday/items", [{"id": 3, "name": "sea change"}])
        assert written.json["updated"] == 1
        assert written.json["seq"] > max(seqs)
        assert client.get("/films%20of%20monday/items/3").json["name"] == "sea change"
        later = answers(client, "films of monday")

        assert code(restore(client)) == (409, "index_exists")
        assert code(restore(client, indexes=["films"], rename={"films": "cinema"})) == (
            409,
            "index_exists",
        )
        for name in ("films", "büch er"):
            assert client.delete("/" + quote(name)).status == 200
        assert restore(client).status == 200
        assert (answers(client, "films"), answers(client, "büch er")) == (films, books)
        before = folders(service)
        assert service.terminate() == 0
        client.close()
        service.start()
        assert (answers(client, "films"), answers(client, "büch er")) == (films, books)
        assert answers(client, "films of monday") == later
        assert folders(service) == before
        assert client.delete("/_snapshots/monday").status == 200


def test_what_cannot_be_restored_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    with serving(tmp_path / "one", 1) as (service, client):
        fill(client, "films")
        assert client.post("/_snapshots", {"name": "single"}).status == 200
    with serving(tmp_path / "data") as (service, client):
        fill(client, "films")
        fill(client, "books")
        assert client.post("/_snapshots", {"name": "monday"}).status == 200
        shutil.copytree(
            tmp_path / "one" / "snapshots" / "single", service.data / "snapshots" / "single"
        )
        before = folders(service)
        renamed = {"films": "x", "books": "y"}
        for status, error, snapshot, document in (
            (404, "snapshot_not_found", "tuesday", {}),
            (400, "invalid_snapshot", "..", {}),
            (409, "shards_differ", "single", {"rename": {"films": "x"}}),
            (404, "index_not_found", "monday", {"indexes": ["songs"]}),
            (404, "index_not_found", "monday", {"rename": {"songs": "x"}}),
            (409, "index_exists", "monday", {"rename": {"films": "x"}}),
            (400, "invalid_body", "monday", {"rename": {"films": "x", "books": "x"}}),
            (400, "invalid_body", "monday", {"indexes": ["films"], "rename": renamed}),
            (400, "invalid_body", "monday", {"indexes": []}),
            (400, "invalid_body", "monday", {"indexes": ["films", "films"]}),
            (400, "invalid_body", "monday", {"indexes": "films"}),
            (400, "invalid_body", "monday", {"rename": []}),
            (400, "invalid_body", "monday", {"rename": {"films": 1}}),
            (400, "invalid_index_name", "monday", {"rename": {"films": "_x", "books": "y"}}),
            (400, "unknown_parameter", "monday", {"index": "films"}),
        ):
            assert code(restore(client, snapshot, **document)) == (status, error), document
        for pattern, seen in (("film*", "films"), ("song*", "no index that you may use")):
            with pytest.raises(NotFound) as caught:
                plan_restore(
                    service.data / "snapshots" / "monday",
                    {},
                    ["songs"],
                    2,
                    partial(fnmatchcase, pat=pattern),
                )
            assert caught.value.message.endswith(f"has no index 'songs'; it has {seen}")
        assert "facetd reshard --shards 2" in restore(client, "single").json["error"]["message"]

        damaged = sorted((service.data / "snapshots/monday/shard-1").glob("*/data.mdb"))[-1]
        content = bytearray(damaged.read_bytes())
        content[len(content) // 2] ^= 1
        damaged.write_bytes(content)
        assert code(restore(client, rename=renamed)) == (500, "snapshot_damaged")
        damaged.unlink()
        assert code(restore(client, rename=renamed)) == (500, "snapshot_damaged")
        (service.data / "snapshots/monday/catalog.json").write_text("{}")
        assert code(restore(client, rename=renamed)) == (500, "snapshot_damaged")
        assert [client.get(f"/{name}/status").status for name in "xy"] == [404, 404]
        assert folders(service) == before
        assert client.get("/_ready").status == 200


def test_snapshot_of_another_service_may_be_ahead(tmp_path: Path) -> None:
    """Its numbers of write groups are higher than any that this service has given out."""
    with serving(tmp_path / "other") as (service, client):
        expected = fill(client, "films")
        for _ in range(30):
            assert client.post("/films/items", [ITEMS[5]]).status == 200
        assert client.post("/_snapshots", {"name": "other"}).status == 200
    with serving(tmp_path / "data") as (service, client):
        snapshots = service.data / "snapshots"
        snapshots.mkdir()
        shutil.copytree(tmp_path / "other" / "snapshots" / "other", snapshots / "other")
        assert restore(client, "other").status == 200
        assert answers(client, "films") == expected
        seq = client.search("films")["meta"]["seq"]
        client.close()
        service.restart()
        assert answers(client, "films") == expected
        written = client.post("/films/items", [{"id": "after", "name": "sea"}]).json
        assert (written["created"], written["seq"] > seq) == (1, True)
        assert client.get("/films/items/after").status == 200


@pytest.mark.parametrize(
    ("faults", "is_there"),
    [
        ("restore.copy=kill", False),
        pytest.param("restore.open=kill", False, marks=pytest.mark.long),
        ("restore.prepared=kill", False),
        ("restore.named=kill", True),
    ],
)
def test_kill_in_the_middle_leaves_the_index_whole_or_nothing(
    tmp_path: Path, faults: str, is_there: bool
) -> None:
    with serving(tmp_path / "data", FACETD_FAULTS=faults) as (service, client):
        expected = fill(client, "films")
        assert client.post("/_snapshots", {"name": "monday"}).status == 200
        before = folders(service)
        try:
            reply = restore(client, rename={"films": "again"})
            assert code(reply) == (503, "shard_unavailable")
        except (OSError, http.client.HTTPException):
            pass  # it was the coordinator
        client.close()
        service.wait_ready()
        check(service, client, expected, before, is_there=is_there)
        client.close()
        service.environment = {}
        service.restart()
        check(service, client, expected, before, is_there=is_there)
        if not is_there:
            assert restore(client, rename={"films": "again"}).status == 200
            assert answers(client, "again") == expected
        wait_until_sources_are_gone(service)


def check(
    service: Service, client: Client, expected: Any, before: list[set[str]], *, is_there: bool
) -> None:
    """The restored index is there on all shards, or there is nothing of it on any."""
    assert client.get("/again/status").status == (200 if is_there else 404)
    if is_there:
        assert answers(client, "again") == expected
        assert [len(names) for names in folders(service)] == [2, 2]
    else:
        assert folders(service) == before
    assert answers(client, "films") == expected


def test_shard_that_is_killed_before_the_catalog_names_the_index_makes_it_again(
    tmp_path: Path,
) -> None:
    """It throws away what nothing names, and must not begin with an empty index later."""
    faults = "restore.prepared=delay:1500"
    with serving(tmp_path / "data", FACETD_FAULTS=faults) as (service, client):
        expected = fill(client, "films")
        assert client.post("/_snapshots", {"name": "monday"}).status == 200
        replies: list[Reply] = []

        def ask() -> None:
            with closing(service.client()) as other:
                replies.append(restore(other, rename={"films": "again"}))

        asking = threading.Thread(target=ask)
        asking.start()
        made = [service.data / f"shard-{shard}" / "shard.json" for shard in range(2)]
        wait_until(lambda: all("[1,2]" in path.read_text() for path in made))
        wait_until(lambda: is_silent(service))  # both have answered, and the coordinator sleeps
        os.kill(service.pids_of("shard")[0], signal.SIGKILL)
        asking.join()
        service.wait_ready()

        assert [reply.status for reply in replies] == [200]
        assert answers(client, "again") == expected
        wait_until_sources_are_gone(service)


def is_silent(service: Service) -> bool:
    """Return whether the coordinator answers nothing, as in a fault that delays it."""
    with closing(service.client(timeout=0.2)) as client:
        try:
            client.get("/_health")
        except TimeoutError:
            return True
    return False


def wait_until_sources_are_gone(service: Service) -> None:
    """When all shards have the index, nothing names the snapshot any more."""

    def names_none() -> bool:
        state = read_state(service.data / "catalog.json")
        return all(index.source is None for index in state.indexes)

    wait_until(names_none)


@pytest.mark.parametrize("num_exchanges", [4, pytest.param(11, marks=pytest.mark.long)])
@pytest.mark.parametrize("is_by_alias", [False, True])
def test_name_denotes_an_index_at_every_moment_while_indexes_are_exchanged(
    tmp_path: Path, is_by_alias: bool, num_exchanges: int
) -> None:
    """A request that began on the index that is deleted runs on the one that has the name now."""
    with serving(tmp_path / "data") as (service, client):
        make(client, "films-0")
        if is_by_alias:
            assert client.post("/_aliases", {"aliases": {"films": "films-0"}}).status == 200
        else:
            assert client.post("/films-0/rename", {"to": "films"}).status == 200
        stop = threading.Event()
        failed: list[Reply] = []
        num_asked = 0

        def ask(number: int) -> None:
            nonlocal num_asked
            requests: list[Callable[[Client], Reply]] = [
                lambda one: one.post("/films/search", {"query": f"sea {num_asked % 400}"}),
                lambda one: one.post("/_search", {"searches": [{"index": "films"}]}),
                lambda one: one.get("/films/items", filter="colour = blue"),
                lambda one: one.post("/films/items/update", {"ids": [1], "fields": {"seen": 1}}),
            ]
            with closing(service.client()) as other:
                while not stop.is_set():
                    num_asked += 1
                    reply = requests[(number + num_asked) % len(requests)](other)
                    if reply.status != 200:
                        failed.append(reply)

        asking = [threading.Thread(target=ask, args=(number,)) for number in range(4)]
        for thread in asking:
            thread.start()
        try:
            for number in range(1, num_exchanges + 1):
                name = f"films-{number}"
                make(client, name)
                if is_by_alias:
                    assert client.post("/_aliases", {"aliases": {"films": name}}).status == 200
                    assert client.delete(f"/films-{number - 1}").status == 200
                else:
                    over = {"to": "films", "replace": True}
                    assert client.post(f"/{name}/rename", over).status == 200
        finally:
            stop.set()
            for thread in asking:
                thread.join()

        assert num_asked > num_exchanges
        assert not failed, (len(failed), num_asked, failed[0])


def test_index_is_renamed_while_it_is_read_and_written(tmp_path: Path) -> None:
    with serving(tmp_path / "data") as (service, client):
        found = fill(client, "films")
        client.post("/other/configuration", {})
        client.post("/_aliases", {"aliases": {"cinema": "films"}})
        for target, expected in (
            ({"to": "other"}, (409, "index_exists")),
            ({"to": "cinema"}, (409, "index_exists")),
            ({"to": "films"}, (409, "index_exists")),
            ({"to": "a/b"}, (400, "invalid_index_name")),
            ({}, (400, "invalid_body")),
            ({"to": "x", "alias": 1}, (400, "invalid_body")),
            ({"to": "x", "from": "y"}, (400, "unknown_parameter")),
        ):
            assert code(client.post("/films/rename", target)) == expected
        assert code(client.post("/cinema/rename", {"to": "x"})) == (400, "invalid_index_name")
        assert code(client.post("/none/rename", {"to": "x"})) == (404, "index_not_found")
        first = client.search("films", cursor="*", per_page=7)
        stop = threading.Event()
        failed: list[Reply] = []

        def read() -> None:
            with closing(service.client()) as reader:
                while not stop.is_set():
                    for name in ("cinema", "films"):
                        reply = reader.post(f"/{name}/search", {"query": "sea"})
                        if reply.status != 200 and not (name == "films" and reply.status == 404):
                            failed.append(reply)

        reader = threading.Thread(target=read)
        reader.start()
        try:
            reply = client.post("/films/rename", {"to": "films of monday"})
            assert (reply.status, reply.json["index"]) == (200, "films of monday")
        finally:
            stop.set()
            reader.join()
        assert not failed
        assert answers(client, "films of monday") == answers(client, "cinema") == found
        assert code(client.get("/films/search")) == (404, "index_not_found")
        second = client.search("films of monday", cursor=first["pagination"]["cursor"], per_page=7)
        assert second["meta"]["seq"] == first["meta"]["seq"]
        assert client.post("/films%20of%20monday/rename", {"to": "f", "alias": True}).status == 200
        assert answers(client, "films of monday") == found  # now an alias
        assert client.post("/films%20of%20monday/items", {"id": 1, "name": "sea"}).status == 200
        assert client.post("/films/configuration", {}).status == 200  # the name is free
        found = answers(client, "f")
        client.close()
        service.restart()
        assert answers(client, "f") == answers(client, "films of monday") == found
        aliases = client.get("/_aliases").json["aliases"]
        assert aliases == {"cinema": "f", "films of monday": "f"}


def test_index_is_copied_while_it_is_written(tmp_path: Path) -> None:
    with serving(tmp_path / "data") as (service, client):
        found = fill(client, "films")
        fill(client, "other")
        assert code(client.post("/films/copy", {"to": "other"})) == (409, "index_exists")
        assert code(client.post("/none/copy", {"to": "x"})) == (404, "index_not_found")
        reply = client.post("/films/copy", {"to": "films-test"})
        assert (reply.status, reply.json) == (
            200,
            {"status": "copied", "index": "films-test", "from": "films"},
        )
        assert answers(client, "films-test") == found
        assert client.post("/films-test/items", [{"id": "new", "name": "sea"}]).status == 200
        changed = answers(client, "films-test")
        assert changed != found
        assert answers(client, "films") == found
        wait_until_sources_are_gone(service)
        assert client.get("/_snapshots").json["snapshots"] == []
        assert client.get("/films-test/configuration").json == (
            client.get("/films/configuration").json
        )
        client.close()
        service.restart()
        assert answers(client, "films-test") == changed
        assert client.post("/films/copy", {"to": "again"}).status == 200
        folder = service.data / "snapshots"
        assert [path.name for path in folder.iterdir()] == []


@pytest.mark.parametrize(
    ("faults", "is_there"),
    [
        ("restore.copy=kill", False),
        ("restore.prepared=kill", False),
        ("restore.named=kill", True),
    ],
)
def test_kill_while_an_index_is_copied_over_another_leaves_either(
    tmp_path: Path, faults: str, is_there: bool
) -> None:
    """And no third index, nor a snapshot that no list shows."""
    with serving(tmp_path / "data", FACETD_FAULTS=faults) as (service, client):
        expected = fill(client, "films")
        assert client.post("/other/configuration", CONFIGURATION).status == 200
        assert client.post("/other/items", [{"id": "only", "name": "sea"}]).status == 200
        assert client.post("/_aliases", {"aliases": {"shown": "other"}}).status == 200
        former = answers(client, "other")
        copying = {"operation": "copy", "destination": "other"}
        try:
            reply = client.post("/1/indexes/films/operation", copying)
            assert reply.status == 503
        except (OSError, http.client.HTTPException):
            pass  # it was the coordinator
        client.close()
        service.wait_ready()
        for _ in range(2):
            names = [one["name"] for one in client.get("/_indexes").json["indexes"]]
            assert names == ["films", "other"]
            assert answers(client, "shown") == (expected if is_there else former)
            assert [len(found) for found in folders(service)] == [2, 2]
            client.close()
            service.environment = {}
            service.restart()
        wait_until_sources_are_gone(service)
        client.close()
        service.restart()
        assert list((service.data / "snapshots").iterdir()) == []
        assert client.post("/1/indexes/films/operation", copying).status == 200
        assert answers(client, "shown") == expected
        assert answers(client, "films") == expected
