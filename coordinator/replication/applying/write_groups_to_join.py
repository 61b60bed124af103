"""Groups of one index that wait to be applied, and which of them are applied together.

    waiting   41  42  43  44 …          a host that keeps up applies each group as it comes
    taken     41..43                    one that lags joins what waits: one commit a shard

A commit of a hundred operations costs about as much as a commit of one. So a host that has just
started, was cut off, or shares its cores with others makes up for what it lacks many times as fast.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, field

from coordinator.replication.applying.joined_write_groups import DividedGroup
from coordinator.replication.log.log_entries import WriteGroup
from coordinator.write.partitioning import Parts


@dataclass(slots=True)
class Step:
    """An entry of the log that is being applied.

    Attributes:
        seq: its number.
        stored_at: when the log stored it.
        num_bytes: in memory.
        is_done: whether it is applied.
    """

    seq: int
    stored_at: int
    num_bytes: int = 0
    is_done: bool = field(default=False)


@dataclass(frozen=True, slots=True)
class WaitingGroup:
    """A group of the log.

    Attributes:
        step: its entry.
        id: of its entry.
        group: its operations.
        dividing: divides them over the shards.
    """

    step: Step
    id: str
    group: WriteGroup
    dividing: asyncio.Task[Parts]

    @property
    def seq(self) -> int:
        """Its number."""
        return self.step.seq

    @property
    def divided(self) -> DividedGroup:
        """The divided group."""
        return DividedGroup(self.seq, self.group, self.dividing.result())


class WaitingGroups:
    """The groups of one index that are not applied yet.

    Args:
        groups_max: number of groups that are applied together.
        bytes_max: their bytes, unless a single one has more.
        operations_max: their operations, likewise.
    """

    def __init__(self, groups_max: int, bytes_max: int, operations_max: int) -> None:
        self._groups_max = groups_max
        self._bytes_max = bytes_max
        self._operations_max = operations_max
        self._waiting: deque[WaitingGroup] = deque()

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def add(self, group: WaitingGroup) -> None:
        """Add the next group of the log."""
        self._waiting.append(group)

    async def take(self) -> list[WaitingGroup]:
        """Remove and return the next groups to apply; they are divided."""
        first = self._waiting.popleft()
        await first.dividing
        taken = [first]
        num_bytes = len(first.group.payload)
        num_operations = first.group.num_operations
        while self._waiting and len(taken) < self._groups_max:
            following = self._waiting[0]
            num_bytes += len(following.group.payload)
            num_operations += following.group.num_operations
            is_too_much = num_bytes > self._bytes_max or num_operations > self._operations_max
            if is_too_much or not following.dividing.done():
                break
            taken.append(self._waiting.popleft())
        return taken

    def cancel(self) -> None:
        """Divide nothing more."""
        for group in self._waiting:
            group.dividing.cancel()
