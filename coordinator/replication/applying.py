"""Applies entries of the log on the shards of this host, however often that fails.

Local trouble never decides an outcome: a full disk or a dead shard makes this host wait and retry.
An entry that can never be applied here makes it stop (`ReplicaStopped`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from common.errors import InternalError, ServiceError, StorageFull
from common.process.logs import Log
from common.protocol.framing import JOIN_MAX_BYTES
from common.protocol.messages import ApplyRequest, ApplyResponse
from common.protocol.methods import APPLY
from common.protocol.operations import Outcome
from coordinator.cluster.cluster import Cluster
from coordinator.cluster.shard_client import ShardClient, ShardState
from coordinator.replication.entries import WriteGroup
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
        self, seq: int, group: WriteGroup, parts: Parts, settled: int
    ) -> tuple[NDArray[np.uint8], frozenset[int]]:
        """Apply a group on all shards concerned.

        Args:
            seq: of the group.
            group: what to apply.
            parts: the group, divided over the shards.
            settled: everything up to this entry is applied on all shards.

        Returns:
            Outcomes by position, and the positions of `text_ids`.

        Raises:
            ReplicaStopped: it never can be applied.
        """
        answers = await self.apply_parts(seq, group, parts, settled)
        return joined(group.num_operations, parts, list(answers.values()))

    async def apply_parts(
        self, seq: int, group: WriteGroup, parts: Parts, settled: int | None = None
    ) -> dict[int, ApplyResponse]:
        """Apply some parts of a group; return the results by shard.

        Args:
            seq: of the group.
            group: what to apply.
            parts: by shard.
            settled: everything up to this entry is applied on all shards, and these are all parts
                of the group; None: other hosts have some of the shards.

        Raises:
            ReplicaStopped: it never can be applied.
        """
        extent = None if settled is None else (settled, tuple(parts))
        answers = await asyncio.gather(
            *(
                self._apply_part(shard, self._request(seq, group, part, extent), part)
                for shard, part in parts.items()
            )
        )
        if any(Outcome.CORRUPT in answer.outcomes for answer in answers):
            raise ReplicaStopped(
                "a stored item that is changed is damaged on this host: empty its directory, "
                "and it takes its data from another host"
            )
        return dict(zip(parts, answers, strict=True))

    async def _apply_part(self, shard: int, request: ApplyRequest, part: Part) -> ApplyResponse:
        """Have a shard apply its part of a group; retry until it has.

        Raises:
            ReplicaStopped: it never will.
        """
        client = self._cluster.here[shard]
        last_reason = ""
        while True:
            epoch = client.epoch
            try:
                answer = await self._call(client, request, part)
            except StorageFull as error:
                self._full[shard] = error
                reason = error.message
            except InternalError as error:
                # A shard whose disk refused a write is about to exit; its successor may succeed.
                await asyncio.sleep(DYING_SECONDS)
                if client.epoch == epoch and client.state is ShardState.SERVING:
                    raise ReplicaStopped(
                        f"group {request.seq} cannot be applied: {error.message}"
                    ) from error
                reason = error.message
            except ServiceError as error:
                reason = error.message
            else:
                self._full.pop(shard, None)
                return answer
            if reason != last_reason:
                last_reason = reason
                _log.warning("not applied yet", seq=request.seq, shard=shard, reason=reason)
            await asyncio.sleep(PAUSE_SECONDS)

    async def apply_once(
        self, client: ShardClient, seq: int, group: WriteGroup, part: Part
    ) -> ApplyResponse:
        """Have a shard apply its part of a group.

        Raises:
            ServiceError: it does not, now.
        """
        return await self._call(client, self._request(seq, group, part), part)

    def _request(
        self,
        seq: int,
        group: WriteGroup,
        part: Part,
        extent: tuple[int, tuple[int, ...]] | None = None,
    ) -> ApplyRequest:
        """Return the request that applies a part; a large payload is sent as an attachment.

        Args:
            seq: of the group.
            group: of the part.
            part: what to apply.
            extent: what was settled before, and all shards of the group; None: not known.
        """
        settled, shards = extent or (0, ())
        return ApplyRequest(
            index=group.index,
            seq=seq,
            horizon=self._cluster.oldest_horizon(group.index),
            payload=b"" if len(part.payload) > JOIN_MAX_BYTES else bytes(part.payload),
            lengths=part.lengths.tobytes(),
            operations=part.operations.tobytes(),
            places=(part.positions.astype(np.uint64) + np.uint64(seq << 32)).tobytes(),
            versions=part.versions,
            positions=group.sources,
            is_repeat=True,
            settled=settled,
            shards=shards,
        )

    async def _call(self, client: ShardClient, request: ApplyRequest, part: Part) -> ApplyResponse:
        return await client.call(
            APPLY,
            request,
            self._settings.write_timeout_ms,
            is_write=True,
            attachment=[part.payload] if len(part.payload) > JOIN_MAX_BYTES else (),
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


def joined(
    num_operations: int, parts: Parts, answers: Sequence[ApplyResponse]
) -> tuple[NDArray[np.uint8], frozenset[int]]:
    """Return the outcomes of a group by position, and the positions of `text_ids`."""
    outcomes = np.zeros(num_operations, np.uint8)
    text_ids: set[int] = set()
    for part, answer in zip(parts.values(), answers, strict=True):
        found = np.frombuffer(answer.outcomes, np.uint8)
        if len(found):  # else it was applied long ago, and no request waits for it
            outcomes[part.positions] = found
            text_ids |= {int(part.positions[ordinal]) for ordinal in answer.text_ids}
    return outcomes, frozenset(text_ids)
