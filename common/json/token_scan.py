r"""Scans the tokens of JSON, the leaves of its reading: kernels for strings, escapes, numbers.

`common.json.item_scanner` calls them, which trusts nothing, and `shard.segment.items`, which reads
only what was scanned before. A position is an index into a byte array.

The checking leaves (`scan_…`) return the position after what they read, or `FAULT` after writing
why and where to `found`. Running into the end of the bytes is the fault `INCOMPLETE`: with more
bytes it may become valid, which is how a streamed body is scanned.

Strings take eight bytes a step as long as all eight are plain: the test words below have the high
bit of a byte set where it is a quote, a backslash, a control character or not ASCII. (Subtracting
borrows upwards only, so the lowest set bit is always right, and that is the only one used.)

Kernels that read JSON compare bytes with numbers:

    0x22 "    0x5C \    0x7B {    0x7D }    0x5B [    0x5D ]    0x2C ,    0x3A :    0x0A line feed
    0x2D -    0x2B +    0x2E .    0x30-0x39 digits    0x65 e    0x66 f    0x6E n    0x74 t    0x75 u

Named constants would read better, but the compiled code is slower with them: 2.8 MB of items were
scanned in 3.2 ms instead of 2.0, and their values extracted in 9 ms instead of 2.7 (AMD EPYC, 2
busy cores, best of 25, 2026-11-30).
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from common.kernels.decorator import kernel
from common.kernels.intrinsics import load_u64, trailing_zeros
from common.kernels.types import U8, I64Array, U8Array, int64, uint8, uint64
from common.kernels.utf8 import encode_point

FAULT: Final = -1

# Why scanning stopped; `common.json.item_scanner` has the words for each.
INCOMPLETE: Final = 1
BAD_VALUE: Final = 2
BAD_KEY: Final = 3
NO_COLON: Final = 4
NO_COMMA_IN_OBJECT: Final = 5
NO_COMMA_IN_ARRAY: Final = 6
BAD_ESCAPE: Final = 7
CONTROL_CHARACTER: Final = 8
BAD_UTF8: Final = 9
BAD_NUMBER: Final = 10
LONE_SURROGATE: Final = 11
TRAILING_CONTENT: Final = 12
FAR_TOO_DEEP: Final = 13
# Well-formed, but refused; scanning continues after the item.
NOT_AN_OBJECT: Final = 20
TOO_DEEP: Final = 21
TOO_MANY_FIELDS: Final = 22
KEY_TOO_LONG: Final = 23
NUMBER_OUT_OF_RANGE: Final = 24
INVALID_ID: Final = 25
TOO_MANY_VALUES: Final = 26
ITEM_TOO_LONG: Final = 27

# Indices into `found`, int64: what a scan reports besides the position.
REASON: Final = 0
AT: Final = 1
REFUSED: Final = 2
REFUSED_AT: Final = 3
ID_KIND: Final = 4
ID_START: Final = 5
ID_END: Final = 6
NUM_FOUND: Final = 7

_ONES: Final = uint64(0x0101010101010101)
_HIGHS: Final = uint64(0x8080808080808080)
_SPACES: Final = uint64(0x2020202020202020)
_QUOTES: Final = uint64(0x2222222222222222)
_BACKSLASHES: Final = uint64(0x5C5C5C5C5C5C5C5C)

_INTEGER_MAX: Final = np.frombuffer(b"18446744073709551615", np.uint8)
_INTEGER_MIN: Final = np.frombuffer(b"9223372036854775808", np.uint8)
_INFINITE: Final = np.frombuffer(str(2**1024 - 2**970).encode(), np.uint8)
"""Halfway between the largest double and the next power of two: infinity from here on."""


@kernel(inline=True, allocates=False)
def stop(found: I64Array, reason: int, position: int) -> None:
    """Note why and where a scan must stop."""
    found[REASON] = reason
    found[AT] = position


@kernel(inline=True, allocates=False)
def refuse(found: I64Array, reason: int, position: int) -> None:
    """Note why the item will be refused, if nothing was noted before; the scan continues."""
    if found[REFUSED] == 0:
        found[REFUSED] = reason
        found[REFUSED_AT] = position


# --- reading what was scanned before --------------------------------------------------------------


@kernel(inline=True, allocates=False)
def find_quote_or_backslash(payload: U8Array, position: int) -> int:
    """Return the first position from `position` on that holds a quote or a backslash."""
    last = len(payload) - 8
    while position <= last:
        word = load_u64(payload, position)
        quotes = word ^ _QUOTES
        backslashes = word ^ _BACKSLASHES
        marks = ((quotes - _ONES) & ~quotes) | ((backslashes - _ONES) & ~backslashes)
        marks &= _HIGHS
        if marks != 0:
            return position + (trailing_zeros(marks) >> 3)
        position += 8
    while payload[position] != 0x22 and payload[position] != 0x5C:
        position += 1
    return position


@kernel(allocates=False)
def find_closing_quote(payload: U8Array, position: int) -> int:
    """Return the position of the quote that ends the string whose inside `position` is in."""
    position = find_quote_or_backslash(payload, position)
    while payload[position] == 0x5C:
        position = find_quote_or_backslash(payload, position + 2)
    return position


@kernel(inline=True, allocates=False)
def hex4(payload: U8Array, position: int) -> int:
    """Return the number that four hexadecimal digits stand for."""
    number: Any = 0
    for digit in range(4):
        byte = int64(payload[position + digit])
        # '0'-'9' are 0x30-0x39; 'A'-'F' and 'a'-'f' have 1-6 in their low four bits.
        number = number * 16 + (byte & 15) + (9 if byte >= 0x40 else 0)
    return number


@kernel(inline=True, allocates=False)
def _escaped(byte: U8) -> U8:
    """Return what a backslash and a letter stand for: a control character, or the byte itself."""
    if byte == 0x62:
        return uint8(0x08)
    if byte == 0x66:
        return uint8(0x0C)
    if byte == 0x6E:
        return uint8(0x0A)
    if byte == 0x72:
        return uint8(0x0D)
    if byte == 0x74:
        return uint8(0x09)
    return byte


@kernel(allocates=False)
def unescape(payload: U8Array, start: int, end: int, out: U8Array, out_start: int) -> int:
    """Write the UTF-8 text of the valid JSON string inside ``payload[start:end]`` to `out`.

    Returns:
        Where the text ends in `out`; it is never longer than the string.
    """
    position = start
    target = out_start
    while position < end:
        # Most bytes stand for themselves, those of UTF-8 sequences among them.
        byte = payload[position]
        if byte != 0x5C:
            out[target] = byte
            position += 1
            target += 1
            continue
        byte = payload[position + 1]
        position += 2
        if byte != 0x75:
            out[target] = _escaped(byte)
            target += 1
            continue
        # \uXXXX: a UTF-16 unit; a high surrogate is followed by \uXXXX with the low one.
        point = hex4(payload, position)
        position += 4
        if 0xD800 <= point < 0xDC00:
            point = 0x10000 + ((point - 0xD800) << 10) + hex4(payload, position + 2) - 0xDC00
            position += 6
        target = encode_point(point, out, target)  # never longer than its escape
    return target


@kernel(allocates=False)
def text_length(payload: U8Array, start: int, end: int) -> int:
    """Return how many bytes the text of the valid JSON string in ``payload[start:end]`` has."""
    length = end - start
    position = start
    while position < end:
        if payload[position] != 0x5C:
            position += 1
        elif payload[position + 1] != 0x75:
            length -= 1
            position += 2
        else:
            point = hex4(payload, position + 2)
            # Half a surrogate pair gives 2 of the 4 bytes of its character.
            is_surrogate = 0xD800 <= point < 0xE000
            length -= 5 if point < 0x80 else (4 if point < 0x800 or is_surrogate else 3)
            position += 6
    return length


# --- checking strings -----------------------------------------------------------------------------


@kernel(inline=True, allocates=False)
def _is_hex(byte: U8) -> bool:
    return 0x30 <= byte <= 0x39 or 0x41 <= byte <= 0x46 or 0x61 <= byte <= 0x66


@kernel(inline=True, allocates=False)
def _scan_hex4(buffer: U8Array, position: int, end: int, found: I64Array) -> int:
    for digit in range(position, position + 4):
        if digit >= end:
            stop(found, INCOMPLETE, end)
            return FAULT
        if not _is_hex(buffer[digit]):
            stop(found, BAD_ESCAPE, digit)
            return FAULT
    return position + 4


@kernel(allocates=False)
def _scan_escape(buffer: U8Array, position: int, end: int, found: I64Array) -> int:
    """Scan one escape whose backslash is at `position`; a surrogate must be the first of a pair."""
    if position + 1 >= end:
        stop(found, INCOMPLETE, end)
        return FAULT
    byte = buffer[position + 1]
    if byte != 0x75:
        is_known = (
            byte == 0x22
            or byte == 0x5C
            or byte == 0x2F
            or byte == 0x62
            or byte == 0x66
            or byte == 0x6E
            or byte == 0x72
            or byte == 0x74
        )
        if not is_known:
            stop(found, BAD_ESCAPE, position + 1)
            return FAULT
        return position + 2
    after = _scan_hex4(buffer, position + 2, end, found)
    if after < 0:
        return FAULT
    point = hex4(buffer, position + 2)
    if point < 0xD800 or point > 0xDFFF:
        return after
    if point >= 0xDC00:
        stop(found, LONE_SURROGATE, position)
        return FAULT
    for offset in range(2):
        if after + offset >= end:
            stop(found, INCOMPLETE, end)
            return FAULT
        if buffer[after + offset] != (0x5C if offset == 0 else 0x75):
            stop(found, LONE_SURROGATE, position)
            return FAULT
    low_half = _scan_hex4(buffer, after + 2, end, found)
    if low_half < 0:
        return FAULT
    point = hex4(buffer, after + 2)
    if point < 0xDC00 or point > 0xDFFF:
        stop(found, LONE_SURROGATE, position)
        return FAULT
    return low_half


@kernel(allocates=False)
def _scan_utf8(buffer: U8Array, position: int, end: int, found: I64Array) -> int:
    """Scan one character of two to four bytes: shortest form, no surrogate, up to U+10FFFF."""
    lead = buffer[position]
    lowest = 0x80
    highest = 0xBF
    if 0xC2 <= lead <= 0xDF:
        length = 2
    elif 0xE0 <= lead <= 0xEF:
        length = 3
        if lead == 0xE0:
            lowest = 0xA0
        elif lead == 0xED:
            highest = 0x9F
    elif 0xF0 <= lead <= 0xF4:
        length = 4
        if lead == 0xF0:
            lowest = 0x90
        elif lead == 0xF4:
            highest = 0x8F
    else:
        stop(found, BAD_UTF8, position)
        return FAULT
    for offset in range(1, length):
        if position + offset >= end:
            stop(found, INCOMPLETE, end)
            return FAULT
        byte = buffer[position + offset]
        if byte < lowest or byte > highest:
            stop(found, BAD_UTF8, position)
            return FAULT
        lowest = 0x80
        highest = 0xBF
    return position + length


@kernel(inline=True, allocates=False)
def scan_string(buffer: U8Array, position: int, end: int, found: I64Array) -> int:
    """Scan a string from after its opening quote; return the position after the closing one."""
    last = end - 8
    while True:
        while position <= last:
            word = load_u64(buffer, position)
            quotes = word ^ _QUOTES
            backslashes = word ^ _BACKSLASHES
            marks = (
                ((quotes - _ONES) & ~quotes)
                | ((backslashes - _ONES) & ~backslashes)
                | ((word - _SPACES) & ~word)
                | word
            ) & _HIGHS
            if marks != 0:
                position += trailing_zeros(marks) >> 3
                break
            position += 8
        if position >= end:
            stop(found, INCOMPLETE, end)
            return FAULT
        byte = buffer[position]
        if byte == 0x22:
            return position + 1
        if byte == 0x5C:
            position = _scan_escape(buffer, position, end, found)
            if position < 0:
                return FAULT
        elif byte < 0x20:
            stop(found, CONTROL_CHARACTER, position)
            return FAULT
        elif byte < 0x80:
            position += 1
        else:
            position = _scan_utf8(buffer, position, end, found)
            if position < 0:
                return FAULT
            # Texts that are not ASCII rarely have eight plain bytes in a row: stay here.
            while position < end and buffer[position] >= 0x80:
                position = _scan_utf8(buffer, position, end, found)
                if position < 0:
                    return FAULT


# --- checking numbers -----------------------------------------------------------------------------


@kernel(allocates=False)
def _is_integer_in_range(buffer: U8Array, start: int, end: int) -> bool:
    """Return whether an integer token lies in -2^63 … 2^64-1."""
    limit = _INTEGER_MAX
    if buffer[start] == 0x2D:
        start += 1
        limit = _INTEGER_MIN
    if end - start != len(limit):
        return end - start < len(limit)
    for digit in range(len(limit)):
        if buffer[start + digit] != limit[digit]:
            return buffer[start + digit] < limit[digit]
    return True


@kernel(allocates=False)
def _is_finite(buffer: U8Array, start: int, end: int) -> bool:
    """Return whether a float token rounds to a finite double.

    Only the size of its first significant digit matters, but where that is 10^308: there the digits
    are compared with those of the smallest number that rounds to infinity.
    """
    if buffer[start] == 0x2D:
        start += 1
    first = -1  # of the significant digits
    num_whole = 0  # significant digits (and zeros between) before the point
    num_zeros = 0  # zeros between the point and the first significant digit
    in_fraction = False
    exponent: Any = 0
    digits_end = end
    position = start
    while position < end:
        byte = buffer[position]
        if byte == 0x2E:
            in_fraction = True
        elif byte > 0x39:
            digits_end = position
            is_small = buffer[position + 1] == 0x2D
            position += 2 if is_small or buffer[position + 1] == 0x2B else 1
            while position < end:
                exponent = min(exponent * 10 + int64(buffer[position]) - 0x30, 1_000_000_000)
                position += 1
            if is_small:
                exponent = -exponent
        else:
            if first < 0 and byte != 0x30:
                first = position
            if first < 0:
                num_zeros += 1 if in_fraction else 0
            elif not in_fraction:
                num_whole += 1
        position += 1
    if first < 0:
        return True
    size = exponent + (num_whole - 1 if num_whole > 0 else -num_zeros - 1)
    if size != len(_INFINITE) - 1:
        return size < len(_INFINITE) - 1
    position = first
    for digit in range(len(_INFINITE)):
        if position < digits_end and buffer[position] == 0x2E:
            position += 1
        byte = buffer[position] if position < digits_end else uint8(0x30)
        if byte != _INFINITE[digit]:
            return byte < _INFINITE[digit]
        position += 1
    return False


@kernel(inline=True, allocates=False)
def _skip_digits(buffer: U8Array, position: int, end: int) -> int:
    while position < end and 0x30 <= buffer[position] <= 0x39:
        position += 1
    return position


@kernel(inline=True, allocates=False)
def scan_number(buffer: U8Array, position: int, end: int, found: I64Array) -> int:
    """Scan a number that begins at `position` with a digit or a minus; its range is checked too.

    A number that ends with the bytes is incomplete: inside an item, something must follow.
    """
    start = position
    if buffer[position] == 0x2D:
        position += 1
    if position < end and buffer[position] == 0x30:
        position += 1
    else:
        after = _skip_digits(buffer, position, end)
        if after == position and after < end:
            stop(found, BAD_NUMBER, position)
            return FAULT
        position = after
    is_integer = True
    may_be_infinite = position - start > 300
    if position < end and buffer[position] == 0x2E:
        is_integer = False
        after = _skip_digits(buffer, position + 1, end)
        if after == position + 1 and after < end:
            stop(found, BAD_NUMBER, after)
            return FAULT
        position = after
    if position < end and (buffer[position] | 0x20) == 0x65:
        is_integer = False
        position += 1
        if position < end and (buffer[position] == 0x2B or buffer[position] == 0x2D):
            position += 1
        after = _skip_digits(buffer, position, end)
        if after == position and after < end:
            stop(found, BAD_NUMBER, after)
            return FAULT
        may_be_infinite = may_be_infinite or after - position > 2
        position = after
    if position >= end:
        stop(found, INCOMPLETE, end)
        return FAULT
    if is_integer:
        if position - start > 18 and not _is_integer_in_range(buffer, start, position):
            refuse(found, NUMBER_OUT_OF_RANGE, start)
    elif may_be_infinite and not _is_finite(buffer, start, position):
        refuse(found, NUMBER_OUT_OF_RANGE, start)
    return position
