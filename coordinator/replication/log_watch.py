"""Watches the log from here: is it up, who leads it, how far is it, and since when are we there?"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final

from common.deadline import Deadline
from common.errors import DeadlineExceeded
from coordinator.replication.stream import LogAway, LogStream, StreamInfo

if TYPE_CHECKING:
    from coordinator.replication.shared_log import SharedLog

ASK_SECONDS: Final = 0.5
"""Between two questions to the log's leader; the lag is known as exactly as this."""
ASK_AWAY_SECONDS: Final = 0.4
"""Within which it must answer while it is away; a new leader was not asked yet."""
PAUSE_SECONDS: Final = 0.1
"""Between two questions while the leader does not answer."""


class LogWatch:
    """Asks the log's leader.

    Args:
        log: knows how far this host is.
        stream: the log itself.

    Attributes:
        info: what the leader said last.
        is_up: whether a majority of the servers has the log, as far as is known.
        heard_at: when the leader was last known to answer; monotonic seconds.
        caught_up_at: a time at which this host had everything; monotonic seconds, 0: never.
    """

    def __init__(self, log: SharedLog, stream: LogStream) -> None:
        self._log = log
        self._stream = stream
        self.info: StreamInfo | None = None
        self.is_up = False
        self.heard_at = 0.0
        self.caught_up_at = 0.0

    @property
    def lag_ms(self) -> int:
        """For how long at most this host has not had everything; -1: it never had."""
        return int((time.monotonic() - self.caught_up_at) * 1000) if self.caught_up_at else -1

    async def run(self) -> None:
        """Ask the leader how far the log is, again and again."""
        async with asyncio.TaskGroup() as notes:
            while True:
                asked_at = time.monotonic()
                try:
                    info = await self._stream.info(ASK_AWAY_SECONDS if not self.is_up else 1.0)
                except LogAway:
                    info = None
                self.is_up = (
                    info is not None
                    and 2 * info.num_current > info.num_replicas
                    and self._log.cluster_name in ("", info.cluster)
                )
                if info is not None:
                    self.info = info
                    if self.is_up:
                        self.heard_at = asked_at
                    if self._log.position.seq >= info.last_seq:
                        self.caught_up_at = asked_at
                    else:
                        notes.create_task(self._note_caught_up(info.last_seq, asked_at))
                await asyncio.sleep(ASK_SECONDS if self.is_up else PAUSE_SECONDS)

    async def _note_caught_up(self, seq: int, asked_at: float) -> None:
        """Remember that this host has everything that the log had at some time."""
        try:
            await self._log.wait_for(seq, Deadline.after_ms(int(ASK_SECONDS * 1000)))
        except DeadlineExceeded:
            return
        self.caught_up_at = max(self.caught_up_at, asked_at)
