"""Dispatches write groups to the writers of their indexes."""

from __future__ import annotations

import asyncio
from functools import partial

from common.process.uncancelled_waiting import result_of
from common.protocol.messages import (
    ApplyRequest,
    ApplyResponse,
    JoinedGroups,
    OutcomesRequest,
    OutcomesResponse,
)
from shard.indexes.indexes import Indexes
from shard.indexes.open_index import OpenIndex


class WriteDispatcher:
    """Applies write groups on the writer's thread of their index.

    Args:
        indexes: of the shard.
    """

    def __init__(self, indexes: Indexes) -> None:
        self._indexes = indexes

    async def apply(self, request: ApplyRequest | JoinedGroups) -> ApplyResponse:
        """Apply a write group, or several as one; cancelling the caller does not stop it."""
        with self._indexes.open.using(await self._indexes.opened(request.index)) as index:
            done = index.submit(partial(self._apply, index, request))
            return await result_of(asyncio.wrap_future(done))

    def _apply(self, index: OpenIndex, request: ApplyRequest | JoinedGroups) -> ApplyResponse:
        """Apply groups on the writer's thread, and tell the merge scheduler of the new state.

        Also if the caller is gone, or an error comes after that.
        """
        partition = index.partition
        seq = partition.newest.seq
        try:
            return index.writer.apply(request)
        finally:
            if partition.newest.seq > seq:
                self._indexes.merge_scheduler.notify(partition.number)

    async def outcomes(self, request: OutcomesRequest) -> OutcomesResponse:
        """Return what became of a write group, once the earlier ones are finished."""
        with self._indexes.open.using(await self._indexes.opened(request.index)) as index:
            outcomes = index.submit(partial(index.writer.outcomes_of, request.seq))
            return await asyncio.wrap_future(outcomes)
