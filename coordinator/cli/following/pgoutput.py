"""Decodes PostgreSQL's logical replication (plug-in pgoutput, protocol 1) into changed rows.

    B begin      | final lsn u64 | time u64 | xid u32 |
    C commit     | flags u8 | lsn u64 | end lsn u64 | time u64 |
    R relation   | oid u32 | schema text 0 | name text 0 | replica identity u8 | columns u16 |
                 per column | flags u8 | name text 0 | type u32 | modifier u32 |
    I insert     | oid u32 | "N" row |
    U update     | oid u32 | ("K" or "O" row)? | "N" row |
    D delete     | oid u32 | "K" or "O" row |
    T truncate   | relations u32 | options u8 | oid u32 ... |
    row          | columns u16 | per column: "n" null, "u" unchanged and not sent,
                                 "t" or "b" | length u32 | bytes |

All numbers are big-endian. Other messages (origins, types) are of no interest here.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from coordinator.cli.sources.postgres_connection import UnknownName
from coordinator.cli.sources.source import SourceError

_U16: Final = struct.Struct(">H")
_U32: Final = struct.Struct(">I")
_BEGIN: Final = struct.Struct(">QQI")
_COMMIT: Final = struct.Struct(">BQQQ")


@dataclass(frozen=True, slots=True)
class Begin:
    """A transaction begins: its number, modulo 2^32."""

    xid: int


@dataclass(frozen=True, slots=True)
class Commit:
    """A transaction is complete: the log position after it."""

    end: int


@dataclass(frozen=True, slots=True)
class Changed:
    """A row was added, changed or removed: its key as PostgreSQL writes it."""

    key: str


@dataclass(frozen=True, slots=True)
class Truncated:
    """All rows were removed."""


Event = Begin | Commit | Changed | Truncated


class Decoder:
    """Reads the messages of one table.

    Args:
        key_column: name of the column that identifies its rows.
    """

    def __init__(self, key_column: str) -> None:
        self._key_column = key_column
        self._places: dict[int, int] = {}  # of the key column, by relation

    def decode(self, message: bytes) -> Iterator[Event]:
        """Yield what a message says.

        Raises:
            SourceError: the key of a row is missing.
            UnknownName: the table has no such column any more.
        """
        match message[:1]:
            case b"B":
                yield Begin(_BEGIN.unpack_from(message, 1)[2])
            case b"C":
                yield Commit(_COMMIT.unpack_from(message, 1)[2])
            case b"R":
                self._note_relation(message)
            case b"I" | b"U" | b"D":
                yield from self._keys(message)
            case b"T":
                yield Truncated()

    def _note_relation(self, message: bytes) -> None:
        """Remember which column of a table is the key."""
        (oid,) = _U32.unpack_from(message, 1)
        at = message.index(0, message.index(0, 5) + 1) + 2
        (num_columns,) = _U16.unpack_from(message, at)
        at += 2
        for column in range(num_columns):
            end = message.index(0, at + 1)
            if message[at + 1 : end].decode() == self._key_column:
                self._places[oid] = column
                return
            at = end + 9
        raise UnknownName(
            f"the table has no column {self._key_column!r} any more; follow it with another "
            "--id-field"
        )

    def _keys(self, message: bytes) -> Iterator[Event]:
        """Yield the keys of a changed row: before the change, if it is sent, and after."""
        (oid,) = _U32.unpack_from(message, 1)
        place = self._places[oid]
        at = 5
        before: str | None = None
        while at < len(message):
            kind = message[at : at + 1]
            key, at = _cell(message, at + 1, place)
            if key is None:
                if kind == b"N" and before is not None:
                    continue  # unchanged, and sent with the row before
                raise SourceError(
                    f"PostgreSQL does not say which {self._key_column} a changed row has; send "
                    "ALTER TABLE … REPLICA IDENTITY FULL, remove the slot (--drop-slot), and start "
                    "again"
                )
            if key != before:
                yield Changed(key)
            before = key


def _cell(message: bytes, at: int, place: int) -> tuple[str | None, int]:
    """Return the text of one cell of a row, None if it has none, and the end of the row."""
    (num_columns,) = _U16.unpack_from(message, at)
    at += 2
    found: str | None = None
    for column in range(num_columns):
        kind = message[at : at + 1]
        at += 1
        if kind in (b"t", b"b"):
            (length,) = _U32.unpack_from(message, at)
            at += 4
            if column == place:
                found = message[at : at + length].decode()
            at += length
    return found, at


def is_visible(xid: int, snapshot: str) -> bool:
    """Return whether a snapshot sees a transaction that has committed.

    A commit is in the log a moment before other sessions see it, and longer if it waits for a
    standby.

    Args:
        xid: number of the transaction, modulo 2^32.
        snapshot: as `pg_current_snapshot()` writes it: first running, first unassigned, running.
    """
    _, first_unassigned, running = snapshot.split(":")
    distance = (xid - int(first_unassigned)) & 0xFFFF_FFFF
    if distance < 1 << 31:
        return False
    return all(int(one) & 0xFFFF_FFFF != xid for one in running.split(",") if one)
