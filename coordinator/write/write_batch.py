"""The operations of one request, to be written in one group, and their outcome."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from common.errors import PartlyStored, ServiceError, Unavailable
from common.item_placement import shards_of
from common.process.request_id_context import REQUEST_IDS
from coordinator.write.partitioning import Parts, divide, places_of

Ranges = list[list[int]]
"""First and last position of each range."""


class AppliedBatch(NamedTuple):
    """The outcome of a batch."""

    outcomes: NDArray[np.uint8]
    """`Outcome` per operation."""
    seq: int
    text_ids: frozenset[int] = frozenset()
    """Operations that deleted an item whose all-digit id was stored as text."""


@dataclass(frozen=True, slots=True)
class Items:
    """Items not yet partitioned among the shards."""

    payload: NDArray[np.uint8]
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    id_hashes: NDArray[np.uint64]
    has_id: NDArray[np.bool_]

    def divide(self, num_shards: int, seq: int = 0, first_position: int = 0) -> Parts:
        """Partition the items; seq and position matter only for items without an id."""
        places = places_of(seq, first_position, len(self.starts))
        shards = shards_of(self.id_hashes, self.has_id, places, num_shards)
        return divide(self.payload, self.starts, self.ends, shards, num_shards)


class WriteBatch:
    """The operations of one request (or of a chunk of a bulk load), to be written in one group.

    Args:
        num_operations: number of operations.
        num_bytes: of all payloads.
        parts: by shard.
        items: instead of parts, if some items have no id. Their shard depends on their insertion
            number, so they are partitioned when their group is made.
        positions: of sources of changes, by name; every shard must then have a part.

    Attributes:
        future: the outcome.
        request_ids: of the request.
        is_anonymous: by operation: whether its item has no id and so must not be sent twice; None
            if all items have ids.
    """

    __slots__ = (
        "future",
        "is_anonymous",
        "items",
        "num_bytes",
        "num_operations",
        "outcomes",
        "parts",
        "positions",
        "request_ids",
        "text_ids",
    )

    def __init__(
        self,
        num_operations: int,
        num_bytes: int,
        parts: Parts | None = None,
        items: Items | None = None,
        positions: Mapping[str, str] | None = None,
    ) -> None:
        assert (parts is None) != (items is None)
        self.num_operations = num_operations
        self.num_bytes = num_bytes
        self.parts = parts or {}
        self.items = items
        self.positions = positions or {}
        has_ids = items is None or items.has_id.all()
        self.is_anonymous = None if has_ids or items is None else ~items.has_id
        self.outcomes = np.zeros(num_operations, np.uint8)
        self.text_ids: frozenset[int] = frozenset()
        self.future: asyncio.Future[AppliedBatch] = asyncio.get_running_loop().create_future()
        self.request_ids = REQUEST_IDS.get()

    def fail(self, error: ServiceError) -> None:
        """Fail with a copy of an error (each waiter adds its own traceback)."""
        if not self.future.done():
            self.future.set_exception(
                type(error)(
                    error.message, code=error.code, param=error.param, details=error.details
                )
            )

    @classmethod
    def of_items(cls, items: Items, parts: Parts | None) -> WriteBatch:
        """Return the batch of items that may be divided over the shards already."""
        num_bytes = int((items.ends - items.starts).sum())
        if parts is None:
            return cls(len(items.starts), num_bytes, items=items)
        return cls(len(items.starts), num_bytes, parts=parts)


def batch_partly_stored(is_stored: NDArray[np.bool_], unknown: NDArray[np.int64]) -> PartlyStored:
    """Return the error that says which items of a batch were stored.

    Args:
        is_stored: by position.
        unknown: positions whose outcome is unknown.
    """
    is_unknown = np.zeros_like(is_stored)
    is_unknown[unknown] = True
    return partly_stored(
        int(np.count_nonzero(is_stored)), ranges(~is_stored & ~is_unknown), ranges(is_unknown)
    )


def unconfirmed(batch: WriteBatch, message: str) -> ServiceError:
    """Return the error of a batch that may have been stored, or may still be, as a whole."""
    if batch.is_anonymous is None:
        return Unavailable(message, code="log_unavailable")
    return batch_partly_stored(
        np.zeros(batch.num_operations, np.bool_), np.arange(batch.num_operations)
    )


def partly_stored(num_stored: int, not_stored: Ranges, unknown: Ranges) -> PartlyStored:
    """Return the error that says which items of a request were stored."""
    return PartlyStored(
        f"{num_stored} items were stored, those at the positions in not_stored were not, and of "
        "those in unknown it is not known: there are items without ids among them, so send only "
        "the missing ones again, or all of them would be stored twice",
        details={"stored": num_stored, "not_stored": not_stored, "unknown": unknown},
    )


def ranges(mask: NDArray[np.bool_], offset: int = 0) -> Ranges:
    """Return the runs of a mask as (first, last) positions, plus an offset."""
    edges = np.flatnonzero(np.diff(mask.astype(np.int8), prepend=0, append=0))
    firsts, ends = edges[::2] + offset, edges[1::2] + offset
    return [[int(first), int(end) - 1] for first, end in zip(firsts, ends, strict=True)]
