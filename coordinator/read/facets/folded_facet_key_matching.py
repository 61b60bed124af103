"""The folded keys of a facet as bytes: what a search within its values reads.

Questions: which keys match a pattern; which have a word that begins like this one, give or take
typos?

    values        Science Fiction    -12    C++ .NET    Amélie
    key_bytes     science fiction    -12    c++ .net    amelie      (without what stands between)
    key_starts    0                  15     18          26      32

A folded key is its words (`Analyzer.words`) with single spaces between them, after a "-" if the
value begins with a negative number: folding drops the sign like any punctuation. So a word begins
where its key does, after a space and after a sign; a word that begins with a "." also begins after
it, for who types net finds .net.

There is no index of the words: a scan of all keys costs a nanosecond a byte or less, and added keys
are folded and appended, no more.

Cost for 700,000 keys of three words, 23 bytes each: 31 bytes each; 170 ms to fold them, then 7 ms
for a word, 31 ms if it may have typos, 14 ms for a pattern (an Intel Xeon, 2026-11-29).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from common.analysis.edit_distance_kernels import distance_to_one, osa_distance
from common.analysis.tokenizer import (
    STATE_SIZE,
    TABLES,
    CharacterTables,
    TokenBuffers,
    token_buffers,
    tokenize_span,
)
from common.kernels.array_growth import grown
from common.kernels.byte_equality import are_equal
from common.kernels.decorator import arguments, kernel
from common.kernels.intrinsics import count_ones, load_u64
from common.kernels.types import (
    U8,
    U64,
    BoolArray,
    I32Array,
    I64Array,
    Rows,
    U8Array,
    int64,
    uint8,
    uint64,
)
from common.kernels.utf8 import next_point

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from common.key_arena import KeyArena

_PADDING: Final = 8
"""Bytes after the last key and the last part of a pattern: bytes are compared eight at a time."""
_WORDS_AT_ONCE: Final = 64
_SPACE: Final = 0x20
_SIGN: Final = 0x2D
_DOT: Final = 0x2E


@arguments
class KeyWords(NamedTuple):
    """Some keys of a facet, folded.

    Attributes:
        key_bytes: the keys, one after the other, and some bytes of padding.
        key_starts: where each begins, with a sentinel.
    """

    key_bytes: NDArray[np.uint8]
    key_starts: NDArray[np.int64]

    @property
    def num_keys(self) -> int:
        """How many keys there are."""
        return len(self.key_starts) - 1


@arguments
class Pattern(NamedTuple):
    """Parts of a folded key, in order; between them there may be anything.

    Attributes:
        part_bytes: the parts, one after the other, and some bytes of padding.
        part_starts: where each begins, with a sentinel.
    """

    part_bytes: NDArray[np.uint8]
    part_starts: NDArray[np.int64]


@kernel(inline=True, allocates=False)
def _is_space(point: int) -> bool:
    r"""Return whether a code point is white space, as `\s` of a regular expression has it."""
    if point < 0x80:
        return 0x09 <= point <= 0x0D or 0x1C <= point <= 0x20
    return (
        point == 0x85
        or point == 0xA0
        or point == 0x1680
        or 0x2000 <= point <= 0x200A
        or point == 0x2028
        or point == 0x2029
        or point == 0x202F
        or point == 0x205F
        or point == 0x3000
    )


@kernel(allocates=False)
def _is_negative(text: U8Array, start: int, end: int) -> bool:
    """Return whether a text begins with a negative number, after white space."""
    at = start
    while at < end:
        point, after = next_point(text, at)
        if not _is_space(point):
            return point == _SIGN and after < end and 0x30 <= text[after] <= 0x39
        at = after
    return False


@kernel(allocates=False)
def _fold_some(
    text: U8Array,
    offsets: I64Array,
    tables: CharacterTables,
    state: I64Array,
    buffers: TokenBuffers,
    key: int,
    key_bytes: U8Array,
    key_starts: I64Array,
) -> int:
    """Fold keys from `key` on, until `key_bytes` may be too short for more.

    Returns:
        The first key that is not folded.
    """
    word_bytes = buffers.word_bytes
    word_ends = buffers.word_ends
    # What one call of the tokenizer can write, with a space before each word, and a sign.
    room = len(word_bytes) + len(word_ends) + 1
    while key < len(offsets) - 1:
        at, end = offsets[key], offsets[key + 1]
        start = key_starts[key]
        cursor = start
        if _is_negative(text, at, end) and cursor < len(key_bytes):
            key_bytes[cursor] = _SIGN
            cursor += 1
            start = cursor  # of the first word
        for i in range(STATE_SIZE):
            state[i] = 0
        next_word = at
        while next_word < end:
            if cursor + room > len(key_bytes):
                return key
            count, next_word = tokenize_span(text, next_word, end, tables, False, state, buffers)
            byte = 0
            for word in range(count):
                if cursor > start:
                    key_bytes[cursor] = _SPACE
                    cursor += 1
                while byte < word_ends[word]:
                    key_bytes[cursor] = word_bytes[byte]
                    byte += 1
                    cursor += 1
        key += 1
        key_starts[key] = cursor
    return key


@kernel
def _fold(text: U8Array, offsets: I64Array, tables: CharacterTables) -> tuple[U8Array, I64Array]:
    """Fold keys.

    Args:
        text: the keys as UTF-8.
        offsets: where each begins, with a sentinel.
        tables: `TABLES`.

    Returns:
        `key_bytes`, longer than needed, and `key_starts`.
    """
    num_keys = len(offsets) - 1
    num_bytes = offsets[num_keys] - offsets[0]
    state = np.zeros(STATE_SIZE, np.int64)
    buffers = token_buffers(_WORDS_AT_ONCE)
    key_bytes = np.empty(num_bytes + num_bytes // 4 + 4_096, np.uint8)
    key_starts = np.zeros(num_keys + 1, np.int64)
    key = int64(0)
    while True:
        key = _fold_some(text, offsets, tables, state, buffers, key, key_bytes, key_starts)
        if key == num_keys:
            return key_bytes, key_starts
        key_bytes = grown(key_bytes, 2 * len(key_bytes))


def fold_keys(arena: KeyArena) -> KeyWords:
    """Fold some keys; lone surrogates separate words.

    Cost: 0.2 µs a key.
    """
    return joined([KeyWords(*_fold(*arena, TABLES))])


def joined(parts: Sequence[KeyWords]) -> KeyWords:
    """Return the keys of all parts."""
    num_bytes = [part.key_starts[-1] for part in parts]
    firsts = [0, *accumulate(num_bytes)]
    key_starts = [
        part.key_starts[1:] + first for part, first in zip(parts, firsts[:-1], strict=True)
    ]
    key_bytes = [part.key_bytes[:size] for part, size in zip(parts, num_bytes, strict=True)]
    return KeyWords(
        np.concatenate([*key_bytes, np.zeros(_PADDING, np.uint8)]),
        np.concatenate([np.zeros(1, np.int64), *key_starts]),
    )


def pattern_of(parts: Sequence[str]) -> Pattern:
    """Return a pattern of folded parts."""
    encoded = [part.encode() for part in parts]
    starts = np.zeros(len(parts) + 1, np.int64)
    starts[1:] = np.cumsum([len(part) for part in encoded])
    return Pattern(np.frombuffer(bytearray(b"".join(encoded)) + bytes(_PADDING), np.uint8), starts)


@kernel(inline=True, allocates=False)
def _head_mask(size: int) -> U64:
    """Return which bits of eight bytes belong to the first `size` ones."""
    return ~uint64(0) if size >= 8 else (uint64(1) << uint64(8 * size)) - uint64(1)


@kernel(allocates=False)
def _find(
    key_bytes: U8Array, at: int, end: int, part_bytes: U8Array, part_start: int, part_end: int
) -> int:
    """Return where in ``key_bytes[at:end]`` a part begins first, or -1."""
    size = part_end - part_start
    mask = _head_mask(size)
    head = load_u64(part_bytes, part_start) & mask
    for i in range(at, end - size + 1):
        if load_u64(key_bytes, i) & mask == head and (
            size <= 8 or are_equal(key_bytes, i, part_bytes, part_start, size)
        ):
            return i
    return -1


@kernel(inline=True, allocates=False)
def _ends_with_space(part_bytes: U8Array, part_start: int, part_end: int) -> int:
    """Return 1 if a part ends with a space, else 0."""
    return int(part_start < part_end and part_bytes[part_end - 1] == _SPACE)


@kernel(allocates=False)
def mark_matches(pattern: Pattern, keys: KeyWords, found: BoolArray) -> None:
    """Set which keys consist of the parts of a pattern, with anything between them.

    A space that ends a part may be the one that begins the next: `a * b` matches A > B, which has
    become `a b`.

    Args:
        pattern: has at least one part; if it is the only one, keys must equal it.
        keys: read.
        found: by key; written.
    """
    key_bytes, key_starts = keys
    part_bytes, part_starts = pattern
    last = len(part_starts) - 2
    first_size = part_starts[1]
    last_size = part_starts[last + 1] - part_starts[last]
    for key in range(len(found)):
        at, end = key_starts[key], key_starts[key + 1]
        found[key] = False
        if end - at < first_size or not are_equal(key_bytes, at, part_bytes, 0, first_size):
            continue
        at += first_size
        if last == 0:
            found[key] = at == end
            continue
        at -= _ends_with_space(part_bytes, 0, first_size)
        # Each part at its first place leaves the most room for the others.
        for part in range(1, last):
            at = _find(key_bytes, at, end, part_bytes, part_starts[part], part_starts[part + 1])
            if at < 0:
                break
            at += part_starts[part + 1] - part_starts[part]
            at -= _ends_with_space(part_bytes, part_starts[part], part_starts[part + 1])
        if at >= 0 and end - at >= last_size:
            found[key] = are_equal(
                key_bytes, end - last_size, part_bytes, part_starts[last], last_size
            )


@kernel(allocates=False)
def _note_candidates(
    first_byte: U8, second_byte: U8, mask: U8, key_bytes: U8Array, is_candidate: BoolArray
) -> None:
    """Note before which bytes a word may begin, by its first two: a loop that is vectorized.

    Args:
        first_byte: of the word.
        second_byte: of the word.
        mask: the bits of the second byte that count.
        key_bytes: the keys.
        is_candidate: by byte; written.
    """
    first = key_bytes[1:]
    second = key_bytes[2:]
    for i in range(len(is_candidate)):
        # Spaces, signs and symbols are below 0x30, letters and digits are not.
        is_candidate[i] = (
            (key_bytes[i] < uint8(0x30))
            & (first[i] == first_byte)
            & (uint8(second[i] & mask) == second_byte)
        )


@kernel(allocates=False)
def _mark_words(
    word: U8Array, size: int, keys: KeyWords, is_candidate: U8Array, found: BoolArray
) -> None:
    """Set which keys have a word that begins with a folded one.

    Args:
        word: its bytes, padded.
        size: how many.
        keys: read.
        is_candidate: before which bytes of the keys it may begin, for those amid a key; padded.
        found: by key; written.
    """
    key_bytes, key_starts = keys
    for key in range(len(found)):
        start = key_starts[key]
        is_long = key_starts[key + 1] - start >= size
        found[key] = is_long and are_equal(key_bytes, start, word, 0, size)
    key = 0
    for i in range(0, len(is_candidate) - _PADDING, 8):
        if load_u64(is_candidate, i) == 0:
            continue
        for at in range(i + 1, i + 9):
            if is_candidate[at - 1]:
                while key_starts[key + 1] <= at:
                    key += 1
                is_long = key_starts[key + 1] - at >= size
                found[key] |= is_long and are_equal(key_bytes, at, word, 0, size)


@kernel(inline=True, allocates=False)
def _letter_bit(point: int) -> U64:
    """Return a letter's bit in a mask; that of its last byte is the same."""
    return uint64(1) << uint64(point & 31)


@kernel(allocates=False)
def _mark_similar_words(
    word: I32Array, edits_max: int, band: Rows[np.int64], keys: KeyWords, found: BoolArray
) -> None:
    """Set which keys have a word that begins with one within `edits_max` edits of `word`.

    Args:
        word: its code points; no digits among them.
        edits_max: 1 or 2.
        band: scratch for the distances.
        keys: read.
        found: by key; written.
    """
    key_bytes, key_starts = keys
    wanted = uint64(0)
    for i in range(len(word)):
        wanted |= _letter_bit(int64(word[i]))
    for key in range(len(found)):
        at, end = key_starts[key], key_starts[key + 1]
        found[key] = False
        while at < end and not found[key]:
            start = at
            letters = uint64(0)
            while at < end and key_bytes[at] != _SPACE:
                letters |= _letter_bit(int64(key_bytes[at]))
                at += 1
            # An edit brings one of the word's letters at most; most words of keys lack more.
            if count_ones(wanted & ~letters) <= edits_max:
                for begin in range(start, start + 1 + (key_bytes[start] == _DOT)):
                    if edits_max == 1:
                        distance = distance_to_one(word, key_bytes, begin, at, True)
                    else:
                        distance = osa_distance(word, key_bytes, begin, at, edits_max, True, band)
                    found[key] |= 0 <= distance <= edits_max
            at += 1  # after the space


def mark_words(word: str, keys: KeyWords, found: NDArray[np.bool_]) -> None:
    """Set which keys have a word that begins with a folded one."""
    encoded = word.encode()
    size = len(encoded)
    padded = np.frombuffer(bytearray(encoded) + bytes(_PADDING), np.uint8)
    num_bytes = keys.key_starts[-1]
    is_candidate = np.zeros(num_bytes + _PADDING, np.bool_)
    mask = 0xFF if size > 1 else 0
    _note_candidates(padded[0], padded[1], mask, keys.key_bytes, is_candidate[:num_bytes])
    _mark_words(padded, size, keys, is_candidate.view(np.uint8), found)


def mark_similar_words(word: str, edits_max: int, keys: KeyWords, found: NDArray[np.bool_]) -> None:
    """Set which keys have a word that begins with a folded one, give or take 1 or 2 typos."""
    points = np.frombuffer(bytearray(word.encode("utf-32-le")), np.int32)
    _mark_similar_words(points, edits_max, np.empty((3, 5), np.int64), keys, found)
