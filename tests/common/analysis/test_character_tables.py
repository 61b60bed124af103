"""The tables of all code points: the file follows from the rules, under any Python."""

from __future__ import annotations

import unicodedata
from typing import Final

import numpy as np
import pytest

from common.analysis import character_tables, character_tables_build
from common.analysis.analyzer import Analyzer
from common.analysis.character_tables_build import CharacterClass, Tables

_STORED: Final = Tables(
    character_tables.PAGES, character_tables.PAGE_CELLS, character_tables.EXPANSIONS
)
_SEPARATOR, _IGNORED = CharacterClass.SEPARATOR, CharacterClass.IGNORED
_RUN_CLASSES: Final = {CharacterClass.RUN, CharacterClass.RUN_MARK, CharacterClass.COMPOSE}


def _meaning(tables: Tables, point: int) -> tuple[int, tuple[int, ...]]:
    """Return class and folded code points."""
    cell = int(tables.page_cells[int(tables.pages[point >> 8]) << 8 | point & 255])
    kind, folded = cell >> character_tables.CLASS_SHIFT, cell & character_tables.FOLDED_MASK
    if folded < character_tables.EXPANSION_BASE:
        return kind, (folded,)
    first = folded - character_tables.EXPANSION_BASE + 1
    length = int(tables.expansions[first - 1])
    return kind, tuple(tables.expansions[first : first + length].tolist())


def test_the_file_is_what_the_rules_make() -> None:
    stored = _STORED
    made = character_tables_build.make_tables()
    version = unicodedata.unidata_version
    if version == character_tables.UNICODE_VERSION:
        for mine, theirs in zip(stored, made, strict=True):
            np.testing.assert_array_equal(mine, theirs)
        return
    # Another version of Unicode knows other code points; those that both know mean the same.
    is_older = _numbers(version) < _numbers(character_tables.UNICODE_VERSION)
    for page in range(0x1100):
        points = range(page << 8, (page + 1) << 8)
        differing = [one for one in points if _meaning(stored, one) != _meaning(made, one)]
        if is_older:
            assert all(unicodedata.category(chr(one)) == "Cn" for one in differing)
        else:  # not assigned when the file was written: separators
            assert all(_meaning(stored, one) == (0, (0,)) for one in differing)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def test_characters_fold_to_parts_of_words_that_fold_no_further() -> None:
    for point in range(0x11_0000):
        kind, folded = _meaning(_STORED, point)
        if kind in (_SEPARATOR, _IGNORED) or folded == (point,):
            continue
        meanings = [_meaning(_STORED, one) for one in folded]
        assert meanings, hex(point)
        assert all(target == (one,) for one, (_, target) in zip(folded, meanings, strict=True)), (
            hex(point)
        )
        allowed = {CharacterClass.WORD} if kind == CharacterClass.WORD else _RUN_CLASSES
        assert {one for one, _ in meanings} <= allowed, hex(point)


@pytest.mark.parametrize(
    ("first", "last"), [(0xFC5E, 0xFC63), (0xFCF2, 0xFCF4), (0xFE70, 0xFE72), (0xFE76, 0xFE7F)]
)
def test_a_mark_on_a_space_or_a_tatweel_is_ignored_like_the_mark(first: int, last: int) -> None:
    analyzer = Analyzer()
    for point in range(first, last + 1):
        (word,) = analyzer.words(f"در{chr(point)}س")
        assert word == "درس", hex(point)
        assert analyzer.words(chr(point)) == []


def test_a_circled_ideograph_is_part_of_a_run() -> None:
    assert Analyzer().words("㊀㊁三㆕") == ["一二", "二三", "三四"]


_RUNS_THAT_COMPOSE: Final = (
    *range(0x1100, 0x1200),
    *range(0x3041, 0x3190),
    *range(0x31F0, 0x3200),
    *range(0xAC00, 0xD7A4, 28),
    *range(0xAC01, 0xD7A4, 28),
    *range(0xFF66, 0xFFDD),
)
"""Characters of Kana and Hangul that a second half may follow, and such halves."""


def test_folded_texts_fold_no_further() -> None:
    analyzer = Analyzer()
    firsts = [*map(chr, _RUNS_THAT_COMPOSE)]
    seconds = [*map(chr, [*range(0x1100, 0x1200), *range(0x3099, 0x309D), *range(0x3131, 0x318F)])]
    seconds += map(chr, range(0xFF9E, 0xFFDD))
    texts = [[*map(chr, range(page << 8, page + 1 << 8))] for page in range(0xD8)]
    texts += [[*map(chr, range(page << 8, page + 1 << 8))] for page in range(0xE0, 0x1100)]
    texts += [[first + second for second in seconds] for first in firsts]
    for text in texts:
        folded = analyzer.fold(" ".join(text))
        assert analyzer.fold(folded) == folded


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("ㄳ", ["ㄳ"]),
        ("가ㄳ", ["가ㄳ"]),
        ("ㅋㅋㅠㅠ", ["ㅋㅋ", "ㅋㅠ", "ㅠㅠ"]),
        ("\uffbe\uffa3\uffd7", ["ㅎㄳ", "ㄳㅠ"]),
        ("\u1112\u1161\u11ab\u1100\u1173\u11af", ["한글"]),
    ],
)
def test_letters_of_hangul_that_stand_alone_stay_alone(text: str, words: list[str]) -> None:
    assert Analyzer().words(text) == words


def test_what_is_encoded_is_decoded() -> None:
    tables = Tables(
        np.array([1, 0, 1], np.uint16),
        np.array([5, 0, 2**32 - 1, 7], np.uint32),
        np.array([2, 115, 115], np.uint32),
    )
    found, version = character_tables_build.decode(character_tables_build.encode(tables, "15.1.0"))
    assert version == "15.1.0"
    for name in Tables._fields:
        np.testing.assert_array_equal(getattr(found, name), getattr(tables, name), strict=True)
