"""UTF-8, one code point at a time: leaves of the kernels that read or write text.

They expect valid UTF-8: bodies are checked on arrival (`common.json.item_scanner`), and queries
come from Python strings.
"""

from __future__ import annotations

from common.kernels.decorator import kernel
from common.kernels.types import U8Array, int64


@kernel(inline=True, allocates=False)
def decode_wide(text: U8Array, start: int) -> tuple[int, int]:
    """Return the code point at `start`, which is not ASCII, and its length in bytes."""
    lead = int64(text[start])
    second = int64(text[start + 1]) & 0x3F
    if lead < 0xE0:
        return (lead & 0x1F) << 6 | second, 2
    third = int64(text[start + 2]) & 0x3F
    if lead < 0xF0:
        return (lead & 0x0F) << 12 | second << 6 | third, 3
    return (lead & 0x07) << 18 | second << 12 | third << 6 | int64(text[start + 3]) & 0x3F, 4


@kernel(inline=True, allocates=False)
def encode_point(point: int, out: U8Array, cursor: int) -> int:
    """Write a code point as UTF-8; return the cursor after it."""
    if point < 0x80:
        out[cursor] = point
        return cursor + 1
    if point < 0x800:
        out[cursor] = 0xC0 | point >> 6
        out[cursor + 1] = 0x80 | point & 0x3F
        return cursor + 2
    if point < 0x10000:
        out[cursor] = 0xE0 | point >> 12
        out[cursor + 1] = 0x80 | point >> 6 & 0x3F
        out[cursor + 2] = 0x80 | point & 0x3F
        return cursor + 3
    out[cursor] = 0xF0 | point >> 18
    out[cursor + 1] = 0x80 | point >> 12 & 0x3F
    out[cursor + 2] = 0x80 | point >> 6 & 0x3F
    out[cursor + 3] = 0x80 | point & 0x3F
    return cursor + 4


@kernel(inline=True, allocates=False)
def next_point(text: U8Array, at: int) -> tuple[int, int]:
    """Return the code point at an offset, and the offset after it."""
    lead = int64(text[at])
    if lead < 0x80:
        return lead, at + 1
    point, size = decode_wide(text, at)
    return point, at + size
