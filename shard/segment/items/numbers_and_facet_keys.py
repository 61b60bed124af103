"""Numbers and facet keys of extracted values: from their JSON text, without a Python object each.

    1.50    ──▶  the double 1.5, the key "1.5"
    -0      ──▶  the double -0.0 (columns store 0.0), the key "0"
    1e400         no double: `common.json.item_scanner` refuses it
    "a"           no number; its key is its text

Nearly all numbers have up to 15 digits and a small exponent, so one multiplication or division of
exact doubles gives the correctly rounded result. A kernel parses these and lists the others, for
Python's parser.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from common.kernels.decorator import kernel
from common.kernels.types import F64Array, I64Array, U8Array, int64
from common.value_kinds_and_facet_keys import ValueKind, number_text
from shard.segment.items.value_extraction import Extraction

if TYPE_CHECKING:
    from numpy.typing import NDArray

_INTEGER: Final = int(ValueKind.INTEGER)
_FLOAT: Final = int(ValueKind.FLOAT)
_TRUE: Final = int(ValueKind.TRUE)
_FALSE: Final = int(ValueKind.FALSE)

_POWERS: Final = np.array([float(10**exponent) for exponent in range(23)])
"""10^0 … 10^22, the powers that a double holds exactly."""
_NUM_DIGITS_EXACT: Final = 15
"""Integers of up to 15 digits are exact doubles, so a single multiplication or division rounds
once: correctly.
"""


@kernel(allocates=False)
def _parse_numbers(
    extraction: Extraction, selection: I64Array, powers: F64Array, slow: I64Array, out: F64Array
) -> int:
    """Write the doubles of numbers to `out`; list in `slow` those that need Python's parser.

    Returns:
        The number of these.
    """
    text = extraction.text
    num_slow = 0
    for i in range(len(selection)):
        value = selection[i]
        value_kind = extraction.kind[value]
        if value_kind != _INTEGER and value_kind != _FLOAT:
            out[i] = 1.0 if value_kind == _TRUE else (0.0 if value_kind == _FALSE else np.nan)
            continue
        position = extraction.start[value]
        last = extraction.end[value]
        is_negative = text[position] == 0x2D
        if is_negative:
            position += 1
        # value = mantissa · 10^exponent. Digits past the exact ones only mark the number as slow.
        mantissa: Any = 0
        num_digits = 0
        exponent = 0
        in_fraction = False
        while position < last:
            byte = text[position]
            position += 1
            if byte == 0x2E:
                in_fraction = True
                continue
            if byte > 0x39:  # an exponent
                is_small = text[position] == 0x2D
                if is_small or text[position] == 0x2B:
                    position += 1
                power: Any = 0
                while position < last:
                    power = min(power * 10 + int64(text[position]) - 0x30, 10_000)
                    position += 1
                exponent += -power if is_small else power
                break
            if mantissa > 0 or byte != 0x30:
                num_digits += 1
            if num_digits <= _NUM_DIGITS_EXACT:
                mantissa = mantissa * 10 + int64(byte) - 0x30
            if in_fraction:
                exponent -= 1
        # Not exact in one operation: Python's correctly rounded parser takes over.
        if num_digits > _NUM_DIGITS_EXACT or exponent < -22 or exponent > 22:
            slow[num_slow] = i
            num_slow += 1
            continue
        number = np.float64(mantissa)
        number = number / powers[-exponent] if exponent < 0 else number * powers[exponent]
        out[i] = -number if is_negative else number
    return num_slow


def parse_numbers(extraction: Extraction, selection: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the selected values as doubles, correctly rounded.

    Args:
        extraction: the batch.
        selection: ordinals of values.

    Returns:
        float64 by position in the selection; booleans are 1 and 0, other kinds NaN.

    Cost: about 20 ns a number; 0.3 µs if it has more than 15 digits or a large exponent.
    """
    out = np.empty(len(selection), np.float64)
    slow = np.empty(len(selection), np.int64)
    num_slow = _parse_numbers(extraction, selection, _POWERS, slow, out)
    for i in slow[:num_slow].tolist():
        out[i] = float(_token(extraction, int(selection[i])))
    return out


@kernel(inline=True, allocates=False)
def _trim_decimal(text: U8Array, first: int, last: int) -> tuple[int, int, bool]:
    """Return the part of a float that is its key, and whether it must be rewritten instead.

    A plain decimal of up to 15 digits is the shortest text of its double, but for trailing zeros.
    Below 0.0001 the key has an exponent.
    """
    point = -1
    num_digits = 0
    for position in range(first, last):
        byte = text[position]
        if byte == 0x2E:
            point = position
        elif byte > 0x39:  # an exponent
            return first, last, True
        elif byte != 0x2D:
            num_digits += 1
    whole = first + (1 if text[first] == 0x2D else 0)
    is_tiny = (
        text[whole] == 0x30
        and last - point > 4
        and text[point + 1] == 0x30
        and text[point + 2] == 0x30
        and text[point + 3] == 0x30
        and text[point + 4] == 0x30
    )
    if is_tiny or num_digits > _NUM_DIGITS_EXACT:
        return first, last, True
    while text[last - 1] == 0x30:
        last -= 1
    if text[last - 1] == 0x2E:
        last -= 1
    if last - first == 2 and text[first] == 0x2D and text[first + 1] == 0x30:
        first += 1  # -0 has the key of 0
    return first, last, False


@kernel(allocates=False)
def _key_spans(
    extraction: Extraction,
    selection: I64Array,
    key_start: I64Array,
    key_end: I64Array,
    slow: I64Array,
) -> tuple[int, int]:
    """Find the part of each value's token that is its key; list the values without one in `slow`.

    Returns:
        (number of slow values, total length of the keys of the rest).
    """
    text = extraction.text
    num_slow = 0
    num_bytes = 0
    for i in range(len(selection)):
        value = selection[i]
        value_kind = extraction.kind[value]
        first = extraction.start[value]
        last = extraction.end[value]
        is_slow = False
        if value_kind == _INTEGER:
            # -0 has the key of 0.
            if text[first] == 0x2D and text[first + 1] == 0x30:
                first += 1
        elif value_kind == _FLOAT:
            first, last, is_slow = _trim_decimal(text, first, last)
        elif value_kind > _FALSE:
            # Null and empty containers have no key.
            last = first
        if is_slow:
            slow[num_slow] = i
            num_slow += 1
            last = first
        key_start[i] = first
        key_end[i] = last
        num_bytes += last - first
    return num_slow, num_bytes


@kernel(allocates=False)
def _copy_spans(
    text: U8Array, first: I64Array, last: I64Array, arena: U8Array, offsets: I64Array
) -> None:
    """Copy the spans to `arena`, one after the other, and write where each begins to `offsets`."""
    target = 0
    for i in range(len(first)):
        offsets[i] = target
        for position in range(first[i], last[i]):
            arena[target] = text[position]
            target += 1
    offsets[len(first)] = target


def canonical_keys(
    extraction: Extraction, selection: NDArray[np.int64]
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return the facet keys (`value_kinds_and_facet_keys`) of the selected values, as bytes.

    Args:
        extraction: the batch.
        selection: ordinals of values.

    Returns:
        (arena, offsets): key i is ``arena[offsets[i]:offsets[i + 1]]``; empty for a value without a
        key.

    Cost: about 1 ns a byte; 1 µs for a number that must be rewritten (exponent, more than 15
    digits).
    """
    key_start = np.empty(len(selection), np.int64)
    key_end = np.empty(len(selection), np.int64)
    slow = np.empty(len(selection), np.int64)
    text = extraction.text
    num_slow, num_bytes = _key_spans(extraction, selection, key_start, key_end, slow)
    if num_slow:
        rewritten = bytearray()
        for i in slow[:num_slow].tolist():
            key_start[i] = len(text) + len(rewritten)
            rewritten += number_text(float(_token(extraction, int(selection[i])))).encode()
            key_end[i] = len(text) + len(rewritten)
        num_bytes += len(rewritten)
        text = np.concatenate([text, np.frombuffer(rewritten, np.uint8)])
    arena = np.empty(num_bytes, np.uint8)
    offsets = np.empty(len(selection) + 1, np.int64)
    _copy_spans(text, key_start, key_end, arena, offsets)
    return arena, offsets


def _token(extraction: Extraction, value: int) -> bytes:
    """Return the bytes of one value."""
    return extraction.text[extraction.start[value] : extraction.end[value]].tobytes()
