"""What a client is told, and the log says, of bugs, absent shards and overload."""

from __future__ import annotations

import time

import pytest

from common.errors import Unavailable
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
