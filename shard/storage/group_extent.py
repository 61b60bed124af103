"""How far the newest write group reaches, where several hosts share a log.

    meta maps "reach" to | seq u64 | settled u64 | first u64 | shard u16[] |

A host that is killed may have a group on some of its shards only. To see it after a restart, each
shard stores with its part, in the same transaction, which shards the group changes. It also stores
the entry up to which the host had applied everything at that time.

Only the newest group of an index can be incomplete: the next one is sent when all shards have it.
A host that lags applies many groups in one commit, as a group that joins them (`first` is the
oldest): each shard has all of its parts or none, and all shards give it the same seq.
Cost: one more value of some twenty bytes in a page that the transaction changes anyway.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from shard.storage.codecs import decode_value, encode_value
from shard.storage.environment import SubDatabase, Transaction

_KEY: Final = b"reach"
"""Not "extent", under which versions of November 2026 stored less."""
_HEAD: Final = struct.Struct("<QQQ")


class Extent(NamedTuple):
    """The reach of a group."""

    seq: int
    settled: int
    """All groups up to this one were on all shards of the host when the group was sent."""
    first: int
    """The first of the groups that it joins; itself if it is a single one."""
    shards: tuple[int, ...]
    """Those that the group changes."""


def write_extent(
    txn: Transaction, seq: int, settled: int, first: int, shards: Sequence[int]
) -> None:
    """Store the extent of a group; that of the one before is forgotten."""
    content = _HEAD.pack(seq, settled, first) + np.array(shards, "<u2").tobytes()
    txn.put(SubDatabase.META, _KEY, encode_value(0, content))


def read_extent(txn: Transaction) -> Extent | None:
    """Return the extent that was stored last; None if there is none.

    It is of an older group if an older program, or one without a shared log, wrote the newest.
    """
    value = txn.get(SubDatabase.META, _KEY)
    if value is None:
        return None
    content = decode_value(0, value, "the extent of a write group")
    seq, settled, first = _HEAD.unpack_from(content)
    return Extent(seq, settled, first, tuple(np.frombuffer(content[_HEAD.size :], "<u2").tolist()))
