"""Traces by OpenTelemetry: a span for each request, and one for each of its calls of a shard.

    GET /{index}/search                       server span, child of the client's `traceparent`
     ├─ shard statistics   shard 0, shard 1
     └─ shard search       shard 0, shard 1

Only imported where the setting `traces` is on; it needs the extra `facetd[otel]`. Where spans go is
said by OpenTelemetry's own variables (OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_TRACES_SAMPLER, …).
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any

from opentelemetry import trace
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import SpanKind, Status, StatusCode, Tracer
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from common.errors import ServiceError
from coordinator.catalog.catalog import program_version
from coordinator.http.middleware import Middleware
from coordinator.http.reader_coordinator_forwarding import ReaderMiddleware

if TYPE_CHECKING:
    from collections.abc import Iterable

    from coordinator.cluster.all_shards import Cluster
    from coordinator.http.request import Request
    from coordinator.http.responses import Response
    from coordinator.http.routing import ServedRoute
    from coordinator.http.services import Services

_PROPAGATOR = TraceContextTextMapPropagator()


def exporting_provider() -> TracerProvider:
    """Return a provider that sends spans as the environment says."""
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    resource = Resource.create({"service.name": "facetd", "service.version": program_version()})
    provider = TracerProvider(resource=resource)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return provider


class TracedMiddleware(Middleware):
    """Answers requests within a span each.

    Args:
        services: passed to every route.
        routes: the route table.
        provider: makes the spans.
    """

    def __init__(
        self, services: Services, routes: Iterable[ServedRoute], provider: TracerProvider
    ) -> None:
        super().__init__(services, routes)
        self._provider = provider
        self._tracer = provider.get_tracer("facetd", program_version())
        _trace_calls(services.cluster, self._tracer)

    async def __call__(self, request: Request) -> Response:
        """Answer one request; raises nothing but cancellation."""
        carrier = {
            name: request.headers[name]
            for name in ("traceparent", "tracestate")
            if name in request.headers
        }
        with self._tracer.start_as_current_span(
            request.method,
            context=_PROPAGATOR.extract(carrier) if carrier else None,
            kind=SpanKind.SERVER,
            attributes={
                "http.request.method": request.method,
                "facetd.request_id": request.request_id,
            },
            # A reader leaves a request to the owner by an exception: that is no error.
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            answer = await super().__call__(request)
            span.set_attribute("http.response.status_code", answer.status)
            if answer.status >= 500:
                span.set_status(Status(StatusCode.ERROR))
            return answer

    async def _answer(self, route: ServedRoute, request: Request) -> Response:
        """Name the span, then answer."""
        span = trace.get_current_span()
        span.update_name(route.name)
        span.set_attribute("http.route", route.path)
        if request.arguments and "{index}" in route.path:
            span.set_attribute("facetd.index", request.arguments[0])
        return await super()._answer(route, request)

    def stop(self) -> None:
        """Send the spans that have not been sent yet."""
        self._provider.shutdown()


class TracedReader(ReaderMiddleware, TracedMiddleware):
    """Answers the requests of a reader within a span each."""


def _trace_calls(cluster: Cluster, tracer: Tracer) -> None:
    """Have every call of a shard make a span."""
    for shard in cluster.shards:
        shard.on_call = partial(_note_call, tracer, shard.shard)


def _note_call(tracer: Tracer, shard: int, method: str, call: asyncio.Future[Any]) -> None:
    """Begin the span of a call, which ends with it."""
    span = tracer.start_span(
        f"shard {method}",
        kind=SpanKind.CLIENT,
        attributes={"rpc.system": "msgpack", "rpc.method": method, "facetd.shard": shard},
    )

    def end(call: asyncio.Future[Any]) -> None:
        error = None if call.cancelled() else call.exception()
        if error is not None:
            code = error.code if isinstance(error, ServiceError) else type(error).__name__
            span.set_attribute("error.type", code)
            span.set_status(Status(StatusCode.ERROR))
        span.end()

    call.add_done_callback(end)
