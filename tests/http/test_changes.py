"""Changes of many items: exact beside other writers, and bounded by bytes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from coordinator.read import stored_items
from coordinator.routes import update_and_delete_by_query
from coordinator.routes.matching_scan import PAGE_ITEMS
from tests.http.local_service import LocalService, local_service
from tests.service import Client

NUM_ITEMS = 1_200
"""More than two pages."""


def load(client: Client, items: Iterable[dict[str, Any]], name: str = "films") -> None:
    assert client.post(f"/{name}/configuration", {}).status == 200
    body = b"\n".join(json.dumps(item).encode() for item in items)
    reply = client.post_text(f"/{name}/index", body)
    assert reply.status == 200, reply.body


def exported(client: Client, name: str = "films", **parameters: Any) -> dict[Any, Any]:
    reply = client.get(f"/{name}/items", **parameters)
    assert reply.status == 200, reply.body
    return {item["id"]: item for item in map(json.loads, reply.body.splitlines())}


class Meddler:
    """Writes between the selection of items and their change."""

    def __init__(
        self,
        service: LocalService,
        monkeypatch: pytest.MonkeyPatch,
        meddle: Callable[[Client, int], None],
    ) -> None:
        selection = service.services.selection
        select = selection.page
        self.num_times = 0

        async def select_and_let_meddle(index: Any, parameters: Any, horizon: int) -> Any:
            selected = await select(index, parameters, horizon)
            self.num_times += 1
            await asyncio.to_thread(self._meddle, service, meddle, self.num_times)
            return selected

        monkeypatch.setattr(selection, "page", select_and_let_meddle)

    @staticmethod
    def _meddle(
        service: LocalService, meddle: Callable[[Client, int], None], num_times: int
    ) -> None:
        with closing(service.client()) as client:
            meddle(client, num_times)


async def run(function: Callable[[Client], Any], service: LocalService) -> Any:
    def call() -> Any:
        with closing(service.client()) as client:
            return function(client)

    return await asyncio.to_thread(call)


async def test_delete_by_filter_never_undoes_a_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def meddle(client: Client, num_times: int) -> None:
        if num_times > 1:
            return
        saved = [{"id": i, "flag": 1} for i in range(0, NUM_ITEMS, 3)]
        rewritten = [{"id": i, "flag": 0, "new": True} for i in range(1, NUM_ITEMS, 3)]
        assert client.post("/films/items", saved + rewritten).status == 200
        assert client.delete("/films/items/2").status == 200

    async with local_service(tmp_path / "data") as service:
        await run(lambda c: load(c, ({"id": i, "flag": 0} for i in range(NUM_ITEMS))), service)
        Meddler(service, monkeypatch, meddle)
        reply = await run(lambda c: c.post("/films/items/delete", {"filter": "flag = 0"}), service)
        left = await run(exported, service)

    assert reply.status == 200, reply.body
    assert left == {i: {"id": i, "flag": 1} for i in range(0, NUM_ITEMS, 3)}
    assert reply.json["deleted"] == NUM_ITEMS - len(left) - 1
    assert (reply.json["rejected"], reply.json["errors"]) == (0, [])


@pytest.mark.parametrize(
    ("page", "body"),
    [
        ("/films-new/rename", {"to": "films", "replace": True}),
        ("/films", None),
    ],
)
async def test_change_by_filter_ends_if_its_index_is_replaced_or_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, page: str, body: Any
) -> None:
    """It began again, with the index that had taken the name: all of that was deleted."""

    def meddle(client: Client, num_times: int) -> None:
        if num_times == 2:
            reply = client.delete(page) if body is None else client.post(page, body)
            assert reply.status == 200, reply.body

    async with local_service(tmp_path / "data") as service:
        await run(lambda c: load(c, ({"id": i} for i in range(NUM_ITEMS))), service)
        await run(lambda c: load(c, ({"id": i} for i in range(7)), "films-new"), service)
        Meddler(service, monkeypatch, meddle)
        reply = await run(lambda c: c.post("/films/items/delete", {"filter": ""}), service)
        kept = await run(lambda c: exported(c, "films-new" if body is None else "films"), service)

    assert (reply.status, reply.json["error"]["code"]) == (404, "index_not_found")
    assert reply.json["error"]["deleted"] == PAGE_ITEMS
    assert sorted(kept) == list(range(7))


@pytest.mark.parametrize("is_alias", [False, True])
async def test_change_by_filter_goes_on_if_its_index_gets_another_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_alias: bool
) -> None:
    """And not in the index to which its former name leads then."""

    def meddle(client: Client, num_times: int) -> None:
        if num_times == 2:
            if is_alias:
                assert client.post("/_aliases", {"aliases": {"cinema": "other"}}).status == 200
            else:
                assert client.post("/films/rename", {"to": "cinema"}).status == 200
                assert client.post("/other/rename", {"to": "films"}).status == 200

    async with local_service(tmp_path / "data") as service:
        await run(lambda c: load(c, ({"id": i} for i in range(NUM_ITEMS))), service)
        await run(lambda c: load(c, ({"id": i} for i in range(7)), "other"), service)
        if is_alias:
            aliases = {"aliases": {"cinema": "films"}}
            assert (await run(lambda c: c.post("/_aliases", aliases), service)).status == 200
        name = "cinema" if is_alias else "films"
        Meddler(service, monkeypatch, meddle)
        reply = await run(lambda c: c.post(f"/{name}/items/delete", {"filter": ""}), service)
        changed = await run(lambda c: exported(c, "films" if is_alias else "cinema"), service)
        other = await run(lambda c: exported(c, "other" if is_alias else "films"), service)

    assert (reply.status, reply.json["deleted"]) == (200, NUM_ITEMS), reply.body
    assert (changed, sorted(other)) == ({}, list(range(7)))


@pytest.mark.parametrize("new_name", ["films", "cinema"])
async def test_change_by_filter_goes_on_if_its_index_is_configured_while_its_items_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, new_name: str
) -> None:
    """The selection of changed items learnt of the configuration: of the others it was a 400."""

    def meddle(client: Client, num_times: int) -> None:
        if num_times == 1:
            items = [{"id": i, "flag": 0, "new": True} for i in range(NUM_ITEMS)]
            assert client.post("/films/items", items).status == 200
            facets: dict[str, Any] = {"aggregations": {"flag": {}}}
            assert client.post("/films/configuration", facets).status == 200
            if new_name != "films":
                assert client.post("/films/rename", {"to": new_name}).status == 200

    async with local_service(tmp_path / "data") as service:
        await run(lambda c: load(c, ({"id": i, "flag": 0} for i in range(NUM_ITEMS))), service)
        Meddler(service, monkeypatch, meddle)
        document = {"filter": "flag = 0", "fields": {"flag": 1}}
        reply = await run(lambda c: c.post("/films/items/update", document), service)
        items = await run(lambda c: exported(c, new_name), service)

    assert (reply.status, reply.json.get("updated")) == (200, NUM_ITEMS), reply.body
    assert items == {i: {"id": i, "flag": 1, "new": True} for i in range(NUM_ITEMS)}


async def test_update_by_filter_changes_what_still_matches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def meddle(client: Client, num_times: int) -> None:
        if num_times == 1:
            assert client.post("/films/items/5/partial", {"flag": 1}).status == 200
            assert client.post("/films/items/6/partial", {"title": "new"}).status == 200
            assert client.post("/films/items", [{"id": "later", "flag": 0}]).status == 200
        if num_times == 2 + NUM_ITEMS // 500:  # when changed ones are decided again
            assert client.post("/films/items/6/partial", {"title": "newer"}).status == 200

    async with local_service(tmp_path / "data") as service:
        await run(lambda c: load(c, ({"id": i, "flag": 0} for i in range(NUM_ITEMS))), service)
        Meddler(service, monkeypatch, meddle)
        document = {"filter": "flag = 0", "fields": {"seen": True}}
        reply = await run(lambda c: c.post("/films/items/update", document), service)
        items = await run(exported, service)

    assert reply.json["updated"] == NUM_ITEMS - 1
    assert items[5] == {"id": 5, "flag": 1}
    assert items[6] == {"id": 6, "flag": 0, "title": "newer", "seen": True}
    assert items["later"] == {"id": "later", "flag": 0}, "it was not there at the selection"
    assert sum(item.get("seen", False) for item in items.values()) == NUM_ITEMS - 1


async def test_item_that_never_comes_to_rest_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def meddle(client: Client, num_times: int) -> None:
        assert client.post("/films/items/5/partial", {"count": num_times}).status == 200

    async with local_service(tmp_path / "data") as service:
        await run(lambda c: load(c, ({"id": i, "flag": 0} for i in range(10))), service)
        meddler = Meddler(service, monkeypatch, meddle)
        reply = await run(lambda c: c.post("/films/items/delete", {"filter": "flag = 0"}), service)
        left = await run(lambda c: c.get("/films/items/5").json, service)

    assert reply.json["deleted"] == 9
    assert [(one["id"], one["code"]) for one in reply.json["errors"]] == [(5, "version_conflict")]
    assert meddler.num_times == left["count"] == 1 + update_and_delete_by_query.CONFLICT_ROUNDS_MAX


async def test_items_without_ids_are_deleted_by_filter_but_not_updated(tmp_path: Path) -> None:
    items = [{"flag": i % 2, **({"id": i} if i % 3 else {})} for i in range(NUM_ITEMS)]

    def change(client: Client) -> tuple[Any, Any, Any]:
        load(client, items)
        wanted = {"filter": "flag = 0"}
        updated = client.post("/films/items/update", {**wanted, "fields": {"seen": True}}).json
        deleted = client.post("/films/items/delete", wanted).json
        left = client.post("/films/search", {"per_page": 0}).json
        return updated, deleted, left

    async with local_service(tmp_path / "data") as service:
        updated, deleted, left = await run(change, service)

    assert (updated["updated"], updated["rejected"]) == (NUM_ITEMS // 3, NUM_ITEMS // 6)
    assert {one["code"] for one in updated["errors"]} == {"invalid_id"}
    assert (deleted["deleted"], deleted["rejected"]) == (NUM_ITEMS // 2, 0)
    assert left["pagination"]["total"] == NUM_ITEMS // 2


async def test_update_reports_what_it_did_not_do(tmp_path: Path) -> None:
    full = {"id": 3, **{f"field{i}": i for i in range(511)}}

    def change(client: Client) -> tuple[Any, Any]:
        load(client, [{"id": 1}, {"id": "2"}, full])
        named = {"ids": [1, 2, 3, 999, "999", "none"], "fields": {"seen": True}}
        by_ids = client.post("/films/items/update", named).json
        found = {"filter": "", "fields": {"seen": False}}
        return by_ids, client.post("/films/items/update", found).json

    async with local_service(tmp_path / "data") as service:
        by_ids, by_filter = await run(change, service)
        items = await run(exported, service)

    reported = [(one["id"], one["code"]) for one in by_ids["errors"]]
    expected = [(3, "invalid_item"), (999, "item_not_found"), ("none", "item_not_found")]
    assert sorted(reported, key=str) == sorted(expected, key=str)
    assert all(one["message"] for one in by_ids["errors"])
    assert (by_ids["updated"], by_ids["rejected"]) == (2, 3)
    assert [(one["id"], one["code"]) for one in by_filter["errors"]] == [(3, "invalid_item")]
    assert (by_filter["updated"], by_filter["rejected"]) == (2, 1)
    assert items == {1: {"id": 1, "seen": False}, "2": {"id": "2", "seen": False}, 3: full}


@pytest.mark.parametrize("id", ["525", 525, "007", "é", "18446744073709551615"])
async def test_id_keeps_its_type(tmp_path: Path, id: int | str) -> None:
    def change(client: Client) -> list[Any]:
        seen: list[Any] = []
        load(client, [{"id": id, "a": 1}])
        path = f"/films/items/{id}".replace("é", "%C3%A9")
        for page in ("update", "partial"):
            assert client.post(f"{path}/{page}", {"b": page}).status == 200
            seen.append(client.get(path).json)
        for chosen in ({"ids": [id]}, {"filter": ""}):
            reply = client.post("/films/items/update", {**chosen, "fields": {"b": "set"}})
            assert reply.json["updated"] == 1, reply.body
            seen.append(client.get(path).json)
        seen.append(client.delete(path).json)
        return seen

    async with local_service(tmp_path / "data") as service:
        seen = await run(change, service)

    assert [one["id"] for one in seen] == [id] * 5
    assert [type(one["id"]) for one in seen] == [type(id)] * 5
    assert seen[0] == {"id": id, "b": "update"}


async def test_item_with_its_own_id_replaces_the_form_of_the_stored_one(tmp_path: Path) -> None:
    def change(client: Client) -> Any:
        load(client, [{"id": "525"}])
        assert client.post("/films/items/525/update", {"id": 525}).status == 200
        return client.get("/films/items/525").json

    async with local_service(tmp_path / "data") as service:
        assert await run(change, service) == {"id": 525}


async def test_large_items_are_exported_and_changed_a_few_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored_items, "READ_BYTES_MAX", 20_000)
    monkeypatch.setattr(update_and_delete_by_query, "GROUP_BYTES_MAX", 5_000)
    largest = 0

    def change(client: Client) -> list[Any]:
        items = [{"id": i, "text": "x" * (9_000 + i)} for i in range(80)]
        load(client, [*items, {"id": "small"}])
        update = {"filter": "", "fields": {"more": "y" * 1_000}}
        return [
            exported(client),
            client.post("/films/items/update", update).json["updated"],
            exported(client, fields=["id", "more"]),
            client.post("/films/items/delete", {"filter": ""}).json["deleted"],
            exported(client),
        ]

    async with local_service(tmp_path / "data") as service:
        selection = service.services.selection
        read = selection.read

        async def watched(*args: Any, **kwargs: Any) -> Any:
            nonlocal largest
            async for part in read(*args, **kwargs):
                largest = max(largest, sum(len(item or b"") for _, item in part))
                yield part

        monkeypatch.setattr(selection, "read", watched)
        first, num_updated, second, num_deleted, last = await run(change, service)

    assert [len(first), num_updated, len(second), num_deleted, last] == [81, 81, 81, 81, {}]
    assert all(item["more"] == "y" * 1_000 for item in second.values())
    assert largest < 2 * 2 * (20_000 + 11_000)  # two shards; of a part, the last item may be longer
