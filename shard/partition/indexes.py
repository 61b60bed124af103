"""All indexes of this shard: opened at start, made to agree with the catalog, closed at stop.

    <shard folder>/shard.json        the numbers of the indexes that this shard has made
    <shard folder>/index-<number>/   one partition each

To create an index: make the folder, then enter its number in shard.json. To drop one: remove the
number from shard.json, then the folder. So a folder without a number is a leftover of a crash and
is removed. A number without a folder is a loss: the shard refuses to start rather than serve an
empty index.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TypeVar

from common import data_directory
from common.data_directory import DataDirectoryError
from common.errors import InternalError, NotFound, StorageFull, Unavailable
from common.process.logs import Log
from common.process.priority import run_behind_searches
from common.process.request_ids import carried
from common.protocol.messages import (
    ApplyRequest,
    ApplyResponse,
    CatalogUpdate,
    IndexEntry,
    OutcomesRequest,
    OutcomesResponse,
)
from common.shard_settings import ShardSettings
from shard.caches.recent_items import RECENT_ITEMS
from shard.partition.backup import put_back
from shard.partition.merger import Job, Merger, flush
from shard.partition.opening import Opening
from shard.partition.partition import Partition
from shard.partition.rebuild import Rebuild
from shard.partition.writer import Writer
from shard.segment.snapshot import Snapshot
from shard.storage.environment import (
    DamagedEnvironment,
    Environment,
    StorageFailure,
    is_disk_full,
    refusal_told,
)
from shard.storage.group_log import read_state
from shard.storage.manifest import (
    FORMAT,
    SHARD_FILE,
    ShardManifest,
    UnreadableManifest,
    read_manifest,
    write_manifest,
)
from shard.storage.residency import RESIDENT_BYTES_MIN, PageBudget

_log = Log("shard")

T = TypeVar("T")


@dataclass(slots=True)
class OpenIndex:
    """An index that serves.

    Attributes:
        partition: its data.
        writer: applies groups, on `thread`.
        thread: one thread; also for maintenance that must not run beside a group.
        prepared: a configuration that was built and waits for the catalog.
    """

    partition: Partition
    writer: Writer
    thread: ThreadPoolExecutor
    prepared: Rebuild | None = field(default=None)

    def submit(self, function: Callable[[], T]) -> Future[T]:
        """Run a function on the writer's thread."""
        return self.thread.submit(carried(function))


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
        self._known: set[int] = set()
        self._changes = asyncio.Lock()
        self._catalog_revision = -1
        self._has_catalog = False
        self._seq_on_disk = 0
        self._opener = ThreadPoolExecutor(2, "opener")
        self.opening = Opening()
        self.merger = Merger()
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
        manifest = self._read_shard_manifest()
        self._known = set(manifest.indexes)
        self._seq_on_disk = manifest.seq_max
        for path in self._folder.glob("index-*"):
            if int(path.name.removeprefix("index-")) not in self._known:
                _log.warning("leftover of an unfinished change removed", folder=path.name)
                shutil.rmtree(path)
        for number in sorted(self._known):
            self._seq_on_disk = max(self._seq_on_disk, self._peek_seq(number))
        self.merger.start()
        self.opening.num_indexes = len(self._known)
        for number in sorted(self._known):
            self._opening[number] = asyncio.ensure_future(self._open_one(number))

    def _read_shard_manifest(self) -> ShardManifest:
        path = self._folder / SHARD_FILE
        try:
            manifest = read_manifest(path, ShardManifest)
        except UnreadableManifest as error:
            raise DataDirectoryError(
                f"{path} cannot be read ({error}); restore it from a backup"
            ) from error
        if manifest is None:
            if any(self._folder.glob("index-*/data.mdb")):
                raise DataDirectoryError(
                    f"{path} is missing, but there are indexes beside it; restore it from a backup"
                )
            manifest = ShardManifest(FORMAT, self._shard, self._num_shards, ())
            write_manifest(path, manifest)
        if (manifest.shard, manifest.num_shards) != (self._shard, self._num_shards):
            raise DataDirectoryError(
                f"{self._folder} is shard {manifest.shard} of {manifest.num_shards}, "
                f"not shard {self._shard} of {self._num_shards}"
            )
        return manifest

    def write_manifest(self, folder: Path) -> None:
        """Write to a folder which indexes this shard has."""
        write_manifest(
            folder / SHARD_FILE,
            ShardManifest(
                FORMAT, self._shard, self._num_shards, tuple(sorted(self._known)), self.seq_max
            ),
        )

    def _path(self, number: int) -> Path:
        return self._folder / f"index-{number}"

    def _peek_seq(self, number: int) -> int:
        """Return the highest seq of an index without opening its derived data."""
        path = self._path(number)
        environment = Environment.open(path, self._settings.map_bytes_max)
        try:
            with environment.read() as txn:
                return read_state(txn).seq_max
        except InternalError as error:
            raise DamagedEnvironment(
                f"the counters in {path} are damaged: restore the index from a backup"
            ) from error
        finally:
            environment.close()

    async def _open_one(self, number: int) -> None:
        try:
            partition = await self._in_thread(
                lambda: Partition.open(
                    self._path(number), number, self._settings, opening=self.opening
                )
            )
        except OSError as error:
            # Where there is no room, a later start may find some.
            is_temporary = is_disk_full(error)
            self._on_failure(
                error if is_temporary else data_directory.refusal_explained(self._folder, error)
            )
            raise
        except Exception as error:
            self._on_failure(error)
            raise
        self._take_up(partition)
        self.opening.add_open()

    def _take_up(self, partition: Partition) -> None:
        number = partition.number
        index = OpenIndex(
            partition,
            Writer(partition, self._on_failure),
            ThreadPoolExecutor(1, f"writer-{number}", run_behind_searches),
        )
        self._open[number] = index
        self._opening.pop(number, None)
        self.merger.add(Job(partition, index.writer, index.submit))

    async def _in_thread(self, function: Callable[[], T]) -> T:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._opener, carried(function))

    async def close(self) -> None:
        """Finish running work, write what is in memory, release everything."""
        for task in self._opening.values():
            task.cancel()
        await self._in_thread(self.merger.stop)
        for index in self._open.values():
            await self._in_thread(lambda index=index: _close(index))  # type: ignore[misc]
        self._open.clear()
        self._opener.shutdown()

    # --- the catalog

    @property
    def is_ready(self) -> bool:
        """Whether the catalog is known and every index of it serves."""
        return self._has_catalog and not self._opening

    @property
    def seq_max(self) -> int:
        """The highest write sequence on disk, over all indexes."""
        return max(
            [self._seq_on_disk, *(one.partition.state.seq_max for one in self._open.values())]
        )

    async def take_catalog(self, catalog: CatalogUpdate) -> None:
        """Create, drop and re-configure until the indexes are those of the catalog."""
        async with self._changes:
            if catalog.revision < self._catalog_revision:
                return
            wanted = {entry.number: entry for entry in catalog.indexes}
            for number in self._known - wanted.keys():
                try:
                    await self._drop(number)
                except OSError as error:  # no request can name it; the next catalog retries
                    _log.warning("not dropped yet", index=number, reason=str(error))
            while self._opening:
                await asyncio.gather(*self._opening.values())
            for entry in wanted.values():
                if entry.number not in self._known:
                    await self._create(entry)
                else:
                    await self._configure(self._open[entry.number], entry)
            self._catalog_revision = catalog.revision
            self._has_catalog = True

    async def _create(self, entry: IndexEntry) -> None:
        """Make an index, empty or from a snapshot; on failure leave nothing.

        Raises:
            StorageFull, InternalError: the disk refused it, or the snapshot is damaged.
        """
        with refusal_told("to make the index"):
            self._take_up(await self._in_thread(lambda: self._make(entry)))

    def _make(self, entry: IndexEntry) -> Partition:
        path = self._path(entry.number)
        shutil.rmtree(path, ignore_errors=True)
        partition = None
        try:
            if entry.source is None:
                partition = Partition.create(path, entry, self._settings)
            else:
                self._seq_on_disk = max(self._seq_on_disk, entry.source.seq)
                partition = put_back(path, entry, self._shard, self._settings)
            self._write_known(self._known | {entry.number})
        except BaseException:
            if partition is not None:
                partition.close()
            if not self._may_be_named(entry.number):
                shutil.rmtree(path, ignore_errors=True)
            raise
        return partition

    def _may_be_named(self, number: int) -> bool:
        """Whether shard.json names an index, or may: its next start will look for it then.

        A failed write of shard.json may have changed it: if only the sync after it failed.
        """
        try:
            manifest = read_manifest(self._folder / SHARD_FILE, ShardManifest)
        except (OSError, UnreadableManifest):
            return True
        return manifest is not None and number in manifest.indexes

    def _write_known(self, known: set[int]) -> None:
        """Change which indexes there are, on disk and then here."""
        former, self._known = self._known, known
        try:
            self.write_manifest(self._folder)
        except BaseException:
            self._known = former
            raise

    async def _drop(self, number: int) -> None:
        if number in self._opening:
            await asyncio.gather(self._opening[number], return_exceptions=True)
        self._seq_on_disk = self.seq_max
        await self._in_thread(lambda: self._write_known(self._known - {number}))
        index = self._open.pop(number, None)
        await self._in_thread(lambda: self._remove(number, index))

    def _remove(self, number: int, index: OpenIndex | None) -> None:
        self.merger.remove(number)
        if index is not None:
            index.thread.shutdown()
            index.writer.close()
        # The environment is not closed here: a search that began before may still read from it.
        # It closes when the last snapshot has gone; until then its files have no names.
        shutil.rmtree(self._path(number), ignore_errors=True)

    async def _configure(self, index: OpenIndex, entry: IndexEntry) -> None:
        """Put a revision in force; discard a prepared one that is not wanted."""
        entry = entry.without_source()
        prepared, index.prepared = index.prepared, None
        running = index.partition.generation.entry
        if prepared is not None and prepared.entry.revision != entry.revision:
            await self._in_thread(prepared.discard)
            prepared = None
        # Compare the whole entry: the number of a prepared revision that never came is used again.
        if running == entry:
            if prepared is not None:
                await self._in_thread(prepared.discard)
            return
        if prepared is None:
            prepared = await self._prepare(index, entry)
        with refusal_told("to configure the index"):
            try:
                await asyncio.wrap_future(index.submit(prepared.finish))
            except StorageFailure as error:
                self._on_failure(error)
                raise
        self.merger.notify(entry.number)

    async def prepare(self, entry: IndexEntry, horizon: int = 0) -> None:
        """Make an index, or build a revision in the background; the catalog puts it in force.

        Args:
            entry: the index with its revision.
            horizon: the oldest state that any request still uses: what died up to it is not built.

        Raises:
            Unavailable: an index is not open yet.
            StorageFull, InternalError: the disk refused it.
        """
        async with self._changes:
            if entry.number not in self._known:
                if self._has_catalog:  # else it may be on disk in an unknown state
                    await self._create(entry)
                return
            index = self.index(entry.number)
            if index.prepared is not None:
                await self._in_thread(index.prepared.discard)
                index.prepared = None
            index.prepared = await self._prepare(index, entry.without_source(), horizon)

    async def _prepare(self, index: OpenIndex, entry: IndexEntry, horizon: int = 0) -> Rebuild:
        def make() -> Rebuild:
            # On the writer's thread: it alone may compact the log, and give numbers to paths.
            index.writer.settle(horizon)
            return Rebuild(index.partition, entry)

        with refusal_told("to build the index again"):
            rebuild = await asyncio.wrap_future(index.submit(make))
        try:
            with refusal_told("to build the index again"):
                await self._in_thread(rebuild.run)
        except BaseException:
            await self._in_thread(rebuild.discard)
            raise
        return rebuild

    # --- use

    def index(self, number: int) -> OpenIndex:
        """Return an index that serves.

        Raises:
            Unavailable: `starting`, it is being opened.
            NotFound: there is none of that number.
        """
        index = self._open.get(number)
        if index is not None:
            return index
        if number in self._known or not self._has_catalog:
            raise Unavailable("the shard is opening the index; try again soon", code="starting")
        raise NotFound("there is no such index", code="index_not_found")

    def all_open(self) -> list[OpenIndex]:
        """Return all indexes that serve."""
        return list(self._open.values())

    def snapshot(self, number: int, horizon: int, revision: int | None = None) -> Snapshot:
        """Return a state of an index."""
        return self.index(number).partition.snapshot_at(horizon, revision)

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
            index.partition.history.release_pages()

    async def apply(self, request: ApplyRequest) -> ApplyResponse:
        """Apply a write group; cancelling the caller does not stop it."""
        index = self.index(request.index)
        done = index.submit(partial(index.writer.apply, request))
        response = await asyncio.shield(asyncio.wrap_future(done))
        self.merger.notify(request.index)
        return response

    async def outcomes(self, request: OutcomesRequest) -> OutcomesResponse:
        """Return what became of a write group, once the earlier ones are finished."""
        index = self.index(request.index)
        asked = index.submit(partial(index.writer.outcomes_of, request.seq))
        return await asyncio.wrap_future(asked)


def _close(index: OpenIndex) -> None:
    """Finish the writer, write what is in memory, so that the next open has nothing to index.

    The environment stays open: a slow search may still read from it, and the process ends anyway.
    """
    index.thread.shutdown()
    index.writer.close()
    try:
        index.writer.fold()
        flush(index.partition)
    except (OSError, StorageFull) as error:
        _log.warning("left for the next open", index=index.partition.number, reason=str(error))
