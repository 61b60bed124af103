"""The effect of a group of write operations: outcomes, new documents, deleted records. Pure.

Operations are applied in order, each to the result of the earlier ones. An id that is written twice
in one group ends as one document: the last one, at the place of the first. The plan knows nothing
of LMDB or segments; two functions give it the stored state.

    stored      operations                        plan
    5 (rec 7)   PUT 5, PUT 9, DELETE 5, PUT 9'    deleted [7], documents [9'], outcomes
                                                  UPDATED, CREATED, DELETED, UPDATED
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec
import xxhash

from common.errors import InternalError
from common.item_ids import shown_id
from common.json.item_scanner import validate_item
from common.limits import DEFAULT_LIMITS, Limits
from common.partial_updates import ConditionFailed, Inapplicable, resolved
from common.protocol.write_operations_and_outcomes import Operation, Outcome
from shard.segment.columns.external_ids import item_id, shown_id_of


class Stored(NamedTuple):
    """A live document as the index has it."""

    record: int
    place: int


class Change(NamedTuple):
    """One operation of a group.

    Attributes:
        operation: what to do.
        content: the item as JSON; for DELETE the id as text.
        place: insertion number if the item is new.
        version: the xxh64 that the stored bytes must have, or None.
        record: the record that must be the item's, or None; a DELETE without id removes it.
    """

    operation: Operation
    content: bytes
    place: int
    version: bytes | None = None
    record: int | None = None

    @property
    def id(self) -> bytes | None:
        """Canonical id, or None for an item without one."""
        if self.operation == Operation.DELETE:
            return self.content or None
        return item_id(self.content)


@dataclass(slots=True)
class NewDocument:
    """A document that the group adds, unless a later operation of the group removes it again."""

    content: bytes
    place: int
    is_alive: bool = True


@dataclass(slots=True)
class WritePlan:
    """Documents to store and to remove.

    Attributes:
        outcomes: of each operation, in order.
        documents: in the order of their records; only those that live at the end.
        deleted: records that die.
        text_ids: operations that deleted an item whose id, all digits, was stored as a text.
    """

    outcomes: list[Outcome] = field(default_factory=list)
    documents: list[NewDocument] = field(default_factory=list)
    deleted: list[int] = field(default_factory=list)
    text_ids: list[int] = field(default_factory=list)


class _Current(NamedTuple):
    """The item of an id while the group is applied: stored, or new in this group."""

    stored: Stored | None
    new: NewDocument | None

    @property
    def place(self) -> int:
        if self.new is not None:
            return self.new.place
        assert self.stored is not None
        return self.stored.place


_NEEDS_ITEM = (
    Operation.REPLACE,
    Operation.REPLACE_KEEPING_ID,
    Operation.MERGE,
    Operation.MERGE_CHANGES,
    Operation.DELETE,
)

_KEEPING_ID = (Operation.REPLACE_KEEPING_ID, Operation.PUT_KEEPING_ID)
_CHANGING = (Operation.MERGE_CHANGES, Operation.UPSERT_CHANGES)
_MERGING = (Operation.MERGE, Operation.UPSERT, *_CHANGING)

_decode_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def merge_items(stored: bytes, changes: bytes) -> bytes:
    """Return the stored item with its members replaced by those of `changes`, one level deep.

    Values are not parsed: unchanged ones stay as they were sent, digit for digit. The id keeps
    its stored form.
    """
    members = _decode_members(stored)
    members.update(
        (key, value)
        for key, value in _decode_members(changes).items()
        if key != "id" or key not in members
    )
    return msgspec.json.encode(members)


def _with_stored_id(item: bytes, id: bytes, stored: bytes) -> bytes:
    """Return an item with its id in the form in which the stored item has it.

    Args:
        item: begins with its id, as `common.item_ids.shown_id` has it.
        id: canonical.
        stored: the item that it replaces, with the same id.
    """
    start = len(b'{"id":') + len(msgspec.json.encode(shown_id(id)))
    return b'{"id":%b%b' % (shown_id_of(stored), item[start:])


def version_of(document: bytes) -> bytes:
    """Return the version of an item: 8 bytes, xxh64 of its stored bytes."""
    return xxhash.xxh64_digest(document)


class _Planner:
    """Applies operations one after the other; see `plan_writes`."""

    def __init__(
        self,
        stored: Mapping[bytes, Stored],
        read: Callable[[int], bytes],
        is_live: Callable[[int], bool],
        limits: Limits,
    ) -> None:
        self.plan = WritePlan()
        self._gone: set[int] = set()
        self._read = read
        self._is_live = is_live
        self._limits = limits
        self._current = {id: _Current(one, None) for id, one in stored.items()}

    def apply(self, ordinal: int, change: Change, id: bytes | None) -> Outcome:
        """Apply one operation to the item of an id; change nothing unless it succeeds.

        A damaged item fails what needs its content, and nothing else of the group.
        """
        try:
            return self._apply(ordinal, change, id)
        except InternalError as error:
            if error.code != "item_corrupt":
                raise
            return Outcome.CORRUPT

    def _apply(self, ordinal: int, change: Change, id: bytes | None) -> Outcome:
        if change.operation == Operation.DELETE and id is None:
            return self._delete_record(change.record)
        current = self._current.get(id) if id is not None else None
        if current is None and change.operation in _NEEDS_ITEM:
            return Outcome.NOT_FOUND
        if change.record is not None and (
            current is None or current.stored is None or current.stored.record != change.record
        ):
            return Outcome.CONFLICT
        if change.version is not None and (
            current is None or version_of(self._content(current)) != change.version
        ):
            return Outcome.CONFLICT
        content = change.content
        if change.operation in _CHANGING:
            try:
                content = resolved(content, b"{}" if current is None else self._content(current))
            except ConditionFailed:
                return Outcome.UNCHANGED
            except Inapplicable:
                return Outcome.INVALID
        if current is None:
            self._add(id, content, change.place)
            return Outcome.CREATED
        assert id is not None
        if change.operation == Operation.DELETE:
            if id.isdigit() and self._has_text_id(current):
                self.plan.text_ids.append(ordinal)
            self._remove(current)
            del self._current[id]
            return Outcome.DELETED
        if change.operation in _KEEPING_ID:
            content = self._keeping_id(content, id, current)
        if change.operation in _MERGING:
            content = merge_items(self._content(current), content)
            if validate_item(content, limits=self._limits) is not None:
                return Outcome.INVALID
        self._remove(current)
        self._add(id, content, current.place)
        return Outcome.UPDATED

    def _delete_record(self, record: int | None) -> Outcome:
        """Remove a record whose item has no id, or cannot be read."""
        if record is None or record in self._gone or not self._is_live(record):
            return Outcome.NOT_FOUND
        self._bury(record)
        return Outcome.DELETED

    def _has_text_id(self, current: _Current) -> bool:
        """Return whether an item's id is stored as a text; False for a damaged item."""
        try:
            return shown_id_of(self._content(current))[:1] == b'"'
        except InternalError:
            return False

    def _keeping_id(self, content: bytes, id: bytes, current: _Current) -> bytes:
        """Return an item with the stored form of its id, unless the stored one is damaged."""
        try:
            return _with_stored_id(content, id, self._content(current))
        except InternalError:
            return content

    def _content(self, current: _Current) -> bytes:
        if current.new is not None:
            return current.new.content
        assert current.stored is not None
        return self._read(current.stored.record)

    def _add(self, id: bytes | None, content: bytes, place: int) -> None:
        document = NewDocument(content, place)
        self.plan.documents.append(document)
        if id is not None:
            self._current[id] = _Current(None, document)

    def _remove(self, current: _Current) -> None:
        if current.new is not None:
            current.new.is_alive = False
        if current.stored is not None and current.stored.record not in self._gone:
            self._bury(current.stored.record)

    def _bury(self, record: int) -> None:
        self._gone.add(record)
        self.plan.deleted.append(record)


def plan_writes(
    changes: Sequence[Change],
    ids: Sequence[bytes | None],
    stored: Mapping[bytes, Stored],
    read: Callable[[int], bytes],
    limits: Limits = DEFAULT_LIMITS,
    is_live: Callable[[int], bool] = lambda _: False,
) -> WritePlan:
    """Apply a group of operations in order.

    Args:
        changes: the operations.
        ids: the id of each.
        stored: the live documents of those ids of the operations that exist.
        read: returns the stored bytes of a record; raises `item_corrupt` for a damaged one.
        limits: of merged items.
        is_live: returns whether a record is live.

    Cost: 3 µs an operation, and for MERGE and preconditions a read.
    """
    planner = _Planner(stored, read, is_live, limits)
    planner.plan.outcomes = [
        planner.apply(ordinal, change, id)
        for ordinal, (change, id) in enumerate(zip(changes, ids, strict=True))
    ]
    planner.plan.documents = [one for one in planner.plan.documents if one.is_alive]
    return planner.plan
