"""What a group of write operations comes to: outcomes, new documents, records that die. Pure.

Operations are applied in order, each on what the earlier ones left. An id that is written twice in
one group ends as one document: the last one, at the place of the first. The plan knows nothing of
LMDB or segments; it asks two functions what is stored.

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
from common.json.scan import validate_item
from common.limits import DEFAULT_LIMITS, Limits
from common.protocol.operations import Operation, Outcome
from shard.segment.external_ids import item_id


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
    """

    operation: Operation
    content: bytes
    place: int
    version: bytes | None = None

    @property
    def id(self) -> bytes | None:
        """Canonical id, or None for an item without one."""
        return self.content if self.operation == Operation.DELETE else item_id(self.content)


@dataclass(slots=True)
class NewDocument:
    """A document that the group adds, unless a later operation of the group removes it again."""

    content: bytes
    place: int
    is_alive: bool = True


@dataclass(slots=True)
class WritePlan:
    """What to store and what to remove.

    Attributes:
        outcomes: of each operation, in order.
        documents: in the order of their records; only those that live at the end.
        deleted: records that die.
    """

    outcomes: list[Outcome] = field(default_factory=list)
    documents: list[NewDocument] = field(default_factory=list)
    deleted: list[int] = field(default_factory=list)


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


_NEEDS_ITEM = (Operation.REPLACE, Operation.MERGE, Operation.DELETE)

_MERGING = (Operation.MERGE, Operation.UPSERT)

_decode_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def merge_items(stored: bytes, changes: bytes) -> bytes:
    """Return the stored item with the members of `changes` put over it, one level deep.

    Values are not parsed: what was not changed stays as it was sent, digit for digit. The id keeps
    its stored form.
    """
    members = _decode_members(stored)
    members.update(
        (key, value)
        for key, value in _decode_members(changes).items()
        if key != "id" or key not in members
    )
    return msgspec.json.encode(members)


def version_of(document: bytes) -> bytes:
    """Return the version of an item: 8 bytes, xxh64 of its stored bytes."""
    return xxhash.xxh64_digest(document)


class _Planner:
    """Applies operations one after the other; see `plan_writes`."""

    def __init__(
        self, stored: Mapping[bytes, Stored], read: Callable[[int], bytes], limits: Limits
    ) -> None:
        self.plan = WritePlan()
        self._read = read
        self._limits = limits
        self._current = {id: _Current(one, None) for id, one in stored.items()}

    def apply(self, change: Change, id: bytes | None) -> Outcome:
        """Apply one operation to the item of an id; change nothing unless it succeeds.

        A damaged item fails what needs its content, and nothing else of the group.
        """
        try:
            return self._apply(change, id)
        except InternalError as error:
            if error.code != "item_corrupt":
                raise
            return Outcome.CORRUPT

    def _apply(self, change: Change, id: bytes | None) -> Outcome:
        current = self._current.get(id) if id is not None else None
        if current is None and change.operation in _NEEDS_ITEM:
            return Outcome.NOT_FOUND
        if change.version is not None and (
            current is None or version_of(self._content(current)) != change.version
        ):
            return Outcome.CONFLICT
        if current is None:
            self._add(id, change.content, change.place)
            return Outcome.CREATED
        assert id is not None
        if change.operation == Operation.DELETE:
            self._remove(current)
            del self._current[id]
            return Outcome.DELETED
        content = change.content
        if change.operation in _MERGING:
            content = merge_items(self._content(current), content)
            if validate_item(content, limits=self._limits) is not None:
                return Outcome.INVALID
        self._remove(current)
        self._add(id, content, current.place)
        return Outcome.UPDATED

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
        if current.stored is not None:
            self.plan.deleted.append(current.stored.record)


def plan_writes(
    changes: Sequence[Change],
    ids: Sequence[bytes | None],
    stored: Mapping[bytes, Stored],
    read: Callable[[int], bytes],
    limits: Limits = DEFAULT_LIMITS,
) -> WritePlan:
    """Apply a group of operations in order.

    Args:
        changes: the operations.
        ids: the id of each.
        stored: the live documents of those ids of the operations that exist.
        read: returns the stored bytes of a record; raises `item_corrupt` for a damaged one.
        limits: of items that are merged of two.

    Cost: 3 µs an operation, and for MERGE and preconditions a read.
    """
    planner = _Planner(stored, read, limits)
    planner.plan.outcomes = [
        planner.apply(change, id) for change, id in zip(changes, ids, strict=True)
    ]
    planner.plan.documents = [one for one in planner.plan.documents if one.is_alive]
    return planner.plan
