"""The log of recent write groups, with the records that each added and deleted; and the counters.

    groups       maps seq (u64 BE) to one write group:
                 | first record u64 | num records u32 | num deleted u32 | num operations u32
                 | deleted records u64[num deleted] | outcomes u8[1 if all are equal, else n] |
    meta         maps "state" to
                 | next record u64 | seq max u64 | seq compacted u64 | num docs u64 |

(each after checksum and version, see lmdb_codecs.py)

A write group appends one value to `groups`: a few bytes at the right edge of a tree, whatever
records it deletes. To write tombstones immediately would rewrite a chunk of up to 8 KiB with every
update of a single item. The log is compacted into `tombstones` later, many groups at a time, once
the horizon has passed them: no search needs to know any more *when* a record was deleted. Until
then the log answers, also after a restart: what did the index look like at seq s; was this group
applied already, with which outcomes? (A group that is sent again must change nothing.)

Costs: one append per group; compacting 256 groups rewrites each touched chunk once.

Worked example: seq 12 replaced the document of record 3 by record 9 and added record 10:
groups[12] = first 9, records 2, deleted [3], outcomes [UPDATED, CREATED]. Compacted:
tombstones[0] = {3}.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from shard.storage.lmdb_codecs import decode_value, encode_value, key_number, number_key
from shard.storage.lmdb_environment import SubDatabase, Transaction
from shard.storage.tombstones import add_tombstones

_GROUP = struct.Struct("<QIII")
_STATE = struct.Struct("<QQQQ")
_STATE_KEY = b"state"

GROUPS_UNCOMPACTED_MAX = 256
"""Compact once more groups than this can be: bounds what an open reads."""
DELETED_UNCOMPACTED_MAX = 4_096
"""Compact once the groups that can be compacted have more deleted records than this. An open cannot
know which records of the log a search may still need, so it indexes again those that merges have
dropped."""


@dataclass(frozen=True, slots=True)
class State:
    """Counters of one index on one shard, as of the last commit."""

    next_record: int = 0
    seq_max: int = 0
    seq_compacted: int = 0
    """Groups up to here are no longer in the log."""
    num_docs: int = 0
    """Live documents: the sum over all segments, and over the damaged items."""


@dataclass(frozen=True, slots=True)
class Group:
    """The effects of one write group.

    Attributes:
        seq: its number.
        first_record, num_records: the records that it added.
        deleted: uint64, records that it deleted (of earlier groups, or its own).
        outcomes: a byte by operation: `common.protocol.write_operations_and_outcomes.Outcome`.
    """

    seq: int
    first_record: int
    num_records: int
    deleted: NDArray[np.uint64]
    outcomes: bytes


def read_state(txn: Transaction) -> State:
    """Return the counters; all zero for a new index.

    Raises:
        InternalError: item_corrupt, their checksum differs.
    """
    value = txn.get(SubDatabase.META, _STATE_KEY)
    if value is None:
        return State()
    return State(*_STATE.unpack(decode_value(0, value, "the counters of an index")))


def write_state(txn: Transaction, state: State) -> None:
    """Set the counters."""
    content = _STATE.pack(state.next_record, state.seq_max, state.seq_compacted, state.num_docs)
    txn.put(SubDatabase.META, _STATE_KEY, encode_value(0, content))


def append_group(txn: Transaction, group: Group) -> None:
    """Add a group to the log."""
    outcomes = group.outcomes
    if outcomes and outcomes.count(outcomes[0]) == len(outcomes):
        outcomes = outcomes[:1]
    content = (
        _GROUP.pack(group.first_record, group.num_records, len(group.deleted), len(group.outcomes))
        + group.deleted.astype("<u8").tobytes()
        + outcomes
    )
    txn.put(SubDatabase.GROUPS, number_key(group.seq), encode_value(group.seq, content))


def read_groups(txn: Transaction) -> list[Group]:
    """Return the groups that are not compacted, oldest first.

    Raises:
        InternalError: item_corrupt, the checksum of one differs.
    """
    groups = []
    for key, value in txn.items(SubDatabase.GROUPS):
        seq = key_number(key)
        content = decode_value(seq, value, "the log of write groups")
        first_record, num_records, num_deleted, num_operations = _GROUP.unpack_from(content)
        end = _GROUP.size + 8 * num_deleted
        outcomes = content[end:]
        if len(outcomes) != num_operations:
            outcomes *= num_operations
        deleted = np.frombuffer(content[_GROUP.size : end], "<u8").astype(np.uint64)
        groups.append(Group(seq, first_record, num_records, deleted, outcomes))
    return groups


def compact_groups(txn: Transaction, state: State, groups: Sequence[Group]) -> State:
    """Move the oldest groups of the log into the tombstones.

    Args:
        txn: the write transaction; the caller writes the returned state.
        state: the counters.
        groups: the oldest of the log, in order; the horizon has passed all of them.

    Returns:
        The counters afterwards.
    """
    if not groups:
        return state
    add_tombstones(txn, np.concatenate([group.deleted for group in groups]))
    for group in groups:
        txn.delete(SubDatabase.GROUPS, number_key(group.seq))
    return replace(state, seq_compacted=groups[-1].seq)
