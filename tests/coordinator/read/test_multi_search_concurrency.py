"""Many searches of one request: a few at a time, the first failure ends them."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest

from common.deadline import Deadline
from common.errors import DeadlineExceeded, NotFound
from coordinator.read.multi_search_concurrency import SEARCHES_AT_ONCE, run_fairly


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
