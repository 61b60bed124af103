"""At a stop: the last answer of a connection says so, and a load is told what was stored."""

from __future__ import annotations

import asyncio

from tests.coordinator.model_shard import all_documents
from tests.http.catalogue import get, request
from tests.http.conftest import MakeWeb, Web
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
