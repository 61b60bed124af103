"""Which states of an index can be searched: the newest, and older ones that somebody still names.

A search carries a horizon: it sees the newest state that is not behind it. Shards apply a group at
different moments, and cursors go on for minutes, so every state since the oldest horizon in use
must be to be had. Only a few are *kept*: the newest ones, and those that were asked for lately.
Each has its own tombstones, so keeping all of a busy quarter of an hour would take gigabytes. The
others are restored from a later one and the log of groups (`Partition.snapshot_at`).

    seq      40     43     47     52     53     58    horizon 50 → the state of seq 47: restored
    known    (gone) ●      ●      ●      ●      ●     horizon 55 → that of seq 53: kept
    kept                          ██     ██     ██    oldest horizon in use: 43
"""

from __future__ import annotations

import bisect

from shard.segment.snapshot import Snapshot

NEWEST_KEPT = 4
"""A horizon is rarely more than two groups behind."""
ASKED_KEPT = 4
"""States that cursors have asked for lately."""


class SnapshotHistory:
    """The states of one index, by seq.

    The owner changes it under a lock; `at` may be called from any thread: it reads one tuple and a
    list that grows at its end.

    Args:
        first: the state to begin with.
        known: seqs of earlier states that can be restored, ascending.
    """

    def __init__(self, first: Snapshot, known: tuple[int, ...] = ()) -> None:
        self._snapshots: tuple[Snapshot, ...] = (first,)
        self._seqs = [*known, first.seq]
        self._asked: tuple[int, ...] = ()
        self._horizon = 0

    @property
    def newest(self) -> Snapshot:
        """The state after the last group."""
        return self._snapshots[-1]

    @property
    def older(self) -> tuple[Snapshot, ...]:
        """All states that are kept but the newest, oldest first."""
        return self._snapshots[:-1]

    @property
    def horizon(self) -> int:
        """The oldest horizon that a search may still name: what died up to it stays dead."""
        return self._horizon

    def at(self, horizon: int, revision: int | None = None) -> Snapshot | None:
        """Return the newest state that is not behind a horizon; None if it is not kept.

        Args:
            horizon: the newest seq to be seen.
            revision: prefer a state of this configuration where there are two of one seq.
        """
        snapshots = self._snapshots
        last = snapshots[-1]
        if last.seq <= horizon and revision in (None, last.revision):
            return last
        wanted = self.seq_at(horizon)
        found = [one for one in snapshots if one.seq == wanted]
        if not found:
            return None
        return next((one for one in reversed(found) if one.revision == revision), found[-1])

    def seq_at(self, horizon: int) -> int | None:
        """Return the seq of the newest state that is not behind a horizon; None: before all."""
        seqs = self._seqs
        position = bisect.bisect_right(seqs, horizon)
        return seqs[position - 1] if position else None

    def after(self, seq: int, revision: int) -> Snapshot:
        """Return the oldest state that is kept, newer than a seq, and of a configuration."""
        return next(one for one in self._snapshots if one.seq > seq and one.revision == revision)

    def add(self, snapshot: Snapshot) -> None:
        """Add a state; one of the same seq and revision takes the place of the former."""
        if snapshot.seq > self._seqs[-1]:
            self._seqs.append(snapshot.seq)
        kept = [
            one
            for one in self._snapshots
            if (one.seq, one.revision) != (snapshot.seq, snapshot.revision)
        ]
        kept.insert(bisect.bisect_right(kept, snapshot.seq, key=lambda one: one.seq), snapshot)
        self._snapshots = tuple(kept)
        self._drop()

    def add_asked(self, snapshot: Snapshot) -> None:
        """Add an older state that was restored because somebody asked for it."""
        self._asked = (*self._asked, snapshot.seq)[-ASKED_KEPT:]
        self.add(snapshot)

    def advance(self, horizon: int) -> None:
        """Let go of states that no search can name any more: those behind the one it names."""
        self._horizon = max(self._horizon, horizon)
        position = bisect.bisect_right(self._seqs, self._horizon)
        if position > 1:
            self._seqs = self._seqs[position - 1 :]
        self._drop()

    def forget_revisions(self) -> None:
        """Let go of states of former configurations."""
        revision = self.newest.revision
        self._snapshots = tuple(one for one in self._snapshots if one.revision == revision)

    def release_pages(self) -> None:
        """Let pages of segment files count as the kernel's until they are read again."""
        segments = {id(view.segment): view.segment for one in self._snapshots for view in one.views}
        for segment in segments.values():
            segment.release_pages()

    def _drop(self) -> None:
        """Keep the newest states, those that were asked for, and none that is forgotten."""
        oldest = self._seqs[0]
        newest = {one.seq for one in self._snapshots[-NEWEST_KEPT:]}
        self._snapshots = tuple(
            one
            for one in self._snapshots
            if one.seq >= oldest and (one.seq in newest or one.seq in self._asked)
        )
