"""A horizon names the newest state up to it, as long as searches may use it."""

from __future__ import annotations

from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st

from shard.partition.history import NEWEST_KEPT, SnapshotHistory
from shard.segment.snapshot import Snapshot


def _state(seq: int, revision: int = 1) -> Snapshot:
    return Snapshot(
        seq=seq,
        revision=revision,
        views=(),
        configuration=cast(Any, None),
        registry=cast(Any, None),
        dictionaries={},
        dictionary_lengths={},
        documents=cast(Any, None),
    )


def _seq(history: SnapshotHistory, horizon: int) -> int | None:
    found = history.at(horizon)
    return None if found is None else found.seq


def test_horizon_names_the_newest_state_up_to_it() -> None:
    history = SnapshotHistory(_state(3))
    for seq in (5, 9):
        history.add(_state(seq))

    assert [_seq(history, horizon) for horizon in (2, 3, 4, 5, 8, 9, 99)] == [
        None, 3, 3, 5, 5, 9, 9,
    ]  # fmt: skip


def test_advancing_keeps_what_the_horizon_names() -> None:
    history = SnapshotHistory(_state(3))
    for seq in (5, 9):
        history.add(_state(seq))
    history.advance(8)

    assert [_seq(history, horizon) for horizon in (3, 8, 9)] == [None, 5, 9]
    history.advance(9)
    assert _seq(history, 8) is None


def test_few_states_are_kept_but_all_are_known() -> None:
    history = SnapshotHistory(_state(0))
    for seq in range(1, 1_000):
        history.add(_state(2 * seq))

    assert len(history.older) < NEWEST_KEPT
    assert history.at(1_001) is None
    assert history.seq_at(1_001) == 1_000
    assert history.after(1_000, 1).seq == 1_992
    history.add_asked(_state(1_000))
    assert _seq(history, 1_001) == 1_000
    history.add(_state(2_000))
    assert _seq(history, 1_001) == 1_000
    history.advance(1_500)
    assert _seq(history, 1_001) is None


def test_same_seq_replaces_but_for_another_revision() -> None:
    history = SnapshotHistory(_state(3))
    replaced = _state(3)
    history.add(replaced)
    history.add(_state(3, revision=2))

    assert history.newest.revision == 2
    assert history.at(3, 1) is replaced
    assert cast(Snapshot, history.at(3, 2)).revision == 2
    assert cast(Snapshot, history.at(3)).revision == 2


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(0, 4)), max_size=20))
def test_states_from_the_horizon_on_are_all_known(steps: list[tuple[int, int]]) -> None:
    history = SnapshotHistory(_state(0))
    seqs = [0]
    for step, lag in steps:
        seqs.append(seqs[-1] + step)
        history.add(_state(seqs[-1]))
        history.advance(seqs[-1] - lag)
        for horizon in range(max(0, history.horizon), seqs[-1] + 1):
            expected = max(seq for seq in seqs if seq <= horizon)
            assert history.seq_at(horizon) == expected
            assert _seq(history, horizon) in (expected, None)
