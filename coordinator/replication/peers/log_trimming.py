"""Removes old entries from the log once two hosts have applied them."""

from __future__ import annotations

import asyncio
from typing import Final

from common.process.logs import Log
from coordinator.replication.host.host_context import HostContext
from coordinator.replication.log.log_errors import LogAway
from coordinator.replication.snapshot_transfer.recipient import find_offers

TRIM_SECONDS: Final = 1_200.0
TRIM_AGE_SECONDS: Final = 86_400.0
"""A host that was away for less than this continues from its position."""
TRIM_ENTRIES_MIN: Final = 1_000

_log = Log("replica")


class LogTrimmer:
    """Trims the log.

    Args:
        host: this one.
    """

    def __init__(self, host: HostContext) -> None:
        self._host = host
        self._stream = host.stream
        self._placed = host.cluster.placed

    async def run(self) -> None:
        """Remove entries that are old, and that another host that serves has applied too."""
        while True:
            await asyncio.sleep(TRIM_SECONDS)
            try:
                await self.trim(TRIM_AGE_SECONDS)
            except LogAway as error:
                _log.warning("the log is not trimmed", reason=str(error))

    async def trim(self, age_seconds: float) -> None:
        """Remove entries that are older than that, if two hosts have them.

        The age is by the clock of the log's leader: this host's may have been set.

        Raises:
            LogAway: the log is.
        """
        info = await self._stream.info()
        newest = await self._applied_by_two()
        if info is None or info.answered_at is None or not newest:
            return
        if self._host.serving.is_withheld:
            return
        since = info.answered_at - age_seconds
        before = min(await self._stream.first_seq_since(since), newest)
        if before - info.first_seq >= TRIM_ENTRIES_MIN:
            await self._stream.trim(before)
            _log.info("log trimmed", first_seq=before)

    async def _applied_by_two(self) -> int:
        """Return the entry up to which two hosts have applied everything; 0: there is one only."""
        if self._placed is not None:
            return self._placed.applied_by(2)
        offers = await find_offers(self._stream)
        others = [offer.seq for offer in offers if offer.host != self._host.id]
        return min(self._host.serving.position.seq, max(others, default=0))
