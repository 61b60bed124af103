"""Snapshots of all indexes: make, list, restore, remove."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from common.deadline import Deadline
from common.disk_errors import explaining_disk_failure
from common.errors import Conflict, Forbidden, InvalidRequest
from coordinator.catalog.index_names import check_index_name
from coordinator.http.api_description.route import Body, Route
from coordinator.http.responses import Response, json_response
from coordinator.http.routing import RouteTable
from coordinator.http.security.api_keys import Action
from coordinator.parameters.request_decoding import decode_object, refuse_unknown
from coordinator.snapshots import snapshots_on_disk
from coordinator.snapshots.restore_plan import plan_restore

if TYPE_CHECKING:
    from coordinator.http.request import Request
    from coordinator.http.services import Services
    from coordinator.snapshots.snapshots_on_disk import ServiceSnapshot

ROUTES: Final = RouteTable()


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
    name = snapshots_on_disk.check_name(document.get("name"))
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
    with explaining_disk_failure("no snapshots can be listed", services.settings.snapshot_disk):
        found = await asyncio.to_thread(snapshots_on_disk.list_snapshots, folder)
    return json_response({"snapshots": [_shown_snapshot(one) for one in found]})


@ROUTES.add(
    Route(
        "POST",
        "/_snapshots/{name}/restore",
        "Create indexes from a snapshot, under their names or others: all or none.",
        Action.ADMIN,
        body=Body.JSON,
        is_change=True,
        tag="operations",
        document={"body": "RestoredIndexes", "answer": "Document"},
    ),
)
async def restore_snapshot(services: Services, request: Request) -> Response:
    """Answer `POST /_snapshots/{name}/restore`: creates new indexes from a snapshot."""
    name = snapshots_on_disk.check_name(request.arguments[0])
    limits = services.settings.limits
    wanted, renamed = _selection(decode_object(request.body, limits) if request.body else {})
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
    with explaining_disk_failure("nothing was restored", services.settings.snapshot_disk):
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


def _selection(document: dict[str, Any]) -> tuple[list[str] | None, dict[str, str]]:
    """Return the indexes to restore (None: all), and the new names of some of them.

    Raises:
        InvalidRequest: code invalid_body.
    """
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
    return wanted, renamed


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
    name = snapshots_on_disk.check_name(request.arguments[0])
    folder = services.settings.snapshot_folder

    async def remove() -> None:
        sources = [one.source for one in services.catalog.state.indexes if one.source is not None]
        if any(source.folder == str(folder / name) for source in sources):
            raise Conflict(
                f"an index is being restored from snapshot {name!r}; wait for all shards",
                code="snapshot_in_use",
            )
        left = "some files of the snapshot may be left"
        with explaining_disk_failure(left, services.settings.snapshot_disk):
            mark = services.snapshot_maker.mark
            await asyncio.to_thread(snapshots_on_disk.remove_snapshot, folder, name, mark)

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
