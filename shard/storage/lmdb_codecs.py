"""Encodes the keys and values of LMDB.

Questions it answers: what is stored under a key; is it intact?

Key of a number (record, seq, record >> 16): u64 big-endian, so that byte order is number order.

Every value begins with a 4-byte checksum: the low half of xxh64(rest of the value) xor the key's
number. LMDB has no checksums of its own (36 of 40 single flipped bits in its file changed data
silently). Because the key is part of it, it also detects a value that a damaged tree returns for
another key.

    stored item    | checksum u32 | codec u8 | place u64 | payload ...      (little-endian)
                     0              4          5           13
    anything else  | checksum u32 | version u8 | content ...

    codec  0x10        payload is the item's JSON as received
           0x11..0x1f  payload is a zstd frame (no magic number, no dictionary id) made with
                       dictionary 1..15 of the index (meta "dictionary/<n>")
           0x21..0x2f  payload is a frame of word codes, made with the words 1..15 of the index
                       (meta "words/<n>"); see word_codec.py

The high half of the codec byte is the format version of the value.

Costs: encoding a batch takes one pass of a kernel (0.1 µs for an item of 250 bytes, hash included)
and one `bytes` slice for each item (0.1 µs). Checking a value takes 0.4 µs.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import xxhash
from numpy.typing import NDArray

from common.errors import InternalError
from common.item_placement import xxh64
from common.kernels.decorator import kernel
from common.kernels.types import U64, I64Array, U8Array, U64Array, uint64

VALUE_VERSION = 1
ITEM_HEADER_BYTES = 13
CODEC_RAW = 0x10
CODEC_WORDS = 0x20
DICTIONARIES_MAX = 15
ITEMS_AT_ONCE = 2_048
"""Items made into objects, or passed to LMDB, in one call. It holds the GIL throughout: 0.2 ms, or
longer in a low-priority thread that is preempted."""

_LOW_HALF = 0xFFFF_FFFF
_xxh64 = xxhash.xxh64_intdigest


class ChecksumMismatch(Exception):
    """A value differs from the one written under its key."""


def number_key(number: int) -> bytes:
    """Return the key of a record, seq or chunk number."""
    return number.to_bytes(8, "big")


def key_number(key: bytes) -> int:
    """Return the number of a key."""
    return int.from_bytes(key, "big")


def number_keys(first: int, count: int) -> list[bytes]:
    """Return the keys of `count` numbers from `first`."""
    keys = np.arange(first, first + count, dtype=np.uint64).astype(">u8").tobytes()
    return [keys[i : i + 8] for i in range(0, 8 * count, 8)]


@dataclass(frozen=True, slots=True)
class EncodedItems:
    """The values of n items with consecutive records.

    Attributes:
        arena: uint8, the values, concatenated.
        offsets: int64[n + 1], where each begins, with a sentinel.
        first_record: record of the first item.
    """

    arena: NDArray[np.uint8]
    offsets: NDArray[np.int64]
    first_record: int

    def batches(self) -> Iterator[list[tuple[bytes, bytes]]]:
        """Yield the keys and values, `ITEMS_AT_ONCE` items at a time."""
        for first in range(0, len(self.offsets) - 1, ITEMS_AT_ONCE):
            bounds = self.offsets[first : first + ITEMS_AT_ONCE + 1]
            whole = self.arena[bounds[0] : bounds[-1]].tobytes()
            spans = itertools.pairwise((bounds - bounds[0]).tolist())
            keys = number_keys(self.first_record + first, len(bounds) - 1)
            yield [(key, whole[a:b]) for key, (a, b) in zip(keys, spans, strict=True)]


@kernel
def _encode_items(
    source: U8Array,
    starts: I64Array,
    sizes: I64Array,
    codecs: U8Array,
    places: U64Array,
    first_record: U64,
    arena: U8Array,
    offsets: I64Array,
) -> None:
    for item in range(len(starts)):
        at = offsets[item]
        arena[at + 4] = codecs[item]
        place = places[item]
        for byte in range(8):
            arena[at + 5 + byte] = (place >> uint64(8 * byte)) & uint64(0xFF)
        start = starts[item]
        for byte in range(sizes[item]):
            arena[at + ITEM_HEADER_BYTES + byte] = source[start + byte]
        checksum = xxh64(arena, at + 4, offsets[item + 1]) ^ (first_record + uint64(item))
        for byte in range(4):
            arena[at + byte] = (checksum >> uint64(8 * byte)) & uint64(0xFF)


def encode_items(
    source: NDArray[np.uint8],
    starts: NDArray[np.int64],
    sizes: NDArray[np.int64],
    codecs: NDArray[np.uint8],
    places: NDArray[np.uint64],
    first_record: int,
) -> EncodedItems:
    """Put headers before the payloads of items with consecutive records.

    Args:
        source: memory that holds all payloads.
        starts: where each payload begins in `source`; shape (n,), as all that follow.
        sizes: bytes of each payload.
        codecs: codec byte of each item.
        places: insertion number of each item.
        first_record: record of the first item.
    """
    offsets = np.zeros(len(starts) + 1, np.int64)
    np.cumsum(sizes + ITEM_HEADER_BYTES, out=offsets[1:])
    arena = np.empty(int(offsets[-1]), np.uint8)
    _encode_items(source, starts, sizes, codecs, places, uint64(first_record), arena, offsets)
    return EncodedItems(arena, offsets, first_record)


def check_value(number: int, value: bytes) -> None:
    """Verify the checksum of a value.

    Args:
        number: in the value's key.
        value: as stored.

    Raises:
        ChecksumMismatch: it differs from the rest of the value.
    """
    expected = (_xxh64(value[4:]) ^ number) & _LOW_HALF
    if len(value) < 5 or int.from_bytes(value[:4], "little") != expected:
        raise ChecksumMismatch(f"checksum of {number} differs")


def item_place(value: bytes) -> int:
    """Return the insertion number in a stored item's value."""
    return int.from_bytes(value[5:13], "little")


def encode_value(number: int, content: bytes) -> bytes:
    """Put checksum and version before the content of any value but an item."""
    rest = bytes((VALUE_VERSION,)) + content
    checksum = (xxhash.xxh64_intdigest(rest) ^ number) & _LOW_HALF
    return checksum.to_bytes(4, "little") + rest


def decode_value(number: int, value: bytes, what: str) -> bytes:
    """Verify a value made by `encode_value`, and return its content.

    Args:
        number: in the value's key.
        value: as stored.
        what: names the value in the error.

    Raises:
        InternalError: item_corrupt, the checksum differs.
    """
    try:
        check_value(number, value)
    except ChecksumMismatch as error:
        raise InternalError(
            f"{what} is damaged on disk: restore the index from a backup", code="item_corrupt"
        ) from error
    return value[5:]


def as_bytes_array(content: Any) -> NDArray[np.uint8]:
    """Return bytes as a writable array, as kernels take it; copied only if they are read-only."""
    array = np.frombuffer(content, np.uint8)
    return array if array.flags.writeable else array.copy()
