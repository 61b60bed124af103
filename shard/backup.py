"""A consistent copy of one index's truth at one horizon, made while the index is written to.

    data.mdb ── env.copy (one read transaction, compacted) ──▶ <target>/data.mdb ── roll back ──▶

Derived data are not copied: opening the copy builds them, and the configuration is in LMDB. LMDB
copies the state of one moment on one shard; shards are brought to the *same* moment by taking back
the groups behind the horizon, which the log of groups can do (the coordinator keeps the horizon in
use while the copy is made, so no group behind it was folded and none of its victims removed).
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from common.data_directory import sync_file, sync_folder
from common.errors import InvalidRequest
from common.faults import fault
from shard.partition import Partition
from shard.storage.codecs import number_key
from shard.storage.environment import Environment, SubDatabase, Transaction
from shard.storage.group_log import read_groups, read_state, write_state


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
            with copied.write() as txn:
                roll_back(txn, horizon)
        finally:
            copied.close()
        (target / "lock.mdb").unlink(missing_ok=True)
    sync_file(target / "data.mdb")
    sync_folder(target)


def roll_back(txn: Transaction, horizon: int) -> None:
    """Take back every group behind a horizon.

    Raises:
        InvalidRequest: some of them are no longer in the log.
    """
    state = read_state(txn)
    if horizon < state.seq_folded:
        raise InvalidRequest(
            f"state {horizon} is gone; the oldest that can be copied is {state.seq_folded}"
        )
    seq_max = state.seq_folded
    for group in read_groups(txn):
        if group.seq <= horizon:
            seq_max = max(seq_max, group.seq)
            continue
        for record in range(group.first_record, group.first_record + group.num_records):
            txn.delete(SubDatabase.DOCUMENTS, number_key(record))
        txn.delete(SubDatabase.GROUPS, number_key(group.seq))
        state = replace(state, num_docs=state.num_docs - group.num_records + len(group.deleted))
    write_state(txn, replace(state, seq_max=seq_max))
