"""Reads the log, and applies its entries in order.

Groups of one index are applied in order, those that are waiting in one commit; those of different
indexes concurrently. A change of the catalog waits for all groups before it, and all groups after
it wait for the change.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from typing import Final

from common.deadline import Deadline
from common.errors import Unavailable
from common.process.logs import Log
from coordinator.replication.applying.cross_host_outcomes import CrossHostGroups
from coordinator.replication.applying.entry_applying import Applier, ReplicaStopped
from coordinator.replication.applying.write_groups_to_join import Step, WaitingGroup, WaitingGroups
from coordinator.replication.following.comparison_schedule import ComparisonScheduler
from coordinator.replication.following.gapless_message_reader import follow
from coordinator.replication.host.host_background_tasks import HostTasks
from coordinator.replication.host.host_context import HostContext
from coordinator.replication.host.pending_changes import PendingChange, PendingChanges
from coordinator.replication.host.replica_file import Position
from coordinator.replication.log.log_entries import (
    ComparisonMark,
    HostReport,
    Kind,
    WriteGroup,
    decode_entry,
)
from coordinator.replication.log.log_stream import StreamMessage
from coordinator.replication.log.long_entries import Pieces, divided
from coordinator.replication.publishing.catalog_changes import CatalogChanges
from coordinator.write.deleted_index_checks import index_deleted

UNDER_WAY_BYTES_MAX: Final = 64 << 20
UNDER_WAY_MAX: Final = 256
"""Entries in progress; at either bound, reading pauses until one is applied."""

_log = Log("replica")


class Follower:
    """Applies the entries of all hosts on this one.

    Args:
        host: this one.
        applier: applies on shards.
        own: changes of this host that are under way.
        changes: puts changes of the catalog in force.
        comparisons: takes part in them.
        cross_host_groups: applies groups where each host holds some shards; else None.
        tasks: keeps what runs in the background.
    """

    def __init__(
        self,
        host: HostContext,
        applier: Applier,
        own: PendingChanges,
        changes: CatalogChanges,
        comparisons: ComparisonScheduler,
        cross_host_groups: CrossHostGroups | None,
        tasks: HostTasks,
    ) -> None:
        self._host = host
        self._serving = host.serving
        self._tasks = tasks
        self._running: asyncio.Task[None] | None = None
        self._applier = applier
        self._own = own
        self._changes = changes
        self._comparisons = comparisons
        self._cross_host_groups = cross_host_groups
        self._steps: deque[Step] = deque()
        self._num_bytes = 0
        self._pieces = Pieces(host.stream)
        self._gate = asyncio.Lock()
        self._waiting: dict[int, WaitingGroups] = {}
        self._applying: dict[int, asyncio.Task[None]] = {}
        self._has_progressed = asyncio.Event()

    async def run(self, position: Position) -> None:
        """Apply everything after a position.

        Raises:
            LogBroken: the log lacks entries that it had, or the next one.
            EntryError: an entry cannot be read.
            ReplicaStopped: an entry can never be applied here.
        """
        self._running = asyncio.current_task()
        async with aclosing(follow(self._host.stream, position)) as messages:
            async for message in messages:
                while self._num_bytes > UNDER_WAY_BYTES_MAX or len(self._steps) > UNDER_WAY_MAX:
                    await self._next_progress()
                async with self._gate:
                    await self._take(message)

    def stop(self, reason: str) -> None:
        """Stop serving, because an entry can never be applied here, or what is here differs."""
        self._serving.stop(reason)
        if self._running is not None:
            self._running.cancel()

    async def close(self) -> None:
        """Stop applying."""
        applying = list(self._applying.values())
        for waiting in self._waiting.values():
            waiting.cancel()
        for task in applying:
            task.cancel()
        await asyncio.gather(*applying, return_exceptions=True)

    @asynccontextmanager
    async def paused(self) -> AsyncIterator[None]:
        """Apply nothing for the body of a `with`; all up to the position is applied."""
        async with self._gate:
            await self._all_applied()
            yield

    async def _take(self, message: StreamMessage) -> None:
        """Begin to apply the next entry; a change of the catalog is applied before this returns."""
        entry = decode_entry(message.content)
        step = Step(message.seq, message.stored_at, len(message.content))
        self._steps.append(step)
        self._num_bytes += step.num_bytes
        if entry.kind == Kind.PIECE:
            self._pieces.keep(message.seq, entry.content)
            self._finish(step)
            return
        content, num_bytes = await self._pieces.unpacked(entry)
        self._num_bytes += num_bytes - step.num_bytes
        step.num_bytes = num_bytes
        if isinstance(content, WriteGroup):
            self._add(step, entry.id, content)
        elif isinstance(content, ComparisonMark):
            await self._all_applied()
            self._comparisons.mark(step.seq)
            self._finish(step)
        elif isinstance(content, HostReport):
            self._comparisons.comparer.take(content)
            self._finish(step)
        else:
            await self._all_applied()
            is_adopted = await self._changes.adopt(step.seq, content)
            own = self._own.pop(entry.id, None)
            self._finish(step)
            if own is not None:
                if self._cross_host_groups is not None:
                    self._tasks.start(self._answer_when_shown(step.seq, own, is_adopted))
                else:
                    own.conclude(is_adopted)

    async def _answer_when_shown(self, seq: int, own: PendingChange, is_adopted: bool) -> None:
        """Answer a change of the catalog once searches see it."""
        with suppress(Unavailable):
            await self._serving.wait_for(
                seq, Deadline.after_ms(self._host.settings.configure_timeout_ms)
            )
        own.conclude(is_adopted)

    def _add(self, step: Step, id: str, group: WriteGroup) -> None:
        """Apply a group after those of its index that are waiting."""
        settings = self._host.settings
        index = group.index
        dividing = asyncio.create_task(divided(group, self._host.cluster.num_shards, step.seq))
        waiting = self._waiting.get(index)
        if waiting is None:
            groups_max = UNDER_WAY_MAX if self._cross_host_groups is None else 1
            waiting = self._waiting[index] = WaitingGroups(
                groups_max, settings.group_bytes, settings.group_operations
            )
        waiting.add(WaitingGroup(step, id, group, dividing))
        if index not in self._applying:
            task = asyncio.create_task(self._apply_waiting(index, waiting))
            self._applying[index] = task
            task.add_done_callback(self._ended)

    async def _apply_waiting(self, index: int, waiting: WaitingGroups) -> None:
        """Apply the groups of an index for as long as some are waiting."""
        while waiting:
            await self._apply(index, await waiting.take())
        del self._waiting[index], self._applying[index]
        self._has_progressed.set()

    async def _apply(self, index: int, groups: Sequence[WaitingGroup]) -> None:
        """Apply groups of an index on all shards concerned, however often that fails."""
        if not self._host.catalog.state.has(index):
            for one in groups:
                if one.id in self._own:
                    for batch in self._own[one.id].batches:
                        batch.fail(index_deleted())
        elif self._cross_host_groups is not None:
            for one in groups:
                await self._cross_host_groups.apply(one.divided, one.id, self._own.get(one.id))
                self._finish(one.step)
            return
        else:
            settled = self._serving.position.seq
            found = await self._applier.apply([one.divided for one in groups], settled)
            self._host.cluster.horizons.advance(index, groups[-1].seq)
            for one, (outcomes, text_ids) in zip(groups, found, strict=True):
                if one.id in self._own:
                    self._own[one.id].settle(one.seq, outcomes, text_ids)
        for one in groups:
            own = self._own.pop(one.id, None)
            if own is not None:
                own.conclude()
            self._finish(one.step)

    def _ended(self, task: asyncio.Task[None]) -> None:
        """Stop this host if the groups of an index cannot be applied."""
        error = None if task.cancelled() else task.exception()
        if error is None:
            return
        if not isinstance(error, ReplicaStopped):
            _log.error("applying failed", cause=error)
        self.stop(str(error) or type(error).__name__)

    def _finish(self, step: Step) -> None:
        """Note that an entry is applied; move the position past all that are, in order."""
        step.is_done = True
        self._num_bytes -= step.num_bytes
        position = self._serving.position
        while self._steps and self._steps[0].is_done:
            first = self._steps.popleft()
            position = Position(first.seq, first.stored_at)
        if position is not self._serving.position:
            self._serving.advance_to(position)
        self._has_progressed.set()

    async def _next_progress(self) -> None:
        self._has_progressed.clear()
        await self._has_progressed.wait()

    async def _all_applied(self) -> None:
        """Return when no group is being applied."""
        while self._applying:
            await self._next_progress()
