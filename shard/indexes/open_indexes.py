"""The indexes of a shard that are open, which stay so while they are in use."""

from __future__ import annotations

import asyncio
import itertools
import resource
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Final, TypeVar

from common.process.logs import Log
from shard.indexes.open_index import OpenIndex

DESCRIPTORS_OF_AN_INDEX: Final = 2
DESCRIPTORS_OF_OTHERS: Final = 160
"""Connections, logs, indexes that are being closed, files that are written or copied."""
OPEN_AT_LEAST: Final = 16

T = TypeVar("T")

_log = Log("shard")


def num_open_max(wanted: int) -> int:
    """Return how many indexes should be open: fewer than wanted if descriptors are few."""
    allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if allowed == resource.RLIM_INFINITY:
        return wanted
    room = (allowed - DESCRIPTORS_OF_OTHERS) // DESCRIPTORS_OF_AN_INDEX
    if room >= wanted:
        return wanted
    num_open = min(wanted, max(room, OPEN_AT_LEAST))
    _log.warning(
        "fewer indexes are kept open: allow more open files (ulimit -n)",
        num_open=num_open,
        open_indexes_max=wanted,
        open_files_max=allowed,
    )
    return num_open


class OpenIndexes:
    """The open indexes by number; used on the event loop, but for `all` and `seq_max`.

    Args:
        count_max: how many should be open.
        on_surplus: called when one is no longer in use while more are open.
    """

    def __init__(self, count_max: int, on_surplus: Callable[[], None]) -> None:
        self._count_max = count_max
        self._on_surplus = on_surplus
        self._indexes: dict[int, OpenIndex] = {}
        self._uses = itertools.count(1)

    def get(self, number: int) -> OpenIndex | None:
        """Return an index if it is open."""
        return self._indexes.get(number)

    def use(self, number: int) -> OpenIndex | None:
        """Return an index if it is open, for a call: it is now the most recently used one."""
        index = self._indexes.get(number)
        if index is not None:
            index.used = next(self._uses)
        return index

    def __getitem__(self, number: int) -> OpenIndex:
        return self._indexes[number]

    def all(self) -> list[OpenIndex]:
        """Return all of them; any thread may ask."""
        return list(self._indexes.values())

    @property
    def seq_max(self) -> int:
        """The highest write sequence that they have on disk; any thread may ask."""
        return max((one.partition.state.seq_max for one in self.all()), default=0)

    def add(self, index: OpenIndex) -> None:
        """Add an index that was opened."""
        index.used = next(self._uses)
        self._indexes[index.partition.number] = index
        if len(self._indexes) > self._count_max:
            self._on_surplus()

    def pop(self, number: int) -> OpenIndex | None:
        """Remove an index, which is to be closed."""
        return self._indexes.pop(number, None)

    def clear(self) -> None:
        """Remove all; they are closed."""
        self._indexes.clear()

    def surplus(self, is_idle: Callable[[int], bool]) -> list[int]:
        """Return the indexes to close: idle ones, least recently used, to get back to the bound.

        Args:
            is_idle: whether no merge is at work on one.
        """
        num_over = len(self._indexes) - self._count_max
        if num_over <= 0:
            return []
        idle = [
            number
            for number, index in self._indexes.items()
            if index.num_users == 0 and index.prepared is None and is_idle(number)
        ]
        idle.sort(key=lambda number: self._indexes[number].used)
        newest = max(self._indexes, key=lambda number: self._indexes[number].used)
        # The newest was opened for a request that has not run yet.
        return [number for number in idle[:num_over] if number != newest]

    @contextmanager
    def using(self, index: OpenIndex) -> Iterator[OpenIndex]:
        """Keep an index open for the body of a `with` statement."""
        index.num_users += 1
        try:
            yield index
        finally:
            self._release(index)

    def kept(self, number: int) -> AbstractContextManager[object]:
        """Keep an index open for a read that has its snapshot already.

        Where it has begun to close meanwhile, the snapshot keeps its file mapped.
        """
        index = self._indexes.get(number)
        return nullcontext() if index is None else self.using(index)

    def keep_until(self, done: asyncio.Future[T], number: int) -> None:
        """Keep an index open, as `kept` does, until a future is done."""
        index = self._indexes.get(number)
        if index is not None:
            index.num_users += 1
            done.add_done_callback(lambda _: self._release(index))

    def _release(self, index: OpenIndex) -> None:
        index.num_users -= 1
        if len(self._indexes) > self._count_max:
            self._on_surplus()
