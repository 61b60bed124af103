"""Spreads the items over another number of shards: the work of `facetd reshard`.

    shard-0/index-1 ─┐  live items of all shards         ┌─▶ <target>/shard-0/index-1
    shard-1/index-1 ─┴─▶ in the order of their places ───┼─▶ <target>/shard-1/index-1
                         slot of the id → shard          └─▶ <target>/shard-2/index-1

An item keeps its bytes and its place, so every result stays the same. It gets a new record: records
follow the order of places. Deleted items and the log of groups are dropped: the new truth starts as
if all groups were compacted. Each source of changes keeps its position, that of the old shard that
is furthest back. At the end everything derived is built, so that the service starts at once.

It only reads the source (under the locks of its shards) and only writes below the target, which has
no effect until the caller replaces the source with it.

Cost: 48 bytes of memory an item; 10 µs an item to write, as much again to index.
"""

from __future__ import annotations

import os
import sys
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import click
import numpy as np
from numpy.typing import NDArray
from pyroaring import BitMap64

from common import data_directory
from common.data_directory import DataDirectoryError
from common.disk_errors import NO_ROOM
from common.durable_files import sync_folder
from common.errors import InternalError, StorageFull
from common.item_placement import shards_of
from common.json.item_scanner import STORED_LIMITS, ItemScanner
from common.process import logs
from common.process.fault_injection import fault
from common.process.unprinted_output import in_words, one_line_if_refused
from common.protocol.messages import IndexEntry
from common.setting_conversion import SettingError
from common.setting_sources import Sources
from common.shard_settings import ShardSettings
from shard.maintenance.check_and_rebuild import rebuild_index
from shard.partition.stored_index_entry import read_entry, read_restored, write_restored
from shard.partition.stored_item_batches import BATCH_BYTES_MAX, BATCH_ITEMS_MAX
from shard.storage.change_source_positions import read_positions, write_positions
from shard.storage.compression_dictionaries import TRAINING_ITEMS_MAX
from shard.storage.lmdb_codecs import as_bytes_array, item_place, key_number
from shard.storage.lmdb_environment import Environment, SubDatabase, Transaction
from shard.storage.manifest import (
    FORMAT,
    SHARD_FILE,
    ShardManifest,
    read_shard_manifest,
    write_manifest,
)
from shard.storage.storage_errors import DamagedEnvironment, StorageFailure
from shard.storage.stored_documents import DocumentStore
from shard.storage.tombstones import read_tombstones
from shard.storage.write_group_log import State, read_groups, read_state, write_state

READ_ITEMS = 256
"""Items that are read together; they may be large."""


@dataclass(slots=True)
class _Source:
    """One index on one of the old shards."""

    environment: Environment
    documents: DocumentStore
    entry: IndexEntry
    state: State
    records: NDArray[np.uint64]
    """Records of the live items."""
    places: NDArray[np.uint64]
    positions: Mapping[str, tuple[int, str]]
    """Of sources of changes: see `read_positions`."""
    restored: int
    """See `read_restored`."""

    @classmethod
    def open(cls, folder: Path, settings: ShardSettings) -> _Source:
        environment = Environment.open(folder, settings.map_bytes_max)
        records, places = array("Q"), array("Q")
        with environment.read() as txn:
            for _ in environment.look_ahead(SubDatabase.DOCUMENTS):
                pass  # a damaged page would end the process
            state = read_state(txn)
            positions = read_positions(txn)
            dead = BitMap64(read_tombstones(txn).tolist())
            for group in read_groups(txn):
                dead.update(group.deleted.tolist())
            for key, value in txn.items(SubDatabase.DOCUMENTS):
                record = key_number(key)
                if record not in dead:
                    records.append(record)
                    places.append(item_place(value))  # its checksum is compared when it is read
        if len(records) != state.num_docs:
            raise DamagedEnvironment(
                f"{folder} has {len(records)} items, but counted {state.num_docs}: run facetd check"
            )
        return cls(
            environment,
            DocumentStore(environment),
            read_entry(environment),
            state,
            np.frombuffer(records, np.uint64),
            np.frombuffer(places, np.uint64),
            positions,
            read_restored(environment),
        )


class _Target:
    """One index on one of the new shards."""

    def __init__(
        self, folder: Path, entry: IndexEntry, restored: int, settings: ShardSettings
    ) -> None:
        folder.mkdir(mode=0o700)
        self.folder = folder
        self.num_docs = 0
        self._environment = Environment.create(folder, settings.map_bytes_max)
        write_restored(self._environment, entry, restored)
        self._documents = DocumentStore(self._environment)

    def append(self, items: Sequence[bytes], places: NDArray[np.uint64]) -> None:
        """Append items."""
        if self._documents.wants_training(len(items)):
            self._documents.train(items[:: max(1, len(items) // TRAINING_ITEMS_MAX)])
        sizes = np.fromiter(map(len, items), np.int64, len(items))
        payload = as_bytes_array(b"".join(items))
        first = self.num_docs
        encoded = self._documents.encode(payload, np.cumsum(sizes) - sizes, sizes, places, first)

        def store(txn: Transaction) -> None:
            for batch in encoded.batches():
                txn.append(SubDatabase.DOCUMENTS, batch)

        self._environment.change(store)
        self.num_docs += len(items)

    def finish(self, seq: int, positions: Mapping[str, tuple[int, str]]) -> None:
        """Write the counters, and the positions of sources; `seq` is that of the newest group."""
        state = State(self.num_docs, seq, seq, self.num_docs)

        def store(txn: Transaction) -> None:
            write_state(txn, state)
            for source, (at, position) in positions.items():
                write_positions(txn, at, {source: position}, num_max=len(positions))

        self._environment.change(store)
        self._environment.close()
        sync_folder(self.folder)


def reshard(source: Path, target: Path, num_shards: int, settings: ShardSettings) -> int:
    """Divide the items of a data directory over another number of shards.

    Args:
        source: the data directory; only read.
        target: gets the folders of the new shards; has none yet.
        num_shards: how many.
        settings: of the shards.

    Returns:
        The number of items.

    Raises:
        DataDirectoryError: something is in use, missing, or damaged.
        DamagedEnvironment, InternalError: stored items are damaged.
        OSError, StorageFull, StorageFailure: no room.
    """
    old = _read_manifests(source)
    numbers = sorted({number for manifest in old.values() for number in manifest.indexes})
    folders = [data_directory.shard_folder(target, shard) for shard in range(num_shards)]
    for folder in folders:
        folder.mkdir(mode=0o700)
    num_items = 0
    seq_max = max((manifest.seq_max for manifest in old.values()), default=0)
    for number in numbers:
        name = f"index-{number}"
        sources = [
            _Source.open(folder / name, settings)
            for folder, manifest in old.items()
            if number in manifest.indexes
        ]
        # Shards may differ for a moment; the catalog decides at the next start.
        entry = max((one.entry for one in sources), key=lambda one: one.revision)
        restored = max(one.restored for one in sources)
        targets = [_Target(folder / name, entry, restored, settings) for folder in folders]
        for items, places in _batches(sources):
            _divide(items, places, targets)
            fault("reshard.batch")
        num_stored = sum(one.num_docs for one in targets)
        if num_stored != sum(one.state.num_docs for one in sources):
            raise InternalError(f"index {number} has lost items on its way")
        seq = max(one.state.seq_max for one in sources)
        positions = _positions(sources, len(old))
        for one in targets:
            one.finish(seq, positions)
        for former in sources:
            former.environment.close()
        seq_max = max(seq_max, seq)
        num_items += num_stored
    for shard, folder in enumerate(folders):
        manifest = ShardManifest(FORMAT, shard, num_shards, tuple(numbers), seq_max)
        write_manifest(folder / SHARD_FILE, manifest)
        for number in numbers:
            rebuild_index(folder / f"index-{number}", number, settings)
    fault("reshard.built")
    return num_items


def _read_manifests(source: Path) -> dict[Path, ShardManifest]:
    """Own the folders of the old shards, and return what each has."""
    whole = data_directory.read_manifest(source)
    if whole is None:
        raise DataDirectoryError(f"{source} has no data of facetd")
    found = {}
    for shard in range(whole.shards):
        folder = data_directory.shard_folder(source, shard)
        manifest = None
        if folder.is_dir():
            data_directory.acquire_lock(folder, wait_seconds=0)  # held until this process ends
            manifest = read_shard_manifest(folder)
        if manifest is not None:
            if (manifest.shard, manifest.num_shards) != (shard, whole.shards):
                raise DataDirectoryError(
                    f"{folder} belongs to other data; restore it from a backup"
                )
            found[folder] = manifest
    if found and len(found) < whole.shards:
        raise DataDirectoryError(f"{source} lacks the data of a shard; restore it from a backup")
    return found


def _positions(sources: Sequence[_Source], num_shards: int) -> dict[str, tuple[int, str]]:
    """Return the position of each source of changes that all old shards have."""
    if len(sources) < num_shards:
        return {}  # one has not had any write of the index
    return {
        source: min(one.positions[source] for one in sources)
        for source in sources[0].positions
        if all(source in one.positions for one in sources)
    }


def _batches(sources: Sequence[_Source]) -> Iterator[tuple[list[bytes], NDArray[np.uint64]]]:
    """Yield the live items of all old shards in the order of their places."""
    owners = np.repeat(np.arange(len(sources)), [len(one.records) for one in sources])
    records = np.concatenate([one.records for one in sources])
    places = np.concatenate([one.places for one in sources])
    order = np.argsort(places, kind="stable")
    batch: list[bytes] = []
    start = num_bytes = 0
    for at in range(0, len(order), READ_ITEMS):
        positions = order[at : at + READ_ITEMS]
        items = [b""] * len(positions)
        for owner, source in enumerate(sources):
            slots = np.flatnonzero(owners[positions] == owner)
            found = source.documents.read(records[positions[slots]].tolist())
            for slot, item in zip(slots.tolist(), found, strict=True):
                items[slot] = item
        batch += items
        num_bytes += sum(map(len, items))
        if len(batch) >= BATCH_ITEMS_MAX or num_bytes >= BATCH_BYTES_MAX:
            yield batch, places[order[start : start + len(batch)]]
            start += len(batch)
            batch, num_bytes = [], 0
    if batch:
        yield batch, places[order[start:]]


def _divide(items: list[bytes], places: NDArray[np.uint64], targets: Sequence[_Target]) -> None:
    """Give each new shard its items of a batch."""
    scanner = ItemScanner(limits=STORED_LIMITS)
    scans = [scanner.feed(b"[%b]" % b",".join(items)), scanner.finish()]
    hashes = np.concatenate([scanned.id_hashes for scanned in scans])
    has_id = np.concatenate([scanned.has_id for scanned in scans])
    errors = [error for scanned in scans for error in scanned.errors]
    if errors or len(hashes) != len(items):
        reason = errors[0].message if errors else "their number differs"
        raise InternalError(f"stored items cannot be read again: {reason}")
    shards = shards_of(hashes, has_id, places, len(targets))
    for shard, target in enumerate(targets):
        mine = np.flatnonzero(shards == shard)
        if len(mine):
            target.append([items[i] for i in mine.tolist()], places[mine])


def _make_room(target: Path) -> str:
    return f"; make room on the disk of {target.parent}, or name a folder on another with --output"


@click.command(name="facetd reshard")
@click.option("--source", type=click.Path(exists=True, path_type=Path), required=True)
@click.option("--target", type=click.Path(exists=True, path_type=Path), required=True)
@click.option("--shards", type=click.IntRange(1, 64), required=True)
def main(source: Path, target: Path, shards: int) -> None:
    """Write the items of the data directory SOURCE as SHARDS shards below TARGET."""
    logs.configure("reshard", level="warning")
    try:
        num_items = reshard(source, target, shards, ShardSettings.of(Sources.collect(os.environ)))
    except StorageFull as error:
        reason = error.message + _make_room(target)
    except InternalError as error:
        reason = error.message
    except (
        DataDirectoryError,
        DamagedEnvironment,
        StorageFailure,
        SettingError,
    ) as error:
        reason = str(error)
    except OSError as error:
        reason = in_words(error) + (_make_room(target) if error.errno in NO_ROOM else "")
    else:
        print(f"{num_items} items on {shards} shard{'s' if shards > 1 else ''}")
        return
    print(f"facetd: {reason}", file=sys.stderr)
    sys.exit(1)


if __name__ == "__main__":
    with one_line_if_refused():
        main()
