"""The log that several hosts share: publish changes, apply those of all hosts in the log's order.

    requests ─▶ SharedQueue ─▶ publish ─▶ JetStream ─▶ follow ─▶ divide ─▶ shards ─▶ horizon
                one group of an index                 every entry, in order         │
                at a time                             requests of our own ◀─────────┘

Every host applies every entry in order; ours are answered when they are applied here. By then the
log has stored them on a majority of its servers, and this host has synced them.

Outcomes follow from the entries alone: each host evaluates conditions (If-Match, "exists", partial
updates) when it applies the entry. Local trouble never decides an outcome. A full disk or a dead
shard makes this host wait and retry; an entry that can never be applied here makes it stop serving
(`replica_stopped`), because from then on it would differ from the others.

Groups of one index are applied one after the other, those of different indexes concurrently. A
change of the catalog waits for all groups before it, and all groups after it wait for the change.

Publishing again is safe while the log remembers the entry's id; we give up long before it forgets.
A change that was given up may still be carried out: its outcome is unknown, and the response says
so. The next group of an index is published only when the one before is confirmed or given up, so
the log has them in the order in which they were accepted.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from common.deadline import NEVER, Deadline
from common.errors import (
    Conflict,
    DeadlineExceeded,
    InternalError,
    InvalidRequest,
    ServiceError,
    StorageFull,
    Unavailable,
)
from common.process.logs import Log
from common.protocol.messages import ApplyResponse, IndexEntry, OutcomesRequest
from common.protocol.methods import OUTCOMES
from common.protocol.operations import Operation
from coordinator.cluster.catalog import Catalog, CatalogState, Index
from coordinator.cluster.cluster import Cluster
from coordinator.replication.applying import Applier, ReplicaStopped, joined
from coordinator.replication.comparison import Comparer
from coordinator.replication.elections import elections_of
from coordinator.replication.entries import (
    CatalogChange,
    ComparisonMark,
    EntryError,
    HostReport,
    Kind,
    WriteGroup,
    decode_entry,
    operations_of,
    pack,
)
from coordinator.replication.log_state import LogState
from coordinator.replication.log_watch import LogWatch
from coordinator.replication.peers import Peers
from coordinator.replication.pieces import THREAD_BYTES, Pieces, divided
from coordinator.replication.position import (
    REPLICA_FORMAT,
    ReplicaFile,
    host_name,
    new_host,
    read_replica,
    write_replica,
)
from coordinator.replication.publishing import Publisher, not_confirmed
from coordinator.replication.recent_outcomes import RecentOutcomes
from coordinator.replication.safety import metadata_of
from coordinator.replication.shared_queue import SharedQueue
from coordinator.replication.stream import (
    LogAway,
    LogBroken,
    LogStream,
    Position,
    StreamInfo,
    StreamMessage,
    without_user,
)
from coordinator.replication.transfer import find_offers
from coordinator.settings import Settings
from coordinator.write.log import DocumentOf, WriteLog, no_index, prepare_on_shards, without
from coordinator.write.partitioning import Parts, Selected
from coordinator.write.write_queue import (
    Applied,
    Items,
    WriteBatch,
    fail,
    unconfirmed,
)

if TYPE_CHECKING:
    from coordinator.replication.placement import Placement

PAUSE_SECONDS: Final = 0.1
"""Before something that failed is tried again."""
UNDER_WAY_BYTES_MAX: Final = 64 << 20
UNDER_WAY_MAX: Final = 256
"""Entries that are being applied; then we stop to read."""
SAVE_SECONDS: Final = 1.0
TRIM_SECONDS: Final = 1_200.0
TRIM_AGE_SECONDS: Final = 86_400.0
"""A host that was away for less than this continues from its position."""
TRIM_ENTRIES_MIN: Final = 1_000
JOIN_TRIES: Final = 30
"""Pauses for which a start waits for the log before it serves its own data."""

_log = Log("replica")


@dataclass(slots=True)
class _Own:
    """A change of ours that has been published, or is about to be.

    Attributes:
        batches: of a write.
        applied: done when the entry has been applied here; for a change of the catalog the result
            is whether it is in force.
    """

    batches: list[WriteBatch]
    applied: asyncio.Future[bool]


@dataclass(slots=True)
class _Step:
    """An entry that is being applied."""

    seq: int
    stored_at: int
    num_bytes: int = 0
    is_done: bool = field(default=False)


class SharedLog(WriteLog):
    """The log that several hosts share.

    Args:
        cluster: the shards of this host.
        catalog: this host's copy of the catalog.
        settings: names the log.
        stream: the log itself.
    """

    is_shared: ClassVar[bool] = True

    def __init__(
        self, cluster: Cluster, catalog: Catalog, settings: Settings, stream: LogStream
    ) -> None:
        self._cluster = cluster
        self._catalog = catalog
        self._settings = settings
        self._stream = stream
        self._replica = read_replica(settings.data_dir)
        replica = self._replica
        self._position = (
            Position(0, 0) if replica is None else Position(replica.seq, replica.stored_at)
        )
        self._saved = replica
        self._queues: dict[int, SharedQueue] = {}
        self._own: dict[str, _Own] = {}
        self._watch = LogWatch(self, stream, elections_of(settings))
        self._publisher = Publisher(stream, self._watch)
        self._applier = Applier(cluster, settings)
        self._steps: deque[_Step] = deque()
        self._num_bytes = 0
        self._pieces = Pieces(stream)
        self._gate = asyncio.Lock()
        self._chains: dict[int, asyncio.Task[None]] = {}
        self._progress = asyncio.Event()
        self._waiters: list[tuple[int, asyncio.Future[None]]] = []
        self._applied_waiters: list[tuple[int, asyncio.Future[None]]] = []
        self._recent = RecentOutcomes()
        self._adopting = asyncio.Lock()
        self._proposing = asyncio.Lock()
        self._saving = asyncio.Lock()
        self._tasks: list[asyncio.Task[None]] = []
        self._stopped = ""
        self._comparer = Comparer(cluster, self._report, self._stop_for_good)
        self._marked_at = time.monotonic()
        self.peers = Peers(self, stream, settings)
        self._target = 0
        catalog.propose = self.change
        self._placed = cluster.placed
        self.placement: Placement | None = None
        if self._placed is not None:
            self._placed.on_floor = self._show
        cluster.withheld = Unavailable("this host catches up with the log", code="starting")

    # --- life

    def start(self) -> None:
        """Begin to follow, once the shards serve."""
        self._stream.start()
        self._tasks = [
            asyncio.create_task(self._run(), name="follow the log"),
            asyncio.create_task(self._watch.run(), name="watch the log"),
            asyncio.create_task(self._save_again_and_again(), name="save the position"),
            asyncio.create_task(self._trim_again_and_again(), name="trim the log"),
            asyncio.create_task(self._compare_again_and_again(), name="compare hosts"),
            asyncio.create_task(self.peers.run(), name="ask other hosts"),
        ]

    async def stop(self) -> None:
        """Stop to follow; what has been applied is remembered."""
        tasks = [*self._tasks, *self._chains.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._comparer.close()
        await self._stream.close()
        await self._save()

    async def _run(self) -> None:
        """Follow the log for as long as this host can."""
        try:
            if self._replica is not None and self._replica.stopped:
                raise ReplicaStopped(self._replica.stopped)
            await self._cluster.wait_ready()
            await self._join()
            async for message in self._stream.follow(self._position):
                while self._num_bytes > UNDER_WAY_BYTES_MAX or len(self._steps) > UNDER_WAY_MAX:
                    await self._next_progress()
                async with self._gate:
                    await self._take(message)
        except (LogBroken, ReplicaStopped, EntryError) as error:
            self._stop_serving(str(error))
        except Exception as error:
            _log.error("following failed", cause=error)
            self._stop_serving("an internal error; the log of this process has details")

    async def _join(self) -> None:
        """Create the log if this host is the first; set the entry from which it may serve."""
        seq_max = self._cluster.seq
        if self._replica is None:
            await self._create(seq_max)
        for _ in range(JOIN_TRIES):
            if self._watch.is_up:
                break
            await asyncio.sleep(PAUSE_SECONDS)
        self._target = seq_max
        if self._watch.is_up and self._watch.info is not None:
            self._target = max(seq_max, self._watch.info.last_seq)
        elif self._position.seq <= self._stream_origin():
            self._target = seq_max + 1  # an empty host has nothing to say before it has followed
        self._advance_to(self._position)

    def _stream_origin(self) -> int:
        return 0 if self._watch.info is None else self._watch.info.origin - 1

    async def _create(self, seq_max: int) -> None:
        """Create the stream; its first entry gets the number after all that this host has."""
        while True:
            try:
                info = await self._stream.info()
                if info is None:
                    metadata = metadata_of(
                        self._settings.limits, seq_max + 1, self._settings.shards_of
                    )
                    replicas = self._settings.log_replicas
                    await self._stream.create(replicas, seq_max + 1, metadata)
                    info = await self._stream.info()
                    _log.info("log made", stream=self._stream.name, replicas=replicas)
                if info is not None:
                    break
            except LogAway as error:
                _log.warning("the log cannot be made", reason=str(error))
            await asyncio.sleep(PAUSE_SECONDS * 5)
        if info.origin != seq_max + 1:
            raise ReplicaStopped(
                "another host has made the log from other data: empty this directory and start "
                "again without log_create"
            )
        self._watch.info = info
        async with self._saving:
            shards = self._settings.own_shards if self._placed is not None else ()
            self._replica = ReplicaFile(
                REPLICA_FORMAT,
                info.cluster,
                new_host(),
                seq_max,
                0,
                shards=shards,
                configured=shards,
            )
            self._position = Position(seq_max, 0)
            await asyncio.to_thread(write_replica, self._settings.data_dir, self._replica)
            self._saved = self._replica

    def _stop_serving(self, reason: str) -> None:
        """Stop answering: this host would differ from the others."""
        if self._stopped:
            return
        self._stopped = reason
        _log.error("this host stops serving", reason=reason, seq=self._position.seq)
        error = self._why_stopped()
        self._cluster.withheld = error
        if self._placed is not None:
            self._cluster.own_host.is_stopped = True
            self._placed.update()
        for _, waiting in (*self._waiters, *self._applied_waiters):
            if not waiting.done():
                waiting.set_exception(self._why_stopped())
        for queue in self._queues.values():
            queue.fail_waiting(error)
        for own in self._own.values():
            for batch in own.batches:
                fail(batch, unconfirmed(batch, error.message))
            if not own.applied.done():
                own.applied.cancel()
        self._own.clear()

    def _why_stopped(self) -> Unavailable:
        return Unavailable(
            f"this host is not as the others and has stopped: {self._stopped}; ask another one",
            code="replica_stopped",
        )

    def _stop_for_good(self, reason: str) -> None:
        """Stop serving, even after a restart: the data here differ from the others'."""
        assert self._replica is not None
        reason = f"{reason}; empty its directory, and it takes its data from another host"
        self._replica = msgspec.structs.replace(self._replica, stopped=reason)
        self._stop_serving(reason)
        self._tasks[0].cancel()
        self._spawn(self._save())

    # --- state, for other modules

    @property
    def position(self) -> Position:
        """How far this host has applied the log."""
        return self._position

    @property
    def shown_seq(self) -> int:
        """How far searches on this host see; less than its position while other hosts lag."""
        return self._position.seq if self._placed is None else self._placed.floor

    @property
    def info(self) -> StreamInfo | None:
        """The last response of the log's leader."""
        return self._watch.info

    @property
    def addresses(self) -> list[str]:
        """Addresses of the log's servers, as configured, without credentials."""
        return [without_user(address) for address in self._stream.servers]

    @property
    def is_serving(self) -> bool:
        """Whether this host answers requests for data."""
        return self._cluster.withheld is None and self._cluster.is_ready

    @property
    def can_give_data(self) -> bool:
        """Whether another host may take its data from this one.

        A host that holds some shards gives them also while it does not serve because others are
        away: it may be these that wait for its data.
        """
        if self._stopped or not self._cluster.is_ready_here:
            return False
        if self._placed is None:
            return self._cluster.withheld is None
        return 0 < self._target <= self._position.seq or self._cluster.withheld is None

    @property
    def state(self) -> LogState:
        """State of this host and of the log."""
        info = self._watch.info
        trouble = self._stopped or (
            self._applier.blocked.message if self._applier.blocked is not None else ""
        )
        compared = self._comparer.state
        return LogState(
            cluster=self.cluster_name,
            host=self.host,
            seq=max(self.shown_seq, 0),
            last_seq=info.last_seq if info is not None and self._watch.is_up else None,
            lag_ms=self._watch.lag_ms,
            is_log_up=self._watch.is_up,
            num_current=0 if info is None or not self._watch.is_up else info.num_current,
            num_replicas=0 if info is None else info.num_replicas,
            leader="" if info is None else info.leader,
            trouble=trouble,
            name=self.name,
            compared_seq=compared.seq,
            compared_age_s=compared.age_s,
            num_equal=compared.num_equal,
            difference=compared.difference,
            digest=compared.digest,
        )

    def check_writable(self) -> None:
        """Refuse a change that could not be carried out now.

        Raises:
            Unavailable: nothing was changed.
            StorageFull: this host has no room.
        """
        self._cluster.horizon(0)  # raises while this host does not serve
        if self._applier.blocked is not None:
            raise StorageFull(
                f"this host cannot apply what is written: {self._applier.blocked.message}"
            )
        if not self._watch.is_up:
            raise Unavailable(
                "the log is away, or has no majority: nothing was written, reads go on; try again "
                "shortly",
                code="log_unavailable",
            )
        failed = self._cluster.failed_shards()
        if failed:
            raise Unavailable(f"shard {failed[0]} is away; nothing was written; try again shortly")

    async def wait_for(self, seq: int, deadline: Deadline) -> None:
        """Return once everything up to an entry is applied here.

        Raises:
            DeadlineExceeded: it was not in time.
            Unavailable: `replica_stopped`; it never will be.
        """
        if self.shown_seq >= seq:
            return
        await self._wait(self._waiters, seq, deadline)

    async def wait_applied(self, seq: int, deadline: Deadline) -> None:
        """Return once everything up to an entry is applied on the shards of this host.

        Where each host has some of the shards, searches may see it later: see `wait_for`.

        Raises:
            DeadlineExceeded: it was not in time.
            Unavailable: `replica_stopped`; it never will be.
        """
        if self._position.seq < seq:
            await self._wait(self._applied_waiters, seq, deadline)

    async def _wait(
        self, waiters: list[tuple[int, asyncio.Future[None]]], seq: int, deadline: Deadline
    ) -> None:
        if self._stopped:
            raise self._why_stopped()
        waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiters.append((seq, waiting))
        try:
            async with asyncio.timeout(deadline.remaining_seconds):
                await waiting
        except TimeoutError:
            raise DeadlineExceeded(
                f"this host has applied the log up to {self.shown_seq}, not to {seq}"
            ) from None
        finally:
            waiters[:] = [one for one in waiters if one[1] is not waiting]

    def check_lag(self, lag_ms_max: int) -> None:
        """Refuse a request if this host may have lacked something for too long.

        Raises:
            Unavailable: `replica_lags`.
        """
        lag_ms = self._watch.lag_ms
        if not 0 <= lag_ms <= lag_ms_max:
            raise Unavailable(
                f"this host may lack what is older than {lag_ms_max} ms; ask another one",
                code="replica_lags",
            )

    # --- publish

    async def publish_group(
        self, index: int, batches: list[WriteBatch], applied: asyncio.Future[bool]
    ) -> None:
        """Publish batches as one group; return when it is in the log, applied, or given up.

        Args:
            index: number of the index.
            batches: to publish.
            applied: done when the group is applied here, or cancelled if it was given up.
        """
        id = self._publisher.next_id()
        self._own[id] = _Own(batches, applied)
        num_bytes = sum(batch.num_bytes for batch in batches)
        try:
            if num_bytes > THREAD_BYTES:
                packed = await asyncio.to_thread(lambda: pack(WriteGroup.of(index, batches)))
            else:
                packed = pack(WriteGroup.of(index, batches))
            for batch in batches:
                batch.items = None
            await self._publisher.append(Kind.WRITE, id, packed, applied)
        except LogAway as error:
            self._own.pop(id, None)
            applied.cancel()
            for batch in batches:
                fail(batch, unconfirmed(batch, not_confirmed(error)))
        except BaseException:
            self._own.pop(id, None)
            applied.cancel()
            for batch in batches:
                fail(batch, InternalError("internal error"))
            raise

    # --- follow

    async def _take(self, message: StreamMessage) -> None:
        """Begin to apply the next entry; a change of the catalog is applied before this returns."""
        entry = decode_entry(message.content)
        step = _Step(message.seq, message.stored_at, len(message.content))
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
            before = self._chains.get(content.index)
            task = asyncio.create_task(self._apply(step, entry.id, content, before))
            self._chains[content.index] = task
            task.add_done_callback(lambda done: self._chain_ended(content.index, done))
        elif isinstance(content, ComparisonMark):
            await self._all_applied()
            self._marked_at = time.monotonic()
            self._comparer.mark(step.seq, self.host, self.name, self._catalog.state)
            self._finish(step)
        elif isinstance(content, HostReport):
            self._comparer.take(content)
            self._finish(step)
        else:
            await self._all_applied()
            is_adopted = await self._adopt(step.seq, content)
            own = self._own.pop(entry.id, None)
            self._finish(step)
            if own is not None:
                if self._placed is not None:
                    self._spawn(self._answer_when_shown(step.seq, own, is_adopted))
                elif not own.applied.done():
                    own.applied.set_result(is_adopted)

    async def _answer_when_shown(self, seq: int, own: _Own, is_adopted: bool) -> None:
        """Answer a change of the catalog once searches see it."""
        with suppress(DeadlineExceeded, Unavailable):
            await self.wait_for(seq, Deadline.after_ms(self._settings.configure_timeout_ms))
        if not own.applied.done():
            own.applied.set_result(is_adopted)

    async def _apply(
        self, step: _Step, id: str, group: WriteGroup, before: asyncio.Task[None] | None
    ) -> None:
        """Apply a group on all shards concerned, however often that fails."""
        num_shards = self._cluster.num_shards
        parts = await divided(group, num_shards, step.seq)
        if before is not None:
            await before
        own = self._own.get(id)
        if not self._catalog.state.has(group.index):
            if own is not None:
                for batch in own.batches:
                    fail(batch, no_index(str(group.index)))
        elif self._placed is not None:
            await self._apply_placed(step, id, group, parts, own)
            return
        else:
            outcomes, text_ids = await self._applier.apply(step.seq, group, parts)
            self._cluster.advance(group.index, step.seq)
            if own is not None:
                _settle(own.batches, step.seq, outcomes, text_ids)
        self._own.pop(id, None)
        if own is not None and not own.applied.done():
            own.applied.set_result(True)
        self._finish(step)

    # --- shards placed over hosts

    def _tell_position(self) -> None:
        """Notify listeners of this host's progress."""
        assert self._placed is not None
        own = self._cluster.own_host
        own.applied = self._position.seq
        own.moved_at = time.monotonic()
        for wanted, waiting in self._applied_waiters:
            if wanted <= own.applied and not waiting.done():
                waiting.set_result(None)
        self._placed.update()

    async def _apply_placed(
        self, step: _Step, id: str, group: WriteGroup, parts: Parts, own: _Own | None
    ) -> None:
        """Apply the parts of the shards that this host holds; answer our own requests later."""
        assert self._placed is not None
        here = {shard: part for shard, part in parts.items() if shard in self._cluster.here}
        if own is not None:
            self._placed.pending.add(step.seq)
        answers = await self._applier.apply_parts(step.seq, group, here)
        for shard, answer in answers.items():
            self._recent.keep(step.seq, shard, answer)
        if own is not None:
            self._spawn(self._settle_placed(step.seq, id, group, parts, answers, own))
        self._finish(step)

    async def _settle_placed(
        self,
        seq: int,
        id: str,
        group: WriteGroup,
        parts: Parts,
        answers: dict[int, ApplyResponse],
        own: _Own,
    ) -> None:
        """Answer the requests of a group once it is applied by a copy of every shard concerned."""
        assert self._placed is not None
        placement = self.placement
        assert placement is not None
        if not own.applied.done():
            own.applied.set_result(True)  # it is in the log
        elsewhere = [shard for shard in parts if shard not in answers]
        asking = asyncio.gather(
            *(placement.outcomes(group.index, seq, shard) for shard in elsewhere)
        )
        waiting = asyncio.ensure_future(asyncio.wait([batch.future for batch in own.batches]))
        try:
            # Requests past their deadline have been answered: outcome unknown.
            await asyncio.wait((asking, waiting), return_when=asyncio.FIRST_COMPLETED)
            if asking.done():
                answers = {**answers, **dict(zip(elsewhere, asking.result(), strict=True))}
                ordered = [answers[shard] for shard in parts]
                outcomes, text_ids = joined(group.num_operations, parts, ordered)
                showing = asyncio.ensure_future(self.wait_for(seq, NEVER))
                try:
                    await asyncio.wait((showing, waiting), return_when=asyncio.FIRST_COMPLETED)
                    if showing.done() and showing.exception() is None:
                        _settle(own.batches, seq, outcomes, text_ids)
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
        if self._stopped:
            raise self._why_stopped()
        found = self._recent.get(seq, shard)
        if found is not None and found.outcomes:
            return found
        timeout_ms = self._settings.write_timeout_ms
        client = self._cluster.here.get(shard)
        if client is None:
            raise Unavailable(f"shard {shard} is not on this host")
        answer = await client.call(OUTCOMES, OutcomesRequest(index, seq), timeout_ms)
        if not answer.is_known or not answer.outcomes:
            raise Unavailable(f"the outcomes of group {seq} are not known any more")
        return ApplyResponse(answer.outcomes)

    def _chain_ended(self, index: int, task: asyncio.Task[None]) -> None:
        if self._chains.get(index) is task:
            del self._chains[index]
        self._progress.set()
        error = None if task.cancelled() else task.exception()
        if error is None:
            return
        if not isinstance(error, ReplicaStopped):
            _log.error("applying failed", cause=error)
        self._stop_serving(str(error) or type(error).__name__)
        self._tasks[0].cancel()

    def _finish(self, step: _Step) -> None:
        """Note that an entry is applied; move the position past all that are, in order."""
        step.is_done = True
        self._num_bytes -= step.num_bytes
        position = self._position
        while self._steps and self._steps[0].is_done:
            first = self._steps.popleft()
            position = Position(first.seq, first.stored_at)
        if position is not self._position:
            self._advance_to(position)
        self._progress.set()

    def _advance_to(self, position: Position) -> None:
        """Let searches see everything up to a position; serve once that is enough."""
        self._position = position
        if self._placed is None:
            self._show(position.seq)
        else:
            self._tell_position()

    def _show(self, seq: int) -> None:
        """Let searches see everything up to an entry; serve once that is enough."""
        self._cluster.floor = seq
        withheld = self._cluster.withheld
        if withheld is not None and seq >= self._target and not self._stopped:
            self._cluster.withheld = None
            if self._placed is not None:
                self._placed.begin_serving()
            _log.info("this host serves", seq=seq)
        for wanted, waiting in self._waiters:
            if wanted <= seq and not waiting.done():
                waiting.set_result(None)

    async def _next_progress(self) -> None:
        self._progress.clear()
        await self._progress.wait()

    async def _all_applied(self) -> None:
        """Return when no group is being applied."""
        while self._chains:
            await self._next_progress()

    # --- shards that move

    @property
    def shards_here(self) -> tuple[int, ...]:
        """Shards of this host, where each holds some; else none."""
        return () if self._placed is None else tuple(sorted(self._cluster.here))

    @property
    def arriving(self) -> dict[int, int]:
        """By shard that this host is taking: the entry up to which its folder has everything."""
        return {} if self._replica is None else self._replica.arriving

    @property
    def left(self) -> dict[int, int]:
        """By shard that has left: the entry up to which its folder has everything."""
        return {} if self._replica is None else self._replica.left

    async def note(self, **changes: Any) -> None:
        """Change what is remembered of the shards of this host; it is on disk then.

        Raises:
            OSError: it is not.
        """
        async with self._saving:
            assert self._replica is not None
            position = self._position
            changed = msgspec.structs.replace(
                self._replica, seq=position.seq, stored_at=position.stored_at, **changes
            )
            await asyncio.to_thread(write_replica, self._settings.data_dir, changed)
            self._saved = changed
            self._replica = msgspec.structs.replace(self._replica, **changes)

    @asynccontextmanager
    async def paused(self) -> AsyncIterator[None]:
        """Apply nothing for the body of a `with`; all up to the position is applied."""
        async with self._gate:
            await self._all_applied()
            yield

    # --- the catalog

    async def _adopt(self, seq: int, change: CatalogChange) -> bool:
        """Put a change of the catalog in force, however often that fails.

        Returns:
            Whether it is in force: only if nothing has changed since it was made.
        """
        async with self._adopting:
            if change.base != self._catalog.state.revision:
                return False
            for index in change.put:
                await self._applier.surely(partial(self.prepare, index.entry))
            if self._placed is not None:
                # All hosts switch together: a request reads some shards here and others there.
                self._cluster.own_host.prepared = seq
                self._tell_position()
                await self._placed.all_prepared(seq)
            await self._applier.surely(
                lambda: self._catalog.change_here(change.applied_to, is_active=False)
            )
            await self._cluster.push_catalog()
            self._catalog.activate()
            for number in change.dropped:
                queue = self._queues.pop(number, None)
                if queue is not None:
                    queue.fail_waiting(no_index(str(number)))
                self._cluster.forget(number)
        return True

    async def change(self, function: Callable[[CatalogState], CatalogState]) -> CatalogState:
        """Change the catalog on all hosts.

        Args:
            function: returns the new state; called again if another host was faster.

        Raises:
            Unavailable: `log_unavailable`; nothing was changed unless the message says otherwise.
        """
        async with self._proposing:
            while True:
                self.check_writable()
                before = self._catalog.state
                after = function(before)
                if after == before:
                    return after
                if await self._propose(CatalogChange.between(before, after)):
                    return after

    async def _propose(self, change: CatalogChange) -> bool:
        """Publish a change of the catalog; return whether it was put in force."""
        id = self._publisher.next_id()
        own = self._own[id] = _Own([], asyncio.get_running_loop().create_future())
        try:
            await self._publisher.append(Kind.CATALOG, id, pack(change), own.applied)
            return await own.applied
        except LogAway as error:
            raise Unavailable(not_confirmed(error), code="log_unavailable") from error
        except asyncio.CancelledError:
            if self._stopped:
                raise Unavailable(self._stopped, code="replica_stopped") from None
            raise
        finally:
            self._own.pop(id, None)

    async def put_index(self, name: str, document_of: DocumentOf) -> None:
        """Create an index, or put a new configuration of it in force, on all hosts."""

        def change(state: CatalogState) -> CatalogState:
            if name in state.aliases:
                raise InvalidRequest(
                    f"{name!r} is an alias of {state.aliases[name]!r}; configure that index",
                    code="invalid_index_name",
                )
            current = next((one for one in state.indexes if one.name == name), None)
            document = document_of({} if current is None else current.configuration)
            return state.with_index(state.new_entry(name, document))

        await self.change(change)

    async def drop_index(self, index: Index, replacing: Index | None = None) -> None:
        """Delete an index and its data, on all hosts."""
        await self.change(lambda state: without(state, index, replacing))

    async def prepare(self, entry: IndexEntry) -> None:
        """Have all shards of this host build a new revision."""
        await prepare_on_shards(self._cluster, entry, self._settings.configure_timeout_ms)

    @asynccontextmanager
    async def unchanging(self) -> AsyncIterator[None]:
        """Keep the catalog as it is; entries that change it wait, and all after them."""
        async with self._adopting:
            yield

    def check_can_restore(self) -> None:
        """Refuse to restore or copy indexes: the other hosts do not have the snapshot.

        Raises:
            Conflict: always.
        """
        raise Conflict(
            "several hosts share the log, and the others do not have the snapshot that this is "
            "made of: load the items instead (facetd export, facetd load)",
            code="not_with_several_hosts",
        )

    # --- items

    def queue(self, index: int) -> SharedQueue:
        """Return the queue of an index."""
        queue = self._queues.get(index)
        if queue is None:
            queue = self._queues[index] = SharedQueue(self, index, self._settings)
        return queue

    def num_waiting(self) -> int:
        """Return the number of waiting batches."""
        return sum(queue.num_waiting for queue in self._queues.values())

    def divide(self, items: Items) -> Parts | None:
        """Return None: every host divides items over its own shards."""
        return None

    def batch_of_operations(
        self,
        operations: Sequence[tuple[Operation, bytes, bytes]],
        versions: dict[int, bytes] | None = None,
        positions: Mapping[str, str] | None = None,
    ) -> WriteBatch:
        """Return the batch of single operations."""
        num_bytes = sum(len(payload) for _, _, payload in operations)
        items = operations_of(operations, versions)
        return WriteBatch(len(operations), num_bytes, items=items, positions=positions)

    def batch_of_selected(self, changes: Sequence[Selected]) -> WriteBatch:
        """Return the batch of changes, each with the version that the item must still have.

        Each host numbers records for itself, so they mean nothing to the others.
        """
        versions = {
            position: change.version
            for position, change in enumerate(changes)
            if change.version is not None
        }
        return self.batch_of_operations(
            [(change.operation, change.id, change.payload) for change in changes], versions
        )

    # --- in the background

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.append(task)
        task.add_done_callback(self._tasks.remove)

    async def _trim_again_and_again(self) -> None:
        """Remove entries that are old, and that another host that serves has applied too."""
        while True:
            await asyncio.sleep(TRIM_SECONDS)
            try:
                await self.trim(TRIM_AGE_SECONDS)
            except LogAway as error:
                _log.warning("the log is not trimmed", reason=str(error))

    async def trim(self, age_seconds: float) -> None:
        """Remove entries that are older than that, if two hosts have them.

        Raises:
            LogAway: the log is.
        """
        info = await self._stream.info()
        newest = await self._applied_by_two()
        if info is None or not newest or self._cluster.withheld is not None:
            return
        before = min(await self._stream.first_seq_since(time.time() - age_seconds), newest)
        if before - info.first_seq >= TRIM_ENTRIES_MIN:
            await self._stream.trim(before)
            _log.info("log trimmed", first_seq=before)

    async def _applied_by_two(self) -> int:
        """Return the entry up to which two hosts have applied everything; 0: there is one only."""
        if self._placed is not None:
            return self._placed.applied_by(2)
        offers = await find_offers(self._stream)
        others = [offer.seq for offer in offers if offer.host != self.host]
        return min(self._position.seq, max(others, default=0))

    @property
    def cluster_name(self) -> str:
        """Names the log that this host follows; empty before it does."""
        return "" if self._replica is None else self._replica.cluster

    @property
    def host(self) -> str:
        """Names this copy of the data."""
        return "" if self._replica is None else self._replica.host

    @property
    def name(self) -> str:
        """Names this host, for people."""
        return host_name(self._settings)

    # --- comparing

    async def compare(self) -> int:
        """Have all hosts compare their data; return the number of the mark.

        Raises:
            Unavailable: the log is away.
        """
        self.check_writable()
        never: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        try:
            return await self._publisher.append(
                Kind.MARK, self._publisher.next_id(), pack(ComparisonMark(self.host)), never
            )
        except LogAway as error:
            raise Unavailable(not_confirmed(error), code="log_unavailable") from error

    async def _report(self, report: HostReport) -> None:
        """Report this host's digests to the others.

        Raises:
            LogAway: it was given up.
        """
        never: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        await self._publisher.append(Kind.REPORT, self._publisher.next_id(), pack(report), never)

    async def _compare_again_and_again(self) -> None:
        """Request a comparison whenever there was none for a while."""
        seconds = self._settings.log_compare_seconds
        if not seconds:
            return
        while True:
            # The first host wins; the others see its mark before they would set one.
            due_at = self._marked_at + seconds * (1 + 0.2 * secrets.randbits(16) / 2**16)
            await asyncio.sleep(max(due_at - time.monotonic(), PAUSE_SECONDS))
            if time.monotonic() - self._marked_at < seconds:
                continue
            self._marked_at = time.monotonic()
            try:
                await self.compare()
            except ServiceError as error:
                _log.warning("not compared", reason=error.message)

    async def _save_again_and_again(self) -> None:
        while True:
            await asyncio.sleep(SAVE_SECONDS)
            await self._save()

    async def _save(self) -> None:
        """Write this host's position, if it has changed; one writer at a time."""
        async with self._saving:
            await self._save_now()

    async def _save_now(self) -> None:
        position, replica = self._position, self._replica
        if replica is None:
            return
        replica = msgspec.structs.replace(replica, seq=position.seq, stored_at=position.stored_at)
        if replica == self._saved:
            return
        try:
            await asyncio.to_thread(write_replica, self._settings.data_dir, replica)
        except OSError as error:
            _log.warning("the position cannot be written", reason=error.strerror)
        else:
            self._saved = replica


def _settle(
    batches: list[WriteBatch], seq: int, outcomes: NDArray[np.uint8], text_ids: frozenset[int]
) -> None:
    """Answer the requests of a group."""
    first = 0
    for batch in batches:
        last = first + batch.num_operations
        if not batch.future.done():
            own = frozenset(one - first for one in text_ids if first <= one < last)
            batch.future.set_result(Applied(outcomes[first:last].copy(), seq, own))
        first = last
