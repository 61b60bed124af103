"""What a host has for certain if the log cannot say what it lacks."""

from __future__ import annotations

from common.protocol.messages import GroupExtent
from coordinator.replication.startup.state_without_log import LocalState, state_of

FILMS, BOOKS = 1, 2


def _group(
    index: int, seq: int, *shards: int, settled: int = 0, first: int | None = None
) -> GroupExtent:
    return GroupExtent(index, seq, settled, seq if first is None else first, shards)


def test_without_newer_groups_the_position_counts() -> None:
    assert state_of(7, {0: (), 1: ()}) == LocalState(7, {})


def test_a_group_that_is_on_all_of_its_shards_counts() -> None:
    both = _group(FILMS, 8, 0, 1)
    assert state_of(7, {0: (both,), 1: (both,)}) == LocalState(8, {FILMS: 8})
    assert state_of(7, {0: (_group(FILMS, 8, 0),), 1: ()}) == LocalState(8, {FILMS: 8})


def test_of_a_group_that_a_shard_lacks_nothing_is_shown() -> None:
    newest = _group(FILMS, 9, 0, 1, settled=8)
    assert state_of(7, {0: (newest,), 1: ()}) == LocalState(8, {FILMS: 8})
    former = _group(FILMS, 8, 1, settled=7)
    assert state_of(7, {0: (newest,), 1: (former,)}) == LocalState(8, {FILMS: 8})


def test_of_groups_that_were_applied_together_all_are_shown_or_none() -> None:
    together = _group(FILMS, 20, 0, 1, settled=8, first=11)
    assert state_of(7, {0: (together,), 1: (together,)}) == LocalState(8, {FILMS: 20})
    former = _group(FILMS, 10, 1, settled=7)  # before what is settled came entries of others
    assert state_of(7, {0: (together,), 1: (former,)}) == LocalState(8, {FILMS: 10})
    one_by_one = _group(FILMS, 19, 0, 1, settled=8, first=11)  # one shard had no room for all
    assert state_of(7, {0: (together,), 1: (one_by_one,)}) == LocalState(8, {FILMS: 10})


def test_each_index_has_its_own_newest_state() -> None:
    films, books = _group(FILMS, 8, 0, 1, settled=7), _group(BOOKS, 9, 0, 1, settled=7)
    found = state_of(7, {0: (films, books), 1: (books,)})
    assert found == LocalState(7, {FILMS: 7, BOOKS: 9})


def test_what_was_settled_counts_although_other_entries_are_not_known() -> None:
    newest = _group(FILMS, 42, 1, settled=41)  # a new index and other entries came before
    assert state_of(0, {0: (), 1: (newest,)}) == LocalState(42, {FILMS: 42})


def test_groups_of_other_indexes_lead_on() -> None:
    found = state_of(
        7, {0: (_group(FILMS, 9, 0, settled=7), _group(BOOKS, 8, 0, settled=7)), 1: ()}
    )
    assert found == LocalState(9, {FILMS: 9, BOOKS: 8})


def test_a_group_of_unknown_extent_counts_if_all_shards_have_it() -> None:
    unknown = _group(FILMS, 8)
    assert state_of(7, {0: (unknown,)}) == LocalState(8, {FILMS: 8})
    assert state_of(7, {0: (unknown,), 1: (unknown,)}) == LocalState(8, {FILMS: 8})
    assert state_of(7, {0: (unknown,), 1: ()}) is None
