"""What a client is told, and the log says, of bugs, absent shards and overload."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import pytest

from common.errors import InternalError, Unavailable
from tests.http.conftest import MakeWeb, Web
from tests.http.raw_requests import SEARCH, request


async def test_too_many_requests_at_once_are_told_to_come_back(make_web: MakeWeb) -> None:
    web = await make_web(limits={"requests_in_flight_max": 1})
    web.services.metrics.requests_in_flight = 1

    reply = await web.send(SEARCH)
    health = await web.get("/_health")

    assert (reply.status, reply.code) == (503, "overloaded")
    assert reply.headers["retry-after"] == "1"
    assert health.status == 200


async def test_uptime_is_no_matter_of_the_clock(
    make_web: MakeWeb, monkeypatch: pytest.MonkeyPatch
) -> None:
    web = await make_web()
    monkeypatch.setattr(time, "time", lambda: 1.0)  # it was set back

    for path in ("/_health", "/_stats"):
        assert 0 <= (await web.get(path)).json["uptime_s"] < 60


async def test_client_names_its_request(web: Web) -> None:
    reply = await web.send(request("GET", "/nope/search", None, "X-Request-Id: order-66"))
    other = await web.send(request("GET", "/nope/search"))

    assert reply.headers["x-request-id"] == reply.json["error"]["request_id"] == "order-66"
    assert other.headers["x-request-id"] == other.json["error"]["request_id"] != "order-66"


async def test_bug_is_answered_without_its_text(web: Web, caplog: pytest.LogCaptureFixture) -> None:
    web.search.error = RuntimeError("secret detail")  # type: ignore[assignment]

    reply = await web.send(SEARCH)

    assert (reply.status, reply.code) == (500, "internal")
    assert b"secret" not in reply.body
    assert "request failed" in caplog.text


async def test_bug_of_a_shard_is_found_by_the_request_id(
    web: Web, caplog: pytest.LogCaptureFixture
) -> None:
    for shard in web.shards:
        shard.bug = RuntimeError("secret detail")

    reply = await web.get("/films/items/1")

    assert (reply.status, reply.code) == (500, "internal")
    assert b"secret" not in reply.body
    of_shard, of_request = (record.fields for record in caplog.records[-2:])  # type: ignore[attr-defined]
    assert of_request["request_id"] == reply.json["error"]["request_id"]
    assert of_request["incident"] == of_shard["incident"] == reply.json["error"]["incident"]


@pytest.mark.parametrize("version", ["1.0", "1.1"])
async def test_export_that_fails_midway_is_cut_off_and_logged_in_one_line(
    web: Web, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    read = web.services.selection.read

    async def failing(*args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        async for part in read(*args, **kwargs):
            yield part
        raise InternalError("a page is damaged", code="item_corrupt", details={"shard": 1})

    monkeypatch.setattr(web.services.selection, "read", failing)
    web.search.items = [b'{"id":%d}' % i for i in range(3)]
    connection = await web.connect()
    await connection.send(request("GET", "/films/items", None, "X-Request-Id: e", version=version))

    received = b""
    with suppress(ConnectionResetError):
        while part := await connection.reader.read(1 << 16):
            received += part

    assert b'{"id":2}' in received
    assert not received.endswith(b"0\r\n\r\n")
    if version == "1.0":  # only a reset tells
        assert isinstance(connection.reader.exception(), ConnectionResetError)
    (record,) = (one for one in caplog.records if one.levelname == "ERROR")
    assert record.getMessage() == "response cut off"
    assert record.exc_info is None
    assert record.fields == {  # type: ignore[attr-defined]
        "path": "/films/items",
        "code": "item_corrupt",
        "reason": "a page is damaged",
        "shard": 1,
        "request_id": "e",
    }
    await connection.close()


async def test_shard_that_is_away_gives_503_with_retry_after(web: Web) -> None:
    web.search.error = Unavailable("shard 1 is away; try again shortly")

    reply = await web.send(SEARCH)

    assert (reply.status, reply.code) == (503, "shard_unavailable")
    assert reply.headers["retry-after"] == "2"


async def test_server_timing_and_body_agree(web: Web) -> None:
    reply = await web.post("/films/search", {"show": ["timings"]})

    assert reply.headers["server-timing"].startswith("total;dur=")
    assert reply.json["meta"]["timings_us"]["search"] == 101
    assert reply.json["timings"] == {
        "total": reply.json["meta"]["took_us"] // 1000,
        "search": 0,
        "facets": 0,
        "sort": 0,
        "sorting": 0,
    }
