"""The counts of a coordinator: requests, phases of searches, and the summary for people.

Counting on the hot path is a dict update and a bisection (0.6 µs); the phases of searches are
counted many at a time. `prometheus_metrics` writes the counts in Prometheus' text format.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec
import numpy as np
from msgspec import Struct

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from coordinator.read.result_cache import ResultCache
    from coordinator.read.search_results import SearchResult, Timings

SECONDS: Final = (
    0.0002,
    0.0005,
    0.001,
    0.002,
    0.005,
    0.01,
    0.02,
    0.05,
    0.1,
    0.2,
    0.5,
    1.0,
    2.0,
    5.0,
    10.0,
)
"""Upper bounds of the latency buckets."""
UNROUTED: Final = "none"
"""Label of requests that match no route."""
PHASES: Final = ("search", "facets", "sort")
NOT_COUNTED: Final = frozenset(("GET /_ready", "GET /_health"))
"""Routes left out of the summary: a 503 during startup is not an error."""
PENDING_MAX: Final = 500
"""Searches whose phases are counted together."""
RECENT_KEPT: Final = 4_096
RECENT_SECONDS: Final = 10.0
"""The span that the summary calls "now"."""


class Histogram:
    """Counts durations by bucket."""

    __slots__ = ("counts", "total")

    def __init__(self) -> None:
        self.counts = [0] * (len(SECONDS) + 1)
        self.total = 0.0

    def observe(self, seconds: float) -> None:
        """Count one duration."""
        self.counts[bisect_left(SECONDS, seconds)] += 1
        self.total += seconds

    def observe_all(self, seconds: NDArray[np.float64]) -> None:
        """Count many durations at once."""
        places = np.searchsorted(SECONDS, seconds)
        for place, count in enumerate(np.bincount(places).tolist()):
            self.counts[place] += count
        self.total += float(seconds.sum())


def cumulative(counts: Sequence[int]) -> list[tuple[str, float]]:
    """Return (upper bound, number of durations up to it), the form that Prometheus expects."""
    rows = []
    number = 0
    for bound, count in zip((*map(str, SECONDS), "+Inf"), counts, strict=True):
        number += count
        rows.append((bound, float(number)))
    return rows


class RouteMetrics:
    """Counters of one route."""

    __slots__ = ("latency", "statuses")

    def __init__(self) -> None:
        self.statuses: dict[int, int] = {}
        self.latency = Histogram()

    def observe(self, status: int, seconds: float) -> None:
        """Count one response."""
        self.statuses[status] = self.statuses.get(status, 0) + 1
        self.latency.observe(seconds)


class Counts(Struct, array_like=True):
    """Counts of one coordinator, or of several together."""

    routes: dict[str, tuple[dict[int, int], list[int], float]]
    """By name: responses by status, and the counts and the sum of their durations."""
    phases: list[tuple[list[int], float]]
    num_slow: int
    num_cache_hits: int
    num_cache_misses: int
    cache_bytes: int
    in_flight: int
    body_bytes: int
    connections: int
    states: int

    @classmethod
    def none(cls) -> Counts:
        """Return the counts of nothing."""
        phases = [(Histogram().counts, 0.0) for _ in PHASES]
        return cls({}, phases, *[0] * 8)

    def copy(self) -> Counts:
        """Return the same counts, to be added to."""
        total = Counts.none()
        total.add(self)
        return total

    def without_moment(self) -> Counts:
        """Return the counts that remain valid after a process has ended."""
        return msgspec.structs.replace(
            self, cache_bytes=0, in_flight=0, body_bytes=0, connections=0, states=0
        )

    def add(self, other: Counts) -> None:
        """Add the counts of another."""
        for name, (statuses, counts, seconds) in other.routes.items():
            ours, former, total = self.routes.get(name, ({}, [0] * len(counts), 0.0))
            self.routes[name] = (
                {one: ours.get(one, 0) + statuses.get(one, 0) for one in {**ours, **statuses}},
                [a + b for a, b in zip(former, counts, strict=True)],
                total + seconds,
            )
        self.phases = [
            ([a + b for a, b in zip(ours, theirs, strict=True)], total + seconds)
            for (ours, total), (theirs, seconds) in zip(self.phases, other.phases, strict=True)
        ]
        for name in _SUMMED:
            setattr(self, name, getattr(self, name) + getattr(other, name))


_SUMMED: Final = Counts.__struct_fields__[2:]


class ProcessUse(NamedTuple):
    """Memory and processor time of another coordinator."""

    pid: int
    resident_bytes: int
    cpu_seconds: float


class Metrics:
    """All metrics of this coordinator."""

    def __init__(self) -> None:
        self.routes: dict[str, RouteMetrics] = {}
        self._phases = tuple(Histogram() for _ in PHASES)
        self._pending: list[Timings] = []
        """Of searches whose phases are not counted yet."""
        self.requests_in_flight = 0
        self.num_connections: Callable[[], int] = int
        """Set by the owner of the connections."""
        self.body_bytes: Callable[[], int] = int
        """Set by the owner of the bodies: their total bytes."""
        self.recent: deque[tuple[float, float]] = deque(maxlen=RECENT_KEPT)
        """(end time, duration) of the latest searches, in seconds on `time.perf_counter`."""
        self.started = time.time()
        self._started = time.monotonic()
        self.num_slow = 0
        """Number of slow searches logged."""
        self.others: Callable[[], Counts] | None = None
        """Counts of the other coordinators of the service, if there are any."""
        self.processes: Callable[[], Iterable[ProcessUse]] | None = None
        """These coordinators."""

    @property
    def uptime(self) -> float:
        """Seconds since the start; steps of the clock do not change them."""
        return time.monotonic() - self._started

    def counts(self, num_states: int, results: ResultCache) -> Counts:
        """Return the counts of this coordinator.

        Args:
            num_states: states of indexes in use.
            results: the result cache.
        """
        self._count_pending()
        return Counts(
            {
                name: (dict(one.statuses), list(one.latency.counts), one.latency.total)
                for name, one in self.routes.items()
            },
            [(list(one.counts), one.total) for one in self._phases],
            self.num_slow,
            results.num_hits,
            results.num_misses,
            results.size,
            self.requests_in_flight,
            self.body_bytes(),
            self.num_connections(),
            num_states,
        )

    def counts_of_all(self, num_states: int, results: ResultCache) -> Counts:
        """Return the counts of all coordinators together."""
        counts = self.counts(num_states, results)
        if self.others is not None:
            counts.add(self.others())
        return counts

    def route(self, name: str) -> RouteMetrics:
        """Return the counters of a route; create them on its first request."""
        found = self.routes.get(name)
        if found is None:
            found = self.routes[name] = RouteMetrics()
        return found

    def observe_search(self, result: SearchResult, total_us: int) -> None:
        """Count one search and its phases."""
        self.recent.append((time.perf_counter(), total_us / 1e6))
        self._pending.append(result.timings)
        if len(self._pending) >= PENDING_MAX:
            self._count_pending()

    def _count_pending(self) -> None:
        """Count the phases of the pending searches."""
        pending, self._pending = self._pending, []
        if pending:
            micros = np.array(list(map(msgspec.structs.astuple, pending)), np.float64)
            for histogram, of_phase in zip(self._phases, micros.T[1:], strict=True):
                histogram.observe_all(of_phase / 1e6)

    def summary(self) -> dict[str, Any]:
        """Return the figures for people: totals, and those of the last seconds."""
        statuses: dict[int, int] = {}
        rows = [(name, route.statuses) for name, route in self.routes.items()]
        in_flight = self.requests_in_flight
        if self.others is not None:
            others = self.others()
            rows += [(name, route[0]) for name, route in others.routes.items()]
            in_flight += others.in_flight
        for name, counted in rows:
            if name in NOT_COUNTED:
                continue
            for status, count in counted.items():
                statuses[status] = statuses.get(status, 0) + count
        now = time.perf_counter()
        recent = sorted(seconds for when, seconds in self.recent if now - when <= RECENT_SECONDS)
        is_cut = len(self.recent) == RECENT_KEPT and now - self.recent[0][0] < RECENT_SECONDS
        span = max(now - self.recent[0][0], 1e-3) if is_cut else RECENT_SECONDS
        return {
            "total": sum(statuses.values()),
            "in_flight": in_flight,
            "errors": sum(count for status, count in statuses.items() if status >= 500),
            "per_second": len(recent) / span,
            "p50_ms": _quantile_ms(recent, 0.50),
            "p99_ms": _quantile_ms(recent, 0.99),
        }


def _quantile_ms(ascending: Sequence[float], fraction: float) -> float | None:
    """Return a quantile of durations in milliseconds; None if there are none."""
    if not ascending:
        return None
    return ascending[min(len(ascending) - 1, int(len(ascending) * fraction))] * 1000
