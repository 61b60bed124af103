"""Serves other hosts: reads of the shards that this host holds, and its progress.

    host b ──TLS, hello──▶ peer server ──▶ shard 0, 1, 2, 3 of this host

A read names its shard in the method: `search/3`. Only reads pass: all changes come from the log. A
read of a state that this host has not applied yet waits for it.
"""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import Awaitable
from dataclasses import replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final

from common.deadline import CALL_DEADLINE, NEVER, Deadline
from common.errors import ConfigurationSwitched, Unavailable
from common.protocol.authentication import Authenticator
from common.protocol.client import DEFAULT_TIMEOUT_MS
from common.protocol.messages import (
    ApplyResponse,
    GroupOutcomesRequest,
    HostProgress,
    OtherProgress,
    Welcome,
)
from common.protocol.methods import (
    FACET_VALUES,
    FETCH,
    FIELD_NAMES,
    GET,
    GROUP_OUTCOMES,
    INDEX_STATISTICS,
    PING,
    POSITIONS,
    PROCESS_STATISTICS,
    PROGRESS,
    SEARCH,
    STATISTICS,
    TERMS,
    Method,
)
from common.protocol.server import Handler, RpcServer

if TYPE_CHECKING:
    from coordinator.cluster.shard_client import ShardClient
    from coordinator.cluster.shard_copies import PlacedShards
    from coordinator.replication.applying.cross_host_outcomes import CrossHostGroups
    from coordinator.replication.host.host_context import HostContext

WHOLE_HOST: Final = -1
"""Instead of a shard's ordinal in `hello`: the call is to the whole host."""
ANSWER_SECONDS: Final = 0.2
"""Time within which a host reports its progress, even if there is none."""
PAUSE_SECONDS: Final = 0.01
"""Minimum interval between two reports of a host that applies all the time."""
WAIT_MS: Final = 2_000
"""Time limit of a read that waits for a state that is not there yet."""

READS: Final[tuple[Method[Any, Any], ...]] = (
    PING,
    STATISTICS,
    TERMS,
    SEARCH,
    FETCH,
    GET,
    FIELD_NAMES,
    FACET_VALUES,
    POSITIONS,
    INDEX_STATISTICS,
    PROCESS_STATISTICS,
)


@cache
def method_of(method: Method[Any, Any], shard: int) -> Method[Any, Any]:
    """Return a method of one shard, as it is called on the host that holds it."""
    return replace(method, name=f"{method.name}/{shard}")


class PeerServer:
    """Serves the shards of this host to others.

    Args:
        host: this one.
        placed: which host has which shard.
        groups: knows the outcomes of recent ones.
    """

    def __init__(self, host: HostContext, placed: PlacedShards, groups: CrossHostGroups) -> None:
        self._cluster = host.cluster
        self._placed = placed
        self._catalog = host.catalog
        self._serving = host.serving
        self._groups = groups
        self._numbers: frozenset[int] = frozenset()
        self._server: RpcServer | None = None
        host.catalog.on_change(self._note_indexes)
        self._note_indexes()

    def _note_indexes(self) -> None:
        self._numbers = frozenset(index.number for index in self._catalog.indexes.values())

    async def start(self, secret: str, host: str, port: int, tls: ssl.SSLContext | None) -> int:
        """Listen; return the port.

        Args:
            secret: that all hosts know.
            host: to listen on.
            port: to listen on; 0 takes a free one.
            tls: encrypts; None: nothing does.

        Raises:
            OSError: cannot listen there.
        """
        cluster = self._cluster
        handlers: list[Handler[Any, Any]] = [
            Handler(PROGRESS, self._progress),
            Handler(GROUP_OUTCOMES, self._outcomes),
        ]
        handlers += [
            Handler(method_of(method, shard), partial(self._read, shard, method))
            for shard in range(cluster.num_shards)
            for method in READS
        ]
        self._server = RpcServer(
            handlers,
            Authenticator(
                secret=secret,
                shard=WHOLE_HOST,
                num_shards=cluster.num_shards,
                make_welcome=lambda: Welcome(pid=os.getpid(), seq_max=self._serving.position.seq),
            ),
        )
        return await self._server.listen(host, port, tls)

    async def stop(self) -> None:
        """Close all connections."""
        if self._server is not None:
            await self._server.close()

    def _read(
        self, shard: int, method: Method[Any, Any], params: Any
    ) -> asyncio.Future[Any] | Awaitable[Any]:
        """Pass a read on to a shard of this host."""
        if self._cluster.local_shards.is_stopped:
            raise Unavailable(
                "the host that holds the shard has stopped: its data differ from the others'"
            )
        index = getattr(params, "index", None)
        if index is not None and index not in self._numbers:
            raise ConfigurationSwitched(
                "the host that holds a shard has no such index yet, or any more"
            )
        horizon = getattr(params, "horizon", None)
        if horizon is not None:
            kept_from = self._cluster.local_shards.readable_from(shard)
            if kept_from is None or horizon < kept_from:
                raise Unavailable(f"shard {shard} no longer has the state {horizon} on this host")
        if horizon is not None and horizon > self._serving.applied_seq:
            return self._read_later(shard, method, params)
        return self._call_here(shard, method, params)

    def _here(self, shard: int) -> ShardClient:
        """Return a shard of this host.

        Raises:
            Unavailable: it is not one.
        """
        client = self._cluster.here.get(shard)
        if client is None:
            raise Unavailable(f"shard {shard} is not on this host any more")
        return client

    def _call_here(self, shard: int, method: Method[Any, Any], params: Any) -> asyncio.Future[Any]:
        """Call a shard of this host, which learns if the other host gives the call up."""
        client = self._here(shard)
        call = client.call(method, params, _remaining_ms())

        def give_up(call: asyncio.Future[Any]) -> None:
            if call.cancelled():
                client.give_up_cancelled()

        call.add_done_callback(give_up)
        return call

    async def _read_later(self, shard: int, method: Method[Any, Any], params: Any) -> Any:
        deadline = Deadline.after_ms(min(WAIT_MS, _remaining_ms()))
        await self._serving.wait_applied(params.horizon, deadline)
        return await self._call_here(shard, method, params)

    async def _outcomes(self, request: GroupOutcomesRequest) -> ApplyResponse:
        """Return the outcomes of a group on a shard, once all up to it is applied here."""
        await self._serving.wait_applied(request.seq, Deadline.after_ms(_remaining_ms()))
        return await self._groups.outcomes_here(request.index, request.seq, request.shard)

    async def _progress(self, request: HostProgress) -> OtherProgress:
        """Keep the states that the other host needs; report progress once there is some."""
        if request.held >= 0:
            self._placed.hold(request.address, request.held)
        known = (request.applied, request.prepared)
        own = self._cluster.local_shards
        await asyncio.sleep(PAUSE_SECONDS)
        if (own.applied, own.prepared) == known:
            await self._placed.changed_within(ANSWER_SECONDS)
        serving = {
            shard: kept_from
            for shard in self._cluster.here
            if (kept_from := own.kept_from(shard)) is not None
        }
        return OtherProgress(own.applied, own.prepared, serving)


def _remaining_ms() -> int:
    """Return how much longer the caller waits."""
    deadline = CALL_DEADLINE.get()
    return DEFAULT_TIMEOUT_MS if deadline is NEVER else max(1, deadline.remaining_ms)
