"""When hosts compare their data: an entry of the log marks the state to digest.

`data_comparison.py` computes the digests and decides who differs.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable
from typing import Final

from common.errors import ServiceError, Unavailable
from common.process.logs import Log
from coordinator.replication.host.host_context import HostContext
from coordinator.replication.host.log_watch import LogWatch
from coordinator.replication.log.log_entries import ComparisonMark, HostReport, Kind, pack
from coordinator.replication.log.log_errors import LogAway
from coordinator.replication.peers.data_comparison import DigestComparer
from coordinator.replication.publishing.entry_publishing import Publisher, not_confirmed

PAUSE_SECONDS: Final = 0.1

_log = Log("replica")


class ComparisonScheduler:
    """Requests comparisons at intervals, and takes part in those of all hosts.

    Args:
        host: this one.
        watch: knows which entries this host may have applied before its start.
        publisher: of this host's entries.
        stop_for_good: called with the reason if the others agree and this host differs.

    Attributes:
        comparer: knows the results.
    """

    def __init__(
        self,
        host: HostContext,
        watch: LogWatch,
        publisher: Publisher,
        stop_for_good: Callable[[str], None],
    ) -> None:
        self._host = host
        self._watch = watch
        self._publisher = publisher
        self._catalog = host.catalog
        self._interval_seconds = host.settings.log_compare_seconds
        self.comparer = DigestComparer(host.cluster, self._report, stop_for_good)
        self._marked_at = time.monotonic()

    def mark(self, seq: int) -> None:
        """Begin to compare the state at an entry; all before it is applied, nothing after it.

        Not if this host, before its start, may have applied later entries too: it would differ.
        """
        self._marked_at = time.monotonic()
        past_seq = self._watch.past_seq
        if past_seq is None or seq <= past_seq:
            reason = "this host may have applied later entries before its start"
            _log.info("not compared", seq=seq, reason=reason)
            return
        self.comparer.mark(seq, self._host.id, self._host.name, self._catalog.state)

    async def request(self) -> int:
        """Have all hosts compare their data; return the number of the mark.

        Raises:
            Unavailable: the log is away.
        """
        self._publisher.check_writable()
        never: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        mark = pack(ComparisonMark(self._host.id))
        try:
            return await self._publisher.append(Kind.MARK, self._publisher.next_id(), mark, never)
        except LogAway as error:
            raise Unavailable(not_confirmed(error), code="log_unavailable") from error

    async def _report(self, report: HostReport) -> None:
        """Report this host's digests to the others.

        Raises:
            LogAway: it was given up.
        """
        never: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        await self._publisher.append(Kind.REPORT, self._publisher.next_id(), pack(report), never)

    async def run(self) -> None:
        """Request a comparison whenever there was none for a while."""
        seconds = self._interval_seconds
        if not seconds:
            return
        while True:
            # The first host wins; the others see its mark before they would set one.
            due_at = self._marked_at + seconds * (1 + 0.2 * secrets.randbits(16) / 2**16)
            await asyncio.sleep(max(due_at - time.monotonic(), PAUSE_SECONDS))
            if time.monotonic() - self._marked_at < seconds:
                continue
            self._marked_at = time.monotonic()
            try:
                await self.request()
            except ServiceError as error:
                _log.warning("not compared", reason=error.message)
