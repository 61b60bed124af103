"""All indexes of this shard: opened when needed, made to agree with the catalog, closed at stop.

    <shard folder>/shard.json        the numbers of the indexes that this shard has made
    <shard folder>/index-<number>/   one partition each

The catalog alone creates an index; what a shard has of it is *made* at its first use, or in the
background as soon as it is prepared: first the folder, then its number in shard.json. A client that
creates an index need not wait for that, and a crash before it loses nothing: no write is
acknowledged earlier. To drop an index: remove the number from shard.json, then the folder. So a
folder without a number is a leftover of a crash and is removed. A number without a folder is a
loss: the shard refuses to start rather than serve an empty index.

A tenant a small index makes thousands of them, of which few are in use at a time. An open one takes
an LMDB environment, mappings, descriptors and some hundred kilobytes. So an index is

    unmade    nothing of it is on disk, only in the catalog
    closed   its manifest has been read and the length of data.mdb checked: 0.04 ms, 300 bytes
    open      it serves: 3 to 10 ms for a small one

A start opens the large indexes, which take long to open, and all if they are few. The others rest
until a request names them. Where something was written to one since its last manifest, only LMDB
has the counters: a start reads these (1 ms), and once the shard serves, opens such indexes in the
background, one after the other, so that damage is reported soon. When more than `open_indexes_max`
are open, the least recently used ones rest again: their segments in memory become files, then they
close. An index that a call, a merge or a write is at work on stays open.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import itertools
import os
import shutil
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import TypeVar

from common import data_directory
from common.errors import Conflict, InternalError, NotFound, ServiceError, StorageFull, Unavailable
from common.process.logs import Log
from common.process.priority import run_after_searches
from common.process.request_ids import carried
from common.protocol.messages import (
    ApplyRequest,
    ApplyResponse,
    CatalogUpdate,
    GroupExtent,
    IndexEntry,
    OutcomesRequest,
    OutcomesResponse,
)
from common.shard_settings import ShardSettings
from shard.caches.recent_items import RECENT_ITEMS
from shard.partition.backup import copy_file, copy_truth, put_back
from shard.partition.closed_index import ClosedIndex, digest_of
from shard.partition.configuring import Configurer
from shard.partition.created_indexes import CreatedIndexes
from shard.partition.entry import read_restored
from shard.partition.merger import Job, Merger
from shard.partition.open_index import OpenIndex
from shard.partition.opening import Opening
from shard.partition.partition import Partition
from shard.partition.writer import Writer
from shard.segment.snapshot import Snapshot
from shard.storage.environment import (
    StorageFailure,
    cause_of,
    explaining_refusal,
    is_disk_full,
)
from shard.storage.manifest import SHARD_FILE
from shard.storage.read_ahead import ReadAhead
from shard.storage.residency import RESIDENT_BYTES_MIN, PageBudget

_log = Log("shard")

FEW_INDEXES = 64
"""Up to this many are opened at start, whatever their size."""
CLOSE_SECONDS = 2.0
"""Time in which a stop writes segments in memory to files; nothing is lost if it is too short."""
RELEASE_SECONDS = 0.001
NEW_BYTES = 64 << 10
"""About what an empty index takes on the disk."""
CLOSING_MAX = 32
"""So many indexes may be closing while another opens: each holds threads and mappings."""
MAKING_MAX = 2
"""Indexes made at the same time before they are used: requests that open others wait for them."""
GARBAGE_ATTEMPTS = 20
"""How often, and after how many attempts by other means, a closed environment is looked for."""

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
        opening: progress of the start.
        merger: works on them in the background.
        page_budget: how much of their files stays resident.
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
        self._folder = folder
        self._shard = shard
        self._num_shards = num_shards
        self._settings = settings
        self._on_failure = on_failure
        self._open: dict[int, OpenIndex] = {}
        self._opening: dict[int, asyncio.Task[None]] = {}
        self._closed: dict[int, ClosedIndex] = {}
        self._closing: dict[int, asyncio.Task[None]] = {}
        self._released: dict[int, threading.Event] = {}
        self._uses = itertools.count(1)
        self._unmade: dict[int, IndexEntry] = {}
        self._changes = asyncio.Lock()
        self._catalog_revision = -1
        self._named: set[int] = set()
        self._has_catalog = False
        self._settling: asyncio.Future[None] | None = None
        self._seq_on_disk = 0
        self._created = CreatedIndexes(folder, shard, num_shards, lambda: self.seq_max)
        self._opener = ThreadPoolExecutor(2, "opener")
        self._closer = ThreadPoolExecutor(1, "closer", run_after_searches)
        self.opening = Opening()
        self.merger = Merger()
        self._configurer = Configurer(self._opener, self.merger, on_failure)
        self._read_ahead = ReadAhead(num_shards)
        RECENT_ITEMS.begin(settings.recent_items_bytes_max)
        self.page_budget = PageBudget(
            self._resident_bytes_max,
            release_items=self._release_items,
            release_all=self._release_all,
        )

    # --- life

    def start(self) -> None:
        """Read what is there and begin to open it.

        Raises:
            DataDirectoryError: it was made for another shard, or by a newer program, or an index
                is missing.
            DamagedEnvironment: a data.mdb is damaged.
        """
        self._seq_on_disk = self._created.read()
        known = self._created.numbers
        for name in os.listdir(self._folder):
            if name.startswith("index-") and int(name.removeprefix("index-")) not in known:
                _log.warning("leftover of an unfinished change removed", folder=name)
                shutil.rmtree(self._folder / name)
        for number in sorted(known):
            # (Of thousands, joining paths as such would take a quarter of the time.)
            closed = ClosedIndex.of(f"{self._folder}/index-{number}", self._settings.map_bytes_max)
            self._closed[number] = closed
            self._seq_on_disk = max(self._seq_on_disk, closed.seq_max)
        self.merger.start()
        begun = self._worth_opening()
        self.opening.num_indexes = len(begun)
        for number in begun:
            self._begin_opening(number, self.opening)

    def _worth_opening(self) -> list[int]:
        """Return the closed indexes that a start opens: large ones, or all if they are few.

        Those that have something to build come first.
        """
        if self._are_few:
            return list(self._closed)
        large = [number for number, closed in self._closed.items() if closed.is_large]
        large.sort(key=lambda number: self._closed[number].is_settled)
        return large[: self._settings.open_indexes_max]

    @property
    def _are_few(self) -> bool:
        return len(self._created.numbers) <= FEW_INDEXES

    async def _settle(self, numbers: Iterable[int]) -> None:
        """Open the indexes that something was written to since their last manifest."""
        for number in numbers:
            if number in self._closed:
                with contextlib.suppress(ServiceError, StorageFailure):  # it was logged
                    await self._serving(number)

    def write_manifest(self, folder: Path) -> None:
        """Write to a folder which indexes this shard has."""
        self._created.write(folder)

    def _path(self, number: int) -> Path:
        return self._folder / f"index-{number}"

    def _has(self, number: int) -> bool:
        return number in self._created.numbers or number in self._unmade

    def _begin_opening(self, number: int, opening: Opening) -> asyncio.Task[None]:
        entry = self._unmade.get(number)
        opened = self._open_one(number, opening) if entry is None else self._make_one(entry)
        task = asyncio.ensure_future(opened)
        task.add_done_callback(lambda done: done.cancelled() or done.exception())  # it was logged
        self._opening[number] = task
        return task

    async def _make_one(self, entry: IndexEntry) -> None:
        """Make an index that the catalog has, or shall have.

        Raises:
            StorageFull, Unavailable: the disk refused it; the next use tries again.
        """
        number = entry.number
        try:
            await self._wait_for_closing()
            partition = await self._in_thread(lambda: self._make(entry))
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

    async def _open_one(self, number: int, opening: Opening) -> None:
        try:
            await self._wait_for_closing()
            await self._wait_released(number)
            partition = await self._in_thread(
                lambda: Partition.open(
                    self._path(number),
                    number,
                    self._settings,
                    on_first_touch=True,
                    opening=opening,
                )
            )
        except Exception as error:
            if opening is not self.opening and not isinstance(error, StorageFailure):
                self._opening.pop(number, None)
                raise _told(number, error) from error
            if isinstance(error, OSError) and not is_disk_full(error):
                error = data_directory.refusal_explained(self._folder, error)
            # (Where there is no room, a later start may find some.)
            self._on_failure(error)
            raise
        self._closed.pop(number, None)
        self._take_up(partition)
        for view in partition.newest.views:
            if not view.segment.is_verified:
                self._read_ahead.verify(view.segment.verify_all)
        self._read_ahead.read(partition.environment.data_path, partition.environment.file_bytes())
        opening.add_open()

    async def _wait_for_closing(self) -> None:
        """Wait while many indexes are closing: writes to many new ones would outpace it."""
        while len(self._closing) >= CLOSING_MAX:
            await asyncio.wait(list(self._closing.values()), return_when=asyncio.FIRST_COMPLETED)

    async def _wait_released(self, number: int) -> None:
        """Wait until the environment of an index has closed: a process may open it only once."""
        for attempt in itertools.count():
            released = self._released.get(number)
            if released is None or released.is_set():
                return
            if attempt == GARBAGE_ATTEMPTS:  # it may be part of a cycle
                gc.collect()
            await asyncio.sleep(RELEASE_SECONDS)

    def _take_up(self, partition: Partition) -> None:
        number = partition.number
        index = OpenIndex(
            partition,
            Writer(partition, self._on_failure),
            ThreadPoolExecutor(1, f"writer-{number}", run_after_searches),
        )
        index.used = next(self._uses)
        self._open[number] = index
        self._opening.pop(number, None)
        self.merger.add(
            Job(partition, index.writer, index.submit, is_pending=not partition.is_at_rest)
        )
        self._make_room()

    # --- rest

    async def wait_closed(self) -> None:
        """Return once no index is being closed."""
        while self._closing:
            await asyncio.wait(list(self._closing.values()))

    def _make_room(self) -> None:
        """Close the least recently used indexes, if more are open than should be."""
        num_over = len(self._open) - self._settings.open_indexes_max
        if num_over <= 0:
            return
        idle = [
            number
            for number, index in self._open.items()
            if index.num_users == 0 and index.prepared is None and self.merger.is_idle(number)
        ]
        idle.sort(key=lambda number: self._open[number].used)
        newest = max(self._open, key=lambda number: self._open[number].used)
        for number in idle[:num_over]:
            if number != newest:  # it was opened for a request that has not run yet
                index = self._open.pop(number)
                self._seq_on_disk = max(self._seq_on_disk, index.partition.state.seq_max)
                self._released[number] = index.partition.environment.closed
                # No call uses it any more, so this is final; lists show it while the index closes.
                self._closed[number] = ClosedIndex.after(index.partition)
                self._closing[number] = asyncio.ensure_future(self._rest(number, index))
                del index

    async def _rest(self, number: int, index: OpenIndex) -> None:
        """Close an index that is not in use; segments in memory become files."""
        loop = asyncio.get_running_loop()
        closing = loop.run_in_executor(self._closer, partial(self._put_away, number, index))
        del index  # or its environment would not close
        try:
            self._closed[number] = await closing
        except Exception as error:  # the next open finds what is on disk
            _log.error("closing failed", index=number, cause=error)
        finally:
            del self._closing[number]

    def _put_away(self, number: int, index: OpenIndex) -> ClosedIndex:
        self.merger.remove(number)
        index.close()
        return ClosedIndex.after(index.partition)

    @contextmanager
    def using(self, index: OpenIndex) -> Iterator[OpenIndex]:
        """Keep an index open for the body of a `with` statement; on the event loop."""
        index.num_users += 1
        try:
            yield index
        finally:
            self._let_go(index)

    def _let_go(self, index: OpenIndex) -> None:
        index.num_users -= 1
        if len(self._open) > self._settings.open_indexes_max:
            self._make_room()

    async def opened(self, number: int) -> OpenIndex:
        """Return an index that exists; open it first if it is closed.

        Raises:
            Unavailable: `starting`, what exists is not known yet.
            NotFound: there is none of that number.
            InternalError: it is damaged.
        """
        return self.find(number) or await self._serving(number)

    async def _serving(self, number: int) -> OpenIndex:
        """Return an index of this shard; open it first if it rests."""
        while self._has(number):
            index = self._open.get(number)
            if index is not None:
                return index
            if number in self._closing:
                await asyncio.wait([self._closing[number]])
            else:
                opening = self._opening.get(number) or self._begin_opening(number, Opening())
                await asyncio.shield(opening)
        raise NotFound("there is no such index", code="index_not_found")

    async def copy(self, number: int, target: Path, horizon: int | None) -> None:
        """Copy the truth of an index, as of a horizon, into a new folder.

        Raises:
            OSError: no room, or the target exists.
            InvalidRequest: the horizon is too old.
        """
        while number in self._closing:
            await asyncio.wait([self._closing[number]])
        closed = None if number in self._unmade else self._closed.get(number)
        if closed is None or (horizon is not None and closed.seq_max > horizon):
            with self.using(await self._serving(number)) as index:
                await asyncio.to_thread(copy_truth, index.partition, target, horizon)
            return
        copying = asyncio.ensure_future(asyncio.to_thread(copy_file, self._path(number), target))
        # Requests that need it open wait, as for one that is being closed.
        self._closing[number] = asyncio.ensure_future(_ended(copying))
        try:
            await asyncio.shield(copying)
        finally:
            await asyncio.wait([copying])
            del self._closing[number]

    async def _in_thread(self, function: Callable[[], T]) -> T:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._opener, carried(function))

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
        self._open.clear()
        self._opener.shutdown()
        self._closer.shutdown()

    async def _close_all(self) -> None:
        """Close the open indexes; the rest is left to the next start when time has run out."""
        clock = asyncio.get_running_loop().time
        give_up_at = clock() + CLOSE_SECONDS
        waiting = list(self._open.values())

        async def close_some() -> None:
            while waiting and clock() < give_up_at:
                await self._in_thread(waiting.pop().close)

        await asyncio.gather(close_some(), close_some())
        if waiting:
            _log.warning("left for the next open", num_indexes=len(waiting))

    # --- the catalog

    @property
    def is_ready(self) -> bool:
        """Whether the catalog is known, and every index of it serves or rests."""
        return self._has_catalog

    @property
    def seq_max(self) -> int:
        """The highest write sequence on disk, over all indexes; any thread may ask."""
        open_ones = list(self._open.values())
        return max([self._seq_on_disk, *(one.partition.state.seq_max for one in open_ones)])

    async def take_catalog(self, catalog: CatalogUpdate) -> None:
        """Create, drop and re-configure indexes until they match the catalog."""
        async with self._changes:
            if catalog.revision < self._catalog_revision:
                return
            if catalog.base not in (None, self._catalog_revision):
                raise Conflict(
                    f"the catalog is at revision {self._catalog_revision} here, not {catalog.base}"
                )
            wanted = {entry.number: entry for entry in catalog.indexes}
            former = set() if catalog.base is None else self._named - {*catalog.gone}
            self._named = former | wanted.keys()
            for number in (self._created.numbers | self._unmade.keys()) - self._named:
                if catalog.base is None and number not in self._unmade:
                    await self._check_unnamed(number, catalog.revision)
                try:
                    await self._drop(number)
                except OSError as error:  # no request can name it; the next catalog retries
                    _log.warning("not dropped yet", index=number, reason=str(error))
            while self._opening and not self._has_catalog:
                await asyncio.gather(*self._opening.values())
            for entry in wanted.values():
                if not self._has(entry.number):
                    await self._create(entry)
                elif not self._is_configured(entry):
                    with self.using(await self._serving(entry.number)) as index:
                        await self._configurer.configure(index, entry)
            for number, index in list(self._open.items()):
                if index.prepared is not None and number not in wanted:  # it was given up
                    await self._configurer.configure(index, index.partition.generation.entry)
            self._catalog_revision = catalog.revision
            if not self._has_catalog:
                self._has_catalog = True
                unsettled = [n for n, closed in self._closed.items() if not closed.is_settled]
                self._settling = asyncio.ensure_future(self._settle(unsettled))

    def _is_configured(self, entry: IndexEntry) -> bool:
        """Whether a closed index is known to have a configuration."""
        closed = self._closed.get(entry.number)
        return closed is not None and closed.digest == digest_of(entry)

    async def _create(self, entry: IndexEntry) -> None:
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
            self._take_up(await self._in_thread(lambda: self._make(entry)))

    def _make(self, entry: IndexEntry) -> Partition:
        path = self._path(entry.number)
        self._clear(entry.number)
        partition = None
        try:
            if entry.source is None:
                partition = Partition.create(path, entry, self._settings)
            else:
                self._seq_on_disk = max(self._seq_on_disk, entry.source.seq)
                partition = put_back(path, entry, self._shard, self._settings)
            self._created.enter(entry.number)
        except BaseException:
            if partition is not None:
                partition.close()
            if not self._created.may_name(entry.number):
                shutil.rmtree(path, ignore_errors=True)
            raise
        return partition

    def _clear(self, number: int) -> None:
        """Remove what a failed making has left."""
        path = self._path(number)
        if path.exists():
            self._created.strike_if_named(number)
            shutil.rmtree(path)

    async def _check_unnamed(self, number: int, revision: int) -> None:
        """Check that an index which a whole catalog does not name may be dropped.

        It was deleted, or a crash came before the catalog named it; then nothing was written to it.
        But a catalog.json that was cut, or replaced by an older one, may be older than the index.
        (Where several hosts share a log, an older one is brought up to date from the log, and so is
        what was dropped.)

        Raises:
            DataDirectoryError: it is; dropping it would lose what was acknowledged.
        """
        if data_directory.replica_path(self._folder.parent).exists():
            return
        with contextlib.suppress(ServiceError, StorageFailure):  # else there is nothing to save
            with self.using(await self._serving(number)) as index:
                partition = index.partition
                entry, seq = partition.generation.entry, partition.state.seq_max
                is_written = seq > read_restored(partition.environment)
            if is_written and entry.revision > revision:
                error = data_directory.DataDirectoryError(
                    f"the catalog (revision {revision}) is older than index {entry.name!r} in "
                    f"{self._path(number)}, and does not name it: restore catalog.json, or all of "
                    "the data, from a backup; to do without the index, remove that folder and its "
                    f"number from {self._folder / SHARD_FILE}"
                )
                self._on_failure(error)
                raise error

    async def _drop(self, number: int) -> None:
        for tasks in (self._closing, self._opening):
            if number in tasks:
                await asyncio.gather(tasks[number], return_exceptions=True)
        if self._unmade.pop(number, None) is not None:
            del self._closed[number]
            await self._in_thread(lambda: self._clear(number))
            return
        self._seq_on_disk = self.seq_max
        await self._in_thread(lambda: self._created.strike(number))
        index = self._open.pop(number, None)
        self._closed.pop(number, None)
        self._released.pop(number, None)
        await self._in_thread(lambda: self._remove(number, index))

    def _remove(self, number: int, index: OpenIndex | None) -> None:
        self.merger.remove(number)
        if index is not None:
            index.thread.shutdown()
            index.writer.close()
        # The environment is not closed here: a search that began before may still read from it.
        # It closes when the last snapshot has gone; until then its files have no names.
        shutil.rmtree(self._path(number), ignore_errors=True)

    async def prepare(self, entry: IndexEntry, horizon: int = 0) -> None:
        """Note a new index, or build a revision in the background; the catalog puts it in force.

        Args:
            entry: the index with its revision.
            horizon: the oldest state that any request still uses: documents deleted up to it are
                not built.

        Raises:
            Unavailable: an index is not open yet.
            StorageFull, InternalError: the disk refused it.
        """
        async with self._changes:
            if not self._has(entry.number):
                if self._has_catalog:  # else it may be on disk in an unknown state
                    if not self._settings.leave_room(self._folder, NEW_BYTES):
                        raise StorageFull("there is no room on the disk to make the index")
                    await self._create(entry)
                    if entry.number in self._unmade and len(self._opening) < MAKING_MAX:
                        self._begin_opening(entry.number, Opening())
                return
            with self.using(await self.opened(entry.number)) as index:
                await self._configurer.prepare(index, entry, horizon)

    # --- use

    def find(self, number: int) -> OpenIndex | None:
        """Return an index that is open; None if it has to be opened.

        Raises:
            Unavailable: `starting`, what exists is not known yet.
            NotFound: there is none of that number.
        """
        index = self._open.get(number)
        if index is not None:
            index.used = next(self._uses)
            return index
        if not self._has_catalog:
            raise Unavailable("the shard is opening the index; try again soon", code="starting")
        if not self._has(number):
            raise NotFound("there is no such index", code="index_not_found")
        return None

    def kept_open(self, number: int) -> AbstractContextManager[object]:
        """Keep an index open for a read that has its snapshot already.

        Where it has begun to close meanwhile, the snapshot keeps its file mapped.
        """
        index = self._open.get(number)
        return nullcontext() if index is None else self.using(index)

    def keep_open_until(self, done: asyncio.Future[T], number: int) -> None:
        """Keep an index open, as `kept_open` does, until a future is done."""
        index = self._open.get(number)
        if index is not None:
            index.num_users += 1
            done.add_done_callback(lambda _: self._let_go(index))

    def index(self, number: int) -> OpenIndex:
        """Return an index that is open; `find` says whether it is."""
        return self._open[number]

    def snapshot(self, number: int, horizon: int, revision: int | None = None) -> Snapshot:
        """Return a state of an index that is open."""
        return self._open[number].partition.snapshot_at(horizon, revision)

    def all_open(self) -> list[OpenIndex]:
        """Return all indexes that are open."""
        return list(self._open.values())

    def all_closed(self) -> list[tuple[int, ClosedIndex]]:
        """Return all indexes that are not open, by number."""
        return list(self._closed.items())

    def all_numbers(self) -> list[int]:
        """Return the numbers of all indexes."""
        return sorted(self._created.numbers | self._unmade.keys())

    def _resident_bytes_max(self) -> int:
        sizes = [index.partition.file_bytes for index in self.all_open()]
        share = sum(sizes) * self._settings.resident_percent // 100
        return max(RESIDENT_BYTES_MIN // self._num_shards, share)

    def _release_items(self) -> None:
        for index in self.all_open():
            index.partition.environment.release_pages()

    def _release_all(self) -> None:
        self._release_items()
        for index in self.all_open():
            index.partition.release_pages()

    async def apply(self, request: ApplyRequest) -> ApplyResponse:
        """Apply a write group; cancelling the caller does not stop it."""
        with self.using(await self.opened(request.index)) as index:
            done = index.submit(partial(index.writer.apply, request))
            response = await asyncio.shield(asyncio.wrap_future(done))
            self.merger.notify(request.index)
            return response

    async def outcomes(self, request: OutcomesRequest) -> OutcomesResponse:
        """Return what became of a write group, once the earlier ones are finished."""
        with self.using(await self.opened(request.index)) as index:
            outcomes = index.submit(partial(index.writer.outcomes_of, request.seq))
            return await asyncio.wrap_future(outcomes)

    async def newest_groups(self, after: int) -> list[GroupExtent]:
        """Return the newest group of each index that has one after a seq."""
        closed = [number for number, one in self._closed.items() if one.seq_max > after]
        found = []
        for number in sorted({*closed, *self._open, *self._opening, *self._closing}):
            with self.using(await self.opened(number)) as index:
                if index.partition.state.seq_max > after:
                    found.append(index.partition.newest_group())
        return found


async def _ended(task: asyncio.Future[None]) -> None:
    """Return when a task has ended, in whatever way."""
    await asyncio.wait([task])


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
