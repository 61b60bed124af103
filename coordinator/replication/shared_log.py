"""The log that several hosts share: publish changes, apply those of all hosts in the log's order.

    requests ─▶ PublishQueue ─▶ publish ─▶ JetStream ─▶ follow ─▶ divide ─▶ shards ─▶ horizon
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

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import ClassVar

from common.errors import Conflict, Unavailable
from common.process.logs import Log
from common.protocol.messages import IndexEntry
from common.protocol.write_operations_and_outcomes import Operation
from coordinator.addresses import without_user
from coordinator.catalog.catalog import Index
from coordinator.catalog.catalog_state import CatalogState
from coordinator.replication.applying.cross_host_outcomes import CrossHostGroups
from coordinator.replication.applying.entry_applying import Applier, ReplicaStopped
from coordinator.replication.following.comparison_schedule import ComparisonScheduler
from coordinator.replication.following.log_following import Follower
from coordinator.replication.host.host_background_tasks import HostTasks
from coordinator.replication.host.host_context import HostContext
from coordinator.replication.host.log_watch import LogWatch
from coordinator.replication.host.pending_changes import PendingChanges
from coordinator.replication.log.log_entries import EntryError, operations_of
from coordinator.replication.log.log_errors import LogBroken
from coordinator.replication.log.nats_elections import elections_of
from coordinator.replication.peers.host_and_log_status import HostStatus, host_status
from coordinator.replication.peers.log_trimming import LogTrimmer
from coordinator.replication.peers.peer_states import Peers
from coordinator.replication.placement.own_placement import OwnPlacement
from coordinator.replication.placement.shard_moving import ShardProcesses
from coordinator.replication.publishing.catalog_changes import CatalogChanges
from coordinator.replication.publishing.entry_publishing import Publisher
from coordinator.replication.publishing.publish_queue import PublishQueue, PublishQueues
from coordinator.replication.publishing.write_group_publishing import GroupPublisher
from coordinator.replication.startup.first_serving import FirstServing
from coordinator.write.new_index_checks import check_no_alias
from coordinator.write.partitioning import Parts, SelectedChange
from coordinator.write.write_batch import Items, WriteBatch
from coordinator.write.write_ordering import ChangeOfCatalog, DocumentOf, WriteLog

_log = Log("replica")


class SharedLog(WriteLog):
    """The log that several hosts share.

    Args:
        host: this one.
        processes: of the shards of this host.

    Attributes:
        serving: whether this host answers, and how far searches see.
        watch: whether the log is up, and since when this host has all of it.
        peers: the hosts that share the log.
        placement: who has which shard, where each host holds some; else None.
    """

    is_shared: ClassVar[bool] = True

    def __init__(self, host: HostContext, processes: ShardProcesses) -> None:
        self._host = host
        self.serving = host.serving
        self.watch = LogWatch(host, elections_of(host.settings))
        self._own = PendingChanges()
        self._tasks = HostTasks()
        self._applier = Applier(host.cluster, host.settings)
        publisher = Publisher(host, self.watch, self._applier)
        self._queues = PublishQueues(GroupPublisher(publisher, self._own), host.settings)
        self._changes = CatalogChanges(host, publisher, self._applier, self._own, self._queues)
        self._comparisons = ComparisonScheduler(host, self.watch, publisher, self._stop_for_good)
        groups = None
        if host.cluster.placed is not None:
            groups = CrossHostGroups(
                host, host.cluster.placed, self._applier, self._own, self._tasks
            )
        self._follower = Follower(
            host,
            self._applier,
            self._own,
            self._changes,
            self._comparisons,
            groups,
            self._tasks,
        )
        self.placement: OwnPlacement | None = None
        if groups is not None and host.cluster.placed is not None:
            self.placement = OwnPlacement(
                host, self._follower, groups, host.cluster.placed, processes
            )
            groups.ask_others = self.placement.outcomes
        self.peers = Peers(host, lambda: self.state)
        self._trimmer = LogTrimmer(host)
        host.catalog.propose = self._changes.change
        host.catalog.check_complete = self._check_complete
        host.serving.on_stop += [self._queues.fail_waiting, self._own.fail]

    # --- life

    def start(self) -> None:
        """Begin to follow, once the shards serve."""
        self._host.stream.start()
        for work, name in (
            (self._run(), "follow the log"),
            (self.watch.run(), "watch the log"),
            (self._host.progress.run(), "save the position"),
            (self._trimmer.run(), "trim the log"),
            (self._comparisons.run(), "compare hosts"),
            (self.peers.run(), "ask other hosts"),
        ):
            self._tasks.start(work, name)

    async def stop(self) -> None:
        """Stop following, and save the position."""
        await self._tasks.stop()
        await self._follower.close()
        await self._comparisons.comparer.close()
        await self._host.stream.close()
        await self._host.progress.save()

    async def _run(self) -> None:
        """Follow the log for as long as this host can."""
        serving = self.serving
        try:
            replica = self._host.progress.replica
            if replica is not None and replica.stopped:
                raise ReplicaStopped(replica.stopped)
            await self._host.cluster.wait_ready()
            serving.begin(await FirstServing(self._host, self.watch).run())
            await self._follower.run(serving.position)
        except (LogBroken, ReplicaStopped, EntryError) as error:
            serving.stop(str(error))
        except Exception as error:
            _log.error("following failed", cause=error)
            serving.stop("an internal error; the log of this process has details")

    def _stop_for_good(self, reason: str) -> None:
        """Stop serving, even after a restart: the data here differ from the others'."""
        reason = f"{reason}; empty its directory, and it takes its data from another host"
        self._host.progress.stop_for_good(reason)
        self._follower.stop(reason)
        self._tasks.start(self._host.progress.save())

    def _check_complete(self) -> None:
        """Refuse to say that an index or a key does not exist while another host may have made it.

        Raises:
            Unavailable: `starting` or `replica_lags`.
        """
        self._host.cluster.check_serving()
        self.watch.check_complete()

    def check_not_blocked(self) -> None:
        """Refuse to wait until this host has a configuration that the others have.

        Raises:
            Unavailable: `replica_lags`; its disk is full.
        """
        if self._applier.blocked is not None:
            raise Unavailable(
                "the disk of this host is full, so it lacks a configuration that other hosts have; "
                "ask another one",
                code="replica_lags",
            )

    def check_not_overtaken(self) -> None:
        """Refuse if searches here read other hosts under a configuration that this one lacks.

        Raises:
            Unavailable: `replica_lags`.
        """
        placed, own = self._host.cluster.placed, self._host.cluster.local_shards
        if placed is None or placed.newest_in_force <= own.applied:
            return
        self.check_not_blocked()
        if placed.newest_in_force > own.prepared:  # else it switches in a moment
            raise Unavailable(
                "this host still builds a configuration that other hosts have; ask another one",
                code="replica_lags",
            )

    # --- for operators

    @property
    def addresses(self) -> list[str]:
        """Addresses of the log's servers, as configured, without credentials."""
        return [without_user(address) for address in self._host.stream.servers]

    @property
    def state(self) -> HostStatus:
        """State of this host and of the log."""
        return host_status(self._host, self.watch, self._applier, self._comparisons.comparer)

    async def compare(self) -> int:
        """Have all hosts compare their data; return the number of the mark.

        Raises:
            Unavailable: the log is away.
        """
        return await self._comparisons.request()

    # --- the catalog

    async def put_index(self, name: str, document_of: DocumentOf) -> None:
        """Create an index, or put a new configuration of it in force, on all hosts."""

        def change(state: CatalogState) -> CatalogState:
            check_no_alias(state.aliases, name)
            current = next((one for one in state.indexes if one.name == name), None)
            document = document_of({} if current is None else current.configuration)
            return state.with_index(state.new_entry(name, document))

        await self._changes.change(change)

    async def drop_index(self, index: Index, change: ChangeOfCatalog) -> None:
        """Delete an index and its data, on all hosts."""
        await self._changes.change(change)

    async def prepare(self, entry: IndexEntry) -> None:
        """Have all shards of this host build a new revision."""
        await self._changes.prepare(entry)

    @asynccontextmanager
    async def holding_indexes(self) -> AsyncIterator[None]:
        """Keep the catalog as it is; entries that change it wait, and all after them."""
        async with self._changes.holding_indexes():
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

    def queue(self, index: int) -> PublishQueue:
        """Return the queue of an index."""
        return self._queues.queue(index)

    def num_waiting(self) -> int:
        """Return the number of waiting batches."""
        return self._queues.num_waiting

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
