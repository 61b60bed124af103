"""Which facets are listed off the event loop."""

from __future__ import annotations

from unittest.mock import Mock

import numpy as np

from common.configuration_parser import parse_configuration
from common.limits import Limits
from coordinator.cluster.cache_budget import CacheBudget
from coordinator.parameters.parse import SearchParameters
from coordinator.parameters.typed import BucketOrder, FacetSpec, FacetSummary
from coordinator.read.facets.memory import FacetMemory, FacetTotals
from coordinator.read.facets.merged_counts import MergedCounts
from coordinator.read.facets.merged_facets import num_values_to_list
from coordinator.read.facets.plan import FacetPlan

NUM_VALUES = 1_000
CONFIGURATION, _ = parse_configuration({"aggregations": {"tags": {"size": 7}}}, Limits())


def test_known_counts_are_looked_at_unless_their_page_is_cached() -> None:
    memory = FacetMemory(Mock(num_shards=1), CacheBudget())
    counts = np.ones(NUM_VALUES, np.int64)
    totals = FacetTotals(5, MergedCounts(counts, np.zeros(0, np.uint32), -1, lambda: None), 10)
    plan = FacetPlan((), {"tags": totals}, True)
    order = BucketOrder()
    facet = CONFIGURATION.facets["tags"]

    def num(spec: FacetSpec, **selected: frozenset[str]) -> int:
        parameters = SearchParameters(facets=(spec,), selected=selected)
        return num_values_to_list(parameters, plan, memory)

    plain, searched = FacetSpec(facet, order), FacetSpec(facet, order, "x")
    summed_up = FacetSpec(facet, order, summary=FacetSummary(percentiles=(50.0,)))
    assert num(plain) == num(summed_up) == NUM_VALUES
    memory.remember_page(5, ("tags", order, 0, 7), [])
    assert num(plain) == 0
    assert num(searched) == num(summed_up) == num(plain, tags=frozenset("a")) == NUM_VALUES
    assert num_values_to_list(SearchParameters(), FacetPlan((), {}, True), memory) == 0
