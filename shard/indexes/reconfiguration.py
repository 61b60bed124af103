"""Revisions of an index's configuration: built in the background, then put in force (`reindex`)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from common.process.request_id_context import carried
from common.process.thread_pool import ThreadPool
from common.protocol.messages import IndexEntry
from shard.indexes.open_index import OpenIndex
from shard.partition.merge_flush_and_purge_scheduler import MergeScheduler
from shard.partition.reindex import Reindex
from shard.storage.storage_errors import StorageFailure, explaining_refusal

T = TypeVar("T")


class Configurer:
    """Builds revisions of open indexes and puts them in force.

    Args:
        threads: where revisions are built.
        merge_scheduler: told of what changes.
        on_failure: called, on any thread, when the process must end.
    """

    def __init__(
        self,
        threads: ThreadPool,
        merge_scheduler: MergeScheduler,
        on_failure: Callable[[BaseException], None],
    ) -> None:
        self._threads = threads
        self._merge_scheduler = merge_scheduler
        self._on_failure = on_failure

    async def prepare(self, index: OpenIndex, entry: IndexEntry, horizon: int) -> None:
        """Build a revision, replacing one prepared earlier.

        Args:
            index: which is open.
            entry: with its revision.
            horizon: the oldest state that any request still uses: documents deleted up to it are
                not built.

        Raises:
            StorageFull, InternalError: the disk refused it.
        """
        if index.prepared is not None:
            await self._in_thread(index.prepared.discard)
            index.prepared = None
        index.prepared = await self._build(index, entry.without_source(), horizon)

    async def configure(self, index: OpenIndex, entry: IndexEntry) -> None:
        """Put a revision in force; discard a prepared one that is no longer needed."""
        entry = entry.without_source()
        prepared, index.prepared = index.prepared, None
        running = index.partition.generation.entry
        # Compare whole entries: the number of an abandoned revision is reused.
        if prepared is not None and prepared.entry != entry:
            await self._in_thread(prepared.discard)
            prepared = None
        if running == entry:
            if prepared is not None:
                await self._in_thread(prepared.discard)
            return
        if prepared is None:
            prepared = await self._build(index, entry, 0)
        with explaining_refusal("to configure the index"):
            try:
                await asyncio.wrap_future(index.submit(prepared.finish))
            except StorageFailure as error:
                self._on_failure(error)
                raise
        self._merge_scheduler.notify(entry.number)

    async def _build(self, index: OpenIndex, entry: IndexEntry, horizon: int) -> Reindex:
        def make() -> Reindex:
            # On the writer's thread: only it may compact the log and number paths.
            index.writer.settle(horizon)
            return Reindex(index.partition, entry)

        with explaining_refusal("to build the index again"):
            reindex = await asyncio.wrap_future(index.submit(make))
        try:
            with explaining_refusal("to build the index again"):
                await self._in_thread(reindex.run)
        except BaseException:
            await self._in_thread(reindex.discard)
            raise
        return reindex

    async def _in_thread(self, function: Callable[[], T]) -> T:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, carried(function))
