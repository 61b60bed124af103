"""A consistent copy of one index's truth at one horizon, made while the index is written to.

    data.mdb ── env.copy (one read transaction, compacted) ──▶ <target>/data.mdb ── roll back ──▶
    <snapshot>/data.mdb ── copy, checksum ──▶ index-9/data.mdb ── configuration ── build ──▶ serves

Derived data are not copied: opening the copy builds them, and the configuration is in LMDB. LMDB
copies the state of one moment on one shard. To bring all shards to the *same* moment, each undoes
the groups after the horizon from the log of groups. (The coordinator keeps the horizon in use
meanwhile, so no group after it was compacted and no record that it deleted was purged.)

A restore makes a new index, under a number of its own, from the copy in a snapshot. It is
unreachable until the catalog names it, and the next start removes what a crash left of a half-made
one, as of any other index.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import xxhash

from common.data_directory import shard_folder
from common.durable_files import sync_file, sync_folder
from common.errors import InternalError, InvalidRequest, StorageFull
from common.process.fault_injection import fault
from common.protocol.messages import IndexEntry, SnapshotSource
from common.shard_settings import ShardSettings
from shard.partition.partition import Partition
from shard.partition.stored_index_entry import write_restored
from shard.storage.change_source_positions import roll_back_positions
from shard.storage.lmdb_codecs import number_key
from shard.storage.lmdb_environment import DATA_FILE, Environment, SubDatabase, Transaction
from shard.storage.lmdb_meta_page import read_meta_page
from shard.storage.storage_errors import DamagedEnvironment
from shard.storage.write_group_log import read_groups, read_state, write_state

COPY_BYTES = 1 << 20
GROWTH_FACTOR = 2
"""Disk space of a restored index, as a multiple of its items: these and the derived files."""


def copy_truth(partition: Partition, target: Path, horizon: int | None) -> None:
    """Copy the truth of an index into a new folder.

    Args:
        partition: the index.
        target: must not exist.
        horizon: the newest group in the copy; None for all there are.

    Raises:
        OSError: no room, or the target exists.
        InvalidRequest: the horizon is too old.
    """
    target.mkdir(parents=True)
    fault("backup.copy")
    partition.environment.copy(target)
    if horizon is not None:
        copied = Environment.open(target, partition.settings.map_bytes_max)
        try:
            copied.change(lambda txn: roll_back(txn, horizon))
        finally:
            copied.close()
        (target / "lock.mdb").unlink(missing_ok=True)
    sync_file(target / DATA_FILE)
    sync_folder(target)


def copy_file(folder: Path, target: Path) -> None:
    """Copy the truth of an index that is not open into a new folder.

    Raises:
        OSError: no room, or the target exists.
    """
    target.mkdir(parents=True)
    fault("backup.copy")
    meta = read_meta_page(folder / DATA_FILE)
    remaining = (meta.last_page + 1) * meta.page_size
    with (folder / DATA_FILE).open("rb") as read, (target / DATA_FILE).open("xb") as written:
        while remaining and (piece := read.read(min(COPY_BYTES, remaining))):
            written.write(piece)
            remaining -= len(piece)
        written.flush()
        os.fsync(written.fileno())
    sync_folder(target)


def roll_back(txn: Transaction, horizon: int) -> None:
    """Undo every group after a horizon.

    Raises:
        InvalidRequest: some of them are no longer in the log.
    """
    state = read_state(txn)
    if horizon < state.seq_compacted:
        raise InvalidRequest(
            f"state {horizon} is gone; the oldest that can be copied is {state.seq_compacted}"
        )
    seq_max = state.seq_compacted
    for group in read_groups(txn):
        if group.seq <= horizon:
            seq_max = max(seq_max, group.seq)
            continue
        for record in range(group.first_record, group.first_record + group.num_records):
            txn.delete(SubDatabase.DOCUMENTS, number_key(record))
        txn.delete(SubDatabase.GROUPS, number_key(group.seq))
        state = replace(state, num_docs=state.num_docs - group.num_records + len(group.deleted))
    write_state(txn, replace(state, seq_max=seq_max))
    roll_back_positions(txn, horizon)


# --- restore


def put_back(folder: Path, entry: IndexEntry, shard: int, settings: ShardSettings) -> Partition:
    """Create an index from the items of another one in a snapshot, and build the derived files.

    Args:
        folder: of the index; must not exist.
        entry: of the index, with its source.
        shard: ordinal of this shard.
        settings: of the shard.

    Raises:
        InternalError: `snapshot_damaged`, the file has changed since it was written.
        StorageFull: no room.
        OSError, StorageFailure: the disk refused it. In any case: remove the folder.
    """
    source = entry.source
    assert source is not None
    path = _file_of(source, shard)
    num_bytes, checksum = source.files[shard]
    if not settings.leave_room(folder.parent, GROWTH_FACTOR * num_bytes):
        raise StorageFull(f"there is no room to restore an index of {num_bytes} bytes on a shard")
    folder.mkdir(mode=0o700)
    sync_folder(folder.parent)  # before shard.json says that it is there
    fault("restore.copy")
    try:
        if _copy_checked(path, folder / DATA_FILE) != (num_bytes, checksum):
            raise _damaged(path, "its size or checksum differs")
        sync_folder(folder)
        environment = Environment.open(folder, settings.map_bytes_max)
        try:
            write_restored(environment, entry.without_source(), source.seq)
        finally:
            environment.close()
        fault("restore.open")
        return Partition.open(folder, entry.number, settings)
    except FileNotFoundError as error:
        raise _damaged(path, "it is missing") from error
    except DamagedEnvironment as error:
        raise _damaged(path, "it is not data of an index") from error


def _file_of(source: SnapshotSource, shard: int) -> Path:
    """Return the file of a shard in a snapshot."""
    return shard_folder(Path(source.folder), shard) / f"index-{source.number}" / DATA_FILE


def _copy_checked(source: Path, target: Path) -> tuple[int, str]:
    """Copy a file and sync it; return size and checksum of what was written."""
    checksum = xxhash.xxh3_64()
    num_bytes = 0
    with source.open("rb") as read, target.open("xb") as written:
        while piece := read.read(COPY_BYTES):
            checksum.update(piece)
            num_bytes += len(piece)
            written.write(piece)
        written.flush()
        os.fsync(written.fileno())  # by the descriptor that wrote it, as `copy_synced` does
    return num_bytes, checksum.hexdigest()


def _damaged(path: Path, problem: str) -> InternalError:
    """Return the error for a file of a snapshot, named as in its folder."""
    name = "/".join(path.parts[-3:])
    return InternalError(f"{name} of the snapshot is damaged: {problem}", code="snapshot_damaged")
