"""Trains word codes: chooses the tokens of an index that get codes, and the code lengths.

    items ─▶ counts of their distinct tokens ─▶ the most frequent ones, and two escapes for the rest
          ─▶ lengths of a Huffman code, 24 bits at most ─▶ a dictionary (`word_dictionary`)

Cost: 0.3 s for 16,384 items of 500 bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import zstandard

from common.kernels.byte_equality import are_equal
from common.kernels.decorator import arguments, kernel
from common.kernels.types import U64, I64Array, U8Array, int64, uint64
from shard.storage.item_compression.word_cutting import (
    BYTE_CLASSES,
    end_of_token,
    first_bytes,
    is_implied,
    token_hash,
)
from shard.storage.item_compression.word_dictionary import (
    BYTE_BITS_MAX,
    CODE_BITS_MAX,
    TOKENS_MAX,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

DISTINCT_MAX: Final = 1 << 18
"""Distinct tokens that training counts; further ones are left to escapes."""

_ONE: Final = uint64(1)
_S32: Final = uint64(32)
_LOW32: Final = uint64(0xFFFFFFFF)


@arguments
class _TokenCounts(NamedTuple):
    """The distinct tokens so far, in the order of their first appearance.

    Attributes:
        slots: a hash table: 0, or hash << 32 | number + 1; at most half full.
        counts: by token: how often it occurs.
        begins: where one of its occurrences begins << 1 | is a word.
        ends: where that ends.
    """

    slots: NDArray[np.uint64]
    counts: NDArray[np.int64]
    begins: NDArray[np.int64]
    ends: NDArray[np.int64]


@kernel(inline=True, allocates=False)
def _find_token(
    text: U8Array, start: int, stop: int, is_word: bool, tag: U64, found: _TokenCounts
) -> tuple[int, int]:
    """Return the number of a token and its slot; -1 and a free slot if the token is new."""
    slots, begins, ends = found.slots, found.begins, found.ends
    mask = uint64(len(slots) - 1)
    slot = tag >> _S32 & mask
    while True:
        entry = slots[slot]
        if entry == 0:
            return int64(-1), int64(slot)
        if entry & ~_LOW32 == tag:
            number = int64(entry & _LOW32) - 1
            begin = begins[number] >> 1
            if (
                begins[number] & 1 == int64(is_word)
                and ends[number] - begin == stop - start
                and are_equal(text, begin, text, start, stop - start)
            ):
                return number, int64(slot)
        slot = (slot + _ONE) & mask


@kernel(allocates=False)
def _count_tokens(
    text: U8Array, starts: I64Array, sizes: I64Array, classes: U8Array, found: _TokenCounts
) -> tuple[int, int]:
    """Count the distinct tokens of items.

    Args:
        text: that contains all items.
        starts: where each item begins.
        sizes: bytes of each item.
        classes: by byte, see `word_cutting`.
        found: output, empty.

    Returns:
        The number of distinct tokens, and of occurrences of others, for which there was no room.
    """
    slots, counts, begins, ends = found
    num_distinct: Any = int64(0)
    num_left_out = 0
    for item in range(len(starts)):
        at = starts[item]
        end = at + sizes[item]
        is_after_word = False
        while at < end:
            stop, is_word = end_of_token(text, at, end, classes)
            start = at
            at = stop
            if is_implied(text, start, stop, end, classes, is_after_word):
                continue
            # (The empty separator between two words that touch is not counted: it is rare, and
            # written by the escape.)
            is_after_word = is_word
            tag = token_hash(first_bytes(text, start, stop), text, start, stop, is_word)
            number, slot = _find_token(text, start, stop, is_word, tag, found)
            if number < 0:
                if num_distinct == len(counts):
                    num_left_out += 1
                    continue
                number = num_distinct
                slots[slot] = tag | uint64(number + 1)
                counts[number] = 0
                begins[number] = start << 1 | int64(is_word)
                ends[number] = stop
                num_distinct += 1
            counts[number] += 1
    return num_distinct, num_left_out


@kernel
def _code_lengths(counts: I64Array, bits_max: int) -> I64Array:
    """Return the lengths of a Huffman code, at most `bits_max` bits, for descending counts above 0.

    With two queues: the leaves, and the inner nodes in the order in which they are made. While a
    code is too long, counts are halved, which flattens the tree.
    """
    count = len(counts)
    lengths = np.ones(count, np.int64)
    if count < 2:
        return lengths
    weights = counts.copy()
    sums = np.empty(count, np.int64)
    leaf_parents = np.empty(count, np.int64)
    parents = np.empty(count, np.int64)
    depths = np.empty(count, np.int64)
    while True:
        leaf = count - 1
        head = 0
        for made in range(count - 1):
            total = int64(0)
            for _ in range(2):
                if leaf >= 0 and (head >= made or weights[leaf] <= sums[head]):
                    total += weights[leaf]
                    leaf_parents[leaf] = made
                    leaf -= 1
                else:
                    total += sums[head]
                    parents[head] = made
                    head += 1
            sums[made] = total
        depths[count - 2] = 0
        for node in range(count - 3, -1, -1):
            depths[node] = depths[parents[node]] + 1
        most = int64(0)
        for i in range(count):
            lengths[i] = depths[leaf_parents[i]] + 1
            most = max(most, lengths[i])
        if most <= bits_max:
            return lengths
        for i in range(count):
            weights[i] = (weights[i] + 1) >> 1


def train_words(
    payload: NDArray[np.uint8], starts: NDArray[np.int64], sizes: NDArray[np.int64]
) -> bytes | None:
    """Learn the words of items.

    Args:
        payload: memory that holds all items.
        starts: where each begins in `payload`.
        sizes: bytes of each.

    Returns:
        A dictionary, or None if no token occurs twice.
    """
    counts, begins, ends = (np.empty(DISTINCT_MAX, np.int64) for _ in range(3))
    found = _TokenCounts(np.zeros(2 * DISTINCT_MAX, np.uint64), counts, begins, ends)
    num_distinct, num_left_out = _count_tokens(payload, starts, sizes, BYTE_CLASSES, found)
    counts, begins, ends = counts[:num_distinct], begins[:num_distinct], ends[:num_distinct]
    order = np.argsort(-counts, kind="stable")
    num_kept = min(int(np.count_nonzero(counts >= 2)), TOKENS_MAX - 2)
    if not num_kept:
        return None
    kept, rare = order[:num_kept], order[num_kept:]
    # Tokens that occurred once will take an escape and the codes of their bytes: count both.
    is_word = begins[rare] & 1
    escaped = np.bincount(is_word, weights=counts[rare], minlength=2).astype(np.int64)
    escaped[1] += num_left_out
    spans = zip((begins[rare] >> 1).tolist(), ends[rare].tolist(), strict=True)
    rare_bytes = b"".join([payload[a:b].tobytes() for a, b in spans])
    byte_counts = 8 * np.bincount(np.frombuffer(rare_bytes, np.uint8), minlength=256) + 1
    # Sort the escapes in among the tokens, which descend by count.
    all_counts = np.concatenate((counts[kept], np.maximum(escaped, 1)))
    symbols = np.concatenate((kept, [-1, -2]))
    by_count = np.argsort(-all_counts, kind="stable")
    bits = _code_lengths(all_counts[by_count], CODE_BITS_MAX)
    symbols = symbols[by_count]
    escapes = [int(np.flatnonzero(symbols == symbol)[0]) for symbol in (-1, -2)]
    kinds = np.zeros(len(symbols), np.uint8)
    pieces = []
    for position, symbol in enumerate(symbols.tolist()):
        if symbol >= 0:
            start, end = int(begins[symbol] >> 1), int(ends[symbol])
            kinds[position] = (end - start) << 1 | int(begins[symbol] & 1)
            pieces.append(payload[start:end].tobytes())
    byte_order = np.argsort(-byte_counts, kind="stable")
    byte_bits = np.empty(256, np.uint8)
    byte_bits[byte_order] = _code_lengths(byte_counts[byte_order], BYTE_BITS_MAX)
    head = np.array([len(starts), len(symbols), *escapes], np.uint32)
    num_of_bits = np.bincount(bits, minlength=CODE_BITS_MAX + 1).astype(np.uint32)
    whole = b"".join(
        (head.tobytes(), num_of_bits.tobytes(), byte_bits.tobytes(), kinds.tobytes(), *pieces)
    )
    return zstandard.ZstdCompressor(level=3).compress(whole)
