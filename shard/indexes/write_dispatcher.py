"""Dispatches write groups to the writers of their indexes, and tells what became of them."""

from __future__ import annotations

import asyncio
import contextlib
from functools import partial

from common.errors import NotFound
from common.process.uncancelled_waiting import result_of
from common.protocol.messages import (
    ApplyRequest,
    ApplyResponse,
    GroupExtent,
    JoinedGroups,
    OutcomesRequest,
    OutcomesResponse,
)
from shard.indexes.indexes import Indexes
from shard.indexes.open_index import OpenIndex
from shard.partition.partition import Partition
from shard.storage.group_log_and_tombstones import read_state
from shard.storage.newest_group_extent import read_extent


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

    async def newest(self, after: int) -> list[GroupExtent]:
        """Return the newest group of each index that has one after a seq."""
        indexes = self._indexes
        numbers = {number for number, one in indexes.closed.items() if one.seq_max > after}
        numbers.update(index.partition.number for index in indexes.open.all())
        numbers.update(indexes.opening.numbers(), indexes.closing.numbers())
        found = []
        for number in sorted(numbers):
            with (
                contextlib.suppress(NotFound),  # it was dropped meanwhile
                indexes.open.using(await indexes.opened(number)) as index,
            ):
                if index.partition.state.seq_max > after:
                    found.append(_newest_group(index.partition))
        return found

    def kept_from(self) -> int:
        """Return the oldest state that is available of all indexes, closed ones as they are."""
        closed = [one.seq_max for _, one in self._indexes.closed.items()]
        open_ones = [one.partition.kept_from for one in self._indexes.open.all()]
        return max((*closed, *open_ones), default=0)


def _newest_group(partition: Partition) -> GroupExtent:
    """Return the newest group of an index, with its extent if that is known."""
    with partition.environment.read() as txn:
        seq, extent = read_state(txn).seq_max, read_extent(txn)
    if extent is None or extent.seq != seq:
        return GroupExtent(partition.number, seq, 0, seq, ())
    return GroupExtent(partition.number, *extent)
