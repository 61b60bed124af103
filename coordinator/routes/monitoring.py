"""The state of the service: health, readiness, metrics, statistics."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from common.errors import Unavailable
from common.process.glibc_malloc import resident_bytes
from coordinator.catalog.catalog import program_version
from coordinator.http.api_description.route import Route
from coordinator.http.prometheus_metrics import (
    ShardConnection,
    WorkInProgress,
    coordinator_families,
    exposition,
)
from coordinator.http.responses import Response, json_response
from coordinator.http.routing import RouteTable
from coordinator.http.security.api_keys import Action
from coordinator.routes.index_statistics import process_statistics

if TYPE_CHECKING:
    from coordinator.http.request import Request
    from coordinator.http.services import Services

READY_PING_MS: Final = 900
"""For the shards to say that they are well; load balancers wait a second for the answer."""
_METRICS_TYPE: Final = b"text/plain; version=0.0.4; charset=utf-8"


ROUTES: Final = RouteTable()


@ROUTES.add(
    Route(
        "GET",
        "/status",
        "Whether the service answers.",
        None,
        is_admitted=False,
        tag="operations",
        document={"answer": "Status"},
    ),
)
async def status(services: Services, request: Request) -> Response:
    """Answer `GET /status`."""
    return json_response({"status": "ok"})


@ROUTES.add(
    Route(
        "GET",
        "/_health",
        "Whether the coordinator is alive.",
        None,
        is_admitted=False,
        tag="operations",
        document={"answer": "Document"},
    ),
)
async def health(services: Services, request: Request) -> Response:
    """Answer `GET /_health`: this process is alive, whatever the state of the shards."""
    shown: dict[str, Any] = {
        "status": "ok",
        "version": program_version(),
        "uptime_s": int(services.metrics.uptime),
    }
    if services.shared_log is not None:
        state = services.shared_log.state
        is_admin = request.caller.may(Action.ADMIN)
        shown["replica"] = (state if is_admin else state.for_everyone)._asdict()
    return json_response(shown)


@ROUTES.add(
    Route(
        "GET",
        "/_ready",
        "Whether all shards serve.",
        None,
        is_admitted=False,
        tag="operations",
        document={"answer": "Document"},
    ),
)
async def ready(services: Services, request: Request) -> Response:
    """Answer `GET /_ready`: 200 if every shard serves and answers, asked now.

    A demo is not ready before its films are loaded, nor one of several hosts while searches of an
    index need a configuration that only the others have.
    """
    cluster = services.cluster
    if cluster.is_ready:
        cluster.check_serving()
    else:
        failed = cluster.failed_shards()
        if not cluster.readiness.has_started:
            raise Unavailable(
                cluster.starting.message(),
                code="starting",
                details={
                    "progress": cluster.starting.shown(),
                    "shards": {"total": cluster.num_shards, "failed": failed},
                },
            )
        raise Unavailable(
            f"shards {', '.join(map(str, failed))} of {cluster.num_shards} do not serve yet",
            code="starting",
            details={"shards": {"total": cluster.num_shards, "failed": failed}},
        )
    if silent := await cluster.silent_shards(READY_PING_MS):
        raise Unavailable(
            f"shards {', '.join(map(str, silent))} of {cluster.num_shards} do not answer",
            details={"shards": {"total": cluster.num_shards, "failed": silent}},
        )
    if services.shared_log is not None:
        services.shared_log.check_not_overtaken()
    if services.filled is not None and not services.filled.is_set():
        raise Unavailable("the service's first items are being loaded", code="starting")
    return json_response(
        {"status": "ready", "shards": {"total": cluster.num_shards, "ok": cluster.num_shards}}
    )


@ROUTES.add(
    Route(
        "GET",
        "/_metrics",
        "Metrics in Prometheus' text format.",
        Action.ADMIN,
        is_of_all_indexes=True,
        is_admitted=False,
        tag="operations",
        document={"answer": "Text"},
    ),
)
async def metrics(services: Services, request: Request) -> Response:
    """Answer `GET /_metrics` for Prometheus."""
    names = {index.number: index.name for index in services.catalog.indexes.values()}
    cluster = services.cluster
    shards = await process_statistics(services)
    waiting = WorkInProgress(
        shards=[ShardConnection(one.num_in_flight, one.epoch) for one in cluster.shards],
        writes=services.ingest.num_waiting(),
        states=cluster.horizons.num_states_in_use,
    )
    log = services.shared_log
    replica, num_away = (None, 0) if log is None else (log.state, log.peers.num_away)
    ours = coordinator_families(services.metrics, waiting, services.results, replica, num_away)
    text = await asyncio.to_thread(exposition, ours, services.settings.data_dir, shards, names)
    return Response(text, content_type=_METRICS_TYPE)


@ROUTES.add(
    Route(
        "GET",
        "/_stats",
        "Requests, shards, segments, slow searches.",
        Action.ADMIN,
        is_of_all_indexes=True,
        is_admitted=False,
        tag="operations",
        document={"answer": "Document"},
    ),
)
async def statistics(services: Services, request: Request) -> Response:
    """Answer `GET /_stats`: the figures on the dashboard's health page."""
    names = {index.number: index.name for index in services.catalog.indexes.values()}
    shards = []
    for shard, process in enumerate(await process_statistics(services)):
        if process is None:
            shards.append({"id": shard, "state": "away", "indexes": []})
            continue
        shards.append(
            {
                "id": shard,
                "state": "ready" if process.is_ready else "starting",
                "pid": process.pid,
                "memory_bytes": process.resident_bytes,
                "queue": process.queue_length,
                "corrupt_items": process.num_corrupt,
                "indexes": [
                    {
                        "name": names.get(number, str(number)),
                        "items": index.num_docs,
                        "segments": len(index.segments),
                        "bytes": index.bytes_on_disk,
                        "merging": index.is_merging,
                    }
                    for number, index in process.indexes
                ],
            }
        )
    return json_response(
        {
            "version": program_version(),
            "uptime_s": services.metrics.uptime,
            "requests": services.metrics.summary(),
            "connections": services.metrics.num_connections(),
            "writes_waiting": services.ingest.num_waiting(),
            "memory_bytes": resident_bytes(),
            "shards": shards,
            "slow_queries": list(reversed(services.slow_queries.latest)),
        }
    )
