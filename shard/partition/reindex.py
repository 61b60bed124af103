"""Another configuration over the same documents, built in the background.

    prepare   running generation ───────────── serves, is written to
              Reindex.run: LMDB → segments (files that no manifest names)
    catalog   Reindex.finish, on the writer's thread: writes since then, then the switch

If only settings that act at query time have changed (weights, language, synonyms, sizes), nothing
is built: the new generation shares dictionaries and segments with the running one. The exceptions
are a dictionary full of values, and a registry full of fields, that no item has any more: numbers
are never reused, so only a reindex releases them.

Until the switch nothing durable names the new files, so a crash, or a catalog that does not name
the revision, leaves the index as it was. Writing the manifest that names them is the switch.
"""

from __future__ import annotations

import errno

import numpy as np
from pyroaring import BitMap64

from common.process.logs import Log
from common.protocol.messages import IndexEntry
from shard.collect.facets.facet_counts import facet_counter
from shard.partition.partition import Partition
from shard.partition.recovery import log_damaged
from shard.partition.snapshot_updates import delete_records
from shard.partition.stored_item_batches import read_batches
from shard.partition.structures_per_configuration import Generation
from shard.partition.writer import has_room
from shard.segment.columns.presence_and_value_kinds import presence_of
from shard.segment.field_registry import FieldRegistry
from shard.segment.segment import Segment
from shard.segment.snapshot import SegmentView, Snapshot
from shard.storage.tombstones import read_tombstones
from shard.storage.write_group_log import read_groups

DEAD_VALUES_MIN = 65_536
"""Dead values of a facet from which rebuilding an index may be worth it."""

DEAD_FIELDS_MIN = 100
"""Dead fields of an index from which rebuilding it may be worth it."""
DEAD_FIELDS_SHARE = 4
"""If they are at least this part of all fields."""

_log = Log("shard")


class Reindex:
    """A configuration that is being prepared for one partition.

    Args:
        partition: the running index.
        entry: the new revision.
    """

    def __init__(self, partition: Partition, entry: IndexEntry) -> None:
        self.entry = entry
        self._partition = partition
        running = partition.generation
        self._generation = Generation.make(entry, running.registry, running.dictionaries)
        newest = partition.newest
        self._is_shared = not (
            running.needs_reindex(self._generation.configuration)
            or _has_many_dead_values(newest)
            or _has_many_dead_fields(newest)
        )
        if not self._is_shared:
            # Renumber all values and fields: unused ones are dropped.
            self._generation = Generation.make(entry, FieldRegistry())
        self._segments: list[Segment] = []
        self._damaged: set[int] = set()
        self._next_record = 0
        self._is_over = False
        partition.purge_queue.hold()

    def run(self) -> None:
        """Build what the revision needs from the present documents; any thread.

        Raises:
            OSError: no room, or the device failed; `discard` what was written.
        """
        if self._is_shared:
            return
        partition = self._partition
        end = partition.state.next_record
        size = sum(view.segment.size for view in partition.newest.views)
        if not has_room(partition, size):
            raise OSError(errno.ENOSPC, f"no room to build an index of {size} bytes again")
        self._build_up_to(end)

    def _build_up_to(self, end: int) -> None:
        partition = self._partition
        compacted = self._compacted()
        records = range(self._next_record, end)
        for batch in read_batches(
            partition.environment, partition.documents, records, compacted, self._damaged
        ):
            segment = batch.build(self._generation)
            if segment.num_docs >= partition.settings.flush_docs:
                segment = partition.derived.write(segment)
            self._segments.append(segment)
        self._next_record = end

    def _compacted(self) -> BitMap64:
        """Return the records that no state shows, not even after the next start."""
        with self._partition.environment.read() as txn:
            return BitMap64(read_tombstones(txn).tolist())

    def finish(self) -> None:
        """Index the writes since then, and switch; on the writer's thread."""
        try:
            self._switch()
        except BaseException:
            if self._partition.generation is not self._generation:
                self.discard()
            raise
        finally:
            self._end()
        _log.info("configured", index=self._partition.number, revision=self.entry.revision)

    def _switch(self) -> None:
        partition = self._partition
        if self._is_shared:
            partition.switch_generation(self._generation)
        else:
            self._build_up_to(partition.state.next_record)
            with partition.environment.read() as txn:
                compacted = read_tombstones(txn)
                groups = read_groups(txn)
            # An older state with some of the dead can still be restored: these are only hidden.
            dead = np.concatenate([compacted, *(group.deleted for group in groups)])
            views = delete_records([SegmentView(segment) for segment in self._segments], dead)
            damaged = self._damaged.difference(dead.tolist())
            partition.switch_generation(self._generation, views, compacted, damaged)
            log_damaged(self.entry, damaged)

    def discard(self) -> None:
        """Remove the new files: the revision was given up."""
        self._end()
        self._partition.derived.discard(self._segments)

    def _end(self) -> None:
        if not self._is_over:
            self._is_over = True
            self._partition.purge_queue.release()


def _has_many_dead_values(snapshot: Snapshot) -> bool:
    """Return whether most values of some facet, and not just a few, are dead."""
    for path, num_values in snapshot.dictionary_lengths.items():
        if num_values > DEAD_VALUES_MIN:
            num_alive = facet_counter(snapshot, path).totals.num_present
            if num_values - num_alive >= max(DEAD_VALUES_MIN, num_alive):
                return True
    return False


def _has_many_dead_fields(snapshot: Snapshot) -> bool:
    """Return whether many of the fields are on no item any more."""
    num_fields = snapshot.registry.num_fields
    if num_fields < DEAD_FIELDS_MIN:
        return False
    num_dead = num_fields - len(_live_fields(snapshot))
    return num_dead >= max(DEAD_FIELDS_MIN, num_fields // DEAD_FIELDS_SHARE)


def _live_fields(snapshot: Snapshot) -> set[str]:
    """Return the fields of live items, objects included.

    Cost: some microseconds a field and segment.
    """
    live: set[int] = set()
    for view in snapshot.views:
        presence = presence_of(view.segment)
        if view.deleted is None:
            live.update(presence.fields)
        elif view.num_docs:
            live.update(
                field
                for field in presence.fields
                if field not in live and presence.has_docs_besides(field, view.deleted)
            )
    paths = set()
    for field in live:
        path = snapshot.registry.paths[field]
        while path and path not in paths:
            paths.add(path)
            path = path.rpartition(".")[0]
    return paths
