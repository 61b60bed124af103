"""Reports from readers to the owner, so that metrics and analytics cover all processes.

A reader sends its counters, as they stand, a few times a second while they change; the owner adds
up the newest report of every reader, and the counts of readers that are gone. Searches for
analytics, slow searches and durations of the last seconds are sent once each.
"""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

import msgspec
import orjson
from msgspec import Struct

from common.errors import Unavailable
from common.process.glibc_malloc import resident_bytes
from common.process.logs import Log
from coordinator.analytics.search_analytics import Analytics, PendingSearch, ReaderAnalytics
from coordinator.http.metrics import Counts, Metrics, ProcessUse
from coordinator.http.slow_queries import SlowQueries

if TYPE_CHECKING:
    from coordinator.http.reader_coordinator_messages import Outbox
    from coordinator.http.services import Services

REPORT_SECONDS: Final = 0.1
SEARCHES_AT_ONCE: Final = 40
"""Searches in one report: a text may have 800 bytes."""
RECENT_AT_ONCE: Final = 1_000
SLOW_BYTES_MAX: Final = 4_000
"""Longer requests of slow searches are cut to this length."""

_log = Log("http")


_SentSearch: TypeAlias = tuple[float, tuple[str | None, str], str, str, int, int]


class ReaderReport(Struct, array_like=True):
    """Work of one reader."""

    pid: int
    counts: Counts
    resident_bytes: int
    cpu_seconds: float
    searches: list[_SentSearch]
    """Searches for `coordinator.analytics.search_analytics`."""
    recent: list[tuple[float, float]]
    slow: list[dict[str, Any]]


_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(ReaderReport).decode


class Reporter:
    """Sends a reader's reports.

    Args:
        services: of the reader.
        outbox: leads to the owner.
    """

    def __init__(self, services: Services, outbox: Outbox) -> None:
        assert isinstance(services.analytics, ReaderAnalytics)
        self._services = services
        self._analytics = services.analytics
        self._outbox = outbox
        self._sent: Counts | None = None
        self._recent_at = 0.0

    async def report_periodically(self) -> None:
        """Report while anything changes; ends by cancellation."""
        while True:
            await asyncio.sleep(REPORT_SECONDS)
            try:
                await self.report()
            except Unavailable:
                _log.warning("the owner takes no reports")

    async def report(self) -> None:
        """Send what has not been sent."""
        services = self._services
        counts = services.metrics.counts(
            services.cluster.horizons.num_states_in_use, services.results
        )
        searches = [_sendable(one) for one in self._analytics.take_pending()]
        if counts == self._sent and not searches:
            return
        recent = [one for one in services.metrics.recent if one[0] > self._recent_at]
        recent = recent[-RECENT_AT_ONCE:]
        if recent:
            self._recent_at = recent[-1][0]
        slow = [_shortened(one) for one in services.slow_queries.take_latest()]
        cpu = os.times()
        while True:
            report = ReaderReport(
                os.getpid(),
                counts,
                resident_bytes(),
                cpu.user + cpu.system,
                searches[:SEARCHES_AT_ONCE],
                recent,
                slow[:1],
            )
            await self._outbox.report(_encode(report))
            self._sent = counts
            searches, recent, slow = searches[SEARCHES_AT_ONCE:], [], slow[1:]
            if not searches and not slow:
                return


def _sendable(one: PendingSearch) -> _SentSearch:
    """Return a search as it can be sent: X-Forwarded-For may have bytes that are not UTF-8."""
    at, client, name, query, num_hits, took_us = one
    key, address = cast(tuple[str | None, str], client)
    sent = (key, address.encode("utf-8", "replace").decode())
    return (at, sent, name, query, num_hits, took_us)


def _shortened(event: dict[str, Any]) -> dict[str, Any]:
    """Return a slow search whose request is not too long."""
    text = orjson.dumps(event["request"], default=str)
    if len(text) <= SLOW_BYTES_MAX:
        return event
    return {**event, "request": {"beginning": text[:SLOW_BYTES_MAX].decode("utf-8", "replace")}}


class Reports:
    """The owner's view of the readers.

    Args:
        metrics: of the owner; shows all.
        analytics: of the owner; counts all searches.
        slow_queries: of the owner; lists all.
    """

    def __init__(self, metrics: Metrics, analytics: Analytics, slow_queries: SlowQueries) -> None:
        self._metrics = metrics
        self._analytics = analytics
        self._slow_queries = slow_queries
        self.latest: dict[int, ReaderReport] = {}
        """By process id."""
        self._gone = Counts.none()
        metrics.others = self.counts
        metrics.processes = self.processes

    def take(self, message: bytes) -> None:
        """Take a report."""
        report = _decode(message)
        self.latest[report.pid] = report
        self._analytics.record_all(report.searches)
        self._metrics.recent.extend(report.recent)
        self._slow_queries.latest.extend(report.slow)

    def end(self, pid: int) -> None:
        """Keep the counts of a reader that is gone; nothing that it has sent is still to come."""
        last = self.latest.pop(pid, None)
        if last is not None:
            self._gone.add(last.counts.without_moment())

    def processes(self) -> list[ProcessUse]:
        """Return memory and processor time of the readers."""
        return [
            ProcessUse(one.pid, one.resident_bytes, one.cpu_seconds) for one in self.latest.values()
        ]

    def counts(self) -> Counts:
        """Return the counts of all readers together."""
        total = self._gone.copy()
        for report in self.latest.values():
            total.add(report.counts)
        return total
