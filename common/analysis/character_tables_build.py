"""The rules from which the analyzer's tables of all code points are computed.

`common.analysis.character_tables` reads the tables from a file that this module writes: computing
them takes longer than starting all the rest, and they must not depend on the Python that runs,
whose Unicode data differ by version. To regenerate the file after a change of a rule, with the
newest Python at hand (only this module, numpy and zstandard are needed):

    python -m common.analysis.character_tables_build

The rules, and what they leave alone:
- Folded = NFKC, case-folded, decomposed, stripped of the marks named in `_STRIPPED_MARKS`, composed
  again. Marks of other scripts are letters: a Thai or Devanagari vowel is not an accent.
- Letters that have no decomposition but that people type without their stroke or as two letters
  (ł, ø, đ, æ, þ, ı …) are in `_LETTERS`.
- A character of another script that folds to Han or Kana (㊀, ㆒) is part of a run like these.
- Decimal digits of every script become ASCII digits. Symbols (™, ℃) separate even where they have
  a compatibility form made of letters.
- Hangul is written with spaces but its particles are attached to the words, so a query usually has
  a part of a word; as in Lucene's CJK analyzer, it is cut into bigrams like Han and Kana.
- Letters of Hangul that stand alone (ㅋㅋ, ㄳ, ㅠㅠ) stay alone, the half-width ones as these. NFKC
  makes jamo of them that conjoin: they would become syllables with their neighbours.
"""

from __future__ import annotations

import unicodedata
from enum import IntEnum
from pathlib import Path
from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import zstandard

from common.analysis.code_point_table import in_pages

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

TABLES_FILE: Final = Path(__file__).with_name("characters.bin")
_HEAD: Final = Struct("<16s3I")
"""Version of Unicode, and the number of pages, cells and expansions."""


class CharacterClass(IntEnum):
    """How the tokenizer treats a code point."""

    SEPARATOR = 0
    WORD = 1
    RUN = 2
    IGNORED = 3
    COMPOSE = 4
    RUN_MARK = 5


CLASS_SHIFT: Final = 21
FOLDED_MASK: Final = (1 << CLASS_SHIFT) - 1
EXPANSION_BASE: Final = 0x110000

_STRIPPED_MARKS: Final = (
    (0x0300, 0x036F),  # combining diacritical marks: Latin, Greek, Cyrillic
    (0x0483, 0x0489),  # Cyrillic titlo
    (0x0591, 0x05BD),  # Hebrew accents and points
    (0x05BF, 0x05BF),
    (0x05C1, 0x05C2),
    (0x05C4, 0x05C5),
    (0x05C7, 0x05C7),
    (0x0610, 0x061A),  # Arabic honorifics, harakat, hamza and madda, Quranic marks
    (0x064B, 0x065F),
    (0x0670, 0x0670),
    (0x06D6, 0x06DC),
    (0x06DF, 0x06E4),
    (0x06E7, 0x06E8),
    (0x06EA, 0x06ED),
    (0x08D3, 0x08E1),
    (0x08E3, 0x08FF),
    (0x0711, 0x0711),  # Syriac
    (0x0730, 0x074A),
    (0x093C, 0x093C),  # nukta: Devanagari, Bengali, Gurmukhi, Gujarati, Oriya, Kannada
    (0x09BC, 0x09BC),
    (0x0A3C, 0x0A3C),
    (0x0ABC, 0x0ABC),
    (0x0B3C, 0x0B3C),
    (0x0CBC, 0x0CBC),
    (0x1AB0, 0x1AFF),
    (0x1DC0, 0x1DFF),
    (0x20D0, 0x20FF),
    (0x2DE0, 0x2DFF),  # Cyrillic letters above
    (0xA66F, 0xA672),
    (0xA674, 0xA67D),
    (0xA69E, 0xA69F),
    (0xFE00, 0xFE0F),  # variation selectors
    (0xFE20, 0xFE2F),
    (0xE0100, 0xE01EF),
)
_JOINERS: Final = (0x00AD, 0x0640, 0x200C, 0x200D, 0x2060, 0xFEFF)
"""Soft hyphen, Arabic tatweel, zero-width (non-)joiner, word joiner, byte order mark."""

_CARRIERS: Final = " \u0640"
"""What compatibility forms of a single mark stand on: a space or a tatweel. They are marks too."""

_LETTERS: Final = {
    "æ": "ae",
    "ǽ": "ae",
    "ǣ": "ae",
    "œ": "oe",
    "ø": "o",
    "ǿ": "o",
    "ł": "l",
    "đ": "d",
    "ð": "d",
    "þ": "th",
    "ħ": "h",
    "ı": "i",
    "ŧ": "t",
    "ŋ": "n",
    "ƒ": "f",
    "ĸ": "k",
    "ŀ": "l",
    "ɓ": "b",
    "ƀ": "b",
    "ɗ": "d",
    "ɖ": "d",
    "ɠ": "g",
    "ƙ": "k",
    "ɨ": "i",
    "ƴ": "y",
    "ƶ": "z",
    "ى": "ي",  # alef maksura, often typed for yeh
    "ی": "ي",  # Farsi yeh
    "ک": "ك",  # Farsi kaf
    "ँ": "ं",  # Devanagari chandrabindu, often typed as anusvara
}

_RUN_BLOCKS: Final = (
    (0x0E00, 0x0EFF),  # Thai, Lao
    (0x1000, 0x109F),  # Myanmar
    (0x1100, 0x11FF),  # Hangul jamo
    (0x1780, 0x17FF),  # Khmer
    (0x1950, 0x1AAF),  # Tai Le, New Tai Lue, Khmer symbols, Buginese, Tai Tham
    (0x2E80, 0x2FDF),  # radicals
    (0x3005, 0x3007),  # ideographic iteration mark, zero
    (0x3021, 0x3029),
    (0x3031, 0x3035),
    (0x3038, 0x303C),
    (0x3041, 0x318F),  # Hiragana, Katakana, Bopomofo, Hangul compatibility jamo
    (0x31A0, 0x31FF),
    (0x3400, 0x4DBF),  # Han
    (0x4E00, 0x9FFF),
    (0xA000, 0xA4CF),  # Yi
    (0xA960, 0xA97F),
    (0xA9E0, 0xA9FF),  # Myanmar extended
    (0xAA60, 0xAADF),  # Myanmar extended, Tai Viet
    (0xAC00, 0xD7FF),  # Hangul syllables
    (0xF900, 0xFAFF),
    (0xFF66, 0xFFDC),  # half-width Katakana and Hangul
    (0x17000, 0x18DFF),  # Tangut, Khitan
    (0x1AFF0, 0x1B16F),  # Kana supplements
    (0x20000, 0x3FFFF),  # Han
)
_COMPOSE: Final = (
    (0x1161, 0x1175),  # Hangul vowels
    (0x11A8, 0x11C2),  # Hangul finals
    (0x3099, 0x309A),  # voice marks
    (0xFF9E, 0xFF9F),
)
_CONJOINING_JAMO: Final = range(0x1100, 0x1200)
_LONE_JAMO: Final = range(0x3131, 0x318F)
_HALF_WIDTH_JAMO: Final = range(0xFFA0, 0xFFDD)
_UNIFORM_BLOCKS: Final = (
    # Every code point is a RUN that folds to itself: filled in bulk.
    (0x3400, 0x4DBF),
    (0x4E00, 0x9FFF),
    (0xA000, 0xA48C),
    (0xAC00, 0xD7A3),
    (0x17000, 0x18CFF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2EE5F),
    (0x30000, 0x323AF),
)
_PLANES: Final = ((0x0000, 0xD7FF), (0xF900, 0xFFFF), (0x10000, 0x1FFFF), (0x2F800, 0x2FA1F))
"""Where else assigned code points are (private use separates); tags and selectors are IGNORED."""


def _cover(ranges: tuple[tuple[int, int], ...], size: int = 0x110000) -> NDArray[np.bool_]:
    """Return a mask over all code points that is true inside the inclusive ranges."""
    mask = np.zeros(size, np.bool_)
    for first, last in ranges:
        mask[first : last + 1] = True
    return mask


def _fold(character: str, stripped: frozenset[int]) -> str:
    """Return the folded form of one character; empty if nothing is left."""
    if unicodedata.normalize("NFKD", character) == character.casefold() == character:
        return _LETTERS.get(character, character)  # most characters, and much faster
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", character).casefold())
    folded = "".join(_LETTERS.get(one, one) for one in folded)
    parts = [one for one in unicodedata.normalize("NFD", folded) if ord(one) not in stripped]
    folded = unicodedata.normalize("NFC", "".join(_LETTERS.get(one, one) for one in parts))
    return "".join(
        str(unicodedata.digit(one)) if unicodedata.category(one) == "Nd" else one for one in folded
    )


def _letters(is_uniform: NDArray[np.bool_]) -> Iterator[tuple[int, str]]:
    """Yield code point and category of every letter, number and mark outside uniform blocks."""
    category_of = unicodedata.category
    for first, last in _PLANES:
        for point in (np.flatnonzero(~is_uniform[first : last + 1]) + first).tolist():
            category = category_of(chr(point))
            if category[0] in "LNM":
                yield point, category


class Tables(NamedTuple):
    """The tables, drawn in `common.analysis.character_tables`.

    Attributes:
        pages: uint16 page by point >> 8.
        page_cells: uint32 cells by page, 256 each.
        expansions: uint32: a length, then as many code points.
    """

    pages: NDArray[np.uint16]
    page_cells: NDArray[np.uint32]
    expansions: NDArray[np.uint32]


def make_tables() -> Tables:
    """Compute the tables with the Unicode data of this Python.

    Cost: 60 ms and more: only assigned code points outside large uniform blocks are looked at.
    """
    is_uniform = _cover(_UNIFORM_BLOCKS)
    stripped = frozenset(np.flatnonzero(_cover(_STRIPPED_MARKS)).tolist())
    is_run = _cover(_RUN_BLOCKS)
    is_compose = _cover(_COMPOSE)
    cells = np.zeros(0x110000, np.uint32)
    run = int(CharacterClass.RUN) << CLASS_SHIFT
    cells[is_uniform] = np.flatnonzero(is_uniform).astype(np.uint32) | np.uint32(run)
    expansions: list[int] = []
    ignored_points = [*stripped, *_JOINERS]
    for point, category in _letters(is_uniform):
        if point in stripped:
            continue
        if category == "Nd":
            folded = str(unicodedata.digit(chr(point)))
            kind = CharacterClass.WORD
        else:
            is_mark = category[0] == "M"
            kind = CharacterClass.RUN_MARK if is_mark else CharacterClass.RUN
            if not is_run[point]:
                kind = CharacterClass.WORD
            folded = chr(point)
            if point in _HALF_WIDTH_JAMO:
                folded = chr(int(unicodedata.decomposition(folded).split()[-1], 16))
            elif point not in _CONJOINING_JAMO and point not in _LONE_JAMO:
                folded = _fold(folded, stripped)
            if not folded.strip(_CARRIERS):
                ignored_points.append(point)
                continue
            if len(folded) != 1 and not all(
                unicodedata.category(one)[0] in "LNM" for one in folded
            ):
                folded = chr(point)
            if kind == CharacterClass.WORD and all(is_run[ord(one)] for one in folded):
                kind = CharacterClass.RUN
        if is_compose[point]:
            kind = CharacterClass.COMPOSE
        if len(folded) == 1:
            target = ord(folded)
        else:
            target = EXPANSION_BASE + len(expansions)
            expansions += [len(folded), *map(ord, folded)]
        cells[point] = int(kind) << CLASS_SHIFT | target
    cells[ignored_points] = int(CharacterClass.IGNORED) << CLASS_SHIFT
    return Tables(
        *in_pages(cells),
        np.array(expansions or [0], np.uint32),
    )


def encode(tables: Tables, version: str) -> bytes:
    """Return the file: a head, then pages, differences of neighbouring cells, and expansions.

    Args:
        tables: to store.
        version: of Unicode that they were computed by.
    """
    lengths = (len(tables.pages), len(tables.page_cells), len(tables.expansions))
    head = _HEAD.pack(version.encode(), *lengths)
    steps = np.diff(tables.page_cells, prepend=np.uint32(0)).astype("<u4")
    parts = (
        head,
        tables.pages.astype("<u2").tobytes(),
        steps.tobytes(),
        tables.expansions.astype("<u4").tobytes(),
    )
    return zstandard.compress(b"".join(parts), 19)


def decode(content: bytes) -> tuple[Tables, str]:
    """Return what `encode` was given; about 2 ms."""
    plain = zstandard.decompress(content)
    version, num_pages, num_cells, num_expansions = _HEAD.unpack_from(plain)
    cells_at = _HEAD.size + 2 * num_pages
    steps = np.frombuffer(plain, "<u4", num_cells, cells_at)
    tables = Tables(
        np.frombuffer(plain, "<u2", num_pages, _HEAD.size).astype(np.uint16),
        np.cumsum(steps, dtype=np.uint32),
        np.frombuffer(plain, "<u4", num_expansions, cells_at + 4 * num_cells).astype(np.uint32),
    )
    return tables, version.rstrip(b"\0").decode()


if __name__ == "__main__":
    TABLES_FILE.write_bytes(encode(make_tables(), unicodedata.unidata_version))
