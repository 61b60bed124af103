"""Brings the catalog to the shards: whole with the handshake, later what has changed since.

    shard connects ─ whole catalog ─ has it changed meanwhile? ─no─▶ serves ◀─ changes ─ push
                          ▲─────────────────yes────────┘

A shard that does not take a change is disconnected: its next handshake brings it the whole catalog.
So a shard that serves has the newest catalog, or is being sent it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from common.errors import ServiceError
from common.process.logs import Log
from common.protocol.methods import CATALOG
from coordinator.catalog.catalog import Catalog
from coordinator.catalog.catalog_state import CatalogState
from coordinator.cluster.shard_client import ShardClient, ShardState

_log = Log("cluster")


class CatalogDelivery:
    """What each shard of this host has of the catalog.

    Args:
        catalog: sent to the shards.
        timeout_ms: in which a shard must apply it.
    """

    def __init__(self, catalog: Catalog, timeout_ms: int) -> None:
        self._catalog = catalog
        self._timeout_ms = timeout_ms
        self._push_lock = asyncio.Lock()
        self._taken: dict[int, CatalogState] = {}

    async def push(
        self, here: Mapping[int, ShardClient], arriving: Mapping[int, ShardClient]
    ) -> None:
        """Send all serving shards what has changed; return once they have applied it.

        A shard that is down, or goes down meanwhile, gets it with its next handshake.

        Args:
            here: the shards of this host.
            arriving: those that it is about to hold; they take it with their next handshake.
        """
        async with self._push_lock:
            for shard in arriving.values():
                shard.disconnect("it takes the catalog with its next handshake")
            serving = [one for one in here.values() if one.state is ShardState.SERVING]
            await asyncio.gather(*(self._push_to(shard) for shard in serving))

    async def _push_to(self, shard: ShardClient) -> None:
        message = self._catalog.message(self._taken.pop(shard.shard, None))
        state = self._catalog.state
        try:
            await shard.call(CATALOG, message, self._timeout_ms)
            self._taken[shard.shard] = state
        except ServiceError as error:
            _log.warning("catalog not taken", shard=shard.shard, reason=error.message)
            shard.disconnect("it did not take the catalog")

    async def begin_serving(self, shard: ShardClient) -> None:
        """Send a newly connected shard the whole catalog; let it serve once it has the newest."""
        while True:
            state = self._catalog.state
            await shard.call_opening(CATALOG, self._catalog.message(), self._timeout_ms)
            if self._catalog.state.revision == state.revision:
                self._taken[shard.shard] = state
                # From here on `push` reaches the shard: no await may come in between.
                shard.begin_serving()
                return
