"""Spans of requests and of their calls of shards, with OpenTelemetry's in-memory exporter."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from coordinator.http.app import HttpApp
from coordinator.routes import ROUTES
from tests.http.conftest import MakeWeb
from tests.http.raw_client import exchange
from tests.service import Service

sdk = pytest.importorskip("opentelemetry.sdk.trace", reason="needs facetd[otel]")


async def test_a_request_and_its_calls_are_spans_of_one_trace(make_web: MakeWeb) -> None:
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    from coordinator.http.tracing import TracedMiddleware

    web = await make_web()
    exporter = InMemorySpanExporter()
    provider = sdk.TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    app = HttpApp(web.services, TracedMiddleware(web.services, ROUTES, provider))
    port = await app.start("127.0.0.1", 0)
    try:
        trace_id = "0af7651916cd43dd8448eb211c80319c"
        parent = f"traceparent: 00-{trace_id}-b7ad6b7169203331-01\r\n"
        for path, header, status in (("films", parent, 200), ("none", "", 404)):
            head = f"GET /{path}/items/1 HTTP/1.1\r\nHost: localhost\r\n{header}\r\n"
            assert (await exchange(port, head.encode())).status == status
    finally:
        await app.stop(0.5)
    spans: dict[str, Any] = {span.name: span for span in exporter.get_finished_spans()}
    call = spans["shard get"]
    name = "GET /{index}/items/{id}"
    found: list[Any] = [span for span in exporter.get_finished_spans() if span.name == name]
    request, missing = found
    assert format(request.context.trace_id, "032x") == trace_id
    assert request.attributes["http.response.status_code"] == 200
    assert request.attributes["facetd.index"] == "films"
    assert missing.attributes["http.response.status_code"] == 404
    assert missing.context.trace_id != request.context.trace_id
    assert call.parent.span_id == request.context.span_id
    assert call.attributes["rpc.method"] == "get"
    assert call.attributes["facetd.shard"] in (0, 1)


class _Collector(http.server.BaseHTTPRequestHandler):
    bodies: list[bytes] = []  # noqa: RUF012 - one collector per test run

    def do_POST(self) -> None:
        self.bodies.append(self.rfile.read(int(self.headers["content-length"])))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def collector() -> Iterator[int]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Collector)
    threading.Thread(target=server.serve_forever).start()
    yield server.server_address[1]
    server.shutdown()
    server.server_close()


def test_a_service_sends_its_spans(tmp_path: Path, collector: int) -> None:
    environment = {
        "FACETD_TRACES": "yes",
        "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{collector}",
    }
    with Service(tmp_path / "data", 1, environment=environment) as service:
        client = service.client()
        assert client.post("/films/configuration", {}).status == 200
        assert client.get("/films/search", query="secret words").status == 200
        client.close()
        assert service.terminate() == 0  # sends what is left
    sent = b"".join(_Collector.bodies)
    assert b"GET /{index}/search" in sent
    assert b"shard search" in sent
    assert b"secret words" not in sent
