"""Several hosts that share a log: status, comparison, removal."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from common.errors import Conflict, InvalidRequest, NotFound, Unavailable
from coordinator.http.api_description.route import Body, Route
from coordinator.http.responses import Response, json_response
from coordinator.http.routing import RouteTable
from coordinator.http.security.api_keys import Action
from coordinator.parameters.request_decoding import decode_object, refuse_unknown
from coordinator.replication.log.log_errors import LogAway

if TYPE_CHECKING:
    from coordinator.http.request import Request
    from coordinator.http.services import Services
    from coordinator.replication.shared_log import SharedLog


ROUTES: Final = RouteTable()


def _log_of(services: Services) -> SharedLog:
    """Return the log of several hosts.

    Raises:
        Conflict: this host is alone.
    """
    if services.shared_log is None:
        raise Conflict("this host shares no log with others", code="not_with_one_host")
    return services.shared_log


@ROUTES.add(
    Route(
        "GET",
        "/_cluster",
        "Several hosts: the log, and how each host is.",
        Action.ADMIN,
        is_of_all_indexes=True,
        is_admitted=False,
        tag="operations",
        document={"answer": "Document"},
    ),
)
async def cluster(services: Services, request: Request) -> Response:
    """Answer `GET /_cluster`: the log and all hosts that share it."""
    log = services.shared_log
    if log is None:
        return json_response({"log": None, "hosts": []})
    with suppress(LogAway):  # then the other hosts' states are as of their last reports
        await log.peers.ask(only_known=True)
    info = log.watch.info
    state = log.state
    shown: dict[str, Any] = {
        "is_up": state.is_log_up,
        "stream": services.settings.log_stream,
        "leader": state.leader,
        "first_seq": 0 if info is None else info.first_seq,
        "last_seq": state.last_seq,
        "bytes": 0 if info is None else info.num_bytes,
        "servers": [] if info is None else [server._asdict() for server in info.servers],
        "addresses": log.addresses,
    }
    document: dict[str, Any] = {"log": shown, "hosts": log.peers.shown()}
    if log.placement is not None:
        document["placement"] = log.placement.shown
    return json_response(document)


@ROUTES.add(
    Route(
        "POST",
        "/_cluster/compare",
        "Several hosts: compare the contents of all, item by item, in the background.",
        Action.ADMIN,
        is_of_all_indexes=True,
        is_change=True,
        tag="operations",
        document={"answer": "Document"},
    ),
)
async def compare(services: Services, request: Request) -> Response:
    """Answer `POST /_cluster/compare`: all hosts compare their contents, in the background."""
    return json_response({"seq": await _log_of(services).compare()})


@ROUTES.add(
    Route(
        "POST",
        "/_cluster/shards",
        "Several hosts that hold some shards each: move a shard, add or remove a copy of it.",
        Action.ADMIN,
        is_of_all_indexes=True,
        body=Body.JSON,
        is_change=True,
        tag="operations",
        document={"body": "ShardMove", "answer": "Document"},
    ),
)
async def move_shard(services: Services, request: Request) -> Response:
    """Answer `POST /_cluster/shards`: hosts take a shard and give it up, in the background."""
    document = decode_object(request.body, services.settings.limits)
    refuse_unknown(document, ("shard", "from", "to"))
    shard = document.get("shard")
    if not isinstance(shard, int) or isinstance(shard, bool):
        raise InvalidRequest(
            "shard must be the number of a shard", code="invalid_placement", param="shard"
        )
    names = [document.get(key) or "" for key in ("from", "to")]
    if not all(isinstance(name, str) for name in names):
        raise InvalidRequest("from and to must be names of hosts", code="invalid_placement")
    placement = _log_of(services).placement
    if placement is None:
        raise InvalidRequest(
            "each of these hosts holds all shards: there is none to move", code="invalid_placement"
        )
    await placement.move(shard, *names)
    return json_response(placement.shown)


@ROUTES.add(
    Route(
        "DELETE",
        "/_cluster/hosts/{host}",
        "Several hosts: forget one that is gone, by its name.",
        Action.ADMIN,
        is_of_all_indexes=True,
        is_change=True,
        tag="operations",
        document={"answer": "Document"},
    ),
)
async def remove_host(services: Services, request: Request) -> Response:
    """Answer `DELETE /_cluster/hosts/{host}`: stop waiting for a host that is gone."""
    log = _log_of(services)
    wanted = request.arguments[0]
    heard = [one for one in log.peers.shown() if wanted in (one["host"], one["name"])]
    # The table has hosts of which nothing was heard since the start of this one, or for a day.
    placed = [] if log.placement is None else log.placement.hosts_called(wanted)
    if not heard and not placed:
        known = ", ".join(sorted(one["name"] for one in log.peers.shown()))
        raise NotFound(f"there is no host {wanted!r}; there are {known}", code="host_not_found")
    away = [one for one in heard if one["is_away"]]
    answering = {one["host"] for one in heard if not one["is_away"]}
    gone = {one["host"] for one in away}
    gone |= {one.row.host for one in placed if one.is_gone} - answering
    if not gone:
        raise Conflict(
            f"{wanted!r} still answers: stop facetd there, and wait ten seconds",
            code="host_in_use",
        )
    try:
        if log.placement is not None:  # first: if that fails, the host is still known
            await log.placement.forget(frozenset(gone | {one["name"] for one in away}))
        for host in gone:
            await log.peers.forget(host)
    except LogAway as error:
        raise Unavailable(f"{error}; try again shortly", code="log_unavailable") from error
    return json_response({"removed": sorted(gone)})
