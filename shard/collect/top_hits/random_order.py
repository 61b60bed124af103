"""Random orders: a number for every item, determined by its id and a seed alone.

So an order is the same on any number of shards, and after an update, a restore or a new load. For
items without an id, the insertion number replaces it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from common.kernels.decorator import kernel
from common.kernels.types import U64, U32Array, U64Array, uint64
from shard.caches.lru_cache import COLUMN_CACHE
from shard.segment.doc_records_and_places import places_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from shard.segment.segment import Segment

NUMBER_BITS: Final = 53
"""Doubles represent the numbers exactly."""
_MASK: Final = (1 << 64) - 1
_UNUSED_BITS: Final = uint64(64 - NUMBER_BITS)


@kernel(allocates=False)
def _mix(hashes: U64Array, docs: U32Array, increment: U64, numbers: U64Array) -> None:
    """Fill in the numbers of some documents: splitmix64's finalizer over hash and seed.

    In one pass: the same by numpy takes one for each operation, and five times as long.
    """
    for i in range(len(docs)):
        mixed = hashes[docs[i]] + increment
        mixed = (mixed ^ (mixed >> uint64(30))) * uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> uint64(27))) * uint64(0x94D049BB133111EB)
        numbers[i] = (mixed ^ (mixed >> uint64(31))) >> _UNUSED_BITS


def random_numbers(segment: Segment, docs: NDArray[np.uint32], seed: int) -> NDArray[np.uint64]:
    """Return the numbers of some documents."""
    numbers = np.empty(len(docs), np.uint64)
    _mix(_hashes(segment), docs, uint64((seed + 1) * 0x9E3779B97F4A7C15 & _MASK), numbers)
    return numbers


def _hashes(segment: Segment) -> NDArray[np.uint64]:
    """Return, by document, the hash of each item's id, or its insertion number; cached."""

    def make() -> NDArray[np.uint64]:
        hashes = places_of(segment)
        hashes[segment["ids.doc"]] = segment["ids.hash"]
        return hashes

    key = ("id hashes", segment.uid)
    return COLUMN_CACHE.get_or_make(key, make, lambda made: made.nbytes, segment)
