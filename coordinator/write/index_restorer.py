"""Creates indexes from a snapshot, and copies from one made for the purpose.

    prepare   every shard copies its file under the new number, and builds the index
    commit    the catalog names all of them at once, with their *source*, the snapshot
    activate  the shards learn of the catalog; requests see the indexes
    release   once every shard is known to have them, the catalog forgets the source

A shard that is killed before the commit discards the indexes, which the catalog does not name. One
that is killed after it builds them from their source instead of starting them empty.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from common.errors import ServiceError, Unavailable
from common.limits import Limits
from common.process.fault_injection import fault
from common.process.logs import Log
from coordinator.catalog.catalog import Catalog, Index
from coordinator.catalog.catalog_state import CatalogState, RestoredIndex, StoredIndex
from coordinator.cluster.all_shards import Cluster
from coordinator.write.deleted_index_checks import without
from coordinator.write.new_index_checks import check_free, check_num_indexes
from coordinator.write.write_ordering import WriteLog

_log = Log("ingest")


class IndexRestorer:
    """Restores indexes while nothing else changes any; its caller sees to that.

    Args:
        cluster: the shards.
        catalog: the indexes.
        limits: in force.
        log: decides the order of all changes.
    """

    def __init__(self, cluster: Cluster, catalog: Catalog, limits: Limits, log: WriteLog) -> None:
        self._cluster = cluster
        self._catalog = catalog
        self._limits = limits
        self._log = log

    async def restore(self, wanted: Sequence[RestoredIndex]) -> None:
        """Create indexes: all of them on all shards, or none.

        Raises:
            As `IndexAdministration.restore`.
        """
        catalog = self._catalog
        for one in wanted:
            check_free(catalog.state, one.name)
        check_num_indexes(catalog.state, self._limits, len(wanted))
        stored: list[StoredIndex] = []
        state = catalog.state
        for one in wanted:
            index = state.new_entry(one.name, one.configuration)
            stored.append(msgspec.structs.replace(index, source=one.source))
            state = state.with_index(stored[-1])
        for index in stored:
            await self._log.prepare(index.entry)
        fault("restore.prepared")

        def with_all(state: CatalogState) -> CatalogState:
            for index in stored:
                check_free(state, index.name)  # an alias may have been set meanwhile
                state = state.with_index(index)
            return state

        try:
            await catalog.change(with_all, is_active=False)
        except (ServiceError, OSError):
            await self._cluster.push_catalog()  # does not name them, so shards discard them
            raise
        fault("restore.named")
        for index, one in zip(stored, wanted, strict=True):
            self._cluster.take_up(index.number, one.source.seq)
        await self._cluster.push_catalog()
        catalog.activate()
        for index in stored:
            _log.info("restored", index=index.name, number=index.number)
        await self.release_sources()

    async def restore_over(self, former: Index, wanted: RestoredIndex) -> None:
        """Restore an index in the place of another one, which is deleted at the same moment.

        A crash leaves one of the two under the name, and nothing of the other.

        Raises:
            As `restore`.
        """
        new = self._catalog.state.new_entry("", wanted.configuration)
        stored = msgspec.structs.replace(new, name=former.name, source=wanted.source)

        def with_new(state: CatalogState) -> CatalogState:
            changed = without(state, former).with_index(stored)
            return msgspec.structs.replace(changed, aliases=state.aliases)

        shards = self._cluster.here.values()
        epochs = [shard.epoch for shard in shards]
        await self._log.prepare(stored.entry)
        fault("restore.prepared")
        self._cluster.take_up(stored.number, wanted.source.seq)
        try:
            if [shard.epoch for shard in shards] != epochs:
                raise Unavailable(
                    "a shard was away meanwhile and has to begin again; nothing was changed",
                    code="shard_unavailable",
                )
            await self._log.drop_index(former, with_new)
        except ServiceError:
            self._cluster.horizons.forget(stored.number)
            await self._cluster.push_catalog()  # does not name it, so shards discard it
            raise
        fault("restore.named")
        _log.info("copied over", index=former.name, number=stored.number)
        await self.release_sources()

    def can_release_sources(self) -> bool:
        """Whether the catalog has sources of restored indexes, and all shards serve."""
        return self._cluster.is_ready and any(one.source for one in self._catalog.state.indexes)

    async def release_sources(self) -> None:
        """Forget the sources of restored indexes, once all shards have the indexes.

        If all shards serve, each has applied the current catalog, since nothing else changes it. If
        the disk refuses it, the indexes are there all the same; it is tried again later.
        """
        if not self.can_release_sources():
            return
        try:
            await self._catalog.change(CatalogState.without_sources, is_active=False)
        except ServiceError as error:
            _log.warning("sources of restored indexes not released yet", reason=error.message)
