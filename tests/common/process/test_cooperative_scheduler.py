"""The loop scheduler: lanes take turns, and the loop reads its sockets in between."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Generator
from functools import partial

import pytest

from common.process.cooperative_scheduler import (
    ALONE_SECONDS,
    TICK_SECONDS,
    LoopScheduler,
    run_to_completion,
)
from common.process.request_id_context import REQUEST_IDS


def be_busy() -> None:
    """Take longer than a turn may."""
    end = time.perf_counter() + TICK_SECONDS
    while time.perf_counter() < end:
        pass


class Steps:
    """Long steps that note their names, and what else the loop ran between them."""

    def __init__(self) -> None:
        self.scheduler = LoopScheduler()
        self.done: list[str] = []

    def run(self, name: str) -> str:
        be_busy()
        self.done.append(name)
        return name

    def named(self) -> list[str]:
        """Return the names that were noted."""
        return [one for one in self.done if one != "-"]

    async def take(self, lane: int, name: str) -> str:
        await self.scheduler.wait_turn(lane)
        return self.run(name)

    def later(self, lane: int, name: str) -> asyncio.Future[str]:
        return self.scheduler.run_later(lane, partial(self.run, name))

    async def note_for_ever(self) -> None:
        """Note every iteration of the loop."""
        while True:
            self.done.append("-")
            await asyncio.sleep(0)

    def note_every_iteration(self) -> None:
        """Stand for what arrives from sockets: one short event an iteration."""
        self.done.append("-")
        if len(self.scheduler):
            asyncio.get_running_loop().call_soon(self.note_every_iteration)


@pytest.mark.parametrize("way", ["take", "later"])
async def test_one_long_step_an_iteration_and_lanes_in_turn(way: str) -> None:
    steps = Steps()
    begin = getattr(steps, way)
    many = [asyncio.ensure_future(begin(1, "many")) for _ in range(10)]
    await asyncio.sleep(0)  # they wait, except possibly the first
    asyncio.get_running_loop().call_soon(steps.note_every_iteration)
    await asyncio.sleep(0)
    num_before = len(steps.named())
    assert await begin(2, "other") == "other"
    assert steps.named().index("other") - num_before <= 1, "lanes take turns"
    assert await asyncio.gather(*many) == ["many"] * 10
    joined = "".join({"many": "m", "other": "o", "-": "-"}[one] for one in steps.done)
    after = joined[joined.index("-") :]
    assert "mm" not in after, "two long steps without reading the sockets in between"


async def test_what_is_short_shares_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("common.process.cooperative_scheduler.TICK_SECONDS", 60.0)
    scheduler = LoopScheduler()
    outcomes = [scheduler.run_later(1, partial(int, i)) for i in range(100)]
    await asyncio.sleep(0)
    assert [one.result() for one in outcomes] == list(range(100))


async def test_time_is_over_once_a_step_has_taken_it_or_an_earlier_one_waits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scheduler = LoopScheduler()
    scheduler.begin_tick()
    be_busy()
    assert not scheduler.has_time(1)
    waiting = scheduler.run_later(1, int)
    monkeypatch.setattr("common.process.cooperative_scheduler.TICK_SECONDS", 60.0)
    scheduler.begin_tick()
    assert not scheduler.has_time(1), "it would overtake"
    assert scheduler.has_time(2)
    await waiting


async def test_a_lone_lane_has_more_time_but_not_past_what_waits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert ALONE_SECONDS > TICK_SECONDS
    scheduler = LoopScheduler()
    scheduler.begin_tick()
    be_busy()
    monkeypatch.setattr("common.process.cooperative_scheduler.ALONE_SECONDS", 60.0)
    assert not scheduler.has_time(1)
    assert scheduler.has_time(1, is_alone=True)
    monkeypatch.setattr("common.process.cooperative_scheduler.ALONE_SECONDS", TICK_SECONDS)
    assert not scheduler.has_time(1, is_alone=True), "even then time is over"
    waiting = scheduler.run_later(1, int)
    monkeypatch.setattr("common.process.cooperative_scheduler.ALONE_SECONDS", 60.0)
    assert not scheduler.has_time(1, is_alone=True), "it would overtake"
    await waiting


async def test_an_error_reaches_its_caller_and_later_steps_run() -> None:
    scheduler = LoopScheduler()
    failing = scheduler.run_later(1, partial(int, "x"))
    after = scheduler.run_later(1, int)
    with pytest.raises(ValueError, match="invalid literal"):
        await failing
    assert await after == 0


async def test_abandoned_steps_are_not_run() -> None:
    scheduler = LoopScheduler()
    run: list[int] = []
    given_up = scheduler.run_later(1, lambda: run.append(1))
    given_up.cancel()
    await scheduler.run_later(1, lambda: run.append(2))
    assert run == [2]
    assert not len(scheduler)


async def test_a_later_step_has_the_context_of_its_caller() -> None:
    scheduler = LoopScheduler()
    REQUEST_IDS.set(("mine",))
    outcome = scheduler.run_later(1, REQUEST_IDS.get)
    REQUEST_IDS.set(("another",))
    assert await outcome == ("mine",)


async def test_a_long_computation_lets_the_loop_read_its_sockets() -> None:
    steps = Steps()

    def computation() -> Generator[None, None, str]:
        for _ in range(5):
            steps.run("m")
            yield
        return "all"

    noting = asyncio.ensure_future(steps.note_for_ever())
    assert await steps.scheduler.run(1, computation()) == "all"
    noting.cancel()
    assert "mm" not in "".join(steps.done), "two long steps without reading the sockets in between"
    assert run_to_completion(computation()) == "all"


async def test_every_step_of_a_paced_coroutine_takes_a_turn() -> None:
    steps = Steps()

    async def several() -> str:
        for _ in range(4):
            steps.run("m")
            await asyncio.sleep(0)
        return "all"

    paced = [asyncio.ensure_future(steps.scheduler.run_coroutine(1, several())) for _ in range(5)]
    await asyncio.sleep(0)
    noting = asyncio.ensure_future(steps.note_for_ever())
    assert await asyncio.gather(*paced) == ["all"] * 5
    noting.cancel()
    joined = "".join(steps.done)
    assert joined.count("m") == 20
    assert "mm" not in joined[joined.index("-") :]


async def test_a_paced_coroutine_can_be_cancelled_and_can_fail() -> None:
    scheduler = LoopScheduler()
    ended: list[str] = []
    has_begun = asyncio.Event()

    async def waiting() -> None:
        has_begun.set()
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            ended.append("cancelled")

    async def failing() -> None:
        await asyncio.sleep(0)
        raise ValueError("mine")

    task = asyncio.ensure_future(scheduler.run_coroutine(1, waiting()))
    await has_begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended == ["cancelled"]
    with pytest.raises(ValueError, match="mine"):
        await scheduler.run_coroutine(1, failing())


async def test_what_is_short_runs_at_once_and_takes_no_turn() -> None:
    steps = Steps()

    def computation() -> Generator[None, None, str]:
        yield
        return steps.run("short")

    queued = [steps.later(1, "a"), steps.later(1, "b")]
    assert await steps.scheduler.run(1, computation(), is_long=False) == "short"
    await asyncio.gather(*queued)
    assert steps.named()[0] == "short"
