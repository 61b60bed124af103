"""Connections: kept, pipelined, idle, slow, broken off; and how they end."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest

from common.process.request_id_context import REQUEST_IDS
from coordinator.http import aiohttp_connections
from coordinator.http.responses import Response
from tests.http.conftest import MakeWeb, Web
from tests.http.raw_client import RawConnection
from tests.http.raw_requests import SEARCH, get, request
from tests.waiting import until


async def test_connection_is_kept_and_pipelined_requests_are_answered_in_order(web: Web) -> None:
    connection = await web.connect()
    await connection.send(b"".join(get("/films/search", page=str(page)) for page in range(1, 51)))

    pages = [(await connection.read()).json["pagination"]["page"] for _ in range(50)]

    assert pages == list(range(1, 51))
    await connection.close()


async def test_what_is_logged_of_a_broken_request_does_not_name_the_one_before(
    web: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    named: list[tuple[str, ...]] = []
    refusal = aiohttp_connections._refusal

    def noted(*arguments: Any) -> Any:
        named.append(REQUEST_IDS.get())
        return refusal(*arguments)

    monkeypatch.setattr(aiohttp_connections, "_refusal", noted)
    connection = await web.connect()
    await connection.send(request("GET", "/films/search", None, "X-Request-Id: first"))
    assert (await connection.read()).headers["x-request-id"] == "first"
    await connection.send(b"NONSENSE\r\n\r\n")
    reply = await connection.read()

    assert reply.status == 400
    assert named == [(reply.headers["x-request-id"],)] != [("first",)]
    await connection.close()


async def test_a_request_with_garbage_after_it_is_refused_and_not_carried_out(web: Web) -> None:
    """In one packet, aiohttp's parser drops the request: its answer is about the garbage.

    A client that pipelines writes must take the 400 for its first unanswered one.
    """
    connection = await web.connect()
    write = request("PUT", "/films/items/77", b"{}")
    await connection.send(write)
    assert (await connection.read()).status == 200
    await connection.send(request("DELETE", "/films/items/77") + b"NONSENSE\r\n\r\n")
    refused = await connection.read()
    await connection.close()

    assert (refused.status, refused.code) == (400, "bad_request")
    assert (await web.get("/films/items/77")).status == 200


async def test_connection_header_is_obeyed(web: Web) -> None:
    connection = await web.connect()
    await connection.send(request("GET", "/status", None, "Connection: close"))

    reply = await connection.read()

    assert reply.headers["connection"] == "close"
    assert await connection.reader.read() == b""
    await connection.close()


async def test_where_coordinators_share_a_port_a_connection_ends_after_many_requests(
    make_web: MakeWeb, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel spreads connections: kept for good, they would stay where they were made."""
    monkeypatch.setattr(aiohttp_connections, "REQUESTS_MAX", 3)
    web = await make_web(coordinators=2)
    connection = await web.connect()
    replies = []
    for _ in range(3):
        await connection.send(request("GET", "/status"))
        replies.append(await connection.read())
    assert ["connection" in one.headers for one in replies] == [False, False, True]
    assert replies[-1].headers["connection"] == "close"
    assert await connection.reader.read() == b""
    await connection.close()

    pipelining = await web.connect()
    await pipelining.send(b"".join(get("/films/search", page=str(page)) for page in range(1, 8)))
    replies = [await pipelining.read() for _ in range(7)]
    assert [one.json["pagination"]["page"] for one in replies] == list(range(1, 8))
    assert replies[-1].headers["connection"] == "close"
    await pipelining.close()


async def test_a_lone_coordinator_keeps_its_connections(
    make_web: MakeWeb, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(aiohttp_connections, "REQUESTS_MAX", 3)
    web = await make_web()
    connection = await web.connect()
    for _ in range(5):
        await connection.send(request("GET", "/status"))
        assert "connection" not in (await connection.read()).headers
    await connection.close()


async def test_old_client_may_keep_its_connection(web: Web) -> None:
    connection = await web.connect()
    for _ in range(2):
        await connection.send(
            request("GET", "/status", None, "Connection: keep-alive", version="1.0")
        )
        assert (await connection.read()).headers["connection"] == "keep-alive"
    await connection.close()


async def test_head_has_the_length_but_no_body(web: Web) -> None:
    connection = await web.connect()
    await connection.send(request("HEAD", "/films/search"))
    head = await connection.read(is_head=True)
    await connection.send(SEARCH)
    whole = await connection.read()

    assert head.status == 200
    assert int(head.headers["content-length"]) > 1000
    assert whole.status == 200
    await connection.close()


async def test_idle_connection_makes_room_at_the_bound(make_web: MakeWeb) -> None:
    web = await make_web(limits={"connections_max": 3})
    idle = [await web.connect() for _ in range(3)]
    for connection in idle:
        await connection.send(SEARCH)
        assert (await connection.read()).status == 200

    newcomer = await web.connect()
    await newcomer.send(SEARCH)

    assert (await newcomer.read()).status == 200
    assert await idle[0].reader.read() == b""
    for connection in (*idle, newcomer):
        await connection.close()


async def test_client_that_does_not_read_is_not_answered_into_memory(web: Web) -> None:
    connection = await web.connect()
    connection.reader._transport.pause_reading()  # type: ignore[attr-defined]
    num_requests = 10_000
    sending = asyncio.create_task(connection.send(SEARCH * num_requests))
    num_asked = -1
    while num_asked < len(web.search.asked):
        num_asked = len(web.search.asked)
        for _ in range(200):
            await asyncio.sleep(0)
        assert (await web.send(request("GET", "/status"))).status == 200

    assert num_asked < num_requests / 2
    connection.reader._transport.resume_reading()  # type: ignore[attr-defined]
    for _ in range(num_requests):
        assert (await connection.read()).status == 200
    await sending
    await connection.close()


async def test_client_that_never_reads_is_let_go(make_web: MakeWeb) -> None:
    web = await make_web(limits={"send_timeout_ms": 50})
    web.search.items = [b'{"text":"%b"}' % (b"x" * 20_000)] * 1000
    connection = await web.connect()
    await connection.send(request("GET", "/films/items"))
    connection.reader._transport.pause_reading()  # type: ignore[attr-defined]

    await until(lambda: not web.services.metrics.num_connections())

    await connection.close()


async def test_slow_readers_that_hold_too_much_are_let_go(make_web: MakeWeb) -> None:
    """Those that have waited longest; the others get all of their responses."""
    web = await make_web(limits={"bytes_unread_max": 50_000_000})
    web.search.items = [b'{"text":"%b"}' % (b"x" * 2_000_000)] * 10
    slow: list[RawConnection] = []
    for _ in range(5):
        connection = await web.connect()
        connection.reader._transport.pause_reading()  # type: ignore[attr-defined]
        await connection.send(SEARCH)
        num_asked = len(slow) + 1
        await until(lambda num=num_asked: len(web.search.asked) == num)  # type: ignore[misc]
        slow.append(connection)
    await until(lambda: web.services.metrics.num_connections() == 2)

    held = web.app._server.slow_clients.num_bytes  # type: ignore[union-attr]
    assert 40_000_000 < held <= 50_000_000
    for connection in slow:
        connection.reader._transport.resume_reading()  # type: ignore[attr-defined]
    for connection in slow[:3]:
        with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
            await connection.read()
    for connection in slow[3:]:
        reply = await connection.read()
        assert reply.status == 200
        assert len(reply.json["data"]["items"]) == 10
    await until(lambda: web.app._server.slow_clients.num_bytes == 0)  # type: ignore[union-attr]
    for connection in slow:
        await connection.close()


async def test_a_slow_reader_that_leaves_leaves_nothing(web: Web) -> None:
    """Not even until the garbage collector comes."""
    web.search.items = [b'{"text":"%b"}' % (b"x" * 2_000_000)] * 10
    connection = await web.connect()
    connection.reader._transport.pause_reading()  # type: ignore[attr-defined]
    gc.collect()
    gc.disable()
    try:
        await connection.send(SEARCH)
        await until(lambda: web.app._server.slow_clients.num_bytes)  # type: ignore[union-attr]
        connection.writer.transport.abort()
        await until(lambda: not web.services.metrics.num_connections())
        await until(lambda: not _num_large_responses())
    finally:
        gc.enable()


def _num_large_responses() -> int:
    return sum(isinstance(one, Response) and len(one.body) > 10**7 for one in gc.get_objects())


async def test_a_connection_that_is_kept_holds_no_body(web: Web) -> None:
    connection = await web.connect()
    item = b'[{"id":1,"text":"%b"}]' % (b"x" * 1_000_000)
    await connection.send(request("POST", "/films/items", item))
    assert (await connection.read()).status == 200

    (served,) = web.app._server.connections  # type: ignore[union-attr]
    assert isinstance(served, aiohttp_connections.Connection)
    assert served.request is not None
    assert served.request.body == b""
    await connection.close()


async def test_slow_sender_is_disconnected_where_no_connection_is_idle(make_web: MakeWeb) -> None:
    web = await make_web(limits={"connections_max": 2})
    slow = [await web.connect() for _ in range(2)]
    for connection in slow:
        await connection.send(request("POST", "/films/search", b"{", "Content-Length: 9"))
    await until(lambda: web.services.metrics.body_bytes() >= 2)

    assert (await web.send(SEARCH)).status == 200
    for connection in slow:
        await connection.close()


async def test_client_that_closes_its_sending_side_still_gets_its_answer(web: Web) -> None:
    reply = await web.send(SEARCH, half_closes=True)

    assert reply.status == 200


async def test_pipelined_requests_before_the_end_are_all_answered(web: Web) -> None:
    connection = await web.connect()
    requests = [get("/films/search", page=str(page)) for page in range(1, 6)]
    cut = request("POST", "/films/search", b"{", "Content-Length: 9")
    await connection.send(b"".join([*requests, cut]), half_closes=True)

    pages = [(await connection.read()).json["pagination"]["page"] for _ in requests]
    last = await connection.read()

    assert (pages, last.status) == ([1, 2, 3, 4, 5], 400)
    assert await connection.reader.read() == b""
    await connection.close()


async def test_client_that_leaves_does_not_disturb(web: Web) -> None:
    for data in (SEARCH, request("POST", "/films/search", b"{", "Content-Length: 9"), b"GET / HT"):
        connection = await web.connect()
        await connection.send(data)
        connection.writer.transport.abort()
        await connection.close()

    assert (await web.send(SEARCH)).status == 200


async def test_stop_lets_running_requests_finish(make_web: MakeWeb) -> None:
    web = await make_web()
    begun, go_on = asyncio.Event(), asyncio.Event()
    answer = web.search.search

    async def slow_search(*arguments: object) -> object:
        begun.set()
        await go_on.wait()
        return await answer(*arguments)  # type: ignore[arg-type]

    web.search.search = slow_search  # type: ignore[method-assign, assignment]
    connection = await web.connect()
    idle = await web.connect()
    await connection.send(SEARCH)
    await begun.wait()

    stopping = asyncio.create_task(web.app.stop(5.0))
    await asyncio.sleep(0)
    go_on.set()
    reply = await connection.read()
    await stopping

    assert reply.status == 200
    assert await idle.reader.read() == b""
    with pytest.raises(ConnectionError):
        await web.connect()
    await connection.close()
    await idle.close()


async def test_a_thousand_slow_clients_leave_the_others_alone(make_web: MakeWeb) -> None:
    web = await make_web()
    slow = []
    for i in range(600):
        connection = await web.connect()
        half = (b"", b"GET /films/sea", request("POST", "/films/search", b"{", "Content-Length: 9"))
        await connection.send(half[i % 3])
        slow.append(connection)

    durations = []
    loop = asyncio.get_running_loop()
    for _ in range(50):
        started = loop.time()
        assert (await web.send(SEARCH)).status == 200
        durations.append(loop.time() - started)

    assert sorted(durations)[45] < 0.25
    for connection in slow:
        connection.writer.transport.abort()
