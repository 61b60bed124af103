"""Numbers for Prometheus and for people."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from common.errors import Unavailable
from common.protocol.messages import IndexStatisticsResponse, ProcessStatistics
from coordinator.analytics.search_analytics import ReaderAnalytics
from coordinator.http.metrics import RECENT_KEPT, Histogram, Metrics, cumulative
from coordinator.http.prometheus_metrics import (
    ShardConnection,
    WorkInProgress,
    coordinator_families,
    exposition,
)
from coordinator.http.reader_coordinator_reports import Reporter
from coordinator.http.slow_queries import SlowQueries
from coordinator.read.result_cache import ResultCache
from coordinator.read.search_results import SearchResult, ShardSummary, Timings


def result() -> SearchResult:
    return SearchResult(
        page=1,
        per_page=10,
        total=3,
        items=[],
        facets=[],
        ranges=[],
        seq=1,
        ignored_words=[],
        shards=ShardSummary(1, 1),
        timings=Timings(900, 300, 20_000, 0),
    )


def test_histogram_counts_up_to_and_including_each_bound() -> None:
    histogram = Histogram()
    for seconds in (0.0, 0.001, 0.0010001, 99.0):
        histogram.observe(seconds)

    rows = dict(cumulative(histogram.counts))

    assert (rows["0.0002"], rows["0.001"], rows["0.002"]) == (1.0, 2.0, 3.0)
    assert (rows["10.0"], rows["+Inf"]) == (3.0, 4.0)


def test_exposition_has_what_the_shards_say(tmp_path: Path) -> None:
    metrics = Metrics()
    metrics.route("GET /{index}/search").observe(200, 0.001)
    metrics.observe_search(result(), 1_000)
    metrics.num_slow = 2
    index = IndexStatisticsResponse(5, 6, 700, ({}, {}), (), True, 10, 20, 3, 4, 2_500_000)
    shard = ProcessStatistics(
        1, 2_000, 3, 4, True, ((7, index), (8, index), (9, index)), {"filters": 9}, 5, 6
    )

    waiting = WorkInProgress([ShardConnection(5, 2), ShardConnection(0, 0)], 6, 7)
    names = {7: 'fi"lms\n', 8: "9"}
    ours = coordinator_families(metrics, waiting, ResultCache(0))
    text = exposition(ours, tmp_path, [shard, None], names).decode()

    for line in (
        'facetd_http_requests_total{route="GET /{index}/search",status="200"} 1.0',
        'facetd_search_phase_seconds_bucket{le="0.02",phase="facets"} 1.0',
        'facetd_search_phase_seconds_bucket{le="0.01",phase="facets"} 0.0',
        'facetd_shard_up{shard="0"} 1.0',
        'facetd_shard_up{shard="1"} 0.0',
        'facetd_shard_queue_length{shard="0"} 3.0',
        'facetd_shard_corrupt_items{shard="0"} 4.0',
        'facetd_shard_allocated_bytes{shard="0"} 5.0',
        'facetd_shard_python_blocks{shard="0"} 6.0',
        'facetd_index_items{index="fi\\"lms\\n",shard="0"} 5.0',
        'facetd_index_segments{index="9",shard="0"} 2.0',
        'facetd_index_merging{index="9",shard="0"} 1.0',
        'facetd_map_max_bytes{index="9",shard="0"} 20.0',
        'facetd_map_readers{index="9",shard="0"} 3.0',
        'facetd_index_merges_total{index="9",shard="0"} 4.0',
        'facetd_index_merge_seconds_total{index="9",shard="0"} 2.5',
        'facetd_shard_cache_bytes{cache="filters",shard="0"} 9.0',
        'facetd_shard_calls_in_flight{shard="0"} 5.0',
        'facetd_shard_starts_total{shard="0"} 2.0',
        'facetd_shard_starts_total{shard="1"} 0.0',
        "facetd_writes_waiting 6.0",
        "facetd_states_in_use 7.0",
        "facetd_slow_queries_total 2.0",
    ):
        assert text.splitlines().count(line) == 1, "an index that the catalog lacks is left out"


def test_summary_is_about_the_last_seconds() -> None:
    metrics = Metrics()
    empty = metrics.summary()
    metrics.route("GET /_ready").observe(503, 0.001)
    for i in range(RECENT_KEPT + 10):
        metrics.route("GET /{index}/search").observe(200 if i else 500, 0.001)
        metrics.observe_search(result(), 1_000 + i)

    summary = metrics.summary()

    assert (empty["total"], empty["p50_ms"], empty["per_second"]) == (0, None, 0)
    assert (summary["total"], summary["errors"]) == (RECENT_KEPT + 10, 1)
    assert 1.0 < summary["p50_ms"] < summary["p99_ms"] < 6.0
    assert summary["per_second"] > RECENT_KEPT / 10


def test_slow_queries_are_off_at_zero_and_bounded() -> None:
    assert not SlowQueries(0).is_slow(10**9)
    slow = SlowQueries(5)
    assert [slow.is_slow(us) for us in (4_999, 5_000)] == [False, True]
    for i in range(500):
        slow.note("films", {"query": f"{i}"}, "r", 5_000, result())

    assert len(slow.latest) == 100
    assert slow.latest[-1]["request"] == {"query": "499"}
    assert slow.latest[-1]["phases_ms"]["facets"] == 20.0


class FullOutbox:
    """Refuses the first report."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.is_full = True

    async def report(self, report: bytes) -> None:
        if self.is_full:
            self.is_full = False
            raise Unavailable("full")
        self.sent.append(report)


async def test_counts_that_the_owner_did_not_take_are_sent_again(tmp_path: Path) -> None:
    metrics, outbox = Metrics(), FullOutbox()
    services: Any = SimpleNamespace(
        metrics=metrics,
        cluster=SimpleNamespace(horizons=SimpleNamespace(num_states_in_use=0)),
        results=ResultCache(0),
        analytics=ReaderAnalytics(tmp_path, 0, 1),
        slow_queries=SlowQueries(0),
    )
    reporter = Reporter(services, outbox)  # type: ignore[arg-type]
    metrics.route("GET /x").observe(200, 0.001)

    with pytest.raises(Unavailable):
        await reporter.report()
    await reporter.report()
    await reporter.report()  # nothing has changed

    assert len(outbox.sent) == 1
