"""Where a text may be cut: not inside of what people see as one character.

    e◌́      a letter and its marks             no cut before a mark
    👨‍👩‍👧      emoji joined by U+200D             no cut around the joiner
    🇦🇹      two regional indicators            no cut within a pair
    क्षि      Devanagari letters and signs       no cut after a virama, or before a sign
    한      Hangul as separate jamo            no cut within a syllable

These are the extended grapheme clusters of UAX #29, but for what no text has: marks after control
characters, letters after Arabic number signs. A character longer than `_BYTES_MAX` is cut anywhere,
and so are flags after `_FLAGS_BYTES_MAX` of others.
"""

from __future__ import annotations

import unicodedata
from typing import Final

_BYTES_MAX: Final = 128
"""Bytes on either side of a place in which a cut is looked for."""
_FLAGS_BYTES_MAX: Final = 1024
"""Bytes before a place in which flags side by side are counted."""
_JOINER: Final = "\u200d"
_VIRAMA: Final = 9
"""Canonical combining class of the signs that join a consonant to the next one."""


def character_start(encoded: bytes, at: int) -> int:
    """Return where the code point begins that has a byte; the end of the text stays."""
    while 0 < at < len(encoded) and encoded[at] & 0xC0 == 0x80:
        at -= 1
    return at


def last_cut(encoded: bytes, at: int, begin: int = 0) -> int:
    """Return the last place up to a byte, and after `begin`, where UTF-8 may be cut."""
    end = cut = character_start(encoded, at)
    while max(begin, end - _BYTES_MAX) < cut and not _may_cut(encoded, cut):
        cut = character_start(encoded, cut - 1)
    return cut if cut > begin and _may_cut(encoded, cut) else end


def first_cut(encoded: bytes, at: int) -> int:
    """Return the first place from a byte on where UTF-8 may be cut."""
    start = cut = character_start(encoded, at)
    while cut < start + _BYTES_MAX and not _may_cut(encoded, cut):
        cut = _character_end(encoded, cut)
    return cut if _may_cut(encoded, cut) else start


def _character_end(encoded: bytes, start: int) -> int:
    """Return where the code point ends that begins at a byte."""
    end = start + 1
    while end < len(encoded) and encoded[end] & 0xC0 == 0x80:
        end += 1
    return end


def _may_cut(encoded: bytes, at: int) -> bool:
    """Return whether UTF-8 may be cut before the code point that begins at a byte."""
    if not 0 < at < len(encoded):
        return True
    before = encoded[character_start(encoded, at - 1) : at].decode()
    after = encoded[at : _character_end(encoded, at)].decode()
    if before.isascii() and after.isascii():
        return (before, after) != ("\r", "\n")
    if _extends(after) or (before == _JOINER and unicodedata.category(after) == "So"):
        return False
    if unicodedata.combining(before) == _VIRAMA and after.isalpha():
        return False
    if _is_regional(before) and _is_regional(after):
        first = at - 4
        while at - first < _FLAGS_BYTES_MAX and _is_regional(
            encoded[first - 4 : first].decode("utf-8", "ignore")
        ):
            first -= 4
        return (at - first) // 4 % 2 == 0
    return not (_is_of_syllable(before) and _follows_in_syllable(after))


def _is_regional(one: str) -> bool:
    return len(one) == 1 and "\U0001f1e6" <= one <= "\U0001f1ff"


def _extends(one: str) -> bool:
    """Return whether a code point belongs to the one before it, whatever that is."""
    return (
        one == _JOINER
        or unicodedata.category(one)[0] == "M"
        or one in "\u200c\u0e33\u0eb3\uff9e\uff9f"
        or "\U0001f3fb" <= one <= "\U0001f3ff"  # skin tones
        or "\U000e0020" <= one <= "\U000e007f"  # tags, of flags
    )


def _is_of_syllable(one: str) -> bool:
    """Return whether a code point is Hangul: a jamo or a syllable."""
    return "\u1100" <= one <= "\u11ff" or "\uac00" <= one <= "\ud7fb" or "\ua960" <= one <= "\ua97c"


def _follows_in_syllable(one: str) -> bool:
    """Return whether a code point is a vowel or a final consonant of a syllable."""
    return "\u1160" <= one <= "\u11ff" or "\ud7b0" <= one <= "\ud7fb"
