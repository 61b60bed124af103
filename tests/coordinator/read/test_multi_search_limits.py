"""Many searches of one request: bounded together, a few at a time, the first failure ends them."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest

from common.deadline import Deadline
from common.errors import DeadlineExceeded, InvalidRequest, NotFound
from common.index_configuration_parser import parse_configuration
from common.limits import Limits
from coordinator.parameters.request_parsing import parse_search
from coordinator.read.multi_search_limits import SEARCHES_AT_ONCE, CostSum, run_fairly

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


async def test_a_few_at_a_time_and_results_in_their_order() -> None:
    running = most = 0

    async def search(i: int) -> int:
        nonlocal running, most
        running += 1
        most = max(most, running)
        for _ in range(7 - i % 7):
            await asyncio.sleep(0)
        running -= 1
        return i

    searches = [partial(search, i) for i in range(20)]
    assert await run_fairly(searches, Deadline.after_ms(60_000)) == list(range(20))
    assert most == SEARCHES_AT_ONCE


async def test_the_first_failure_in_their_order_counts_and_ends_the_rest() -> None:
    begun = []

    async def search(i: int) -> None:
        begun.append(i)
        if i in (1, 2):
            if i == 1:
                await asyncio.sleep(0)
            raise NotFound(f"search {i}")
        await asyncio.sleep(0)

    with pytest.raises(NotFound, match="search 1"):
        await run_fairly([partial(search, i) for i in range(20)], Deadline.after_ms(60_000))
    assert begun == list(range(SEARCHES_AT_ONCE))


async def test_all_of_them_have_one_deadline() -> None:
    async def search() -> None:
        await asyncio.Event().wait()

    with pytest.raises(DeadlineExceeded, match="0 of 3 searches"):
        await run_fairly([search] * 3, Deadline.after_ms(1))
