"""Routes for operators: readiness, metrics, statistics, slow searches, the dashboard, OpenAPI."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest

from common.protocol.messages import OpeningStatistics
from coordinator.dashboard import ASSETS_PATH
from coordinator.routes import ROUTES
from tests.http.conftest import MakeWeb, Web
from tests.http.raw_requests import request


async def test_service_is_ready_only_when_all_shards_serve(web: Web) -> None:
    assert (await web.get("/_ready")).json == {"status": "ready", "shards": {"total": 2, "ok": 2}}

    gone = asyncio.Event()
    web.services.cluster.on_state(lambda _: gone.set())
    await web.shards[1].die()
    await gone.wait()
    reply = await web.get("/_ready")

    assert (reply.status, reply.code) == (503, "starting")
    assert reply.json["error"]["shards"] == {"total": 2, "failed": [1]}
    assert (await web.get("/_health")).status == 200


async def test_a_start_says_its_progress(web: Web) -> None:
    cluster = web.services.cluster
    cluster.readiness.has_started = cluster.readiness.is_open = False
    cluster._ready.clear()
    cluster.starting.note(0, OpeningStatistics(4, 1, 1000, 900))
    cluster.starting.note(1, OpeningStatistics(4, 3, 1000, 100))
    for target in ("/_ready", "/films/items/1"):
        reply = await web.get(target)
        assert (reply.status, reply.code) == (503, "starting")
        error = reply.json["error"]
        assert reply.headers["retry-after"] == "1"
        assert error["progress"]["share"] == 0.5
        assert error["progress"]["items"] == {"done": 1000, "total": 2000}
        assert error["progress"]["indexes"] == {"done": 4, "total": 8}
        assert error["progress"]["seconds_left"] >= 0
        assert "1,000 of 2,000 items are indexed again" in error["message"]
    assert (await web.get("/dashboard")).status == 200, "the page is there, and will say so"


async def test_dashboard_is_served_from_memory_under_a_strict_policy(web: Web) -> None:
    for target in (
        "/dashboard",
        "/dashboard/films",
        "/dashboard/_health",
        "/dashboard/%F0%9F%8E%AC",
    ):
        page = await web.get(target)
        assert page.status == 200
        assert page.headers["content-type"] == "text/html; charset=utf-8"
        assert "default-src 'self'" in page.headers["content-security-policy"]
        assert "frame-ancestors 'none'" in page.headers["content-security-policy"]
    asset = await web.get("/dashboard/assets/app.js")
    again = await web.send(
        request("GET", "/dashboard/assets/app.js", None, f"If-None-Match: {asset.headers['etag']}")
    )
    assert asset.headers["content-type"].startswith("text/javascript")
    assert again.status == 304
    assert asset.headers["cache-control"] == "no-cache"
    assert (await web.get("/dashboard/assets/nope.js")).status == 404
    icon = await web.get("/favicon.ico")
    assert (icon.status, icon.headers["content-type"]) == (200, "image/svg+xml")
    root = await web.get("/")
    assert (root.status, root.headers["location"]) == (302, "dashboard")


async def test_files_that_a_page_names_by_version_are_asked_for_once(web: Web) -> None:
    for page, above in (("/dashboard", "/"), ("/dashboard/films", "/dashboard/"), ("/_docs", "/")):
        names = re.findall(
            r'(?:src|href)="([^"]*assets/[^"]+)"', (await web.get(page)).body.decode()
        )
        assert len(names) >= 3
        for name in names:
            assert "immutable" in (await web.get(above + name)).headers["cache-control"], name
    modules = f"/{ASSETS_PATH}/views"
    assert "immutable" in (await web.get(f"{modules}/search.js")).headers["cache-control"]
    assert (await web.get(f"{modules}/nope.js")).status == 404
    for name in ("app.js", "views/search.js"):
        of_another = await web.get(f"/dashboard/assets/0123456789abcdef/{name}")
        assert (of_another.status, of_another.headers["cache-control"]) == (200, "no-cache")


async def test_metrics_count_requests_by_route_and_status(web: Web) -> None:
    for _ in range(3):
        await web.get("/films/search")
    await web.get("/films/search", page="x")

    text = (await web.get("/_metrics")).body.decode()

    route = 'route="GET /{index}/search"'
    assert f'facetd_http_requests_total{{{route},status="200"}} 3.0' in text
    assert f'facetd_http_requests_total{{{route},status="400"}} 1.0' in text
    assert f"facetd_http_request_seconds_count{{{route}}} 4.0" in text
    assert 'facetd_search_phase_seconds_bucket{le="0.0002",phase="search"} 3.0' in text
    assert "process_resident_memory_bytes" in text


async def test_stats_count_requests_and_name_shards(web: Web) -> None:
    await web.get("/films/search")

    stats: dict[str, Any] = (await web.get("/_stats")).json

    assert stats["requests"]["total"] >= 2
    assert stats["requests"]["per_second"] > 0
    assert stats["requests"]["p50_ms"] is not None
    assert stats["memory_bytes"] > 1_000_000
    assert [shard["id"] for shard in stats["shards"]] == [0, 1]


async def test_slow_searches_are_kept_and_logged(
    make_web: MakeWeb, caplog: pytest.LogCaptureFixture
) -> None:
    web = await make_web(slow_query_ms=1)
    answer = web.search.search

    async def slow_search(*arguments: Any) -> Any:
        result = await answer(*arguments)
        started = asyncio.get_running_loop().time()
        while asyncio.get_running_loop().time() - started < 0.002:
            pass
        return result

    web.search.search = slow_search  # type: ignore[method-assign, assignment]
    await web.get("/films/search", query="star\nwars")

    (slow,) = (await web.get("/_stats")).json["slow_queries"]
    assert slow["index"] == "films"
    assert slow["request"] == {"query": "star\nwars"}
    assert slow["took_ms"] >= 1
    assert "slow query" in caplog.text


@pytest.mark.parametrize("merge", [None, True])
async def test_slow_searches_of_several_at_once_are_kept_each(web: Web, merge: bool | None) -> None:
    web.services.slow_queries.threshold_us = 1
    searches = [{"index": "films", "query": "sea"}, {"index": "films"}]

    assert (await web.post("/_search", {"searches": searches, "merge": merge})).status == 200

    requests = [one["request"] for one in web.services.slow_queries.latest]
    assert requests == [{"query": "sea"}, {}]
    assert web.services.metrics.num_slow == 2


async def test_openapi_document_has_every_route(web: Web) -> None:
    document = (await web.get("/_openapi.json")).json

    assert document["openapi"].startswith("3.1")
    for route in ROUTES:
        if route.tag != "pages":
            assert route.method.lower() in document["paths"][route.path]
    for path, operations in document["paths"].items():
        for operation in operations.values():
            if path.startswith("/1/") and "requestBody" in operation:
                (content,) = operation["requestBody"]["content"].values()
                name = content["schema"]["$ref"].rpartition("/")[2]
                schema = document["components"]["schemas"][name]
                assert schema.get("properties") or schema["description"], path
    page = (await web.get("/_docs")).body.decode()
    assert "<code>meta.warnings</code>" in page
    assert "`" not in page
    assert page.count("<script") == page.count(f'src="{ASSETS_PATH}/docs.js"') == 1
    assert "style=" not in page
    assert "facet_fields" in page
    anchors = re.findall(r' id="([^"]+)"', page)
    assert len(set(anchors)) == len(anchors) > len(ROUTES)
    assert set(re.findall(r'href="#([^"]+)"', page)) == set(anchors)
