"""The dictionary of word codes: its bytes, and the codes that follow from it.

    dictionary | items that it was learnt from u32 | number of tokens u32
               | escape of separators u32 | escape of words u32
               | tokens with codes of 0 … 24 bits u32[25] | bits of the code of each byte u8[256]
               | 2 × length + is a word, u8 of each token | the bytes of all tokens |

A canonical Huffman code: tokens are in the order of their codes. So the number of tokens with each
code length determines all codes. An *escape* is a token without bytes; its code announces a token
that the dictionary lacks. On disk the dictionary is a zstd frame.

`word_training` writes it. Its reader validates every number, and raises `DamagedDictionary` where
one is impossible, so that kernels need not check any.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import zstandard

from shard.storage.item_compression.word_cutting import TOKEN_BYTES_MAX

if TYPE_CHECKING:
    from numpy.typing import NDArray

TOKENS_MAX: Final = 1 << 16
DICTIONARY_BYTES_MAX: Final = 8 << 20
"""Far above what `TOKENS_MAX` tokens take."""

CODE_BITS_MAX: Final = 24
BYTE_BITS_MAX: Final = 12
LENGTH_BITS: Final = 6
"""Bits that give the length of a token without a code."""

WORD: Final = 1
ESCAPE: Final = 2
"""Kinds of a token: a separator is 0, an escape of words is WORD | ESCAPE."""

TOKEN_PADDING: Final = 64
"""Bytes after the tokens, which are read 32 bytes at a time."""

HEAD_NUMBERS: Final = 4
_FIXED_BYTES: Final = 4 * (HEAD_NUMBERS + CODE_BITS_MAX + 1) + 256


class DamagedDictionary(Exception):
    """The bytes are not what training writes."""


class WordDictionary(NamedTuple):
    """The validated content of a dictionary.

    Attributes:
        num_items: how many items it was learnt from.
        token_bytes: of all tokens, padded.
        tokens: by number: where it begins << 8 | length << 2 | kind.
        num_of_bits: how many tokens have codes of 0 … `CODE_BITS_MAX` bits.
        byte_bits: bits of the code of each byte.
        escapes: numbers of the escape of separators, and of words.
    """

    num_items: int
    token_bytes: NDArray[np.uint8]
    tokens: NDArray[np.uint32]
    num_of_bits: NDArray[np.int64]
    byte_bits: NDArray[np.int64]
    escapes: NDArray[np.int64]


def read_dictionary(content: bytes) -> WordDictionary:
    """Read and validate a dictionary.

    Raises:
        DamagedDictionary: the bytes are not what training writes.
    """
    try:
        whole = zstandard.ZstdDecompressor().decompress(
            content, max_output_size=DICTIONARY_BYTES_MAX
        )
    except zstandard.ZstdError as error:
        raise DamagedDictionary(str(error)) from error
    if not _FIXED_BYTES <= len(whole) <= DICTIONARY_BYTES_MAX:
        raise DamagedDictionary("its size is wrong")
    numbers = np.frombuffer(whole, np.uint32, HEAD_NUMBERS + CODE_BITS_MAX + 1).astype(np.int64)
    num_items, count = numbers[:2].tolist()
    escapes, num_of_bits = numbers[2:HEAD_NUMBERS], numbers[HEAD_NUMBERS:]
    byte_bits = np.frombuffer(whole, np.uint8, 256, _FIXED_BYTES - 256).astype(np.int64)
    if (
        not 2 < count <= TOKENS_MAX
        or num_of_bits.sum() != count
        or num_of_bits[0]
        or (num_of_bits << (CODE_BITS_MAX - np.arange(CODE_BITS_MAX + 1))).sum()
        > 1 << CODE_BITS_MAX
        or not (byte_bits.min() >= 1 and byte_bits.max() <= BYTE_BITS_MAX)
        or (1 << (BYTE_BITS_MAX - byte_bits)).sum() > 1 << BYTE_BITS_MAX
        or escapes.max() >= count
        or escapes[0] == escapes[1]
        or len(whole) < _FIXED_BYTES + count
    ):
        raise DamagedDictionary("its codes are impossible")
    kinds = np.frombuffer(whole, np.uint8, count, _FIXED_BYTES).astype(np.int64)
    lengths = kinds >> 1
    lengths[escapes] = 0
    token_bytes = whole[_FIXED_BYTES + count :]
    if lengths.max() > TOKEN_BYTES_MAX or lengths.sum() != len(token_bytes):
        raise DamagedDictionary("its tokens are impossible")
    tokens = (np.cumsum(lengths) - lengths) << 8 | lengths << 2 | kinds & WORD
    tokens[escapes] = tokens[escapes] >> 8 << 8 | np.array([ESCAPE, ESCAPE | WORD])
    padded = np.zeros(len(token_bytes) + TOKEN_PADDING, np.uint8)
    padded[: len(token_bytes)] = np.frombuffer(token_bytes, np.uint8)
    return WordDictionary(
        num_items, padded, tokens.astype(np.uint32), num_of_bits, byte_bits, escapes
    )


def first_codes(num_of_bits: NDArray[np.int64]) -> tuple[list[int], list[int]]:
    """Return, by bits of a code, the first such code, and the number of its token."""
    codes, numbers = [0], [0]
    for bits in range(1, len(num_of_bits)):
        codes.append((codes[-1] + int(num_of_bits[bits - 1])) << 1)
        numbers.append(numbers[-1] + int(num_of_bits[bits - 1]))
    return codes, numbers


def canonical_codes(bits: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the canonical code of each symbol, given its bits; equal lengths keep the order."""
    order = np.argsort(bits, kind="stable")
    firsts, numbers = first_codes(np.bincount(bits))
    codes = np.empty(len(bits), np.int64)
    ordered = bits[order]
    codes[order] = np.array(firsts)[ordered] + np.arange(len(bits)) - np.array(numbers)[ordered]
    return codes
