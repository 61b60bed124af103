"""Tombstones: the deleted records of compacted write groups, until their items are purged.

    tombstones   maps record >> 16 (u64 BE) to the dead records of that chunk:
                 | roaring bitmap of record & 0xFFFF |

(after checksum and version, see lmdb_codecs.py)

Records get here when the log that says when they were deleted is compacted (`write_group_log`), and
leave when no segment and no snapshot has them any more.

Cost: each touched chunk is read and written once, up to 8 KiB; a purge also deletes the items.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray
from pyroaring import BitMap

from shard.storage.lmdb_codecs import decode_value, encode_value, key_number, number_key
from shard.storage.lmdb_environment import SubDatabase, Transaction

CHUNK_BITS = 16


def read_tombstones(txn: Transaction) -> NDArray[np.uint64]:
    """Return the deleted records of compacted groups that are still stored, uint64, ascending.

    Raises:
        InternalError: item_corrupt, the checksum of a chunk differs.
    """
    chunks = [np.zeros(0, np.uint64)]
    for key, value in txn.items(SubDatabase.TOMBSTONES):
        chunk = key_number(key)
        low = BitMap.deserialize(decode_value(chunk, value, "the list of deleted items"))
        chunks.append(np.array(low.to_array(), np.uint64) + np.uint64(chunk << CHUNK_BITS))
    return np.concatenate(chunks)


def add_tombstones(txn: Transaction, records: NDArray[np.uint64]) -> None:
    """Add deleted records, uint64, of groups that are compacted; the caller removes the groups."""
    _change_tombstones(txn, records, is_dead=True)


def purge_records(txn: Transaction, records: NDArray[np.uint64]) -> None:
    """Remove the items and the tombstones of deleted records.

    Args:
        txn: the write transaction.
        records: uint64, of compacted groups; no segment and no snapshot has them any more.
    """
    for record in records.tolist():
        txn.delete(SubDatabase.DOCUMENTS, number_key(record))
    _change_tombstones(txn, records, is_dead=False)


def _change_tombstones(txn: Transaction, records: NDArray[np.uint64], *, is_dead: bool) -> None:
    """Add records to, or remove them from, the bitmaps of their chunks."""
    for chunk, low_halves in _by_chunk(records):
        value = txn.get(SubDatabase.TOMBSTONES, number_key(chunk))
        dead = BitMap()
        if value is not None:
            dead = BitMap.deserialize(decode_value(chunk, value, "the list of deleted items"))
        if is_dead:
            dead.update(low_halves)
        else:
            dead.difference_update(BitMap(low_halves))
        if dead:
            content = encode_value(chunk, dead.serialize())
            txn.put(SubDatabase.TOMBSTONES, number_key(chunk), content)
        elif value is not None:
            txn.delete(SubDatabase.TOMBSTONES, number_key(chunk))


def _by_chunk(records: NDArray[np.uint64]) -> Iterable[tuple[int, list[int]]]:
    """Yield the number of each chunk of records, and the low 16 bits of its records."""
    ascending = np.sort(records)
    chunks = ascending >> np.uint64(CHUNK_BITS)
    borders = np.flatnonzero(np.diff(chunks)) + 1
    for part in np.split(ascending, borders):
        if len(part):
            chunk = int(part[0]) >> CHUNK_BITS
            yield chunk, (part & np.uint64((1 << CHUNK_BITS) - 1)).tolist()
