"""Many searches of one request: their cost is bounded together."""

from __future__ import annotations

import pytest

from common.errors import InvalidRequest
from common.index_configuration_parser import parse_configuration
from common.limits import Limits
from coordinator.parameters.request_parsing import parse_search
from coordinator.read.multi_search_limits import CostSum

CONFIGURATION = parse_configuration({"aggregations": {"a": {"size": 60}, "b": {"size": 40}}})[0]


def add(costs: CostSum, limits: Limits, **raw: object) -> None:
    costs.add(parse_search(raw, CONFIGURATION, limits))


def test_words_of_all_searches_are_bounded_together() -> None:
    limits = Limits(searches_words_max=20)
    costs = CostSum(limits)
    add(costs, limits, query="one two three")
    add(costs, limits, query="one two three four", typo=0)
    add(costs, limits, query="five")
    with pytest.raises(InvalidRequest, match=r"20 \(limit searches_words_max\)") as caught:
        add(costs, limits, query="six", typo=0)
    assert caught.value.code == "searches_too_costly"


def test_buckets_of_all_searches_are_bounded_together() -> None:
    limits = Limits(searches_buckets_max=160)
    costs = CostSum(limits)
    add(costs, limits)
    add(costs, limits, facet_fields=["a"])
    with pytest.raises(InvalidRequest, match=r"160 \(limit searches_buckets_max\)") as caught:
        add(costs, limits, facet_fields=["b"])
    assert caught.value.code == "searches_too_costly"


def test_joint_counts_cost_as_buckets_do() -> None:
    limits = Limits(searches_buckets_max=160)
    cube = {"field": "price", "edges": list(range(5))}
    costs = CostSum(limits)
    add(costs, limits, facet_fields=["a"], facet_cube=cube)
    with pytest.raises(InvalidRequest, match=r"160 \(limit searches_buckets_max\)"):
        add(costs, limits, facet_fields=["a"], facet_cube={"field": "price", "interval": 1})
