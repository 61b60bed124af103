"""Opening an index: what is intact is mapped, the rest is indexed again.

Nothing derived is trusted: segments are verified (large ones when they are touched), and whatever
LMDB has that no intact segment covers is indexed: the records after the last manifest, and the gap
that a damaged file leaves.

    LMDB records   0 ........ 400 ........ 900 ........ 1000
    segments       [0 – 400)  (damaged)    [900 – 960)
    indexed again             400 – 900                 960 – 1000

If the number of live documents then disagrees with the counter in LMDB, all is indexed again.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from pyroaring import BitMap64

from common.process.logs import Log
from common.protocol.messages import IndexEntry
from shard.partition.derived_files import DerivedFiles
from shard.partition.opening_progress import OpeningProgress
from shard.partition.snapshot_updates import delete_records
from shard.partition.stored_item_batches import read_batches
from shard.partition.structures_per_configuration import Generation
from shard.segment.doc_records_and_places import record_bounds
from shard.segment.field_registry import FieldRegistry
from shard.segment.segment import Segment
from shard.segment.snapshot import SegmentView
from shard.storage.lmdb_environment import Environment
from shard.storage.manifest import IndexManifest
from shard.storage.storage_errors import DamagedEnvironment
from shard.storage.stored_documents import DocumentStore
from shard.storage.tombstones import read_tombstones
from shard.storage.write_group_log import Group, State, read_groups, read_state

DAMAGED_NAMED_MAX = 20
"""Most records of damaged items that one log line names."""

_log = Log("shard")


@dataclass(frozen=True, slots=True)
class Stores:
    """Where an index is on disk.

    Attributes:
        environment: LMDB.
        documents: the stored items in it.
        derived: files of segments and dictionaries.
    """

    environment: Environment
    documents: DocumentStore
    derived: DerivedFiles


@dataclass(slots=True)
class Recovered:
    """What opening finds of an index, and indexes again.

    Attributes:
        generation: the configuration, and what it makes of the items.
        state: counters as of the last commit.
        uncompacted: groups that are still in the log, oldest first.
        compacted: dead records that the log names no longer.
        damaged: live records that the views leave out, because their items cannot be read.
        views: the segments, without what is dead.
        is_indexed_again: whether some of these were not in files.
    """

    generation: Generation
    state: State = field(default_factory=State)
    uncompacted: list[Group] = field(default_factory=list)
    compacted: NDArray[np.uint64] = field(default_factory=lambda: np.zeros(0, np.uint64))
    damaged: set[int] = field(default_factory=set)
    views: Sequence[SegmentView] = ()
    is_indexed_again: bool = False

    @property
    def dead(self) -> NDArray[np.uint64]:
        """The records that are dead in the newest state."""
        return np.concatenate([self.compacted, *(group.deleted for group in self.uncompacted)])


class Recovery:
    """The opening of one index.

    Args:
        stores: of the index.
        entry: its configuration.
        opening: counts the progress.
    """

    def __init__(self, stores: Stores, entry: IndexEntry, opening: OpeningProgress) -> None:
        self._stores = stores
        self._entry = entry
        self._opening = opening

    def run(self, manifest: IndexManifest | None, *, on_first_touch: bool) -> Recovered:
        """Return the index as its truth says that it is.

        Args:
            manifest: names its files; None: there is none that can be believed.
            on_first_touch: verify large segments when they are touched.
        """
        with self._stores.environment.read() as txn:
            truth = read_state(txn), read_groups(txn), read_tombstones(txn)
        loaded = self._stores.derived.load(manifest, on_first_touch=on_first_touch)
        registry = FieldRegistry(loaded.fields)
        generation = Generation.make(self._entry, registry, loaded.dictionaries)
        recovered = Recovered(generation, *truth)
        recovered.damaged = set() if manifest is None else set(manifest.damaged)
        self._stores.documents.num_corrupt += len(recovered.damaged)
        self._fill_gaps(recovered, loaded.segments)
        found = sum(view.num_docs for view in recovered.views)
        num_docs = recovered.state.num_docs
        if found + len(recovered.damaged) != num_docs:
            _log.error(
                "segments and documents disagree, building the index again",
                index=self._entry.number,
                num_docs=num_docs,
                found=found,
            )
            recovered.generation = Generation.make(self._entry, registry)
            recovered.damaged = set()
            self._fill_gaps(recovered, [])
        log_damaged(self._entry, recovered.damaged)
        return recovered

    def _fill_gaps(self, recovered: Recovered, segments: Sequence[Segment]) -> None:
        """Adopt intact segments, and build new ones for the records that none of them covers."""
        filled: list[Segment] = []
        start = 0
        covered = [record_bounds(segment) for segment in segments if segment.num_docs]
        num_covered = sum(last + 1 - first for first, last in covered)
        self._opening.expect_records(recovered.state.next_record - num_covered)
        for segment in segments:
            if segment.num_docs:
                first, last = record_bounds(segment)
                filled += self._index_again(recovered, range(start, first))
                filled.append(segment)
                start = last + 1
        filled += self._index_again(recovered, range(start, recovered.state.next_record))
        dead = recovered.dead
        if recovered.damaged:
            recovered.damaged.difference_update(dead.tolist())
        recovered.views = delete_records([SegmentView(segment) for segment in filled], dead)

    def _index_again(self, recovered: Recovered, records: range) -> list[Segment]:
        """Return segments of the items of some records; those in compacted tombstones are gone."""
        built: list[Segment] = []
        if not records:
            return built
        position = records.start
        dead = BitMap64(recovered.compacted.tolist())
        for batch in read_batches(
            self._stores.environment, self._stores.documents, records, dead, recovered.damaged
        ):
            built.append(batch.build(recovered.generation))
            end = int(batch.records[-1]) + 1
            self._opening.add_built(end - position)
            position = end
        self._opening.add_built(records.stop - position)
        if built:
            recovered.is_indexed_again = True
            num_items = sum(segment.num_docs for segment in built)
            _log.info("items indexed at open", index=self._entry.number, num_items=num_items)
        return built


def log_damaged(entry: IndexEntry, records: Collection[int]) -> None:
    """Log which items are left out of an index, if any are."""
    if records:
        _log.error(
            "damaged items are left out of the index: load them again, then remove what is "
            "left of them with facetd rebuild --drop-damaged",
            index=entry.number,
            name=entry.name,
            num_items=len(records),
            records=",".join(map(str, sorted(records)[:DAMAGED_NAMED_MAX])),
        )


def check_truth(environment: Environment, manifest: IndexManifest | None) -> None:
    """Check that data.mdb has at least what the manifest says it must have.

    Raises:
        DamagedEnvironment: it is older or emptier.
    """
    if manifest is None:
        return
    with environment.read() as txn:
        state = read_state(txn)
    if environment.last_txn_id() < manifest.txn_id or state.next_record < manifest.next_record:
        raise DamagedEnvironment(
            f"{environment.data_path} is older than the index was (transaction "
            f"{environment.last_txn_id()}, record {state.next_record}; expected at least "
            f"{manifest.txn_id} and {manifest.next_record}): restore both from one backup"
        )
