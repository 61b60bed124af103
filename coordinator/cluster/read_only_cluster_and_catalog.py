"""Cluster and catalog of a reader: one of several coordinators, which changes nothing.

It has its own connections to the shards. It reads the horizons from the memory that it shares with
the owner (`coordinator.cluster.shared_memory`), and the catalog from its file. A request that it
cannot answer exactly as the owner would now, it leaves to the owner: `OwnerOnly`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import ClassVar, Final

from common import data_directory
from common.process.thread_pool import ThreadPool
from common.protocol.messages import Welcome
from common.protocol.methods import OPENING
from coordinator.catalog.catalog import Catalog
from coordinator.catalog.catalog_file import CatalogFile, read_state
from coordinator.catalog.catalog_state import CatalogState
from coordinator.cluster.all_shards import Cluster
from coordinator.cluster.cursor_leases import Leases
from coordinator.cluster.read_horizons import Reading, StatesInUse
from coordinator.cluster.shard_client import ShardClient
from coordinator.cluster.shared_memory import INDEXES_MAX, SharedState
from coordinator.settings import Settings

OPENING_TIMEOUT_MS: Final = 5_000
POLL_SECONDS: Final = 0.005
"""Interval between checks for changes by the owner or a shard."""


class OwnerOnly(Exception):
    """Only the owner can answer this request; nothing was done yet."""


def _leave_to_owner() -> None:
    """Leave a name or key that is not known to the owner, who knows whether this host lags.

    Raises:
        OwnerOnly: always.
    """
    raise OwnerOnly


class SharedReading(Reading):
    """Context manager of `ReaderCluster.reading`."""

    __slots__ = ("_index", "_shared")

    def __init__(self, states: StatesInUse, shared: SharedState, index: int) -> None:
        super().__init__(states)
        self._shared = shared
        self._index = index

    def __enter__(self) -> int:
        """Hold the newest horizon, so that the owner knows of it."""
        shared, index, readers = self._shared, self._index, self._horizon.readers
        seq = shared.horizon(index)
        if not readers:
            while True:
                shared.announce(index, seq)
                newest = shared.horizon(index)
                if newest == seq:
                    break
                seq = newest
        self._seq = seq
        readers[seq] = readers.get(seq, 0) + 1
        return seq

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        states = self._horizon
        states.release(self._seq)
        self._shared.announce(self._index, min(states.readers, default=None))


class ReaderCluster(Cluster):
    """All shards, for reading alone; made by `from_settings`."""

    shared: SharedState

    @classmethod
    def for_reader(cls, settings: Settings, catalog: Catalog, shared: SharedState) -> ReaderCluster:
        """Create the cluster of a reader."""
        cluster = cls.from_settings(settings, catalog)
        cluster.shared = shared
        for shard in cluster.here.values():
            shard.be_reader()
        return cluster

    def check_serving(self) -> None:
        """Leave requests to the owner while this process or the service is not ready."""
        if not (self.shared.is_serving and self.is_ready):
            raise OwnerOnly

    def horizon(self, index: int) -> int:
        """Return the horizon that a search of an index may see now."""
        self._check_index(index)
        return self.shared.horizon(index)

    def reading(self, index: int) -> Reading:
        """Hold the horizon of an index for the body of a `with` statement."""
        self._check_index(index)
        return SharedReading(self.horizons.states(index), self.shared, index)

    def _check_index(self, index: int) -> None:
        if not (self.shared.is_serving and self._ready.is_set()) or index >= INDEXES_MAX:
            raise OwnerOnly

    async def _bring_up_to_date(self, shard: ShardClient, welcome: Welcome) -> None:
        """Wait until the owner has brought a shard in line with the catalog."""
        while not (await shard.call_opening(OPENING, None, OPENING_TIMEOUT_MS)).is_ready:  # noqa: ASYNC110 - another process
            await asyncio.sleep(POLL_SECONDS)
        shard.begin_serving()


class OwnerLeases(Leases):
    """Cursors of a reader: only the owner can read them, and it leases their states."""

    def check_ours(self) -> None:
        """Leave it to the owner."""
        raise OwnerOnly


class ReaderCatalog(Catalog):
    """The catalog as the owner's requests see it.

    Args:
        settings: name the data directory.
        shared: says when it has changed.
    """

    is_ours: ClassVar[bool] = False

    def __init__(self, settings: Settings, shared: SharedState) -> None:
        num_shards = len(settings.shard_addresses) or settings.shards
        self._file = data_directory.catalog_path(settings.data_dir)
        super().__init__(CatalogFile(self._file), num_shards, CatalogState())
        self._shared = shared
        if settings.log_url:
            self.check_complete = _leave_to_owner
        self._seen = 0
        self._is_whole = False
        self._reading = asyncio.Lock()
        self._thread = ThreadPool(1, "catalog")

    async def change_here(
        self, function: Callable[[CatalogState], CatalogState], *, is_active: bool = True
    ) -> CatalogState:
        """Leave it to the owner, who alone knows what the file has."""
        raise OwnerOnly

    @property
    def is_current(self) -> bool:
        """Whether this is what the owner's requests see now."""
        return self._seen == self._shared.version and self._is_whole

    async def catch_up(self) -> None:
        """Read the file if the owner has changed it.

        Raises:
            OwnerOnly: a change is under way.
        """
        async with self._reading:
            version = self._shared.version
            if self._seen == version:
                if self._is_whole:
                    return
                raise OwnerOnly
            revision = self._shared.revision
            state = None if revision is None else await self._read_file()
            self._seen = version
            self._is_whole = state is not None and state.revision == revision
            if state is None or not self._is_whole:
                raise OwnerOnly
            self.state = state
            self.activate()

    def _read_file(self) -> asyncio.Future[CatalogState]:
        """Read the file in a thread of normal priority: requests wait for it."""
        return asyncio.get_running_loop().run_in_executor(self._thread, read_state, self._file)

    async def next_change(self, seconds: float) -> None:
        """Return once requests see other indexes or configurations, or after some time."""
        loop = asyncio.get_running_loop()
        give_up_at = loop.time() + seconds
        while self._seen == self._shared.version and loop.time() < give_up_at:  # noqa: ASYNC110 - another process
            await asyncio.sleep(POLL_SECONDS)
        await self.catch_up()
