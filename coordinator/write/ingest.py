"""WRITE PATH: validate → partition → send → acknowledge.

    body ──scan──▶ items, or errors ──divide──▶ a part per shard ──group──▶ shards ──▶ response
    json_scan      nothing sent yet             partitioning       write_queue
 A write is checked completely before any of it is sent: a request rejected with a 4xx has changed
nothing. After that, only operating errors (a dead shard, a full disk) can make it fail. The
response then says that the outcome is unknown; sending the request again is safe, because items are
written by id. If items have no id, the response says which of them were stored (`PartlyStored`).

A bulk load of any size is read, scanned and spooled first, then written in groups. A group is
atomic on each shard; the load as a whole is not (as in other engines): if a shard dies halfway,
the groups written before remain.

A new configuration is prepared on all shards while the old one keeps serving, then made durable in
the catalog, then activated on all shards. Writes to the index wait meanwhile. A crash before the
catalog is renamed leaves the old configuration everywhere; a crash after it, the new one.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

import msgspec
import numpy as np
import orjson

from common import data_directory
from common.analysis.analyzer import Analyzer
from common.configuration import parse_configuration
from common.deadline import Deadline
from common.errors import (
    Conflict,
    DeadlineExceeded,
    InternalError,
    InvalidRequest,
    NotFound,
    PartlyStored,
    PayloadTooLarge,
    ServiceError,
    Unavailable,
)
from common.json.scan import ItemError, ItemScanner, ScannedItems, scan_item
from common.limits import Limits
from common.placement import shown_id
from common.process.faults import fault
from common.process.logs import Log
from common.protocol.messages import FieldNamesRequest
from common.protocol.methods import FIELD_NAMES
from common.protocol.operations import Operation, Outcome
from coordinator.cluster.catalog import Catalog, CatalogState, Index, Restored, StoredIndex
from coordinator.cluster.cluster import Cluster
from coordinator.cluster.fan_out import gather_partial
from coordinator.parameters.curation import compile_rules
from coordinator.settings import Settings
from coordinator.write.configuration_change import changes, merged, removals
from coordinator.write.field_names import FieldNames
from coordinator.write.load_progress import LoadProgress
from coordinator.write.log import EmbeddedLog, WriteLog, no_index
from coordinator.write.partitioning import Selected
from coordinator.write.spool import Spool
from coordinator.write.write_queue import (
    LARGE_GROUPS_UNDER_WAY_MAX,
    Applied,
    BatchQueue,
    Items,
    Ranges,
    WriteBatch,
    partly_stored,
)

SCAN_BYTES: Final = 1024 * 1024
"""How much of a bulk body to gather before scanning it, and the size from which a batch is scanned
in a thread: 2 ms of work, against 50 µs for the thread switch."""

BULK_BATCHES_MAX: Final = LARGE_GROUPS_UNDER_WAY_MAX + 1
"""Groups in flight at the shards, plus one being read from the spool."""

FIELD_NAMES_KEPT: Final = 64
"""Indexes whose field names are remembered between writes; 16 to 64 KB each."""

T = TypeVar("T")

_log = Log("ingest")


@dataclass(slots=True)
class WriteResult:
    """The outcome of a write.

    Attributes:
        created: number of new items.
        updated: number of items that replaced an older one.
        deleted: number of items deleted.
        rejected: number of items rejected.
        errors: the reasons, one object per rejected item, up to the limit `errors_reported_max`.
        seq: sequence number of the write; a search whose `meta.seq` is at least this sees it.
        has_text_id: whether the single deleted item had a text of digits as its id.
    """

    created: int = 0
    updated: int = 0
    deleted: int = 0
    rejected: int = 0
    errors: list[dict[str, Any]] = field(default_factory=list)
    seq: int = 0
    has_text_id: bool = False

    def add(self, applied: Applied) -> None:
        """Count the outcomes of a batch."""
        counts = np.bincount(applied.outcomes, minlength=len(Outcome))
        self.created += int(counts[Outcome.CREATED])
        self.updated += int(counts[Outcome.UPDATED])
        self.deleted += int(counts[Outcome.DELETED])
        self.seq = max(self.seq, applied.seq)


class ConfigurationPlan(NamedTuple):
    """What changing a configuration does, or would do."""

    document: dict[str, Any]
    """The complete configuration, as stored."""
    warnings: list[str]
    changes: list[dict[str, Any]]
    """Differences by path; see `coordinator.write.configuration_change`."""


class Ingest:
    """All writes of the service.

    Args:
        cluster: the shards.
        catalog: the indexes.
        settings: sizes and timeouts.
        log: decides the order of all changes; None: this service alone.

    Attributes:
        loads: running bulk loads, oldest first.
    """

    def __init__(
        self, cluster: Cluster, catalog: Catalog, settings: Settings, log: WriteLog | None = None
    ) -> None:
        self._cluster = cluster
        self._log = EmbeddedLog(cluster, catalog, settings) if log is None else log
        self._catalog = catalog
        self._settings = settings
        self._limits: Limits = settings.limits
        self._spool_folder: Path = data_directory.spool_folder(settings.data_dir)
        self._field_names: OrderedDict[tuple[int, int], FieldNames] = OrderedDict()
        self._configuring = asyncio.Lock()
        self._ending = asyncio.Event()
        self._tasks: set[asyncio.Task[Any]] = set()
        self.loads: list[LoadProgress] = []
        cluster.on_state(lambda shard: self._look_for_sources())

    # --- items

    async def put_items(self, index: Index, body: bytes, deadline: Deadline) -> WriteResult:
        """Add the items of a JSON array (or a single item); items with an existing id replace it.

        All or nothing.

        Raises:
            InvalidRequest: the body is not an array of valid items; `details["errors"]` lists each
                invalid item by position.
            PayloadTooLarge: too many items.
        """
        first = body.lstrip(b" \t\r\n")[:1]
        if first == b"{":
            mistake = scan_item(body, index.configuration.facets, self._limits)
            if isinstance(mistake, ItemError):
                raise InvalidRequest(
                    f"{mistake.message}; the body must be one item or a JSON array of items; "
                    "newline-delimited JSON goes to /{index}/index",
                    code=mistake.code,
                )
            body = b"[%b]" % body
        elif first != b"[":
            raise InvalidRequest(
                "the body must be an item or a JSON array of items; newline-delimited JSON goes "
                "to /{index}/index",
                code="invalid_body",
            )
        if len(body) > SCAN_BYTES:
            stretches = await asyncio.to_thread(self._scan, index, body)
        else:
            stretches = self._scan(index, body)
        names = await self._names(index, deadline)
        admitted = [names.admit(scanned, "item") for scanned in stretches]
        if sum(map(_num_errors, admitted)) > sum(map(_num_errors, stretches)):
            names = await self._names(index, deadline, is_new=True)
            admitted = [names.admit(scanned, "item") for scanned in stretches]
        stretches = admitted
        errors = _Errors(self._limits.errors_reported_max, "index")
        for scanned in stretches:
            errors.add(scanned)
        errors.raise_if_any()
        num_items = sum(scanned.num_items for scanned in stretches)
        if num_items > self._limits.batch_items_max:
            raise PayloadTooLarge(
                f"a batch may have {self._limits.shown('batch_items_max')} items, not "
                f"{num_items}; use /{{index}}/index for more"
            )
        result = WriteResult(seq=self._cluster.horizon(index.number))
        for scanned in stretches:
            if scanned.num_items:  # only one of the two: `finish` may find nothing more
                result.add(await self._write_items(index, _items(scanned), deadline))
        return result

    async def replace_item(
        self,
        index: Index,
        item_id: bytes,
        body: bytes,
        deadline: Deadline,
        *,
        version: bytes | None = None,
    ) -> WriteResult:
        """Replace an item.

        Args:
            index: the index that holds it.
            item_id: canonical id from the path.
            body: the complete new item as JSON; if it has an id, that must be the same.
            deadline: for the confirmation of the write.
            version: xxh64 that the stored bytes must have (If-Match).

        Raises:
            NotFound: `item_not_found`.
            Conflict: the stored item has another version.
            InvalidRequest: the item is invalid, or has another id (`id_mismatch`).
        """
        payload, has_own_id = self._checked(index, item_id, body)
        await self._check_names(index, [payload], deadline)
        operation = Operation.REPLACE if has_own_id else Operation.REPLACE_KEEPING_ID
        return await self._write_item(index, operation, item_id, payload, deadline, version)

    async def put_item(
        self, index: Index, item_id: bytes, body: bytes, deadline: Deadline
    ) -> WriteResult:
        """Add an item under an id, or replace the item that has it; errors as in `replace_item`."""
        payload, has_own_id = self._checked(index, item_id, body)
        await self._check_names(index, [payload], deadline)
        operation = Operation.PUT if has_own_id else Operation.PUT_KEEPING_ID
        return await self._write_item(index, operation, item_id, payload, deadline, None)

    async def merge_item(
        self,
        index: Index,
        item_id: bytes,
        body: bytes,
        deadline: Deadline,
        *,
        version: bytes | None = None,
    ) -> WriteResult:
        """Replace some fields of an item; otherwise as `replace_item`."""
        payload, _ = self._checked(index, item_id, body)
        await self._check_names(index, [payload], deadline)
        return await self._write_item(index, Operation.MERGE, item_id, payload, deadline, version)

    async def delete_item(
        self, index: Index, item_id: bytes, deadline: Deadline, *, version: bytes | None = None
    ) -> WriteResult:
        """Delete an item.

        Raises:
            NotFound: `item_not_found`.
            Conflict: the stored item has another version.
        """
        return await self._write_item(index, Operation.DELETE, item_id, item_id, deadline, version)

    async def delete_items(
        self, index: Index, item_ids: Sequence[bytes], deadline: Deadline
    ) -> WriteResult:
        """Delete items by canonical id; ids that do not exist are ignored."""
        return await self.write_operations(
            index, [(Operation.DELETE, item_id, item_id) for item_id in item_ids], deadline
        )

    async def write_operations(
        self,
        index: Index,
        operations: Sequence[tuple[Operation, bytes, bytes]],
        deadline: Deadline,
        positions: Mapping[str, str] | None = None,
    ) -> WriteResult:
        """Apply operations (kind, canonical id, checked payload) in one group.

        Args:
            index: the target.
            operations: in order.
            deadline: for the confirmation of the write.
            positions: of sources of changes, by name, to be stored in the same commit; an empty one
                forgets its source.
        """
        result = WriteResult(seq=self._cluster.horizon(index.number))
        if operations or positions:
            items = [
                payload for operation, _, payload in operations if operation != Operation.DELETE
            ]
            await self._check_names(index, items, deadline)
            batch = self._log.batch_of_operations(operations, positions=positions)
            result.add(await self._queue(index).write(batch, deadline))
        return result

    async def change_selected(
        self, index: Index, changes: Sequence[Selected], deadline: Deadline
    ) -> Applied:
        """Change selected items in one group; skip those that changed since they were selected."""
        items = {one.payload for one in changes if one.operation != Operation.DELETE}
        await self._check_names(index, sorted(items), deadline)
        batch = self._log.batch_of_selected(changes)
        return await self._queue(index).write(batch, deadline)

    # --- bulk

    async def bulk(
        self,
        index: Index,
        chunks: AsyncIterator[bytes],
        *,
        skips_bad: bool = False,
        request_id: str = "",
    ) -> WriteResult:
        """Load a body of any size: a JSON array, or newline-delimited JSON.

        Nothing is written until the whole body has been read.

        Args:
            index: the target.
            chunks: the body, decompressed; an exception from it means that the body is truncated.
            skips_bad: write the valid items even if others are invalid.
            request_id: identifies the load in `loads`.

        Returns:
            Counts, and the errors of the invalid items.

        Raises:
            InvalidRequest: some items are invalid; nothing was written.
            StorageFull: no room for the body; nothing was written.
            Unavailable: a shard went down, or the service is stopping; `details` say how many items
                had been written.
        """
        self._queue(index)  # fails early if the index is gone
        names = await self._names(
            index, Deadline.after_ms(self._settings.write_timeout_ms), is_new=True
        )
        spool = await asyncio.to_thread(Spool, self._spool_folder)
        progress = LoadProgress(index.name, request_id)
        self.loads.append(progress)
        is_handed_over = False
        try:
            reading = self._spool_body(index, chunks, spool, progress, names)
            errors = await self._read_unless_ending(reading)
            if not skips_bad:
                errors.raise_if_any()
            # From here on the load continues even if the client disconnects.
            writing = self._start(self._write_spool(index, spool, progress))
            writing.add_done_callback(lambda _: self.loads.remove(progress))
            is_handed_over = True
            result: WriteResult = await asyncio.shield(writing)
        finally:
            if not is_handed_over:
                spool.close()
                self.loads.remove(progress)
        result.rejected, result.errors = errors.num, errors.listed
        return result

    @property
    def selects_by_version(self) -> bool:
        """Whether changes to selected items must name the version that was selected."""
        return self._log.is_shared

    def end_loads(self) -> None:
        """Stop loads before their next group (at shutdown); they report what they stored."""
        self._ending.set()

    def check_not_ending(self) -> None:
        """Reject the next group of a long-running change if the service is stopping.

        Raises:
            Unavailable: code stopping.
        """
        if self._ending.is_set():
            raise Unavailable(
                "the service is stopping; what is counted here was stored, in the order of the "
                "request, and nothing else",
                code="stopping",
            )

    async def _read_unless_ending(self, reading: Coroutine[Any, Any, T]) -> T:
        """Read a body, unless loads are told to end first."""
        task = asyncio.ensure_future(reading)
        ending = asyncio.ensure_future(self._ending.wait())
        try:
            await asyncio.wait((task, ending), return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                raise Unavailable(
                    "the service is stopping; nothing was stored: send the load again to the next "
                    "one",
                    code="stopping",
                    details={"created": 0, "updated": 0},
                )
            return task.result()
        finally:
            ending.cancel()
            if not task.done():
                task.cancel()
                await asyncio.wait((task,))

    async def _spool_body(
        self,
        index: Index,
        chunks: AsyncIterator[bytes],
        spool: Spool,
        progress: LoadProgress,
        names: FieldNames,
    ) -> _Errors:
        """Read, scan and spool a body; the next bytes arrive while a thread scans."""
        scanner = ItemScanner(index.configuration.facets, self._limits)
        errors = _Errors(self._limits.errors_reported_max, "line", lambda: bool(scanner.is_array))

        def scan(data: bytes, is_last: bool) -> None:
            for found in [scanner.feed(data), *([scanner.finish()] if is_last else [])]:
                scanned = names.admit(found, "item" if scanner.is_array else "line")
                errors.add(scanned)
                spool.append(scanned)
            progress.items_read, progress.items_rejected = spool.num_items, errors.num

        gathered: list[bytes] = []
        num_gathered = 0
        scanning: asyncio.Future[None] | None = None
        try:
            async for chunk in chunks:
                gathered.append(chunk)
                num_gathered += len(chunk)
                progress.bytes_received += len(chunk)
                if num_gathered >= SCAN_BYTES:
                    if scanning is not None:
                        await scanning
                    data, gathered, num_gathered = b"".join(gathered), [], 0
                    scanning = asyncio.ensure_future(asyncio.to_thread(scan, data, False))
        finally:
            if scanning is not None:
                await asyncio.wait((scanning,))  # the thread must not outlive the spool
        if scanning is not None:
            scanning.result()
        await asyncio.to_thread(scan, b"".join(gathered), True)
        return errors

    async def _write_spool(self, index: Index, spool: Spool, progress: LoadProgress) -> WriteResult:
        """Write the spooled items, group by group."""
        settings, num_shards = self._settings, self._cluster.num_shards
        # A configuration change may hold writes for long; a bulk load waits for it.
        patience_ms = settings.configure_timeout_ms
        result = WriteResult(seq=self._cluster.horizon(index.number))
        under_way: deque[asyncio.Task[Applied]] = deque()
        report = _BulkReport()
        stretches = spool.stretches(settings.group_bytes * num_shards, settings.group_operations)

        progress.is_storing = True

        async def confirm_oldest() -> None:
            result.add(report.end(await _finished(under_way.popleft())))
            progress.items_stored = result.created + result.updated

        def next_batch() -> tuple[Items, Any] | None:
            items = next(stretches, None)
            if items is None:
                return None
            return items, self._log.divide(items)

        try:
            while (read := await asyncio.to_thread(next_batch)) is not None:
                self.check_not_ending()
                items, parts = read
                batch = _batch(items, parts)
                write = self._queue(index).write(batch, Deadline.after_ms(patience_ms))
                under_way.append(asyncio.create_task(write))
                report.begin(len(items.starts), has_anonymous=batch.is_anonymous is not None)
                del read, items, parts, batch, write
                if len(under_way) >= BULK_BATCHES_MAX:
                    await confirm_oldest()
            while under_way:
                await confirm_oldest()
        except ServiceError as error:
            for task in under_way:
                outcome = await _finished(task)
                with contextlib.suppress(ServiceError):
                    result.add(report.end(outcome))
            told = report.partly_stored() or error
            told.details = {**told.details, "created": result.created, "updated": result.updated}
            raise told from error
        finally:
            spool.close()
        return result

    # --- indexes

    async def configure(
        self,
        name: str,
        document: dict[str, Any],
        deadline: Deadline | None = None,
        *,
        is_patch: bool = False,
    ) -> tuple[Index, ConfigurationPlan]:
        """Create an index, or change the configuration of an existing one: on all shards or none.

        Args:
            name: of the index (checked by the caller).
            document: as posted.
            deadline: how long to wait; past it, the change continues in the background.
            is_patch: whether to merge the document into the current configuration (null removes);
                it is merged once no other change is in progress.

        Returns:
            The index as it is now, and what changed.

        Raises:
            InvalidRequest: `invalid_configuration`; names each wrong path.
            Unavailable: a shard is down; nothing was changed.
        """
        self.preview(name, document, is_patch=is_patch)  # invalid documents fail without queueing
        configured: tuple[Index, ConfigurationPlan] = await self._wait_for(
            self._configure(name, document, is_patch), deadline
        )
        return configured

    def preview(
        self, name: str, document: dict[str, Any], *, is_patch: bool = False
    ) -> ConfigurationPlan:
        """Return what `configure` would do now; raises the errors that it would."""
        if name in self._catalog.aliases:
            raise InvalidRequest(
                f"{name!r} is an alias of {self._catalog.aliases[name]!r}; configure that index",
                code="invalid_index_name",
            )
        current = self._catalog.indexes.get(name)
        before = {} if current is None else current.document
        after, warnings = self._checked_document(before, document, is_patch)
        if not is_patch:
            warnings = [*warnings, *removals(before, after)]
        return ConfigurationPlan(after, warnings, changes(before, after))

    def _checked_document(
        self, before: dict[str, Any], document: dict[str, Any], is_patch: bool
    ) -> tuple[dict[str, Any], list[str]]:
        """Return the complete new configuration, and warnings; raise if it is invalid."""
        after = merged(before, document) if is_patch and isinstance(document, dict) else document
        configuration, warnings = parse_configuration(after, self._limits)
        compile_rules(configuration.rules, Analyzer(), self._limits, "invalid_configuration")
        return after, warnings

    async def delete_index(self, name: str, deadline: Deadline | None = None) -> None:
        """Delete an index and its data.

        Raises:
            NotFound: it does not exist.
        """
        await self._wait_for(self._delete_index(name), deadline)

    async def _configure(
        self, name: str, document: dict[str, Any], is_patch: bool
    ) -> tuple[Index, ConfigurationPlan]:
        """Check the document once no other change is in progress, then put it in force."""
        async with self._configuring:
            plan = self.preview(name, document, is_patch=is_patch)
            current = self._catalog.indexes.get(name)
            if current is None:
                self._check_number(1)
            await self._log.put_index(
                name, lambda before: self._checked_document(before, document, is_patch)[0]
            )
            index = self._catalog.index(name)
            _log.info("configured", index=name, number=index.number, revision=index.revision)
            return index, plan

    async def _delete_index(self, name: str) -> None:
        """Delete it once no other change is in progress."""
        async with self._configuring:
            index = self._catalog.index(name)
            await self._log.drop_index(index)
            _log.info("deleted", index=index.name, number=index.number)

    async def rename(
        self, name: str, new_name: str, *, keeps_alias: bool, deadline: Deadline
    ) -> None:
        """Give an index another name; requests in progress go on, also writes.

        Args:
            name: of the index.
            new_name: a valid name.
            keeps_alias: whether the former name becomes an alias.
            deadline: how long to wait.

        Raises:
            NotFound: there is no such index.
            Conflict: `index_exists`.
        """
        await self._wait_for(self._rename(name, new_name, keeps_alias), deadline)

    async def _rename(self, name: str, new_name: str, keeps_alias: bool) -> None:
        async with self._configuring:
            index = self._catalog.indexes.get(name)
            if index is None:
                raise no_index(name)

            def change(state: CatalogState) -> CatalogState:
                self._check_free(new_name)
                return state.renamed(name, new_name, keeps_alias=keeps_alias)

            await self._catalog.change(change, is_active=False)
            self._catalog.activate()
            await self._cluster.push_catalog()
            _log.info("renamed", index=new_name, former=name, number=index.number)

    async def copy(
        self,
        name: str,
        new_name: str,
        make_source: Callable[[Index], AbstractAsyncContextManager[Restored]],
        deadline: Deadline,
    ) -> None:
        """Create an index with the configuration and the items of another one.

        Args:
            name: of the index to copy.
            new_name: a valid name.
            make_source: makes the snapshot that the copy is made of.
            deadline: how long to wait; past it, the work continues in the background.

        Raises:
            As `restore`.
            NotFound: there is no such index.
        """
        self._log.check_can_restore()

        async def run() -> None:
            async with self._configuring:
                index = self._catalog.indexes.get(name)
                if index is None:
                    raise no_index(name)
                self._check_free(new_name)
                self._check_number(1)
                async with make_source(index) as source:
                    await self._restore_now([source])

        await self._wait_for(run(), deadline)

    def _check_free(self, name: str) -> None:
        """Check that no index or alias has a name.

        Raises:
            Conflict: `index_exists`.
        """
        if name in self._catalog.indexes or name in self._catalog.state.aliases:
            raise Conflict(
                f"there is an index or alias {name!r} already; choose another name, or remove it "
                "first",
                code="index_exists",
            )

    async def restore(self, wanted: Sequence[Restored], deadline: Deadline) -> None:
        """Create indexes from a snapshot: all of them on all shards, or none.

        The catalog adds them together, once every shard has built them, and keeps their source
        until every shard is known to still have them. A shard that is killed in between discards
        indexes that the catalog did not name yet; it then rebuilds them from the source instead of
        starting them empty.

        Args:
            wanted: with valid names.
            deadline: how long to wait; past it, the work continues in the background.

        Raises:
            Conflict: `index_exists`.
            InvalidRequest: `too_many_indexes`.
            Unavailable: a shard is down.
            StorageFull: no room.
            InternalError: `snapshot_damaged`. In any case, nothing was changed.
        """
        self._log.check_can_restore()
        await self._wait_for(self._restore(wanted), deadline)

    async def _restore(self, wanted: Sequence[Restored]) -> None:
        """Prepare, commit, activate, release the source."""
        async with self._configuring:
            await self._restore_now(wanted)

    async def _restore_now(self, wanted: Sequence[Restored]) -> None:
        """Restore while nothing else changes indexes."""
        catalog = self._catalog
        for one in wanted:
            self._check_free(one.name)
        self._check_number(len(wanted))
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
                state = state.with_index(index)
            return state

        try:
            await catalog.change(with_all, is_active=False)
        except ServiceError:
            await self._cluster.push_catalog()  # does not name them, so shards discard them
            raise
        fault("restore.named")
        for index, one in zip(stored, wanted, strict=True):
            self._cluster.take_up(index.number, one.source.seq)
        await self._cluster.push_catalog()
        catalog.activate()
        for index in stored:
            _log.info("restored", index=index.name, number=index.number)
        await self._let_sources_go()

    async def _let_sources_go(self) -> None:
        """Drop the sources of restored indexes, once all shards have the indexes.

        All shards serve and no index is being changed, so each has applied the current catalog.
        """
        if self._cluster.is_ready and any(one.source for one in self._catalog.state.indexes):
            await self._catalog.change(CatalogState.without_sources, is_active=False)

    def _look_for_sources(self) -> None:
        """Drop remaining sources once the last shard is back."""
        if self._cluster.is_ready and any(one.source for one in self._catalog.state.indexes):
            self._start(self._let_sources_go_later())

    async def _let_sources_go_later(self) -> None:
        async with self._configuring:
            await self._let_sources_go()

    def _check_number(self, num_new: int) -> None:
        """Reject new indexes past the limit."""
        if len(self._catalog.indexes) + num_new > self._limits.indexes_max:
            raise InvalidRequest(
                f"there may be {self._limits.shown('indexes_max')} indexes; delete one first",
                code="too_many_indexes",
            )

    async def while_unchanged(
        self, work: Callable[[], Coroutine[Any, Any, T]], deadline: Deadline
    ) -> T:
        """Run `work` while no index is created, configured or deleted; writes continue."""

        async def run() -> T:
            async with self._configuring, self._log.unchanging():
                return await work()

        result: T = await self._wait_for(run(), deadline)
        return result

    # --- fields

    async def _names(self, index: Index, deadline: Deadline, *, is_new: bool = False) -> FieldNames:
        """Return the fields of an index; asks the shards unless they are remembered.

        More may be remembered than there are: those of writes that failed. While a shard is down,
        its fields are not known, and nothing is remembered.

        Args:
            index: whose fields.
            deadline: of the shards' answers.
            is_new: believe nothing that is remembered.
        """
        key = index.number, index.revision
        names = None if is_new else self._field_names.get(key)
        if names is None:
            answers = await gather_partial(
                self._cluster,
                FIELD_NAMES,
                FieldNamesRequest(index.number),
                deadline,
                is_partial=True,
            )
            found = [answer.paths for answer in answers if answer is not None]
            names = FieldNames({path for paths in found for path in paths}, self._limits)
            if len(found) < len(answers):
                return names
            self._field_names[key] = names
            while len(self._field_names) > FIELD_NAMES_KEPT:
                self._field_names.popitem(last=False)
        self._field_names.move_to_end(key)
        return names

    async def _check_names(self, index: Index, items: Sequence[bytes], deadline: Deadline) -> None:
        """Refuse items whose new fields would be too many.

        Raises:
            InvalidRequest: `too_many_index_fields`; nothing was written.
        """
        if not items:
            return
        sizes = np.array([len(item) for item in items], np.int64)
        ends = np.cumsum(sizes)
        payload = np.frombuffer(bytearray(b"".join(items)), np.uint8)
        names = await self._names(index, deadline)
        refused = names.add_from(payload, ends - sizes, ends)
        if refused.any():
            names = await self._names(index, deadline, is_new=True)
            refused = names.add_from(payload, ends - sizes, ends)
        if refused.any():
            error = names.error(0, "")
            raise InvalidRequest(error.message, code=error.code)

    # --- parts

    def num_waiting(self) -> int:
        """Return the number of waiting batches, over all indexes."""
        return self._log.num_waiting()

    def _queue(self, index: Index) -> BatchQueue:
        """Return the queue of an index, which must still exist."""
        if self._catalog.present(index) is None:
            raise no_index(index.name)
        return self._log.queue(index.number)

    def _scan(self, index: Index, body: bytes) -> list[ScannedItems]:
        """Scan a whole body."""
        scanner = ItemScanner(index.configuration.facets, self._limits)
        return [scanner.feed(body), scanner.finish()]

    def _checked(self, index: Index, item_id: bytes, body: bytes) -> tuple[bytes, bool]:
        """Check the item of a single operation; return it with its id, and whether it had one."""
        found = scan_item(body, index.configuration.facets, self._limits)
        if isinstance(found, ItemError):
            raise InvalidRequest(found.message, code=found.code)
        if found is None:
            body = with_id(body, item_id)
        elif found != item_id:
            raise InvalidRequest(
                f"the item's id is {found.decode()!r}, the path's {item_id.decode()!r}; leave it "
                "out of the item, or make them equal",
                code="id_mismatch",
                param="id",
            )
        if len(body) > self._limits.item_bytes_max:
            raise PayloadTooLarge(f"an item may have {self._limits.shown('item_bytes_max')} bytes")
        return body, found is not None

    async def _write_item(
        self,
        index: Index,
        operation: Operation,
        item_id: bytes,
        payload: bytes,
        deadline: Deadline,
        version: bytes | None,
    ) -> WriteResult:
        """Apply one operation and report its outcome."""
        versions = None if version is None else {0: version}
        batch = self._log.batch_of_operations([(operation, item_id, payload)], versions)
        applied = await self._queue(index).write(batch, deadline)
        outcome = applied.outcomes[0]
        if outcome == Outcome.NOT_FOUND:
            raise NotFound(
                f"there is no item {item_id.decode()!r} in index {index.name!r}",
                code="item_not_found",
            )
        if outcome == Outcome.CONFLICT:
            raise Conflict(
                f"item {item_id.decode()!r} is no longer the version that If-Match names"
            )
        if outcome == Outcome.CORRUPT:
            raise InternalError(
                f"item {item_id.decode()!r} is damaged on disk: write it again as a whole, or "
                "restore the index from a backup",
                code="item_corrupt",
            )
        if outcome == Outcome.INVALID:
            raise InvalidRequest(
                "the merged item would break a limit (fields, values or bytes of an item)",
                code="invalid_item",
            )
        result = WriteResult(has_text_id=bool(applied.text_ids))
        result.add(applied)
        return result

    async def _write_items(self, index: Index, items: Items, deadline: Deadline) -> Applied:
        """Write items as one batch."""
        return await self._queue(index).write(_batch(items, self._log.divide(items)), deadline)

    def _start(self, coroutine: Any) -> asyncio.Task[Any]:
        """Start a task that continues after its request has ended."""
        task = asyncio.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._finish)
        return task

    def _finish(self, task: asyncio.Task[Any]) -> None:
        """Release a finished task; retrieve its exception in case nothing else does."""
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None and not isinstance(error, ServiceError):
            _log.error("write failed", cause=error)

    async def _wait_for(self, coroutine: Any, deadline: Deadline | None) -> Any:
        """Wait for a task that continues in the background past the deadline."""
        task = self._start(coroutine)
        try:
            seconds = None if deadline is None else deadline.remaining_seconds
            async with asyncio.timeout(seconds):
                return await asyncio.shield(task)
        except TimeoutError:
            raise DeadlineExceeded(
                "it takes longer than this request's deadline, and goes on; look again later"
            ) from None


_ITEMS_FORM: Final = (
    '; the body must be items as JSON objects, one a line or in one array, such as {"id": 1, '
    '"name": "sea"}; facetd load also reads CSV, TSV and Parquet'
)


async def _finished(task: asyncio.Task[Applied]) -> Applied | ServiceError:
    """Return the outcome of a write: its result or its error."""
    try:
        return await task
    except ServiceError as error:
        return error


class _BulkReport:
    """What was stored of a failed load, by the positions of its (valid) items."""

    def __init__(self) -> None:
        self._num_begun = 0
        self._begun: deque[tuple[int, int]] = deque()  # first position and number, by batch
        self._has_anonymous = False
        self._num_stored = 0
        self._not_stored: Ranges = []
        self._unknown: Ranges = []

    def begin(self, num_items: int, *, has_anonymous: bool) -> None:
        """Record that the next items are in flight."""
        self._begun.append((self._num_begun, num_items))
        self._num_begun += num_items
        self._has_anonymous |= has_anonymous

    def end(self, outcome: Applied | ServiceError) -> Applied:
        """Record the outcome of the oldest items in flight; raise their error if they failed."""
        first, num_items = self._begun.popleft()
        if isinstance(outcome, Applied):
            self._num_stored += num_items
            return outcome
        if isinstance(outcome, PartlyStored):
            self._num_stored += outcome.details["stored"]
            for known, of_batch in ((self._not_stored, "not_stored"), (self._unknown, "unknown")):
                known += [[first + a, first + b] for a, b in outcome.details[of_batch]]
        else:  # of items with ids, some may be stored: resending them is safe
            self._not_stored.append([first, first + num_items - 1])
        raise outcome

    def partly_stored(self) -> PartlyStored | None:
        """Return the error of a load that must not be resent as a whole; None if it may be."""
        if not self._has_anonymous or not (self._num_stored or self._unknown):
            return None
        error = partly_stored(self._num_stored, self._not_stored, self._unknown)
        error.details["not_stored_from"] = self._num_begun
        return error


class _Errors:
    """The invalid items of a body: all are counted, the first ones listed."""

    def __init__(self, num_max: int, unit: str, is_array: Any = None) -> None:
        self.num = 0
        self.listed: list[dict[str, Any]] = []
        self._num_max = num_max
        self._unit = unit
        self._is_array = is_array

    def add(self, scanned: ScannedItems) -> None:
        """Add the errors of a chunk."""
        self.num += len(scanned.errors)
        unit = "index" if self._is_array is not None and self._is_array() else self._unit
        for error in scanned.errors[: self._num_max - len(self.listed)]:
            listed = {unit: error.position, "code": error.code, "message": error.message}
            if error.id is not None:
                listed["id"] = error.id
            self.listed.append(listed)

    def raise_if_any(self) -> None:
        """Reject the body if it has invalid items."""
        if not self.listed:
            return
        first = self.listed[0]
        more = f" (and {self.num - 1} more)" if self.num > 1 else ""
        if first.get("line") == 1 and first["code"] in ("invalid_json", "invalid_item"):
            more += _ITEMS_FORM
        raise InvalidRequest(
            f"{first['message']}{more}; nothing was stored",
            code=first["code"],
            details={"rejected": self.num, "errors": self.listed},
        )


def with_id(item: bytes, item_id: bytes) -> bytes:
    """Insert an id as the first field of an item (valid JSON) that has none.

    Digits become a number, anything else a string.
    """
    inside = item.strip(b" \t\r\n")[1:]
    separator = b"" if inside.lstrip(b" \t\r\n") == b"}" else b","
    return b'{"id":%b%b%b' % (orjson.dumps(shown_id(item_id)), separator, inside)


def _items(scanned: ScannedItems) -> Items:
    """Convert scanned items to the form that is written."""
    return Items(scanned.payload, scanned.starts, scanned.ends, scanned.id_hashes, scanned.has_id)


def _batch(items: Items, parts: Any) -> WriteBatch:
    """Make a batch of items that may be partitioned already."""
    num_bytes = int((items.ends - items.starts).sum())
    if parts is None:
        return WriteBatch(len(items.starts), num_bytes, items=items)
    return WriteBatch(len(items.starts), num_bytes, parts=parts)


def _num_errors(scanned: ScannedItems) -> int:
    return len(scanned.errors)
