"""Checks and decodes the items of a page in one pass, where they are stored as word codes.

Each search reads a page of ten items or a hundred. Item by item, slices, checksums and arrays would
take twice as long as the decoding itself.

    values    | header and frame of each, see `lmdb_codecs` and `word_codec` | … | padding |
    items     | the decoded bytes of each, one after the other | padding |

Costs: 1 µs for an item of 500 bytes, and 6 µs for the page.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from common.hits_page_byte_limit import page_too_large
from common.item_placement import xxh64
from common.kernels.decorator import kernel
from common.kernels.intrinsics import load_u32
from common.kernels.types import I64Array, U8Array, U64Array, int64, uint64
from shard.storage.item_compression.word_decoding import PADDING, Decoding, decode_item, item_size
from shard.storage.lmdb_codecs import ITEM_HEADER_BYTES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

_LOW_HALF: Final = uint64(0xFFFFFFFF)


@kernel(allocates=False)
def _measure_values(
    values: U8Array, bounds: I64Array, records: U64Array, codec: int, sizes: I64Array
) -> int:
    """Write the size of the item of each value, and return their sum.

    The size is -1 where the checksum differs, the codec is another one, or the frame is invalid.
    """
    total = 0
    for i in range(len(records)):
        start = bounds[i]
        end = bounds[i + 1]
        size: Any = int64(-1)
        if end - start > ITEM_HEADER_BYTES and values[start + 4] == codec:
            checksum = (xxh64(values, start + 4, end) ^ records[i]) & _LOW_HALF
            if checksum == uint64(load_u32(values, start)):
                size, _ = item_size(values, start + ITEM_HEADER_BYTES, end)
        sizes[i] = size
        total += max(size, 0)
    return total


@kernel(allocates=False)
def _decode_values(
    values: U8Array, bounds: I64Array, decoding: Decoding, items: U8Array, sizes: I64Array
) -> None:
    """Write the items of values, whose sizes are known; the size of an invalid frame becomes -1."""
    cursor = int64(0)
    for i in range(len(sizes)):
        size = sizes[i]
        if size < 0:
            continue
        start = bounds[i] + ITEM_HEADER_BYTES
        if not decode_item(values, start, bounds[i + 1], decoding, items, cursor):
            sizes[i] = -1
        cursor += size


def decode_values(
    records: Sequence[int],
    values: Sequence[bytes | None],
    codec: int,
    decoding: Decoding,
    bytes_max: int,
) -> tuple[bytearray, NDArray[np.int64], NDArray[np.bool_]]:
    """Check and decode values.

    Args:
        records: of the values.
        values: as stored; None: there is no such record.
        codec: codec byte of the items to read.
        decoding: tables of the words that they are encoded with.
        bytes_max: most bytes of all items.

    Returns:
        (items, one after the other, and padding; by value: where each ends; whether there is one:
        damaged values and those of other codecs have none).

    Raises:
        PayloadTooLarge: the items have more bytes.
    """
    parts = [b"" if value is None else value for value in values]
    bounds = np.zeros(len(parts) + 1, np.int64)
    bounds[1:] = list(map(len, parts))
    np.cumsum(bounds, out=bounds)
    parts.append(bytes(PADDING))
    source = np.frombuffer(bytearray().join(parts), np.uint8)
    sizes = np.empty(len(values), np.int64)
    num_bytes = _measure_values(source, bounds, np.array(records, np.uint64), codec, sizes)
    if num_bytes > bytes_max:
        raise page_too_large()
    items = bytearray(num_bytes + PADDING)
    ends = np.cumsum(np.maximum(sizes, 0))
    _decode_values(source, bounds, decoding, np.frombuffer(items, np.uint8), sizes)
    return items, ends, sizes >= 0


def read_values(
    records: Sequence[int],
    values: Sequence[bytes | None],
    codec: int,
    decoding: Decoding,
    bytes_max: int,
) -> list[bytes | None]:
    """Return the items of values, one by one; None for those without one. See `decode_values`.

    Raises:
        PayloadTooLarge: the items have more than `bytes_max` bytes.
    """
    joined, ends, are_found = decode_values(records, values, codec, decoding, bytes_max)
    decoded = memoryview(joined)
    items: list[bytes | None] = []
    at = 0
    for end, is_found in zip(ends.tolist(), are_found.tolist(), strict=True):
        items.append(bytes(decoded[at:end]) if is_found else None)
        at = end
    return items
