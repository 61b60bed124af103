"""Maps items to shards: a fixed hash of the id gives one of 1,024 slots, slots map to shards.

    id 5, "5"  →  b"5"  →  xxh64  →  slot = hash & 1023  →  shard = slot * num_shards >> 10

Slots never change; the number of shards may (`facetd reshard` moves slots). An item without an id
is placed by the hash of its insertion number, which is unique. The hash exists twice: the `xxhash`
package for single ids, and a kernel for whole batches (`common/json/item_scanner.py` hashes each id
as it reads it).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import xxhash

from common.kernels.decorator import kernel
from common.kernels.intrinsics import load_u32, load_u64
from common.kernels.types import U64, BoolArray, I64Array, U8Array, U64Array, int64, uint64

if TYPE_CHECKING:
    from numpy.typing import NDArray

NUM_SLOTS: Final = 1024
"""Enough that the fullest of a few shards has about 1 % more than its share; a power of two."""

_PRIME_1 = uint64(0x9E3779B185EBCA87)
_PRIME_2 = uint64(0xC2B2AE3D27D4EB4F)
_PRIME_3 = uint64(0x165667B19E3779F9)
_PRIME_4 = uint64(0x85EBCA77C2B2AE63)
_PRIME_5 = uint64(0x27D4EB2F165667C5)
_64 = uint64(64)


@kernel(inline=True, allocates=False)
def _rotate(word: U64, num_bits: U64) -> U64:
    return (word << num_bits) | (word >> (_64 - num_bits))


@kernel(inline=True, allocates=False)
def _round(accumulator: U64, lane: U64) -> U64:
    return _rotate(accumulator + lane * _PRIME_2, uint64(31)) * _PRIME_1


@kernel(inline=True, allocates=False)
def _merge_round(digest: U64, accumulator: U64) -> U64:
    return (digest ^ _round(uint64(0), accumulator)) * _PRIME_1 + _PRIME_4


@kernel(allocates=False)
def xxh64(array: U8Array, start: int, end: int) -> U64:
    """Return the xxh64 (seed 0) of ``array[start:end]``, equal to ``xxhash.xxh64_intdigest``."""
    position = start
    if end - start >= 32:
        first = _PRIME_1 + _PRIME_2
        second = _PRIME_2
        third = uint64(0)
        fourth = uint64(0) - _PRIME_1
        while position + 32 <= end:
            first = _round(first, load_u64(array, position))
            second = _round(second, load_u64(array, position + 8))
            third = _round(third, load_u64(array, position + 16))
            fourth = _round(fourth, load_u64(array, position + 24))
            position += 32
        digest = (
            _rotate(first, uint64(1))
            + _rotate(second, uint64(7))
            + _rotate(third, uint64(12))
            + _rotate(fourth, uint64(18))
        )
        digest = _merge_round(digest, first)
        digest = _merge_round(digest, second)
        digest = _merge_round(digest, third)
        digest = _merge_round(digest, fourth)
    else:
        digest = _PRIME_5
    digest += uint64(end - start)
    while position + 8 <= end:
        digest ^= _round(uint64(0), load_u64(array, position))
        digest = _rotate(digest, uint64(27)) * _PRIME_1 + _PRIME_4
        position += 8
    if position + 4 <= end:
        digest ^= uint64(load_u32(array, position)) * _PRIME_1
        digest = _rotate(digest, uint64(23)) * _PRIME_2 + _PRIME_3
        position += 4
    while position < end:
        digest ^= uint64(array[position]) * _PRIME_5
        digest = _rotate(digest, uint64(11)) * _PRIME_1
        position += 1
    digest ^= digest >> uint64(33)
    digest *= _PRIME_2
    digest ^= digest >> uint64(29)
    digest *= _PRIME_3
    return digest ^ (digest >> uint64(32))


@kernel
def _shards_of(
    hashes: U64Array, has_id: BoolArray, places: U64Array, num_shards: int, out: I64Array
) -> None:
    place_bytes = np.empty(8, np.uint8)
    for item in range(len(hashes)):
        digest = hashes[item]
        if not has_id[item]:
            for byte in range(8):
                place_bytes[byte] = (places[item] >> uint64(8 * byte)) & uint64(0xFF)
            digest = xxh64(place_bytes, 0, 8)
        slot = int64(digest & uint64(NUM_SLOTS - 1))
        out[item] = (slot * num_shards) // NUM_SLOTS


def hash_id(canonical: bytes) -> int:
    """Return the uint64 hash by which an id is placed and looked up."""
    return xxhash.xxh64_intdigest(canonical)


def slot_of(id_hash: int) -> int:
    """Return the slot (0 … 1,023) of an id's hash."""
    return id_hash & (NUM_SLOTS - 1)


def shard_of_slot(slot: int, num_shards: int) -> int:
    """Return the shard that owns a slot; shards own runs of slots of (nearly) equal length."""
    return slot * num_shards // NUM_SLOTS


def shard_of_id(canonical: bytes, num_shards: int) -> int:
    """Return the shard that owns an id."""
    return shard_of_slot(slot_of(hash_id(canonical)), num_shards)


def shards_of(
    id_hashes: NDArray[np.uint64],
    has_id: NDArray[np.bool_],
    places: NDArray[np.uint64],
    num_shards: int,
) -> NDArray[np.int64]:
    """Return the shard of each item of a batch.

    Args:
        id_hashes: hash of each item's id; ignored where there is none.
        has_id: whether the item has an id.
        places: place (seq << 32 | position) of each item; used where there is no id.
        num_shards: number of shards.

    Returns:
        Shard ordinals by item, int64.

    Cost: about 5 ns an item.
    """
    shards = np.empty(len(id_hashes), np.int64)
    _shards_of(id_hashes, has_id, places, num_shards, shards)
    return shards
