"""All indexes of this shard: opened when needed, closed when idle.

With an index for each tenant there are thousands, of which few are in use at a time. An open one
takes an LMDB environment, mappings, descriptors and some hundred kilobytes. So an index is

    unmade   nothing of it is on disk, only in the catalog
    closed   its manifest has been read and the length of data.mdb checked: 0.04 ms, 300 bytes
    open     it serves: 3 to 10 ms for a small one

A start opens the large indexes, which take long to open, and all if they are few. The others stay
closed until a request names them. Where something was written to one since its last manifest, only
LMDB has the counters: a start reads these (1 ms), and once the shard serves, opens such indexes in
the background, one after the other, so that damage is reported soon. When more than
`open_indexes_max` are open, the least recently used ones are closed: their segments in memory
become files first (`closing_indexes`; the way back: `opening_indexes`). An index that a call, a
merge or a write is using stays open (`open_indexes`). The catalog decides which indexes exist
(`catalog_follower`).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path

from common.errors import NotFound, ServiceError, Unavailable
from common.process.logs import Log
from common.process.thread_pool import ThreadPool
from common.process.thread_priority import run_after_searches
from common.process.uncancelled_waiting import result_of
from common.protocol.messages import IndexEntry
from common.shard_settings import ShardSettings
from shard.caches.decompressed_item_cache import RECENT_ITEMS
from shard.indexes.closed_index_facts import ClosedIndex
from shard.indexes.closed_indexes import ClosedIndexes
from shard.indexes.closing_indexes import ClosingIndexes
from shard.indexes.index_folders import IndexFolders
from shard.indexes.open_index import OpenIndex
from shard.indexes.open_indexes import OpenIndexes, num_open_max
from shard.indexes.opening_indexes import OpeningIndexes
from shard.partition.backup_and_restore import copy_file, copy_truth
from shard.partition.merge_flush_and_purge_scheduler import Job, MergeScheduler
from shard.partition.partition import Partition
from shard.partition.writer import Writer
from shard.storage.storage_errors import StorageFailure, explaining_refusal
from shard.storage.verify_and_warm_up import WarmUp

_log = Log("shard")

FEW_INDEXES = 64
"""Up to this many are opened at start, whatever their size."""
CLOSE_SECONDS = 2.0
"""Time in which a stop writes segments in memory to files; nothing is lost if it is too short."""


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
        closed: those that are not open.
        opening: those that are being opened.
        closing: those that are being closed.
        merge_scheduler: works on them in the background.
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
        self._on_failure = on_failure
        self._num_open_max = num_open_max(settings.open_indexes_max)
        self.open = OpenIndexes(self._num_open_max, self._close_surplus)
        self.folders = IndexFolders(folder, shard, num_shards, settings, lambda: self.open.seq_max)
        self.merge_scheduler = MergeScheduler()
        self.closed = ClosedIndexes()
        self.closing = ClosingIndexes(self.merge_scheduler)
        self._warm_up = WarmUp(num_shards)
        self.opening = OpeningIndexes(
            self.folders,
            self.closed,
            self.closing,
            self._warm_up,
            self._serve,
            on_failure,
        )
        self._is_ready = False
        self._settling: asyncio.Future[None] | None = None
        RECENT_ITEMS.reset(settings.recent_items_bytes_max)

    # --- life

    def start(self) -> None:
        """Read what is there and begin to open it.

        Raises:
            DataDirectoryError: it was made for another shard, or by a newer program, or an index
                is missing.
            DamagedEnvironment: a data.mdb is damaged.
        """
        found = self.folders.read()
        self.closed.start(found)
        self.merge_scheduler.start()
        self.opening.start(self._worth_opening(found))

    def _worth_opening(self, found: Mapping[int, ClosedIndex]) -> list[int]:
        """Return the closed indexes that a start opens: large ones, or all if they are few.

        Those that have something to build come first.
        """
        if len(found) <= FEW_INDEXES:
            return list(found)
        large = [number for number, closed in found.items() if closed.is_large]
        large.sort(key=lambda number: found[number].is_settled)
        return large[: self._num_open_max]

    @property
    def is_ready(self) -> bool:
        """Whether the catalog is known, and every index of it is open, or may stay closed."""
        return self._is_ready

    def begin_serving(self) -> None:
        """Serve all indexes, now that the catalog is known; open those with something to build."""
        self._is_ready = True
        unsettled = [number for number, closed in self.closed.items() if not closed.is_settled]
        self._settling = asyncio.ensure_future(self._settle(unsettled))

    async def _settle(self, numbers: Iterable[int]) -> None:
        """Open the indexes that something was written to since their last manifest."""
        for number in numbers:
            if self.closed.get(number) is not None:
                with contextlib.suppress(ServiceError, StorageFailure):  # it was logged
                    await self.serving(number)

    async def close(self) -> None:
        """Finish running work, write segments in memory to files, release everything."""
        if self._settling is not None:
            self._settling.cancel()
            await asyncio.wait([self._settling])
        self.opening.cancel()
        await self.closing.wait_for_all()
        await self.opening.in_thread(self._warm_up.stop)
        await self.opening.in_thread(self.merge_scheduler.stop)
        await self._close_all()
        self.open.clear()
        self.opening.threads.shutdown()
        self.closing.stop()

    async def _close_all(self) -> None:
        """Close the open indexes; the rest is left to the next start when time has run out."""
        clock = asyncio.get_running_loop().time
        give_up_at = clock() + CLOSE_SECONDS
        waiting = self.open.all()

        async def close_some() -> None:
            while waiting and clock() < give_up_at:
                await self.opening.in_thread(waiting.pop().close)

        await asyncio.gather(close_some(), close_some())
        if waiting:
            _log.warning("left for the next open", num_indexes=len(waiting))

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
            if number in self.closing:
                await self.closing.wait_for(number)
            else:
                await result_of(self.opening.begin(number))
        raise NotFound("there is no such index", code="index_not_found")

    def _serve(self, partition: Partition) -> None:
        writer_thread = ThreadPool(1, f"writer-{partition.number}", run_after_searches)
        index = OpenIndex(partition, Writer(partition, self._on_failure), writer_thread)
        is_pending = not partition.is_at_rest
        if is_pending:
            # The merger may need the writer's thread before the first write. A thread inherits the
            # priority of the one that starts it, and cannot raise it.
            with contextlib.suppress(RuntimeError):  # none can be started now
                writer_thread.start_thread()
        self.merge_scheduler.add(Job(partition, index.writer, index.submit, is_pending=is_pending))
        self.open.add(index)

    def _close_surplus(self) -> None:
        """Close the least recently used indexes, if more are open than should be."""
        for number in self.open.surplus(self.merge_scheduler.is_idle):
            self.folders.note_seq(self.open[number].partition.state.seq_max)
            index = self.open.pop(number)
            assert index is not None
            # No call uses it any more, so this is final; lists show it while the index closes.
            self.closed.add(number, ClosedIndex.after(index.partition))
            self.closing.begin(index, partial(self.closed.add, number))
            del index  # or its environment would not close

    # --- those that exist

    def has(self, number: int) -> bool:
        """Return whether there is an index of that number."""
        return number in self.folders.numbers or self.closed.unmade(number) is not None

    def all_numbers(self) -> list[int]:
        """Return the numbers of all indexes."""
        return sorted(self.folders.numbers | self.closed.unmade_numbers())

    async def create(self, entry: IndexEntry) -> None:
        """Note an index that is made when it is used; make it if it comes from a snapshot.

        Raises:
            StorageFull, InternalError: the disk refused it, or the snapshot is damaged; nothing is
                left of it.
        """
        if entry.source is None:
            self.closed.add_unmade(entry)
            return
        with explaining_refusal("to make the index"):
            self._serve(await self.opening.in_thread(lambda: self.folders.make(entry)))

    async def drop(self, number: int) -> None:
        """Drop an index.

        Raises:
            OSError: the disk refused it; the index is still here.
        """
        await self._wait_steady(number)
        if self.closed.unmade(number) is not None:
            self.closed.drop(number)
            await self.opening.in_thread(lambda: self.folders.clear(number))
            return
        self.folders.note_seq(self.folders.seq_max)
        await self.opening.in_thread(lambda: self.folders.remove_number(number))
        await self._wait_steady(number)  # a call may have come before the number was gone
        index = self.open.pop(number)
        self.closed.drop(number)
        self.closing.forget(number)
        await self.opening.in_thread(lambda: self._remove(number, index))

    async def _wait_steady(self, number: int) -> None:
        """Wait until an index is neither being opened or made, nor being closed."""
        await self.closing.wait_for(number)
        while await self.opening.wait_for(number):
            await self.closing.wait_for(number)

    def _remove(self, number: int, index: OpenIndex | None) -> None:
        self.merge_scheduler.remove(number)
        if index is not None:
            index.thread.shutdown()
            index.writer.close()
        # The environment is not closed here: a search that began before may still read from it.
        # It closes when the last snapshot has gone; until then its files have no names.
        self.folders.remove(number)

    async def copy(self, number: int, target: Path, horizon: int | None) -> None:
        """Copy the truth of an index, as of a horizon, into a new folder.

        Raises:
            OSError: no room, or the target exists.
            InvalidRequest: the horizon is too old.
        """
        await self._wait_steady(number)  # the file of one that opens may be written to next
        closed = self.closed.get(number)
        if (
            closed is None
            or self.closed.unmade(number) is not None
            or (horizon is not None and closed.seq_max > horizon)
        ):
            with self.open.using(await self.serving(number)) as index:
                await asyncio.to_thread(copy_truth, index.partition, target, horizon)
            return
        path = self.folders.path(number)
        copying = asyncio.ensure_future(asyncio.to_thread(copy_file, path, target))
        await self.closing.copying(number, copying)
