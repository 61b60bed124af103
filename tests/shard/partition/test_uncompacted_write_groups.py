"""The log in memory divides its groups at the horizon, and forgets those that are compacted."""

from __future__ import annotations

import numpy as np

from shard.partition.uncompacted_write_groups import UncompactedGroups
from shard.storage.write_group_log import Group, State


def _group(seq: int) -> Group:
    return Group(seq, 0, 0, np.zeros(0, np.uint64), b"")


def _seqs(groups: list[Group]) -> list[int]:
    return [group.seq for group in groups]


def test_horizon_divides_final_groups_from_recent_ones() -> None:
    log = UncompactedGroups(State(seq_max=9), [_group(seq) for seq in (3, 5, 9)])

    for horizon, final in ((2, []), (3, [3]), (4, [3]), (5, [3, 5]), (9, [3, 5, 9])):
        assert _seqs(log.final(horizon)) == final
        assert _seqs(log.recent(horizon)) == [seq for seq in (3, 5, 9) if seq not in final]


def test_groups_between_two_states_lead_from_the_older_to_the_newer() -> None:
    log = UncompactedGroups(State(seq_max=9), [_group(seq) for seq in (3, 5, 9)])

    assert _seqs(log.between(3, 9)) == [5, 9]
    assert _seqs(log.between(3, 5)) == [5]
    assert _seqs(log.between(5, 5)) == []


def test_commit_adds_its_group_and_forgets_the_compacted_ones() -> None:
    log = UncompactedGroups(State(seq_max=5), [_group(3), _group(5)])
    before = log.recent(0)

    log.note_commit(State(seq_max=9, seq_compacted=3), _group(9))

    assert (log.seqs(), len(log)) == ([5, 9], 2)
    assert (log.state.seq_max, log.find(3)) == (9, None)
    assert [group.seq for group in (log.find(5), log.find(9)) if group] == [5, 9]
    assert _seqs(before) == [3, 5]  # what another thread has read stays as it was
