"""At a stop, the last response of a connection announces it, and a load reports what was stored."""

from __future__ import annotations

import asyncio
import http.client
import json
import socket
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from coordinator.routes import update_and_delete_by_query
from tests.coordinator.model_shard import all_documents
from tests.http.conftest import MakeWeb, Web
from tests.http.local_service import LocalService, local_service
from tests.http.raw_requests import get, request
from tests.service import Client
from tests.waiting import until


async def test_answers_at_a_stop_say_that_the_connection_ends(web: Web) -> None:
    busy, idle = await web.connect(), await web.connect()
    for connection in (busy, idle):
        await connection.send(get("/films/items/1"))
        assert "connection" not in (await connection.read()).headers
    stopping = asyncio.ensure_future(web.app.stop(5.0))
    await asyncio.sleep(0)
    await busy.send(get("/films/items/1"))
    last = await busy.read()

    assert (last.status, last.headers["connection"]) == (200, "close")
    assert await busy.reader.read() == b""
    await asyncio.wait_for(stopping, 5)
    assert await idle.reader.read() == b"", "it had nothing to ask, and has to go too"
    await busy.close()
    await idle.close()


async def test_load_that_outlives_the_grace_is_told_what_was_stored(web: Web) -> None:
    loading = await web.connect()
    body = b"".join(b'{"id":%d}\n' % i for i in range(100, 200))
    head = request("POST", "/films/index", None, "Transfer-Encoding: chunked")
    await loading.send(head.replace(b"application/json", b"text/plain"))
    await loading.send(b"%x\r\n%b\r\n" % (len(body), body))  # and its end never comes
    await until(lambda: any(one.bytes_received for one in web.services.loads.running))
    await web.app.stop(1.2)
    reply = await loading.read()

    error = reply.json["error"]
    assert (reply.status, error["code"]) == (503, "stopping")
    assert (error["created"], error["updated"]) == (0, 0)
    assert reply.headers["connection"] == "close"
    await loading.close()


async def test_load_that_is_being_written_at_a_stop_counts_its_groups(make_web: MakeWeb) -> None:
    web = await make_web(group_operations=10)
    before = len(all_documents(web.shards, 1))
    for shard in web.shards:
        shard.gate.clear()
    body = b"".join(b'{"id":%d}\n' % i for i in range(100, 200))
    load = request("POST", "/films/index", body, content_type="text/plain")
    loading = asyncio.ensure_future(web.send(load))
    await until(lambda: any(len(shard.applied) > 1 for shard in web.shards))
    web.services.loads.end()
    for shard in web.shards:
        shard.gate.set()
    reply = await loading

    stored = len(all_documents(web.shards, 1)) - before
    error = reply.json["error"]
    assert (reply.status, error["code"]) == (503, "stopping")
    assert error["created"] == stored
    assert 0 < stored < 100


def _load(service: LocalService) -> None:
    with closing(service.client()) as client:
        assert client.post("/films/configuration", {}).status == 200
        items = [{"id": number, "text": "x" * 1_000} for number in range(100)]
        assert client.post("/films/items", items).status == 200


@pytest.mark.parametrize("version", ["HTTP/1.0", "HTTP/1.1"])
async def test_export_that_outlives_the_grace_is_cut_and_does_not_look_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    has_begun = asyncio.Event()

    def export(port: int) -> bytes:
        with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
            connection.sendall(f"GET /films/items {version}\r\nHost: 127.0.0.1\r\n\r\n".encode())
            with closing(http.client.HTTPResponse(connection)) as response:
                response.begin()
                assert response.status == 200
                return response.read()

    async with local_service(tmp_path / "data") as service:
        await asyncio.to_thread(_load, service)
        read = service.services.selection.read

        async def stuck(*args: Any, **kwargs: Any) -> AsyncIterator[Any]:
            async for part in read(*args, **kwargs):
                yield part[: len(part) // 2]
                has_begun.set()
                await asyncio.Event().wait()

        monkeypatch.setattr(service.services.selection, "read", stuck)
        exporting = asyncio.create_task(asyncio.to_thread(export, service.port))
        await has_begun.wait()
        # Leaving the block stops the service, with a grace of a second.
    with pytest.raises((http.client.IncompleteRead, ConnectionResetError)):
        await exporting


async def test_change_by_filter_that_a_stop_ends_says_how_far_it_came(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(update_and_delete_by_query, "GROUP_BYTES_MAX", 200)

    def change(client: Client) -> tuple[Any, int]:
        reply = client.post("/films/items/update", {"filter": "", "fields": {"seen": True}})
        exported = client.get("/films/items").body.splitlines()
        return reply, sum("seen" in json.loads(line) for line in exported)

    async with local_service(tmp_path / "data") as service:
        await asyncio.to_thread(_load, service)
        ingest, loads = service.services.ingest, service.services.loads
        write = ingest.change_selected
        num_groups = 0

        async def write_some(*args: Any) -> Any:
            nonlocal num_groups
            num_groups += 1
            if num_groups == 3:
                loads.end()
            return await write(*args)

        monkeypatch.setattr(ingest, "change_selected", write_some)
        with closing(service.client()) as client:
            reply, num_changed = await asyncio.to_thread(change, client)

    error = reply.json["error"]
    assert (reply.status, error["code"]) == (503, "stopping")
    assert error["updated"] == num_changed
    assert 0 < num_changed < 100
