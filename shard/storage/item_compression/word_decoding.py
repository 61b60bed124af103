"""Decodes items from word codes, by table lookup.

The next `_LOOKUP_BITS` bits of a frame determine the token if its code is no longer than that,
which holds for nearly all tokens. Longer codes are found by their length.

Cost: 10 ns a token.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from common.kernels.big_endian import load_big_endian
from common.kernels.byte_words import copy_32
from common.kernels.decorator import arguments, kernel
from common.kernels.types import U64, U8Array, int64, uint64
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
from shard.storage.item_compression.word_tokens import SPACE, TOKEN_BYTES_MAX

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
        lookup: by the next `_LOOKUP_BITS` bits: number << 8 | bits of the code; 0: it is longer.
        bounds: by bits of a code: the least code that is longer, in `CODE_BITS_MAX` bits.
        bases: by bits of a code: number of the first token with so many, less its code.
        byte_lookup: by the next `BYTE_BITS_MAX` bits: byte << 8 | bits of the code; 0: none.
    """

    token_bytes: NDArray[np.uint8]
    tokens: NDArray[np.uint32]
    lookup: NDArray[np.uint32]
    bounds: NDArray[np.int64]
    bases: NDArray[np.int64]
    byte_lookup: NDArray[np.uint32]


def _lookup(
    codes: NDArray[np.int64], bits: NDArray[np.int64], symbols: NDArray[np.int64], most: int
) -> NDArray[np.uint32]:
    """Return symbol << 8 | bits of its code, by the next `most` bits; 0: no code is so short."""
    lookup = np.zeros(1 << most, np.uint32)
    for code, size, symbol in zip(codes.tolist(), bits.tolist(), symbols.tolist(), strict=True):
        if size <= most:
            first = code << (most - size)
            lookup[first : first + (1 << (most - size))] = symbol << 8 | size
    return lookup


def make_decoding(dictionary: WordDictionary) -> Decoding:
    """Return the tables to decode with."""
    firsts, numbers = first_codes(dictionary.num_of_bits)
    bounds = np.zeros(CODE_BITS_MAX + 1, np.int64)
    bases = np.zeros(CODE_BITS_MAX + 1, np.int64)
    for bits in range(1, CODE_BITS_MAX + 1):
        bounds[bits] = (firsts[bits] + int(dictionary.num_of_bits[bits])) << (CODE_BITS_MAX - bits)
        bases[bits] = numbers[bits] - firsts[bits]
    num_short = int(dictionary.num_of_bits[: _LOOKUP_BITS + 1].sum())
    short = np.repeat(np.arange(_LOOKUP_BITS + 1), dictionary.num_of_bits[: _LOOKUP_BITS + 1])
    return Decoding(
        dictionary.token_bytes,
        dictionary.tokens,
        _lookup(canonical_codes(short), short, np.arange(num_short), _LOOKUP_BITS),
        bounds,
        bases,
        _lookup(
            canonical_codes(dictionary.byte_bits),
            dictionary.byte_bits,
            np.arange(256),
            BYTE_BITS_MAX,
        ),
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


@kernel(inline=True, allocates=False)
def _find_long(decoding: Decoding, window: U64) -> tuple[int, int]:
    """Return the number of the token whose code has more than `_LOOKUP_BITS` bits, and these bits.

    Codes are canonical: those of n bits form one range, above all shorter ones if all are written
    in `CODE_BITS_MAX` bits. So the first range that does not end before a code gives its length. A
    length above `CODE_BITS_MAX` means that no token has this code.
    """
    code = int64(window >> uint64(64 - CODE_BITS_MAX))
    num_bits = int64(_LOOKUP_BITS + 1)
    while num_bits <= CODE_BITS_MAX and code >= decoding.bounds[num_bits]:
        num_bits += 1
    if num_bits > CODE_BITS_MAX:
        return int64(0), num_bits
    return decoding.bases[num_bits] + (code >> (CODE_BITS_MAX - num_bits)), num_bits


@kernel(allocates=False)
def decode_item(
    frames: U8Array, start: int, end: int, decoding: Decoding, out: U8Array, cursor: int
) -> bool:
    """Decode a frame to `out` at `cursor`; return whether the frame is valid.

    The frame may have any content: nothing is read or written beyond the frame, the item, and the
    `PADDING` after each.
    """
    token_bytes, tokens, byte_lookup = decoding.token_bytes, decoding.tokens, decoding.byte_lookup
    size, at = item_size(frames, start, end)
    if size < 0:
        return False
    stop = cursor + size
    bit = at << 3
    bits_end = end << 3
    is_after_word = False
    while cursor < stop:
        # The next code. The window may reach beyond the frame; the code must not.
        window = _window(frames, bit)
        entry = int64(decoding.lookup[window >> uint64(64 - _LOOKUP_BITS)])
        number = entry >> 8
        num_bits: Any = entry & 255
        if entry == 0:
            number, num_bits = _find_long(decoding, window)
            if num_bits > CODE_BITS_MAX:
                return False
        bit += num_bits
        if bit > bits_end:
            return False
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
        # A token that the dictionary lacks: its length and its bytes, one by one.
        length = int64(_window(frames, bit) >> uint64(64 - LENGTH_BITS))
        bit += LENGTH_BITS
        if cursor + length > stop:
            return False
        for _ in range(length):
            if bit > bits_end:
                return False
            entry = int64(byte_lookup[_window(frames, bit) >> uint64(64 - BYTE_BITS_MAX)])
            if entry == 0:
                return False
            bit += entry & 255
            out[cursor] = entry >> 8
            cursor += 1
        if bit > bits_end:
            return False
    return cursor == stop
