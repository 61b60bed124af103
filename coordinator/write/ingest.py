"""WRITE PATH: validate → partition → send → acknowledge.

    body ──scan──▶ items, or errors ──divide──▶ a part per shard ──group──▶ shards ──▶ response
    ItemScanner    nothing sent yet             partitioning       group_commit_queue

A write is checked completely before any of it is sent: a request rejected with a 4xx has changed
nothing. After that, only operating errors (a dead shard, a full disk) can make it fail. The
response then says that the outcome is unknown; sending the request again is safe, because items are
written by id. If items have no id, the response says which of them were stored (`PartlyStored`).

Bodies of any size go through `bulk_loads`, changes of indexes through `index_administration`.
"""

from __future__ import annotations

import re
from codecs import BOM_UTF8
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from functools import partial, wraps
from typing import Any, Concatenate, Final, ParamSpec, TypeVar

import orjson

from common.deadline import Deadline
from common.errors import Conflict, InternalError, InvalidRequest, NotFound, PayloadTooLarge
from common.item_ids import shown_id
from common.json.item_scanner import ItemError, ItemScanner, ScannedItems, canonical_id, scan_item
from common.limits import Limits
from common.partial_updates import as_item
from common.protocol.write_operations_and_outcomes import Operation, Outcome
from coordinator.catalog.catalog import Catalog, Index
from coordinator.cluster.all_shards import Cluster
from coordinator.parameters.request_decoding import check_uncompressed
from coordinator.write.field_limit import FieldNames
from coordinator.write.known_fields import KnownFields
from coordinator.write.partitioning import ItemOperation, SelectedChange
from coordinator.write.work_on_bodies import run_on_bytes
from coordinator.write.write_batch import AppliedBatch, Items, WriteBatch
from coordinator.write.write_ordering import WriteLog, present_queue
from coordinator.write.write_result import RejectedItems, WriteResult

_LIST_INSIDE: Final = re.compile(
    rb'\s*\{\s*"(?:items|documents|docs|objects|records|rows|data|hits|results|value)"\s*:\s*\[\s*\{'
)
"""How a list of items begins that is a member of an object, as other services send it."""
_ADD_ELSEWHERE: Final = "newline-delimited JSON goes to /{index}/index, any number of items"
_MERGE_ELSEWHERE: Final = "send more in further requests"
_CHANGING: Final = (Operation.MERGE_CHANGES, Operation.UPSERT_CHANGES)
_NOT_APPLIED: Final = (Outcome.INVALID, Outcome.CORRUPT)
_NOT_MERGED: Final = (Outcome.NOT_FOUND, *_NOT_APPLIED)


P = ParamSpec("P")
T = TypeVar("T")


def _keeping_fields(
    write: Callable[Concatenate[Ingest, Index, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Ingest, Index, P], Coroutine[Any, Any, T]]:
    """Return a write during which the fields that it adds to its index are known."""

    @wraps(write)
    async def keeping(
        ingest: Ingest, index: Index, /, *arguments: P.args, **options: P.kwargs
    ) -> T:
        with ingest.fields.kept(index):
            return await write(ingest, index, *arguments, **options)

    return keeping


class Ingest:
    """Writes of items that come in one request each.

    Args:
        cluster: the shards.
        catalog: the indexes.
        limits: in force.
        log: decides the order of all changes.
        fields: of the indexes.

    Attributes:
        fields: of the indexes, with those of writes that are under way.
    """

    def __init__(
        self,
        cluster: Cluster,
        catalog: Catalog,
        limits: Limits,
        log: WriteLog,
        fields: KnownFields,
    ) -> None:
        self._cluster = cluster
        self._catalog = catalog
        self._limits = limits
        self._log = log
        self.fields = fields

    @_keeping_fields
    async def put_items(self, index: Index, body: bytes, deadline: Deadline) -> WriteResult:
        """Add the items of a JSON array (or a single item); items with an existing id replace it.

        All or nothing.

        Raises:
            InvalidRequest: the body is not an array of valid items; `details["errors"]` lists each
                invalid item by position.
            PayloadTooLarge: too many items.
        """
        chunks = await self._checked_items(index, body, _ADD_ELSEWHERE, deadline)
        result = WriteResult(seq=self._cluster.horizon(index.number))
        for scanned in chunks:
            result.num_without_id += int((~scanned.has_id).sum())
            if scanned.num_items:  # only one of the two: `finish` may find nothing more
                result.add(await self._write_items(index, _items(scanned), deadline))
        return result

    @_keeping_fields
    async def merge_items(
        self, index: Index, body: bytes, deadline: Deadline
    ) -> tuple[WriteResult, list[bytes]]:
        """Replace some fields of the items of a JSON array (or of a single one), in one group.

        Returns:
            The result, whose `refused` has the items that do not exist or cannot take the change;
            and the canonical ids, in the order of the body.

        Raises:
            InvalidRequest: as `put_items`; also for an item without an id.
            PayloadTooLarge: too many items.
        """
        chunks = await self._checked_items(index, body, _MERGE_ELSEWHERE, deadline)
        operations = await run_on_bytes(len(body), partial(_merges, chunks, self._limits))
        result = await self._write_operations(index, operations, _NOT_MERGED, deadline)
        return result, [one.id for one in operations]

    @_keeping_fields
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
        payload, has_own_id = await self._checked(index, item_id, body, deadline)
        kind = Operation.REPLACE if has_own_id else Operation.REPLACE_KEEPING_ID
        operation = ItemOperation(kind, item_id, payload)
        return await self._write_item(index, operation, deadline, version)

    @_keeping_fields
    async def put_item(
        self, index: Index, item_id: bytes, body: bytes, deadline: Deadline
    ) -> WriteResult:
        """Add an item under an id, or replace the item that has it; errors as in `replace_item`."""
        payload, has_own_id = await self._checked(index, item_id, body, deadline)
        kind = Operation.PUT if has_own_id else Operation.PUT_KEEPING_ID
        operation = ItemOperation(kind, item_id, payload)
        return await self._write_item(index, operation, deadline, None)

    @_keeping_fields
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
        payload, _ = await self._checked(index, item_id, body, deadline)
        operation = ItemOperation(Operation.MERGE, item_id, payload)
        return await self._write_item(index, operation, deadline, version)

    async def delete_item(
        self, index: Index, item_id: bytes, deadline: Deadline, *, version: bytes | None = None
    ) -> WriteResult:
        """Delete an item.

        Raises:
            NotFound: `item_not_found`.
            Conflict: the stored item has another version.
        """
        operation = ItemOperation(Operation.DELETE, item_id, item_id)
        return await self._write_item(index, operation, deadline, version)

    async def delete_items(
        self, index: Index, item_ids: Sequence[bytes], deadline: Deadline
    ) -> WriteResult:
        """Delete items by canonical id; ids that do not exist are ignored."""
        return await self.write_operations(
            index, [ItemOperation(Operation.DELETE, id, id) for id in item_ids], deadline
        )

    @_keeping_fields
    async def write_operations(
        self,
        index: Index,
        operations: Sequence[ItemOperation],
        deadline: Deadline,
        positions: Mapping[str, str] | None = None,
    ) -> WriteResult:
        """Apply operations in one group.

        Args:
            index: the target.
            operations: in order; their items are checked.
            deadline: for the confirmation of the write.
            positions: of sources of changes, by name, to be stored in the same commit; an empty one
                forgets its source.
        """
        num_bytes = sum([len(one.payload) for one in operations])
        items = await run_on_bytes(num_bytes, partial(_items_of, operations))
        await self.fields.check(index, items, deadline)
        return await self._write_operations(index, operations, _NOT_APPLIED, deadline, positions)

    @_keeping_fields
    async def change_selected(
        self, index: Index, changes: Sequence[SelectedChange], deadline: Deadline
    ) -> AppliedBatch:
        """Change selected items in one group; skip those that changed since they were selected."""
        items = {one.payload for one in changes if one.operation != Operation.DELETE}
        await self.fields.check(index, sorted(items), deadline)
        batch = self._log.batch_of_selected(changes)
        return await present_queue(self._log, self._catalog, index).write(batch, deadline)

    @property
    def selects_by_version(self) -> bool:
        """Whether changes to selected items must name the version that was selected."""
        return self._log.is_shared

    def num_waiting(self) -> int:
        """Return the number of waiting batches, over all indexes."""
        return self._log.num_waiting()

    async def _write_operations(
        self,
        index: Index,
        operations: Sequence[ItemOperation],
        refusals: Sequence[Outcome],
        deadline: Deadline,
        positions: Mapping[str, str] | None = None,
    ) -> WriteResult:
        """Write checked operations in one group.

        Args:
            index: the target.
            operations: in order.
            refusals: outcomes of operations that the result lists as `refused`.
            deadline: for the confirmation of the write.
            positions: of sources of changes, stored in the same commit.
        """
        result = WriteResult(seq=self._cluster.horizon(index.number))
        if operations or positions:
            batch = self._log.batch_of_operations(operations, positions=positions)
            applied = await present_queue(self._log, self._catalog, index).write(batch, deadline)
            result.add(applied)
            result.refused = [
                (position, Outcome(outcome))
                for position, outcome in enumerate(applied.outcomes.tolist())
                if outcome in refusals
            ]
        return result

    async def _checked_items(
        self, index: Index, body: bytes, elsewhere: str, deadline: Deadline
    ) -> list[ScannedItems]:
        """Return the items of a JSON array, or a single item, all of which are valid.

        Args:
            index: the target.
            body: as sent.
            elsewhere: where to send what does not fit here, for error messages.
            deadline: for asking which fields there are.

        Raises:
            As `put_items`.
        """
        body = await self._as_array(index, body.removeprefix(BOM_UTF8), elsewhere)
        chunks = await run_on_bytes(len(body), partial(self._scan, index, body))
        chunks = await self._with_fields_checked(index, chunks, len(body), deadline)
        errors = RejectedItems(self._limits.errors_reported_max, "index")
        for scanned in chunks:
            errors.add(scanned.errors)
        errors.raise_if_any()
        num_items = sum(scanned.num_items for scanned in chunks)
        if num_items > self._limits.batch_items_max:
            raise PayloadTooLarge(
                f"a batch may have {self._limits.shown('batch_items_max')} items, not "
                f"{num_items}; {elsewhere}"
            )
        return chunks

    async def _as_array(self, index: Index, body: bytes, elsewhere: str) -> bytes:
        """Return a body that begins as a JSON array, or a single item, which is checked, in one.

        Raises:
            InvalidRequest: it is neither.
        """
        first = body.lstrip(b" \t\r\n")[:1]
        if first == b"[":
            return body
        if first != b"{":
            check_uncompressed(body)
            raise InvalidRequest(
                f"the body must be an item or a JSON array of items; {elsewhere}",
                code="invalid_body",
            )
        scan = partial(scan_item, body, index.configuration.facets, self._limits)
        mistake = await run_on_bytes(len(body), scan)
        if isinstance(mistake, ItemError):
            raise InvalidRequest(
                f"{mistake.message}; the body must be one item or a JSON array of items; "
                f"{elsewhere}",
                code=mistake.code,
            )
        if _LIST_INSIDE.match(body):
            await run_on_bytes(len(body), partial(_refuse_list_inside, body))
        return b"[%b]" % body

    async def _with_fields_checked(
        self, index: Index, chunks: Sequence[ScannedItems], num_bytes: int, deadline: Deadline
    ) -> list[ScannedItems]:
        """Move the items with too many new fields to the errors.

        If there are any, the shards are asked which fields there are: those that are known may be
        of writes that failed.
        """
        names = await self.fields.of(index, deadline)
        admitted = await run_on_bytes(num_bytes, partial(_admitted, names, chunks))
        if sum(map(_num_errors, admitted)) > sum(map(_num_errors, chunks)):
            names = await self.fields.of(index, deadline, is_new=True)
            admitted = await run_on_bytes(num_bytes, partial(_admitted, names, chunks))
        return admitted

    def _scan(self, index: Index, body: bytes) -> list[ScannedItems]:
        """Scan a whole body."""
        scanner = ItemScanner(index.configuration.facets, self._limits)
        return [scanner.feed(body), scanner.finish()]

    async def _checked(
        self, index: Index, item_id: bytes, body: bytes, deadline: Deadline
    ) -> tuple[bytes, bool]:
        """Check the item of a single operation, and that its index may have its fields.

        Returns:
            The item with its id, and whether it had one.

        Raises:
            As `_checked_item`, and InvalidRequest: `too_many_index_fields`.
        """
        check = partial(_checked_item, item_id, body, index.configuration.facets, self._limits)
        payload, has_own_id = await run_on_bytes(len(body), check)
        await self.fields.check(index, [payload], deadline)
        return payload, has_own_id

    async def _write_item(
        self,
        index: Index,
        operation: ItemOperation,
        deadline: Deadline,
        version: bytes | None,
    ) -> WriteResult:
        """Apply one operation and report its outcome.

        Args:
            index: the target.
            operation: its item is checked.
            deadline: for the confirmation of the write.
            version: xxh64 that the stored bytes must have; None: any.

        Raises:
            NotFound, Conflict, InternalError, InvalidRequest: it had no effect.
        """
        shown = operation.id.decode()
        versions = None if version is None else {0: version}
        batch = self._log.batch_of_operations([operation], versions)
        applied = await present_queue(self._log, self._catalog, index).write(batch, deadline)
        outcome = applied.outcomes[0]
        if outcome == Outcome.NOT_FOUND:
            raise NotFound(
                f"there is no item {shown!r} in index {index.name!r}",
                code="item_not_found",
            )
        if outcome == Outcome.CONFLICT:
            raise Conflict(f"item {shown!r} is no longer the version that If-Match names")
        if outcome == Outcome.CORRUPT:
            raise InternalError(
                f"item {shown!r} is damaged on disk: write it again as a whole, or "
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

    async def _write_items(self, index: Index, items: Items, deadline: Deadline) -> AppliedBatch:
        """Write items as one batch."""
        parts = await run_on_bytes(len(items.payload), partial(self._log.divide, items))
        batch = WriteBatch.of_items(items, parts)
        return await present_queue(self._log, self._catalog, index).write(batch, deadline)


def _checked_item(
    item_id: bytes, body: bytes, facets: Collection[str], limits: Limits
) -> tuple[bytes, bool]:
    """Check the item of a single operation; return it with its id, and whether it had one.

    Args:
        item_id: canonical id from the path.
        body: the item as sent.
        facets: of the index, whose values are limited.
        limits: in force.

    Raises:
        InvalidRequest: the item is invalid, or has another id (`id_mismatch`).
        PayloadTooLarge: it is too large with its id.
    """
    found = scan_item(body, facets, limits)
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
    if len(body) > limits.item_bytes_max:
        raise PayloadTooLarge(f"an item may have {limits.shown('item_bytes_max')} bytes")
    return body, found is not None


def with_id(item: bytes, item_id: bytes) -> bytes:
    """Insert an id as the first field of an item (valid JSON) that has none.

    Digits become a number, anything else a string.
    """
    inside = item.strip(b" \t\r\n")[1:]
    separator = b"" if inside.lstrip(b" \t\r\n") == b"}" else b","
    return b'{"id":%b%b%b' % (orjson.dumps(shown_id(item_id)), separator, inside)


def _items_of(operations: Sequence[ItemOperation]) -> list[bytes]:
    """Return the items in some operations; of changed values, an item that has such fields."""
    return [
        orjson.dumps(as_item(orjson.loads(one.payload))) if one.kind in _CHANGING else one.payload
        for one in operations
        if one.kind != Operation.DELETE
    ]


def _merges(chunks: Sequence[ScannedItems], limits: Limits) -> list[ItemOperation]:
    """Return the operations that merge items into the stored ones.

    Raises:
        InvalidRequest: code invalid_id; an item has no id.
    """
    without = RejectedItems(limits.errors_reported_max, "index")
    operations: list[ItemOperation] = []
    for scanned in chunks:
        errors = [
            ItemError(position, None, "invalid_id", "an item to change needs its id", 1)
            for position in scanned.lines[~scanned.has_id].tolist()
        ]
        without.add(errors)
        if errors:
            continue
        for ordinal in range(scanned.num_items):
            item = scanned.item(ordinal)
            operations.append(ItemOperation(Operation.MERGE, canonical_id(item) or b"", item))
    without.raise_if_any()
    return operations


def _items(scanned: ScannedItems) -> Items:
    """Convert scanned items to the form that is written."""
    return Items(scanned.payload, scanned.starts, scanned.ends, scanned.id_hashes, scanned.has_id)


def _refuse_list_inside(body: bytes) -> None:
    """Refuse an item that is nothing but a list of items.

    Raises:
        InvalidRequest: code invalid_body.
    """
    (name, values), *others = orjson.loads(body).items()
    # (Of a name that comes twice, the last value counts, which need not be the list.)
    if not others and isinstance(values, list) and all(isinstance(one, dict) for one in values):
        raise InvalidRequest(
            f"this would be one item, with nothing but the list {name}; send the list itself, "
            'such as [{"id": 1, "name": "sea"}]',
            code="invalid_body",
        )


def _admitted(names: FieldNames, chunks: Sequence[ScannedItems]) -> list[ScannedItems]:
    return [names.admit(scanned, "item") for scanned in chunks]


def _num_errors(scanned: ScannedItems) -> int:
    return len(scanned.errors)
