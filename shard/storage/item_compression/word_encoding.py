"""Encodes items as word codes: cuts them into tokens, and looks up the codes.

Tokens are looked up in batches. Most lookups miss the cache twice: at the slot of the hash table,
and at the row that it names. In loops that only read, many such misses overlap.

Cost: 25 ns a token.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from common.kernels.byte_equality import are_equal
from common.kernels.decorator import arguments, kernel
from common.kernels.types import U64, I64Array, Rows, U8Array, int64, uint64
from shard.storage.item_compression.word_cutting import (
    SPACE,
    TOKEN_BYTES_MAX,
    end_of_token,
    first_bytes,
    is_implied,
    token_hash,
)
from shard.storage.item_compression.word_dictionary import (
    CODE_BITS_MAX,
    ESCAPE,
    LENGTH_BITS,
    WORD,
    WordDictionary,
    canonical_codes,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

_TOKENS_AT_ONCE: Final = 64
"""Tokens that are looked up together, so that their cache misses overlap."""
_ONE: Final = uint64(1)
_S32: Final = uint64(32)
_LOW32: Final = uint64(0xFFFFFFFF)


@arguments
class Encoding(NamedTuple):
    """The tables to encode with.

    Attributes:
        token_bytes: of all tokens, padded.
        slots: a hash table: hash << 32 | number + 1.
        rows: by number: the first eight bytes, as a word; bits of the code << 56 | code << 32 |
            the number in `word_decoding.Decoding.tokens`. Adjacent, so that a row costs one
            cache miss.
        byte_codes: by byte: code << 8 | its bits.
        escapes: the same for the escape of separators, and of words.
    """

    token_bytes: NDArray[np.uint8]
    slots: NDArray[np.uint64]
    rows: Rows[np.uint64]
    byte_codes: NDArray[np.uint32]
    escapes: NDArray[np.uint32]


@kernel(allocates=False)
def _fill_slots(encoding: Encoding) -> None:
    """Put all tokens but the escapes into the hash table, and their first bytes into their rows."""
    token_bytes, slots, rows, _, _ = encoding
    mask = uint64(len(slots) - 1)
    for number in range(len(rows)):
        token = int64(rows[number, 1] & _LOW32)
        if token & ESCAPE != 0:
            continue
        start = token >> 8
        end = start + (token >> 2 & TOKEN_BYTES_MAX)
        first = first_bytes(token_bytes, start, end)
        rows[number, 0] = first
        tag = token_hash(first, token_bytes, start, end, token & WORD != 0)
        slot = tag >> _S32 & mask
        while slots[slot] != 0:
            slot = (slot + _ONE) & mask
        slots[slot] = tag | uint64(number + 1)


def make_encoding(dictionary: WordDictionary) -> Encoding:
    """Return the tables to encode with."""
    bits = np.repeat(np.arange(CODE_BITS_MAX + 1), dictionary.num_of_bits)
    codes = canonical_codes(bits)
    rows = np.zeros((len(bits), 2), np.uint64)
    rows[:, 1] = bits << 56 | codes << 32 | dictionary.tokens
    num_slots = 1 << (2 * len(bits)).bit_length()
    encoding = Encoding(
        dictionary.token_bytes,
        np.zeros(num_slots, np.uint64),
        rows,
        (canonical_codes(dictionary.byte_bits) << 8 | dictionary.byte_bits).astype(np.uint32),
        (codes << 8 | bits)[dictionary.escapes].astype(np.uint32),
    )
    _fill_slots(encoding)
    return encoding


@arguments
class _Tokens(NamedTuple):
    """Tokens of an item that are looked up together.

    Attributes:
        starts: where each begins in the text.
        ends: where it ends.
        are_words: whether it is a word.
        firsts: its first eight bytes.
        tags: its hash, in the upper 32 bits.
        entries: content of its slot of the hash table.
        rows: the second number of the row that the slot names.
    """

    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    are_words: NDArray[np.bool_]
    firsts: NDArray[np.uint64]
    tags: NDArray[np.uint64]
    entries: NDArray[np.uint64]
    rows: NDArray[np.uint64]


@kernel
def _new_tokens() -> _Tokens:
    """Return room for tokens."""
    return _Tokens(
        np.empty(_TOKENS_AT_ONCE, np.int64),
        np.empty(_TOKENS_AT_ONCE, np.int64),
        np.empty(_TOKENS_AT_ONCE, np.bool_),
        np.empty(_TOKENS_AT_ONCE, np.uint64),
        np.empty(_TOKENS_AT_ONCE, np.uint64),
        np.empty(_TOKENS_AT_ONCE, np.uint64),
        np.empty(_TOKENS_AT_ONCE, np.uint64),
    )


@kernel(allocates=False)
def _cut(
    text: U8Array, start: int, end: int, classes: U8Array, is_after_word: bool, tokens: _Tokens
) -> tuple[int, int, bool]:
    """Cut the text from `start` on into tokens that need a code.

    Args:
        text: that contains the item.
        start: where to continue.
        end: of the item.
        classes: see `word_cutting`.
        is_after_word: whether the token before is a word.
        tokens: output, up to `_TOKENS_AT_ONCE`.

    Returns:
        The number of tokens, where the rest begins, and whether the last token is a word.
    """
    starts, ends, are_words, firsts, tags, _, _ = tokens
    count: Any = int64(0)
    at = start
    while at < end and count < _TOKENS_AT_ONCE:
        stop, is_word = end_of_token(text, at, end, classes)
        token_start = at
        at = stop
        if is_word and is_after_word and text[token_start - 1] != SPACE:
            # Two words touch, because the first was cut for its length. An empty separator says
            # that no space is between them; the second word follows.
            at = token_start
            stop = token_start
            is_word = False
        elif is_implied(text, token_start, stop, end, classes, is_after_word):
            continue
        is_after_word = is_word
        first = first_bytes(text, token_start, stop)
        starts[count] = token_start
        ends[count] = stop
        are_words[count] = is_word
        firsts[count] = first
        tags[count] = token_hash(first, text, token_start, stop, is_word)
        count += 1
    return count, at, is_after_word


@kernel(allocates=False)
def _load_rows(encoding: Encoding, tokens: _Tokens, count: int) -> None:
    """Read the slot and the row of each token.

    Most miss the cache. No branch depends on what these loops read, so many misses overlap.
    """
    slots, rows = encoding.slots, encoding.rows
    mask = uint64(len(slots) - 1)
    for i in range(count):
        tokens.entries[i] = slots[tokens.tags[i] >> _S32 & mask]
    for i in range(count):
        number = int64(tokens.entries[i] & _LOW32) - 1
        tokens.rows[i] = rows[max(number, 0), 1]


@kernel(inline=True, allocates=False)
def _find_code(encoding: Encoding, text: U8Array, tokens: _Tokens, i: int) -> int:
    """Return the code of a token << 8 | its bits; 0: it has none."""
    token_bytes, slots, rows, _, _ = encoding
    start, end = tokens.starts[i], tokens.ends[i]
    first, tag = tokens.firsts[i], tokens.tags[i]
    mask = uint64(len(slots) - 1)
    slot = tag >> _S32 & mask
    wanted = (end - start) << 2 | int64(tokens.are_words[i])
    entry = tokens.entries[i]
    row = int64(tokens.rows[i])
    while entry != 0:
        if entry & ~_LOW32 == tag:
            number = int64(entry & _LOW32) - 1
            if rows[number, 0] == first and row & 255 == wanted:
                other = row >> 8 & 0xFFFFFF
                if are_equal(token_bytes, other + 8, text, start + 8, end - start - 8):
                    return (row >> 32 & 0xFFFFFF) << 8 | row >> 56
        slot = (slot + _ONE) & mask
        entry = slots[slot]
        row = int64(rows[max(int64(entry & _LOW32) - 1, 0), 1])
    return int64(0)


@kernel(inline=True, allocates=False)
def _write_bytes(pending: U64, num_pending: int, out: U8Array, cursor: int) -> tuple[int, int]:
    """Write the whole bytes of pending bits; return how many bits are left, and where they go."""
    while num_pending >= 8:
        num_pending -= 8
        out[cursor] = pending >> uint64(num_pending) & uint64(255)
        cursor += 1
    return num_pending, cursor


@kernel(inline=True, allocates=False)
def _append(pending: U64, num_pending: int, code: int) -> tuple[U64, int]:
    """Append a code, given as code << 8 | its bits, to the pending bits.

    Bits that are already written stay above the pending ones, and are shifted out at the top.
    """
    num_bits = code & 255
    return pending << uint64(num_bits) | uint64(code >> 8), num_pending + num_bits


@kernel(allocates=False)
def _encode_item(
    text: U8Array,
    start: int,
    size: int,
    classes: U8Array,
    encoding: Encoding,
    tokens: _Tokens,
    out: U8Array,
    cursor: int,
) -> int:
    """Write the frame of one item; return where it ends, or -1 if it is not smaller."""
    byte_codes, escapes = encoding.byte_codes, encoding.escapes
    # A frame must not outgrow its item. One check before each write ensures that: at most four
    # bytes are written at once (a code of 24 bits after 13 pending ones).
    last = cursor + size - 8
    if cursor > last:
        return int64(-1)
    rest = size
    while rest >= 128:
        out[cursor] = rest & 127 | 128
        rest >>= 7
        cursor += 1
    out[cursor] = rest
    cursor += 1
    pending = uint64(0)
    num_pending: Any = int64(0)
    at = start
    end = start + size
    is_after_word = False
    while at < end:
        count, at, is_after_word = _cut(text, at, end, classes, is_after_word, tokens)
        _load_rows(encoding, tokens, count)
        for i in range(count):
            code: Any = _find_code(encoding, text, tokens, i)
            is_known = code != 0
            if not is_known:
                code = int64(escapes[int64(tokens.are_words[i])])
            pending, num_pending = _append(pending, num_pending, code)
            if cursor > last:
                return int64(-1)
            num_pending, cursor = _write_bytes(pending, num_pending, out, cursor)
            if is_known:
                continue
            # The dictionary lacks the token: its length, then its bytes, which all have codes.
            token_start, stop = tokens.starts[i], tokens.ends[i]
            length = stop - token_start
            pending, num_pending = _append(pending, num_pending, length << 8 | LENGTH_BITS)
            for k in range(token_start, stop):
                pending, num_pending = _append(pending, num_pending, int64(byte_codes[text[k]]))
                if cursor > last:
                    return int64(-1)
                num_pending, cursor = _write_bytes(pending, num_pending, out, cursor)
    if cursor > last:
        return int64(-1)
    num_pending, cursor = _write_bytes(pending, num_pending, out, cursor)
    if num_pending > 0:  # the last bits, followed by zeros
        out[cursor] = pending << uint64(8 - num_pending) & uint64(255)
        cursor += 1
    return cursor


@kernel
def encode_all(
    text: U8Array,
    starts: I64Array,
    sizes: I64Array,
    classes: U8Array,
    encoding: Encoding,
    out: U8Array,
    frame_sizes: I64Array,
) -> int:
    """Write the frames of items; return the bytes of all.

    The size of a frame is 0 if it would not be smaller than its item; it is not written then.
    """
    tokens = _new_tokens()
    cursor = int64(0)
    for item in range(len(starts)):
        end = _encode_item(text, starts[item], sizes[item], classes, encoding, tokens, out, cursor)
        frame_sizes[item] = 0
        if end >= 0:
            frame_sizes[item] = end - cursor
            cursor = end
    return cursor
