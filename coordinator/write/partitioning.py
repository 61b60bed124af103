"""Division: the items of one batch, divided over the shards, without a Python object per item.

    items     0      1      2      3            shards   1      0      1      0
    payload  {"id":1}{"id":2}{"id":3}{"id":4}

    divided   shard 0  payload {"id":2}{"id":4}   lengths 8 8   positions 1 3
              shard 1  payload {"id":1}{"id":3}   lengths 8 8   positions 0 2

Order within a shard is order of the batch, so of two operations on one id (which always meet on one
shard) the later one wins. `positions` lead back from a shard's answers to the items of the batch.

Cost: one pass to count, one to copy: about 200 ns for an item of 500 bytes (new memory, mostly).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from common.kernels.decorator import arguments, kernel
from common.kernels.types import I64Array, U8Array
from common.placement import shard_of_id
from common.protocol.operations import Operation


@dataclass(slots=True)
class Part:
    """What one shard gets of a batch.

    Attributes:
        payload: bytes of all operations, one after the other.
        lengths: uint32 per operation.
        operations: uint8 per operation.
        positions: int64 per operation: which operation of the batch it is.
        versions: 8-byte precondition by ordinal in this part.
        records: record that must be the item's, by ordinal in this part.
    """

    payload: bytes | memoryview
    lengths: NDArray[np.uint32]
    operations: NDArray[np.uint8]
    positions: NDArray[np.int64]
    versions: dict[int, bytes] = field(default_factory=dict)
    records: dict[int, int] = field(default_factory=dict)


Parts = dict[int, Part]
"""Part by shard; shards without a part are left out."""


@kernel
def _measure(
    starts: I64Array,
    ends: I64Array,
    shards: I64Array,
    num_items: I64Array,
    num_bytes: I64Array,
) -> None:
    for item in range(len(starts)):
        shard = shards[item]
        num_items[shard] += 1
        num_bytes[shard] += ends[item] - starts[item]


@arguments
class _Regions(NamedTuple):
    """Where the items of each shard go; theirs are one behind the other.

    Attributes:
        item_cursors: by shard, where the numbers of the next item go.
        byte_cursors: by shard, where the next item goes.
        payload: bytes of the items.
        lengths: bytes of each.
        positions: ordinal of each among all.
    """

    item_cursors: NDArray[np.int64]
    byte_cursors: NDArray[np.int64]
    payload: NDArray[np.uint8]
    lengths: NDArray[np.uint32]
    positions: NDArray[np.int64]


@kernel
def _divide(
    payload: U8Array,
    starts: I64Array,
    ends: I64Array,
    shards: I64Array,
    regions: _Regions,
) -> None:
    """Copy each item to its shard's region; the cursors begin where the regions do."""
    item_cursors, byte_cursors, out_payload, out_lengths, out_positions = regions
    for item in range(len(starts)):
        shard = shards[item]
        start = starts[item]
        length = ends[item] - start
        cursor = byte_cursors[shard]
        out_payload[cursor : cursor + length] = payload[start : start + length]
        byte_cursors[shard] = cursor + length
        out_lengths[item_cursors[shard]] = length
        out_positions[item_cursors[shard]] = item
        item_cursors[shard] += 1


def divide(
    payload: NDArray[np.uint8],
    starts: NDArray[np.int64],
    ends: NDArray[np.int64],
    shards: NDArray[np.int64],
    num_shards: int,
    operation: Operation = Operation.PUT,
) -> Parts:
    """Divide items over the shards that they belong to.

    Args:
        payload: holds the items.
        starts: where each item begins.
        ends: where it ends.
        shards: ordinal of each item's shard.
        num_shards: number of shards.
        operation: what to do with each.

    Returns:
        One part for each shard that gets anything.
    """
    if len(starts) == 1:  # a write of a single item is worth a short cut
        item = payload[starts[0] : ends[0]].tobytes()
        return {int(shards[0]): single_part(item, operation)}
    num_items = np.zeros(num_shards, np.int64)
    num_bytes = np.zeros(num_shards, np.int64)
    _measure(starts, ends, shards, num_items, num_bytes)
    last_items, last_bytes = np.cumsum(num_items), np.cumsum(num_bytes)
    regions = _Regions(
        last_items - num_items,
        last_bytes - num_bytes,
        np.empty(int(last_bytes[-1]), np.uint8),
        np.empty(len(starts), np.uint32),
        np.empty(len(starts), np.int64),
    )
    _divide(payload, starts, ends, shards, regions)
    operations = np.full(len(starts), int(operation), np.uint8)
    parts: Parts = {}
    for shard in range(num_shards):
        last = int(last_items[shard])
        first = last - int(num_items[shard])
        if first < last:
            end = int(last_bytes[shard])
            parts[shard] = Part(
                regions.payload[end - int(num_bytes[shard]) : end].data,
                regions.lengths[first:last],
                operations[first:last],
                regions.positions[first:last],
            )
    return parts


def single_part(payload: bytes, operation: Operation) -> Part:
    """Return the part of a batch of one operation."""
    return Part(
        payload,
        np.array([len(payload)], np.uint32),
        np.array([operation], np.uint8),
        np.zeros(1, np.int64),
    )


def divide_operations(
    operations: Sequence[tuple[Operation, bytes, bytes]],
    num_shards: int,
    versions: dict[int, bytes] | None = None,
) -> Parts:
    """Divide a few single operations.

    Args:
        operations: kind, canonical id, payload (an item, or for a DELETE the id).
        num_shards: number of shards.
        versions: 8-byte precondition by ordinal in `operations`.

    Returns:
        One part for each shard that gets anything.
    """
    by_shard: dict[int, list[int]] = {}
    for position, (_, item_id, _) in enumerate(operations):
        by_shard.setdefault(shard_of_id(item_id, num_shards), []).append(position)
    return {
        shard: Part(
            b"".join(operations[position][2] for position in positions),
            np.array([len(operations[position][2]) for position in positions], np.uint32),
            np.array([operations[position][0] for position in positions], np.uint8),
            np.array(positions, np.int64),
            {
                ordinal: versions[position]
                for ordinal, position in enumerate(positions)
                if position in versions
            }
            if versions
            else {},
        )
        for shard, positions in by_shard.items()
    }


class Selected(NamedTuple):
    """A change of an item that was selected: it is made if the item is still the one selected.

    Attributes:
        operation: what to do with it.
        payload: an item; for a DELETE the canonical id, empty if the item is damaged.
        shard: that has the item.
        record: of the item on its shard.
    """

    operation: Operation
    payload: bytes
    shard: int
    record: int


def divide_selected(changes: Sequence[Selected]) -> Parts:
    """Divide changes of items that were selected.

    Returns:
        One part for each shard that gets anything.
    """
    by_shard: dict[int, list[int]] = {}
    for position, change in enumerate(changes):
        by_shard.setdefault(change.shard, []).append(position)
    return {
        shard: Part(
            b"".join(changes[position].payload for position in positions),
            np.array([len(changes[position].payload) for position in positions], np.uint32),
            np.array([changes[position].operation for position in positions], np.uint8),
            np.array(positions, np.int64),
            records={
                ordinal: changes[position].record for ordinal, position in enumerate(positions)
            },
        )
        for shard, positions in by_shard.items()
    }


def places_of(seq: int, first_position: int, num_items: int) -> NDArray[np.uint64]:
    """Return the places of the next items of a group: seq << 32 | position."""
    first = np.uint64((seq << 32) + first_position)
    return np.arange(num_items, dtype=np.uint64) + first
