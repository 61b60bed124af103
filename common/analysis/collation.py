"""Collation: the order of texts in a language, and of the numbers in them.

Questions: which of these two names comes first in Swedish; by which bytes can names be compared so
that they come in that order?

    "de"           Ärzte, arzt, Zaun → arzt, Ärzte, Zaun      accents and case decide last
    "sv"           Zorn, Ängel, Åberg → Zorn, Åberg, Ängel    å, ä, ö are letters after z
    "de-phonebook" ä is ae;  "es-traditional": ch and ll are letters
    numeric        "part 10", "part 2" → "part 2", "part 10"

The orders are those of the Unicode Consortium (CLDR, as ICU has them), read from `collation.bin`
(`collation_tables`): no library is needed, and all hosts, shards and versions of Python sort alike.
Ideographs are in the order of their code points; Chinese, Japanese and Korean have no order of
their own here.

A text becomes a *key* of bytes that compare as the texts do:

    primary weights    uint16 each, big-endian: letters, whatever their accents and case
    0 0
    secondary weights  a byte each (rare ones two): accents; at the end, "no accent" is left out
    0
    tertiary weights   likewise: case and variants
    0
    the text itself    so that different texts never are equal

Letters followed by combining accents are composed first (a, dot below, circumflex: ậ, whose letter
is â in Vietnamese); the key of such a text ends with 0 and the text as it was.

With `numeric`, a run of decimal digits is the weight of 0, the number of its digits without
leading zeros, and these. Digits of other scripts are replaced by those of ASCII first, and the key
of such a text also ends with 0 and the text as it was. Characters that have no weights (controls)
count in the last part only.

Cost: about 10 ns a byte of ASCII. A collator takes 1-2 MB and 30 ms, on first use.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from common.analysis.collation_tables import CollationTables, make_tables
from common.kernels.decorator import arguments, kernel
from common.kernels.types import I64Array, U8Array, int64, uint64

if TYPE_CHECKING:
    from numpy.typing import NDArray

_CHUNK_BYTES: Final = 1 << 15
"""Bytes of text whose keys are made in one call, unless one text is longer."""
_EXPANSION_MAX: Final = 8
"""Elements per byte of UTF-8, at most."""
_KEYS_KEPT: Final = 20_000
_KEPT_CHARS_MAX: Final = 200
"""Characters of a text whose key is kept; so those that are kept take some megabytes."""
_IMPLICIT: Final = 0xFC00
"""From here on, primary weights are of characters without elements: by code point."""
_ACCENT_LEADS: Final = (0xCC, 0xCD)
"""The first bytes of combining accents, U+0300 to U+036F, in UTF-8."""
_OTHER_DIGIT: Final = re.compile(r"[^\D0-9]")
"""A decimal digit that is not one of ASCII, such as a full-width one."""
_OTHER_DIGIT_LEAD: Final = 0xD9
"""The least first byte of such a digit in UTF-8: that of U+0660."""
_FEW: Final = 16
"""New values are inserted one by one if they are at most one in this many."""


@kernel(allocates=False)
def _decode_point(text: U8Array, at: int, end: int) -> tuple[int, int]:
    """Return the code point at a position and its bytes."""
    lead = int64(text[at])
    if lead < 0x80 or at + 1 >= end:
        return lead, 1
    second = int64(text[at + 1]) & 0x3F
    if lead < 0xE0 or at + 2 >= end:
        return (lead & 0x1F) << 6 | second, 2
    third = int64(text[at + 2]) & 0x3F
    if lead < 0xF0 or at + 3 >= end:
        return (lead & 0x0F) << 12 | second << 6 | third, 3
    return (lead & 0x07) << 18 | second << 12 | third << 6 | int64(text[at + 3]) & 0x3F, 4


@kernel(allocates=False)
def _next_state(tables: CollationTables, state: int, point: int) -> int:
    """Return the state after one more character, or 0 if no sequence continues with it."""
    wanted = uint64(state) << uint64(32) | uint64(point)
    transitions = tables.transitions
    low = 0
    high = len(transitions)
    while low < high:
        middle = (low + high) >> 1
        if transitions[middle] < wanted:
            low = middle + 1
        else:
            high = middle
    return low + 1 if low < len(transitions) and transitions[low] == wanted else 0


@arguments
class _Weights(NamedTuple):
    """The weights of a text, level by level; written one text after the other.

    Attributes:
        primaries: of letters.
        secondaries: of accents.
        tertiaries: of case.
        counts: how many of each are written.
    """

    primaries: NDArray[np.uint16]
    secondaries: NDArray[np.uint8]
    tertiaries: NDArray[np.uint8]
    counts: NDArray[np.int64]


@kernel(allocates=False)
def _append_plain(tables: CollationTables, first: int, second: int, weights: _Weights) -> None:
    """Append two primary weights, with the accent and the case of a plain digit."""
    counts = weights.counts
    weights.primaries[counts[0]] = first
    weights.primaries[counts[0] + 1] = second
    weights.secondaries[counts[1]] = tables.commons[2]
    weights.tertiaries[counts[2]] = tables.commons[3]
    counts[0] += 2
    counts[1] += 1
    counts[2] += 1


@kernel(allocates=False)
def _append_elements(tables: CollationTables, row: int, point: int, weights: _Weights) -> None:
    """Append the weights of a list of elements, or those of a character without one."""
    primaries, secondaries, tertiaries, counts = weights
    if row == 0:
        _append_plain(tables, _IMPLICIT + (point >> 15), (point & 0x7FFF) | 0x8000, weights)
        return
    for i in range(int64(tables.starts[row]), int64(tables.starts[row + 1])):
        element = int64(tables.elements[i])
        if element >> 16:
            primaries[counts[0]] = element >> 16
            counts[0] += 1
        # Secondary weights have nine bits: from 0xFF on they take two bytes, which still ascend.
        secondary = (element >> 7) & 0x1FF
        if secondary >= 0xFF:
            secondaries[counts[1]] = 0xFF
            counts[1] += 1
            secondary = 0x80 + secondary - 0xFF
        if secondary:
            secondaries[counts[1]] = secondary
            counts[1] += 1
        if element & 0x7F:
            tertiaries[counts[2]] = element & 0x7F
            counts[2] += 1


@kernel(allocates=False)
def _digit(tables: CollationTables, row: int) -> int:
    """Return the digit that a list of elements stands for, or -1."""
    start = int64(tables.starts[row])
    if row == 0 or int64(tables.starts[row + 1]) != start + 1:
        return -1
    element = int64(tables.elements[start])
    if (element >> 7) & 0x1FF != tables.commons[2] or element & 0x7F != tables.commons[3]:
        return -1
    for digit in range(10):
        if tables.digits[digit] == element >> 16:
            return digit
    return -1


@kernel(allocates=False)
def _row_of(tables: CollationTables, point: int) -> int:
    page = int64(tables.pages[point >> 8])
    return int64(tables.cells[page << 8 | point & 255])


@kernel(inline=True, allocates=False)
def _longest_sequence(
    tables: CollationTables, text: U8Array, at: int, end: int, point: int, size: int
) -> tuple[int, int]:
    """Find the longest contraction that begins with a character ("ch" in Spanish).

    Args:
        tables: of the collation.
        text: in UTF-8.
        at: where the character begins.
        end: where the text ends.
        point: the character.
        size: its bytes.

    Returns:
        (its list of elements, its bytes); (0, `size`) if there is none.
    """
    row = int64(0)
    state = _next_state(tables, 0, point)
    ahead = at + size
    while state != 0 and ahead < end:
        following, num_bytes = _decode_point(text, ahead, end)
        state = _next_state(tables, state, following)
        ahead += num_bytes
        if state != 0 and tables.accepted[state - 1] != 0:
            row = int64(tables.accepted[state - 1])
            size = ahead - at
    return row, size


@kernel(inline=True, allocates=False)
def _append_digit(tables: CollationTables, digit: int, number_at: int, weights: _Weights) -> int:
    """Append a digit of a number, in numeric order.

    A number is the weight of a digit, its length, its digits; leading zeros do not count, so a
    longer number is a greater one.

    Args:
        tables: of the collation.
        digit: 0 to 9.
        number_at: where the length of the number is; -1: the digit is its first one.
        weights: output.

    Returns:
        Where the length of the number is.
    """
    primaries, counts = weights.primaries, weights.counts
    if number_at < 0:
        number_at = counts[0] + 1
        _append_plain(tables, int64(tables.digits[0]), 1, weights)
    if digit > 0 or counts[0] > number_at + 1:
        primaries[counts[0]] = digit + 1
        counts[0] += 1
        if primaries[number_at] < 0xFFFF:
            primaries[number_at] += 1
    return number_at


@kernel(allocates=False)
def _append_syllable(tables: CollationTables, point: int, weights: _Weights) -> None:
    """Append a syllable of Hangul: its two or three letters, which its code point spells."""
    syllable = point - 0xAC00
    for part in range(3):
        jamo = 0x1100 + syllable // 588
        if part == 1:
            jamo = 0x1161 + syllable % 588 // 28
        elif part == 2:
            jamo = 0x11A7 + syllable % 28
            if jamo == 0x11A7:
                break
        _append_elements(tables, _row_of(tables, jamo) & 0x7FFFFFFF, jamo, weights)


@kernel(allocates=False)
def _write_levels(tables: CollationTables, weights: _Weights, out: U8Array, cursor: int) -> int:
    """Write the weights of a text, level by level; return the cursor after them."""
    primaries, secondaries, tertiaries, counts = weights
    # Primary weights, the high byte first, so that bytes compare as numbers do.
    for k in range(counts[0]):
        out[cursor] = primaries[k] >> 8
        out[cursor + 1] = primaries[k] & 255
        cursor += 2
    out[cursor] = 0
    out[cursor + 1] = 0
    cursor += 2
    # Secondary weights, where the last accent decides (Canadian French) backwards. Common ones
    # at the end say nothing.
    num = counts[1]
    if tables.flags[0] & 2:
        for k in range(num):
            out[cursor + k] = secondaries[num - 1 - k]
    else:
        for k in range(num):
            out[cursor + k] = secondaries[k]
    while num > 0 and out[cursor + num - 1] == tables.commons[0]:
        num -= 1
    cursor += num
    out[cursor] = 0
    cursor += 1
    # Tertiary weights, without the common ones at the end.
    num = counts[2]
    while num > 0 and tertiaries[num - 1] == tables.commons[1]:
        num -= 1
    for k in range(num):
        out[cursor + k] = tertiaries[k]
    cursor += num
    out[cursor] = 0
    return cursor + 1


@kernel
def _make_keys(
    text: U8Array, offsets: I64Array, tables: CollationTables, out: U8Array, out_offsets: I64Array
) -> None:
    """Write the sort keys of texts: bytes that compare as the collation orders the texts.

    A key is the primary weights (letters), two bytes each, then the secondary (accents) and the
    tertiary ones (case), a byte each, every level with a 0 after it; then the text itself, so that
    only equal texts have equal keys.

    Args:
        text: the texts, in UTF-8, one after the other.
        offsets: where each begins, with a sentinel.
        tables: of the collation.
        out: output, with room for the longest keys that there can be.
        out_offsets: output: where each key begins, with a sentinel.
    """
    # A code point expands to a bounded number of collation elements: room for the longest text.
    longest = 0
    for i in range(len(offsets) - 1):
        longest = max(longest, offsets[i + 1] - offsets[i])
    capacity = _EXPANSION_MAX * longest + 8
    weights = _Weights(
        np.empty(capacity, np.uint16),
        np.empty(capacity, np.uint8),
        np.empty(capacity, np.uint8),
        np.zeros(3, np.int64),
    )
    counts = weights.counts
    is_numeric = (tables.flags[0] & 1) != 0
    cursor = 0
    out_offsets[0] = 0
    for i in range(len(offsets) - 1):
        at = offsets[i]
        end = offsets[i + 1]
        counts[:] = 0
        number_at = int64(-1)  # where the weight of a number's length is to be written
        while at < end:
            point, size = _decode_point(text, at, end)
            cell = _row_of(tables, point)
            row = cell & 0x7FFFFFFF
            if cell >> 31:
                sequence, size = _longest_sequence(tables, text, at, end, point, size)
                if sequence != 0:
                    row = sequence
            at += size
            digit = _digit(tables, row) if is_numeric else -1
            if digit >= 0:
                number_at = _append_digit(tables, digit, number_at, weights)
                continue
            number_at = int64(-1)
            if 0xAC00 <= point <= 0xD7A3:
                _append_syllable(tables, point, weights)
            else:
                _append_elements(tables, row, point, weights)
        cursor = _write_levels(tables, weights, out, cursor)
        # The text decides among equal weights.
        for k in range(offsets[i], end):
            out[cursor] = text[k]
            cursor += 1
        out_offsets[i + 1] = cursor


class Collator:
    """Makes keys of texts in one order; see the module's drawing."""

    def __init__(self, collation: str) -> None:
        self._tables = make_tables(collation)
        self._is_numeric = collation.endswith("+numeric")
        self._kept_key_of: Callable[[str], bytes] = lru_cache(_KEYS_KEPT)(self._key_of)

    def key_of(self, text: str) -> bytes:
        """Return the key of one text; the last ones of short texts are kept."""
        return self._kept_key_of(text) if len(text) <= _KEPT_CHARS_MAX else self._key_of(text)

    def _key_of(self, text: str) -> bytes:
        return self.key(text.encode("utf-8", "surrogatepass"))

    def key(self, text: bytes) -> bytes:
        """Return the key of one text in UTF-8."""
        keys, _ = self.keys(
            np.frombuffer(bytearray(text), np.uint8), np.array([0, len(text)], np.int64)
        )
        return keys.tobytes()

    def keys(
        self, texts: NDArray[np.uint8], offsets: NDArray[np.int64]
    ) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        """Return the keys of many texts as an arena and offsets, as the texts are given.

        Args:
            texts: byte arena, UTF-8.
            offsets: text n is texts[offsets[n]:offsets[n + 1]]; shape (num_texts + 1,).
        """
        has_accents = any((texts == lead).any() for lead in _ACCENT_LEADS)
        has_digits = self._is_numeric and _has_other_digits(texts)
        if not (has_accents or has_digits):
            return self._composed_keys(texts, offsets)
        arena = texts.tobytes()
        given = [arena[start:end] for start, end in pairwise(offsets.tolist())]
        composed = [_composed(text) for text in given]
        if has_digits:
            composed = [_with_plain_digits(text) for text in composed]
        keys, key_offsets = self._composed_keys(*_joined(composed))
        arena = keys.tobytes()
        return _joined(
            [
                arena[start:end] if text == as_composed else arena[start:end] + b"\0" + text
                for text, as_composed, (start, end) in zip(
                    given, composed, pairwise(key_offsets.tolist()), strict=True
                )
            ]
        )

    def _composed_keys(
        self, texts: NDArray[np.uint8], offsets: NDArray[np.int64]
    ) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        """Return the keys of texts whose accents are composed with their letters."""
        num_texts = len(offsets) - 1
        key_offsets = np.zeros(num_texts + 1, np.int64)
        parts: list[NDArray[np.uint8]] = []
        begin = 0
        while begin < num_texts:
            end = int(np.searchsorted(offsets, offsets[begin] + _CHUNK_BYTES, "right")) - 1
            end = min(max(end, begin + 1), num_texts)
            spans = offsets[begin : end + 1] - offsets[begin]
            chunk = np.ascontiguousarray(texts[int(offsets[begin]) : int(offsets[end])])
            capacity = (4 * _EXPANSION_MAX + 1) * len(chunk) + 36 * (end - begin)
            out = np.empty(capacity, np.uint8)
            ends = np.empty(end - begin + 1, np.int64)
            _make_keys(chunk, spans, self._tables, out, ends)
            key_offsets[begin + 1 : end + 1] = key_offsets[begin] + ends[1:]
            parts.append(out[: int(ends[-1])].copy())
            begin = end
        keys = np.concatenate(parts) if parts else np.zeros(0, np.uint8)
        return keys, key_offsets


def _composed(text: bytes) -> bytes:
    """Return a text with combining accents composed with their letters, where there are such."""
    if not any(lead in text for lead in (b"\xcc", b"\xcd")):
        return text
    normal = unicodedata.normalize("NFC", text.decode("utf-8", "surrogatepass"))
    return normal.encode("utf-8", "surrogatepass")


def _has_other_digits(texts: NDArray[np.uint8]) -> bool:
    """Return whether some texts in UTF-8 have a decimal digit that is not one of ASCII."""
    if not (texts >= _OTHER_DIGIT_LEAD).any():
        return False
    return _OTHER_DIGIT.search(texts.tobytes().decode("utf-8", "surrogatepass")) is not None


def _with_plain_digits(text: bytes) -> bytes:
    """Return a text with its decimal digits written in ASCII."""
    if text.isascii():
        return text
    plain = _OTHER_DIGIT.sub(
        lambda digit: str(unicodedata.decimal(digit[0])), text.decode("utf-8", "surrogatepass")
    )
    return plain.encode("utf-8", "surrogatepass")


def _joined(texts: list[bytes]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return texts as an arena and offsets."""
    offsets = np.zeros(len(texts) + 1, np.int64)
    np.cumsum([len(text) for text in texts], out=offsets[1:])
    return np.frombuffer(bytearray(b"".join(texts)), np.uint8), offsets


@lru_cache(16)
def collator(collation: str) -> Collator:
    """Return the collator of a collation in its canonical form; the last ones are kept."""
    return Collator(collation)


def with_new_values(
    order: NDArray[np.uint32], num_values: int, key_of: Callable[[int], bytes]
) -> NDArray[np.uint32] | None:
    """Return the order of `num_values` values, given that of the first ones.

    Args:
        order: numbers of the first len(order) values, in order.
        num_values: how many there are by now.
        key_of: returns the key of a value by its number.

    Returns:
        None if so many are new that all are sorted sooner.
    """
    num_known = len(order)
    if (num_values - num_known) * _FEW > num_known:
        return None
    places = []
    fresh = sorted([(key_of(number), number) for number in range(num_known, num_values)])
    for key, _ in fresh:
        low, high = 0, num_known
        while low < high:
            middle = (low + high) // 2
            if key_of(int(order[middle])) < key:
                low = middle + 1
            else:
                high = middle
        places.append(low)
    return np.insert(order, places, [number for _, number in fresh]).astype(np.uint32)
