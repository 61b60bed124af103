"""Applies entries of the log on the shards of this host, however often that fails.

Local trouble never decides an outcome: a full disk or a dead shard makes this host wait and retry.
An entry that can never be applied here makes it stop (`ReplicaStopped`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from common.errors import InternalError, ServiceError, StorageFull
from common.process.logs import Log
from common.protocol.messages import ApplyResponse, JoinedGroups
from common.protocol.methods import APPLY, APPLY_JOINED
from common.protocol.write_operations_and_outcomes import Outcome
from coordinator.cluster.all_shards import Cluster
from coordinator.cluster.shard_client import ShardClient, ShardState
from coordinator.replication.applying.joined_write_groups import (
    DividedGroup,
    Reach,
    ShardRequest,
    joined,
    joined_request,
    split_response,
)
from coordinator.replication.log.log_entries import WriteGroup
from coordinator.settings import Settings
from coordinator.write.partitioning import Part, Parts

DYING_SECONDS: Final = 2.0
"""A shard whose disk has refused a write exits within this time."""
PAUSE_SECONDS: Final = 0.1
"""Pause before a retry."""
_CATALOG_PAUSE_SECONDS: Final = 0.5
_CATALOG: Final = -1
"""Instead of a shard's ordinal: a change of the catalog."""

_log = Log("replica")


class ReplicaStopped(Exception):
    """This host cannot apply an entry as the others do."""


class Applier:
    """Applies groups, and changes of the catalog.

    Args:
        cluster: the shards of this host.
        settings: timeouts.
    """

    def __init__(self, cluster: Cluster, settings: Settings) -> None:
        self._cluster = cluster
        self._settings = settings
        self._full: dict[int, StorageFull] = {}

    @property
    def blocked(self) -> StorageFull | None:
        """What keeps this host from applying now; None if nothing does."""
        return next(iter(self._full.values()), None)

    async def apply(
        self, groups: Sequence[DividedGroup], settled: int
    ) -> list[tuple[NDArray[np.uint8], frozenset[int]]]:
        """Apply groups of one index on all shards concerned, each shard its parts in one commit.

        Outcomes are those of one group after the other.

        Args:
            groups: the groups, in order.
            settled: everything up to this entry is applied on all shards.

        Returns:
            By group, outcomes by position, and the positions of `text_ids`.

        Raises:
            ReplicaStopped: one can never be applied.
        """
        shards = tuple(sorted({shard for one in groups for shard in one.parts}))
        first, last = (groups[0].seq if len(groups) > 1 else 0), groups[-1].seq
        reach = Reach(settled, first, shards)
        found = await asyncio.gather(
            *(
                self._apply_on(shard, [one for one in groups if shard in one.parts], last, reach)
                for shard in shards
            )
        )
        by_shard = dict(zip(shards, found, strict=True))
        _check_intact(answer for answers in found for answer in answers.values())
        return [
            joined(
                one.group.num_operations,
                one.parts,
                [by_shard[shard][one.seq] for shard in one.parts],
            )
            for one in groups
        ]

    async def _apply_on(
        self, shard: int, groups: Sequence[DividedGroup], last: int, reach: Reach
    ) -> dict[int, ApplyResponse]:
        """Have a shard apply its parts of some groups; return the results by seq.

        Without room for all of them together they are applied one by one, so deletions make room
        for what follows.

        Args:
            shard: its ordinal.
            groups: the groups that change it.
            last: the seq of all groups together, on every shard.
            reach: of all groups together.

        Raises:
            ReplicaStopped: it never will.
        """
        together = joined_request(self._cluster, shard, groups, last, reach)
        if len(groups) == 1:
            return split_response(await self._apply_part(shard, together), shard, groups)
        with suppress(StorageFull):
            answer = await self._apply_part(shard, together, waits_for_room=False)
            return split_response(answer, shard, groups)
        answers: dict[int, ApplyResponse] = {}
        for one in groups:
            seq = last if one is groups[-1] else one.seq
            alone = joined_request(self._cluster, shard, (one,), seq, reach)
            answer = await self._apply_part(shard, alone)
            if not answer.outcomes and len(one.parts[shard].lengths):
                # The commit that was refused is on the disk after all.
                return split_response(await self._apply_part(shard, together), shard, groups)
            answers |= split_response(answer, shard, (one,))
        return answers

    async def apply_parts(
        self, seq: int, group: WriteGroup, parts: Parts
    ) -> dict[int, ApplyResponse]:
        """Apply some parts of a group, while other hosts apply the others; return results by shard.

        Raises:
            ReplicaStopped: it never can be applied.
        """
        groups = (DividedGroup(seq, group, parts),)
        answers = await asyncio.gather(
            *(
                self._apply_part(shard, joined_request(self._cluster, shard, groups, seq))
                for shard in parts
            )
        )
        _check_intact(answers)
        return dict(zip(parts, answers, strict=True))

    async def _apply_part(
        self, shard: int, part: ShardRequest, *, waits_for_room: bool = True
    ) -> ApplyResponse:
        """Have a shard apply its part of a group; retry until it has.

        Raises:
            ReplicaStopped: it never will.
            StorageFull: there is no room, and we are not to wait for it.
        """
        client = self._cluster.here[shard]
        last_reason = ""
        while True:
            epoch = client.epoch
            try:
                answer = await self._call(client, part)
            except StorageFull as error:
                if not waits_for_room:
                    raise
                self._full[shard] = error
                reason = error.message
            except InternalError as error:
                # A shard whose disk refused a write is about to exit; its successor may succeed.
                await asyncio.sleep(DYING_SECONDS)
                if client.epoch == epoch and client.state is ShardState.SERVING:
                    raise ReplicaStopped(
                        f"group {part.request.seq} cannot be applied: {error.message}"
                    ) from error
                reason = error.message
            except ServiceError as error:
                reason = error.message
            else:
                self._full.pop(shard, None)
                return answer
            if reason != last_reason:
                last_reason = reason
                _log.warning("not applied yet", seq=part.request.seq, shard=shard, reason=reason)
            await client.pause(PAUSE_SECONDS)

    async def apply_once(
        self, client: ShardClient, shard: int, seq: int, group: WriteGroup, part: Part
    ) -> ApplyResponse:
        """Have a shard apply its part of a group.

        Raises:
            ServiceError: it does not, now.
        """
        one = DividedGroup(seq, group, {shard: part})
        return await self._call(client, joined_request(self._cluster, shard, (one,), seq))

    async def _call(self, client: ShardClient, part: ShardRequest) -> ApplyResponse:
        request, timeout_ms = part.request, self._settings.write_timeout_ms
        if isinstance(request, JoinedGroups):
            return await client.call(
                APPLY_JOINED, request, timeout_ms, is_write=True, attachment=part.attachment
            )
        return await client.call(
            APPLY, request, timeout_ms, is_write=True, attachment=part.attachment
        )

    async def until_done(self, work: Callable[[], Awaitable[Any]]) -> None:
        """Repeat some work until it succeeds."""
        last_reason = ""
        while True:
            try:
                await work()
            except StorageFull as error:
                self._full[_CATALOG] = error
                reason = error.message
            except (ServiceError, OSError) as error:
                reason = str(error)
            else:
                self._full.pop(_CATALOG, None)
                return
            if reason != last_reason:
                last_reason = reason
                _log.warning("change of the catalog not applied yet", reason=reason)
            await asyncio.sleep(_CATALOG_PAUSE_SECONDS)


def _check_intact(answers: Iterable[ApplyResponse]) -> None:
    """Stop if an item that groups need is damaged.

    Raises:
        ReplicaStopped: one is.
    """
    if any(Outcome.CORRUPT in answer.outcomes for answer in answers):
        raise ReplicaStopped(
            "a stored item that is changed is damaged on this host: empty its directory, "
            "and it takes its data from another host"
        )
