"""Whether this host answers, and how far searches see.

    starts ──begin──▶ catches up ──advance_to──▶ serves ──stop──▶ has stopped, for good or until a
    restart: an entry can never be applied here, or its data differ from the others'

Each host applies entries of the log in order. Searches see what is applied, or, where each host
holds some of the shards, what the chosen copy of every shard has applied (the floor).
"""

from __future__ import annotations

import time
from collections.abc import Callable

from common.deadline import Deadline
from common.errors import Unavailable
from common.process.logs import Log
from coordinator.cluster.all_shards import Cluster
from coordinator.replication.host.log_position import Progress
from coordinator.replication.host.replica_file import Position
from coordinator.replication.host.seq_waiters import SeqWaiters

_log = Log("replica")


class Serving:
    """What this host shows of the log.

    Args:
        cluster: its shards.
        progress: how far it has applied the log.

    Attributes:
        why_stopped: why this host has stopped serving; empty: it has not.
        on_stop: called with the reason when it stops.
    """

    def __init__(self, cluster: Cluster, progress: Progress) -> None:
        self._cluster = cluster
        self._placed = cluster.placed
        self._progress = progress
        self._target = 0
        """The entry from which on this host may serve."""
        self._shown = SeqWaiters(lambda: self.shown_seq)
        self._applied = SeqWaiters(lambda: self.applied_seq)
        self.why_stopped = ""
        self.on_stop: list[Callable[[Unavailable], None]] = []
        cluster.readiness.withheld = Unavailable(
            "this host catches up with the log", code="starting"
        )
        if self._placed is not None:
            self._placed.on_floor = self._show
            self._placed.certain_seq = lambda: progress.saved_seq

    # --- how far

    @property
    def position(self) -> Position:
        """How far this host has applied the log."""
        return self._progress.position

    @property
    def applied_seq(self) -> int:
        """Everything up to this entry is applied on the shards of this host."""
        return self._progress.applied_seq

    @property
    def shown_seq(self) -> int:
        """How far searches on this host see; less than is applied here while other hosts lag."""
        return self.applied_seq if self._placed is None else self._placed.floor

    def begin(self, target: int) -> None:
        """Serve once searches see everything up to an entry."""
        self._target = target
        self.advance_to(self.position)

    def advance_to(self, position: Position) -> None:
        """Let searches see everything up to a position; serve once that is enough."""
        self._progress.position = position
        if self._placed is None:
            self._show(self.applied_seq)
        else:
            self.tell_position()

    def tell_position(self) -> None:
        """Notify the other hosts of this one's progress, where each holds some of the shards."""
        assert self._placed is not None
        own = self._cluster.local_shards
        own.applied = self.applied_seq
        own.moved_at = time.monotonic()
        self._applied.reach(own.applied)
        self._placed.update()

    def _show(self, seq: int) -> None:
        """Let searches see everything up to an entry; serve once that is enough."""
        self._cluster.horizons.floor = seq
        withheld = self._cluster.readiness.withheld
        if withheld is not None and seq >= self._target and not self.why_stopped:
            self._cluster.readiness.withheld = None
            if self._placed is not None:
                self._placed.begin_serving()
            _log.info("this host serves", seq=seq)
        self._shown.reach(seq)

    async def wait_for(self, seq: int, deadline: Deadline) -> None:
        """Return once searches here see everything up to an entry.

        Raises:
            DeadlineExceeded: it was not in time.
            Unavailable: `replica_stopped`; it never will be.
        """
        if self.shown_seq >= seq:
            return
        self.check_not_stopped()
        await self._shown.wait(seq, deadline)

    async def wait_applied(self, seq: int, deadline: Deadline) -> None:
        """Return once everything up to an entry is applied on the shards of this host.

        Where each host has some of the shards, searches may see it later: see `wait_for`.

        Raises:
            DeadlineExceeded: it was not in time.
            Unavailable: `replica_stopped`; it never will be.
        """
        if self.applied_seq < seq:
            self.check_not_stopped()
            await self._applied.wait(seq, deadline)

    # --- whether

    @property
    def is_withheld(self) -> bool:
        """Whether requests for data are refused, because this host catches up, or has stopped."""
        return self._cluster.readiness.withheld is not None

    @property
    def is_serving(self) -> bool:
        """Whether this host answers requests for data."""
        return self._cluster.readiness.withheld is None and self._cluster.is_ready

    @property
    def can_give_data(self) -> bool:
        """Whether another host may take its data from this one.

        A host that holds some shards gives them also while it does not serve because others are
        away: it may be these that wait for its data.
        """
        if self.why_stopped or not self._cluster.is_ready_here:
            return False
        if self._placed is None:
            return self._cluster.readiness.withheld is None
        return 0 < self._target <= self.applied_seq or self._cluster.readiness.withheld is None

    def check_not_stopped(self) -> None:
        """Refuse if this host has stopped.

        Raises:
            Unavailable: `replica_stopped`.
        """
        if self.why_stopped:
            raise self._refusal()

    def stop(self, reason: str) -> None:
        """Stop answering: this host would differ from the others."""
        if self.why_stopped:
            return
        self.why_stopped = reason
        _log.error("this host stops serving", reason=reason, seq=self.position.seq)
        error = self._refusal()
        self._cluster.readiness.withheld = error
        if self._placed is not None:
            self._cluster.local_shards.is_stopped = True
            self._placed.update()
        self._shown.fail(self._refusal)
        self._applied.fail(self._refusal)
        for tell in self.on_stop:
            tell(error)

    def _refusal(self) -> Unavailable:
        return Unavailable(
            f"this host differs from the others and has stopped: {self.why_stopped}; "
            "ask another one",
            code="replica_stopped",
        )
