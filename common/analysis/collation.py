"""Collation: the order of texts in a language, and of the numbers in them.

Questions: which of these two names comes first in Swedish; by which bytes can names be compared so
that they come in that order?

    "de"           Ärzte, arzt, Zaun → arzt, Ärzte, Zaun      accents and case decide last
    "sv"           Zorn, Ängel, Åberg → Zorn, Åberg, Ängel    å, ä, ö are letters after z
    "de-phonebook" ä is ae;  "es-traditional": ch and ll are letters
    numeric        "part 10", "part 2" → "part 2", "part 10"

The orders are those of the Unicode Consortium (CLDR, by way of ICU), read from `collation.bin`,
which `common.analysis.collation_build` writes: no library is needed, and all hosts, shards and
versions of Python sort alike. Ideographs are in the order of their code points; Chinese, Japanese
and Korean have no order of their own here.

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
leading zeros, and these. Characters that have no weights (controls) count in the last part only.

Each character, or sequence that counts as one (a *contraction* such as "ch" in Czech), has a list
of *elements*, uint32: primary << 16 | secondary << 7 | tertiary; 0 means none at that level. They
are found as the classes of characters are: a cell in a page of 256. Sequences are walked in a
trie of transitions, state << 32 | code point, sorted.

Cost: about 10 ns a byte of ASCII. A collator takes 1-2 MB and 30 ms, on first use.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec
import numpy as np
import zstandard

from common.analysis.collations import NUMERIC
from common.analysis.page_table import in_pages
from common.kernels.decorator import arguments, kernel
from common.kernels.types import I64Array, U8Array, int64, uint64

if TYPE_CHECKING:
    from numpy.typing import NDArray

DATA_FILE: Final = Path(__file__).with_name("collation.bin")
_CHUNK_BYTES: Final = 1 << 15
"""Bytes of text whose keys are made in one call, unless one text is longer."""
_EXPANSION_MAX: Final = 8
"""Elements per byte of UTF-8, at most."""
_KEYS_KEPT: Final = 20_000
_STARTS_SEQUENCE: Final = 1 << 31
_IMPLICIT: Final = 0xFC00
"""From here on, primary weights are of characters without elements: by code point."""
_ACCENT_LEADS: Final = (0xCC, 0xCD)
"""The first bytes of combining accents, U+0300 to U+036F, in UTF-8."""
_FEW: Final = 16
"""New values are inserted one by one if they are at most one in this many."""


class LanguageData(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """How a language differs from the root; see `CollationData`."""

    texts: str
    lengths: bytes
    elements: bytes
    first: list[tuple[int, int]]
    """Ranges of primary weights that come before all other letters, in this order."""
    is_upper_first: bool
    is_backwards: bool
    """Whether the last accent decides, not the first."""


class CollationData(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The content of the file."""

    version: str
    texts: str
    """Characters and contractions of the root, one after the other."""
    lengths: bytes
    """Lengths of each: characters, and elements."""
    elements: bytes
    """uint32 each, little-endian."""
    letters: int
    """Primary weight of the first letter."""
    digits: list[int]
    """Primary weights of 0 to 9."""
    tertiaries: list[int]
    """ICU's tertiary weight with its case bits, by number."""
    secondary: int
    """The secondary weight of letters without accents."""
    languages: dict[str, LanguageData]


@lru_cache(1)
def _data() -> CollationData:
    content = zstandard.decompress(DATA_FILE.read_bytes())
    return msgspec.msgpack.decode(content, type=CollationData)


@arguments
class _Tables(NamedTuple):
    """Elements by character and sequence, and how they count.

    Attributes:
        pages: page by point >> 8.
        cells: by page, 256 each: number of a list of elements, 0: none is known; with
            `_STARTS_SEQUENCE` if the character may begin a sequence.
        starts: by list: where its elements begin, with a sentinel.
        elements: primary << 16 | secondary << 7 | tertiary.
        transitions: state << 32 | code point, ascending; a state is the index of the transition
            that leads to it, plus one; 0 at the start.
        accepted: by transition: number of the list of elements, 0: none ends there.
        digits: primary weights of 0 to 9.
        commons: the secondary and tertiary weights that are left out at the end of a key, or 0;
            then those of a plain digit.
        flags: 1: numeric, 2: secondary weights backwards.
    """

    pages: NDArray[np.uint16]
    cells: NDArray[np.uint32]
    starts: NDArray[np.uint32]
    elements: NDArray[np.uint32]
    transitions: NDArray[np.uint64]
    accepted: NDArray[np.uint32]
    digits: NDArray[np.uint16]
    commons: NDArray[np.uint8]
    flags: NDArray[np.uint8]


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
def _next_state(tables: _Tables, state: int, point: int) -> int:
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
def _append_plain(tables: _Tables, first: int, second: int, weights: _Weights) -> None:
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
def _append_elements(tables: _Tables, row: int, point: int, weights: _Weights) -> None:
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
def _digit(tables: _Tables, row: int) -> int:
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
def _row_of(tables: _Tables, point: int) -> int:
    page = int64(tables.pages[point >> 8])
    return int64(tables.cells[page << 8 | point & 255])


@kernel(inline=True, allocates=False)
def _longest_sequence(
    tables: _Tables, text: U8Array, at: int, end: int, point: int, size: int
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
def _append_digit(tables: _Tables, digit: int, number_at: int, weights: _Weights) -> int:
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
def _append_syllable(tables: _Tables, point: int, weights: _Weights) -> None:
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
def _write_levels(tables: _Tables, weights: _Weights, out: U8Array, cursor: int) -> int:
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
    text: U8Array, offsets: I64Array, tables: _Tables, out: U8Array, out_offsets: I64Array
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
        self._tables = _make_tables(collation)
        self.key_of: Callable[[str], bytes] = lru_cache(_KEYS_KEPT)(self._key_of)
        """Returns the key of one text; the last ones are kept."""

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
        if not any((texts == lead).any() for lead in _ACCENT_LEADS):
            return self._composed_keys(texts, offsets)
        arena = texts.tobytes()
        given = [arena[start:end] for start, end in pairwise(offsets.tolist())]
        composed = [_composed(text) for text in given]
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


# --- tables -------------------------------------------------------------------------------------


def _rows(
    texts: str, lengths: bytes, elements: bytes
) -> tuple[list[str], NDArray[np.int64], NDArray[np.uint32]]:
    """Return the texts, the number of elements of each, and the elements."""
    sizes = np.frombuffer(lengths, np.uint8).astype(np.int64)
    ends = [0, *np.cumsum(sizes[::2]).tolist()]
    return (
        [texts[start:end] for start, end in pairwise(ends)],
        sizes[1::2],
        np.frombuffer(elements, "<u4").astype(np.uint32),
    )


def _make_tables(collation: str) -> _Tables:
    """Return the tables of an order."""
    data = _data()
    language = collation.removesuffix(NUMERIC)
    texts, counts, elements = _rows(data.texts, data.lengths, data.elements)
    own = data.languages.get(language)
    if own is not None and own.texts:
        own_texts, own_counts, own_elements = _rows(own.texts, own.lengths, own.elements)
        texts = texts + own_texts
        counts = np.concatenate([counts, own_counts])
        elements = np.concatenate([elements, own_elements])
    starts = np.zeros(len(texts) + 2, np.uint32)
    np.cumsum(counts, out=starts[2:])  # list 0 is empty
    primaries = _primary_numbers(data, own)
    tertiaries = _tertiary_numbers(data, elements, is_upper_first=bool(own and own.is_upper_first))
    digit = elements[starts[texts.index("0") + 1]]
    elements = (
        primaries[elements >> 16] << np.uint32(16)
        | elements & np.uint32(0xFF80)
        | tertiaries[elements & np.uint32(0x7F)]
    )
    # Later texts are the language's: they replace the root's.
    cells = np.zeros(0x110000, np.uint32)
    sequences: dict[str, int] = {}
    for row, text in enumerate(texts, 1):
        if len(text) == 1:
            cells[ord(text)] = row
        else:
            sequences[text] = row
    for text in sequences:
        cells[ord(text[0])] |= np.uint32(_STARTS_SEQUENCE)
    transitions, accepted = _make_trie(sequences)
    plain = (data.secondary, int(tertiaries[int(digit) & 0x7F]))
    seconds = (elements >> np.uint32(7)) & np.uint32(0x1FF)
    thirds = elements & np.uint32(0x7F)
    # What is least can be left out at the end of a key: nothing comes before it but the end.
    least = (int(seconds[seconds > 0].min()), int(thirds[thirds > 0].min()))
    commons = (plain[0] * (least[0] == plain[0]), plain[1] * (least[1] == plain[1]), *plain)
    return _Tables(
        *in_pages(cells),
        starts,
        elements,
        transitions,
        accepted,
        primaries[np.array(data.digits)].astype(np.uint16),
        np.array(commons, np.uint8),
        np.array([(language != collation) | bool(own and own.is_backwards) << 1], np.uint8),
    )


def _primary_numbers(data: CollationData, own: LanguageData | None) -> NDArray[np.uint32]:
    """Return the primary weight by that of the file: some scripts come before other letters."""
    numbers = np.arange(0x10000, dtype=np.uint32)
    if own is None or not own.first:
        return numbers
    first = np.concatenate([np.arange(low, high + 1) for low, high in own.first])
    others = np.setdiff1d(np.arange(data.letters, 0x10000), first)
    numbers[np.concatenate([first, others])] = np.arange(data.letters, 0x10000, dtype=np.uint32)
    return numbers


def _tertiary_numbers(
    data: CollationData, elements: NDArray[np.uint32], *, is_upper_first: bool
) -> NDArray[np.uint32]:
    """Return the tertiary weight by that of the file."""
    weights = np.array(data.tertiaries, np.int64)
    effective = weights & 0x3F3F
    if is_upper_first:
        effective = (weights & 0xFFFF) ^ 0xC000
        effective[weights == 0] = 0
    ranked = np.unique(effective)
    return np.searchsorted(ranked, effective).astype(np.uint32)


def _make_trie(sequences: dict[str, int]) -> tuple[NDArray[np.uint64], NDArray[np.uint32]]:
    """Return the transitions and accepted lists of sequences; see `_Tables`."""
    prefixes = sorted({text[:end] for text in sequences for end in range(1, len(text) + 1)})
    # Parents are numbered before their children: level by level, each sorted by (parent, point).
    state_of = {"": 0}
    transitions: list[int] = []
    accepted: list[int] = []
    level = 1
    while any(len(one) == level for one in prefixes):
        rows = sorted(
            (state_of[one[:-1]] << 32 | ord(one[-1]), one) for one in prefixes if len(one) == level
        )
        for transition, one in rows:
            transitions.append(transition)
            accepted.append(sequences.get(one, 0))
            state_of[one] = len(transitions)
        level += 1
    return np.array(transitions, np.uint64), np.array(accepted, np.uint32)
