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

    shared_queue.py          when the next group of an index is published
    publishing.py            publishes an entry until the log has it
    following.py             reads the log, and applies its entries in order
    own_changes.py           our changes that are under way, and their answers
    pieces.py                entries longer than a message
    applying.py              applies groups on the shards, however often that fails
    placed_groups.py         the same where each host holds some of the shards
    catalog_changes.py       changes of the catalog: proposed, and put in force
    startup.py               makes the log, and decides when a host may serve
    local_state.py           what a host may show that starts without the log
    progress.py              how far this host is, in memory and on disk
    seq_waiters.py           requests that wait for an entry
    log_watch.py             whether the log is up
    comparison_schedule.py   when hosts compare their data
    trimming.py              removes old entries
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, ClassVar

from common.deadline import Deadline
from common.errors import (
    Conflict,
    InternalError,
    InvalidRequest,
    StorageFull,
    Unavailable,
)
from common.process.logs import Log
from common.protocol.messages import ApplyResponse, IndexEntry
from common.protocol.operations import Operation
from coordinator.addresses import without_user
from coordinator.cluster.catalog import Index
from coordinator.cluster.catalog_state import CatalogState
from coordinator.replication.applying import Applier, ReplicaStopped
from coordinator.replication.catalog_changes import CatalogChanges
from coordinator.replication.comparison_schedule import ComparisonScheduler
from coordinator.replication.elections import elections_of
from coordinator.replication.entries import (
    EntryError,
    Kind,
    WriteGroup,
    operations_of,
    pack,
)
from coordinator.replication.following import Follower
from coordinator.replication.log_errors import LogAway, LogBroken
from coordinator.replication.log_state import LogState
from coordinator.replication.log_watch import LogWatch
from coordinator.replication.own_changes import OwnChange, OwnChanges
from coordinator.replication.peers import Peers
from coordinator.replication.pieces import THREAD_BYTES
from coordinator.replication.placed_groups import PlacedGroups
from coordinator.replication.position import Position, host_name
from coordinator.replication.progress import Progress
from coordinator.replication.publishing import Publisher, not_confirmed
from coordinator.replication.seq_waiters import SeqWaiters
from coordinator.replication.shared_queue import SharedQueue
from coordinator.replication.startup import Startup
from coordinator.replication.stream_state import StreamInfo
from coordinator.replication.this_host import ThisHost
from coordinator.replication.trimming import LogTrimmer
from coordinator.write.log import (
    ChangeOfCatalog,
    DocumentOf,
    WriteLog,
    no_index,
    prepare_on_shards,
)
from coordinator.write.partitioning import Parts, SelectedChange
from coordinator.write.write_batch import Items, WriteBatch, unconfirmed

if TYPE_CHECKING:
    from coordinator.replication.placement import Placement

_log = Log("replica")


class SharedLog(WriteLog):
    """The log that several hosts share.

    Args:
        host: this one.
    """

    is_shared: ClassVar[bool] = True

    def __init__(self, host: ThisHost) -> None:
        settings, cluster, catalog, stream = host
        self._cluster = cluster
        self._catalog = catalog
        self._settings = settings
        self._stream = stream
        self._progress = Progress(settings.data_dir)
        self._queues: dict[int, SharedQueue] = {}
        self._own = OwnChanges()
        self._watch = LogWatch(self, stream, elections_of(settings))
        self._publisher = Publisher(stream, self._watch)
        self._applier = Applier(cluster, settings)
        self._waiters = SeqWaiters(lambda: self.shown_seq)
        self._applied_waiters = SeqWaiters(lambda: self.shown_seq)
        self._tasks: list[asyncio.Task[None]] = []
        self._stopped = ""
        self._changes = CatalogChanges(self, host, self._publisher, self._applier, self._own)
        self._comparisons = ComparisonScheduler(self, host, self._publisher, self._stop_for_good)
        self.peers = Peers(self, stream, settings)
        self._startup = Startup(host, self._progress, self._watch)
        self._target = 0
        catalog.propose = self._changes.change
        self._placed = cluster.placed
        self.placement: Placement | None = None
        self._placed_groups: PlacedGroups | None = None
        if self._placed is not None:
            self._placed.on_floor = self._show
            self._placed_groups = PlacedGroups(self, host, self._placed, self._applier, self._own)
        self._follower = Follower(
            self,
            host,
            self._applier,
            self._own,
            self._changes,
            self._comparisons,
            self._placed_groups,
        )
        self.paused = self._follower.paused
        self._trimmer = LogTrimmer(self, stream, self._placed)
        cluster.withheld = Unavailable("this host catches up with the log", code="starting")

    # --- life

    def start(self) -> None:
        """Begin to follow, once the shards serve."""
        self._stream.start()
        self._tasks = [
            asyncio.create_task(self._run(), name="follow the log"),
            asyncio.create_task(self._watch.run(), name="watch the log"),
            asyncio.create_task(self._progress.run(), name="save the position"),
            asyncio.create_task(self._trimmer.run(), name="trim the log"),
            asyncio.create_task(self._comparisons.run(), name="compare hosts"),
            asyncio.create_task(self.peers.run(), name="ask other hosts"),
        ]

    async def stop(self) -> None:
        """Stop to follow; what has been applied is remembered."""
        tasks = [*self._tasks, *self._follower.tasks]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._comparisons.comparer.close()
        await self._stream.close()
        await self._progress.save()

    async def _run(self) -> None:
        """Follow the log for as long as this host can."""
        try:
            replica = self._progress.replica
            if replica is not None and replica.stopped:
                raise ReplicaStopped(replica.stopped)
            await self._cluster.wait_ready()
            self._target = await self._startup.run()
            self.advance_to(self.position)
            await self._follower.run(self.position)
        except (LogBroken, ReplicaStopped, EntryError) as error:
            self._stop_serving(str(error))
        except Exception as error:
            _log.error("following failed", cause=error)
            self._stop_serving("an internal error; the log of this process has details")

    def _stop_serving(self, reason: str) -> None:
        """Stop answering: this host would differ from the others."""
        if self._stopped:
            return
        self._stopped = reason
        _log.error("this host stops serving", reason=reason, seq=self.position.seq)
        error = self._why_stopped()
        self._cluster.withheld = error
        if self._placed is not None:
            self._cluster.own_host.is_stopped = True
            self._placed.update()
        self._waiters.fail(self._why_stopped)
        self._applied_waiters.fail(self._why_stopped)
        for queue in self._queues.values():
            queue.fail_waiting(error)
        self._own.fail(error.message)

    def _why_stopped(self) -> Unavailable:
        return Unavailable(
            f"this host is not as the others and has stopped: {self._stopped}; ask another one",
            code="replica_stopped",
        )

    def stop_following(self, reason: str) -> None:
        """Stop serving, because an entry can never be applied here."""
        self._stop_serving(reason)
        self._tasks[0].cancel()

    def _stop_for_good(self, reason: str) -> None:
        """Stop serving, even after a restart: the data here differ from the others'."""
        reason = f"{reason}; empty its directory, and it takes its data from another host"
        self._progress.stop_for_good(reason)
        self.stop_following(reason)
        self.spawn(self._progress.save())

    # --- state, for other modules

    @property
    def position(self) -> Position:
        """How far this host has applied the log."""
        return self._progress.position

    @property
    def applied_seq(self) -> int:
        """Everything up to this entry is applied on the shards of this host."""
        return self._progress.applied_seq

    @property
    def shown_seq(self) -> int:
        """How far searches on this host see; less than is applied here while other hosts lag."""
        return self.applied_seq if self._placed is None else self._placed.floor

    @property
    def info(self) -> StreamInfo | None:
        """The last response of the log's leader."""
        return self._watch.info

    @property
    def addresses(self) -> list[str]:
        """Addresses of the log's servers, as configured, without credentials."""
        return [without_user(address) for address in self._stream.servers]

    @property
    def cluster_name(self) -> str:
        """Names the log that this host follows; empty before it does."""
        return "" if self._progress.replica is None else self._progress.replica.cluster

    @property
    def host(self) -> str:
        """Names this copy of the data."""
        return "" if self._progress.replica is None else self._progress.replica.host

    @property
    def name(self) -> str:
        """Names this host, for people."""
        return host_name(self._settings)

    @property
    def why_stopped(self) -> str:
        """Why this host has stopped to serve; empty: it has not."""
        return self._stopped

    def check_not_stopped(self) -> None:
        """Refuse if this host has stopped.

        Raises:
            Unavailable: `replica_stopped`.
        """
        if self._stopped:
            raise self._why_stopped()

    @property
    def is_withheld(self) -> bool:
        """Whether requests for data are refused, because this host catches up, or has stopped."""
        return self._cluster.withheld is not None

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
        return 0 < self._target <= self.applied_seq or self._cluster.withheld is None

    @property
    def state(self) -> LogState:
        """State of this host and of the log."""
        info = self._watch.info
        trouble = self._stopped or (
            self._applier.blocked.message if self._applier.blocked is not None else ""
        )
        compared = self._comparisons.comparer.state
        return LogState(
            cluster=self.cluster_name,
            host=self.host,
            seq=max(self.shown_seq, 0),
            last_seq=info.last_seq if info is not None and self._watch.is_up else None,
            lag_ms=self._watch.lag_ms,
            is_log_up=self._watch.is_up,
            num_current=self._watch.num_current,
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
        self.check_not_stopped()
        await self._waiters.wait(seq, deadline)

    async def wait_applied(self, seq: int, deadline: Deadline) -> None:
        """Return once everything up to an entry is applied on the shards of this host.

        Where each host has some of the shards, searches may see it later: see `wait_for`.

        Raises:
            DeadlineExceeded: it was not in time.
            Unavailable: `replica_stopped`; it never will be.
        """
        if self.applied_seq < seq:
            self.check_not_stopped()
            await self._applied_waiters.wait(seq, deadline)

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
        self._own[id] = OwnChange(batches, applied)
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
                batch.fail(unconfirmed(batch, not_confirmed(error)))
        except BaseException:
            self._own.pop(id, None)
            applied.cancel()
            for batch in batches:
                batch.fail(InternalError("internal error"))
            raise

    # --- how far this host is

    def tell_position(self) -> None:
        """Notify listeners of this host's progress."""
        assert self._placed is not None
        own = self._cluster.own_host
        own.applied = self.applied_seq
        own.moved_at = time.monotonic()
        self._applied_waiters.reach(own.applied)
        self._placed.update()

    def advance_to(self, position: Position) -> None:
        """Let searches see everything up to a position; serve once that is enough."""
        self._progress.position = position
        if self._placed is None:
            self._show(self.applied_seq)
        else:
            self.tell_position()

    def _show(self, seq: int) -> None:
        """Let searches see everything up to an entry; serve once that is enough."""
        self._cluster.horizons.floor = seq
        withheld = self._cluster.withheld
        if withheld is not None and seq >= self._target and not self._stopped:
            self._cluster.withheld = None
            if self._placed is not None:
                self._placed.begin_serving()
            _log.info("this host serves", seq=seq)
        self._waiters.reach(seq)

    # --- shards placed over hosts

    async def outcomes_here(self, index: int, seq: int, shard: int) -> ApplyResponse:
        """Return the outcomes of a group; see `PlacedGroups.outcomes_here`."""
        assert self._placed_groups is not None
        return await self._placed_groups.outcomes_here(index, seq, shard)

    @property
    def shards_here(self) -> tuple[int, ...]:
        """Shards of this host, where each holds some; else none."""
        return () if self._placed is None else tuple(sorted(self._cluster.here))

    @property
    def arriving(self) -> dict[int, int]:
        """By shard that this host is taking: the entry up to which its folder has everything."""
        return {} if self._progress.replica is None else self._progress.replica.arriving

    @property
    def left(self) -> dict[int, int]:
        """By shard that has left: the entry up to which its folder has everything."""
        return {} if self._progress.replica is None else self._progress.replica.left

    async def note(self, **changes: Any) -> None:
        """Change what is remembered of the shards of this host; it is on disk then.

        Raises:
            OSError: it is not.
        """
        await self._progress.note(**changes)

    # --- the catalog

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

        await self._changes.change(change)

    async def drop_index(self, index: Index, change: ChangeOfCatalog) -> None:
        """Delete an index and its data, on all hosts."""
        await self._changes.change(change)

    async def prepare(self, entry: IndexEntry) -> None:
        """Have all shards of this host build a new revision."""
        await prepare_on_shards(self._cluster, entry, self._settings.configure_timeout_ms)

    @asynccontextmanager
    async def unchanging(self) -> AsyncIterator[None]:
        """Keep the catalog as it is; entries that change it wait, and all after them."""
        async with self._changes.unchanging():
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

    def forget_queue(self, index: int) -> None:
        """Refuse what waits to be written to an index that has been deleted."""
        queue = self._queues.pop(index, None)
        if queue is not None:
            queue.fail_waiting(no_index(str(index)))

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

    def batch_of_selected(self, changes: Sequence[SelectedChange]) -> WriteBatch:
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

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Do some work until it ends, or this host stops."""
        task = asyncio.create_task(work)
        self._tasks.append(task)
        task.add_done_callback(self._tasks.remove)

    async def compare(self) -> int:
        """Have all hosts compare their data; return the number of the mark.

        Raises:
            Unavailable: the log is away.
        """
        return await self._comparisons.request()
