"""Group commit: the writes of one index, joined into groups; a few groups are in flight at a time.

    requests ──▶ queue ──▶ group 41  ─▶ shard 0: confirmed   shard 1: committing
                           group 42  ─▶ shard 0: committing  shard 1: waiting in its queue
                 (next)    group 43     gathers whatever arrives until a shard it needs is idle

A commit of a hundred operations costs about as much as a commit of one. So the next group keeps
gathering while all shards that it needs are busy. Large batches (a bulk load) go ahead earlier, so
that no shard idles for a round trip. (With 16 writers into a million items, starting the next group
at once made groups of 3 operations per shard; this way they have 5: 2,800 instead of 2,300 items a
second, p99 10.6 instead of 11.8 ms. With one writer nothing changes. 2 shards, 2 cores,
2026-11-21.) Each group has one sequence number; every shard receives groups in that order.

A group is *settled* when every shard with a part of it has responded or failed. Groups settle in
order: first the horizon advances, only then are the requests answered, so a client whose write is
confirmed can read it. A shard fails in one of two ways. Either it refused the group, and has not
applied its part. Or its connection ended; whether it applied the part is then decided by the time
it reconnects. The requests with operations there fail with `shard_unavailable`: outcome unknown,
safe to resend. Batches with items without ids are not safe to resend; for these we ask the shard,
once it is back, whether its log has the group, and the response says what was stored.
"""

from __future__ import annotations

import asyncio
import itertools
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from common.deadline import Deadline
from common.errors import (
    DeadlineExceeded,
    InternalError,
    PartlyStored,
    ServiceError,
    Unavailable,
)
from common.placement import shards_of
from common.process.logs import Log
from common.process.request_ids import REQUEST_IDS, REQUEST_IDS_MAX
from common.protocol.framing import JOIN_MAX_BYTES
from common.protocol.messages import (
    ApplyRequest,
    ApplyResponse,
    OutcomesRequest,
    OutcomesResponse,
)
from common.protocol.methods import APPLY, OUTCOMES
from coordinator.cluster.cluster import Cluster
from coordinator.write.partitioning import Part, Parts, divide, places_of

Ranges = list[list[int]]
"""First and last position of each range."""

ASK_AGAIN_SECONDS: Final = 0.05
"""Delay before asking an unavailable shard again for the outcome of a write."""
GROUPS_UNDER_WAY_MAX: Final = 3
LARGE_GROUPS_UNDER_WAY_MAX: Final = 2
LARGE_BYTES: Final = 256 << 10
LARGE_OPERATIONS: Final = 256
"""From this size on, the waiting batches stop gathering."""

_log = Log("ingest")


class Applied(NamedTuple):
    """The outcome of a batch."""

    outcomes: NDArray[np.uint8]
    """`Outcome` per operation."""
    seq: int
    text_ids: frozenset[int] = frozenset()
    """Operations that deleted an item whose all-digit id was stored as text."""


@dataclass(frozen=True, slots=True)
class Items:
    """Items not yet partitioned among the shards."""

    payload: NDArray[np.uint8]
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    id_hashes: NDArray[np.uint64]
    has_id: NDArray[np.bool_]

    def divide(self, num_shards: int, seq: int = 0, first_position: int = 0) -> Parts:
        """Partition the items; seq and position matter only for items without an id."""
        places = places_of(seq, first_position, len(self.starts))
        shards = shards_of(self.id_hashes, self.has_id, places, num_shards)
        return divide(self.payload, self.starts, self.ends, shards, num_shards)


class WriteBatch:
    """The operations of one request (or of a chunk of a bulk load), to be written in one group.

    Args:
        num_operations: number of operations.
        num_bytes: of all payloads.
        parts: by shard.
        items: instead of parts, if some items have no id. Their shard depends on their insertion
            number, so they are partitioned when their group is made.
        positions: of sources of changes, by name; every shard must then have a part.

    Attributes:
        future: the outcome.
        request_ids: of the request.
        is_anonymous: by operation: whether its item has no id and so must not be sent twice; None
            if all items have ids.
    """

    __slots__ = (
        "future",
        "is_anonymous",
        "items",
        "num_bytes",
        "num_operations",
        "outcomes",
        "parts",
        "positions",
        "request_ids",
        "text_ids",
    )

    def __init__(
        self,
        num_operations: int,
        num_bytes: int,
        parts: Parts | None = None,
        items: Items | None = None,
        positions: Mapping[str, str] | None = None,
    ) -> None:
        assert (parts is None) != (items is None)
        self.num_operations = num_operations
        self.num_bytes = num_bytes
        self.parts = parts or {}
        self.items = items
        self.positions = positions or {}
        has_ids = items is None or items.has_id.all()
        self.is_anonymous = None if has_ids or items is None else ~items.has_id
        self.outcomes = np.zeros(num_operations, np.uint8)
        self.text_ids: frozenset[int] = frozenset()
        self.future: asyncio.Future[Applied] = asyncio.get_running_loop().create_future()
        self.request_ids = REQUEST_IDS.get()

    @classmethod
    def of_items(cls, items: Items, parts: Parts | None) -> WriteBatch:
        """Return the batch of items that may be divided over the shards already."""
        num_bytes = int((items.ends - items.starts).sum())
        if parts is None:
            return cls(len(items.starts), num_bytes, items=items)
        return cls(len(items.starts), num_bytes, parts=parts)


class _WriteGroup:
    """Batches that are written together."""

    __slots__ = ("batches", "errors", "num_shards", "seq", "unanswered")

    def __init__(self, seq: int, batches: list[WriteBatch]) -> None:
        self.seq = seq
        self.batches = batches
        self.num_shards = 0
        self.unanswered: set[int] = set()  # shards
        self.errors: dict[int, ServiceError] = {}  # by shard


class BatchQueue(ABC):
    """Batches of one index that wait to be written, in the order in which they arrived.

    Args:
        group_bytes: approximate payload of a group.
        group_operations: most operations in a group.
        waiting_max: most waiting batches.
    """

    def __init__(self, *, group_bytes: int, group_operations: int, waiting_max: int) -> None:
        self._group_bytes = group_bytes
        self._group_operations = group_operations
        self._waiting_max = waiting_max
        self._waiting: deque[WriteBatch] = deque()
        self._loop = asyncio.get_running_loop()
        self._is_pump_scheduled = False

    @property
    def num_waiting(self) -> int:
        """Batches not yet in a group."""
        return len(self._waiting)

    async def write(self, batch: WriteBatch, deadline: Deadline) -> Applied:
        """Write a batch.

        Returns:
            Its outcome, once it is durable on every shard involved, and visible.

        Raises:
            Unavailable: `overloaded` or `starting`: nothing was written; `shard_unavailable`: the
                outcome is unknown unless the message says otherwise.
            DeadlineExceeded: if nothing has been written so far, nothing will be.
            PartlyStored: items without ids were stored, or may be; they must not be sent again.
        """
        if len(self._waiting) >= self._waiting_max:
            raise Unavailable(
                f"{len(self._waiting)} writes to this index are waiting already; try again in a "
                "second",
                code="overloaded",
            )
        self._waiting.append(batch)
        self._schedule_pump()
        timer = self._loop.call_later(deadline.remaining_seconds, self._expire, batch)
        try:
            return await batch.future
        except asyncio.CancelledError:
            # The client is gone. If the batch is in a group, that group still completes.
            self._withdraw(batch)
            raise
        finally:
            timer.cancel()

    def _expire(self, batch: WriteBatch) -> None:
        """Fail a batch whose deadline has passed; a group that contains it still completes."""
        if self._withdraw(batch):
            fail(
                batch, DeadlineExceeded("the write waited until its deadline; nothing was written")
            )
        elif batch.is_anonymous is not None:
            positions = np.arange(batch.num_operations)
            fail(batch, _partly_stored(np.zeros(batch.num_operations, np.bool_), positions))
        else:
            fail(
                batch,
                DeadlineExceeded(
                    "the write was not confirmed within its deadline; it may still be carried out"
                ),
            )

    def fail_waiting(self, error: ServiceError) -> None:
        """Fail all waiting batches (the index was deleted)."""
        while self._waiting:
            fail(self._waiting.popleft(), error)

    def _withdraw(self, batch: WriteBatch) -> bool:
        """Remove a batch from the queue; False if it is in a group already."""
        try:
            self._waiting.remove(batch)
        except ValueError:
            return False
        return True

    def _schedule_pump(self) -> None:
        """Form groups after this loop iteration, to join all batches that arrive in it."""
        if not self._is_pump_scheduled:
            self._is_pump_scheduled = True
            self._loop.call_soon(self._run_pump)

    def _run_pump(self) -> None:
        self._is_pump_scheduled = False
        self._pump()

    @abstractmethod
    def _pump(self) -> None:
        """Form the groups that may begin now."""

    def _take_batches(self) -> list[WriteBatch]:
        """Take as many waiting batches as fit into one group, at least one."""
        batches: list[WriteBatch] = []
        num_bytes = num_operations = 0
        while self._waiting:
            batch = self._waiting[0]
            num_bytes += batch.num_bytes
            num_operations += batch.num_operations
            if batches and (
                num_bytes > self._group_bytes or num_operations > self._group_operations
            ):
                break
            batches.append(self._waiting.popleft())
        return batches


class WriteQueue(BatchQueue):
    """The write queue of one index whose order this service decides alone.

    Args:
        cluster: the shards.
        index: number of the index.
        group_bytes: approximate payload per shard and group.
        group_operations: most operations in a group.
        waiting_max: most waiting batches.
        timeout_ms: for a shard's response to a group.
    """

    def __init__(
        self,
        cluster: Cluster,
        index: int,
        *,
        group_bytes: int,
        group_operations: int,
        waiting_max: int,
        timeout_ms: int,
    ) -> None:
        super().__init__(
            group_bytes=group_bytes * cluster.num_shards,
            group_operations=group_operations,
            waiting_max=waiting_max,
        )
        self._cluster = cluster
        self._index = index
        self._timeout_ms = timeout_ms
        self._under_way: deque[_WriteGroup] = deque()
        self._is_dividing = False
        self._num_holds = 0
        self._idle: asyncio.Event = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    async def hold(self) -> None:
        """Start no more groups; return once none is in flight. Must be followed by `release`."""
        self._num_holds += 1
        try:
            while self._under_way or self._is_dividing:
                self._idle.clear()
                await self._idle.wait()
        except BaseException:
            self.release()
            raise

    def release(self) -> None:
        """Resume after `hold`."""
        self._num_holds -= 1
        self._schedule_pump()

    # --- groups

    def _pump(self) -> None:
        """Form and send groups, up to the limit in flight."""
        while self._waiting and not self._num_holds and not self._is_dividing and self._may_begin():
            try:
                seq = self._cluster.next_seq()
            except Unavailable as error:
                self.fail_waiting(error)
                return
            batches = self._refuse_unreachable(self._take_batches())
            if not batches:
                continue
            group = _WriteGroup(seq, batches)
            REQUEST_IDS.set(_request_ids(batches))  # for this callback and the tasks it starts
            if any(batch.items is not None for batch in group.batches):
                self._is_dividing = True
                task = self._loop.create_task(asyncio.to_thread(self._divide, group))
                task.add_done_callback(partial(self._send_divided, group))
                return
            self._send(group)

    def _may_begin(self) -> bool:
        """Return whether to start the next group now, rather than gather more batches."""
        if len(self._under_way) >= GROUPS_UNDER_WAY_MAX:
            return False
        busy = {shard for group in self._under_way for shard in group.unanswered}
        num_bytes = num_operations = 0
        for batch in self._waiting:
            needed = self._needed_shards(batch)
            if not needed or not busy.issuperset(needed):
                return True
            num_bytes += batch.num_bytes
            num_operations += batch.num_operations
            if num_bytes >= LARGE_BYTES or num_operations >= LARGE_OPERATIONS:
                return len(self._under_way) < LARGE_GROUPS_UNDER_WAY_MAX
        return False

    def _refuse_unreachable(self, batches: list[WriteBatch]) -> list[WriteBatch]:
        """Fail the batches that need an unavailable shard, before any of them is written."""
        failed = self._cluster.failed_shards()
        if not failed:
            return batches
        reachable = []
        for batch in batches:
            needed = self._needed_shards(batch)
            away = [shard for shard in failed if shard in needed]
            if away:
                fail(
                    batch,
                    Unavailable(f"shard {away[0]} is away; nothing was written; try again shortly"),
                )
            else:
                reachable.append(batch)
        return reachable

    def _needed_shards(self, batch: WriteBatch) -> Collection[int]:
        """Return the shards that a batch needs; before it is partitioned, that may be any."""
        return batch.parts if batch.items is None else range(self._cluster.num_shards)

    def _divide(self, group: _WriteGroup) -> None:
        """Partition the items that were waiting for their insertion numbers (in a thread)."""
        first_position = 0
        for batch in group.batches:
            if batch.items is not None:
                batch.parts = batch.items.divide(
                    self._cluster.num_shards, group.seq, first_position
                )
                batch.items = None
            first_position += batch.num_operations

    def _send_divided(self, group: _WriteGroup, task: asyncio.Task[None]) -> None:
        """Send a group whose items have been partitioned."""
        self._is_dividing = False
        error = task.exception()
        if error is not None:
            _log.error("dividing failed", cause=error)
            for batch in group.batches:
                fail(batch, InternalError("internal error"))
            self._idle.set()
        else:
            self._send(group)
        self._schedule_pump()

    def _send(self, group: _WriteGroup) -> None:
        """Send each shard its part of a group."""
        self._under_way.append(group)
        horizon = self._cluster.oldest_horizon(self._index)
        touched = sorted({shard for batch in group.batches for shard in batch.parts})
        group.num_shards = len(touched)
        group.unanswered = set(touched)
        for shard in touched:
            request, attachment = self._request(group, shard, horizon)
            try:
                call = self._cluster.shards[shard].call(
                    APPLY,
                    request,
                    self._timeout_ms,
                    is_write=True,
                    attachment=attachment,
                )
            except ServiceError as error:
                self._take_answer(group, shard, None, error)
            else:
                call.add_done_callback(partial(self._take_future, group, shard))
        if not touched:  # all batches are empty
            self._settle()

    def _request(
        self, group: _WriteGroup, shard: int, horizon: int
    ) -> tuple[ApplyRequest, list[bytes | memoryview]]:
        """Join the parts of one shard; a large payload is sent as an attachment."""
        payloads: list[bytes | memoryview] = []
        lengths: list[NDArray[np.uint32]] = []
        operations: list[NDArray[np.uint8]] = []
        places: list[NDArray[np.uint64]] = []
        versions: dict[int, bytes] = {}
        records: dict[int, int] = {}
        positions: dict[str, str] = {}
        first_position = num_operations = 0
        for batch in group.batches:
            part = batch.parts.get(shard)
            positions.update(batch.positions)
            if part is not None:
                payloads.append(part.payload)
                lengths.append(part.lengths)
                operations.append(part.operations)
                places.append(_places(group.seq, first_position, part))
                for ordinal, version in part.versions.items():
                    versions[num_operations + ordinal] = version
                for ordinal, record in part.records.items():
                    records[num_operations + ordinal] = record
                num_operations += len(part.lengths)
            first_position += batch.num_operations
        is_single = len(payloads) == 1
        is_large = sum(map(len, payloads)) > JOIN_MAX_BYTES
        request = ApplyRequest(
            index=self._index,
            seq=group.seq,
            horizon=horizon,
            payload=b"" if is_large else b"".join(payloads),
            lengths=(lengths[0] if is_single else np.concatenate(lengths)).tobytes(),
            operations=(operations[0] if is_single else np.concatenate(operations)).tobytes(),
            places=(places[0] if is_single else np.concatenate(places)).tobytes(),
            versions=versions,
            records=records,
            positions=positions,
        )
        return request, payloads if is_large else []

    # --- responses

    def _take_future(
        self, group: _WriteGroup, shard: int, future: asyncio.Future[ApplyResponse]
    ) -> None:
        """Handle a shard's response."""
        if future.cancelled():
            self._take_answer(group, shard, None, Unavailable("the service stops"))
            return
        error = future.exception()
        if error is None:
            self._take_answer(group, shard, future.result(), None)
        elif isinstance(error, ServiceError):
            self._take_answer(group, shard, None, error)
        else:
            _log.error("apply failed", shard=shard, cause=error)
            self._take_answer(group, shard, None, InternalError("internal error"))

    def _take_answer(
        self,
        group: _WriteGroup,
        shard: int,
        answer: ApplyResponse | None,
        error: ServiceError | None,
    ) -> None:
        """Record a shard's outcomes for its part; settle the groups that are complete."""
        if answer is not None:
            outcomes = np.frombuffer(answer.outcomes, np.uint8)
            num_expected = sum(
                len(batch.parts[shard].lengths) for batch in group.batches if shard in batch.parts
            )
            if len(outcomes) != num_expected:
                error = InternalError(f"shard {shard} answered {len(outcomes)} outcomes")
                _log.error("wrong number of outcomes", shard=shard, expected=num_expected)
            else:
                first = 0
                for batch in group.batches:
                    part = batch.parts.get(shard)
                    if part is not None:
                        last = first + len(part.lengths)
                        batch.outcomes[part.positions] = outcomes[first:last]
                        batch.text_ids |= {
                            int(part.positions[ordinal - first])
                            for ordinal in answer.text_ids
                            if first <= ordinal < last
                        }
                        first = last
        if error is not None:
            group.errors[shard] = error
        group.unanswered.remove(shard)
        self._settle()

    def _settle(self) -> None:
        """Settle the groups at the head of the queue that all shards have responded to."""
        while self._under_way and not self._under_way[0].unanswered:
            group = self._under_way.popleft()
            if group.errors and len(group.errors) == group.num_shards:
                self._cluster.doubt(self._index, group.seq, group.errors)
            else:
                self._cluster.advance(self._index, group.seq)
            for batch in group.batches:
                error = next(
                    (group.errors[shard] for shard in batch.parts if shard in group.errors), None
                )
                if error is None:
                    if not batch.future.done():
                        batch.future.set_result(Applied(batch.outcomes, group.seq, batch.text_ids))
                elif batch.is_anonymous is None:
                    fail(batch, error)
                else:
                    doubtful = _doubtful_parts(group, batch)
                    task = self._loop.create_task(self._find_out(batch, group.seq, doubtful, error))
                    self._tasks.add(task)
                    task.add_done_callback(self._tasks.discard)
            for batch in group.batches:
                batch.parts = {}
        if not self._under_way:
            self._idle.set()
        self._schedule_pump()

    async def _find_out(
        self, batch: WriteBatch, seq: int, doubtful: Mapping[int, _Unconfirmed], error: ServiceError
    ) -> None:
        """Resolve a failed batch of items without ids: find out which part was stored.

        Args:
            batch: the batch.
            seq: of its group.
            doubtful: parts that a shard did not confirm, by shard.
            error: to raise if resending the whole batch creates no duplicates.
        """
        assert batch.is_anonymous is not None
        is_stored = np.ones(batch.num_operations, np.bool_)
        for shard, part in doubtful.items():
            answer = await self._outcomes(batch, shard, seq)
            if answer is None:
                return  # past the deadline: the batch has failed already
            if not answer.is_known:
                is_stored[part.positions] = False
                fail(batch, _partly_stored(is_stored, part.positions))
                return
            if answer.outcomes:
                outcomes = np.frombuffer(answer.outcomes, np.uint8)
                batch.outcomes[part.positions] = outcomes[part.first :][: len(part.positions)]
            else:
                is_stored[part.positions] = False
        if batch.future.done():
            return
        if is_stored.all():
            batch.future.set_result(Applied(batch.outcomes, seq, batch.text_ids))
        elif (is_stored & batch.is_anonymous).any():
            fail(batch, _partly_stored(is_stored, np.zeros(0, np.int64)))
        else:
            fail(batch, error)

    async def _outcomes(self, batch: WriteBatch, shard: int, seq: int) -> OutcomesResponse | None:
        """Ask a shard for a group's outcomes until it responds; None past the batch's deadline."""
        request = OutcomesRequest(self._index, seq)
        while not batch.future.done():
            try:
                return await self._cluster.shards[shard].call(OUTCOMES, request, self._timeout_ms)
            except ServiceError:
                await asyncio.sleep(ASK_AGAIN_SECONDS)
        return None


class _Unconfirmed(NamedTuple):
    """A part of a batch that its shard did not confirm."""

    positions: NDArray[np.int64]
    """Positions in the batch."""
    first: int
    """Ordinal of its first operation among those of the group on that shard."""


def _doubtful_parts(group: _WriteGroup, batch: WriteBatch) -> dict[int, _Unconfirmed]:
    """Return the parts of a batch on the shards that failed."""
    found = {}
    for shard, part in batch.parts.items():
        if shard in group.errors:
            before = itertools.takewhile(lambda other: other is not batch, group.batches)
            first = sum(len(one.parts[shard].lengths) for one in before if shard in one.parts)
            found[shard] = _Unconfirmed(part.positions, first)
    return found


def _partly_stored(is_stored: NDArray[np.bool_], unknown: NDArray[np.int64]) -> PartlyStored:
    """Return the error that says which items of a batch were stored.

    Args:
        is_stored: by position.
        unknown: positions whose outcome is unknown.
    """
    is_unknown = np.zeros_like(is_stored)
    is_unknown[unknown] = True
    return partly_stored(
        int(np.count_nonzero(is_stored)), ranges(~is_stored & ~is_unknown), ranges(is_unknown)
    )


def unconfirmed(batch: WriteBatch, message: str) -> ServiceError:
    """Return the error of a batch that may have been stored, or may still be, as a whole."""
    if batch.is_anonymous is None:
        return Unavailable(message, code="log_unavailable")
    return _partly_stored(np.zeros(batch.num_operations, np.bool_), np.arange(batch.num_operations))


def partly_stored(num_stored: int, not_stored: Ranges, unknown: Ranges) -> PartlyStored:
    """Return the error that says which items of a request were stored."""
    return PartlyStored(
        f"{num_stored} items were stored, those at the positions in not_stored were not, and of "
        "those in unknown it is not known: there are items without ids among them, so send only "
        "the missing ones again, or all of them would be stored twice",
        details={"stored": num_stored, "not_stored": not_stored, "unknown": unknown},
    )


def ranges(mask: NDArray[np.bool_], offset: int = 0) -> Ranges:
    """Return the runs of a mask as (first, last) positions, plus an offset."""
    edges = np.flatnonzero(np.diff(mask.astype(np.int8), prepend=0, append=0))
    firsts, ends = edges[::2] + offset, edges[1::2] + offset
    return [[int(first), int(end) - 1] for first, end in zip(firsts, ends, strict=True)]


def _request_ids(batches: list[WriteBatch]) -> tuple[str, ...]:
    """Return the ids of a group's first requests, deduplicated (a load has many batches)."""
    if len(batches) == 1:
        return batches[0].request_ids
    ids: dict[str, None] = {}
    for batch in batches:
        ids.update(dict.fromkeys(batch.request_ids))
        if len(ids) >= REQUEST_IDS_MAX:
            break
    return tuple(ids)


def _places(seq: int, first_position: int, part: Part) -> NDArray[np.uint64]:
    """Return the insertion numbers of a part's operations: seq << 32 | position in the group."""
    first = np.uint64((seq << 32) + first_position)
    places: NDArray[np.uint64] = part.positions.astype(np.uint64) + first
    return places


def fail(batch: WriteBatch, error: ServiceError) -> None:
    """Fail a batch with a copy of an error (each waiter adds its own traceback)."""
    if not batch.future.done():
        batch.future.set_exception(
            type(error)(error.message, code=error.code, param=error.param, details=error.details)
        )
