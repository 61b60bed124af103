"""Operations: health, readiness, metrics, statistics, keys, documentation."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from common.data_directory import explaining_disk_failure
from common.deadline import Deadline
from common.errors import Conflict, Forbidden, InvalidRequest, Unavailable
from common.process.memory import resident_bytes
from coordinator.cluster import snapshots
from coordinator.cluster.catalog import program_version
from coordinator.cluster.index_names import check_index_name
from coordinator.cluster.restore_plan import plan_restore
from coordinator.http.api_keys import (
    Action,
    add_key,
    remove_key,
    shown_key,
    visible_keys,
)
from coordinator.http.exposition import WorkInProgress, coordinator_families, exposition
from coordinator.http.responses import Response, json_response
from coordinator.http.route import Body, Route
from coordinator.http.routing import RouteTable
from coordinator.parameters.raw import decode_object
from coordinator.routes.index_statistics import process_statistics
from coordinator.routes.items import refuse_unknown
from coordinator.routes.pages import PAGE_HEADERS, without_slash

if TYPE_CHECKING:
    from coordinator.cluster.snapshots import ServiceSnapshot
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

    A demo is not ready before its films are loaded.
    """
    cluster = services.cluster
    if cluster.is_ready:
        cluster.check_serving()
    else:
        failed = cluster.failed_shards()
        if not cluster.admission.has_started:
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
    if services.filled is not None and not services.filled.is_set():
        raise Unavailable("the service's first items are being loaded", code="starting")
    return json_response(
        {"status": "ready", "shards": {"total": cluster.num_shards, "ok": cluster.num_shards}}
    )


@ROUTES.add(
    Route(
        "GET",
        "/_metrics",
        "Numbers for Prometheus.",
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
        calls=[shard.num_in_flight for shard in cluster.shards],
        writes=services.ingest.num_waiting(),
        states=cluster.horizons.num_states_in_use,
    )
    log = services.shared_log
    replica, num_away = (None, 0) if log is None else (log.state, log.peers.num_away)
    ours = coordinator_families(services.metrics, waiting, services.results, replica, num_away)
    text = await asyncio.to_thread(exposition, ours, shards, names)
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


# --- snapshots


@ROUTES.add(
    Route(
        "POST",
        "/_snapshots",
        "Copy all indexes as of this moment into the folder of snapshots; writes go on.",
        Action.ADMIN,
        is_of_all_indexes=True,
        body=Body.JSON,
        is_change=True,
        tag="operations",
        document={"body": "NewSnapshot", "answer": "Document"},
    ),
)
async def create_snapshot(services: Services, request: Request) -> Response:
    """Answer `POST /_snapshots`: a copy of all indexes as of this moment."""
    document = decode_object(request.body, services.settings.limits)
    refuse_unknown(document, ("name",))
    name = snapshots.check_name(document.get("name"))
    settings = services.settings
    # Large data takes long to copy, so the deadline is that of configuring.
    deadline = Deadline.after_ms(settings.configure_timeout_ms)
    log = services.shared_log
    if log is not None and log.placement is not None:
        snapshot = await log.placement.collector.make_snapshot(name, deadline)
    else:
        make = partial(services.snapshot_maker.make, name)
        snapshot = await services.administration.while_unchanged(make, deadline)
    folder = settings.snapshot_folder / name
    return json_response({**_shown_snapshot(snapshot), "directory": str(folder)})


@ROUTES.add(
    Route(
        "GET",
        "/_snapshots",
        "All snapshots that are complete.",
        Action.ADMIN,
        is_of_all_indexes=True,
        tag="operations",
        document={"answer": "Document"},
    ),
)
async def list_snapshots(services: Services, request: Request) -> Response:
    """Answer `GET /_snapshots`: the complete ones, oldest first."""
    folder = services.settings.snapshot_folder
    found = await asyncio.to_thread(snapshots.list_snapshots, folder)
    return json_response({"snapshots": [_shown_snapshot(one) for one in found]})


@ROUTES.add(
    Route(
        "POST",
        "/_snapshots/{name}/restore",
        "Make new indexes of those in a snapshot, under their names or others; all or nothing.",
        Action.ADMIN,
        body=Body.JSON,
        is_change=True,
        tag="operations",
        document={"body": "RestoredIndexes", "answer": "Document"},
    ),
)
async def restore_snapshot(services: Services, request: Request) -> Response:
    """Answer `POST /_snapshots/{name}/restore`: creates new indexes from a snapshot."""
    name = snapshots.check_name(request.arguments[0])
    limits = services.settings.limits
    document = decode_object(request.body, limits) if request.body else {}
    refuse_unknown(document, ("indexes", "rename"))
    wanted, renamed = document.get("indexes"), document.get("rename")
    renamed = {} if renamed is None else renamed
    if wanted is not None and not (wanted and _is_names(wanted)):
        raise InvalidRequest(
            "indexes must be a list of names of the snapshot's indexes, each once",
            code="invalid_body",
            param="indexes",
        )
    if not isinstance(renamed, dict) or not _is_names(list(renamed.values())):
        raise InvalidRequest(
            'rename must be an object of names: {"films": "films-monday"}, no two of them alike',
            code="invalid_body",
            param="rename",
        )
    if wanted is not None and not renamed.keys() <= set(wanted):
        raise InvalidRequest(
            "rename names an index that indexes does not", code="invalid_body", param="rename"
        )
    caller = request.caller
    if caller.indexes is not None:
        if wanted is None:
            raise Forbidden(
                "the API key is for some indexes only; name those to restore in indexes"
            )
        for used in (*wanted, *renamed.values()):
            services.guard.check_index(caller, used)
    folder = services.settings.snapshot_folder / name
    num_shards = services.cluster.num_shards
    plan = await asyncio.to_thread(
        plan_restore, folder, renamed, wanted, num_shards, caller.may_use
    )
    for one in plan:
        check_index_name(one.name, limits)
        services.guard.check_index(caller, one.name)
    if len({one.name for one in plan}) < len(plan):
        raise InvalidRequest(
            "two indexes would get the same name", code="invalid_body", param="rename"
        )
    # Large data takes long to restore, so the deadline is that of configuring.
    await services.administration.restore(
        plan, Deadline.after_ms(services.settings.configure_timeout_ms)
    )
    indexes = [{"name": one.name, "from": one.former_name} for one in plan]
    return json_response({"status": "restored", "snapshot": name, "indexes": indexes})


def _is_names(names: object) -> bool:
    """Whether this is a list of distinct texts."""
    return (
        isinstance(names, list)
        and all(isinstance(one, str) for one in names)
        and len(set(names)) == len(names)
    )


@ROUTES.add(
    Route(
        "DELETE",
        "/_snapshots/{name}",
        "Remove a snapshot.",
        Action.ADMIN,
        is_of_all_indexes=True,
        is_change=True,
        tag="operations",
        document={"answer": "Document"},
    ),
)
async def delete_snapshot(services: Services, request: Request) -> Response:
    """Answer `DELETE /_snapshots/{name}`."""
    name = snapshots.check_name(request.arguments[0])
    folder = services.settings.snapshot_folder

    async def remove() -> None:
        sources = [one.source for one in services.catalog.state.indexes if one.source is not None]
        if any(source.folder == str(folder / name) for source in sources):
            raise Conflict(
                f"an index is being restored from snapshot {name!r}; wait for all shards",
                code="snapshot_in_use",
            )
        with explaining_disk_failure("some files of the snapshot may be left"):
            await asyncio.to_thread(snapshots.remove_snapshot, folder, name)

    # Not while a snapshot is being made: that removes unfinished ones.
    deadline = Deadline.after_ms(services.settings.configure_timeout_ms)
    await services.administration.while_unchanged(remove, deadline)
    return json_response({"status": "deleted", "name": name})


def _shown_snapshot(snapshot: ServiceSnapshot) -> dict[str, Any]:
    """Return a snapshot as clients see it."""
    return {
        "name": snapshot.name,
        "created_at": snapshot.created_at,
        "bytes": snapshot.num_bytes,
        "indexes": [{"name": index.name, "seq": index.seq} for index in snapshot.indexes],
    }


# --- keys


@ROUTES.add(
    Route(
        "GET",
        "/_keys",
        "All API keys, without their secrets.",
        Action.ADMIN,
        tag="operations",
        document={"answer": "Document"},
    ),
)
async def list_keys(services: Services, request: Request) -> Response:
    """Answer `GET /_keys`: keys within the caller's indexes, without secrets."""
    keys = visible_keys(services.catalog, request.caller)
    return json_response({"keys": [shown_key(id_, key) for id_, key in keys.items()]})


@ROUTES.add(
    Route(
        "POST",
        "/_keys",
        "Make an API key; the answer is the only place where it can be read.",
        Action.ADMIN,
        body=Body.JSON,
        is_change=True,
        tag="operations",
        document={"body": "NewKey", "answer": "Document"},
    ),
)
async def create_key(services: Services, request: Request) -> Response:
    """Answer `POST /_keys`: the only response that ever contains the key itself."""
    shown, token = await add_key(
        services.catalog,
        decode_object(request.body, services.settings.limits),
        services.settings.limits,
        request.caller,
    )
    return json_response({**shown, "key": token}, headers=b"Cache-Control: no-store\r\n")


@ROUTES.add(
    Route(
        "DELETE",
        "/_keys/{id}",
        "Remove an API key.",
        Action.ADMIN,
        is_change=True,
        tag="operations",
        document={"answer": "Document"},
    ),
)
async def delete_key(services: Services, request: Request) -> Response:
    """Answer `DELETE /_keys/{id}`."""
    id_ = request.arguments[0]
    await remove_key(services.catalog, id_, request.caller, keeps_last=services.settings.is_exposed)
    return json_response({"status": "deleted", "id": id_})


# --- documentation


@ROUTES.add(
    Route(
        "GET",
        "/_openapi.json",
        "This interface as an OpenAPI document.",
        None,
        tag="operations",
        document={"answer": "Document"},
    ),
)
async def openapi_document(services: Services, request: Request) -> Response:
    """Answer `GET /_openapi.json`."""
    return Response(services.interface.json)


@ROUTES.add(
    Route(
        "GET",
        "/_docs",
        "This interface to be read by people.",
        None,
        tag="operations",
        document={"answer": "Page"},
    ),
)
async def documentation(services: Services, request: Request) -> Response:
    """Answer `GET /_docs`: the API for people; needs no internet access."""
    return without_slash(request) or Response(
        services.interface.page,
        content_type=b"text/html; charset=utf-8",
        headers=PAGE_HEADERS,
    )
