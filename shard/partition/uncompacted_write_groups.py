"""The write groups that are in the log of an index, and its counters, as of the last commit.

    seq    41   43   47  │  52   53        the oldest horizon in use is 50: all searches see
           final         │  recent         the state of seq 47, or a newer one

No search shows what *final* groups removed, so merges drop it, and the groups can move from the log
to the tombstones. What *recent* groups removed is still in older states, which requests may name.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from shard.storage.write_group_log import Group, State


class UncompactedGroups:
    """Groups that are not compacted yet, oldest first.

    The writer's thread changes it, by one assignment or append at a time; any thread may read it.

    Args:
        state: counters as of the last commit.
        groups: in the log, oldest first.

    Attributes:
        state: as given, or of a later commit.
    """

    def __init__(self, state: State, groups: Sequence[Group]) -> None:
        self.state = state
        self._groups = list(groups)

    def __len__(self) -> int:
        """Return the number of groups in the log."""
        return len(self._groups)

    def seqs(self) -> list[int]:
        """Return the numbers of the groups, ascending."""
        return [group.seq for group in self._groups]

    def deletions(self) -> Iterator[tuple[int, NDArray[np.uint64]]]:
        """Yield each group's number and the records that it removed, newest first."""
        for group in reversed(self._groups):
            yield group.seq, group.deleted

    def find(self, seq: int) -> Group | None:
        """Return a group by its number; None if the log no longer has it, or not yet."""
        return next((group for group in self._groups if group.seq == seq), None)

    def final(self, horizon: int) -> list[Group]:
        """Return the groups up to a horizon, the oldest in use: every search sees their effects."""
        groups = self._groups
        return groups[: _num_final(groups, horizon)]

    def recent(self, horizon: int) -> list[Group]:
        """Return the groups after a horizon, the oldest in use: some search may not see them."""
        groups = self._groups
        return groups[_num_final(groups, horizon) :]

    def between(self, older: int, newer: int) -> list[Group]:
        """Return the groups that lead from the state of one seq to that of another."""
        return [group for group in self._groups if older < group.seq <= newer]

    def note_commit(self, state: State, group: Group | None = None) -> None:
        """Adopt the counters of a commit, forget groups that it compacted, and add its group."""
        if state.seq_compacted != self.state.seq_compacted:
            self._groups = [one for one in self._groups if one.seq > state.seq_compacted]
        self.state = state
        if group is not None:
            self._groups.append(group)


def _num_final(groups: Sequence[Group], horizon: int) -> int:
    return bisect.bisect_right(groups, horizon, key=lambda group: group.seq)
