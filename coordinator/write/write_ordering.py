"""The order of all changes, and when each is done: a write log decides.

    Ingest ──▶ WriteLog ─┬─ EmbeddedLog     this service alone numbers its groups and sends them
                         └─ (a log that several hosts share)                    to its shards

Every write of items goes through the queue of its index; every change of the catalog's indexes
through `put_index` and `drop_index`. A log answers a change once it is durable and visible here.

A batch reaches its queue in the form that the log wants. The embedded log divides items over the
shards as early as possible, in the thread that has read them; a shared log keeps them together,
because each host divides them over its own shards.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any, ClassVar

from common.errors import ServiceError
from common.protocol.messages import IndexEntry, PrepareConfiguration
from common.protocol.methods import PREPARE
from coordinator.catalog.catalog import Catalog, Index
from coordinator.catalog.catalog_state import CatalogState
from coordinator.cluster.all_shards import Cluster
from coordinator.settings import Settings
from coordinator.write.batch_queue import BatchQueue
from coordinator.write.deleted_index_checks import index_deleted
from coordinator.write.group_commit_queue import WriteQueue
from coordinator.write.new_index_checks import check_no_alias
from coordinator.write.partitioning import (
    ItemOperation,
    Parts,
    SelectedChange,
    divide_operations,
    divide_selected,
    on_all_shards,
)
from coordinator.write.write_batch import Items, WriteBatch

ChangeOfCatalog = Callable[[CatalogState], CatalogState]

DocumentOf = Callable[[dict[str, Any]], dict[str, Any]]
"""Returns the complete new configuration of an index, given the current one ({} if there is none);
raises if it cannot be."""


class WriteLog(ABC):
    """Decides the order of all changes.

    Attributes:
        is_shared: whether other hosts write to the same log.
    """

    is_shared: ClassVar[bool] = False

    # --- items

    @abstractmethod
    def queue(self, index: int) -> BatchQueue:
        """Return the queue of an index (by number); it is made at its first use."""

    @abstractmethod
    def num_waiting(self) -> int:
        """Return the number of waiting batches, over all indexes."""

    @abstractmethod
    def divide(self, items: Items) -> Parts | None:
        """Divide items for a batch, in any thread; None if they stay together for now."""

    @abstractmethod
    def batch_of_operations(
        self,
        operations: Sequence[ItemOperation],
        versions: dict[int, bytes] | None = None,
        positions: Mapping[str, str] | None = None,
    ) -> WriteBatch:
        """Return the batch of single operations.

        Args:
            operations: in order.
            versions: 8-byte precondition by ordinal in `operations`.
            positions: of sources of changes, by name, stored by every shard in the same commit; an
                empty one forgets its source.
        """

    @abstractmethod
    def batch_of_selected(self, changes: Sequence[SelectedChange]) -> WriteBatch:
        """Return the batch of changes to selected items."""

    # --- indexes

    @abstractmethod
    async def put_index(self, name: str, document_of: DocumentOf) -> None:
        """Create an index, or put a new configuration of it in force: on all shards or none."""

    @abstractmethod
    async def drop_index(self, index: Index, change: ChangeOfCatalog) -> None:
        """Delete an index and its data.

        Args:
            index: what to delete.
            change: returns the catalog without it; another index may take its name at the same
                moment.
        """

    @abstractmethod
    async def prepare(self, entry: IndexEntry) -> None:
        """Have all shards build a new revision while the old one keeps serving."""

    def check_can_restore(self) -> None:  # noqa: B027 - most logs can
        """Raise if indexes cannot be made from a snapshot over HTTP."""

    @abstractmethod
    def holding_indexes(self) -> AbstractAsyncContextManager[None]:
        """Keep the catalog's indexes as they are for the body of an `async with` statement."""


class EmbeddedLog(WriteLog):
    """The log of a service on one host: group numbers of its own, durable in its shards.

    Args:
        cluster: the shards.
        catalog: the indexes.
        settings: sizes and timeouts.
    """

    def __init__(self, cluster: Cluster, catalog: Catalog, settings: Settings) -> None:
        self._cluster = cluster
        self._catalog = catalog
        self._settings = settings
        self._queues: dict[int, WriteQueue] = {}

    def queue(self, index: int) -> WriteQueue:
        """Return the queue of an index."""
        queue = self._queues.get(index)
        if queue is None:
            queue = self._queues[index] = WriteQueue(
                self._cluster,
                index,
                group_bytes=self._settings.group_bytes,
                group_operations=self._settings.group_operations,
                waiting_max=self._settings.writes_waiting_max,
                timeout_ms=self._settings.write_timeout_ms,
            )
        return queue

    def num_waiting(self) -> int:
        """Return the number of waiting batches."""
        return sum(queue.num_waiting for queue in self._queues.values())

    def divide(self, items: Items) -> Parts | None:
        """Divide items unless the shard of some depends on an insertion number."""
        return items.divide(self._cluster.num_shards) if items.has_id.all() else None

    def batch_of_operations(
        self,
        operations: Sequence[ItemOperation],
        versions: dict[int, bytes] | None = None,
        positions: Mapping[str, str] | None = None,
    ) -> WriteBatch:
        """Return the batch of single operations."""
        parts = divide_operations(operations, self._cluster.num_shards, versions)
        if positions:
            parts = on_all_shards(parts, self._cluster.num_shards)
        num_bytes = sum(len(one.payload) for one in operations)
        return WriteBatch(len(operations), num_bytes, parts=parts, positions=positions)

    def batch_of_selected(self, changes: Sequence[SelectedChange]) -> WriteBatch:
        """Return the batch of changes, each with the record that the item must still have."""
        num_bytes = sum(len(change.payload) for change in changes)
        return WriteBatch(len(changes), num_bytes, parts=divide_selected(changes))

    async def put_index(self, name: str, document_of: DocumentOf) -> None:
        """Prepare, commit, activate; writes to the index wait meanwhile."""
        current = self._catalog.indexes.get(name)
        document = document_of({} if current is None else current.document)
        stored = self._catalog.state.new_entry(name, document)
        queue = None if current is None else self.queue(current.number)
        if queue is not None:
            await queue.hold()

        def change(state: CatalogState) -> CatalogState:
            check_no_alias(state.aliases, name)  # one may have been set while the shards prepared
            return state.with_index(stored)

        try:
            await self.prepare(stored.entry)
            try:
                await self._catalog.change(change, is_active=False)
            finally:
                await self._cluster.push_catalog()  # shards discard a revision that it has not
            self._catalog.activate()
        finally:
            if queue is not None:
                queue.release()

    async def drop_index(self, index: Index, change: ChangeOfCatalog) -> None:
        """Commit, hide, drop."""
        queue = self.queue(index.number)
        await queue.hold()
        try:
            await self._catalog.change(change, is_active=False)
            self._catalog.activate()
            queue.drop(index_deleted())
            del self._queues[index.number]
            await self._cluster.push_catalog()
            self._cluster.horizons.forget(index.number)
        finally:
            queue.release()

    async def prepare(self, entry: IndexEntry) -> None:
        """Have all shards build a new revision while the old one keeps serving."""
        try:
            await prepare_on_shards(self._cluster, entry, self._settings.configure_timeout_ms)
        except ServiceError:
            await self._cluster.push_catalog()  # names no such revision, so shards discard it
            raise

    def holding_indexes(self) -> AbstractAsyncContextManager[None]:
        """Return at once: only `IndexAdministration` changes indexes, one after the other."""
        return nullcontext()


async def prepare_on_shards(cluster: Cluster, entry: IndexEntry, timeout_ms: int) -> None:
    """Have all shards build a new revision; if one fails, wait for the others, then raise.

    Raises:
        ServiceError: of a shard that could not.
    """
    params = PrepareConfiguration(entry, cluster.oldest_horizon(entry.number))
    calls: list[asyncio.Future[None]] = []
    try:
        for shard in cluster.here.values():
            # Not a comprehension: after a failure, the calls already made must be awaited.
            calls.append(shard.call(PREPARE, params, timeout_ms))  # noqa: PERF401
        for call in calls:
            await call
    except ServiceError:
        await asyncio.gather(*calls, return_exceptions=True)
        raise


def present_queue(log: WriteLog, catalog: Catalog, index: Index) -> BatchQueue:
    """Return the queue of an index, which must still exist.

    Raises:
        ConfigurationSwitched: it was deleted.
    """
    if catalog.present(index) is None:
        raise index_deleted()
    return log.queue(index.number)
