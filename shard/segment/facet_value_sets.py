"""Stored sets: the documents of each facet value in a segment file, as lists or Roaring bitmaps.

Questions it answers: which documents have one of these values, and how many of the documents of a
bitset has each value?

    stored set  uint16[], one after the other

        below LIST_DOCS_MAX documents      low half, high half of each ordinal: 4 bytes a document
        otherwise                          the portable Roaring format without run containers,
                                           which pyroaring reads as well:

        uint32 12346 | uint32 containers | (uint16 key, uint16 count - 1) per container |
        uint32 byte offset per container | containers: uint16[count] if count <= 4096,
                                                       else bitset of 65,536 bits

A kernel writes the Roaring format at 2 ns a document; building a `BitMap` from an array takes 30
ns, and serializing comes on top. Reading goes straight into a bitset (`doc_sets`): a value of every
sixth document among 500,000 is 8 containers of 8 KB, OR-ed in 4 µs.

Worked example: {1, 65, 70} of 128 documents is the stored set [1, 0, 65, 0, 70, 0].
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from common.kernels.decorator import arguments, kernel
from common.kernels.intrinsics import count_ones, load_u64
from common.kernels.order_checks import expect_ascending
from common.kernels.types import (
    U32,
    I64Array,
    U16Array,
    U32Array,
    U64Array,
    int64,
    uint16,
    uint32,
    uint64,
)
from shard.segment.doc_sets import has_bit, list_word, set_bit
from shard.segment.merge_allocator import IN_MEMORY, MergeAllocator

if TYPE_CHECKING:
    from numpy.typing import NDArray

LIST_DOCS_MAX: Final = 32
"""Sets of fewer documents are stored as lists: a Roaring header alone is 16 bytes or more."""

_ONE: Final = uint64(1)

_COOKIE: Final = 12346
_CONTAINER_LIST_MAX: Final = 4096
_CONTAINER_UNITS: Final = 4096
"""uint16 units of a bitset container."""


@arguments
class StoredSets(NamedTuple):
    """The documents of each value of a column.

    Attributes:
        numbers: of the values, ascending.
        counts: number of documents of each.
        sets: as `write_sets` encodes them.
        set_offsets: where each begins, with a sentinel.
    """

    numbers: NDArray[np.uint32]
    counts: NDArray[np.uint32]
    sets: NDArray[np.uint16]
    set_offsets: NDArray[np.int64]


@kernel
def _measure_sets(docs: U32Array, offsets: I64Array, set_offsets: I64Array) -> None:
    """Write where each stored set will begin, in uint16 units."""
    set_offsets[0] = 0
    for i in range(len(offsets) - 1):
        expect_ascending(docs[offsets[i] : offsets[i + 1]])
        count = offsets[i + 1] - offsets[i]
        if count < LIST_DOCS_MAX:
            set_offsets[i + 1] = set_offsets[i] + 2 * count
            continue
        # Roaring: cookie and count, then per container key, count, offset and content.
        units = 4
        start = offsets[i]
        while start < offsets[i + 1]:
            end = start
            key = docs[start] >> uint32(16)
            while end < offsets[i + 1] and docs[end] >> uint32(16) == key:
                end += 1
            units += 4 + (end - start if end - start <= _CONTAINER_LIST_MAX else _CONTAINER_UNITS)
            start = end
        set_offsets[i + 1] = set_offsets[i] + units


@kernel
def _write_sets(docs: U32Array, offsets: I64Array, set_offsets: I64Array, sets: U16Array) -> None:
    """Write every set where `_measure_sets` placed it."""
    for i in range(len(offsets) - 1):
        at = set_offsets[i]
        first = offsets[i]
        last = offsets[i + 1]
        if last - first < LIST_DOCS_MAX:
            for position in range(first, last):
                sets[at] = uint16(docs[position] & uint32(0xFFFF))
                sets[at + 1] = uint16(docs[position] >> uint32(16))
                at += 2
            continue
        # Header: cookie, then the number of distinct high halves.
        num_containers = 0
        previous = uint32(0xFFFFFFFF)
        for position in range(first, last):
            key = docs[position] >> uint32(16)
            if key != previous:
                num_containers += 1
                previous = key
        sets[at] = uint16(_COOKIE)
        sets[at + 1] = uint16(0)
        sets[at + 2] = uint16(num_containers & 0xFFFF)
        sets[at + 3] = uint16(num_containers >> 16)
        # Per container: descriptive header, offset, and the low halves as a list or a bitset.
        content = 4 + 4 * num_containers
        start = first
        for container in range(num_containers):
            key = docs[start] >> uint32(16)
            end = start
            while end < last and docs[end] >> uint32(16) == key:
                end += 1
            sets[at + 4 + 2 * container] = uint16(key)
            sets[at + 5 + 2 * container] = uint16(end - start - 1)
            offset_at = at + 4 + 2 * num_containers + 2 * container
            sets[offset_at] = uint16((2 * content) & 0xFFFF)
            sets[offset_at + 1] = uint16((2 * content) >> 16)
            body = at + content
            if end - start <= _CONTAINER_LIST_MAX:
                for position in range(start, end):
                    sets[body + position - start] = uint16(docs[position] & uint32(0xFFFF))
                content += end - start
            else:
                for unit in range(_CONTAINER_UNITS):
                    sets[body + unit] = uint16(0)
                for position in range(start, end):
                    low = docs[position] & uint32(0xFFFF)
                    sets[body + int64(low >> uint32(4))] |= uint16(1) << uint16(low & uint32(15))
                content += _CONTAINER_UNITS
            start = end


def write_sets(
    docs: NDArray[np.uint32], offsets: NDArray[np.int64], allocator: MergeAllocator = IN_MEMORY
) -> tuple[NDArray[np.uint16], NDArray[np.int64]]:
    """Encode many sets of documents, one after the other.

    Args:
        docs: documents of all sets, ascending within a set.
        offsets: set i is docs[offsets[i]:offsets[i + 1]]; shape (num_sets + 1,).
        allocator: makes the large arrays.

    Returns:
        The stored sets, and where each begins in them (num_sets + 1).
    """
    set_offsets = allocator.empty(len(offsets), np.int64)
    _measure_sets(docs, offsets, set_offsets)
    sets = allocator.empty(int(set_offsets[-1]), np.uint16)
    _write_sets(docs, offsets, set_offsets, sets)
    return sets, set_offsets


@kernel(inline=True, allocates=False)
def _listed_doc(sets: U16Array, at: int) -> U32:
    """Return a document of a list: two units, the lower one first."""
    return uint32(sets[at]) | uint32(sets[at + 1]) << uint32(16)


@kernel(inline=True, allocates=False)
def _num_containers(sets: U16Array, begin: int) -> int:
    """Return how many containers the bitmap that begins there has."""
    return int64(sets[begin + 2]) | int64(sets[begin + 3]) << 16


@kernel(inline=True, allocates=False)
def _container(sets: U16Array, begin: int, number: int) -> tuple[int, int]:
    """Return the upper 16 bits of a container's documents, and their number."""
    at = begin + 4 + 2 * number
    return int64(sets[at]), int64(sets[at + 1]) + 1


@kernel
def add_stored_sets(stored: StoredSets, positions: I64Array, bitset: U64Array) -> None:
    """Set the bits of the documents in some stored sets.

    Args:
        stored: the sets.
        positions: which of them.
        bitset: to add to.
    """
    _, counts, sets, set_offsets = stored
    for i in positions:
        at = set_offsets[i]
        if counts[i] < LIST_DOCS_MAX:
            while at < set_offsets[i + 1]:
                doc = _listed_doc(sets, at)
                set_bit(bitset, doc)
                at += 2
            continue
        num_containers = _num_containers(sets, at)
        body = at + 4 + 4 * num_containers
        for container in range(num_containers):
            # Container key k covers documents from k << 16 on: word k << 10 of the bitset.
            key, count = _container(sets, at, container)
            first_word = key << 10
            if count <= _CONTAINER_LIST_MAX:
                for position in range(body, body + count):
                    low = int64(sets[position])
                    bitset[first_word + (low >> 6)] |= _ONE << uint64(low & 63)
                body += count
            else:
                # A bitset container is aligned with the words: OR them. The segment may end in it.
                for word in range(min(int64(1024), len(bitset) - first_word)):
                    bitset[first_word + word] |= load_u64(sets, body + 4 * word)
                body += _CONTAINER_UNITS


@kernel
def list_stored_set(sets: U16Array, begin: int, count: int, docs: U32Array) -> None:
    """Write the documents of one stored set, ascending.

    Args:
        sets: as written by `write_sets`.
        begin: where the set begins.
        count: its number of documents.
        docs: output, LISTED_AHEAD elements longer than the set.

    Cost: 0.2 ns a document of a list, 0.4 ns of a bitset container.
    """
    if count < LIST_DOCS_MAX:
        for i in range(count):
            docs[i] = _listed_doc(sets, begin + 2 * i)
        return
    num_containers = _num_containers(sets, begin)
    body = begin + 4 + 4 * num_containers
    num_docs: Any = 0
    for container in range(num_containers):
        key, size = _container(sets, begin, container)
        high = uint32(key) << uint32(16)
        if size <= _CONTAINER_LIST_MAX:
            for i in range(size):
                docs[num_docs + i] = high | uint32(sets[body + i])
            body += size
        else:
            listed = num_docs
            for j in range(_CONTAINER_UNITS // 4):
                word = load_u64(sets, body + 4 * j)
                listed = list_word(word, int64(high) + 64 * j, docs, listed)
            body += _CONTAINER_UNITS
        num_docs += size


@kernel
def count_intersections(stored: StoredSets, bitset: U64Array, totals: U32Array) -> None:
    """Add to totals[numbers[i] + 1] how many documents stored set i shares with a bitset.

    Cost: 8 KB a bitset container at memory speed, 1 ns a document of a list.
    """
    numbers, counts, sets, set_offsets = stored
    for i in range(len(numbers)):
        at = set_offsets[i]
        shared = int64(0)
        if counts[i] < LIST_DOCS_MAX:
            while at < set_offsets[i + 1]:
                doc = _listed_doc(sets, at)
                shared += has_bit(bitset, doc)
                at += 2
        else:
            num_containers = _num_containers(sets, at)
            body = at + 4 + 4 * num_containers
            for container in range(num_containers):
                key, count = _container(sets, at, container)
                first_word = key << 10
                if count <= _CONTAINER_LIST_MAX:
                    for position in range(body, body + count):
                        low = int64(sets[position])
                        shared += int64(
                            (bitset[first_word + (low >> 6)] >> uint64(low & 63)) & uint64(1)
                        )
                    body += count
                else:
                    for j in range(min(int64(1024), len(bitset) - first_word)):
                        # AND, then population count: nothing is listed.
                        word = bitset[first_word + j] & load_u64(sets, body + 4 * j)
                        shared += count_ones(word)
                    body += _CONTAINER_UNITS
        totals[numbers[i] + uint32(1)] += uint32(shared)


@kernel
def bound_stored(stored: StoredSets, num_docs: int) -> tuple[int, int]:
    """Return sizes like `measure_stored`, whose cost is a lower bound, without reading the sets.

    A set of few documents has lists only. The containers of a larger one may be lists or bitsets;
    they count as bitsets, of which a unit costs less.

    Args:
        stored: the sets.
        num_docs: of the segment.
    """
    _, counts, _, set_offsets = stored
    heads = 4 + 4 * ((num_docs + 65_535) >> 16)
    num_units = int64(0)
    num_listed = int64(0)
    for i in range(len(counts)):
        # No branch: a vector load that skips lanes takes 50 ns on a page that is not mapped yet.
        is_large = int64(counts[i] > _CONTAINER_LIST_MAX)
        size = set_offsets[i + 1] - set_offsets[i]
        num_listed += (int64(1) - is_large) * int64(counts[i])
        num_units += is_large * max(size - heads, 0)
    return num_units, num_listed


@kernel
def measure_stored(stored: StoredSets) -> tuple[int, int]:
    """Return the size of stored sets: uint16 units of bitsets, documents of lists."""
    _, counts, sets, set_offsets = stored
    num_units = int64(0)
    num_listed = int64(0)
    for i in range(len(counts)):
        if counts[i] < LIST_DOCS_MAX:
            num_listed += int64(counts[i])
            continue
        at = set_offsets[i]
        num_containers = _num_containers(sets, at)
        for container in range(num_containers):
            _, count = _container(sets, at, container)
            if count <= _CONTAINER_LIST_MAX:
                num_listed += count
            else:
                num_units += _CONTAINER_UNITS
    return num_units, num_listed
