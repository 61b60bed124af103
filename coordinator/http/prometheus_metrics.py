"""Metrics for operators, in Prometheus' text format.

    facetd_http_requests_total{route,status}           counter
    facetd_http_request_seconds{route}                 histogram, whole request
    facetd_search_phase_seconds{phase}                 histogram, of the slowest shard
    facetd_slow_queries_total                          counter
    facetd_result_cache_bytes, facetd_result_cache_lookups_total{outcome}
    facetd_requests_in_flight, facetd_body_bytes_in_flight, facetd_connections
    facetd_allocated_bytes, facetd_python_blocks       steady growth means a leak
    facetd_writes_waiting, facetd_states_in_use, facetd_start_time_seconds, facetd_build_info
    facetd_reader_resident_bytes{pid} …_cpu_seconds    with several coordinators
    facetd_disk_free_bytes, facetd_disk_size_bytes     of the data directory's disk
    facetd_shard_up{shard} …_starts_total …_calls_in_flight …_queue_length …_resident_bytes
    facetd_shard_corrupt_items{shard} …_allocated_bytes …_python_blocks
    facetd_shard_cache_bytes{cache,shard}
    facetd_index_items{index,shard} …_bytes …_segments …_merging …_merges_total
    facetd_index_merge_seconds_total{index,shard}
    facetd_map_used_bytes{index,shard} …_max_bytes …_readers
    process_*                                          of the coordinator

The objects of prometheus-client take several microseconds for labels and locks, so they only format
the numbers of `metrics` as text, when metrics are scraped; those of indexes, of which there may be
thousands, are written without them. The shards are asked for their own numbers only then, too.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from common.process.glibc_malloc import allocated
from coordinator.catalog.catalog import program_version
from coordinator.http.metrics import PHASES, Counts, Metrics, ProcessUse, cumulative

if TYPE_CHECKING:
    from common.protocol.messages import IndexStatisticsResponse, ProcessStatistics
    from coordinator.read.result_cache import ResultCache
    from coordinator.replication.peers.host_and_log_status import HostStatus

_ALLOCATED_BYTES: Final = "Memory in use, without what the allocator has free."
_PYTHON_BLOCKS: Final = "Small Python objects in use."


class ShardConnection(NamedTuple):
    """What a coordinator knows of a shard without asking it."""

    num_in_flight: int
    """Calls sent to it without a response yet."""
    num_starts: int
    """Times that it came to serve."""


class WorkInProgress(NamedTuple):
    """Calls and writes that are waiting, and states in use, at this moment."""

    shards: Sequence[ShardConnection]
    """By ordinal."""
    writes: int
    """Batches that are not in a group yet."""
    states: int
    """States of indexes, kept for running requests, exports and cursors."""


def exposition(
    ours: Sequence[Metric],
    data: Path,
    shards: Sequence[ProcessStatistics | None],
    index_names: Mapping[int, str],
) -> bytes:
    """Return everything in Prometheus' text format.

    Cost: 4 µs for each index on each shard, so thousands of indexes take a thread.

    Args:
        ours: the metrics of this coordinator, as `coordinator_families` returns them.
        data: the data directory.
        shards: statistics of each shard, None for one that is down.
        index_names: index names by number.
    """
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    registry.register(_Snapshot((*ours, *_disk_families(data), *_shard_families(shards))))
    return generate_latest(registry) + "".join(_index_lines(shards, index_names)).encode()


def coordinator_families(
    metrics: Metrics,
    waiting: WorkInProgress,
    results: ResultCache,
    replica: HostStatus | None = None,
    num_away: int = 0,
) -> list[Metric]:
    """Return this coordinator's metrics as of now.

    Args:
        metrics: of this coordinator.
        waiting: work in progress.
        results: the result cache.
        replica: this host as one of several.
        num_away: other hosts that no longer answer.
    """
    return [
        *_coordinator_families(metrics, waiting, results),
        *(_replica_families(replica, num_away) if replica is not None else ()),
    ]


def _coordinator_families(
    metrics: Metrics, waiting: WorkInProgress, results: ResultCache
) -> Iterator[Metric]:
    """Yield the coordinator's metrics."""
    total = metrics.counts_of_all(waiting.states, results)
    yield from _request_families(total)
    yield from _state_families(total, waiting, metrics.started)
    yield from _search_families(total)
    calls = GaugeMetricFamily(
        "facetd_shard_calls_in_flight",
        "Calls sent to the shard and not answered yet.",
        labels=("shard",),
    )
    starts = CounterMetricFamily(
        "facetd_shard_starts",
        "Times that the shard came to serve since the coordinator started.",
        labels=("shard",),
    )
    for shard, connection in enumerate(waiting.shards):
        calls.add_metric((str(shard),), connection.num_in_flight)
        starts.add_metric((str(shard),), connection.num_starts)
    yield calls
    yield starts
    build = GaugeMetricFamily(
        "facetd_build_info", "Always 1; the labels say what runs.", labels=("version",)
    )
    build.add_metric((program_version(),), 1)
    yield build
    if metrics.processes is not None:
        yield from _process_families(metrics.processes())


def _request_families(total: Counts) -> Iterator[Metric]:
    """Yield what is counted of all requests, and the phases of searches."""
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


def _state_families(total: Counts, waiting: WorkInProgress, started: float) -> Iterator[Metric]:
    """Yield what is in progress, and the memory in use."""
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
        ("facetd_start_time_seconds", "When the coordinator started.", started),
        ("facetd_allocated_bytes", _ALLOCATED_BYTES, in_use.num_bytes),
        ("facetd_python_blocks", _PYTHON_BLOCKS, in_use.num_blocks),
    ):
        yield GaugeMetricFamily(name, text, value=value)


def _disk_families(data: Path) -> Iterator[Metric]:
    """Yield how full a disk is; nothing of one that cannot be asked."""
    try:
        disk = os.statvfs(data)
    except OSError:
        return
    for name, text, blocks in (
        ("facetd_disk_free_bytes", "Room on the data directory's disk.", disk.f_bavail),
        ("facetd_disk_size_bytes", "Size of that disk.", disk.f_blocks),
    ):
        yield GaugeMetricFamily(name, text, value=blocks * disk.f_frsize)


def _search_families(total: Counts) -> Iterator[Metric]:
    """Yield the metrics of the result cache and of slow searches."""
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


class _Snapshot(Collector):
    """Hands metrics collected earlier to prometheus-client."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = list(families)

    def collect(self) -> Iterable[Metric]:
        """Return the metrics."""
        return self._families


def _replica_families(replica: HostStatus, num_away: int) -> Iterator[Metric]:
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


class _IndexFamily(NamedTuple):
    """A metric that each index has on each shard."""

    name: str
    kind: str
    text: str
    value: Callable[[IndexStatisticsResponse], float]


_INDEX_FAMILIES: Final = (
    _IndexFamily("facetd_index_items", "gauge", "Live items.", lambda one: one.num_docs),
    _IndexFamily("facetd_index_bytes", "gauge", "Bytes on disk.", lambda one: one.bytes_on_disk),
    _IndexFamily("facetd_index_segments", "gauge", "Segments.", lambda one: len(one.segments)),
    _IndexFamily(
        "facetd_index_merging", "gauge", "Whether a merge is running.", lambda one: one.is_merging
    ),
    _IndexFamily(
        "facetd_map_used_bytes", "gauge", "LMDB map in use.", lambda one: one.map_bytes_used
    ),
    _IndexFamily(
        "facetd_index_merges_total",
        "counter",
        "Merges done since the index was opened.",
        lambda one: one.num_merges,
    ),
    _IndexFamily(
        "facetd_index_merge_seconds_total",
        "counter",
        "Seconds spent merging since then.",
        lambda one: one.merging_us / 1e6,
    ),
    _IndexFamily("facetd_map_max_bytes", "gauge", "LMDB map limit.", lambda one: one.map_bytes_max),
    _IndexFamily(
        "facetd_map_readers",
        "gauge",
        "Slots of LMDB's reader table ever taken.",
        lambda one: one.map_readers,
    ),
)


def _index_lines(
    shards: Sequence[ProcessStatistics | None], index_names: Mapping[int, str]
) -> Iterator[str]:
    """Yield the metrics of each index on each shard that is up, as text."""
    labels = {
        number: name.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
        for number, name in index_names.items()
    }
    # An index without a name is being created or deleted.
    rows = [
        (f'{{index="{labels[number]}",shard="{shard}"}}', index)
        for shard, process in enumerate(shards)
        if process is not None
        for number, index in process.indexes
        if number in labels
    ]
    for name, kind, text, value in _INDEX_FAMILIES:
        yield f"# HELP {name} {text}\n# TYPE {name} {kind}\n"
        for where, index in rows:
            yield f"{name}{where} {float(value(index))}\n"
