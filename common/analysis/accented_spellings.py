"""Spellings: a word with its accents, indexed as a term in addition to the folded word.

    café   ──▶  cafe, and ´ of the accents followed by "cafe"
    cafe   ──▶  cafe

Words are found by their folded form. What is typed with accents prefers items with the same ones: a
second term in the vocabulary, only of words that have accents. It begins with `SPELLING_BYTES`
bytes below any of a folded word (so these terms come first and nothing typed is near them), made of
the sum of the codes of the accents, each times a number that depends on its place. Composed
characters (é) count as their parts (e and U+0301), capital letters as small ones, marks in any
order alike.

Whatever folding removes or replaces is an accent, but for what is only another way to write the
same letter: case, compatibility forms, digits, joiners, Turkish i with or without its dot (which
lower case makes of either), Persian keyboards' yeh and kaf.

Codes stand in pages of 256 (`common.analysis.code_point_table`), read from a file so that they are
the same under every version of Python; equal pages are one, most are empty. To regenerate it after
a change of a rule:

    python -m common.analysis.accented_spellings
"""

from __future__ import annotations

import unicodedata
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
import xxhash
import zstandard

from common.analysis.character_tables import (
    CLASS_SHIFT,
    FOLDED_MASK,
    PAGE_CELLS,
    PAGES,
    CharacterClass,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

SPELLING_START: Final = 0x10
"""Bytes with which a spelling's term begins are this plus a number from 0 to 15."""
SPELLING_END: Final = 0x20
"""Terms whose first byte is below this are spellings."""
SPELLING_BYTES: Final = 12
"""Marks a spelling: a term begins with it, then the folded word."""

_FILE: Final = Path(__file__).with_name("accented_spellings.bin")
_SAME_LETTERS: Final = frozenset("İıیک")
_JOINERS: Final = frozenset("\u00ad\u0640\u200c\u200d\u2060\ufeff")


def is_spelling(term: str) -> bool:
    """Return whether a term of a vocabulary is a spelling, not a word."""
    return ord(term[0]) < SPELLING_END


def _code_of(character: str) -> int:
    """Return the sum of the codes of a character's accents; 0 if it has none."""
    if character in _SAME_LETTERS or unicodedata.category(character) == "Nd":
        return 0
    plain = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", character).casefold())
    return sum(
        xxhash.xxh3_64_intdigest(part.encode())
        for part in unicodedata.normalize("NFD", plain)
        if not _is_plain(part)
    ) % (1 << 64)


def _is_plain(part: str) -> bool:
    """Return whether folding keeps a character, or the character joins others."""
    if unicodedata.category(part)[0] not in "LM":
        return True
    point = ord(part)
    cell = int(PAGE_CELLS[int(PAGES[point >> 8]) << 8 | point & 255])
    is_mark = unicodedata.category(part)[0] == "M"
    is_ignored = cell >> CLASS_SHIFT == CharacterClass.IGNORED
    if is_ignored:
        return not is_mark or part in _JOINERS or "VARIATION SELECTOR" in unicodedata.name(part, "")
    return cell & FOLDED_MASK == point


def _encode() -> bytes:
    """Return the file: how many code points have accents, these, and their codes."""
    classes = PAGE_CELLS[(PAGES.astype(np.int64)[:, None] << 8) | np.arange(256)] >> CLASS_SHIFT
    is_read = np.isin(classes.ravel(), (CharacterClass.WORD, CharacterClass.IGNORED))
    codes = {point: _code_of(chr(point)) for point in np.flatnonzero(is_read).tolist()}
    points = [point for point, code in codes.items() if code]
    return zstandard.compress(
        np.array([len(points), *points], "<u4").tobytes()
        + np.array([codes[point] for point in points], "<u8").tobytes(),
        19,
    )


def _decode(content: bytes) -> tuple[NDArray[np.uint16], NDArray[np.uint64]]:
    """Return page by `point >> 8`, and the cells of the pages; page 0 is empty."""
    plain = zstandard.decompress(content)
    (count,) = np.frombuffer(plain, "<u4", 1).tolist()
    points = np.frombuffer(plain, "<u4", count, 4).astype(np.int64)
    codes = np.frombuffer(plain, "<u8", count, 4 + 4 * count)
    used = np.unique(points >> 8)
    pages = np.zeros(0x110000 >> 8, np.uint16)
    pages[used] = np.arange(1, len(used) + 1)
    cells = np.zeros((len(used) + 1) << 8, np.uint64)
    cells[pages[points >> 8].astype(np.int64) << 8 | points & 255] = codes
    return pages, cells


if __name__ == "__main__":
    _FILE.write_bytes(_encode())

ACCENT_PAGES, ACCENT_CELLS = _decode(_FILE.read_bytes())
"""uint16 page by point >> 8; uint64 cells by page: the code of a character's accents, 0: none."""
