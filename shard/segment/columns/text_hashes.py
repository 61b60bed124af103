"""Hashes of many texts: the first 64 bits that BLAKE2b gives for a digest of eight bytes.

They equal `hashlib.blake2b(text, digest_size=8)`, which takes 1 µs a text, mostly for the object
that it makes. Texts of different segments, shards and hosts are compared by these hashes, and no
client can write two that have the same one: hence BLAKE2b (RFC 7693), and none that is faster.

    text      "Ada Lovelace", padded with zeros to whole blocks of 16 words
    block     ─▶ 12 rounds of 8 mixing steps on 16 words ─▶ state of 8 words ─▶ … ─▶ the first word

Cost: 0.2 µs for each 128 bytes of a text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from common.kernels.decorator import kernel
from common.kernels.intrinsics import load_u64
from common.kernels.types import U64, I64Array, U8Array, U64Array, uint64

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from common.key_arena import KeyArena

_BLOCK_BYTES: Final = 128
_BLOCK_WORDS: Final = 16
_ROUNDS: Final = 12
_IV_0: Final = uint64(0x6A09E667F3BCC908)
_IV_1: Final = uint64(0xBB67AE8584CAA73B)
_IV_2: Final = uint64(0x3C6EF372FE94F82B)
_IV_3: Final = uint64(0xA54FF53A5F1D36F1)
_IV_4: Final = uint64(0x510E527FADE682D1)
_IV_5: Final = uint64(0x9B05688C2B3E6C1F)
_IV_6: Final = uint64(0x1F83D9ABFB41BD6B)
_IV_7: Final = uint64(0x5BE0CD19137E2179)
_PARAMETERS: Final = uint64(0x01010008)
"""A digest of eight bytes, without a key, of one sequence of blocks."""
_SCHEDULE: Final = np.array(
    [
        [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15],
        [14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3],
        [11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4],
        [7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8],
        [9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13],
        [2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9],
        [12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11],
        [13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10],
        [6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5],
        [10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0],
    ],
    np.uint8,
)
"""Which words of a block each round takes, in which order; two rounds more take the first again."""


@kernel(inline=True, allocates=False)
def _rotated(word: U64, bits: int) -> U64:
    """Return a word whose lowest bits have become its highest ones."""
    return (word >> uint64(bits)) | (word << uint64(64 - bits))


@kernel(inline=True, allocates=False)
def _mixed(a: U64, b: U64, c: U64, d: U64, x: U64, y: U64) -> tuple[U64, U64, U64, U64]:
    """Return four words of the state, mixed with two of a block."""
    a += b + x
    d = _rotated(d ^ a, 32)
    c += d
    b = _rotated(b ^ c, 24)
    a += b + y
    d = _rotated(d ^ a, 16)
    c += d
    b = _rotated(b ^ c, 63)
    return a, b, c, d


@kernel(allocates=False)
def _compress(block: U64Array, counted: U64, is_last: bool, state: U64Array) -> None:
    """Mix a block of words into the state.

    Args:
        block: `_BLOCK_WORDS` words.
        counted: bytes of the text up to here.
        is_last: whether the text ends with this block.
        state: eight words; changed.
    """
    v0, v1, v2, v3 = state[0], state[1], state[2], state[3]
    v4, v5, v6, v7 = state[4], state[5], state[6], state[7]
    v8, v9, v10, v11 = _IV_0, _IV_1, _IV_2, _IV_3
    v12, v13, v14, v15 = _IV_4 ^ counted, _IV_5, _IV_6, _IV_7
    if is_last:
        v14 = ~v14
    for i in range(_ROUNDS):
        s = _SCHEDULE[i if i < 10 else i - 10]
        # Columns of the square of words, then its diagonals.
        v0, v4, v8, v12 = _mixed(v0, v4, v8, v12, block[s[0]], block[s[1]])
        v1, v5, v9, v13 = _mixed(v1, v5, v9, v13, block[s[2]], block[s[3]])
        v2, v6, v10, v14 = _mixed(v2, v6, v10, v14, block[s[4]], block[s[5]])
        v3, v7, v11, v15 = _mixed(v3, v7, v11, v15, block[s[6]], block[s[7]])
        v0, v5, v10, v15 = _mixed(v0, v5, v10, v15, block[s[8]], block[s[9]])
        v1, v6, v11, v12 = _mixed(v1, v6, v11, v12, block[s[10]], block[s[11]])
        v2, v7, v8, v13 = _mixed(v2, v7, v8, v13, block[s[12]], block[s[13]])
        v3, v4, v9, v14 = _mixed(v3, v4, v9, v14, block[s[14]], block[s[15]])
    state[0] ^= v0 ^ v8
    state[1] ^= v1 ^ v9
    state[2] ^= v2 ^ v10
    state[3] ^= v3 ^ v11
    state[4] ^= v4 ^ v12
    state[5] ^= v5 ^ v13
    state[6] ^= v6 ^ v14
    state[7] ^= v7 ^ v15


@kernel(allocates=False)
def _load_block(keys: U8Array, at: int, end: int, block: U64Array) -> None:
    """Write the words of a text from `at` on, and zeros after its end."""
    for i in range(_BLOCK_WORDS):
        word = uint64(0)
        if at + 8 <= end:
            word = load_u64(keys, at)
        else:
            for byte in range(end - at):
                word |= uint64(keys[at + byte]) << uint64(8 * byte)
        block[i] = word
        at += 8


@kernel(allocates=False)
def _hash_texts(
    keys: U8Array,
    offsets: I64Array,
    numbers: I64Array,
    block: U64Array,
    state: U64Array,
    hashes: U64Array,
) -> None:
    """Write the hash of each of some texts.

    Args:
        keys: bytes of the texts.
        offsets: where each begins, with a sentinel.
        numbers: of the texts to hash.
        block: scratch of `_BLOCK_WORDS` words.
        state: scratch of eight words.
        hashes: written.
    """
    for i in range(len(numbers)):
        start = offsets[numbers[i]]
        end = offsets[numbers[i] + 1]
        state[0], state[1], state[2], state[3] = _IV_0 ^ _PARAMETERS, _IV_1, _IV_2, _IV_3
        state[4], state[5], state[6], state[7] = _IV_4, _IV_5, _IV_6, _IV_7
        at = start
        while True:
            # The last block is full where the length is a multiple; that of no text is empty.
            _load_block(keys, at, end, block)
            at += _BLOCK_BYTES
            is_last = at >= end
            _compress(block, uint64(min(at, end) - start), is_last, state)
            if is_last:
                break
        hashes[i] = state[0]


def hash_texts(arena: KeyArena, numbers: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Return the hashes of some texts, by number."""
    hashes = np.empty(len(numbers), np.uint64)
    block, state = np.empty(_BLOCK_WORDS, np.uint64), np.empty(8, np.uint64)
    _hash_texts(*arena, np.asarray(numbers, np.int64), block, state, hashes)
    return hashes
