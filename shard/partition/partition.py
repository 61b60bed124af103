"""One index on this shard: its truth, its derived data, its searchable states.

    Partition ─┬─ environment, documents       the truth: LMDB              (storage/)
               ├─ derived                      its files                    (derived_files.py)
               ├─ groups                       recent writes  (uncompacted_write_groups.py)
               ├─ generation                   items as configured (structures_per_configuration.py)
               │    ├─ registry, dictionaries  numbers of fields and facet values
               │    └─ builder                 items → segment
               ├─ history ── Snapshot          what a search sees           (snapshots_in_use.py)
               └─ purge queue                  what no search sees any more (purge_queue.py)

Threads. Searches read the history and never wait. The writer thread (one per index) is the only one
that changes the truth and adds segments; the merger thread replaces segments by a merged one. Both
publish under a lock that no other class sees and that is held for a few microseconds: take the
newest snapshot, derive the next one, put it into the history (one attribute assignment). Documents
are addressed by record between threads, because a merge changes every other address.

Opening trusts nothing derived, see `shard/partition/recovery.py`.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence, Set
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from common.durable_files import sync_folder
from common.errors import InternalError, InvalidRequest, ServiceError
from common.process.mapped_pages import FilePart
from common.protocol.messages import IndexEntry
from common.shard_settings import ShardSettings
from shard.partition.derived_files import DerivedFiles
from shard.partition.droppable_documents import are_there
from shard.partition.opening_progress import OpeningProgress
from shard.partition.purge_queue import PurgeQueue
from shard.partition.recovery import Recovered, Recovery, Stores, check_truth
from shard.partition.snapshot_updates import delete_records, with_merged, without_groups
from shard.partition.snapshots_in_use import SnapshotsInUse
from shard.partition.stored_index_entry import manifest_entry, put_entry, read_entry, write_entry
from shard.partition.structures_per_configuration import Generation
from shard.partition.uncompacted_write_groups import UncompactedGroups
from shard.segment.columns.text_ordinal_preparation import is_prepared
from shard.segment.field_registry import FieldRegistry
from shard.segment.merge_result import MergeResult
from shard.segment.segment import Segment
from shard.segment.snapshot import SegmentView, Snapshot
from shard.storage.lmdb_environment import Environment
from shard.storage.lmdb_meta_page import MetaPage
from shard.storage.storage_errors import DamagedEnvironment
from shard.storage.stored_documents import DocumentStore
from shard.storage.write_group_log import State, read_state


class Partition:
    """One index on this shard.

    Made by `create` or `open`; `close` closes the LMDB environment. Every change is a method of
    this class, which takes the lock.

    Attributes:
        number: of the index, never reused.
        folder: of the index.
        settings: of the shard.
        environment: LMDB.
        documents: stored items.
        derived: files of segments and dictionaries.
        groups: the write groups in the log; the writer notes its commits there.
        purge_queue: dead records that no segment has any more.
        is_indexed_again: whether the open had to index items, so that segments are in memory.
    """

    def __init__(
        self,
        number: int,
        folder: Path,
        settings: ShardSettings,
        stores: Stores,
        recovered: Recovered,
    ) -> None:
        self.number: Final = number
        self.folder: Final = folder
        self.settings: Final = settings
        self.environment: Final = stores.environment
        self.documents: Final = stores.documents
        self.derived: Final = stores.derived
        self.is_indexed_again: Final = recovered.is_indexed_again
        self._lock = threading.Lock()
        self._generation = recovered.generation
        self._damaged = recovered.damaged
        self._open_segment_uid = 0
        self._dropped: list[tuple[NDArray[np.uint64], Generation]] = []
        self._is_commit_due = False
        self.groups: Final = UncompactedGroups(recovered.state, recovered.uncompacted)
        self.purge_queue: Final = PurgeQueue(recovered.views, recovered.compacted)
        seq = recovered.state.seq_max
        known = [recovered.state.seq_compacted, *self.groups.seqs()]
        self._history = SnapshotsInUse(
            self._snapshot(seq, tuple(recovered.views)),
            known=tuple(one for one in known if one < seq),
        )

    # --- life

    @classmethod
    def create(cls, folder: Path, entry: IndexEntry, settings: ShardSettings) -> Partition:
        """Create an empty index in a new folder.

        Raises:
            OSError, StorageFailure: no space left, or the device failed; remove the folder.
        """
        folder.mkdir(mode=0o700)
        environment = Environment.create(
            folder, settings.map_bytes_max, fill=lambda txn: put_entry(txn, entry)
        )
        try:
            stores = Stores(environment, DocumentStore(environment), DerivedFiles(folder))
            nothing = Recovered(Generation.make(entry, FieldRegistry()))
            partition = cls(entry.number, folder, settings, stores, nothing)
            partition.commit_derived()
            sync_folder(folder.parent)  # before shard.json says that it is there
        except BaseException:
            environment.close()
            raise
        return partition

    @classmethod
    def open(
        cls,
        folder: Path,
        number: int,
        settings: ShardSettings,
        *,
        is_rebuild: bool = False,
        on_first_touch: bool = False,
        opening: OpeningProgress | None = None,
    ) -> Partition:
        """Open an index: check the truth, map what is intact, index the rest.

        Args:
            folder: of the index.
            number: of the index.
            settings: of the shard.
            is_rebuild: believe no derived file, index everything.
            on_first_touch: verify large segments when they are touched, or by their
                `verify_all`; a damaged one then ends the process, and the next open finds it gone.
            opening: counts the progress.

        Raises:
            DamagedEnvironment: data.mdb lacks what the manifest says it has, or what all items
                depend on is damaged: counters, configuration, compression dictionaries.
            OSError: the system refused it.
        """
        derived = DerivedFiles(folder)
        derived.remove_leftovers()
        manifest = derived.read_manifest()
        settled = None if manifest is None else manifest.settled
        environment = Environment.open(
            folder,
            settings.map_bytes_max,
            synced_meta="" if settled is None else settled.meta_pages,
        )
        try:
            check_truth(environment, manifest)
            entry = read_entry(environment) if manifest is None else manifest_entry(manifest)
            stores = Stores(environment, DocumentStore(environment), derived)
            recovery = Recovery(stores, entry, opening or OpeningProgress())
            believed = None if is_rebuild else manifest
            recovered = recovery.run(believed, on_first_touch=on_first_touch)
            partition = cls(number, folder, settings, stores, recovered)
        except InternalError as error:
            environment.close()
            raise DamagedEnvironment(f"{environment.data_path}: {error.message}") from error
        except BaseException:
            environment.close()
            raise
        return partition

    def close(self) -> None:
        """Close the environment; the threads of writer and merger must have ended."""
        self.environment.close()

    @property
    def memory_bytes(self) -> int:
        """Size of the newest state's segments that are not files yet."""
        views = self._history.newest.views
        return sum(view.segment.size for view in views if view.segment.path is None)

    @property
    def file_bytes(self) -> int:
        """Approximate size of the files of the newest state."""
        sizes = (view.segment.size for view in self._history.newest.views)
        return self.environment.file_bytes() + sum(sizes)

    # --- current state

    @property
    def newest(self) -> Snapshot:
        """The newest state that searches see."""
        return self._history.newest

    @property
    def num_states(self) -> int:
        """How many states are kept."""
        return len(self._history.older) + 1

    @property
    def generation(self) -> Generation:
        """The configuration in force, with the structures derived from it."""
        return self._generation

    @property
    def state(self) -> State:
        """Counters as of the last commit."""
        return self.groups.state

    @property
    def has_open_segment(self) -> bool:
        """Whether the newest segment is one that the writer may still replace."""
        return self._open_segment_uid != 0

    @property
    def damaged(self) -> Set[int]:
        """Live records that no segment has, because their items cannot be read."""
        return self._damaged

    @property
    def horizon(self) -> int:
        """The oldest horizon in use: no search can name a state before it, nor ever will."""
        return self._history.horizon

    @property
    def kept_from(self) -> int:
        """The oldest state that is available, also after a start.

        Whatever a later group removed must still be there: merges drop it once no search can name
        an older state, usually before the group leaves the log.
        """
        views = self.newest.views
        for seq, deleted in self.groups.deletions():
            if not are_there(views, deleted):
                return max(seq, self._history.kept_from)
        return self._history.kept_from

    # --- states

    def _snapshot(self, seq: int, views: tuple[SegmentView, ...]) -> Snapshot:
        """Return a state of the index under the configuration in force."""
        generation = self._generation
        return Snapshot(
            seq=seq,
            revision=generation.entry.revision,
            views=views,
            configuration=generation.configuration,
            registry=generation.registry,
            dictionaries=generation.dictionaries,
            dictionary_lengths={path: len(one) for path, one in generation.dictionaries.items()},
            documents=self.documents,
        )

    def snapshot_at(self, horizon: int, revision: int | None = None) -> Snapshot:
        """Return the state that a horizon names.

        Raises:
            InvalidRequest: cursor_expired, it is older than all available states.
        """
        snapshot = self._history.at(horizon, revision)
        if snapshot is not None:
            return snapshot
        with self._lock:
            return self._restore_state(horizon)

    def _restore_state(self, horizon: int) -> Snapshot:
        """Restore a dropped state from the next one and the log of groups.

        The newer segments have all its documents (merges drop only what died up to the oldest
        horizon in use); what later groups added is hidden, what they deleted is shown again.
        """
        seq = self._history.seq_at(horizon)
        if seq is None:
            raise InvalidRequest(
                "the state that the cursor names is gone: search again without the cursor",
                code="cursor_expired",
                param="cursor",
            )
        newer = self._history.after(seq, self._generation.entry.revision)
        later = self.groups.between(seq, newer.seq)
        snapshot = self._snapshot(seq, tuple(without_groups(newer.views, later)))
        self._history.add_asked(snapshot)
        return snapshot

    def publish(
        self,
        seq: int,
        *,
        added: Segment | None,
        replaced_uid: int = 0,
        deleted: NDArray[np.uint64] | None = None,
        open_segment_uid: int = 0,
    ) -> None:
        """Make the next state visible; called by the writer.

        Args:
            seq: of the group.
            added: the segment with its new documents.
            replaced_uid: uid of the newest segment if `added` takes its place: it begins with the
                same documents.
            deleted: records that the group removed.
            open_segment_uid: uid of the open segment, which the writer may still replace.
        """
        with self._lock:
            self._open_segment_uid = open_segment_uid
            views = list(self._history.newest.views)
            if deleted is not None and len(deleted):
                views = delete_records(views, deleted)
            if added is not None:
                gone = None
                if replaced_uid:
                    assert views[-1].segment.uid == replaced_uid
                    gone = views.pop().deleted
                views.append(SegmentView(added, gone))
            self._history.add(self._snapshot(seq, tuple(views)))

    def advance(self, horizon: int) -> None:
        """Release the states that searches can no longer name."""
        with self._lock:
            self._history.advance(horizon)

    def forget_revisions(self) -> None:
        """Release the states of previous configurations."""
        with self._lock:
            self._history.forget_revisions()

    def release_pages(self, part: FilePart) -> None:
        """Release the mapped pages of a part of each segment file, of all states."""
        self._history.release_pages(part)

    def segments_to_merge(self) -> tuple[Sequence[SegmentView], int]:
        """Return the newest segments, and the uid of the open one or 0: that cannot be merged."""
        with self._lock:
            return self._history.newest.views, self._open_segment_uid

    def retire_open_segment(self) -> Sequence[SegmentView]:
        """Close the open segment, so that it can be merged; return the newest segments."""
        with self._lock:
            self._open_segment_uid = 0
            return self._history.newest.views

    def replace_segments(self, result: MergeResult) -> bool:
        """Replace segments by the merged one; called by the merger.

        All states get it, so the parts can go: it has every document that a search can still name,
        and what was deleted since the merge began is hidden in it. Nothing is done, and False
        returned, if the parts are gone: another configuration was switched to.

        Args:
            result: of the merge.
        """
        parts = result.parts
        with self._lock:
            uids = [view.segment.uid for view in self._history.newest.views]
            if parts[0].segment.uid not in uids:
                return False
            first = uids.index(parts[0].segment.uid)
            current = uids[first : first + len(parts)]
            assert current == [part.segment.uid for part in parts]
            newest = self._history.newest
            for state in (*self._history.older, newest):
                if state.revision == newest.revision:
                    self._history.add(with_merged(state, result, newest))
        return True

    def enqueue_purge(
        self, records: NDArray[np.uint64], generation: Generation, *, are_in_files: bool
    ) -> None:
        """Schedule the purge of dead records that a merge has dropped.

        Args:
            records: to be purged.
            generation: of the segments that were merged.
            are_in_files: whether the manifest may name files that have them: then they wait for the
                next `commit_derived`.
        """
        with self._lock:
            if are_in_files:
                self._dropped.append((records, generation))
            else:
                self._add_to_purge_queue(records, generation)

    def _add_to_purge_queue(self, records: NDArray[np.uint64], generation: Generation) -> None:
        """Schedule a purge; after a switch, segments of the new configuration may have the records.

        The caller holds the lock.
        """
        is_switched = self._generation is not generation
        self.purge_queue.add(records, self._history.newest.views if is_switched else ())

    # --- files

    @property
    def is_commit_due(self) -> bool:
        """Whether the manifest could not be written, and must be."""
        return self._is_commit_due

    def commit_derived(self) -> None:
        """Write the manifest of the newest state: its segments that are files.

        Raises:
            OSError: no room, or the device failed; the previous manifest stays in force.
        """
        with self.derived.commit_lock:
            self._is_commit_due = True
            with self._lock:
                dropped = list(self._dropped)
                generation = self._generation
                segments = [view.segment for view in self._history.newest.views]
                next_record = self.groups.state.next_record
                damaged = set(self._damaged)
            self.derived.commit(
                generation,
                [segment for segment in segments if segment.path is not None],
                next_record=next_record,
                txn_id=self.environment.last_txn_id(),
                damaged=damaged,
                state=self._state_on_disk,
            )
            self._is_commit_due = False
            with self._lock:
                for records, of_generation in dropped:
                    self._add_to_purge_queue(records, of_generation)
                del self._dropped[: len(dropped)]

    def _state_on_disk(self) -> tuple[MetaPage, State] | None:
        """Return the meta page and the counters; None while a transaction is being written."""
        try:
            meta = self.environment.meta_at_rest()
            with self.environment.read() as txn:  # after it: fails if a commit has failed
                txn_id, state = txn.id, read_state(txn)
        except (ServiceError, DamagedEnvironment):
            return None  # the next write or read reports it
        return (meta, state) if meta is not None and meta.txn_id == txn_id else None

    @property
    def is_at_rest(self) -> bool:
        """Whether nothing is left to merge, to write to a file, to prepare or to purge."""
        views = self._history.newest.views
        return (
            len(views) <= 1
            and not self.purge_queue
            and all(view.segment.path is not None for view in views)
            and self.is_prepared
        )

    @property
    def is_prepared(self) -> bool:
        """Whether the text columns that searches are likely to need have been made, or tried."""
        named = self._generation.configuration.sorting_fields
        return all(is_prepared(view.segment, named) for view in self._history.newest.views)

    @property
    def is_settled(self) -> bool:
        """Whether all of it is in files that the manifest names: closing writes nothing then."""
        return self.derived.covers(
            [view.segment for view in self._history.newest.views],
            self._generation.entry.revision,
            self.environment.last_txn_id(),
        )

    def switch_generation(
        self,
        generation: Generation,
        views: Sequence[SegmentView] | None = None,
        compacted: NDArray[np.uint64] | None = None,
        damaged: set[int] | None = None,
    ) -> None:
        """Switch searches to another generation.

        Args:
            generation: the configuration in force from now on.
            views: its segments; None if it shares those of the newest state.
            compacted: the records that were dead when these were rebuilt; None if they are the
                same as before.
            damaged: live records that these leave out; None if they are the same as before.
        """
        with self._lock:
            self._generation = generation
            self._open_segment_uid = 0
            if damaged is not None:
                self._damaged = damaged
            newest = self._history.newest  # not before: a merge may just have replaced its segments
            views = newest.views if views is None else views
            self._history.add(self._snapshot(newest.seq, tuple(views)))
            if compacted is not None:
                self.purge_queue.refill(views, compacted)
        self.commit_derived()
        write_entry(self.environment, generation.entry)
