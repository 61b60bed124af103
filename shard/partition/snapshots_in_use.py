"""The searchable states of an index: the newest, and older ones that are still in use.

A search carries a horizon: it sees the newest state whose seq is not greater. Shards apply a group
at different moments, and cursors live for minutes, so every state since the oldest horizon in use
must be available. Only a few are *kept*: the newest ones, and recently requested ones.
Each has its own tombstones, so keeping all of a busy quarter of an hour would take gigabytes. The
others are restored from a later one and the log of groups (`Partition.snapshot_at`).

    seq      40     43     47     52     53     58    horizon 50 → the state of seq 47: restored
    known    (gone) ●      ●      ●      ●      ●     horizon 55 → that of seq 53: kept
    kept                          ██     ██     ██    oldest horizon in use: 43
"""

from __future__ import annotations

import bisect

from common.process.mapped_pages import FilePart
from shard.segment.snapshot import Snapshot

NEWEST_KEPT = 4
"""A horizon rarely lags by more than two groups."""
ASKED_KEPT = 4
"""Restored states, for cursors."""


class SnapshotsInUse:
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
    def kept_from(self) -> int:
        """The oldest state that is known."""
        return self._seqs[0]

    @property
    def horizon(self) -> int:
        """The oldest horizon that a search may still name: what died up to it stays dead."""
        return self._horizon

    def at(self, horizon: int, revision: int | None = None) -> Snapshot | None:
        """Return the newest state up to a horizon; None if it is not kept.

        Args:
            horizon: the newest seq to be seen.
            revision: prefer a state of this configuration where there are two of one seq.
        """
        last = self._snapshots[-1]
        if last.seq <= horizon and revision in (None, last.revision):
            return last
        wanted = self.seq_at(horizon)  # before the states: those are published first
        found = [one for one in self._snapshots if one.seq == wanted]
        if not found:
            return None
        return next((one for one in reversed(found) if one.revision == revision), found[-1])

    def seq_at(self, horizon: int) -> int | None:
        """Return the seq of the newest state up to a horizon; None if all are newer."""
        seqs = self._seqs
        position = bisect.bisect_right(seqs, horizon)
        return seqs[position - 1] if position else None

    def after(self, seq: int, revision: int) -> Snapshot:
        """Return the oldest kept state of a configuration that is newer than a seq."""
        return next(one for one in self._snapshots if one.seq > seq and one.revision == revision)

    def add(self, snapshot: Snapshot) -> None:
        """Add a state; it replaces one of the same seq and revision."""
        kept = [
            one
            for one in self._snapshots
            if (one.seq, one.revision) != (snapshot.seq, snapshot.revision)
        ]
        kept.insert(bisect.bisect_right(kept, snapshot.seq, key=lambda one: one.seq), snapshot)
        self._snapshots = tuple(kept)
        if snapshot.seq > self._seqs[-1]:  # after its state, for `at` in other threads
            self._seqs.append(snapshot.seq)
        self._drop()

    def add_asked(self, snapshot: Snapshot) -> None:
        """Keep an older state that was restored for a request."""
        self._asked = (*self._asked, snapshot.seq)[-ASKED_KEPT:]
        self.add(snapshot)

    def advance(self, horizon: int) -> None:
        """Drop the states that searches can no longer name: those older than the horizon's."""
        self._horizon = max(self._horizon, horizon)
        position = bisect.bisect_right(self._seqs, self._horizon)
        if position > 1:
            self._seqs = self._seqs[position - 1 :]
        self._drop()

    def forget_revisions(self) -> None:
        """Drop the states of previous configurations."""
        revision = self.newest.revision
        self._snapshots = tuple(one for one in self._snapshots if one.revision == revision)

    def release_pages(self, part: FilePart) -> None:
        """Release the mapped pages of a part of each segment file."""
        segments = {id(view.segment): view.segment for one in self._snapshots for view in one.views}
        for segment in segments.values():
            segment.release_pages(part)

    def _drop(self) -> None:
        """Keep the newest states and recently requested ones; drop the others."""
        oldest = self._seqs[0]
        newest = {one.seq for one in self._snapshots[-NEWEST_KEPT:]}
        self._snapshots = tuple(
            one
            for one in self._snapshots
            if one.seq >= oldest and (one.seq in newest or one.seq in self._asked)
        )
