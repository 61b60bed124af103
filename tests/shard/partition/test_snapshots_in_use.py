"""A horizon names the newest state up to it, as long as searches may use it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, cast

from hypothesis import given
from hypothesis import strategies as st

from shard.partition.snapshots_in_use import NEWEST_KEPT, SnapshotsInUse
from shard.segment.snapshot import Snapshot

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType


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


def _seq(history: SnapshotsInUse, horizon: int) -> int | None:
    found = history.at(horizon)
    return None if found is None else found.seq


def test_horizon_names_the_newest_state_up_to_it() -> None:
    history = SnapshotsInUse(_state(3))
    for seq in (5, 9):
        history.add(_state(seq))

    assert [_seq(history, horizon) for horizon in (2, 3, 4, 5, 8, 9, 99)] == [
        None, 3, 3, 5, 5, 9, 9,
    ]  # fmt: skip


def test_advancing_keeps_what_the_horizon_names() -> None:
    history = SnapshotsInUse(_state(3))
    for seq in (5, 9):
        history.add(_state(seq))
    history.advance(8)

    assert [_seq(history, horizon) for horizon in (3, 8, 9)] == [None, 5, 9]
    history.advance(9)
    assert _seq(history, 8) is None


def test_few_states_are_kept_but_all_are_known() -> None:
    history = SnapshotsInUse(_state(0))
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
    history = SnapshotsInUse(_state(3))
    replaced = _state(3)
    history.add(replaced)
    history.add(_state(3, revision=2))

    assert history.newest.revision == 2
    assert history.at(3, 1) is replaced
    assert cast(Snapshot, history.at(3, 2)).revision == 2
    assert cast(Snapshot, history.at(3)).revision == 2


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(0, 4)), max_size=20))
def test_states_from_the_horizon_on_are_all_known(steps: list[tuple[int, int]]) -> None:
    history = SnapshotsInUse(_state(0))
    seqs = [0]
    for step, lag in steps:
        seqs.append(seqs[-1] + step)
        history.add(_state(seqs[-1]))
        history.advance(seqs[-1] - lag)
        for horizon in range(max(0, history.horizon), seqs[-1] + 1):
            expected = max(seq for seq in seqs if seq <= horizon)
            assert history.seq_at(horizon) == expected
            assert _seq(history, horizon) in (expected, None)


def _at_each_line(name: str, call: Callable[[], object], other: Callable[[], object]) -> None:
    """Make a call, and another one before each line of the history's method of that name."""

    def on_call(frame: FrameType, _event: str, _arg: object) -> Any:
        return on_line if frame.f_code.co_name == name else None

    def on_line(_frame: FrameType, event: str, _arg: object) -> Any:
        if event == "line":
            other()
        return on_line

    before = sys.gettrace()
    sys.settrace(on_call)
    try:
        call()
    finally:
        sys.settrace(before)


def test_previous_configuration_is_found_while_a_state_is_added() -> None:
    history = SnapshotsInUse(_state(5))
    history.add(_state(5, revision=2))
    found: list[Snapshot | None] = []

    _at_each_line(
        "add", lambda: history.add(_state(6, revision=2)), lambda: found.append(history.at(9, 1))
    )

    assert len(found) > 3
    assert None not in found


def test_state_added_while_another_thread_looks_for_one_hides_none() -> None:
    history = SnapshotsInUse(_state(5))
    history.add(_state(5, revision=2))
    seqs = iter(range(6, 99))
    found: list[Snapshot | None] = []

    _at_each_line(
        "at",
        lambda: found.append(history.at(99, 1)),
        lambda: history.add(_state(next(seqs), revision=2)),
    )

    assert next(seqs) > 8
    assert None not in found
