"""All indexes of this shard: opened when needed, closed when idle.

With an index for each tenant there are thousands, of which few are in use at a time. An open one
takes an LMDB environment, mappings, descriptors and some hundred kilobytes. So an index is

    unmade    nothing of it is on disk, only in the catalog
    closed   its manifest has been read and the length of data.mdb checked: 0.04 ms, 300 bytes
    open      it serves: 3 to 10 ms for a small one

A start opens the large indexes, which take long to open, and all if they are few. The others rest
until a request names them. Where something was written to one since its last manifest, only LMDB
has the counters: a start reads these (1 ms), and once the shard serves, opens such indexes in the
background, one after the other, so that damage is reported soon. When more than `open_indexes_max`
are open, the least recently used ones rest again: their segments in memory become files, then they
close (`closing_indexes`). An index that a call, a merge or a write is at work on stays open
(`open_indexes`). What exists is the catalog's decision (`catalog_follower`).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TypeVar

from common.errors import InternalError, NotFound, ServiceError, StorageFull, Unavailable
from common.process.logs import Log
from common.process.priority import run_after_searches
from common.process.request_ids import carried
from common.protocol.messages import (
    ApplyRequest,
    ApplyResponse,
    GroupExtent,
    IndexEntry,
    JoinedGroups,
    OutcomesRequest,
    OutcomesResponse,
)
from common.shard_settings import ShardSettings
from shard.caches.recent_items import RECENT_ITEMS
from shard.partition.backup import copy_file, copy_truth
from shard.partition.closed_index import ClosedIndex
from shard.partition.closing_indexes import ClosingIndexes
from shard.partition.index_folders import IndexFolders
from shard.partition.merger import Job, Merger
from shard.partition.open_index import OpenIndex
from shard.partition.open_indexes import OpenIndexes
from shard.partition.opening import Opening
from shard.partition.partition import Partition
from shard.partition.writer import Writer
from shard.storage.group_extent import read_extent
from shard.storage.group_log import read_state
from shard.storage.read_ahead import ReadAhead
from shard.storage.refusals import StorageFailure, cause_of, explaining_refusal, is_disk_full

_log = Log("shard")

FEW_INDEXES = 64
"""Up to this many are opened at start, whatever their size."""
CLOSE_SECONDS = 2.0
"""Time in which a stop writes segments in memory to files; nothing is lost if it is too short."""
MAKING_MAX = 2
"""Indexes made at the same time before they are used: requests that open others wait for them."""

T = TypeVar("T")


class Indexes:
    """The indexes of one shard process.

    Args:
        folder: of the shard.
        shard: its ordinal.
        num_shards: number of shards.
        settings: of the shard.
        on_failure: called, on any thread, when the process must end.

    Attributes:
        folders: what of them is on disk.
        open: those that serve.
        opening: progress of the start.
        merger: works on them in the background.
        threads: open, make and configure indexes.
    """

    def __init__(
        self,
        folder: Path,
        *,
        shard: int,
        num_shards: int,
        settings: ShardSettings,
        on_failure: Callable[[BaseException], None],
    ) -> None:
        self._settings = settings
        self._on_failure = on_failure
        self.open = OpenIndexes(settings.open_indexes_max, self._close_surplus)
        self.folders = IndexFolders(folder, shard, num_shards, settings, lambda: self.open.seq_max)
        self.opening = Opening()
        self.merger = Merger()
        self.threads = ThreadPoolExecutor(2, "opener")
        self._is_ready = False
        self._opening: dict[int, asyncio.Task[None]] = {}
        self._closed: dict[int, ClosedIndex] = {}
        self._closing = ClosingIndexes(self.merger)
        self._unmade: dict[int, IndexEntry] = {}
        self._settling: asyncio.Future[None] | None = None
        self._read_ahead = ReadAhead(num_shards)
        RECENT_ITEMS.reset(settings.recent_items_bytes_max)

    # --- life

    def start(self) -> None:
        """Read what is there and begin to open it.

        Raises:
            DataDirectoryError: it was made for another shard, or by a newer program, or an index
                is missing.
            DamagedEnvironment: a data.mdb is damaged.
        """
        self._closed = self.folders.read()
        self.merger.start()
        begun = self._worth_opening()
        self.opening.num_indexes = len(begun)
        for number in begun:
            self._begin_opening(number, self.opening)

    def _worth_opening(self) -> list[int]:
        """Return the closed indexes that a start opens: large ones, or all if they are few.

        Those that have something to build come first.
        """
        if len(self.folders.numbers) <= FEW_INDEXES:
            return list(self._closed)
        large = [number for number, closed in self._closed.items() if closed.is_large]
        large.sort(key=lambda number: self._closed[number].is_settled)
        return large[: self._settings.open_indexes_max]

    @property
    def is_ready(self) -> bool:
        """Whether the catalog is known, and every index of it serves or rests."""
        return self._is_ready

    async def wait_opened(self) -> None:
        """Wait until what the start has begun to open serves."""
        while self._opening:
            await asyncio.gather(*self._opening.values())

    def begin_serving(self) -> None:
        """Serve all indexes, now that the catalog is known; open those with something to build."""
        self._is_ready = True
        unsettled = [number for number, closed in self._closed.items() if not closed.is_settled]
        self._settling = asyncio.ensure_future(self._settle(unsettled))

    async def _settle(self, numbers: Iterable[int]) -> None:
        """Open the indexes that something was written to since their last manifest."""
        for number in numbers:
            if number in self._closed:
                with contextlib.suppress(ServiceError, StorageFailure):  # it was logged
                    await self.serving(number)

    async def close(self) -> None:
        """Finish running work, write segments in memory to files, release everything."""
        if self._settling is not None:
            self._settling.cancel()
            await asyncio.wait([self._settling])
        for task in self._opening.values():
            task.cancel()
        await self.wait_closed()
        await self._in_thread(self._read_ahead.stop)
        await self._in_thread(self.merger.stop)
        await self._close_all()
        self.open.clear()
        self.threads.shutdown()
        self._closing.stop()

    async def _close_all(self) -> None:
        """Close the open indexes; the rest is left to the next start when time has run out."""
        clock = asyncio.get_running_loop().time
        give_up_at = clock() + CLOSE_SECONDS
        waiting = self.open.all()

        async def close_some() -> None:
            while waiting and clock() < give_up_at:
                await self._in_thread(waiting.pop().close)

        await asyncio.gather(close_some(), close_some())
        if waiting:
            _log.warning("left for the next open", num_indexes=len(waiting))

    async def _in_thread(self, function: Callable[[], T]) -> T:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self.threads, carried(function))

    # --- opening and closing

    async def opened(self, number: int) -> OpenIndex:
        """Return an index that exists; open it first if it is closed.

        Raises:
            Unavailable: `starting`, what exists is not known yet.
            NotFound: there is none of that number.
            InternalError: it is damaged.
        """
        index = self.open.use(number)
        if index is not None:
            return index
        if not self.is_ready:
            raise Unavailable("the shard is opening the index; try again soon", code="starting")
        return await self.serving(number)

    async def serving(self, number: int) -> OpenIndex:
        """Return an index of this shard, as `opened` does, but also before the catalog is known."""
        while self.has(number):
            index = self.open.get(number)
            if index is not None:
                return index
            if number in self._closing:
                await self._closing.wait_for(number)
            else:
                opening = self._opening.get(number) or self._begin_opening(number, Opening())
                await asyncio.shield(opening)
        raise NotFound("there is no such index", code="index_not_found")

    def _begin_opening(self, number: int, opening: Opening) -> asyncio.Task[None]:
        entry = self._unmade.get(number)
        opened = self._open_one(number, opening) if entry is None else self._make_one(entry)
        task = asyncio.ensure_future(opened)
        task.add_done_callback(lambda done: done.cancelled() or done.exception())  # it was logged
        self._opening[number] = task
        return task

    async def _open_one(self, number: int, opening: Opening) -> None:
        try:
            await self._closing.wait_while_many()
            await self._closing.wait_released(number)
            partition = await self._in_thread(lambda: self.folders.open(number, opening))
        except Exception as error:
            if opening is not self.opening and not isinstance(error, StorageFailure):
                self._opening.pop(number, None)
                raise _told(number, error) from error
            error = self.folders.explained(error)
            self._on_failure(error)
            raise
        self._closed.pop(number, None)
        self._take_up(partition)
        for view in partition.newest.views:
            segment = view.segment
            if not segment.is_verified:
                self._read_ahead.verify(segment.verify_searched, segment.verify_all)
        self._read_ahead.read(partition.environment.data_path, partition.environment.file_bytes())
        opening.add_open()

    async def _make_one(self, entry: IndexEntry) -> None:
        """Make an index that the catalog has, or shall have.

        Raises:
            StorageFull, Unavailable: the disk refused it; the next use tries again.
        """
        number = entry.number
        try:
            await self._closing.wait_while_many()
            partition = await self._in_thread(lambda: self.folders.make(entry))
        except (OSError, StorageFailure) as error:
            _log.warning("an index cannot be made", index=number, reason=str(error))
            if is_disk_full(error):
                raise StorageFull("there is no room on the disk to make the index") from error
            raise Unavailable(f"the index cannot be made now: {cause_of(error)}") from error
        finally:
            self._opening.pop(number, None)
        del self._unmade[number]
        del self._closed[number]
        self._take_up(partition)

    def _take_up(self, partition: Partition) -> None:
        number = partition.number
        index = OpenIndex(
            partition,
            Writer(partition, self._on_failure),
            ThreadPoolExecutor(1, f"writer-{number}", run_after_searches),
        )
        self._opening.pop(number, None)
        is_pending = not partition.is_at_rest
        if is_pending:
            # The merger may need the writer's thread before the first write. A thread inherits the
            # priority of the one that starts it, and cannot raise it.
            index.submit(_start)
        self.merger.add(Job(partition, index.writer, index.submit, is_pending=is_pending))
        self.open.add(index)

    def _close_surplus(self) -> None:
        """Close the least recently used indexes, if more are open than should be."""
        for number in self.open.surplus(self.merger.is_idle):
            self.folders.note_seq(self.open[number].partition.state.seq_max)
            index = self.open.pop(number)
            assert index is not None
            # No call uses it any more, so this is final; lists show it while the index closes.
            self._closed[number] = ClosedIndex.after(index.partition)
            self._closing.begin(index, partial(self._closed.__setitem__, number))
            del index  # or its environment would not close

    async def wait_closed(self) -> None:
        """Return once no index is being closed."""
        await self._closing.wait_for_all()

    # --- which there are

    def has(self, number: int) -> bool:
        """Return whether there is an index of that number."""
        return number in self.folders.numbers or number in self._unmade

    def is_unmade(self, number: int) -> bool:
        """Return whether nothing of an index is on disk."""
        return number in self._unmade

    def closed(self, number: int) -> ClosedIndex | None:
        """Return what is known of an index that is not open; None if it is."""
        return self._closed.get(number)

    def all_closed(self) -> list[tuple[int, ClosedIndex]]:
        """Return all indexes that are not open, by number."""
        return list(self._closed.items())

    def all_numbers(self) -> list[int]:
        """Return the numbers of all indexes."""
        return sorted(self.folders.numbers | self._unmade.keys())

    async def create(self, entry: IndexEntry) -> None:
        """Note an index that is made when it is used; make it if it comes from a snapshot.

        Raises:
            StorageFull, InternalError: the disk refused it, or the snapshot is damaged; nothing is
                left of it.
        """
        if entry.source is None:
            self._closed[entry.number] = ClosedIndex.unmade(entry)
            self._unmade[entry.number] = entry
            return
        with explaining_refusal("to make the index"):
            self._take_up(await self._in_thread(lambda: self.folders.make(entry)))

    def make_ahead(self, number: int) -> None:
        """Begin to make an index before it is used, unless others are being made or opened."""
        if number in self._unmade and len(self._opening) < MAKING_MAX:
            self._begin_opening(number, Opening())

    async def drop(self, number: int) -> None:
        """Drop an index.

        Raises:
            OSError: the disk refused it; the index is still here.
        """
        await self._wait_steady(number)
        if self._unmade.pop(number, None) is not None:
            del self._closed[number]
            await self._in_thread(lambda: self.folders.clear(number))
            return
        self.folders.note_seq(self.folders.seq_max)
        await self._in_thread(lambda: self.folders.strike(number))
        await self._wait_steady(number)  # a call may have come before the number was gone
        index = self.open.pop(number)
        self._closed.pop(number, None)
        self._closing.forget(number)
        await self._in_thread(lambda: self._remove(number, index))

    async def _wait_steady(self, number: int) -> None:
        """Wait until an index is neither being opened or made, nor being closed."""
        while True:
            await self._closing.wait_for(number)
            opening = self._opening.get(number)
            if opening is None or opening.done():
                return
            await asyncio.wait([opening])

    def _remove(self, number: int, index: OpenIndex | None) -> None:
        self.merger.remove(number)
        if index is not None:
            index.thread.shutdown()
            index.writer.close()
        # The environment is not closed here: a search that began before may still read from it.
        # It closes when the last snapshot has gone; until then its files have no names.
        self.folders.remove(number)

    # --- use

    async def apply(self, request: ApplyRequest | JoinedGroups) -> ApplyResponse:
        """Apply a write group, or several as one; cancelling the caller does not stop it."""
        number = request.index
        with self.open.using(await self.opened(number)) as index:
            done = index.submit(partial(index.writer.apply, request))
            response = await asyncio.shield(asyncio.wrap_future(done))
            self.merger.notify(number)
            return response

    async def outcomes(self, request: OutcomesRequest) -> OutcomesResponse:
        """Return what became of a write group, once the earlier ones are finished."""
        with self.open.using(await self.opened(request.index)) as index:
            outcomes = index.submit(partial(index.writer.outcomes_of, request.seq))
            return await asyncio.wrap_future(outcomes)

    async def newest_groups(self, after: int) -> list[GroupExtent]:
        """Return the newest group of each index that has one after a seq."""
        closed = [number for number, one in self._closed.items() if one.seq_max > after]
        open_ones = [index.partition.number for index in self.open.all()]
        found = []
        for number in sorted({*closed, *open_ones, *self._opening, *self._closing.numbers()}):
            with self.open.using(await self.opened(number)) as index:
                if index.partition.state.seq_max > after:
                    found.append(_newest_group(index.partition))
        return found

    def kept_from(self) -> int:
        """Return the oldest state that can be had of all indexes, closed ones as they are."""
        closed = (one.seq_max for one in self._closed.values())
        return max((*closed, *(one.partition.kept_from for one in self.open.all())), default=0)

    async def copy(self, number: int, target: Path, horizon: int | None) -> None:
        """Copy the truth of an index, as of a horizon, into a new folder.

        Raises:
            OSError: no room, or the target exists.
            InvalidRequest: the horizon is too old.
        """
        await self._closing.wait_for(number)
        closed = None if number in self._unmade else self._closed.get(number)
        if closed is None or (horizon is not None and closed.seq_max > horizon):
            with self.open.using(await self.serving(number)) as index:
                await asyncio.to_thread(copy_truth, index.partition, target, horizon)
            return
        path = self.folders.path(number)
        copying = asyncio.ensure_future(asyncio.to_thread(copy_file, path, target))
        await self._closing.copying(number, copying)


def _start() -> None:
    """Start the thread that runs this."""


def _newest_group(partition: Partition) -> GroupExtent:
    """Return the newest group of an index, with its extent as far as that is known."""
    with partition.environment.read() as txn:
        seq, extent = read_state(txn).seq_max, read_extent(txn)
    if extent is None or extent.seq != seq:
        return GroupExtent(partition.number, seq, 0, seq, ())
    return GroupExtent(partition.number, *extent)


def _told(number: int, error: Exception) -> ServiceError:
    """Log why an index cannot be opened; return the error for the client."""
    _log.error("an index cannot be opened", index=number, reason=str(error))
    if isinstance(error, ServiceError):
        return error
    if isinstance(error, OSError):
        return Unavailable(f"the index cannot be opened now: {cause_of(error)}")
    return InternalError(
        "the index is damaged: restore it from a backup, or remove it", code="item_corrupt"
    )
