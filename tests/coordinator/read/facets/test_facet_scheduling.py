"""Which facets are listed off the event loop."""

from __future__ import annotations

import threading
from array import array
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

from common.analysis.analyzer import Analyzer
from common.deadline import Deadline
from common.index_configuration_parser import parse_configuration
from common.key_arena import KeyArena
from common.limits import Limits
from common.process.cooperative_scheduler import LoopScheduler
from common.protocol.messages import RangeCounts
from common.protocol.packed_counts import EVERY
from coordinator.cluster.cache_budget_across_indexes import CacheBudget
from coordinator.cluster.searched_state import SearchedState
from coordinator.parameters.facet_specs import BucketOrder, FacetSpec, FacetSummary
from coordinator.parameters.parsed_parameters import SearchParameters
from coordinator.read.facets import facet_scheduling
from coordinator.read.facets.facet_cache import FacetCache, FacetTotals
from coordinator.read.facets.facet_count_plan import CountedFacets, FacetPlan
from coordinator.read.facets.facet_result_assembly import num_values_to_list
from coordinator.read.facets.facet_scheduling import FacetListing
from coordinator.read.facets.facet_value_search import accept_keys
from coordinator.read.facets.summed_counts import MergedCounts

NUM_VALUES = 1_000
CONFIGURATION, _ = parse_configuration({"aggregations": {"tags": {"size": 7}}}, Limits())


def test_known_counts_are_looked_at_unless_their_page_is_cached() -> None:
    cache = FacetCache(Mock(num_shards=1), CacheBudget())
    counts = np.ones(NUM_VALUES, np.int64)
    totals = FacetTotals(5, MergedCounts(counts, np.zeros(0, np.uint32), -1, lambda: None), 10)
    plan = FacetPlan((), {"tags": totals}, True)
    order = BucketOrder()
    facet = CONFIGURATION.facets["tags"]

    def num(spec: FacetSpec, **selected: frozenset[str]) -> int:
        parameters = SearchParameters(facets=(spec,), selected=selected)
        return num_values_to_list(parameters, plan, cache)

    plain, searched = FacetSpec(facet, order), FacetSpec(facet, order, "x")
    summed_up = FacetSpec(facet, order, summary=FacetSummary(percentiles=(50.0,)))
    assert num(plain) == num(summed_up) == NUM_VALUES
    cache.remember_page(5, ("tags", order, 0, 7), [])
    assert num(plain) == 0
    assert num(searched) == num(summed_up) == num(plain, tags=frozenset("a")) == NUM_VALUES
    assert num_values_to_list(SearchParameters(), FacetPlan((), {}, True), cache) == 0


class _WatchedAnalyzer(Analyzer):
    """Notes on which threads its buffers are used."""

    def __init__(self) -> None:
        super().__init__()
        self.threads: set[threading.Thread] = set()

    def _cut(self, encoded: bytes, is_indexing: bool = False) -> Iterator[int]:
        self.threads.add(threading.current_thread())
        return super()._cut(encoded, is_indexing)


@pytest.mark.parametrize("is_long", [False, True])
async def test_a_thread_that_lists_facets_leaves_the_analyzer_of_the_event_loop_alone(
    monkeypatch: pytest.MonkeyPatch, is_long: bool
) -> None:
    """Two threads in its buffers would cut each other's words."""
    monkeypatch.setattr(facet_scheduling, "KEYS_SEARCHED_FAST_MAX", 0 if is_long else 10)
    analyzer = _WatchedAnalyzer()
    part = RangeCounts("tags", ("Drama", "Comédie"), array("I", [3, 2]).tobytes())
    answer: Any = SimpleNamespace(ranges=[part], facets=(), facet_counts=b"")
    spec = FacetSpec(CONFIGURATION.facets["tags"], BucketOrder(), "comé")
    state = SearchedState(Mock(number=1), 5, 0, Deadline.after_ms(10_000))
    cache = FacetCache(Mock(num_shards=1), CacheBudget())
    counted = CountedFacets(FacetPlan((), {}, True), cache, [(0, answer)], [], state)

    (facet,) = await FacetListing(Mock(num_shards=1), analyzer, LoopScheduler()).listed(
        SearchParameters(field_facets=(spec,)), counted
    )

    assert [bucket.key for bucket in facet.buckets] == ["Comédie"]
    assert analyzer.threads == (set() if is_long else {threading.main_thread()})


@pytest.mark.parametrize("is_long", [False, True])
async def test_many_values_are_searched_on_a_thread(
    monkeypatch: pytest.MonkeyPatch, is_long: bool
) -> None:
    """The kernels that read them let the event loop run."""
    monkeypatch.setattr(facet_scheduling, "KEYS_SEARCHED_FAST_MAX", 1 if is_long else 2)
    threads: list[threading.Thread] = []

    def noting(*values: Any, **options: Any) -> Any:
        threads.append(threading.current_thread())
        return accept_keys(*values, **options)

    monkeypatch.setattr(facet_scheduling, "accept_keys", noting)
    analyzer = _WatchedAnalyzer()
    cache = FacetCache(Mock(num_shards=1), CacheBudget())
    cache.values("tags").extend(0, 1, 0, KeyArena.of(["Drama", "Comédie"]))
    totals = FacetTotals(
        5, MergedCounts(np.array([3, 2]), np.zeros(0, np.uint32), EVERY, lambda: None), 10
    )
    state = SearchedState(Mock(number=1), 5, 0, Deadline.after_ms(10_000))
    counted = CountedFacets(FacetPlan((), {"tags": totals}, True), cache, [], [], state)
    spec = FacetSpec(CONFIGURATION.facets["tags"], BucketOrder(), "comé")

    (facet,) = await FacetListing(Mock(num_shards=1), analyzer, LoopScheduler()).listed(
        SearchParameters(facets=(spec,)), counted
    )

    assert [bucket.key for bucket in facet.buckets] == ["Comédie"]
    (thread,) = threads
    assert (thread is threading.main_thread()) == (not is_long)
    assert analyzer.threads == (set() if is_long else {threading.main_thread()})
