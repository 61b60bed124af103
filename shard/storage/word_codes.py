"""Word codes: compresses the items of one index as sequences of words, and decodes them.

Items repeat words, but seldom sentences. So an index learns its words from its first items, and an
item becomes a sequence of their codes, short ones for frequent words (a canonical Huffman code over
words; words with one space between them need no code for the space: Moura, Navarro, Ziviani,
Baeza-Yates: Fast and flexible word searching on compressed text, ACM TOIS 18 (2), 2000). An item is
read without its neighbours, as with a zstd dictionary, in half to nine tenths of the bytes.

    item ─▶ tokens (`word_tokens`) ─▶ their codes (`word_dictionary`) ─▶ frame

    frame      | size of the item, 7 bits a byte, lowest first | codes, from the highest bit on |
               a token that the dictionary lacks: the code of an escape, 6 bits of length, and the
               codes of its bytes

A frame is decoded by table: the next `_LOOKUP_BITS` bits name the token of any code that is no
longer, so nearly all take one lookup; longer codes are found by their length. In memory a
dictionary takes some 15 bytes a token for reading, 20 more for writing.

Costs: 25 ns a token to encode, 10 ns to decode. `shard.storage.word_training` learns the words.

Worked example: tokens {"id": (1 bit), 7 (2 bits), } (2 bits): codes 0, 10, 11; the item {"id":7} is
08 | 0 10 11 000: bytes 08 58.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from common.kernels.byte_words import copy_32, load_u64
from common.kernels.decorator import arguments, kernel
from common.kernels.types import U64, I64Array, Rows, U8Array, int64, uint64
from shard.storage.word_dictionary import (
    BYTE_BITS_MAX,
    CODE_BITS_MAX,
    ESCAPE,
    WORD,
    WordDictionary,
    canonical_codes,
    first_codes,
    read_dictionary,
)
from shard.storage.word_tokens import (
    BYTE_CLASSES,
    SPACE,
    TOKEN_BYTES_MAX,
    are_equal,
    end_of_token,
    first_bytes,
    is_implied,
    token_hash,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

_LOOKUP_BITS: Final = 12
_LENGTH_BITS: Final = 6
"""Bits of the length of a token without a code."""

_TOKENS_AT_ONCE: Final = 64
"""Tokens that are looked up together, so that their cache misses overlap."""

PADDING: Final = 64
"""Bytes after frames, which are read 8 bytes at a time, and items, which are written 32 at a time.
"""
_PADDING_BYTES: Final = bytes(PADDING)
_SIZE_BYTES_MAX: Final = 8
"""Maximum bytes of the size at the beginning of a frame."""

_ONE: Final = uint64(1)
_S32: Final = uint64(32)
_LOW32: Final = uint64(0xFFFFFFFF)


@arguments
class Decoding(NamedTuple):
    """The tables to decode with.

    Attributes:
        token_bytes: of all tokens, padded.
        tokens: by number: where it begins << 8 | length << 2 | kind.
        lookup: by the first bits: number << 8 | bits of the code; 0: it is longer.
        bounds: by bits of a code: the first code that is not so short, in `CODE_BITS_MAX` bits.
        bases: by bits of a code: number of its first token, less its first code.
        byte_lookup: by the first bits: byte << 8 | bits of the code.
    """

    token_bytes: NDArray[np.uint8]
    tokens: NDArray[np.uint32]
    lookup: NDArray[np.uint32]
    bounds: NDArray[np.int64]
    bases: NDArray[np.int64]
    byte_lookup: NDArray[np.uint32]


@arguments
class Encoding(NamedTuple):
    """The tables to encode with.

    Attributes:
        token_bytes: of all tokens, padded.
        slots: a hash table: hash << 32 | number + 1.
        rows: by number: the first eight bytes, as a word; bits of the code << 56 | code << 32 | as
            in `Decoding.tokens`. Half a cache line, because a lookup costs what it misses.
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


@arguments
class _Tokens(NamedTuple):
    """Tokens of an item that are looked up together.

    Attributes:
        starts: where each begins in the text.
        ends: where it ends.
        are_words: whether it is a word.
        firsts: its first eight bytes.
        tags: its hash, in the upper 32 bits.
        entries: what is in its slot of the hash table.
        rows: the second number of the row that this names.
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
        text: of the item, among others.
        start: where to go on.
        end: of the item.
        classes: see `word_tokens`.
        is_after_word: whether the token before is a word.
        tokens: output, as many as there is room for.

    Returns:
        How many they are, where the rest begins, and whether the last one is a word.
    """
    starts, ends, are_words, firsts, tags, _, _ = tokens
    count: Any = int64(0)
    at = start
    while at < end and count < _TOKENS_AT_ONCE:
        stop, is_word = end_of_token(text, at, end, classes)
        token_start = at
        at = stop
        if is_word and is_after_word and text[token_start - 1] != SPACE:
            # Two words touch, because the first one was cut: an empty separator says that there is
            # no space between them, and the second one is next.
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

    Most are not in the cache. No branch depends on what these loops read, so many misses overlap.
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

    What has been written already is above the pending bits, and falls off at the top.
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
    # No frame may pass the item's own size. One check before each code is enough to stay within it:
    # a code of three bytes at most is written on top of seven bits.
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
            pending, num_pending = _append(pending, num_pending, length << 8 | _LENGTH_BITS)
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
def _encode_all(
    text: U8Array,
    starts: I64Array,
    sizes: I64Array,
    classes: U8Array,
    encoding: Encoding,
    out: U8Array,
    frame_sizes: I64Array,
) -> int:
    """Write the frames of items; return their bytes. A size of 0: the item is left as it is."""
    tokens = _new_tokens()
    cursor = int64(0)
    for item in range(len(starts)):
        end = _encode_item(text, starts[item], sizes[item], classes, encoding, tokens, out, cursor)
        frame_sizes[item] = 0
        if end >= 0:
            frame_sizes[item] = end - cursor
            cursor = end
    return cursor


@kernel(inline=True, allocates=False)
def _window(frames: U8Array, bit: int) -> U64:
    """Return the bits from `bit` on, the first one highest; 57 of them count."""
    word = load_u64(frames, bit >> 3)
    # Reverse the bytes: halves, then pairs, then single ones.
    word = (word & uint64(0x00000000FFFFFFFF)) << uint64(32) | word >> uint64(32)
    word = (word & uint64(0x0000FFFF0000FFFF)) << uint64(16) | (
        word >> uint64(16) & uint64(0x0000FFFF0000FFFF)
    )
    word = (word & uint64(0x00FF00FF00FF00FF)) << uint64(8) | (
        word >> uint64(8) & uint64(0x00FF00FF00FF00FF)
    )
    return word << uint64(bit & 7)


@kernel(inline=True, allocates=False)
def item_size(frames: U8Array, start: int, end: int) -> tuple[int, int]:
    """Return the size at the beginning of a frame, and where it ends; -1: this is not a frame."""
    size: Any = int64(0)
    shift = int64(0)
    at = start
    while at < end and shift < 56:
        byte = int64(frames[at])
        at += 1
        size |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            # A code has a bit at least, and stands for a token and a space at most.
            if size > (end - at) * 8 * (TOKEN_BYTES_MAX + 1):
                return int64(-1), at
            return size, at
    return int64(-1), at


@kernel(inline=True, allocates=False)
def _find_long(decoding: Decoding, window: U64) -> tuple[int, int]:
    """Return the number of the token of a code of more than `_LOOKUP_BITS` bits, and its bits.

    Codes are canonical: those of n bits are one range, above all shorter ones when written in
    `CODE_BITS_MAX` bits. So the first range that does not end before the code says its bits; more
    than `CODE_BITS_MAX`: no token has it.
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
    """Write the item of a frame at `cursor`; return whether it was one.

    Anything may be in the frame: nothing is read or written outside of it, of the item and of the
    padding of both.
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
        # The next code. A window may reach beyond the frame; a code that does is none.
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
        length = int64(_window(frames, bit) >> uint64(64 - _LENGTH_BITS))
        bit += _LENGTH_BITS
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


class WordCodes:
    """The words of an index with their codes.

    Args:
        content: as returned by `word_training.train_words`.

    Raises:
        DamagedDictionary: it is not.

    Attributes:
        num_items: how many it was learnt from.
        decoding: its tables, for `decode_item`.
    """

    def __init__(self, content: bytes) -> None:
        self._dictionary = read_dictionary(content)
        self.num_items = self._dictionary.num_items
        self._encoding: Encoding | None = None
        self.decoding = _make_decoding(self._dictionary)

    def encode(
        self, payload: NDArray[np.uint8], starts: NDArray[np.int64], sizes: NDArray[np.int64]
    ) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        """Encode each span of `payload`; for one thread at a time.

        Returns:
            The frames, concatenated, and the size of each: 0 where the frame would not be smaller
            than the item.
        """
        if self._encoding is None:
            self._encoding = _make_encoding(self._dictionary)
        frame_sizes = np.empty(len(starts), np.int64)
        out = np.empty(int(sizes.sum()), np.uint8)
        end = _encode_all(payload, starts, sizes, BYTE_CLASSES, self._encoding, out, frame_sizes)
        return out[:end], frame_sizes

    def decode(self, frame: bytes) -> bytes | None:
        """Decode a frame; None if it is damaged. Any thread.

        Those of a page are decoded together, by `shard.storage.item_values`.
        """
        size = shift = at = 0
        for byte in frame[:_SIZE_BYTES_MAX]:
            size |= (byte & 127) << shift
            shift += 7
            at += 1
            if byte < 128:
                break
        else:
            return None
        if size > (len(frame) - at) * 8 * (TOKEN_BYTES_MAX + 1):
            return None
        source = np.frombuffer(bytearray(frame + _PADDING_BYTES), np.uint8)
        out = bytearray(size + PADDING)
        target = np.frombuffer(out, np.uint8)
        if not decode_item(source, 0, len(frame), self.decoding, target, 0):
            return None
        return bytes(memoryview(out)[:size])


def _lookup(
    codes: NDArray[np.int64], bits: NDArray[np.int64], symbols: NDArray[np.int64], most: int
) -> NDArray[np.uint32]:
    """Return symbol << 8 | bits by the first `most` bits, for codes that are no longer."""
    lookup = np.zeros(1 << most, np.uint32)
    for code, size, symbol in zip(codes.tolist(), bits.tolist(), symbols.tolist(), strict=True):
        if size <= most:
            first = code << (most - size)
            lookup[first : first + (1 << (most - size))] = symbol << 8 | size
    return lookup


def _make_decoding(dictionary: WordDictionary) -> Decoding:
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


def _make_encoding(dictionary: WordDictionary) -> Encoding:
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
