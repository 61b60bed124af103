"""Metrics of a working service, parsed by Prometheus' own parser: complete, growing, escaped."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any
from urllib.parse import quote

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.cluster.conftest import Services
from tests.service import Client

FAMILIES = {
    # requests by route and status, latency by route and phase
    "facetd_http_requests": "counter",
    "facetd_http_request_seconds": "histogram",
    "facetd_search_phase_seconds": "histogram",
    "facetd_slow_queries": "counter",
    # what is under way
    "facetd_requests_in_flight": "gauge",
    "facetd_body_bytes_in_flight": "gauge",
    "facetd_connections": "gauge",
    "facetd_writes_waiting": "gauge",
    "facetd_states_in_use": "gauge",
    "facetd_disk_free_bytes": "gauge",
    "facetd_disk_size_bytes": "gauge",
    "facetd_shard_up": "gauge",
    "facetd_shard_starts": "counter",
    "facetd_shard_calls_in_flight": "gauge",
    "facetd_shard_queue_length": "gauge",
    # indexes
    "facetd_index_items": "gauge",
    "facetd_index_bytes": "gauge",
    "facetd_index_segments": "gauge",
    "facetd_index_merging": "gauge",
    "facetd_index_merges": "counter",
    "facetd_index_merge_seconds": "counter",
    "facetd_map_used_bytes": "gauge",
    "facetd_map_max_bytes": "gauge",
    "facetd_map_readers": "gauge",
    # caches and memory
    "facetd_result_cache_bytes": "gauge",
    "facetd_result_cache_lookups": "counter",
    "facetd_shard_cache_bytes": "gauge",
    "facetd_shard_resident_bytes": "gauge",
    "facetd_shard_corrupt_items": "gauge",
    "facetd_allocated_bytes": "gauge",
    "facetd_python_blocks": "gauge",
    "facetd_shard_allocated_bytes": "gauge",
    "facetd_shard_python_blocks": "gauge",
    "process_resident_memory_bytes": "gauge",
    "process_open_fds": "gauge",
    "process_cpu_seconds": "counter",
    "facetd_start_time_seconds": "gauge",
    "facetd_build_info": "gauge",
}
REPLICA_FAMILIES = {
    "facetd_replica_seq",
    "facetd_replica_lag_seconds",
    "facetd_replica_trouble",
    "facetd_replica_compared_seq",
    "facetd_replica_compared_age_seconds",
    "facetd_replica_equal",
    "facetd_replica_differs",
    "facetd_replica_hosts_away",
    "facetd_log_up",
    "facetd_log_servers",
    "facetd_log_servers_current",
}
"""Only where several hosts share a log."""
HOSTILE_NAMES = ['quote"d', "back\\slash", 'x",shard="0"} 7 #', "{} é 漢 😀", "1\\n2", "7"]

Series = tuple[str, frozenset[tuple[str, str]]]


class Scrape:
    """One answer of `/_metrics`, checked as a whole.

    Attributes:
        types: by family.
        values: by name and labels of a sample.
        growing: names of samples that may never become less.
    """

    def __init__(self, client: Client) -> None:
        reply = client.get("/_metrics")
        assert reply.status == 200
        assert reply.headers["content-type"].startswith("text/plain; version=0.0.4")
        self.types: dict[str, str] = {}
        self.values: dict[Series, float] = {}
        self.growing: set[str] = set()
        for family in text_string_to_metric_families(reply.body.decode()):
            assert family.name not in self.types, f"{family.name} comes twice"
            assert family.documentation, family.name
            self.types[family.name] = family.type
            for sample in family.samples:
                series = (sample.name, frozenset(sample.labels.items()))
                assert series not in self.values, f"{series} comes twice: no scrape would be taken"
                assert math.isfinite(sample.value), series
                self.values[series] = sample.value
                if family.type in ("counter", "histogram"):
                    self.growing.add(sample.name)
        self._check_histograms()

    def __call__(self, name: str, **labels: str) -> float:
        return self.values[name, frozenset(labels.items())]

    def labels(self, name: str, label: str) -> set[str]:
        return {dict(labels)[label] for one, labels in self.values if one == name}

    def _check_histograms(self) -> None:
        """Buckets are cumulative, and the last one is the count."""
        for name, kind in self.types.items():
            if kind != "histogram":
                continue
            buckets: dict[frozenset[tuple[str, str]], list[tuple[float, float]]] = {}
            for (sample, labels), value in self.values.items():
                if sample == f"{name}_bucket":
                    bound = float(dict(labels)["le"])
                    rest = frozenset(pair for pair in labels if pair[0] != "le")
                    buckets.setdefault(rest, []).append((bound, value))
            assert buckets, name
            for labels, rows in buckets.items():
                counts = [count for _, count in sorted(rows)]
                assert counts == sorted(counts), (name, labels)
                assert max(rows)[0] == math.inf
                assert counts[-1] == self.values[f"{name}_count", labels]
                assert self.values[f"{name}_sum", labels] >= 0


@contextmanager
def indexes(client: Client, names: list[str]) -> Iterator[None]:
    for name in names:
        path = "/" + quote(name, safe="")
        document: dict[str, Any] = {"aggregations": {"k": {}}}
        assert client.post(f"{path}/configuration", document).status == 200, name
        items = [{"id": i, "k": f"k{i % 5}", "name": f"sea {i}"} for i in range(20)]
        assert client.post(f"{path}/items", items).status == 200
    try:
        yield
    finally:
        for name in names:
            client.delete("/" + quote(name, safe=""))


@pytest.mark.parametrize("num_shards", [2])
def test_metrics_are_whole_and_grow(services: Services, num_shards: int) -> None:
    service = services(num_shards)
    with closing(service.client()) as client, indexes(client, HOSTILE_NAMES):
        work(client)
        first = Scrape(client)
        work(client)
        second = Scrape(client)

    assert FAMILIES.items() <= first.types.items()
    fallen = {
        series: (value, second.values.get(series))
        for series, value in first.values.items()
        if series[0] in first.growing and second.values.get(series, -1.0) < value
    }
    assert not fallen

    for name in HOSTILE_NAMES:
        items = [first("facetd_index_items", index=name, shard=str(i)) for i in range(num_shards)]
        assert sum(items) == 20, name
        assert first("facetd_map_used_bytes", index=name, shard="0") > 0
    shards = {str(shard) for shard in range(num_shards)}
    assert first.labels("facetd_index_items", "shard") == shards
    assert all(first("facetd_shard_up", shard=shard) == 1 for shard in shards)
    assert all(first("facetd_shard_starts_total", shard=shard) >= 1 for shard in shards)
    assert 0 < first("facetd_disk_free_bytes") < first("facetd_disk_size_bytes")
    assert all(first("facetd_shard_resident_bytes", shard=shard) > 1 << 20 for shard in shards)

    def grown(name: str, **labels: str) -> float:
        return second(name, **labels) - first(name, **labels)

    search = "POST /{index}/search"
    assert grown("facetd_http_requests_total", route=search, status="200") == len(HOSTILE_NAMES)
    assert grown("facetd_http_requests_total", route=search, status="400") == 1
    assert grown("facetd_http_requests_total", route="none", status="404") == 1
    assert grown("facetd_http_request_seconds_count", route=search) == len(HOSTILE_NAMES) + 1
    for phase in ("search", "facets", "sort"):
        count = grown("facetd_search_phase_seconds_count", phase=phase)
        assert count == len(HOSTILE_NAMES)
    assert grown("facetd_search_phase_seconds_sum", phase="search") > 0


def work(client: Client) -> None:
    """Do something of everything."""
    for name in HOSTILE_NAMES:
        path = "/" + quote(name, safe="")
        assert client.post(f"{path}/search", {"query": "sea"}).status == 200
        assert client.post(f"{path}/items", [{"id": 3, "name": "sea 3"}]).status == 200
    assert client.post(f"{path}/search", {"page": 0}).status == 400
    assert client.get("/a/b/c/d/e").status == 404
