"""Outcomes of groups whose shards several hosts hold: applies our parts, asks for the others'.

A request is answered when one copy of every shard that it changes has synced it, and searches on
this host see it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from common.deadline import NEVER
from common.errors import ServiceError, Unavailable
from common.protocol.messages import ApplyResponse, OutcomesRequest
from common.protocol.methods import OUTCOMES
from coordinator.cluster.shard_copies import PlacedShards
from coordinator.replication.applying.entry_applying import Applier
from coordinator.replication.applying.joined_write_groups import DividedGroup, joined
from coordinator.replication.applying.recent_write_group_outcomes import RecentOutcomes
from coordinator.replication.host.host_background_tasks import HostTasks
from coordinator.replication.host.host_context import HostContext
from coordinator.replication.host.pending_changes import PendingChange, PendingChanges
from coordinator.replication.log.log_entries import WriteGroup
from coordinator.write.partitioning import Parts


class CrossHostGroups:
    """Applies groups on the shards of this host, and answers its requests.

    Args:
        host: this one.
        placed: which copy of which shard is read.
        applier: applies on shards.
        own: changes of this host that are under way.
        tasks: keeps what runs in the background.

    Attributes:
        ask_others: returns the outcomes of a group, given the number of its index, its seq and a
            shard of another host, however long that takes; raises a `ServiceError` if no host can
            know them any more.
    """

    ask_others: Callable[[int, int, int], Awaitable[ApplyResponse]]

    def __init__(
        self,
        host: HostContext,
        placed: PlacedShards,
        applier: Applier,
        own: PendingChanges,
        tasks: HostTasks,
    ) -> None:
        self._serving = host.serving
        self._tasks = tasks
        self._placed = placed
        self._applier = applier
        self._own = own
        self._cluster = host.cluster
        self._timeout_ms = host.settings.write_timeout_ms
        self._recent = RecentOutcomes()

    async def apply(self, divided: DividedGroup, id: str, own: PendingChange | None) -> None:
        """Apply the parts of the shards that this host holds; answer our own requests later."""
        seq, group, parts = divided
        here = {shard: part for shard, part in parts.items() if shard in self._cluster.here}
        if own is not None:
            self._placed.pending.add(seq)
        answers = await self._applier.apply_parts(seq, group, here)
        for shard, answer in answers.items():
            self._recent.keep(seq, shard, answer)
        if own is not None:
            self._tasks.start(self._settle(seq, id, group, parts, answers, own))

    async def _settle(
        self,
        seq: int,
        id: str,
        group: WriteGroup,
        parts: Parts,
        answers: dict[int, ApplyResponse],
        own: PendingChange,
    ) -> None:
        """Answer the requests of a group once it is applied by a copy of every shard concerned."""
        own.conclude()  # it is in the log
        # A part without operations stores positions of sources alone; it has no outcomes.
        empty = [shard for shard, part in parts.items() if len(part.lengths) == 0]
        answers = dict.fromkeys(empty, ApplyResponse(b"")) | answers
        elsewhere = [shard for shard in parts if shard not in answers]
        asking = asyncio.gather(*(self.ask_others(group.index, seq, shard) for shard in elsewhere))
        waiting = asyncio.ensure_future(asyncio.wait([batch.future for batch in own.batches]))
        try:
            # Requests past their deadline have been answered: outcome unknown.
            await asyncio.wait((asking, waiting), return_when=asyncio.FIRST_COMPLETED)
            if asking.done() and (error := asking.exception()) is not None:
                if not isinstance(error, ServiceError):
                    raise error
                own.fail(error)
            elif asking.done():
                answers = {**answers, **dict(zip(elsewhere, asking.result(), strict=True))}
                ordered = [answers[shard] for shard in parts]
                outcomes, text_ids = joined(group.num_operations, parts, ordered)
                showing = asyncio.ensure_future(self._serving.wait_for(seq, NEVER))
                try:
                    await asyncio.wait((showing, waiting), return_when=asyncio.FIRST_COMPLETED)
                    if showing.done() and showing.exception() is None:
                        own.settle(seq, outcomes, text_ids)
                finally:
                    showing.cancel()
                    await asyncio.gather(showing, return_exceptions=True)
        finally:
            self._placed.pending.discard(seq)
            self._own.pop(id, None)
            asking.cancel()
            waiting.cancel()
            await asyncio.gather(asking, waiting, return_exceptions=True)

    async def outcomes_here(self, index: int, seq: int, shard: int) -> ApplyResponse:
        """Return the outcomes of a group that is applied on a shard of this host.

        Raises:
            Unavailable: they are not known any more, or the shard does not serve.
        """
        self._serving.check_not_stopped()
        found = self._recent.get(seq, shard)
        if found is not None and found.outcomes:
            return found
        client = self._cluster.here.get(shard)
        if client is None:
            raise Unavailable(f"shard {shard} is not on this host")
        answer = await client.call(OUTCOMES, OutcomesRequest(index, seq), self._timeout_ms)
        if not answer.is_known or not answer.outcomes:
            raise Unavailable(f"the outcomes of group {seq} are not known any more")
        return ApplyResponse(answer.outcomes)
