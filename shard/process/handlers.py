"""The table of methods of a shard: method → function. Decode and encode are the connection's work.

A read is a pure function of a snapshot and a request; `read_scheduler` decides where it runs. Reads
that are known to take long (`search_cost.is_slow` and its siblings: many words, many bytes to
highlight) go to a reader thread. Calls that wait for the disk (writes, configuration, backup) are
coroutines.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

from common.errors import ConfigurationSwitched, NotFound
from common.process.cooperative_scheduler import LoopScheduler
from common.process.fault_injection import fault
from common.process.request_id_context import carried
from common.process.thread_pool import ThreadPool
from common.process.thread_priority import run_in_background
from common.protocol.messages import (
    ApplyRequest,
    ApplyResponse,
    BackupRequest,
    CatalogUpdate,
    FacetValuesRequest,
    FacetValuesResponse,
    FetchRequest,
    FetchResponse,
    FieldNamesRequest,
    FieldNamesResponse,
    FingerprintRequest,
    FingerprintResponse,
    GetRequest,
    GetResponse,
    IndexStatisticsRequest,
    IndexStatisticsResponse,
    JoinedGroups,
    NewestGroupsRequest,
    NewestGroupsResponse,
    OpeningStatistics,
    OutcomesRequest,
    OutcomesResponse,
    PositionsRequest,
    PositionsResponse,
    PrepareConfiguration,
    ProcessStatistics,
    SearchRequest,
    SearchResponse,
    StatisticsRequest,
    StatisticsResponse,
    TermsRequest,
    TermsResponse,
)
from common.protocol.methods import (
    APPLY,
    APPLY_JOINED,
    BACKUP,
    CATALOG,
    FACET_VALUES,
    FETCH,
    FIELD_NAMES,
    FINGERPRINT,
    GET,
    INDEX_STATISTICS,
    NEWEST_GROUPS,
    OPENING,
    OUTCOMES,
    PING,
    POSITIONS,
    PREPARE,
    PROCESS_STATISTICS,
    SEARCH,
    STATISTICS,
    TERMS,
)
from common.protocol.server import Handler
from shard.indexes.catalog_follower import CatalogFollower
from shard.indexes.index_statistics import index_statistics
from shard.indexes.indexes import Indexes
from shard.indexes.newest_write_groups import kept_from, newest_groups
from shard.indexes.write_dispatcher import WriteDispatcher
from shard.partition.fingerprint import fingerprint_of
from shard.process.read_scheduler import ReadScheduler
from shard.process.shard_statistics import shard_statistics
from shard.query.spelling.completions_and_near_spellings import is_slow_to_list, near_terms
from shard.read import corpus_statistics, facet_value_lookup, fetch, search_cost, searcher
from shard.read.highlight import is_slow_to_mark
from shard.segment.snapshot import Snapshot
from shard.storage.change_source_positions import read_positions
from shard.storage.storage_errors import explaining_refusal


class IndexRequest(Protocol):
    """A request that names an index."""

    @property
    def index(self) -> int:
        """Its number."""


COPIES: Final = 4
"""Indexes copied at the same time: their syncs share commits of the file system's journal."""

T = TypeVar("T")
R = TypeVar("R", bound=IndexRequest)


class Handlers:
    """Handles the calls of the coordinator.

    Args:
        indexes: of this shard.
        catalog: makes them agree with the catalog.
        queue_length: returns how many calls are in progress.
        scheduler: orders reads on the event loop.
    """

    def __init__(
        self,
        indexes: Indexes,
        catalog: CatalogFollower,
        queue_length: Callable[[], int],
        scheduler: LoopScheduler,
    ) -> None:
        self._indexes = indexes
        self._groups = WriteDispatcher(indexes)
        self._open = indexes.open
        self._catalog = catalog
        self._queue_length = queue_length
        self._reads = ReadScheduler(indexes.open, scheduler)
        self._fingerprinter = ThreadPool(1, "fingerprinter", run_in_background)

    def table(self) -> Sequence[Handler[Any, Any]]:
        """Return the handlers of all methods."""
        return (
            Handler(PING, self.ping),
            Handler(OPENING, self.opening),
            Handler(CATALOG, self.catalog),
            Handler(PREPARE, self.prepare),
            Handler(STATISTICS, self._once_open(self.statistics)),
            Handler(TERMS, self._once_open(self.terms)),
            Handler(SEARCH, self._once_open(self.search)),
            Handler(FETCH, self._once_open(self.fetch)),
            Handler(GET, self._once_open(self.get)),
            Handler(APPLY, self.apply, ApplyRequest.with_payload),
            Handler(APPLY_JOINED, self.apply, JoinedGroups.with_payload),
            Handler(OUTCOMES, self.outcomes),
            Handler(NEWEST_GROUPS, self.newest_groups),
            Handler(POSITIONS, self._once_open(self.positions)),
            Handler(FACET_VALUES, self._once_open(self.facet_values)),
            Handler(FIELD_NAMES, self._once_open(self.field_names)),
            Handler(INDEX_STATISTICS, self._once_open(self.index_statistics)),
            Handler(PROCESS_STATISTICS, self.process_statistics),
            Handler(FINGERPRINT, self._once_open(self.fingerprint)),
            Handler(BACKUP, self.backup),
        )

    def _once_open(self, handler: Callable[[R], T | Awaitable[T]]) -> Callable[[R], Any]:
        """Return a handler that runs at once if its index is open, else when it has been opened."""

        def handle(request: R) -> Any:
            if self._open.use(request.index) is not None:
                return handler(request)
            return self._open_and(handler, request)

        return handle

    async def _open_and(self, handler: Callable[[R], T | Awaitable[T]], request: R) -> T:
        """Open an index, then run a handler.

        Raises:
            ConfigurationSwitched: the index was deleted after the request's name was looked up.
        """
        try:
            index = await self._indexes.opened(request.index)
        except NotFound as error:
            raise ConfigurationSwitched("the index has been deleted meanwhile") from error
        with self._open.using(index):
            response = handler(request)
            if isinstance(response, Awaitable):
                return await response
            return response

    def ping(self, _: None) -> None:
        """Show that the event loop runs."""

    def opening(self, _: None) -> OpeningStatistics:
        """Return the progress of the start."""
        opening = self._indexes.opening.progress
        return OpeningStatistics(
            num_indexes=opening.num_indexes,
            num_open=opening.num_open,
            num_records=opening.num_records,
            num_built=opening.num_built,
            is_ready=self._indexes.is_ready,
        )

    async def catalog(self, request: CatalogUpdate) -> None:
        """Bring the indexes in line with the catalog."""
        await self._catalog.take(request)

    async def prepare(self, request: PrepareConfiguration) -> None:
        """Build a configuration in the background."""
        await self._catalog.prepare(request.entry, request.horizon)

    def statistics(
        self, request: StatisticsRequest
    ) -> StatisticsResponse | Awaitable[StatisticsResponse]:
        """Return the statistics for scoring of all live documents, or of those that pass filters.

        The latter must be counted, which can take long.
        """
        snapshot = self._snapshot(request)
        read = partial(corpus_statistics.statistics, snapshot, request)
        if request.filters or search_cost.is_slow_to_count(snapshot, request):
            return self._reads.run_on_thread(request.index, read)
        return self._reads.run(request.index, read)

    def terms(self, request: TermsRequest) -> TermsResponse | Awaitable[TermsResponse]:
        """Return words of the index near a text."""
        snapshot = self._snapshot(request)
        read = partial(near_terms, snapshot, request)
        if is_slow_to_list(snapshot, request):
            return self._reads.run_on_thread(request.index, read)
        return self._reads.run(request.index, read)

    def search(self, request: SearchRequest) -> SearchResponse | Awaitable[SearchResponse]:
        """Search one state of an index."""
        snapshot = self._snapshot(request)
        read = partial(searcher.search, snapshot, request)
        if search_cost.is_slow(snapshot, request):
            return self._search_slowly(request.index, read)
        return self._reads.run(request.index, read)

    async def _search_slowly(
        self, index: int, read: Callable[[], SearchResponse]
    ) -> SearchResponse:
        response = await self._reads.run_on_thread(index, read)
        self._indexes.merge_scheduler.note_search(index)
        return response

    def fetch(self, request: FetchRequest) -> FetchResponse | Awaitable[FetchResponse]:
        """Return stored documents; only highlights depend on a configuration."""
        index = request.index
        if request.highlight is not None:
            snapshot = self._snapshot(request)
            if fetch.are_many(request):
                return self._reads.run_on_thread(
                    index, partial(fetch.fetch_with_marks, snapshot, request)
                )
            fetched = fetch.fetch(snapshot, request)
            mark = partial(fetch.with_marks, snapshot, request, fetched)
            if is_slow_to_mark(fetch.documents_of(fetched)):
                return self._reads.run_on_thread(index, mark)
            return self._reads.run(index, mark)
        snapshot = self._open[index].partition.snapshot_at(request.horizon)
        if request.sort:  # a column may have to be made first
            return self._reads.run_on_thread(index, partial(fetch.fetch, snapshot, request))
        if request.bytes_max:
            return self._reads.run_on_thread(index, partial(fetch.fetch_some, snapshot, request))
        return self._reads.run(index, partial(fetch.fetch, snapshot, request))

    def _snapshot(
        self, request: StatisticsRequest | TermsRequest | SearchRequest | FetchRequest
    ) -> Snapshot:
        """Return the state that a request names, under the request's configuration.

        Raises:
            ConfigurationSwitched: there is none.
        """
        snapshot = self._open[request.index].partition.snapshot_at(
            request.horizon, request.revision
        )
        if snapshot.revision != request.revision:
            raise ConfigurationSwitched(
                "the index is being switched to another configuration; try again"
            )
        return snapshot

    def get(self, request: GetRequest) -> GetResponse:
        """Return one document by its id."""
        return fetch.get(self._open[request.index].partition.snapshot_at(request.horizon), request)

    def facet_values(
        self, request: FacetValuesRequest
    ) -> FacetValuesResponse | Awaitable[FacetValuesResponse]:
        """Return the next values of a facet dictionary."""
        snapshot = self._open[request.index].partition.newest
        return self._reads.run(
            request.index, partial(facet_value_lookup.facet_values, snapshot, request)
        )

    def field_names(self, request: FieldNamesRequest) -> FieldNamesResponse:
        """Return the fields that an index has, or had."""
        registry = self._open[request.index].partition.generation.registry
        return FieldNamesResponse(tuple(registry.paths))

    async def apply(self, request: ApplyRequest | JoinedGroups) -> ApplyResponse:
        """Apply a write group, or several as one."""
        response = await self._groups.apply(request)
        fault("writer.reply")
        return response

    async def outcomes(self, request: OutcomesRequest) -> OutcomesResponse:
        """Return what became of a write group."""
        return await self._groups.outcomes(request)

    async def newest_groups(self, request: NewestGroupsRequest) -> NewestGroupsResponse:
        """Return the newest group of each index that has one after a seq."""
        newest = await newest_groups(self._indexes, request.after)
        return NewestGroupsResponse(tuple(newest), kept_from(self._indexes))

    def positions(self, request: PositionsRequest) -> PositionsResponse:
        """Return the positions of the sources of changes of an index."""
        with self._open[request.index].partition.environment.read() as txn:
            return PositionsResponse(read_positions(txn))

    def index_statistics(self, request: IndexStatisticsRequest) -> IndexStatisticsResponse:
        """Return sizes and shape of an index."""
        index = self._open[request.index]
        return index_statistics(
            index.partition, self._indexes.merge_scheduler.statistics(request.index)
        )

    def process_statistics(self, _: None) -> ProcessStatistics:
        """Return the statistics of this process; opens no index."""
        return shard_statistics(self._indexes, self._queue_length())

    def fingerprint(
        self, request: FingerprintRequest
    ) -> FingerprintResponse | Awaitable[FingerprintResponse]:
        """Read and hash all items of a state on a separate background thread."""
        # At once: the index may close before a coroutine of it has begun.
        partition = self._open[request.index].partition
        snapshot = partition.snapshot_at(request.horizon)
        return self._fingerprint(
            request.index, partial(fingerprint_of, snapshot, partition.documents)
        )

    async def _fingerprint(
        self, index: int, read: Callable[[], FingerprintResponse]
    ) -> FingerprintResponse:
        with self._open.kept(index):
            return await asyncio.get_running_loop().run_in_executor(
                self._fingerprinter, carried(read)
            )

    async def backup(self, request: BackupRequest) -> None:
        """Copy the truth of all indexes, or of one, into a folder."""
        folder = Path(request.directory)
        with explaining_refusal("to write the copy"):
            await asyncio.to_thread(folder.mkdir, parents=True)
            numbers = iter(
                [one for one in self._indexes.all_numbers() if request.only in (None, one)]
            )

            async def copy_some() -> None:
                for number in numbers:
                    horizon = request.horizons.get(number)
                    await self._indexes.copy(number, folder / f"index-{number}", horizon)

            copies = [copy_some() for _ in range(COPIES)]
            for result in await asyncio.gather(*copies, return_exceptions=True):
                if isinstance(result, BaseException):
                    raise result  # once none is still copying
            await asyncio.to_thread(self._indexes.folders.write_manifest, folder)
