"""How the analyzer treats each code point: two tables over all of Unicode.

Questions: is this code point part of a word, of a run without spaces, or does it separate; and what
does it become when case, accents and compatibility forms are folded?

    classes   SEPARATOR  white space, punctuation, symbols
              WORD       letters, digits, marks that carry meaning (Devanagari vowel signs …)
              RUN        scripts written without spaces, and Hangul: cut into overlapping bigrams
              IGNORED    marks that folding strips, joiners, soft hyphens: never end a word
              RUN_MARK   marks inside runs (Thai vowels and tones, Khmer, Myanmar …): they belong
                         to the character before them
              COMPOSE    second halves that become one with the character before them in a run
                         (Hangul vowels and finals, Japanese voice marks)

    folding   É → e   ß → ss   ł → l   æ → ae   ﬁ → fi   Σ ς → σ   й → и   أ → ا   ٣ → 3   ｶ → カ

A cell is ``class << 21 | folded``, where folded is a code point, or 0x110000 + i: then
``EXPANSIONS[i]`` code points follow at ``EXPANSIONS[i + 1]``. Cells stand in pages of 256; equal
pages (ideographs, unassigned planes) are stored once, so the tables take about 600 KB:

    cell = PAGE_CELLS[PAGES[point >> 8] << 8 | point & 255]

The rules are in `common.analysis.character_tables_build`, which has written the tables into a file:
they are the same under every version of Python. Reading them takes 2 ms; a lookup is two loads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from common.analysis.character_tables_build import (
    CLASS_SHIFT,
    EXPANSION_BASE,
    FOLDED_MASK,
    TABLES_FILE,
    CharacterClass,
    decode,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "ASCII_FOLDING",
    "CLASS_SHIFT",
    "EXPANSIONS",
    "EXPANSION_BASE",
    "FOLDED_MASK",
    "NOT_ASCII",
    "PAGES",
    "PAGE_CELLS",
    "UNICODE_VERSION",
    "CharacterClass",
]


def _make_ascii() -> NDArray[np.uint8]:
    """Return by byte: 0 separates, NOT_ASCII needs the large tables, else the folded byte."""
    ascii_folding = np.zeros(256, np.uint8)
    for byte in range(128):
        if chr(byte).isalnum():
            ascii_folding[byte] = ord(chr(byte).lower())
    ascii_folding[128:] = NOT_ASCII
    return ascii_folding


NOT_ASCII: Final = 255
ASCII_FOLDING: Final = _make_ascii()
"""uint8 by byte: the tokenizer's shortcut."""

(PAGES, PAGE_CELLS, EXPANSIONS), UNICODE_VERSION = decode(TABLES_FILE.read_bytes())
"""uint16 page by point >> 8, uint32 cells by page, uint32 expansions; see the module's drawing."""
