"""How far this host has applied the log: in memory, and, a little later, in DATA/replica.json.

The file (`replica_file`) is written as soon as the position rests, and once a second while it
moves: a write costs two syncs of the disk.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any, Final

import msgspec

from common.process.logs import Log
from common.process.thread_pool import to_the_end
from coordinator.replication.host.replica_file import (
    Position,
    ReplicaFile,
    read_replica,
    write_replica,
)

SAVE_SECONDS: Final = 1.0
REST_SECONDS: Final = 0.1
"""A position that has not moved for this long rests."""

_log = Log("replica")


class Progress:
    """This host's position in the log, and what it remembers of itself; written by one at a time.

    Args:
        data: the data directory.

    Attributes:
        position: how far this host has applied the log.
        found_seq: entry up to which the shards had everything at the start, if that is known and
            more than the file said.
        replica: the content of the file, but for the position; None before this host follows a log.
    """

    def __init__(self, data: Path) -> None:
        self._data = data
        self.replica = read_replica(data)
        replica = self.replica
        self.position = (
            Position(0, 0) if replica is None else Position(replica.seq, replica.stored_at)
        )
        self.found_seq = 0
        self._saved = replica
        self._refusal: str | None = None
        """Why the disk took nothing the last time; None: it did."""
        self._saving = asyncio.Lock()

    @property
    def applied_seq(self) -> int:
        """Everything up to this entry is applied here: more than the position after some starts."""
        return max(self.position.seq, self.found_seq)

    @property
    def saved_seq(self) -> int:
        """Everything up to this entry is known to be applied here, even after a power cut."""
        return 0 if self._saved is None else self._saved.seq

    @property
    def cluster(self) -> str:
        """Names the log that this host follows; empty before it does."""
        return "" if self.replica is None else self.replica.cluster

    @property
    def host(self) -> str:
        """Names this copy of the data; empty before it follows a log."""
        return "" if self.replica is None else self.replica.host

    @property
    def arriving(self) -> dict[int, int]:
        """By shard that this host is taking: the entry up to which its folder has everything."""
        return {} if self.replica is None else self.replica.arriving

    @property
    def left(self) -> dict[int, int]:
        """By shard that has left: the entry up to which its folder has everything."""
        return {} if self.replica is None else self.replica.left

    async def begin(self, replica: ReplicaFile) -> None:
        """Follow a log from now on; it is on disk then.

        Raises:
            OSError: it is not.
        """
        async with self._saving:
            self.replica = replica
            self.position = Position(replica.seq, replica.stored_at)
            await to_the_end(write_replica, self._data, replica)
            self._saved = replica

    async def note(self, **changes: Any) -> None:
        """Change what is remembered, besides the position; it is on disk then.

        Raises:
            OSError: it is not.
        """
        async with self._saving:
            assert self.replica is not None
            changed = msgspec.structs.replace(self._with_position(self.replica), **changes)
            await to_the_end(write_replica, self._data, changed)
            self._saved = changed
            self.replica = msgspec.structs.replace(self.replica, **changes)

    def stop_for_good(self, reason: str) -> None:
        """Remember why this copy of the data must not be used any more; `save` writes it."""
        assert self.replica is not None
        self.replica = msgspec.structs.replace(self.replica, stopped=reason)

    async def save(self) -> None:
        """Write what has changed."""
        async with self._saving:
            if self.replica is None:
                return
            replica = self._with_position(self.replica)
            if replica == self._saved:
                return
            try:
                await to_the_end(write_replica, self._data, replica)
            except OSError as error:
                reason = error.strerror or str(error)
                if reason != self._refusal:
                    _log.warning("the position cannot be written yet", reason=reason)
                self._refusal = reason
            else:
                self._saved = replica
                self._refusal = None

    async def run(self) -> None:
        """Write what has changed, as soon as the position rests or is due.

        A position that the disk has refused is only tried again when it is due: on a full disk it
        rests for as long as the disk stays full.
        """
        last, due_at = self.position, 0.0
        while True:
            await asyncio.sleep(REST_SECONDS)
            now = time.monotonic()
            rests = self.position == last and self._refusal is None
            if rests or now >= due_at:
                await self.save()
                due_at = now + SAVE_SECONDS
            last = self.position

    def _with_position(self, replica: ReplicaFile) -> ReplicaFile:
        seq, stored_at = self.position
        return msgspec.structs.replace(replica, seq=seq, stored_at=stored_at)
