"""The HTTP frame: connections, bodies, limits, streams, and what one client does to another."""

from __future__ import annotations

import asyncio
import gzip
import json
import time
from typing import Any

import pytest

from common.errors import ConfigurationSwitched, Unavailable
from common.process.request_ids import REQUEST_IDS
from coordinator.http import middleware, server
from coordinator.read.cursor import Cursor
from tests.http.conftest import MakeWeb, Web
from tests.http.raw_requests import get, post, request
from tests.waiting import until

SEARCH = request("GET", "/films/search")


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
    refusal = server._refusal

    def noted(*arguments: Any) -> Any:
        named.append(REQUEST_IDS.get())
        return refusal(*arguments)

    monkeypatch.setattr(server, "_refusal", noted)
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


async def test_half_sent_body_times_out_and_delays_no_other(make_web: MakeWeb) -> None:
    web = await make_web(limits={"body_timeout_ms": 200})
    slow = await web.connect()
    await slow.send(request("POST", "/films/search", b'{"que', "Content-Length: 50"))

    assert (await web.send(SEARCH)).status == 200
    assert web.services.metrics.requests_in_flight == 0
    reply = await slow.read()

    assert (reply.status, reply.code) == (408, "request_timeout")
    assert reply.headers["connection"] == "close"
    await slow.close()


async def test_stalled_bulk_changes_nothing(make_web: MakeWeb) -> None:
    web = await make_web(limits={"body_timeout_ms": 200})
    slow = await web.connect()
    await slow.send(
        request(
            "POST", "/films/index", b'{"id":5}\n', "Content-Length: 500", content_type="text/plain"
        )
    )

    reply = await slow.read()

    assert (reply.status, reply.code) == (408, "request_timeout")
    assert (await web.get("/films/items/5")).status == 404
    await slow.close()


async def test_large_body_is_refused_before_it_is_sent(make_web: MakeWeb) -> None:
    web = await make_web(limits={"json_body_bytes_max": 1000})
    connection = await web.connect()
    await connection.send(
        request("POST", "/films/items", b"", "Content-Length: 100000000000", "Expect: 100-continue")
    )

    reply = await connection.read()

    assert (reply.status, reply.code) == (413, "payload_too_large")
    await connection.close()


@pytest.mark.parametrize("is_chunked", [True, False])
async def test_body_limit_at_its_edge(make_web: MakeWeb, is_chunked: bool) -> None:
    web = await make_web(limits={"search_body_bytes_max": 20})
    for size, status in ((20, 200), (21, 413)):
        body = b'{"query":"' + b"x" * (size - 12) + b'"}'
        assert len(body) == size
        if is_chunked:
            data = b"%x\r\n%b\r\n0\r\n\r\n" % (size, body)
            raw = request("POST", "/films/search", data, "Transfer-Encoding: chunked")
        else:
            raw = request("POST", "/films/search", body)
        assert (await web.send(raw)).status == status


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


async def test_bodies_share_a_budget_of_memory(make_web: MakeWeb) -> None:
    web = await make_web(limits={"bytes_in_flight_max": 1000})
    body = b'[{"a":"' + b"x" * 2000 + b'"}]'

    reply = await web.send(request("POST", "/films/items", body))

    assert (reply.status, reply.code) == (503, "overloaded")
    assert web.services.metrics.body_bytes() == 0
    assert (await web.post("/films/search", {})).status == 200


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


class _SwitchedFor:
    """A search that meets the switch of a configuration some times, then answers."""

    def __init__(self, web: Web, num_times: int) -> None:
        self.num_times = num_times
        self.is_asked = asyncio.Event()
        self.indexes: list[Any] = []
        self.parameters: list[Any] = []
        self._search = web.search.search
        web.search.search = self.search  # type: ignore[method-assign]

    async def search(self, index: Any, parameters: Any, horizon: int | None = None) -> Any:
        self.indexes.append(index)
        self.parameters.append(parameters)
        self.is_asked.set()
        if len(self.indexes) <= self.num_times:
            raise ConfigurationSwitched("the index is being switched")
        return await self._search(index, parameters)


async def test_search_that_meets_a_switch_begins_again(web: Web) -> None:
    fake = _SwitchedFor(web, 1)
    asking = asyncio.ensure_future(web.post("/films/search", {"facet_fields": ["country"]}))
    await fake.is_asked.wait()
    asked_at = time.monotonic()
    await until(lambda: time.monotonic() > asked_at + 0.002)  # the deadline counts in milliseconds
    await web.services.administration.configure("films", {"aggregations": {"country": {"size": 3}}})

    reply = await asking

    assert reply.status == 200
    former, present = fake.indexes
    assert (former.revision + 1, present.configuration.facets["country"].size) == (
        present.revision,
        3,
    )
    assert fake.parameters[1].facets[0].configuration.size == 3, "read again"
    assert fake.parameters[1].timeout_ms < fake.parameters[0].timeout_ms, "of one deadline"


async def test_index_that_went_away_in_its_switch_is_no_503(web: Web) -> None:
    fake = _SwitchedFor(web, 1)
    asking = asyncio.ensure_future(web.post("/films/search", {}))
    await fake.is_asked.wait()
    await web.services.administration.delete_index("films")

    assert (await asking).code == "index_not_found"


@pytest.mark.parametrize(
    ("timeout_ms", "answer"), [(1_000, (503, "switched")), (20, (504, "deadline_exceeded"))]
)
async def test_switch_that_does_not_end_is_told(
    web: Web, monkeypatch: pytest.MonkeyPatch, timeout_ms: int, answer: tuple[int, str]
) -> None:
    monkeypatch.setattr(middleware, "SWITCH_TRIES_MAX", 4)
    monkeypatch.setattr(middleware, "SWITCH_WAIT_SECONDS", 0.01)
    fake = _SwitchedFor(web, 1_000)

    reply = await web.post("/films/search", {"timeout_ms": timeout_ms})

    assert (reply.status, reply.code) == answer
    assert reply.headers.get("retry-after") == ("1" if reply.status == 503 else None)
    assert len(fake.indexes) <= 5


async def test_change_in_the_order_of_scores_does_not_go_on_after_a_switch(web: Web) -> None:
    """Which hits would still come in the order of the former configuration is unknown."""
    selection = web.services.selection
    answer = selection.page

    async def select(index: Any, parameters: Any, horizon: int) -> Any:
        if parameters.cursor != "*":
            raise ConfigurationSwitched("the index is being switched")
        hits, _ = await answer(index, parameters, horizon)
        return hits, Cursor(index.revision, horizon, b"search", (0, 1), (1.0, 5), ()).encode()

    selection.page = select  # type: ignore[method-assign]
    reply = await web.post("/films/items/delete", {"query": "sea"})

    assert (reply.status, reply.code) == (503, "switched")


async def test_export_is_a_stream_of_lines(web: Web) -> None:
    web.search.items = [b'{"id":%d,\n"a":1}' % i for i in range(3)]

    reply = await web.get("/films/items", query="x")
    old = await web.connect()
    await old.send(request("GET", "/films/items", version="1.0"))
    head, _, lines = (await old.reader.read()).partition(b"\r\n\r\n")

    assert reply.headers["content-type"] == "application/x-ndjson"
    assert [json.loads(line)["id"] for line in reply.body.splitlines()] == [0, 1, 2]
    assert b"chunked" not in head
    assert lines == reply.body
    await old.close()


async def test_compressed_bulk_is_inflated_in_bounded_parts(web: Web) -> None:
    lines = b"".join(b'{"id":%d,"text":"%b"}\n' % (i, b"x" * 1000) for i in range(5_000))

    reply = await web.send(
        request(
            "POST",
            "/films/index",
            gzip.compress(lines),
            "Content-Encoding: gzip",
            content_type="text/plain",
        )
    )

    assert reply.json["status"] == "indexed"
    assert reply.json["created"] + reply.json["updated"] == 5_000


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


async def test_get_and_post_are_the_same_search(web: Web) -> None:
    await web.get(
        "/films/search",
        query="star wars",
        filters={"tags": ["a", "b"], "year": {"gte": 1990}},
        facet_fields="tags,year",
        sort="year:desc,name",
        page="2",
        highlight={"fields": ["name"]},
    )
    await web.post(
        "/films/search",
        {
            "query": "star wars",
            "filters": {"tags": ["a", "b"], "year": {"gte": 1990}},
            "facet_fields": ["tags", "year"],
            "sort": ["year:desc", "name"],
            "page": 2,
            "highlight": {"fields": ["name"]},
        },
    )

    assert web.search.asked[-1] == web.search.asked[-2]


async def test_body_wins_over_query_string(web: Web) -> None:
    await web.send(post("/films/search?page=3&per_page=7", {"page": 2}))

    asked = web.search.asked[-1]
    assert (asked.page, asked.per_page) == (2, 7)
