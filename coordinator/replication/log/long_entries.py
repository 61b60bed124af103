"""Entries longer than a message: keeps their pieces; unpacks and divides large ones on threads."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import Final

from coordinator.replication.log.log_entries import (
    Content,
    LogEntry,
    WriteGroup,
    decode_entry,
    unpack,
)
from coordinator.replication.log.log_errors import LogAway
from coordinator.replication.log.log_stream import LogStream
from coordinator.write.partitioning import Part

THREAD_BYTES: Final = 64 * 1024
"""Size of content from which on it is packed and divided on a thread."""
PIECES_BYTES_MAX: Final = 256 << 20
"""Pieces kept until their entry arrives; others are requested again."""
PIECES_SECONDS: Final = 60.0
"""Pieces are kept for this long: the entry of an older one was given up, or its host died."""
PAUSE_SECONDS: Final = 0.1


class Pieces:
    """Pieces of entries that are still to come.

    Args:
        stream: has those that are not kept.
    """

    def __init__(self, stream: LogStream) -> None:
        self._stream = stream
        self._kept: OrderedDict[int, tuple[float, bytes]] = OrderedDict()
        """By number: when it came, and its content; the oldest first."""
        self._num_bytes = 0

    @property
    def num_bytes(self) -> int:
        """Bytes of all pieces that are kept."""
        return self._num_bytes

    def keep(self, seq: int, content: bytes) -> None:
        """Keep a piece."""
        self._kept[seq] = asyncio.get_running_loop().time(), content
        self._num_bytes += len(content)
        while self._num_bytes > PIECES_BYTES_MAX:
            self._drop_oldest()

    def _drop_oldest(self) -> None:
        self._num_bytes -= len(self._kept.popitem(last=False)[1][1])

    def _drop_old(self) -> None:
        """Drop pieces that no entry will name any more."""
        if not self._kept:
            return
        before = asyncio.get_running_loop().time() - PIECES_SECONDS
        while self._kept and next(iter(self._kept.values()))[0] < before:
            self._drop_oldest()

    async def unpacked(self, entry: LogEntry) -> tuple[Content, int]:
        """Return the content of an entry, and its bytes in the log.

        Raises:
            EntryError: it cannot be read.
            LogBroken: the log no longer has a piece.
        """
        parts = [*[await self._piece(seq) for seq in entry.pieces], entry.content]
        self._drop_old()
        num_bytes = sum(map(len, parts))
        if num_bytes > THREAD_BYTES:
            content = await asyncio.to_thread(unpack, entry.kind, entry.checksum, parts)
        else:
            content = unpack(entry.kind, entry.checksum, parts)
        return content, num_bytes

    async def _piece(self, seq: int) -> bytes:
        """Return the content of a piece, from memory or from the log."""
        kept = self._kept.pop(seq, None)
        if kept is not None:
            self._num_bytes -= len(kept[1])
            return kept[1]
        while True:
            try:
                return decode_entry(await self._stream.get(seq)).content
            except LogAway:
                await asyncio.sleep(PAUSE_SECONDS)


async def divided(group: WriteGroup, num_shards: int, seq: int) -> dict[int, Part]:
    """Return the part of a group for each shard that it changes; a large one in a thread."""
    if len(group.payload) > THREAD_BYTES:
        return await asyncio.to_thread(group.divide, num_shards, seq)
    return group.divide(num_shards, seq)
