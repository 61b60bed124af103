"""The numbering of one facet's values, shared by all segments: canonical key ↔ number, append-only.

Questions it answers, for one facet of one index on one shard: which number does this key have,
which key has this number, and in what order do the keys sort? Every batch that is written feeds it,
and it never forgets a value, so a number means the same in all segments of an epoch. Whether a
value is *live* is a matter of counts, not of the dictionary. The coordinator has one as well, over
all shards (`coordinator/read/facets/global_ordinals.py`).

    keys      dramacrimecomedy…                    growing byte arena (UTF-8)
    offsets   0     5    10    16                  key n = keys[offsets[n] : offsets[n + 1]]
    table     [ ·  h·1  ·  h·3  h·2  · ]           open addressing, linear probing, ≤ 1/2 full;
                                                   a slot is hash << 32 | number + 1, 0 = empty

One writer, many readers, no lock. The writer appends bytes, then the offset, then the slot, and
only then publishes a snapshot with the new length. A reader knows the length of its snapshot and
treats greater numbers as unknown, so it sees a prefix that cannot change. Full arrays are replaced
by longer copies (one attribute assignment); a reader that still holds the old ones has all that its
length covers.

The epoch is a random number that identifies this numbering. A dictionary that is rebuilt (for
another configuration) has another epoch, which tells the coordinator to forget the old
numbers.

Costs: encode 15-40 ns a key, one kernel call a batch; lookup of one key 2 µs; 1 M values of 12
bytes take 12 + 8 + 16 MB. Ranks are sorted on first use per length: 0.3 s for 1 M values; later
sorts merge only the new ones.

Worked example: encode(["drama", "crime", "drama"]) on an empty dictionary gives [0, 1, 0].
"""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from common.analysis.collation import collator, with_new_values
from common.analysis.collation_names import CODE_POINTS
from common.kernels.byte_equality import are_equal
from common.kernels.decorator import arguments, kernel
from common.kernels.intrinsics import load_u64, prefetch
from common.kernels.types import (
    U64,
    I64Array,
    U8Array,
    U32Array,
    U64Array,
    int64,
    uint32,
    uint64,
)
from common.key_arena import KeyArena
from common.string_sort_kernels import sort_keys

if TYPE_CHECKING:
    from numpy.typing import NDArray

_TABLE_SLOTS_MIN = 64
_KEY_BYTES_MIN = 1_024
_FOUND_MAX = 4_096
"""Keys whose numbers are cached: filters name the same ones repeatedly."""
_ORDERS_MAX = 4
"""Collations of a facet whose orders are kept; 8 bytes a value each."""

_PREFETCHED = 16
"""How many keys ahead slots are prefetched: those of a million values are not in the processor's
cache."""
_MULTIPLIER = uint64(0x9E3779B97F4A7C15)
_HASH_SEED = uint64(0x2545F4914F6CDD1D)
_EMPTY_SLOT = uint64(0)
_NUMBER_MASK = uint64(0xFFFFFFFF)


@kernel
def _hash_key(keys: U8Array, start: int, end: int) -> U64:
    """Return a 32-bit hash of keys[start:end], in a uint64; eight bytes a step."""
    state = _HASH_SEED ^ uint64(end - start)
    position = start
    while position + 8 <= end:
        state = (state ^ load_u64(keys, position)) * _MULTIPLIER
        state ^= state >> uint64(29)
        position += 8
    tail = uint64(0)
    while position < end:
        tail = (tail << uint64(8)) | uint64(keys[position])
        position += 1
    state = (state ^ tail) * _MULTIPLIER
    state ^= state >> uint64(32)
    state *= _MULTIPLIER
    return state >> uint64(32)


@arguments
class _Arrays(NamedTuple):
    """The arrays at one moment; replaced together when one has to grow."""

    keys: NDArray[np.uint8]
    offsets: NDArray[np.int64]
    table: NDArray[np.uint64]


@kernel(allocates=False)
def _find_slot(source: U8Array, start: int, end: int, key_hash: U64, known: _Arrays) -> int:
    """Return the slot that holds the key source[start:end], or the empty slot where it belongs."""
    keys, offsets, table = known
    mask = uint64(len(table) - 1)
    slot = key_hash & mask
    length = end - start
    while table[slot] != _EMPTY_SLOT:
        entry = table[slot]
        if entry >> uint64(32) == key_hash:
            number = int64(entry & _NUMBER_MASK) - 1
            begin = offsets[number]
            if offsets[number + 1] - begin == length and are_equal(
                source, start, keys, begin, length
            ):
                break
        slot = (slot + uint64(1)) & mask
    return int64(slot)


@kernel(allocates=False)
def _hash_keys(source: U8Array, source_offsets: I64Array, hashes: U64Array) -> None:
    """Write the hash of each key."""
    for i in range(len(hashes)):
        hashes[i] = _hash_key(source, source_offsets[i], source_offsets[i + 1])


@kernel(allocates=False)
def _encode(
    source: U8Array,
    source_offsets: I64Array,
    hashes: U64Array,
    first: int,
    known: _Arrays,
    num_values: int,
    numbers: U32Array,
) -> tuple[int, int]:
    """Number the keys of a batch from `first` on; append new ones.

    Returns:
        Position of the first key without a number because keys, offsets or table are full (the
        number of keys if none), and the number of values.
    """
    keys, offsets, table = known
    mask = uint64(len(table) - 1)
    num_keys = len(source_offsets) - 1
    for i in range(first, num_keys):
        if i + _PREFETCHED < num_keys:
            prefetch(table, int64(hashes[i + _PREFETCHED] & mask))
        start = source_offsets[i]
        end = source_offsets[i + 1]
        key_hash = hashes[i]
        slot = _find_slot(source, start, end, key_hash, known)
        entry = table[slot]
        if entry != _EMPTY_SLOT:
            numbers[i] = uint32((entry & _NUMBER_MASK) - uint64(1))
            continue
        begin = offsets[num_values]
        if (
            begin + end - start > len(keys)
            or num_values + 1 >= len(offsets)
            or 2 * (num_values + 1) > len(table)
        ):
            return i, num_values
        # Append bytes, offset, then slot: readers rely on this order.
        for position in range(end - start):
            keys[begin + position] = source[start + position]
        offsets[num_values + 1] = begin + end - start
        numbers[i] = uint32(num_values)
        num_values += 1
        table[slot] = (key_hash << uint64(32)) | uint64(num_values)
    return num_keys, num_values


@kernel(allocates=False)
def _find(key: U8Array, known: _Arrays) -> int:
    """Return the number of one key, or -1."""
    slot = _find_slot(key, 0, len(key), _hash_key(key, 0, len(key)), known)
    return int64(known.table[slot] & _NUMBER_MASK) - 1


@kernel
def _rehash(old_table: U64Array, table: U64Array) -> None:
    """Reinsert all entries; each carries the hash that says where it belongs."""
    mask = uint64(len(table) - 1)
    for entry in old_table:
        if entry != _EMPTY_SLOT:
            slot = (entry >> uint64(32)) & mask
            while table[slot] != _EMPTY_SLOT:
                slot = (slot + uint64(1)) & mask
            table[slot] = entry


@kernel
def _fill_table(keys: U8Array, offsets: I64Array, num_values: int, table: U64Array) -> None:
    """Insert the keys of a dictionary that was stored without its table."""
    mask = uint64(len(table) - 1)
    for number in range(num_values):
        key_hash = _hash_key(keys, offsets[number], offsets[number + 1])
        slot = key_hash & mask
        while table[slot] != _EMPTY_SLOT:
            slot = (slot + uint64(1)) & mask
        table[slot] = (key_hash << uint64(32)) | uint64(number + 1)


class _Order(NamedTuple):
    """Sorted numbers and ranks of the first `len(order)` values."""

    order: NDArray[np.uint32]
    ranks: NDArray[np.uint32]


def _lengthened(array: NDArray[Any], length: int) -> NDArray[Any]:
    """Return an array with this many zeros appended, whose pages take no memory until written."""
    longer = np.zeros(len(array) + length, array.dtype)
    longer[: len(array)] = array
    return longer


class FacetDictionary:
    """Append-only numbering of the values of one facet; see the module's drawing.

    Attributes:
        epoch: random 63-bit number that identifies this numbering.
    """

    __slots__ = ("__weakref__", "_arrays", "_found", "_num_values", "_orders", "epoch")

    def __init__(self, epoch: int | None = None) -> None:
        self.epoch = secrets.randbits(63) if epoch is None else epoch
        self._arrays = _Arrays(
            np.zeros(_KEY_BYTES_MIN, np.uint8),
            np.zeros(_TABLE_SLOTS_MIN, np.int64),
            np.zeros(_TABLE_SLOTS_MIN, np.uint64),
        )
        self._num_values = 0
        self._orders: dict[str, _Order] = {}
        self._found: dict[str, int] = {}

    def __len__(self) -> int:
        return self._num_values

    def encode(self, keys: NDArray[np.uint8], offsets: NDArray[np.int64]) -> NDArray[np.uint32]:
        """Return the number of each key of a batch; unknown keys get the next numbers.

        Only the index's single writer may call this.

        Args:
            keys: byte arena of canonical keys.
            offsets: int64, shape (num_keys + 1,).

        Returns:
            Value numbers by key, uint32.
        """
        num_keys = len(offsets) - 1
        numbers = np.empty(num_keys, np.uint32)
        hashes = np.empty(num_keys, np.uint64)
        _hash_keys(keys, offsets, hashes)
        done = 0
        while True:
            done, self._num_values = _encode(
                keys, offsets, hashes, done, self._arrays, self._num_values, numbers
            )
            if done == num_keys:
                return numbers
            self._grow(1, int(offsets[done + 1] - offsets[done]))

    def has_room(self, num_keys: int, num_bytes: int) -> bool:
        """Return whether this many more keys, of this many bytes in all, fit into the arrays."""
        keys, offsets, table = self._arrays
        num_values = self._num_values
        return (
            int(offsets[num_values]) + num_bytes <= len(keys)
            and num_values + num_keys < len(offsets)
            and 2 * (num_values + num_keys) <= len(table)
        )

    def make_room(self, num_keys: int, num_bytes: int) -> None:
        """Make room for this many more keys, of this many bytes in all.

        Any thread may do so while the writer waits; `encode` then need not. Cost: 20 ms if there
        are a million values.
        """
        while not self.has_room(num_keys, num_bytes):
            self._grow(num_keys, num_bytes)

    def _grow(self, num_keys: int, num_bytes: int) -> None:
        """Replace full arrays by longer ones: room for `num_bytes` more, twice the values."""
        keys, offsets, table = self._arrays
        num_values = self._num_values
        if int(offsets[num_values]) + num_bytes > len(keys):
            keys = _lengthened(keys, len(keys) + num_bytes)
        if num_values + num_keys >= len(offsets):
            offsets = _lengthened(offsets, len(offsets))
        if 2 * (num_values + num_keys) > len(table):
            longer = np.zeros(2 * len(table), np.uint64)
            _rehash(table, longer)
            table = longer
        self._arrays = _Arrays(keys, offsets, table)

    def number(self, key: str, length: int | None = None) -> int | None:
        """Return the number of a key, or None if it is not among the first `length` values."""
        number = self._found.get(key)
        if number is None:
            encoded = np.frombuffer(bytearray(key, "utf-8", "surrogatepass"), np.uint8)
            number = int(_find(encoded, self._arrays))
            if number < 0:
                return None
            if len(self._found) >= _FOUND_MAX:
                self._found = {}
            self._found[key] = number
        limit = self._num_values if length is None else length
        return number if number < limit else None

    def numbers(self, keys: Iterable[str], length: int | None = None) -> list[int]:
        """Return the numbers of the known keys, ascending."""
        return sorted({n for key in keys if (n := self.number(key, length)) is not None})

    def values(self, start: int = 0, end: int | None = None) -> list[str]:
        """Return the keys of the numbers [start, end) as strings."""
        end = self._num_values if end is None else end
        if start >= end:
            return []
        keys, offsets, _ = self._arrays
        spans = offsets[start : end + 1].tolist()
        content = keys[spans[0] : spans[-1]].tobytes()
        base = spans[0]
        return [
            content[left - base : right - base].decode("utf-8", "surrogatepass")
            for left, right in itertools.pairwise(spans)
        ]

    def text(self, number: int) -> str:
        """Return the key of a number as a string."""
        keys, offsets, _ = self._arrays
        return bytes(keys.data[offsets[number] : offsets[number + 1]]).decode(
            "utf-8", "surrogatepass"
        )

    def arena(self, start: int, end: int) -> KeyArena:
        """Return the keys of the numbers [start, end), which never change."""
        keys, offsets, _ = self._arrays
        return KeyArena(keys, offsets[start : end + 1])

    def keys(self, numbers: Sequence[int] | NDArray[np.integer[Any]]) -> list[bytes]:
        """Return the keys of some numbers as UTF-8."""
        keys, offsets, _ = self._arrays
        return KeyArena(keys, offsets).keys_of(numbers)

    def texts(self, numbers: Sequence[int] | NDArray[np.integer[Any]]) -> list[str]:
        """Return the keys of some numbers as strings."""
        return [key.decode("utf-8", "surrogatepass") for key in self.keys(numbers)]

    def num_bytes(self, length: int) -> int:
        """Return how many bytes the first `length` keys have together."""
        _, offsets, _ = self._arrays
        return int(offsets[length])

    def order(self, length: int, collation: str = CODE_POINTS) -> NDArray[np.uint32]:
        """Return the first `length` value numbers in the order of their keys, uint32; cached."""
        return self._sorted(length, collation).order

    def ranks(self, length: int, collation: str = CODE_POINTS) -> NDArray[np.uint32]:
        """Return the rank of each of the first `length` values by key, uint32; cached."""
        return self._sorted(length, collation).ranks

    def is_sorted(self, length: int, collation: str = CODE_POINTS) -> bool:
        """Return whether the order of the first `length` values is known."""
        cached = self._orders.get(collation)
        return cached is not None and len(cached.order) == length

    def _sorted(self, length: int, collation: str) -> _Order:
        cached = self._orders.get(collation)
        if cached is not None and len(cached.order) == length:
            return cached
        keys, offsets, _ = self._arrays
        known = cached.order if cached is not None and len(cached.order) < length else None
        if collation == CODE_POINTS:
            order = sort_keys(keys, offsets[: length + 1], known)
        else:
            order = self._collated(length, collation, known)
        ranks = np.empty(length, np.uint32)
        ranks[order] = np.arange(length, dtype=np.uint32)
        fresh = _Order(order, ranks)
        if cached is None or len(cached.order) < length:
            # An old snapshot's shorter order does not displace a newer one.
            orders = {**self._orders, collation: fresh}
            if len(orders) > _ORDERS_MAX:
                del orders[next(one for one in orders if one not in (CODE_POINTS, collation))]
            self._orders = orders
        return fresh

    def _collated(
        self, length: int, collation: str, known: NDArray[np.uint32] | None
    ) -> NDArray[np.uint32]:
        """Return the first `length` value numbers in the order of a language.

        Cost: 10-20 ns a byte of the keys, and their sort, once; 0.1 ms for each new value.
        """
        by_language = collator(collation)
        if known is not None:
            order = with_new_values(known, length, lambda n: by_language.key(self.keys([n])[0]))
            if order is not None:
                return order
        keys, offsets, _ = self._arrays
        return sort_keys(*by_language.keys(keys, offsets[: length + 1]))

    def to_arrays(self, start: int = 0, end: int | None = None) -> dict[str, NDArray[np.generic]]:
        """Return the values [start, end) as arrays to store: `keys` and `offsets` (from 0)."""
        end = self._num_values if end is None else end
        keys, offsets, _ = self._arrays
        spans = offsets[start : end + 1] - offsets[start]
        first = int(offsets[start])
        return {"keys": keys[first : first + int(spans[-1])].copy(), "offsets": spans}

    @classmethod
    def from_arrays(
        cls, epoch: int, pieces: Sequence[dict[str, NDArray[np.generic]]]
    ) -> FacetDictionary:
        """Return the dictionary that `to_arrays` stored as consecutive pieces.

        Cost: about 50 ns a value (the hash table is not stored).
        """
        dictionary = cls(epoch)
        num_values = sum(len(piece["offsets"]) - 1 for piece in pieces)
        if num_values <= 0:
            return dictionary
        keys = np.concatenate([piece["keys"] for piece in pieces]).astype(np.uint8, copy=False)
        lengths = np.concatenate([np.diff(piece["offsets"].astype(np.int64)) for piece in pieces])
        slots = max(_TABLE_SLOTS_MIN, 1 << (2 * (num_values + 1)).bit_length())
        offsets = np.zeros(max(_TABLE_SLOTS_MIN, num_values + num_values // 4 + 2), np.int64)
        np.cumsum(lengths, out=offsets[1 : num_values + 1])
        table = np.zeros(slots, np.uint64)
        _fill_table(keys, offsets, num_values, table)
        dictionary._arrays = _Arrays(keys, offsets, table)
        dictionary._num_values = num_values
        return dictionary
