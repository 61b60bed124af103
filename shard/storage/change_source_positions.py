"""Positions in sources of changes, written in the transaction of the changes.

    meta maps "position/<source>" to JSON: [[seq, position], [seq before, position before]]

A program that copies changes from another database sends its position there with them, as a text of
its own format. Both become durable in one commit, so after any kill the position says exactly which
changes this shard has. The entry before it is kept for a backup at an earlier horizon: see
`roll_back_positions`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import orjson

from shard.storage.lmdb_codecs import decode_value, encode_value
from shard.storage.lmdb_environment import SubDatabase, Transaction

_PREFIX: Final = b"position/"

Entry = list[list[int | str]]


def read_positions(txn: Transaction) -> dict[str, tuple[int, str]]:
    """Return, by source, the seq of its last group and the position that came with it."""
    return {source: (int(entry[0][0]), str(entry[0][1])) for source, entry in _entries(txn).items()}


def write_positions(
    txn: Transaction, seq: int, positions: Mapping[str, str], *, num_max: int
) -> None:
    """Set the positions that came with a group.

    Args:
        txn: the write transaction.
        seq: of the group.
        positions: by source; an empty one removes its source.
        num_max: most sources; one more replaces the one that wrote least recently.
    """
    entries = _entries(txn)
    for source, position in positions.items():
        if position:
            entry: Entry = [[seq, position], *entries.pop(source, [])[:1]]
            _put(txn, source, entry)
            entries[source] = entry
        elif entries.pop(source, None) is not None:
            txn.delete(SubDatabase.META, _key(source))
    oldest_first = sorted(entries, key=lambda source: int(entries[source][0][0]))
    for source in oldest_first[: max(0, len(entries) - num_max)]:
        txn.delete(SubDatabase.META, _key(source))


def roll_back_positions(txn: Transaction, horizon: int) -> None:
    """Set the positions to those at a horizon; remove a source whose position then is unknown."""
    for source, entry in _entries(txn).items():
        kept = [one for one in entry if int(one[0]) <= horizon]
        if not kept:
            txn.delete(SubDatabase.META, _key(source))
        elif len(kept) < len(entry):
            _put(txn, source, kept)


def _entries(txn: Transaction) -> dict[str, Entry]:
    return {
        key[len(_PREFIX) :].decode(): orjson.loads(decode_value(0, value, "a source's position"))
        for key, value in txn.items(SubDatabase.META, prefix=_PREFIX)
    }


def _put(txn: Transaction, source: str, entry: Entry) -> None:
    txn.put(SubDatabase.META, _key(source), encode_value(0, orjson.dumps(entry)))


def _key(source: str) -> bytes:
    return _PREFIX + source.encode()
