"""External ids: finds the document of a segment by its id.

    documents   0: "b7"      1: (none)   2: "a3"
    hashes      xxh64(b7)    -           xxh64(a3)
    ids.hash    uint64, ascending   [xxh64(a3), xxh64(b7)]
    ids.doc     uint32              [2,         0        ]

Hashes are uniform, so a lookup guesses the position from the value (interpolation search) and lands
within a few entries: 2-3 cache misses in 500,000, where binary search has 10. The ids of a load are
looked up in order of their hashes: each lies about as far after the one before as their difference
says, so the cache line is known, and loaded, before it is read. Documents without an
id have no entry. An id may occur several times in a segment: all but the newest version of an item
are deleted.

64 bits are no proof: two ids can share a hash (one pair is likely among 5 billion), and an attacker
can craft such ids. So a caller that acts on a hit compares the id of the stored document
(`is_item_of`).

Costs: build = one sort, 70 ns an item; 12 bytes an item; lookup 0.1-0.2 µs in a batch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np
import orjson

from common.item_ids import canonical_id
from common.item_placement import xxh64
from common.kernels.decorator import kernel
from common.kernels.intrinsics import prefetch
from common.kernels.types import U64, I64Array, U8Array, U32Array, U64Array, int64
from shard.segment.doc_sets import has_bit
from shard.segment.merge_state import MergeState

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from pyroaring import FrozenBitMap

    from shard.segment.items.value_extraction import Extraction
    from shard.segment.segment import Segment

_STEP: Final = 64
"""First step away from a guess: four times its usual error, where a load's hashes are some hundred
entries apart."""
_NUM_HASHES: Final = 2.0**64


@kernel
def _hash_ids(text: U8Array, starts: I64Array, ends: I64Array, hashes: U64Array) -> None:
    for i in range(len(hashes)):
        hashes[i] = xxh64(text, starts[i], ends[i])


@kernel
def _lower_bound(hashes: U64Array, wanted: U64) -> int:
    """Return the first position whose hash is not below `wanted`: interpolation, then bisection."""
    low = int64(0)
    high = int64(len(hashes))
    guesses = 0
    while high - low > 8:
        first = hashes[low]
        last = hashes[high - 1]
        if wanted <= first:
            return low
        if wanted > last:
            return high
        # Bisect after a few guesses, so that skewed hashes cannot make the search linear.
        if guesses < 4:
            guesses += 1
            share = np.float64(wanted - first) / np.float64(last - first)
            middle = low + int64(share * np.float64(high - 1 - low))
            middle = min(max(middle, low), high - 1)
        else:
            middle = (low + high) >> 1
        if hashes[middle] < wanted:
            low = middle + 1
        else:
            high = middle
    while low < high and hashes[low] < wanted:
        low += 1
    return low


@kernel(allocates=False)
def _lower_bound_near(hashes: U64Array, wanted: U64, guess: int) -> int:
    """Return the first position whose hash is not below `wanted`: outwards from a guess."""
    low = int64(0)
    high = int64(len(hashes))
    step = _STEP
    if hashes[guess] < wanted:
        low = guess + 1
        while low + step < high and hashes[low + step] < wanted:
            low += step + 1
            step *= 2
        high = min(high, low + step)
    else:
        high = guess
        while high - step >= low and hashes[high - step] >= wanted:
            high -= step
            step *= 2
        low = max(low, high - step)
    while low < high:
        middle = (low + high) >> 1
        if hashes[middle] < wanted:
            low = middle + 1
        else:
            high = middle
    return low


@kernel(inline=True, allocates=False)
def _guess(hashes: U64Array, at: int, wanted: U64, density: float) -> int:
    """Return about where a hash is that is not below the one at `at`; a position of the array."""
    last = int64(len(hashes) - 1)
    start = min(at, last)
    first = hashes[start]
    steps = int64(np.float64(wanted - first) * density) if wanted > first else int64(0)
    return min(start + steps, last)


@kernel
def _find_live(
    hashes: U64Array,
    docs: U32Array,
    live: U64Array,
    wanted: U64Array,
    are_ascending: bool,
    queries: I64Array,
    found: U32Array,
) -> int:
    """Write (query, document) of every live document whose hash is wanted.

    Returns:
        How many there are. If that is more than fit into the outputs, the excess is not written.
    """
    count = 0
    position = int64(0)
    density = np.float64(len(hashes)) / _NUM_HASHES
    if len(hashes) == 0:
        return count
    for query in range(len(wanted)):
        if are_ascending:
            if query + 1 < len(wanted):
                prefetch(hashes, _guess(hashes, position, wanted[query + 1], density))
            guess = _guess(hashes, position, wanted[query], density)
            position = _lower_bound_near(hashes, wanted[query], guess)
        else:
            position = _lower_bound(hashes, wanted[query])
        while position < len(hashes) and hashes[position] == wanted[query]:
            doc = docs[position]
            position += 1
            if len(live) > 0 and not has_bit(live, doc):
                continue
            if count < len(found):
                queries[count] = query
                found[count] = doc
            count += 1
    return count


def hash_ids(extraction: Extraction, docs: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Return the hash of each document's id; each must have one."""
    hashes = np.empty(len(docs), np.uint64)
    _hash_ids(extraction.text, extraction.id_start[docs], extraction.id_end[docs], hashes)
    return hashes


def build_ids(extraction: Extraction) -> dict[str, NDArray[Any]]:
    """Build the id table of a batch."""
    docs = np.flatnonzero(extraction.id_end > extraction.id_start)
    return _sort_ids(hash_ids(extraction, docs), docs.astype(np.uint32))


def merge_ids(state: MergeState) -> dict[str, NDArray[Any]]:
    """Merge the id tables of segments; equal to a build from the same documents.

    Hashes are uniform, so ranges of them hold about as many ids each. One range after the other is
    taken from all parts, and sorted.
    """
    parts, allocator = state.parts, state.allocator
    num_ids = sum(len(part["ids.doc"]) for part in parts)
    num_ranges = max(1, -(-num_ids // allocator.piece_rows))
    width = (1 << 64) // num_ranges
    inner = np.array([i * width for i in range(1, num_ranges)], np.uint64)
    bounds = [
        [0, *np.searchsorted(part["ids.hash"], inner).tolist(), len(part["ids.hash"])]
        for part in parts
    ]
    hashes = allocator.empty(num_ids, np.uint64)
    docs = allocator.empty(num_ids, np.uint32)
    at = 0
    for i in range(num_ranges):
        slices = [slice(one[i], one[i + 1]) for one in bounds]
        new_docs = [
            doc_map[part["ids.doc"][piece]]
            for part, doc_map, piece in zip(parts, state.doc_maps, slices, strict=True)
        ]
        kept_hashes = [
            part["ids.hash"][piece][kept >= 0]
            for part, piece, kept in zip(parts, slices, new_docs, strict=True)
        ]
        kept_docs = np.concatenate([one[one >= 0] for one in new_docs])
        ordered = _sort_ids(np.concatenate(kept_hashes), kept_docs.astype(np.uint32))
        end = at + len(kept_docs)
        hashes[at:end] = ordered["ids.hash"]
        docs[at:end] = ordered["ids.doc"]
        at = end
    return {"ids.hash": hashes[:at], "ids.doc": docs[:at]}


def _sort_ids(hashes: NDArray[np.uint64], docs: NDArray[np.uint32]) -> dict[str, NDArray[Any]]:
    """Return both arrays in order of the hashes; equal hashes in order of documents."""
    order = np.argsort(hashes)
    hashes, docs = hashes[order], docs[order]
    if len(hashes) and bool((hashes[1:] == hashes[:-1]).any()):
        order = np.lexsort((docs, hashes))
        hashes, docs = hashes[order], docs[order]
    return {"ids.hash": hashes, "ids.doc": docs}


_NO_MASK = np.zeros(0, np.uint64)


def find_live(
    segment: Segment,
    live_mask: NDArray[np.uint64] | None,
    hashes: NDArray[np.uint64],
    *,
    are_ascending: bool = False,
) -> tuple[NDArray[np.int64], NDArray[np.uint32]]:
    """Find the live documents of a segment whose id has one of the hashes.

    Args:
        segment: the segment.
        live_mask: bitset of its live documents; None if all are.
        hashes: uint64, any order.
        are_ascending: whether they ascend, and are many.

    Returns:
        Candidates, in query order: position in `hashes`, document ordinal. At most one per hash,
        except where ids share a hash.
    """
    capacity = len(hashes) + 1
    while True:
        queries = np.empty(capacity, np.int64)
        docs = np.empty(capacity, np.uint32)
        live = _NO_MASK if live_mask is None else live_mask
        count = _find_live(
            segment["ids.hash"], segment["ids.doc"], live, hashes, are_ascending, queries, docs
        )
        if count <= capacity:
            return queries[:count], docs[:count]
        capacity = count


def find_few_live(
    segment: Segment, deleted: FrozenBitMap | None, hashes: NDArray[np.uint64]
) -> tuple[NDArray[np.int64], NDArray[np.uint32]]:
    """Find the live documents of a few ids; as `find_live`.

    Those found are looked up among the deleted ones: after every write, the bitset of a large
    segment would have to be made first.
    """
    queries, docs = find_live(segment, None, hashes)
    if deleted is None or not len(docs):
        return queries, docs
    is_live = np.array([doc not in deleted for doc in docs.tolist()], np.bool_)
    return queries[is_live], docs[is_live]


class _IdOnly(msgspec.Struct):
    """An item's id; the other members are skipped, not parsed."""

    id: int | str | None = None


_decode_id = msgspec.json.Decoder(_IdOnly).decode


def _stored_id(document: bytes) -> int | str | None:
    try:
        return _decode_id(document).id
    except msgspec.ValidationError:  # of an earlier member `id`; the last one counts
        value: int | str = orjson.loads(document)["id"]
        return value


def item_id(document: bytes) -> bytes | None:
    """Return the canonical id of a valid item, or None if it has none."""
    value = _stored_id(document)
    return None if value is None else canonical_id(value)


def shown_id_of(document: bytes) -> bytes:
    """Return the id of a valid item as JSON, in its stored form; empty if it has none."""
    value = _stored_id(document)
    return b"" if value is None else msgspec.json.encode(value)


def is_item_of(document: bytes, id: bytes) -> bool:
    """Return whether an item has an id.

    Most items begin with their id, so the first bytes decide. They do not where the id has a quote,
    which could mimic further members, or a backslash, which JSON would read as an escape.
    """
    is_plain = b'"' not in id and b"\\" not in id
    if is_plain and document.startswith((b'{"id":%b,' % id, b'{"id":"%b",' % id)):
        return True
    return item_id(document) == id
