"""Plans a write group: which documents it stores and which it removes, before anything is written.

Large groups of plain items are planned as arrays (`_plan_as_arrays`), all others operation by
operation (`_plan_singly`, by the rules of `write_operation_effects`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from common.errors import InternalError
from common.item_placement import hash_id
from common.protocol.write_operations_and_outcomes import Operation, Outcome
from shard.partition.write_operation_effects import Change, Stored, plan_writes
from shard.segment.columns.external_ids import find_few_live, find_live, hash_ids, is_item_of
from shard.segment.doc_records_and_places import numbers_of, places_of, records_of
from shard.storage.lmdb_codecs import as_bytes_array

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from common.protocol.messages import ApplyRequest
    from shard.partition.partition import Partition
    from shard.segment.items.value_extraction import Extraction
    from shard.segment.snapshot import Snapshot

PLAN_SINGLY_MAX = 64
"""Operations of a group that are planned one by one; larger groups of plain items are arrays."""
COMPARED_AT_ONCE = 256
"""Stored items that are in memory together, to compare their ids."""


@dataclass(frozen=True, slots=True)
class Additions:
    """Documents that a group adds, in the order of their records."""

    payload: NDArray[np.uint8]
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    places: NDArray[np.uint64]

    @property
    def count(self) -> int:
        """Number of documents."""
        return len(self.starts)

    def after(self, other: Additions) -> Additions:
        """Return the documents of the other, then these."""
        shift = len(other.payload)
        return Additions(
            np.concatenate((other.payload, self.payload)),
            np.concatenate((other.starts, self.starts + shift)),
            np.concatenate((other.ends, self.ends + shift)),
            np.concatenate((other.places, self.places)),
        )


@dataclass(frozen=True, slots=True)
class Planned:
    """Documents that a group stores and removes."""

    outcomes: bytes
    additions: Additions
    deleted: NDArray[np.uint64]
    extraction: Extraction | None = None
    """Extraction of the additions, if planning has made it."""
    text_ids: tuple[int, ...] = ()
    """See `ApplyResponse`."""


class GroupPlanner:
    """Plans the groups of one partition.

    Args:
        partition: the index.
    """

    def __init__(self, partition: Partition) -> None:
        self._partition = partition
        self._documents = partition.documents

    def plan(self, request: ApplyRequest, base: Snapshot) -> Planned:
        """Return what a group stores and removes.

        Args:
            request: the group.
            base: the state before it.
        """
        sizes = np.frombuffer(request.lengths, np.uint32).astype(np.int64)
        ends = np.cumsum(sizes)
        additions = Additions(
            as_bytes_array(request.payload),
            ends - sizes,
            ends,
            np.frombuffer(request.places, np.uint64),
        )
        is_plain = not (request.versions or request.records)
        is_plain = is_plain and request.operations.count(Operation.PUT) == len(sizes)
        if is_plain and len(sizes) > PLAN_SINGLY_MAX:
            planned = self._plan_as_arrays(additions, base)
            if planned is not None:
                return planned
        return self._plan_singly(request, additions, base)

    def _plan_as_arrays(self, additions: Additions, base: Snapshot) -> Planned | None:
        """Plan items of different ids as arrays; None if an id comes twice."""
        extraction = self._partition.generation.builder.extract(
            additions.payload, additions.starts, additions.ends
        )
        has_id = np.flatnonzero(extraction.id_end > extraction.id_start)
        hashes = hash_ids(extraction, has_id)
        order = np.argsort(hashes)
        hashes, has_id = hashes[order], has_id[order]
        if (hashes[1:] == hashes[:-1]).any():
            return None
        outcomes = np.full(additions.count, Outcome.CREATED, np.uint8)
        places = additions.places.copy()
        deleted = [np.zeros(0, np.uint64)]
        for view in base.views:
            queries, docs = find_live(view.segment, view.live_mask, hashes, are_ascending=True)
            if not len(docs):
                continue
            items = has_id[queries]
            in_order = np.argsort(items)  # of the batch, and usually of the records
            items, docs = items[in_order], docs[in_order]
            records = records_of(view.segment, docs)
            starts = extraction.id_start[items].tolist()
            ends = extraction.id_end[items].tolist()
            ids = [extraction.text[a:b].tobytes() for a, b in zip(starts, ends, strict=True)]
            is_same = np.array(self._have_ids(records.tolist(), ids), np.bool_)
            items, docs = items[is_same], docs[is_same]
            outcomes[items] = Outcome.UPDATED
            places[items] = places_of(view.segment, docs)
            deleted.append(records[is_same])
        return Planned(
            outcomes.tobytes(),
            replace(additions, places=places),
            np.concatenate(deleted),
            extraction,
        )

    def _have_ids(self, records: Sequence[int], ids: Sequence[bytes]) -> list[bool]:
        """Return, for each stored record, whether it has the id that has the same hash."""
        are_same: list[bool] = []
        for first in range(0, len(records), COMPARED_AT_ONCE):
            piece = slice(first, first + COMPARED_AT_ONCE)
            try:
                documents = self._documents.read(records[piece])
            except InternalError:  # one is damaged: look at each alone
                are_same += map(self._has_id, records[piece], ids[piece])
            else:
                are_same += map(is_item_of, documents, ids[piece])
        return are_same

    def _has_id(self, record: int, id: bytes) -> bool:
        """Return whether the stored item has an id, given that the hash is the same.

        A damaged item counts as the same: writing it again is the way to repair it.
        """
        try:
            (document,) = self._documents.read([record])
        except InternalError:
            return True
        return is_item_of(document, id)

    def _plan_singly(self, request: ApplyRequest, additions: Additions, base: Snapshot) -> Planned:
        """Plan operations one after the other."""
        spans = zip(additions.starts.tolist(), additions.ends.tolist(), strict=True)
        changes = [
            Change(Operation(operation), bytes(request.payload[start:end]), place, version, record)
            for operation, (start, end), place, version, record in zip(
                request.operations,
                spans,
                additions.places.tolist(),
                map(request.versions.get, range(len(request.operations))),
                map(request.records.get, range(len(request.operations))),
                strict=True,
            )
        ]
        ids = [change.id for change in changes]
        stored = self.locate(base, {id for id in ids if id is not None})
        plan = plan_writes(
            changes,
            ids,
            stored,
            lambda record: base.read_documents([record])[0],
            self._partition.settings.limits,
            base.has_record,
        )
        sizes = np.array([len(one.content) for one in plan.documents], np.int64)
        ends = np.cumsum(sizes)
        return Planned(
            bytes(plan.outcomes),
            Additions(
                as_bytes_array(b"".join(one.content for one in plan.documents)),
                ends - sizes,
                ends,
                np.array([one.place for one in plan.documents], np.uint64),
            ),
            np.array(plan.deleted, np.uint64),
            text_ids=tuple(plan.text_ids),
        )

    def locate(self, base: Snapshot, ids: set[bytes]) -> dict[bytes, Stored]:
        """Return the live documents of those ids that exist."""
        ordered = sorted(ids)
        hashes = np.array([hash_id(id) for id in ordered], np.uint64)
        found: list[tuple[bytes, Stored]] = []
        for view in base.views:
            queries, docs = find_few_live(view.segment, view.deleted, hashes)
            if not len(docs):  # as in most of the views
                continue
            places, records = numbers_of(view.segment, docs)
            stored = map(Stored, records.tolist(), places.tolist())
            found += zip([ordered[query] for query in queries.tolist()], stored, strict=True)
        are_same = self._have_ids([one.record for _, one in found], [id for id, _ in found])
        return {id: one for (id, one), is_same in zip(found, are_same, strict=True) if is_same}
