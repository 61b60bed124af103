"""The catalog, as a shard follows it: indexes are created, dropped and configured until they agree.

The catalog alone creates an index; what a shard has of it is *made* at its first use, or in the
background as soon as it is prepared.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from common.data_directory import DataDirectoryError, replica_path
from common.errors import Conflict, ServiceError, StorageFull, Unavailable
from common.process.logs import Log
from common.protocol.messages import CatalogUpdate, IndexEntry
from shard.indexes.closed_index_facts import digest_of
from shard.indexes.indexes import Indexes
from shard.indexes.reconfiguration import Configurer
from shard.partition.stored_index_entry import read_restored
from shard.storage.manifest import SHARD_FILE
from shard.storage.storage_errors import StorageFailure, explaining_refusal

DROP_PAUSE_SECONDS: Final = 1.0
"""After the disk has refused to drop an index."""

_log = Log("shard")


class CatalogFollower:
    """Makes the indexes of a shard agree with the catalog.

    Args:
        indexes: of the shard.
        on_failure: called, on any thread, when the process must end.
    """

    def __init__(self, indexes: Indexes, on_failure: Callable[[BaseException], None]) -> None:
        self._indexes = indexes
        self._folders = indexes.folders
        self._configurer = Configurer(indexes.opening.threads, indexes.merge_scheduler, on_failure)
        self._on_failure = on_failure
        self._changes = asyncio.Lock()
        self._revision = -1
        self._named: set[int] = set()
        self._dropping: asyncio.Task[None] | None = None

    async def take(self, catalog: CatalogUpdate) -> None:
        """Create, drop and re-configure indexes until they match the catalog.

        Raises:
            Conflict: it is a difference to another revision than the one here.
        """
        indexes = self._indexes
        async with self._changes:
            if catalog.revision < self._revision:
                return
            if catalog.base not in (None, self._revision):
                raise Conflict(
                    f"the catalog is at revision {self._revision} here, not {catalog.base}"
                )
            wanted = {entry.number: entry for entry in catalog.indexes}
            former = set() if catalog.base is None else self._named - {*catalog.gone}
            self._named = former | wanted.keys()
            for number in set(indexes.all_numbers()) - self._named:
                await self._drop(number, catalog)
            if not indexes.is_ready:
                await indexes.opening.wait_for_all()
            for entry in wanted.values():
                await self._follow(entry)
            for index in indexes.open.all():
                number = index.partition.number
                if index.prepared is not None and number not in wanted:  # it was given up
                    await self._configurer.configure(index, index.partition.generation.entry)
            self._revision = catalog.revision
            if not indexes.is_ready:
                indexes.begin_serving()

    async def _follow(self, entry: IndexEntry) -> None:
        """Create an index, or put its configuration in force."""
        indexes = self._indexes
        if not indexes.has(entry.number):
            await indexes.create(entry)
            return
        closed = indexes.closed.get(entry.number)
        if closed is None or closed.digest != digest_of(entry):
            with indexes.open.using(await indexes.serving(entry.number)) as index:
                await self._configurer.configure(index, entry)

    async def _drop(self, number: int, catalog: CatalogUpdate) -> None:
        """Drop an index that the catalog does not name."""
        if catalog.base is None and self._indexes.closed.unmade(number) is None:
            await self._check_unnamed(number, catalog.revision)
        try:
            await self._indexes.drop(number)
        except OSError as error:  # no request can name it
            _log.warning("not dropped yet", index=number, reason=str(error))
            if self._dropping is None or self._dropping.done():
                self._dropping = asyncio.create_task(self._drop_when_possible())

    async def _drop_when_possible(self) -> None:
        """Try again to drop indexes that the catalog does not name: they may fill the disk."""
        left = True
        while left:
            await asyncio.sleep(DROP_PAUSE_SECONDS)
            async with self._changes:
                left = False
                for number in set(self._indexes.all_numbers()) - self._named:
                    try:
                        await self._indexes.drop(number)
                    except OSError:
                        left = True

    async def _check_unnamed(self, number: int, revision: int) -> None:
        """Check that an index which a whole catalog does not name may be dropped.

        It was deleted, or a crash came before the catalog named it; then nothing was written to it.
        But a catalog.json that was cut, or replaced by an older one, may be older than the index.
        (Where several hosts share a log, an older one is brought up to date from the log, and so is
        what was dropped.)

        Raises:
            Unavailable: it is; dropping it would lose what was acknowledged, so the process ends.
        """
        if replica_path(self._folders.folder.parent).exists():
            return
        indexes = self._indexes
        try:
            with indexes.open.using(await indexes.serving(number)) as index:
                partition = index.partition
                entry, seq = partition.generation.entry, partition.state.seq_max
                is_written = seq > read_restored(partition.environment)
        except (ServiceError, StorageFailure):
            return  # there is nothing to save
        if is_written and entry.revision > revision:
            error = DataDirectoryError(
                f"the catalog (revision {revision}) is older than index {entry.name!r} in "
                f"{self._folders.path(number)}, and does not name it: restore catalog.json, or "
                "all of the data, from a backup; to do without the index, remove that folder "
                f"and its number from {self._folders.folder / SHARD_FILE}"
            )
            self._on_failure(error)  # which says so
            raise Unavailable("the catalog is older than an index of this shard") from error

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
        indexes = self._indexes
        async with self._changes:
            if entry.number not in self._named and indexes.has(entry.number) and indexes.is_ready:
                # Of an attempt that was given up: its items are not those of this index.
                with explaining_refusal("to remove an index that was given up"):
                    await indexes.drop(entry.number)
            if indexes.has(entry.number):
                with indexes.open.using(await indexes.opened(entry.number)) as index:
                    await self._configurer.prepare(index, entry, horizon)
            elif indexes.is_ready:  # else it may be on disk in an unknown state
                if not self._folders.has_room():
                    raise StorageFull("there is no room on the disk to make the index")
                await indexes.create(entry)
                indexes.opening.make_ahead(entry.number)
