"""Pieces of long entries: kept until their entry comes, or until it will not come any more."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from coordinator.replication.log import long_entries
from coordinator.replication.log.log_entries import (
    ComparisonMark,
    Kind,
    LogEntry,
    checksum_of,
    encode_entry,
    pack,
)
from coordinator.replication.log.long_entries import Pieces


class FakeStream:
    """A log that counts what it is asked for.

    Args:
        content: of its only message.
    """

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.num_asked = 0

    async def get(self, seq: int) -> bytes:
        self.num_asked += 1
        return encode_entry(LogEntry(Kind.PIECE, "piece", self.content))


async def test_pieces_of_an_entry_that_was_given_up_do_not_stay(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    packed = pack(ComparisonMark("host"))
    stream: Any = FakeStream(packed)
    pieces = Pieces(stream)
    entry = LogEntry(Kind.MARK, "mark", b"", checksum_of(packed), (8,))
    pieces.keep(7, b"of an entry that never comes")
    await asyncio.sleep(0.02)
    monkeypatch.setattr(long_entries, "PIECES_SECONDS", 0.01)
    pieces.keep(8, packed)

    await pieces.unpacked(entry)
    assert pieces.num_bytes == 0
    assert stream.num_asked == 0, "the new one was kept"

    await pieces.unpacked(entry)
    assert stream.num_asked == 1, "one that is needed after all is in the log"
