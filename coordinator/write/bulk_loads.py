"""Bulk loads: bodies of any size, read and checked as a whole before any item is written.

    body ──scan──▶ items ──▶ spool ──▶ groups ──divide──▶ queue of the index ──▶ shards
    half a megabyte a time   on disk   once the body has ended and is valid

A load is read, scanned and spooled first, then written in groups. A group is atomic on each shard;
the load as a whole is not (as in other engines): if a shard dies halfway, the groups written before
remain, and the response says which items were stored (`PartlyStored`).
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections import deque
from collections.abc import AsyncIterator, Coroutine
from pathlib import Path
from typing import Any, Final, TypeVar

from common import data_directory
from common.deadline import Deadline
from common.errors import (
    ConfigurationSwitched,
    InternalError,
    InvalidRequest,
    NotFound,
    PartlyStored,
    ServiceError,
    Unavailable,
)
from common.json.item_scanner import ItemScanner
from common.limits import Limits
from common.process.logs import Log
from common.process.uncancelled_waiting import result_of, until_done
from coordinator.catalog.catalog import Catalog, Index
from coordinator.cluster.all_shards import Cluster
from coordinator.parameters.request_decoding import check_uncompressed
from coordinator.settings import Settings
from coordinator.write.bulk_load_spool import Spool
from coordinator.write.detached_tasks import DetachedTasks
from coordinator.write.field_limit import FieldNames
from coordinator.write.group_commit_queue import LARGE_GROUPS_UNDER_WAY_MAX
from coordinator.write.known_fields import KnownFields
from coordinator.write.load_progress import LoadProgress
from coordinator.write.write_batch import AppliedBatch, Items, Ranges, WriteBatch, partly_stored
from coordinator.write.write_ordering import WriteLog, present_queue
from coordinator.write.write_result import RejectedItems, WriteResult

SCAN_BYTES: Final = 512 * 1024
"""How much of a body to gather before a thread scans it: a millisecond of work, against 50 µs for
the thread switch. The arrays of a scan, about three times as large together, are less than the
allocator returns to the system (`glibc_malloc.TRIM_THRESHOLD_BYTES`). A megabyte at a time, each
of their pages could be a page fault for every megabyte of the body."""

LOADS_MAX: Final = 256
"""Loads at a time. Each keeps a megabyte of its body in memory, however slowly that arrives."""

BULK_BATCHES_MAX: Final = LARGE_GROUPS_UNDER_WAY_MAX + 1
"""Groups in flight at the shards, plus one being read from the spool."""

ACTION_BYTES_MAX: Final = 1_024
_BULK_ACTION: Final = re.compile(
    rb'\{\s*"(?:index|create|update|delete)"\s*:'
    rb'\s*\{(?:\s*"_?\w+"\s*:\s*(?:"[^"]*"|\w+)\s*(?:,|(?=\})))*\s*\}\s*\}'
)
"""An action line of Elasticsearch's `_bulk`; the item follows on the next one."""

T = TypeVar("T")

_log = Log("ingest")


class BulkLoads:
    """Runs bulk loads.

    Args:
        cluster: the shards.
        catalog: the indexes.
        settings: sizes and timeouts.
        log: decides the order of all changes.
        fields: of the indexes.

    Attributes:
        running: loads in progress, oldest first.
    """

    def __init__(
        self,
        cluster: Cluster,
        catalog: Catalog,
        settings: Settings,
        log: WriteLog,
        fields: KnownFields,
    ) -> None:
        self._cluster = cluster
        self._catalog = catalog
        self._settings = settings
        self._limits: Limits = settings.limits
        self._log = log
        self._fields = fields
        self._spool_folder: Path = data_directory.spool_folder(settings.data_dir)
        self._ending = asyncio.Event()
        self._tasks = DetachedTasks()
        self.running: list[LoadProgress] = []

    async def load(
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
            request_id: identifies the load in `running`.

        Returns:
            Counts, and the errors of the invalid items.

        Raises:
            InvalidRequest: some items are invalid; nothing was written.
            StorageFull: no room for the body; nothing was written.
            Unavailable: a shard went down, or the service is stopping; `details` say how many items
                had been written. Or `overloaded`: too many loads are running.
        """
        if len(self.running) >= LOADS_MAX:
            raise Unavailable(
                f"{LOADS_MAX} loads are running; nothing was stored: send this one again shortly",
                code="overloaded",
            )
        present_queue(self._log, self._catalog, index)  # fails early if the index is gone
        progress = LoadProgress(index.name, request_id)
        self.running.append(progress)
        spool: Spool | None = None
        is_handed_over = False
        held = contextlib.ExitStack()
        held.callback(self.running.remove, progress)
        held.enter_context(self._fields.kept(index))
        try:
            names = await self._fields.of(
                index, Deadline.after_ms(self._settings.write_timeout_ms), is_new=True
            )
            spool = await asyncio.to_thread(Spool, self._spool_folder)
            reading = self._spool_body(index, chunks, spool, progress, names)
            errors = await self._read_unless_ending(reading)
            if not skips_bad:
                errors.raise_if_any()
            # From here on the load continues even if the client disconnects.
            writing = self._tasks.start(self._write_spool(index, spool, progress))
            writing.add_done_callback(lambda _: held.close())
            is_handed_over = True
            result: WriteResult = await result_of(writing)
        finally:
            if not is_handed_over:
                if spool is not None:
                    _free(spool)
                held.close()
        result.rejected, result.errors = errors.num, errors.listed
        return result

    def end(self) -> None:
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
        """Read a body, unless loads are stopped first."""
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
            task.cancel()
            await until_done(task)

    async def _spool_body(
        self,
        index: Index,
        chunks: AsyncIterator[bytes],
        spool: Spool,
        progress: LoadProgress,
        names: FieldNames,
    ) -> RejectedItems:
        """Read, scan and spool a body; the next bytes arrive while a thread scans."""
        scanner = ItemScanner(index.configuration.facets, self._limits)
        errors = RejectedItems(
            self._limits.errors_reported_max, "line", lambda: bool(scanner.is_array)
        )

        def scan(data: bytes, is_last: bool) -> None:
            for found in [scanner.feed(data), *([scanner.finish()] if is_last else [])]:
                if not spool.num_items and found.num_items:
                    _refuse_bulk_action(found.item(0))
                scanned = names.admit(found, "item" if scanner.is_array else "line")
                errors.add(scanned.errors)
                spool.append(scanned)
            progress.items_read, progress.items_rejected = spool.num_items, errors.num

        gathered: list[bytes] = []
        num_gathered = 0
        scanning: asyncio.Task[None] | None = None
        try:
            async for chunk in chunks:
                if not progress.bytes_received:
                    check_uncompressed(chunk)
                gathered.append(chunk)
                num_gathered += len(chunk)
                progress.bytes_received += len(chunk)
                if num_gathered >= SCAN_BYTES:
                    if scanning is not None:
                        await scanning
                    data, gathered, num_gathered = b"".join(gathered), [], 0
                    scanning = asyncio.create_task(asyncio.to_thread(scan, data, False))
            if scanning is not None:
                await scanning
            await asyncio.to_thread(scan, b"".join(gathered), True)
        finally:
            if scanning is not None:  # its thread still ends its work, for nothing
                scanning.cancel()
                await asyncio.gather(scanning, return_exceptions=True)
        return errors

    async def _write_spool(self, index: Index, spool: Spool, progress: LoadProgress) -> WriteResult:
        """Write the spooled items, group by group."""
        settings, num_shards = self._settings, self._cluster.num_shards
        # A configuration change may hold writes for long; a bulk load waits for it.
        patience_ms = settings.configure_timeout_ms
        result = WriteResult(seq=self._cluster.horizon(index.number))
        under_way: deque[asyncio.Task[AppliedBatch]] = deque()
        report = _BulkReport()
        chunks = spool.chunks(settings.group_bytes * num_shards, settings.group_operations)

        progress.is_storing = True

        async def confirm_oldest() -> None:
            result.add(report.end(await _finished(under_way.popleft())))
            progress.items_stored = result.created + result.updated

        async def write(batch: WriteBatch) -> AppliedBatch:
            # In one step: while the task waits to start, the index may be deleted.
            queue = present_queue(self._log, self._catalog, index)
            return await queue.write(batch, Deadline.after_ms(patience_ms))

        def next_batch() -> tuple[Items, Any] | None:
            items = next(chunks, None)
            if items is None:
                return None
            return items, self._log.divide(items)

        try:
            while (read := await asyncio.to_thread(next_batch)) is not None:
                self.check_not_ending()
                items, parts = read
                result.num_without_id += int((~items.has_id).sum())
                batch = WriteBatch.of_items(items, parts)
                under_way.append(asyncio.create_task(write(batch)))
                report.begin(len(items.starts), has_anonymous=batch.is_anonymous is not None)
                del read, items, parts, batch
                if len(under_way) >= BULK_BATCHES_MAX:
                    await confirm_oldest()
            while under_way:
                await confirm_oldest()
        except Exception as error:
            for task in under_way:
                outcome = await _finished(task)
                with contextlib.suppress(ServiceError):
                    result.add(report.end(outcome))
            reported = report.partly_stored() or _service_error(error)
            counts = {"created": result.created, "updated": result.updated}
            reported.details = {**reported.details, **counts}
            raise reported from error
        finally:
            _free(spool)
        return result


async def _finished(task: asyncio.Task[AppliedBatch]) -> AppliedBatch | ServiceError:
    """Return the outcome of a write: its result, or its error as the client gets it."""
    try:
        return await task
    except Exception as error:
        return _service_error(error)


def _service_error(error: Exception) -> ServiceError:
    """Return the error that ended a load, as the client gets it."""
    if isinstance(error, ConfigurationSwitched):  # the body has been read: it cannot run again
        return NotFound("the index was deleted during the load", code="index_not_found")
    if isinstance(error, ServiceError):
        return error
    _log.error("a load failed halfway", cause=error)  # such as no memory, or no thread
    return InternalError("the load failed halfway; the log has the cause under this request_id")


def _free(spool: Spool) -> None:
    """Close a spool on a thread: the file system takes a second to free gigabytes."""
    try:
        asyncio.get_running_loop().run_in_executor(None, spool.close)
    except RuntimeError:  # the system starts no thread
        spool.close()


class _BulkReport:
    """The stored part of a failed load, by the positions of its (valid) items."""

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

    def end(self, outcome: AppliedBatch | ServiceError) -> AppliedBatch:
        """Record the outcome of the oldest items in flight; raise their error if they failed."""
        first, num_items = self._begun.popleft()
        if isinstance(outcome, AppliedBatch):
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


def _refuse_bulk_action(item: bytes) -> None:
    """Refuse a body for Elasticsearch's `_bulk`, whose actions would become items.

    Raises:
        InvalidRequest: the first item is an action.
    """
    if len(item) <= ACTION_BYTES_MAX and _BULK_ACTION.fullmatch(item):
        raise InvalidRequest(
            "the body has action lines, as for Elasticsearch's _bulk: leave them out, and send one "
            "item a line with its id in the member id; the command "
            "`facetd import elasticsearch FILE` reads files of that form",
            code="invalid_body",
        )
