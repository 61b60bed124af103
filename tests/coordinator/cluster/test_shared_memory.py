"""The shared memory of coordinators, with both sides in one process."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from common.errors import TooManyRequests
from coordinator.cluster.read_horizons import StatesInUse
from coordinator.cluster.read_only_cluster_and_catalog import SharedReading
from coordinator.cluster.shared_memory import INDEXES_MAX, SharedState, create_shared_state
from coordinator.http.security.rate_limit import SharedRateLimit


@pytest.fixture
def states() -> Iterator[tuple[SharedState, SharedState, SharedState]]:
    """The owner's view, and those of two readers."""
    descriptor = create_shared_state(3)
    yield (
        SharedState(descriptor, 3, 0),
        SharedState(descriptor, 3, 1),
        SharedState(descriptor, 3, 2),
    )
    os.close(descriptor)


def test_states_that_readers_use_are_kept(
    states: tuple[SharedState, SharedState, SharedState],
) -> None:
    owner, first, second = states
    owner.publish_horizon(7, 5)
    one, two = StatesInUse(0), StatesInUse(0)

    with SharedReading(one, first, 7) as old:
        owner.publish_horizon(7, 9)
        with SharedReading(one, first, 7) as new, SharedReading(two, second, 7):
            assert (old, new) == (5, 9)
            assert owner.oldest_in_use(7, 9) == 5
            assert owner.oldest_in_use(8, 9) == 9
        assert owner.oldest_in_use(7, 9) == 5
    assert owner.oldest_in_use(7, 9) == 9
    with SharedReading(two, second, 7):
        assert owner.oldest_in_use(7, 12) == 9
        second.begin_reader()  # a new process in the place of one that died while it read
        assert owner.oldest_in_use(7, 12) == 12


def test_horizon_that_moves_while_it_is_announced_is_read_again(
    states: tuple[SharedState, SharedState, SharedState], monkeypatch: pytest.MonkeyPatch
) -> None:
    owner, reader, _ = states
    owner.publish_base(3)
    announce = reader.announce
    seen: list[int] = []

    def overtaken(index: int, horizon: int | None) -> None:
        if horizon == 3:  # the owner advances, and looks, before we have announced anything
            owner.publish_horizon(index, 4)
            seen.append(owner.oldest_in_use(index, 4))
        announce(index, horizon)

    monkeypatch.setattr(reader, "announce", overtaken)
    with SharedReading(StatesInUse(0), reader, 1) as horizon:
        assert seen == [4]  # shards may have dropped state 3
        assert horizon == 4
        assert owner.oldest_in_use(1, 4) == 4


def test_state_zero_is_kept_too(states: tuple[SharedState, SharedState, SharedState]) -> None:
    owner, reader, _ = states
    with SharedReading(StatesInUse(0), reader, 1) as horizon:
        assert horizon == 0
        assert owner.oldest_in_use(1, 6) == 0


def test_horizons_only_grow(states: tuple[SharedState, SharedState, SharedState]) -> None:
    owner, reader, _ = states
    owner.publish_horizon(1, 8)
    owner.publish_base(5)
    owner.publish_base(4)  # a new owner that has heard of less so far
    owner.publish_horizon(1, 7)
    owner.publish_horizon(INDEXES_MAX, 9)  # readers leave it to the owner

    assert (reader.horizon(1), reader.horizon(2)) == (8, 5)
    assert owner.oldest_in_use(INDEXES_MAX, 9) == 9


def test_rate_is_that_of_all_coordinators(
    states: tuple[SharedState, SharedState, SharedState],
) -> None:
    limits = [SharedRateLimit(0.001, 10, state) for state in states]
    taken = 0
    for i in range(30):
        try:
            limits[i % 3].take("10.0.0.1")
            taken += 1
        except TooManyRequests:
            continue
    assert taken == 10
    for i in range(10):
        limits[i % 3].take("10.0.0.2")


def test_readers_are_those_that_live(
    states: tuple[SharedState, SharedState, SharedState],
) -> None:
    owner, first, second = states
    first.begin_reader()
    assert owner.readers() == [os.getpid()]
    second.begin_reader()
    first.end_reader()
    assert owner.readers() == [os.getpid()]
    second.end_reader()
    assert owner.readers() == []
