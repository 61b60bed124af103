"""Bodies of requests and responses: limits, time, memory, compression, streams."""

from __future__ import annotations

import gzip
import json

import pytest

from tests.http.conftest import MakeWeb, Web
from tests.http.raw_requests import SEARCH, post, request


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
async def test_body_is_taken_up_to_its_limit_and_refused_beyond(
    make_web: MakeWeb, is_chunked: bool
) -> None:
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


async def test_bodies_share_a_budget_of_memory(make_web: MakeWeb) -> None:
    web = await make_web(limits={"bytes_in_flight_max": 1000})
    body = b'[{"a":"' + b"x" * 2000 + b'"}]'

    reply = await web.send(request("POST", "/films/items", body))

    assert (reply.status, reply.code) == (503, "overloaded")
    assert web.services.metrics.body_bytes() == 0
    assert (await web.post("/films/search", {})).status == 200


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
