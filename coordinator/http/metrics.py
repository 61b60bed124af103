"""Metrics for operators, in Prometheus' text format, and the log of slow searches.

    facetd_http_requests_total{route,status}           counter
    facetd_http_request_seconds{route}                 histogram, whole request
    facetd_search_phase_seconds{phase}                 histogram, of the slowest shard
    facetd_slow_queries_total                          counter
    facetd_result_cache_bytes, facetd_result_cache_lookups_total{outcome}
    facetd_requests_in_flight, facetd_body_bytes_in_flight, facetd_connections
    facetd_allocated_bytes, facetd_python_blocks       steady growth means a leak
    facetd_writes_waiting, facetd_states_in_use, facetd_start_time_seconds, facetd_build_info
    facetd_reader_resident_bytes{pid} …_cpu_seconds    with several coordinators
    facetd_shard_up{shard} …_calls_in_flight …_queue_length …_resident_bytes …_corrupt_items
    facetd_shard_allocated_bytes{shard} …_python_blocks
    facetd_shard_cache_bytes{cache,shard}
    facetd_index_items{index,shard} …_bytes …_segments …_merging …_merges_total
    facetd_index_merge_seconds_total{index,shard}
    facetd_map_used_bytes{index,shard} …_max_bytes …_readers
    process_*                                          of the coordinator

Counting on the hot path is a dict update and a bisection (0.6 µs). The objects of prometheus-client
take several microseconds for labels and locks, so it only formats these numbers as text, when
metrics are scraped. The shards are asked for their own numbers only then, too.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec
import orjson
from msgspec import Struct
from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from common.process.logs import Log
from common.process.memory import allocated
from coordinator.cluster.catalog import program_version

if TYPE_CHECKING:
    from common.protocol.messages import ProcessStatistics
    from coordinator.read.result_cache import ResultCache
    from coordinator.read.results import SearchResult
    from coordinator.replication.log_state import LogState

_ALLOCATED_BYTES: Final = "Memory in use, without what the allocator has free."
_PYTHON_BLOCKS: Final = "Small Python objects in use."

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
PHASES: Final = ("search", "facets", "sort")
SLOW_QUERIES_KEPT: Final = 100
REQUEST_BYTES_LOGGED: Final = 2_000
NOT_COUNTED: Final = frozenset(("GET /_ready", "GET /_health"))
"""Routes left out of the summary: a 503 during startup is not an error."""
RECENT_KEPT: Final = 4_096
RECENT_SECONDS: Final = 10.0
"""The span that the summary calls "now"."""

_log = Log("slow")


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


class Waiting(NamedTuple):
    """Work in progress at this moment, as reported by its owners."""

    calls: Sequence[int]
    """By shard: calls sent to it without a response yet."""
    writes: int
    """Batches that are not in a group yet."""
    states: int
    """States of indexes, kept for running requests, exports and cursors."""


class Metrics:
    """All metrics of this coordinator."""

    def __init__(self) -> None:
        self.routes: dict[str, RouteMetrics] = {}
        self.phases = tuple(Histogram() for _ in PHASES)
        self.requests_in_flight = 0
        self.num_connections: Callable[[], int] = int
        """Set by the owner of the connections."""
        self.body_bytes: Callable[[], int] = int
        """Set by the owner of the bodies: their total bytes."""
        self.recent: deque[tuple[float, float]] = deque(maxlen=RECENT_KEPT)
        """(end time, duration) of the latest searches, in seconds on `time.perf_counter`."""
        self.started = time.time()
        self.num_slow = 0
        """Number of slow searches logged."""
        self.others: Callable[[], Counts] | None = None
        """Counts of the other coordinators of the service, if there are any."""
        self.processes: Callable[[], Iterable[ProcessUse]] | None = None
        """These coordinators."""

    def counts(self, num_states: int, results: ResultCache) -> Counts:
        """Return the counts of this coordinator.

        Args:
            num_states: states of indexes in use.
            results: the result cache.
        """
        return Counts(
            {
                name: (dict(one.statuses), list(one.latency.counts), one.latency.total)
                for name, one in self.routes.items()
            },
            [(list(one.counts), one.total) for one in self.phases],
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
        search, facets, sort = self.phases
        timings = result.timings
        search.observe(timings.search_us / 1e6)
        facets.observe(timings.facets_us / 1e6)
        sort.observe(timings.sort_us / 1e6)

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

    def exposition(
        self,
        shards: Sequence[ProcessStatistics | None],
        index_names: Mapping[int, str],
        waiting: Waiting,
        results: ResultCache,
        replica: LogState | None = None,
        num_away: int = 0,
    ) -> bytes:
        """Return everything in Prometheus' text format.

        Args:
            shards: statistics of each shard, None for one that is down.
            index_names: index names by number.
            waiting: work in progress.
            results: the result cache.
            replica: this host as one of several.
            num_away: other hosts that no longer answer.
        """
        registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        families = (
            *self._families(waiting, results),
            *_shard_families(shards),
            *_index_families(shards, index_names),
            *(_replica_families(replica, num_away) if replica is not None else ()),
        )
        registry.register(_Snapshot(families))
        return generate_latest(registry)

    def _families(self, waiting: Waiting, results: ResultCache) -> Iterator[Metric]:
        """Yield the coordinator's metrics."""
        total = self.counts_of_all(waiting.states, results)
        requests = CounterMetricFamily(
            "facetd_http_requests", "Requests by route and status.", labels=("route", "status")
        )
        latency = HistogramMetricFamily(
            "facetd_http_request_seconds",
            "Seconds from the request's head to its answer.",
            labels=("route",),
        )
        for name, (statuses, counts, seconds) in total.routes.items():
            for status, count in statuses.items():
                requests.add_metric((name, str(status)), count)
            latency.add_metric((name,), cumulative(counts), seconds)
        yield requests
        yield latency
        phases = HistogramMetricFamily(
            "facetd_search_phase_seconds",
            "Seconds of each phase of a search in its slowest shard.",
            labels=("phase",),
        )
        for phase, (counts, seconds) in zip(PHASES, total.phases, strict=True):
            phases.add_metric((phase,), cumulative(counts), seconds)
        yield phases
        in_use = allocated()
        for name, text, value in (
            ("facetd_requests_in_flight", "Requests being answered.", total.in_flight),
            ("facetd_body_bytes_in_flight", "Bytes of JSON bodies in memory.", total.body_bytes),
            ("facetd_connections", "Open client connections.", total.connections),
            ("facetd_writes_waiting", "Batches that wait to be written.", waiting.writes),
            (
                "facetd_states_in_use",
                "States of indexes kept for requests, exports and cursors.",
                total.states,
            ),
            ("facetd_start_time_seconds", "When the coordinator started.", self.started),
            ("facetd_allocated_bytes", _ALLOCATED_BYTES, in_use.num_bytes),
            ("facetd_python_blocks", _PYTHON_BLOCKS, in_use.num_blocks),
        ):
            yield GaugeMetricFamily(name, text, value=value)
        yield GaugeMetricFamily(
            "facetd_result_cache_bytes", "Size of the result cache.", value=total.cache_bytes
        )
        lookups = CounterMetricFamily(
            "facetd_result_cache_lookups", "Searches looked for in it.", labels=("outcome",)
        )
        lookups.add_metric(("hit",), total.num_cache_hits)
        lookups.add_metric(("miss",), total.num_cache_misses)
        yield lookups
        yield CounterMetricFamily(
            "facetd_slow_queries", "Searches slower than slow_query_ms.", value=total.num_slow
        )
        calls = GaugeMetricFamily(
            "facetd_shard_calls_in_flight",
            "Calls sent to the shard and not answered yet.",
            labels=("shard",),
        )
        for shard, number in enumerate(waiting.calls):
            calls.add_metric((str(shard),), number)
        yield calls
        build = GaugeMetricFamily(
            "facetd_build_info", "Always 1; the labels say what runs.", labels=("version",)
        )
        build.add_metric((program_version(),), 1)
        yield build
        if self.processes is not None:
            yield from _process_families(self.processes())


def _process_families(processes: Iterable[ProcessUse]) -> Iterator[Metric]:
    """Yield memory and processor time of the readers, if there are several coordinators."""
    memory = GaugeMetricFamily(
        "facetd_reader_resident_bytes", "Memory of a reader process.", labels=("pid",)
    )
    cpu = CounterMetricFamily(
        "facetd_reader_cpu_seconds", "Processor time of a reader process.", labels=("pid",)
    )
    for one in processes:
        memory.add_metric((str(one.pid),), one.resident_bytes)
        cpu.add_metric((str(one.pid),), one.cpu_seconds)
    yield memory
    yield cpu


def _quantile_ms(ascending: Sequence[float], fraction: float) -> float | None:
    """Return a quantile of durations in milliseconds; None if there are none."""
    if not ascending:
        return None
    return ascending[min(len(ascending) - 1, int(len(ascending) * fraction))] * 1000


class _Snapshot(Collector):
    """Hands metrics collected earlier to prometheus-client."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = list(families)

    def collect(self) -> Iterable[Metric]:
        """Return the metrics."""
        return self._families


def _replica_families(replica: LogState, num_away: int) -> Iterator[Metric]:
    """Yield the replication metrics of a host that shares a log with others."""
    rows = (
        (
            "facetd_replica_seq",
            "Entry of the log up to which this host has applied it.",
            replica.seq,
        ),
        (
            "facetd_replica_lag_seconds",
            "For how long this host may have lacked something; -1: since its start.",
            replica.lag_ms / 1000 if replica.lag_ms >= 0 else -1,
        ),
        ("facetd_log_up", "Whether the log can be written to.", int(replica.is_log_up)),
        ("facetd_log_servers", "Servers that store the log.", replica.num_replicas),
        ("facetd_log_servers_current", "Servers that have the whole log.", replica.num_current),
        (
            "facetd_replica_trouble",
            "Whether something keeps this host from applying the log.",
            int(bool(replica.trouble)),
        ),
        (
            "facetd_replica_compared_seq",
            "Entry at which hosts compared their contents last; 0: never.",
            replica.compared_seq,
        ),
        (
            "facetd_replica_compared_age_seconds",
            "Since hosts compared their contents; -1: never.",
            replica.compared_age_s,
        ),
        (
            "facetd_replica_equal",
            "Hosts that had the same contents then, this one included.",
            replica.num_equal,
        ),
        (
            "facetd_replica_differs",
            "Whether hosts had different contents then.",
            int(bool(replica.difference)),
        ),
        ("facetd_replica_hosts_away", "Hosts that do not answer any more.", num_away),
    )
    for name, text, value in rows:
        yield GaugeMetricFamily(name, text, value=value)


def _shard_families(shards: Sequence[ProcessStatistics | None]) -> Iterator[Metric]:
    """Yield the metrics of the shards' processes; None: a shard that is down."""
    up = GaugeMetricFamily("facetd_shard_up", "Whether the shard serves.", labels=("shard",))
    shard_gauges = {
        "queue_length": GaugeMetricFamily(
            "facetd_shard_queue_length", "Calls that wait in the shard.", labels=("shard",)
        ),
        "resident_bytes": GaugeMetricFamily(
            "facetd_shard_resident_bytes", "Memory of the shard process.", labels=("shard",)
        ),
        "allocated_bytes": GaugeMetricFamily(
            "facetd_shard_allocated_bytes", _ALLOCATED_BYTES, labels=("shard",)
        ),
        "python_blocks": GaugeMetricFamily(
            "facetd_shard_python_blocks", _PYTHON_BLOCKS, labels=("shard",)
        ),
        "num_corrupt": GaugeMetricFamily(
            "facetd_shard_corrupt_items", "Items found damaged.", labels=("shard",)
        ),
    }
    caches = GaugeMetricFamily(
        "facetd_shard_cache_bytes",
        "What searches keep of what they derived from segments.",
        labels=("cache", "shard"),
    )
    for shard, process in enumerate(shards):
        up.add_metric((str(shard),), 0 if process is None else 1)
        if process is None:
            continue
        for name, gauge in shard_gauges.items():
            gauge.add_metric((str(shard),), getattr(process, name))
        for cache, num_bytes in process.cache_bytes.items():
            caches.add_metric((cache, str(shard)), num_bytes)
    yield up
    yield from shard_gauges.values()
    yield caches


def _index_families(
    shards: Sequence[ProcessStatistics | None], index_names: Mapping[int, str]
) -> Iterator[Metric]:
    """Yield the metrics of each index on each shard that is up."""
    labels = ("index", "shard")
    families: dict[str, GaugeMetricFamily | CounterMetricFamily] = {
        "num_docs": GaugeMetricFamily("facetd_index_items", "Live items.", labels=labels),
        "bytes_on_disk": GaugeMetricFamily("facetd_index_bytes", "Bytes on disk.", labels=labels),
        "num_segments": GaugeMetricFamily("facetd_index_segments", "Segments.", labels=labels),
        "is_merging": GaugeMetricFamily(
            "facetd_index_merging", "Whether a merge is running.", labels=labels
        ),
        "map_bytes_used": GaugeMetricFamily(
            "facetd_map_used_bytes", "LMDB map in use.", labels=labels
        ),
        "num_merges": CounterMetricFamily(
            "facetd_index_merges", "Merges done since the index was opened.", labels=labels
        ),
        "merging_us": CounterMetricFamily(
            "facetd_index_merge_seconds", "Seconds spent merging since then.", labels=labels
        ),
        "map_bytes_max": GaugeMetricFamily(
            "facetd_map_max_bytes", "LMDB map limit.", labels=labels
        ),
        "map_readers": GaugeMetricFamily(
            "facetd_map_readers", "Slots of LMDB's reader table ever taken.", labels=labels
        ),
    }
    for shard, process in enumerate(shards):
        if process is None:
            continue
        for number, index in process.indexes:
            if number not in index_names:
                continue  # being created or deleted; the number may have no name yet
            where = (index_names[number], str(shard))
            values: dict[str, Any] = {
                name: getattr(index, name) for name in families if name != "num_segments"
            }
            values["num_segments"] = len(index.segments)
            values["merging_us"] = index.merging_us / 1e6
            for name, value in values.items():
                families[name].add_metric(where, float(value))
    yield from families.values()


class SlowQueries:
    """Logs searches slower than the setting, and keeps the latest.

    Args:
        threshold_ms: 0 disables it.
    """

    def __init__(self, threshold_ms: int) -> None:
        self.threshold_us = threshold_ms * 1000
        self.latest: deque[dict[str, Any]] = deque(maxlen=SLOW_QUERIES_KEPT)

    def is_slow(self, total_us: int) -> bool:
        """Return whether a search that took this many microseconds is slow."""
        return 0 < self.threshold_us <= total_us

    def take_latest(self) -> list[dict[str, Any]]:
        """Return the latest, and forget them."""
        latest = list(self.latest)
        self.latest.clear()
        return latest

    def note(
        self,
        index: str,
        request: Mapping[str, Any],
        request_id: str,
        total_us: int,
        result: SearchResult,
    ) -> None:
        """Record one slow search.

        Args:
            index: the index searched.
            request: its parameters, as sent.
            request_id: of the request.
            total_us: microseconds of the whole request.
            result: its phases and total.
        """
        timings = result.timings
        event = {
            "at": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "index": index,
            "took_ms": total_us / 1000,
            "phases_ms": {
                "search": timings.search_us / 1000,
                "facets": timings.facets_us / 1000,
                "sort": timings.sort_us / 1000,
            },
            "total": result.total,
            "request_id": request_id,
            "request": dict(request),
        }
        self.latest.append(event)
        text = orjson.dumps(event["request"], default=str)[:REQUEST_BYTES_LOGGED]
        _log.warning("slow query", **{**event, "request": text.decode("utf-8", "replace")})
