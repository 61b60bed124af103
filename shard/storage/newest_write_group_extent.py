"""The extent of the newest write group: which shards it changes. For hosts that share a log.

    meta maps "reach" to | seq u64 | settled u64 | first u64 | shard u16[] |

A host that is killed may have a group on some of its shards only. So that a restart can tell, each
shard stores which shards the group changes, in the same transaction as its part of the group. It
also stores the seq up to which the host had applied all groups at that time.

Only the newest group of an index can be incomplete: the next one is sent when all shards have it.
A host that lags applies many groups in one commit, joined into one group (`first` is the oldest):
each shard has all of them or none, and all shards give the joined group the same seq.

Cost: one more value of about thirty bytes, in a page that the transaction changes anyway.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from shard.storage.lmdb_codecs import decode_value, encode_value
from shard.storage.lmdb_environment import SubDatabase, Transaction

_KEY: Final = b"reach"
"""Not "extent", under which versions of November 2026 stored less."""
_HEAD: Final = struct.Struct("<QQQ")


class Extent(NamedTuple):
    """The extent of a group."""

    seq: int
    settled: int
    """When the group was sent, all shards of the host had all groups up to this seq."""
    first: int
    """The seq of the oldest group that it joins; its own if it joins none."""
    shards: tuple[int, ...]
    """Ordinals of the shards that the group changes."""


def write_extent(
    txn: Transaction, seq: int, settled: int, first: int, shards: Sequence[int]
) -> None:
    """Store the extent of a group, in place of the one before."""
    content = _HEAD.pack(seq, settled, first) + np.array(shards, "<u2").tobytes()
    txn.put(SubDatabase.META, _KEY, encode_value(0, content))


def read_extent(txn: Transaction) -> Extent | None:
    """Return the extent that was stored last; None if there is none.

    It is that of an older group if a host without a shared log, or an older program, has written
    the newest.

    Raises:
        InternalError: item_corrupt, its checksum differs.
    """
    value = txn.get(SubDatabase.META, _KEY)
    if value is None:
        return None
    content = decode_value(0, value, "the extent of a write group")
    seq, settled, first = _HEAD.unpack_from(content)
    return Extent(seq, settled, first, tuple(np.frombuffer(content[_HEAD.size :], "<u2").tolist()))
