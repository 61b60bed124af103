"""Horizons: what searches of an index may see, and which older states they still use."""

from __future__ import annotations

from coordinator.cluster.read_horizons import Horizons


def test_what_is_on_disk_at_the_start_is_visible_in_every_index() -> None:
    horizons = Horizons()
    horizons.advance(1, 3)
    horizons.begin(9)

    assert (horizons.newest(1), horizons.newest(2)) == (9, 9)


def test_a_horizon_never_goes_back() -> None:
    horizons = Horizons()
    horizons.advance(1, 5)
    horizons.advance(1, 4)

    assert horizons.newest(1) == 5
    assert horizons.newest(2) == 0


def test_the_floor_of_the_log_is_visible_in_every_index() -> None:
    horizons = Horizons()
    horizons.advance(1, 5)
    horizons.floor = 8
    with horizons.reading(1) as held:
        assert held == 8

    assert (horizons.newest(1), horizons.newest(2), horizons.base) == (8, 8, 8)


def test_states_are_in_use_until_each_of_their_requests_ends() -> None:
    horizons = Horizons()
    horizons.advance(1, 5)
    with horizons.reading(1):
        horizons.advance(1, 6)
        with horizons.reading(1):
            assert horizons.oldest_in_use() == 5
            assert horizons.num_states_in_use == 2
    assert horizons.oldest_in_use() is None

    horizons.reading(1).__enter__()
    horizons.forget(1)
    horizons.release(1, 6)  # the index has been deleted meanwhile
    assert horizons.num_states_in_use == 0


def test_a_group_in_doubt_becomes_visible_once_a_shard_reports_it() -> None:
    horizons = Horizons()
    horizons.doubt(1, 7, (0, 1))
    assert horizons.newest(1) == 0

    horizons.resolve_doubts(0, 4)  # this shard does not have the group
    assert horizons.newest(1) == 4
    horizons.resolve_doubts(1, 9)
    assert horizons.newest(1) == 7


def test_doubts_end_with_their_index() -> None:
    horizons = Horizons()
    horizons.doubt(1, 7, (0,))
    horizons.forget(1)
    horizons.resolve_doubts(0, 9)

    assert horizons.newest(1) == 0
