"""Polls the log's leader: is the log up, where does it end, and does this host have all of it?"""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import Final

from common.deadline import Deadline
from common.errors import Unavailable
from common.process.logs import Log
from coordinator.replication.host.host_context import HostContext
from coordinator.replication.log.jetstream_info import RaftGroup, StreamInfo
from coordinator.replication.log.log_errors import LogAway
from coordinator.replication.log.nats_elections import Elections

ASK_SECONDS: Final = 0.5
"""Interval between two polls of the log's leader; the lag is known as exactly as this."""
ANSWER_SECONDS: Final = 0.4
"""A leader that has not answered for this long is suspected; a new leader was not asked yet."""
PAUSE_SECONDS: Final = 0.1
"""Interval between two polls while the leader does not answer."""
FRESH_SECONDS: Final = 2.0
"""A host that has just started accepts writes once it had everything that the log had so long ago:
each would wait until all entries before it are applied, and keep its client from other hosts."""
COMPLETE_SECONDS: Final = 5.0
"""A host that is not known to have had everything within this time may lack what others made."""
AWAY_SECONDS: Final = 2.5
"""A log that has not answered for this long is away: nothing is accepted until it answers. Before,
changes wait: a new leader may be elected meanwhile."""

_log = Log("log")


class LogWatch:
    """Asks the log's leader.

    Args:
        host: this one.
        elections: asks for a new leader; None: the log's servers notice themselves.

    Attributes:
        info: what the leader said last.
        past_seq: last entry of the log when its leader first answered: this host may apply what
            came before once more, with shards and a catalog that have it; None: not known yet.
        is_up: whether a majority of the servers is known to have the log.
        is_answering: whether the leader has answered the last poll.
        heard_at: when the leader was last known to answer; monotonic seconds.
        caught_up_at: a time at which this host had everything; monotonic seconds, 0: never.
        elected: done when another leader answers; then there is a new one of these.
    """

    def __init__(self, host: HostContext, elections: Elections | None) -> None:
        self._progress = host.progress
        self._serving = host.serving
        self._stream = host.stream
        self._elections = elections
        self._group: RaftGroup | None = None
        self._doubted = asyncio.Event()
        host.stream.doubted = self.doubt
        self.info: StreamInfo | None = None
        self.past_seq: int | None = None
        self.is_up = False
        self.is_answering = False
        self.heard_at = 0.0
        self.caught_up_at = 0.0
        self._has_caught_up = False
        self.elected: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @property
    def num_current(self) -> int:
        """Number of servers that have the whole log; 0 while the leader does not answer."""
        if self.info is None or not self.is_up or not self.is_answering:
            return 0
        return self.info.num_current

    @property
    def lag_ms(self) -> int:
        """Upper bound of the time for which this host has lacked an entry; -1: it always has."""
        return int((time.monotonic() - self.caught_up_at) * 1000) if self.caught_up_at else -1

    @property
    def has_caught_up(self) -> bool:
        """Whether this host, since its start, has had all that the log had a moment before."""
        if not self._has_caught_up and self.info is not None:
            is_recent = time.monotonic() - self.heard_at <= FRESH_SECONDS
            self._has_caught_up = is_recent and self._serving.shown_seq >= self.info.last_seq
        return self._has_caught_up

    def check_lag(self, lag_ms_max: int) -> None:
        """Refuse a request if this host may have lacked something for too long.

        Raises:
            Unavailable: `replica_lags`.
        """
        if not 0 <= self.lag_ms <= lag_ms_max:
            raise Unavailable(
                f"this host may lack what is older than {lag_ms_max} ms; ask another one",
                code="replica_lags",
            )

    def check_complete(self) -> None:
        """Refuse to say that something does not exist if another host may have made it.

        Raises:
            Unavailable: `replica_lags`.
        """
        complete_at = self.caught_up_at
        if self.info is not None and self._serving.shown_seq >= self.info.last_seq:
            complete_at = max(complete_at, self.heard_at)
        if time.monotonic() - complete_at > COMPLETE_SECONDS:
            raise Unavailable(
                "this host lags, and may lack what was made through another one: try again "
                "shortly, or another host",
                code="replica_lags",
            )

    def doubt(self) -> None:
        """Ask the leader now: a caller gets no response from the log."""
        self._doubted.set()
        if self._elections is not None and self._group is not None:
            self._elections.suspect(self._group)

    async def run(self) -> None:
        """Poll the leader for the end of the log."""
        # (A task group would cancel in the order of addresses, which no seed repeats.)
        polling = (
            [self._poll()] if self._elections is None else [self._poll(), self._elections.run()]
        )
        await asyncio.gather(*polling)

    async def _poll(self) -> None:
        noting: list[asyncio.Task[None]] = []
        try:
            while True:
                self._doubted.clear()
                asked_at = time.monotonic()
                try:
                    info = await self._stream.info(ANSWER_SECONDS)
                except LogAway:
                    info = None
                self.is_answering = info is not None
                if info is None:
                    self.doubt()
                    self.is_up = self.is_up and asked_at - self.heard_at < AWAY_SECONDS
                else:
                    self._take(info, asked_at)
                    if self._serving.shown_seq < info.last_seq:
                        noting = [one for one in noting if not one.done()]
                        note = self._note_caught_up(info.last_seq, asked_at)
                        noting.append(asyncio.create_task(note))
                    if self._elections is not None:
                        self._group = await self._stream.group(info)
                await asyncio.sleep(PAUSE_SECONDS)
                if info is not None and self.is_up:
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(ASK_SECONDS - PAUSE_SECONDS):
                            await self._doubted.wait()
        finally:
            for one in noting:
                one.cancel()
            await asyncio.gather(*noting, return_exceptions=True)

    def _take(self, info: StreamInfo, asked_at: float) -> None:
        """Take a response of the leader."""
        if self.info is not None and self.info.leader != info.leader:
            seconds = round(asked_at - self.heard_at, 2)
            _log.info("another server leads the log", leader=info.leader, after_seconds=seconds)
            self.elected.set_result(None)
            self.elected = asyncio.get_running_loop().create_future()
        self.info = info
        if self.past_seq is None:
            self.past_seq = info.last_seq
        self.is_up = info.has_majority and self._progress.cluster in ("", info.cluster)
        if self.is_up:
            self.heard_at = asked_at
        if self._serving.shown_seq >= info.last_seq:
            self.caught_up_at = asked_at
            self._has_caught_up = True

    async def _note_caught_up(self, seq: int, asked_at: float) -> None:
        """Record that this host has everything that the log had at some time."""
        try:
            await self._serving.wait_for(seq, Deadline.after_ms(int(ASK_SECONDS * 1000)))
        except Unavailable:
            return
        self.caught_up_at = max(self.caught_up_at, asked_at)
