"""Which states of an index can be searched: the newest, and older ones that somebody still names.

A search carries a horizon: it sees the newest state that is not behind it. Shards apply a group at
different moments, so a shard keeps the states since the oldest horizon in use, and those that a
cursor has pinned. Each is a tuple of shared immutable things, so keeping it costs next to nothing.

    seq      40      43      47            horizon 45 → the state of seq 43
    kept     (gone)  ██      ██ newest     oldest horizon in use 43
"""

from __future__ import annotations

import bisect
from collections import Counter

from shard.snapshot import Snapshot


class SnapshotHistory:
    """The states of one index, by seq.

    The owner changes it under a lock; `at` may be called from any thread, as it reads one tuple.

    Args:
        first: the state to begin with.
    """

    def __init__(self, first: Snapshot) -> None:
        self._snapshots: tuple[Snapshot, ...] = (first,)
        self._pins: Counter[int] = Counter()
        self._horizon = 0

    @property
    def newest(self) -> Snapshot:
        """The state after the last group."""
        return self._snapshots[-1]

    @property
    def older(self) -> tuple[Snapshot, ...]:
        """All states but the newest, oldest first."""
        return self._snapshots[:-1]

    @property
    def horizon(self) -> int:
        """The oldest horizon that a search may still name without a pin."""
        return self._horizon

    @property
    def safe_seq(self) -> int:
        """The oldest horizon in use, pinned ones included: what died up to it stays dead."""
        return min((self._horizon, *self._pins))

    @property
    def oldest_seq(self) -> int:
        """Seq of the oldest state that is kept."""
        return self._snapshots[0].seq

    def at(self, horizon: int, revision: int | None = None) -> Snapshot | None:
        """Return the newest state that is not behind a horizon; None if it is no longer there.

        Args:
            horizon: the newest seq to be seen.
            revision: prefer a state of this configuration where there are two of one seq.
        """
        snapshots = self._snapshots
        last = snapshots[-1]
        if last.seq <= horizon and revision in (None, last.revision):
            return last
        end = bisect.bisect_right(snapshots, horizon, key=lambda one: one.seq)
        if end == 0:
            return None
        found = snapshots[end - 1]
        for older in reversed(snapshots[:end]):
            if older.seq != found.seq:
                break
            if older.revision == revision:
                return older
        return found

    def add(self, snapshot: Snapshot) -> None:
        """Add a state; one of the same seq and revision takes the place of the former."""
        kept = [
            one
            for one in self._snapshots
            if (one.seq, one.revision) != (snapshot.seq, snapshot.revision)
        ]
        position = bisect.bisect_right(kept, snapshot.seq, key=lambda one: one.seq)
        kept.insert(position, snapshot)
        self._snapshots = tuple(kept)

    def advance(self, horizon: int) -> None:
        """Let go of states that no search can name any more."""
        self._horizon = max(self._horizon, horizon)
        self._drop()

    def forget_revisions(self) -> None:
        """Let go of states of former configurations."""
        revision = self.newest.revision
        self._snapshots = tuple(one for one in self._snapshots if one.revision == revision)

    def pin(self, horizon: int) -> None:
        """Keep the state that a horizon names until it is unpinned as often."""
        self._pins[horizon] += 1

    def unpin(self, horizon: int) -> None:
        """Let go of a pinned state; unknown ones (from before a restart) do not matter."""
        if self._pins[horizon] <= 1:
            del self._pins[horizon]
        else:
            self._pins[horizon] -= 1
        self._drop()

    def _drop(self) -> None:
        newest = self._snapshots[-1]
        named = {id(self.at(horizon)) for horizon in (*self._pins, self._horizon)}
        self._snapshots = tuple(
            one
            for one in self._snapshots
            if one is newest or one.seq > self._horizon or id(one) in named
        )
