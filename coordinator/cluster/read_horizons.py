"""Horizons: which states of the indexes searches may see, and which older ones are still in use.

The horizon of an index is the newest seq up to which every group has been settled, that is,
answered (or failed for good) by every shard that received a part of it. Shards show exactly the
groups up to the horizon, so a write to three shards is visible on all three or on none. The horizon
advances before the write is acknowledged: an acknowledged write is visible.

The horizon never passes what some shard has on disk. A group that no shard has confirmed is in
doubt until one of its shards is back and reports what it has; if none has the group, the horizon
does not move. So a number that a response has named (`meta.seq`) is never given to another group,
not even by a restarted coordinator.

Reads in progress. A search calls the shards more than once (statistics, then hits, then documents),
and all calls must see one state, so a request registers the horizon that it uses (`Reading`).
"""

from __future__ import annotations

from collections.abc import Collection
from types import TracebackType

from coordinator.cluster.shared_memory import SharedState


class StatesInUse:
    """What searches of one index may see, and which older states are still in use."""

    __slots__ = ("readers", "seq")

    def __init__(self, seq: int) -> None:
        self.seq = seq
        self.readers: dict[int, int] = {}  # horizon → requests that use it

    def release(self, seq: int) -> None:
        """Release a state that a request used."""
        readers = self.readers
        if readers.get(seq, 0) <= 1:
            readers.pop(seq, None)
        else:
            readers[seq] -= 1


class Reading:
    """Context manager of `Cluster.reading`; a generator would cost as much as all its work."""

    __slots__ = ("_horizon", "_seq")

    def __init__(self, horizon: StatesInUse, seq: int | None = None) -> None:
        self._horizon = horizon
        self._seq = horizon.seq if seq is None else seq

    def __enter__(self) -> int:
        horizon = self._horizon
        seq = self._seq
        horizon.readers[seq] = horizon.readers.get(seq, 0) + 1
        return seq

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._horizon.release(self._seq)


class Horizons:
    """The horizons of all indexes, by number of the index."""

    def __init__(self) -> None:
        self._by_index: dict[int, StatesInUse] = {}
        self._doubts: dict[tuple[int, int], int] = {}  # index, shard → newest group in doubt
        self._base = 0
        self._floor = 0
        self._shared: SharedState | None = None

    def share(self, shared: SharedState) -> None:
        """Begin to publish the horizons to the reader coordinators."""
        self._shared = shared

    @property
    def base(self) -> int:
        """All groups up to it are settled, of every index."""
        return max(self._base, self._floor)

    @property
    def floor(self) -> int:
        """The part of the shared log that is settled; 0 without a shared log."""
        return self._floor

    @floor.setter
    def floor(self, seq: int) -> None:
        self._floor = seq
        if self._shared is not None:
            self._shared.publish_base(seq)

    def begin(self, seq: int) -> None:
        """Make everything visible that was on disk at the start."""
        self._base = seq
        for states in self._by_index.values():
            states.seq = max(states.seq, seq)

    def states(self, index: int) -> StatesInUse:
        """Return the states of an index; create them at first use."""
        states = self._by_index.get(index)
        if states is None:
            states = self._by_index[index] = StatesInUse(self._base)
        return states

    def newest(self, index: int) -> int:
        """Return the horizon of an index."""
        states = self._by_index.get(index)
        return max(self._base if states is None else states.seq, self._floor)

    def reading(self, index: int) -> Reading:
        """Hold the horizon of an index for the body of a `with` statement, which must follow."""
        states = self._by_index.get(index) or self.states(index)
        if states.seq < self._floor:
            states.seq = self._floor
        return Reading(states)

    def release(self, index: int, seq: int) -> None:
        """Release a state that a request was using."""
        states = self._by_index.get(index)
        if states is not None:  # otherwise the index has been deleted in the meantime
            states.release(seq)

    def advance(self, index: int, seq: int) -> None:
        """Make all groups of an index up to `seq` visible to searches."""
        states = self.states(index)
        states.seq = max(states.seq, seq)
        if self._shared is not None:
            self._shared.publish_horizon(index, states.seq)

    def doubt(self, index: int, seq: int, shards: Collection[int]) -> None:
        """Record a group that shards received but none confirmed: it may be on disk or not."""
        for shard in shards:
            self._doubts[index, shard] = seq

    def resolve_doubts(self, shard: int, seq_max: int) -> None:
        """Make visible what a shard, now back, may have applied without confirming."""
        for key in [key for key in self._doubts if key[1] == shard]:
            self.advance(key[0], min(self._doubts.pop(key), seq_max))

    def oldest_in_use(self) -> int | None:
        """Return the oldest state of any index that a request here uses; None: none does."""
        used = [min(one.readers) for one in self._by_index.values() if one.readers]
        return min(used, default=None)

    @property
    def num_states_in_use(self) -> int:
        """Number of index states kept for running requests, exports and cursors."""
        return sum(len(states.readers) for states in self._by_index.values())

    def forget(self, index: int) -> None:
        """Drop the states kept for a deleted index."""
        self._by_index.pop(index, None)
        for key in [key for key in self._doubts if key[0] == index]:
            del self._doubts[key]
