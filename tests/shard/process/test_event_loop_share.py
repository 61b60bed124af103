"""An index that keeps the event loop busy is detected while others are read."""

from __future__ import annotations

import types
from unittest.mock import Mock

import pytest

from shard.process import event_loop_share
from shard.process.event_loop_share import PERIOD_SECONDS, SHARE_MAX, TIMES_OTHERS, LoopShare
from shard.process.read_scheduler import ReadScheduler

BUSY, QUIET = 3, 8


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def perf_counter(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(
        event_loop_share, "time", types.SimpleNamespace(perf_counter=clock.perf_counter)
    )
    return clock


def read(share: LoopShare, clock: Clock, index: int, seconds: float) -> None:
    began = share.begin(index)
    clock.now += seconds
    share.end(index, began)


def test_an_index_that_is_read_alone_never_exceeds_its_share(clock: Clock) -> None:
    share = LoopShare()
    for _ in range(2_000):
        read(share, clock, BUSY, 0.001)
        assert not share.is_exceeded(BUSY)


def test_an_index_exceeds_its_share_while_another_is_read(clock: Clock) -> None:
    share = LoopShare()
    read(share, clock, QUIET, 0.0001)
    num_fast = 0
    while not share.is_exceeded(BUSY):
        read(share, clock, BUSY, 0.001)
        num_fast += 1
    assert 0.001 * num_fast == pytest.approx(SHARE_MAX * PERIOD_SECONDS, abs=0.002)
    assert not share.is_exceeded(QUIET)


def test_it_stays_so_while_its_reads_take_as_long_elsewhere(clock: Clock) -> None:
    share = LoopShare()
    for _ in range(2_000):
        read(share, clock, QUIET, 0.0001)
        read(share, clock, BUSY, 0.001)
        if clock.now > 1_000.0 + PERIOD_SECONDS:
            assert share.is_exceeded(BUSY)


def test_it_is_forgotten_after_two_periods(clock: Clock) -> None:
    share = LoopShare()
    read(share, clock, BUSY, PERIOD_SECONDS / 2)
    share.begin(QUIET)
    assert share.is_exceeded(BUSY)
    clock.now += 2 * PERIOD_SECONDS
    share.begin(QUIET)
    assert not share.is_exceeded(BUSY)


def test_the_others_are_forgotten_too(clock: Clock) -> None:
    share = LoopShare()
    read(share, clock, QUIET, 0.0001)
    for _ in range(3):
        read(share, clock, BUSY, PERIOD_SECONDS)
    assert not share.is_exceeded(BUSY)


def test_an_index_is_alone_until_another_is_read_and_two_periods_later(clock: Clock) -> None:
    share = LoopShare()
    read(share, clock, BUSY, 0.001)
    assert share.is_alone(BUSY)
    read(share, clock, QUIET, 0.0001)
    share.begin(BUSY)
    assert not share.is_alone(BUSY)
    clock.now += PERIOD_SECONDS
    read(share, clock, BUSY, 0.001)
    assert not share.is_alone(BUSY), "the other was read in the period before"
    clock.now += PERIOD_SECONDS
    share.begin(BUSY)
    assert share.is_alone(BUSY)


def test_indexes_that_are_equally_busy_do_not_exceed_their_share(clock: Clock) -> None:
    share = LoopShare()
    for _ in range(500):
        read(share, clock, BUSY, 0.001)
        read(share, clock, QUIET, 0.001 / (TIMES_OTHERS - 1))
        assert not share.is_exceeded(BUSY)
        assert not share.is_exceeded(QUIET)


async def test_a_read_that_fails_has_taken_its_time_too(clock: Clock) -> None:
    scheduler = Mock()
    reads = ReadScheduler(Mock(), scheduler)

    def fail() -> None:
        clock.now += 0.01
        raise KeyError("no")

    with pytest.raises(KeyError):
        reads.run(BUSY, fail)
    scheduler.has_time.return_value = False
    reads.run(BUSY, fail)
    with pytest.raises(KeyError):
        scheduler.run_later.call_args.args[1]()
    assert reads._share._now[BUSY] == pytest.approx(0.02)


def test_an_index_is_not_alone_once_a_long_read_of_another_has_ended(clock: Clock) -> None:
    share = LoopShare()
    began = share.begin(QUIET)
    clock.now += 3 * PERIOD_SECONDS
    read(share, clock, BUSY, 0.001)
    assert share.is_alone(BUSY)
    share.end(QUIET, began)
    assert not share.is_alone(BUSY)
