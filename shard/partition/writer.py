"""WRITE PATH of a shard: a group of operations becomes durable, then visible, then acknowledged.

    ApplyRequest ─ plan ─┬─ encode → LMDB commit (sync)  ─┐
                         └─ extract → build segment      ─┴─ publish → answer

The writer thread, which takes precedence over merges, applies a group of up to a few hundred
kilobytes. It hands a larger one to the bulk thread of the lowest priority and waits. With many
additions both halves run in parallel (a committer thread waits for the disk). A few additions take
0.2 ms of CPU, less than two threads lose by contending for the interpreter lock.
The group becomes visible only after both halves are done, and is acknowledged after that; so every
acknowledged write is on disk, searchable and counted.

Small groups extend the *open segment*: while the newest segment has few documents, it is rebuilt
with the new ones, from their retained bytes. So a thousand single writes leave thirty segments to
merge, not a thousand. (A larger open segment costs more with each group and leaves fewer segments
to merge; for groups of a few items the sum is smallest about here.)

If the process dies: before the commit nothing has happened; after it, the next open finds the
records in LMDB and indexes them. If the group is sent again, its seq is in the log, and the
response comes from there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from common.errors import InternalError, StorageFull, Unavailable
from common.process.fault_injection import fault
from common.process.logs import Log
from common.process.request_id_context import carried
from common.process.thread_pool import ThreadPool
from common.process.thread_priority import run_in_background
from common.protocol.messages import (
    ApplyRequest,
    ApplyResponse,
    JoinedGroups,
    OutcomesResponse,
)
from common.protocol.write_operations_and_outcomes import Operation
from shard.partition.partition import Partition
from shard.partition.write_group_planner import Additions, GroupPlanner, Planned
from shard.segment.doc_records_and_places import record_bounds
from shard.segment.segment import Segment
from shard.storage.change_source_positions import roll_back_positions, write_positions
from shard.storage.compression_dictionaries import TRAINING_ITEMS_MAX
from shard.storage.lmdb_environment import SubDatabase, Transaction
from shard.storage.newest_write_group_extent import write_extent
from shard.storage.storage_errors import StorageFailure, is_disk_full
from shard.storage.tombstones import purge_records
from shard.storage.write_group_log import (
    DELETED_UNCOMPACTED_MAX,
    GROUPS_UNCOMPACTED_MAX,
    Group,
    State,
    append_group,
    compact_groups,
    write_state,
)

WAITING_FACTOR = 2
"""The writer itself writes files while segments of this many times `flush_bytes` are in memory."""
OPEN_SEGMENT_DOCS_MAX = 32
OPEN_SEGMENT_BYTES_MAX = 256 << 10
"""Bound of the open segment: rebuilding it takes 0.25 ms."""
BUILT_FIRST_DOCS_MAX = 64
"""Additions that are indexed, then committed; more are indexed and committed in parallel."""
PURGE_RECORDS_MAX = 1_000
"""Records purged in one commit; other groups wait for it."""
GROWTH_FACTOR = 2
"""Disk space that a group may take, per byte of it: its items, and their segments."""

_log = Log("shard")


@dataclass(frozen=True, slots=True)
class OpenSegment:
    """Bytes of the documents in the open segment."""

    uid: int
    additions: Additions
    records: NDArray[np.uint64]


class _Write(NamedTuple):
    """A group, and what it does."""

    request: ApplyRequest
    first: int
    """Seq of the first group that it joins."""
    planned: Planned


class _Committed(NamedTuple):
    """What a commit has made of a group."""

    state: State
    """The counters then."""
    group: Group
    """As it is in the log."""


class _Built(NamedTuple):
    """What searches get to see of a group; if it adds nothing, only what was open before."""

    segment: Segment | None
    open_segment: OpenSegment | None
    """The same, if the next group may extend it."""


class Writer:
    """Applies write groups to one partition, and compacts and purges between them: on one thread.

    Args:
        partition: the index.
        on_failure: called when the disk refused a commit: the process must end.
    """

    def __init__(self, partition: Partition, on_failure: Callable[[BaseException], None]) -> None:
        self._partition = partition
        self._planner = GroupPlanner(partition)
        self._on_failure = on_failure
        self._open_segment: OpenSegment | None = None
        self._has_failed = False
        self._bulk = ThreadPool(1, f"bulk-{partition.number}", run_in_background)
        self._committer = ThreadPool(1, f"committer-{partition.number}", run_in_background)

    def close(self) -> None:
        """End the threads for large groups."""
        self._bulk.shutdown()
        self._committer.shutdown()

    # --- the group

    def apply(self, request: ApplyRequest | JoinedGroups) -> ApplyResponse:
        """Apply a group, or several as one: durable and visible when this returns.

        Raises:
            StorageFull: no room; nothing was changed.
            InternalError: nothing was changed, or (after a failed commit) the process ends.
            Unavailable: it is about to end.
        """
        first = request.seq
        if isinstance(request, JoinedGroups):
            first, request = request.first, request.after(self._partition.state.seq_max)
        if len(request.payload) <= OPEN_SEGMENT_BYTES_MAX:
            return self._apply(request, first)
        return self._bulk.submit(carried(partial(self._apply, request, first))).result()

    def _apply(self, request: ApplyRequest, first: int) -> ApplyResponse:
        """Apply a group, on this thread.

        Args:
            request: the group.
            first: seq of the first group that it joins.
        """
        fault("writer.receive")
        partition = self._partition
        self._check_alive()
        if request.seq <= partition.state.seq_max:
            return self._answer_again(request.seq, is_repeat=request.is_repeat)
        partition.advance(request.horizon)
        self._check_room(request)
        planned = self._planner.plan(request, partition.newest)
        is_small = _is_small(planned.additions)
        carry_out = self._build_then_commit if is_small else self._build_while_committing
        committed, built = carry_out(_Write(request, first, planned))
        fault("writer.index")
        try:
            self._publish(committed, built)
        except BaseException as error:  # it is on disk, but in no state: only a reopen mends that
            self._fail(error)
            raise
        fault("writer.publish")
        if built.segment is not None and built.segment.path is not None:
            self._name_file()
        return ApplyResponse(planned.outcomes, planned.text_ids)

    def _build_then_commit(self, write: _Write) -> tuple[_Committed, _Built]:
        """Build, then commit: for a small group a second thread costs more than it saves."""
        try:
            built = self._build(write.planned)
        except Exception as error:
            raise InternalError("the items of a group could not be indexed") from error
        try:
            return self._commit(write), built
        except BaseException:
            self._discard(built)
            raise

    def _build_while_committing(self, write: _Write) -> tuple[_Committed, _Built]:
        """Build while another thread commits."""
        commit = self._committer.submit(carried(partial(self._commit, write)))
        try:
            built = self._build(write.planned)
        except Exception as error:
            self._undo(commit.result(), write.first)
            raise InternalError("the items of a group could not be indexed") from error
        try:
            return commit.result(), built
        except BaseException:
            self._discard(built)
            raise

    def _discard(self, built: _Built) -> None:
        """Remove the file of a group that was not committed, if it has one."""
        self._partition.derived.discard([] if built.segment is None else [built.segment])

    def _check_alive(self) -> None:
        """Refuse to go on after a failed commit: only the next process knows what the disk has.

        Raises:
            Unavailable: the process is about to end.
        """
        if self._has_failed:
            raise Unavailable("the shard is restarting after a failed write; try again")

    def _answer_again(self, seq: int, *, is_repeat: bool) -> ApplyResponse:
        group = self._partition.groups.find(seq)
        if group is not None:
            return ApplyResponse(outcomes=group.outcomes)
        if is_repeat:
            return ApplyResponse(outcomes=b"")
        raise InternalError(
            f"write group {seq} is older than the newest group that this shard has compacted"
        )

    def outcomes_of(self, seq: int) -> OutcomesResponse:
        """Return what became of a group.

        Raises:
            Unavailable: a commit has failed; only the next process knows what the disk has.
        """
        self._check_alive()
        group = self._partition.groups.find(seq)
        if group is not None:
            return OutcomesResponse(True, group.outcomes)
        return OutcomesResponse(seq > self._partition.state.seq_compacted, b"")

    def _check_room(self, request: ApplyRequest) -> None:
        """Refuse additions when the map or the disk is nearly full; deletes are accepted.

        Raises:
            StorageFull: they are.
        """
        if request.operations.count(Operation.DELETE) == len(request.operations):
            return
        partition = self._partition
        settings = partition.settings
        limit = settings.map_bytes_max // 100 * settings.map_watermark_percent
        if partition.environment.uses_more_than(limit - len(request.payload)):
            raise StorageFull(
                f"the index has reached {settings.map_watermark_percent} % of its greatest size of "
                f"{settings.map_bytes_max} bytes on a shard: delete items, or raise "
                "FACETD_SHARD_MAP_BYTES_MAX and restart"
            )
        if not has_room(partition, GROWTH_FACTOR * len(request.payload)):
            raise StorageFull("the disk is full: make room, then send the request again")

    # --- make it durable

    def _commit(self, write: _Write) -> _Committed:
        """Store items, log entry, counters and positions in one transaction (committer thread)."""
        request, first, planned = write
        seq = request.seq
        partition = self._partition
        additions = planned.additions
        state = partition.state
        first_record = state.next_record
        try:
            self._train(additions)
            sizes = additions.ends - additions.starts
            encoded = partition.documents.encode(
                additions.payload, additions.starts, sizes, additions.places, first_record
            )
            group = Group(seq, first_record, additions.count, planned.deleted, planned.outcomes)
            if _is_small(additions):
                partition.environment.reserve()
            fault("writer.commit")

            def store(txn: Transaction) -> State:
                for items in encoded.batches():
                    txn.append(SubDatabase.DOCUMENTS, items)
                append_group(txn, group)
                after = replace(
                    compact_groups(txn, state, self._compactable()),
                    next_record=first_record + additions.count,
                    seq_max=seq,
                    num_docs=state.num_docs + additions.count - len(planned.deleted),
                )
                write_state(txn, after)
                if request.shards:
                    write_extent(txn, seq, request.settled, first, request.shards)
                if request.positions:
                    num_max = partition.settings.limits.positions_max
                    write_positions(txn, seq, request.positions, num_max=num_max)
                return after

            stored = partition.environment.change(store)
            fault("writer.committed")
        except (StorageFailure, OSError) as error:
            self._fail(error)
            if is_disk_full(error):
                raise StorageFull("the disk is full: make room, then send it again") from error
            raise InternalError("the disk refused a write; the shard restarts") from error
        return _Committed(stored, group)

    def _fail(self, error: BaseException) -> None:
        """Write nothing more: only a reopen knows what the disk has, and shows all of it."""
        self._has_failed = True
        _log.error("a write failed halfway", index=self._partition.number, cause=error)
        self._on_failure(error)

    def _compactable(self, *, is_final: bool = False) -> list[Group]:
        """Return the groups to compact now: all that may be, once it is worth it."""
        partition = self._partition
        groups = partition.groups.final(partition.horizon)
        num_deleted = sum(len(group.deleted) for group in groups)
        is_worth_it = len(groups) > GROUPS_UNCOMPACTED_MAX or num_deleted > DELETED_UNCOMPACTED_MAX
        return groups if is_worth_it or is_final else []

    def _train(self, additions: Additions) -> None:
        """Train a compression dictionary as soon as a group has enough items."""
        documents = self._partition.documents
        if not documents.wants_training(additions.count):
            return
        step = max(1, additions.count // TRAINING_ITEMS_MAX)
        payload = additions.payload
        spans = zip(additions.starts[::step].tolist(), additions.ends[::step].tolist(), strict=True)
        documents.train([payload[start:end].tobytes() for start, end in spans])

    def _undo(self, committed: _Committed, first: int) -> None:
        """Undo a group that could not be indexed: it stays in the log, without effect.

        Args:
            committed: the group.
            first: seq of the first group that it joins.
        """
        partition = self._partition
        state, group = committed
        records = np.arange(
            group.first_record, group.first_record + group.num_records, dtype=np.uint64
        )
        empty = replace(group, num_records=0, deleted=np.zeros(0, np.uint64), outcomes=b"")
        state = replace(state, num_docs=state.num_docs - group.num_records + len(group.deleted))

        def store(txn: Transaction) -> None:
            purge_records(txn, records)
            append_group(txn, empty)
            write_state(txn, state)
            roll_back_positions(txn, first - 1)

        try:
            partition.environment.change(store)
        except BaseException as error:  # it is on disk, but in no segment: only a reopen mends that
            self._fail(error)
            raise
        partition.groups.note_commit(state, empty)

    # --- make it visible

    def _build(self, planned: Planned) -> _Built:
        """Build the segment of a group, together with the open segment if both are small."""
        partition = self._partition
        builder = partition.generation.builder
        additions = planned.additions
        open_segment = self._open_segment if partition.has_open_segment else None
        if not additions.count:
            return _Built(None, open_segment)
        first = partition.state.next_record
        records = np.arange(first, first + additions.count, dtype=np.uint64)
        extraction = planned.extraction
        if (
            extraction is None
            and open_segment is not None
            and _fits_open_segment(open_segment.additions, additions)
        ):
            additions = additions.after(open_segment.additions)
            records = np.concatenate((open_segment.records, records))
        if extraction is None:
            extraction = builder.extract(additions.payload, additions.starts, additions.ends)
        segment = builder.build(extraction, records, additions.places)
        if (
            additions.count >= OPEN_SEGMENT_DOCS_MAX
            or len(additions.payload) >= OPEN_SEGMENT_BYTES_MAX
        ):
            return _Built(self._in_file_if_many_wait(segment), None)
        return _Built(segment, OpenSegment(segment.uid, additions, records))

    def _in_file_if_many_wait(self, segment: Segment) -> Segment:
        """Return a large segment, as a file if merges do not keep up with the groups.

        One merge may take minutes. Segments in memory would have to be rebuilt at the next start.
        """
        partition = self._partition
        settings = partition.settings
        if (
            segment.num_docs < settings.flush_docs
            or partition.memory_bytes < WAITING_FACTOR * settings.flush_bytes
        ):
            return segment
        try:
            return partition.derived.write(segment)
        except OSError as error:
            _log.warning("segment stays in memory", index=partition.number, reason=str(error))
            return segment

    def _name_file(self) -> None:
        """Name a new file in the manifest, so that the next start finds it."""
        try:
            self._partition.commit_derived()
        except OSError as error:  # the merger will, with its own
            _log.warning("manifest not written", index=self._partition.number, reason=str(error))

    def _publish(self, committed: _Committed, built: _Built) -> None:
        partition = self._partition
        state, group = committed
        segment, open_segment = built
        replaced_uid = 0
        if segment is not None and self._open_segment is not None:
            is_joined = record_bounds(segment)[0] == int(self._open_segment.records[0])
            replaced_uid = self._open_segment.uid if is_joined else 0
        partition.groups.note_commit(state, group)
        self._open_segment = open_segment
        partition.publish(
            group.seq,
            added=segment,
            replaced_uid=replaced_uid,
            deleted=group.deleted,
            open_segment_uid=0 if open_segment is None else open_segment.uid,
        )

    # --- between groups

    def retire_open_segment(self) -> None:
        """Close the open segment, so that it can be merged; the next group opens a new one."""
        self._open_segment = None
        self._partition.retire_open_segment()

    def purge(self) -> bool:
        """Purge some dead records; return whether there are more.

        Raises:
            StorageFull: the map is full; tried again later.
        """
        queue = self._partition.purge_queue
        records = queue.take(PURGE_RECORDS_MAX)
        if records is None:
            return False
        try:
            self.compact(records)
        except BaseException:
            queue.add(records)
            raise
        return bool(queue)

    def settle(self, horizon: int) -> None:
        """Compact the log up to a horizon, unless that changes nothing.

        Raises:
            StorageFull: the map is full; nothing was changed.
        """
        partition = self._partition
        partition.advance(horizon)
        if partition.groups.final(partition.horizon):
            self.compact()

    def compact(self, purged: NDArray[np.uint64] | None = None) -> None:
        """Compact the log as far as possible, and purge some dead records.

        Raises:
            StorageFull: the map is full; nothing was changed.
        """
        partition = self._partition

        def store(txn: Transaction) -> State:
            state = compact_groups(txn, partition.state, self._compactable(is_final=True))
            write_state(txn, state)
            if purged is not None:
                purge_records(txn, purged)
            return state

        try:
            state = partition.environment.change(store)
        except StorageFailure as error:
            self._fail(error)
            return
        partition.groups.note_commit(state)


def _is_small(additions: Additions) -> bool:
    return (
        additions.count <= BUILT_FIRST_DOCS_MAX and len(additions.payload) <= OPEN_SEGMENT_BYTES_MAX
    )


def _fits_open_segment(open_segment: Additions, additions: Additions) -> bool:
    return (
        open_segment.count + additions.count <= OPEN_SEGMENT_DOCS_MAX
        and len(open_segment.payload) + len(additions.payload) <= OPEN_SEGMENT_BYTES_MAX
    )


def has_room(partition: Partition, num_bytes: int) -> bool:
    """Return whether the disk has room for this many bytes besides the reserve."""
    return partition.settings.leave_room(partition.folder, num_bytes)
