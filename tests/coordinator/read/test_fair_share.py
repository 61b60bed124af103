"""An index that sends many searches at once leaves room for those of the others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from common.deadline import NEVER, Deadline
from common.errors import DeadlineExceeded
from coordinator.read import fair_share
from coordinator.read.fair_share import FairShare

RUNNING_MAX = 3


class Searches:
    """Searches that run until they are told to end."""

    def __init__(self) -> None:
        self.share = FairShare(RUNNING_MAX)
        self.running: list[tuple[int, asyncio.Event]] = []
        self.tasks: list[asyncio.Task[str]] = []

    async def begin(self, index: int, count: int = 1, deadline: Deadline = NEVER) -> None:
        for _ in range(count):
            self.tasks.append(
                asyncio.create_task(self.share.run(index, deadline, lambda: self._search(index)))
            )
        await self.settle()

    async def _search(self, index: int) -> str:
        end = asyncio.Event()
        self.running.append((index, end))
        try:
            await end.wait()
        finally:
            self.running.remove((index, end))
        return "done"

    async def end(self, index: int) -> None:
        next(end for one, end in self.running if one == index).set()
        await self.settle()

    async def settle(self) -> None:
        for _ in range(5):
            await asyncio.sleep(0)

    def num_running(self, index: int) -> int:
        return sum(one == index for one, _ in self.running)


@pytest.fixture
async def searches(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Searches]:
    monkeypatch.setattr(fair_share, "RECENT_SECONDS", 1e9)  # until a test says otherwise
    searches = Searches()
    yield searches
    for task in searches.tasks:
        task.cancel()
    await asyncio.gather(*searches.tasks, return_exceptions=True)


async def test_an_index_alone_has_no_limit(searches: Searches) -> None:
    await searches.begin(1, 16)
    assert searches.num_running(1) == 16


async def test_where_there_are_others_each_has_its_share(searches: Searches) -> None:
    await searches.begin(1, 16)
    await searches.begin(2)
    assert searches.num_running(2) == 1
    await searches.begin(1, 5)
    assert searches.share.num_waiting == 5
    for _ in range(16 - RUNNING_MAX):
        await searches.end(1)
    assert (searches.num_running(1), searches.share.num_waiting) == (RUNNING_MAX, 5)
    await searches.end(1)
    assert (searches.num_running(1), searches.share.num_waiting) == (RUNNING_MAX, 4)
    # The other index ends one and sends the next: it was never forgotten meanwhile.
    await searches.end(2)
    await searches.begin(1)
    assert searches.share.num_waiting == 5
    await searches.begin(2, RUNNING_MAX)
    assert searches.num_running(2) == RUNNING_MAX


async def test_an_index_is_alone_again_once_the_others_are_silent(
    searches: Searches, monkeypatch: pytest.MonkeyPatch
) -> None:
    await searches.begin(2)
    await searches.begin(1, 10)
    assert (searches.num_running(1), searches.share.num_waiting) == (
        RUNNING_MAX,
        10 - RUNNING_MAX,
    )
    await searches.end(2)
    monkeypatch.setattr(fair_share, "RECENT_SECONDS", 0.0)
    await searches.end(1)
    assert (searches.num_running(1), searches.share.num_waiting) == (9, 0)


async def test_a_search_that_waits_too_long_fails(searches: Searches) -> None:
    await searches.begin(2)
    await searches.begin(1, RUNNING_MAX)
    began: list[bool] = []

    async def search() -> None:
        began.append(True)

    with pytest.raises(DeadlineExceeded, match="other searches of the index"):
        await searches.share.run(1, Deadline.after_ms(1), search)
    assert (began, searches.share.num_waiting) == ([], 0)
    for _ in range(RUNNING_MAX):
        await searches.end(1)
    await searches.begin(1)
    assert searches.num_running(1) == 1


async def test_a_search_that_gives_up_frees_its_place(searches: Searches) -> None:
    await searches.begin(2)
    await searches.begin(1, RUNNING_MAX + 3)
    waiting = searches.tasks[-3:]
    waiting[0].cancel()
    await searches.settle()
    assert searches.share.num_waiting == 2
    # One gets its place and is cancelled before it has begun: the next one gets that.
    next(end for one, end in searches.running if one == 1).set()
    for _ in range(9):
        if searches.share.num_waiting == 2:
            await asyncio.sleep(0)
    assert searches.share.num_waiting == 1
    waiting[1].cancel()
    await searches.settle()
    assert not waiting[2].done()
    assert (searches.num_running(1), searches.share.num_waiting) == (RUNNING_MAX, 0)


async def test_a_place_that_is_given_up_in_the_turn_in_which_another_ends(
    searches: Searches,
) -> None:
    await searches.begin(2)
    await searches.begin(1, RUNNING_MAX + 2)
    ending, given_up, next_one = searches.tasks[1], *searches.tasks[-2:]
    next(end for one, end in searches.running if one == 1).set()
    given_up.cancel()  # its place is cancelled now, and is left in the turn that ends the other
    await searches.settle()
    assert await ending == "done"
    assert not next_one.done()
    assert (searches.num_running(1), searches.share.num_waiting) == (RUNNING_MAX, 0)
    for _ in range(RUNNING_MAX):
        await searches.end(1)
    await searches.begin(1, RUNNING_MAX)
    assert searches.num_running(1) == RUNNING_MAX, "no place was lost"


async def test_a_search_that_fails_gives_its_place_back(searches: Searches) -> None:
    async def fail() -> None:
        raise ValueError("failed")

    await searches.begin(2)
    for _ in range(RUNNING_MAX + 1):
        with pytest.raises(ValueError, match="failed"):
            await searches.share.run(1, NEVER, fail)
