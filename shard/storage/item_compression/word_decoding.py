"""Decodes items from word codes, by table lookup.

Codes are canonical: those of n bits form one range, above all shorter ones if all are written in
`CODE_BITS_MAX` bits. So the length of a code gives the number of its token. The next `_LOOKUP_BITS`
bits of a frame determine the length, but for the few values where one range ends and the next one
begins. (A table of tokens would be four times as large, more than the processor keeps at hand, and
right only for codes of no more bits.)

Cost: 6 ns a token, 3 ns a byte of one that the dictionary lacks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from common.kernels.big_endian import load_big_endian
from common.kernels.decorator import arguments, kernel
from common.kernels.intrinsics import copy_32
from common.kernels.types import U64, U8Array, int64, uint64
from shard.storage.item_compression.word_cutting import SPACE, TOKEN_BYTES_MAX
from shard.storage.item_compression.word_dictionary import (
    BYTE_BITS_MAX,
    CODE_BITS_MAX,
    ESCAPE,
    LENGTH_BITS,
    WORD,
    WordDictionary,
    canonical_codes,
    first_codes,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

_LOOKUP_BITS: Final = 12
PADDING: Final = 64
"""Bytes after frames (read 8 at a time), and after items (written 32 at a time)."""


@arguments
class Decoding(NamedTuple):
    """The tables to decode with.

    Attributes:
        token_bytes: of all tokens, padded.
        tokens: by number: where it begins << 8 | length << 2 | kind.
        lengths: by the next `_LOOKUP_BITS` bits: bits of the shortest code that begins with them;
            `CODE_BITS_MAX` + 1: none does.
        bounds: by bits of a code: the least code that is longer, in `CODE_BITS_MAX` bits.
        bases: by bits of a code: number of the first token with that many, less its code.
        byte_lookup: by the next `BYTE_BITS_MAX` bits: byte << 8 | bits of the code; 0: none.
    """

    token_bytes: NDArray[np.uint8]
    tokens: NDArray[np.uint32]
    lengths: NDArray[np.uint8]
    bounds: NDArray[np.int64]
    bases: NDArray[np.int64]
    byte_lookup: NDArray[np.uint32]


def _byte_lookup(bits: NDArray[np.int64]) -> NDArray[np.uint32]:
    """Return byte << 8 | bits of its code, by the next `BYTE_BITS_MAX` bits; 0: there is none."""
    lookup = np.zeros(1 << BYTE_BITS_MAX, np.uint32)
    for byte, (code, size) in enumerate(
        zip(canonical_codes(bits).tolist(), bits.tolist(), strict=True)
    ):
        first = code << (BYTE_BITS_MAX - size)
        lookup[first : first + (1 << (BYTE_BITS_MAX - size))] = byte << 8 | size
    return lookup


def make_decoding(dictionary: WordDictionary) -> Decoding:
    """Return the tables to decode with."""
    firsts, numbers = first_codes(dictionary.num_of_bits)
    bounds = np.zeros(CODE_BITS_MAX + 1, np.int64)
    bases = np.zeros(CODE_BITS_MAX + 1, np.int64)
    for bits in range(1, CODE_BITS_MAX + 1):
        bounds[bits] = (firsts[bits] + int(dictionary.num_of_bits[bits])) << (CODE_BITS_MAX - bits)
        bases[bits] = numbers[bits] - firsts[bits]
    least = np.arange(1 << _LOOKUP_BITS) << (CODE_BITS_MAX - _LOOKUP_BITS)
    return Decoding(
        dictionary.token_bytes,
        dictionary.tokens,
        np.searchsorted(bounds, least, side="right").astype(np.uint8),
        bounds,
        bases,
        _byte_lookup(dictionary.byte_bits),
    )


@kernel(inline=True, allocates=False)
def _window(frames: U8Array, bit: int) -> U64:
    """Return the bits from `bit` on, the first one highest; at least 57 of them are valid."""
    return load_big_endian(frames, bit >> 3) << uint64(bit & 7)


@kernel(inline=True, allocates=False)
def item_size(frames: U8Array, start: int, end: int) -> tuple[int, int]:
    """Return the size of a frame's item (-1: the frame is invalid), and where its codes begin."""
    size: Any = int64(0)
    shift = int64(0)
    at = start
    while at < end and shift < 56:
        byte = int64(frames[at])
        at += 1
        size |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            # A code has at least one bit, and stands for at most a token and a space.
            if size > (end - at) * 8 * (TOKEN_BYTES_MAX + 1):
                return int64(-1), at
            return size, at
    return int64(-1), at


@kernel(allocates=False)
def decode_item(
    frames: U8Array, start: int, end: int, decoding: Decoding, out: U8Array, cursor: int
) -> bool:
    """Decode a frame to `out` at `cursor`; return whether the frame is valid.

    The frame may have any content: nothing is read or written beyond the frame, the item, and the
    `PADDING` after each.
    """
    token_bytes, tokens, lengths, bounds, bases, byte_lookup = decoding
    size, at = item_size(frames, start, end)
    if size < 0:
        return False
    stop = cursor + size
    bit = at << 3
    bits_end = end << 3
    is_after_word = False
    while cursor < stop:
        # The next code. The window may reach beyond the frame; the code must not.
        code = int64(_window(frames, bit) >> uint64(64 - CODE_BITS_MAX))
        num_bits = int64(lengths[code >> (CODE_BITS_MAX - _LOOKUP_BITS)])
        while num_bits <= CODE_BITS_MAX and code >= bounds[num_bits]:
            num_bits += 1
        bit += num_bits
        if num_bits > CODE_BITS_MAX or bit > bits_end:
            return False
        number = bases[num_bits] + (code >> (CODE_BITS_MAX - num_bits))
        token = int64(tokens[number])
        is_word = token & WORD != 0
        if is_word and is_after_word:  # the space between two words has no code
            out[cursor] = SPACE
            cursor += 1
        is_after_word = is_word
        length = token >> 2 & TOKEN_BYTES_MAX
        if token & ESCAPE == 0:
            if cursor + length > stop:
                return False
            # Whole words of 32 bytes, whatever the length: the next token overwrites the rest.
            copy_32(token_bytes, token >> 8, out, cursor)
            if length > 32:
                copy_32(token_bytes, (token >> 8) + 32, out, cursor + 32)
            cursor += length
            continue
        # A token that the dictionary lacks: its length and its bytes, one by one. A window has the
        # codes of four.
        length = int64(_window(frames, bit) >> uint64(64 - LENGTH_BITS))
        bit += LENGTH_BITS
        if cursor + length > stop:
            return False
        window = uint64(0)
        for i in range(length):
            if i & 3 == 0:
                if bit > bits_end:
                    return False
                window = _window(frames, bit)
            entry = int64(byte_lookup[window >> uint64(64 - BYTE_BITS_MAX)])
            if entry == 0:
                return False
            num_bits = entry & 255
            bit += num_bits
            window <<= uint64(num_bits)
            out[cursor] = entry >> 8
            cursor += 1
        if bit > bits_end:
            return False
    return cursor == stop
