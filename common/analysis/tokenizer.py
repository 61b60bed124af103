"""Cut UTF-8 text into folded words: one kernel for items, queries and highlighting.

Questions: which words has this span of bytes, as they stand in the vocabulary; at which positions
(for phrases), and where in the source (for highlighting)?

    text       The  Naïve  don't  iPhone12  日本語          ที่ดี
    words      the  naive  don t  iphone12  日本 本語 (語)   ที่ดี (ดี)
    position   0    1      2   3  4         5    6    6      7      7

    text       C++11      C#      .NET
    words      c++ c 11   c# c    .net net          (queries: c++ 11, c#, .net)
    position   0   0 1    2  2    3    3

    text       Café      MÜLLER
    words      cafe ´    muller ´    (´: the term of the spelling, `accented_spellings`)
    position   0    0    1      1

- A word is a run of letters and digits; everything else separates, apostrophes too.
- With "++" or "#" after it, or with "." before it where white space or nothing stands before that,
  a word is one with the symbol. Items have both forms, at one position; queries the one typed.
- When items are indexed, a word with accents is followed by the term of its spelling, at the same
  position.
- U+200C separates between Arabic letters, as Persian writes the parts of a word; elsewhere it is
  ignored.
- A run of a script without spaces gives its overlapping bigrams of characters; vowel signs and
  tone marks belong to the character before them, at most two (the rest is dropped). When items are
  indexed its last character is a word of its own, at the position of the last bigram (in
  parentheses above), so that any single character of a run begins a word and is found as a prefix.
  A run of one character is one word.
- A word has at most `TERM_BYTES_MAX` bytes, the rest is cut off, in items and queries alike.

The kernel can stop at any word and resume later, so its caller's buffers are bounded whatever the
length of the text. `state` is what it carries over: the characters of an unfinished run.

Cost: about 1.3 ns a byte of ASCII (30-40 M words/s on one core), 4 ns a byte otherwise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from common.analysis.accented_spellings import (
    ACCENT_CELLS,
    ACCENT_PAGES,
    SPELLING_BYTES,
    SPELLING_START,
)
from common.analysis.character_tables import (
    ASCII_FOLDING,
    CLASS_SHIFT,
    EXPANSION_BASE,
    EXPANSIONS,
    FOLDED_MASK,
    NOT_ASCII,
    PAGE_CELLS,
    PAGES,
    CharacterClass,
)
from common.kernels.decorator import arguments, kernel
from common.kernels.types import U64, I64Array, U8Array, U32Array, int64, uint64
from common.kernels.utf8 import decode_wide, encode_point

if TYPE_CHECKING:
    from numpy.typing import NDArray

TERM_BYTES_MAX: Final = 128
_SPELT_WORD_BYTES_MAX: Final = 96
"""Folded bytes of a word that gets a term for its spelling."""
_MARGIN_BYTES: Final = TERM_BYTES_MAX + _SPELT_WORD_BYTES_MAX + SPELLING_BYTES + 20
"""Space that must be left in the caller's buffer for the next word, or the last two of a run."""
_MARGIN_WORDS: Final = 8
_SYMBOL_WORD_BYTES_MAX: Final = 32
"""Bytes of a word that may have a symbol."""

STATE_SIZE: Final = 8
_NEXT: Final = 0  # position of the next word
_FIRST: Final = 1  # character before the last one of the open run, 0: none
_FIRST_START: Final = 2
_LAST: Final = 3  # last character of the open run, 0: no run is open
_LAST_START: Final = 4
_LAST_END: Final = 5
_BEGIN: Final = 6  # where the text begins, plus one; 0: no text has been begun

_WORD: Final = int(CharacterClass.WORD)
_RUN: Final = int(CharacterClass.RUN)
_IGNORED: Final = int(CharacterClass.IGNORED)
_COMPOSE: Final = int(CharacterClass.COMPOSE)
_RUN_MARK: Final = int(CharacterClass.RUN_MARK)

_ACCENT_FACTOR: Final = uint64(0x9E3779B97F4A7C15)

# A character of a run with its marks is one number: code points of 21 bits, the base lowest.
_POINT_BITS: Final = 21
_POINT_MASK: Final = (1 << _POINT_BITS) - 1


@arguments
class CharacterTables(NamedTuple):
    """The tables of `common.analysis.character_tables`."""

    ascii_folding: NDArray[np.uint8]
    pages: NDArray[np.uint16]
    cells: NDArray[np.uint32]
    expansions: NDArray[np.uint32]
    accent_pages: NDArray[np.uint16]
    accent_cells: NDArray[np.uint64]


TABLES: Final = CharacterTables(
    ASCII_FOLDING, PAGES, PAGE_CELLS, EXPANSIONS, ACCENT_PAGES, ACCENT_CELLS
)


@arguments
class TokenBuffers(NamedTuple):
    """Output buffers of `tokenize_span`; reused by a caller that tokenizes many texts.

    Attributes:
        word_bytes: the folded words, concatenated.
        word_ends: where each ends.
        positions: position of each.
        starts: where in the text each begins.
        ends: where in the text each ends.
    """

    word_bytes: NDArray[np.uint8]
    word_ends: NDArray[np.int64]
    positions: NDArray[np.uint32]
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]


@kernel
def token_buffers(num_words: int) -> TokenBuffers:
    """Return buffers for at most this many words at a time; outside of kernels a plain tuple."""
    return TokenBuffers(
        np.empty(num_words * 16 + _MARGIN_BYTES, np.uint8),
        np.empty(num_words, np.int64),
        np.empty(num_words, np.uint32),
        np.empty(num_words, np.int64),
        np.empty(num_words, np.int64),
    )


@kernel(inline=True, allocates=False)
def _is_letter(byte: int) -> bool:
    """Return whether a byte is an ASCII letter or digit, or part of another character."""
    lower = byte | 0x20
    return 0x30 <= byte <= 0x39 or 0x61 <= lower <= 0x7A or byte >= 0x80


@kernel(inline=True, allocates=False)
def _symbol_after(text: U8Array, at: int, end: int) -> int:
    """Return how many bytes of a symbol follow a word: 2 for "++", 1 for "#", 0 for none."""
    if at + 1 < end and text[at] == 0x2B and text[at + 1] == 0x2B:
        return 2
    if at < end and text[at] == 0x23 and (at + 1 == end or not _is_letter(text[at + 1])):
        return 1
    return 0


@kernel(inline=True, allocates=False)
def _has_dot_before(text: U8Array, at: int, begin: int) -> bool:
    """Return whether a "." stands right before a word, after white space, "(" or nothing."""
    if at <= begin or text[at - 1] != 0x2E or 0x30 <= text[at] <= 0x39:
        return False
    return at - 1 == begin or text[at - 2] <= 0x20 or text[at - 2] == 0x28


@kernel(inline=True, allocates=False)
def _is_arabic(point: int) -> bool:
    """Return whether a code point is in one of the blocks of the Arabic script."""
    return (
        0x0600 <= point <= 0x06FF
        or 0x0750 <= point <= 0x077F
        or 0xFB50 <= point <= 0xFDFF
        or 0xFE70 <= point <= 0xFEFC
    )


@kernel(inline=True, allocates=False)
def _accents(tables: CharacterTables, point: int, at: int) -> U64:
    """Return what a character adds to the sum of a word's accents, after `at` folded bytes.

    A sum, so that marks count alike in any order, and composed characters like their parts.
    """
    code = uint64(tables.accent_cells[int64(tables.accent_pages[point >> 8]) << 8 | point & 255])
    return code * (uint64(at) * _ACCENT_FACTOR | uint64(1))


@kernel(inline=True, allocates=False)
def _encode_spelling(accents: U64, out: U8Array, cursor: int) -> int:
    """Write the sum of a word's accents as the beginning of a term; return the cursor after it."""
    digest = (accents ^ accents >> uint64(32)) * _ACCENT_FACTOR
    for i in range(SPELLING_BYTES):
        out[cursor + i] = SPELLING_START + int64(digest >> uint64(60 - 4 * i) & uint64(15))
    return cursor + SPELLING_BYTES


@kernel(inline=True, allocates=False)
def _encode_character(character: int, out: U8Array, cursor: int) -> int:
    """Write a character of a run, its base and up to two marks; return the cursor after it."""
    while character != 0:
        cursor = encode_point(character & _POINT_MASK, out, cursor)
        character >>= _POINT_BITS
    return cursor


@kernel(allocates=False)
def _compose(first: int, second: int) -> int:
    """Return the composed form of two characters, or 0 if there is none."""
    if 0x1161 <= second <= 0x1175:
        if 0x1100 <= first <= 0x1112:
            return 0xAC00 + ((first - 0x1100) * 21 + second - 0x1161) * 28
        return 0
    if 0x11A8 <= second <= 0x11C2:
        if 0xAC00 <= first <= 0xD7A3 and (first - 0xAC00) % 28 == 0:
            return first + second - 0x11A7
        return 0
    is_voiced = second == 0x3099 or second == 0xFF9E
    if first == 0x3046 or first == 0x30A6:  # u → vu
        return (0x3094 if first == 0x3046 else 0x30F4) if is_voiced else 0
    base = first - 0x60 if first >= 0x30A0 else first  # Katakana lies 0x60 above Hiragana
    if 0x304B <= base <= 0x3062 and base & 1:  # ka … di
        return first + 1 if is_voiced else 0
    if 0x3064 <= base <= 0x3068 and not base & 1:  # tu te to
        return first + 1 if is_voiced else 0
    if 0x306F <= base <= 0x307B and (base - 0x306F) % 3 == 0:  # ha hi hu he ho
        return first + 1 if is_voiced else first + 2
    return 0


@kernel(inline=True, allocates=False)
def _put_word(
    buffers: TokenBuffers, count: int, cursor: int, position: int, start: int, end: int
) -> int:
    """Note the word whose bytes end at the cursor; return the number of words then.

    Args:
        buffers: where it goes.
        count: words before it.
        cursor: where its bytes end.
        position: its position.
        start: where it begins in the text.
        end: where it ends in the text.
    """
    buffers.word_ends[count] = cursor
    buffers.positions[count] = position
    buffers.starts[count] = start
    buffers.ends[count] = end
    return count + 1


@kernel(inline=True, allocates=False)
def _attach(state: I64Array, character: int, end: int, is_mark: bool, is_composing: bool) -> bool:
    """Let a mark, or the second half of a composed character, join the last one of the open run.

    Args:
        state: of the text.
        character: read next.
        end: where it ends.
        is_mark: whether it belongs to the character before it.
        is_composing: whether it may compose with that.

    Returns:
        Whether it joined; otherwise it is a character of its own.
    """
    if state[_LAST] == 0:
        return False
    if is_mark:
        # Into a free slot of the last character; a third mark is dropped.
        state[_LAST_END] = end
        if state[_LAST] >> _POINT_BITS == 0:
            state[_LAST] |= character << _POINT_BITS
        elif state[_LAST] >> 2 * _POINT_BITS == 0:
            state[_LAST] |= character << 2 * _POINT_BITS
        return True
    if is_composing:
        composed = _compose(state[_LAST], character)
        if composed != 0:
            state[_LAST] = composed
            state[_LAST_END] = end
            return True
    return False


@kernel(inline=True, allocates=False)
def _put_bigram(state: I64Array, buffers: TokenBuffers, count: int, cursor: int) -> tuple[int, int]:
    """Write the last two characters of the open run as a word; return count and cursor then."""
    cursor = _encode_character(state[_FIRST], buffers.word_bytes, cursor)
    cursor = _encode_character(state[_LAST], buffers.word_bytes, cursor)
    count = _put_word(buffers, count, cursor, state[_NEXT], state[_FIRST_START], state[_LAST_END])
    return count, cursor


@kernel(inline=True, allocates=False)
def _end_run(
    state: I64Array, is_indexing: bool, buffers: TokenBuffers, count: int, cursor: int
) -> tuple[int, int]:
    """Write the last words of a run: its last bigram, and its last character.

    The character is a word of its own where items are indexed, or where it is the whole run.
    """
    is_bigram = state[_FIRST] != 0
    if is_bigram:
        count, cursor = _put_bigram(state, buffers, count, cursor)
    if is_indexing or not is_bigram:
        cursor = _encode_character(state[_LAST], buffers.word_bytes, cursor)
        count = _put_word(
            buffers, count, cursor, state[_NEXT], state[_LAST_START], state[_LAST_END]
        )
    state[_NEXT] += 1
    state[_FIRST] = 0
    state[_LAST] = 0
    return count, cursor


@kernel(inline=True, allocates=False)
def _fold_word(
    text: U8Array, at: int, end: int, tables: CharacterTables, word_bytes: U8Array, cursor: int
) -> tuple[int, int, U64]:
    """Fold the letters up to the next separator or run; what is past the limit of a word is cut.

    Args:
        text: the text.
        at: where the word begins.
        end: where the text ends.
        tables: of characters.
        word_bytes: where the word goes.
        cursor: where in it.

    Returns:
        (where the word ends in the text; in `word_bytes`; the sum of its accents).
    """
    ascii_folding, pages, cells, expansions, _, _ = tables
    word_start = cursor
    word_limit = cursor + TERM_BYTES_MAX
    is_arabic = False
    accents = uint64(0)
    while at < end:
        folded = ascii_folding[text[at]]
        # ASCII needs one lookup, anything else the tables of all characters.
        if folded != NOT_ASCII:
            if folded == 0:
                break
            if cursor < word_limit:
                word_bytes[cursor] = folded
                cursor += 1
            at += 1
            is_arabic = False
            continue
        point, size = decode_wide(text, at)
        cell = int64(cells[int64(pages[point >> 8]) << 8 | point & 255])
        kind = cell >> CLASS_SHIFT
        if kind != _WORD and kind != _IGNORED:
            break
        if point == 0x200C and is_arabic:
            break
        at += size
        if kind == _IGNORED:
            accents += _accents(tables, point, cursor - word_start)
            continue
        is_arabic = _is_arabic(point)
        # Write what the character folds to, one code point or several (ß to ss).
        target = cell & FOLDED_MASK
        if target < EXPANSION_BASE:
            if cursor + 4 <= word_limit:
                cursor = encode_point(target, word_bytes, cursor)
            else:
                word_limit = cursor  # what follows is cut off, even if shorter
        else:
            first = target - EXPANSION_BASE + 1
            for i in range(first, first + int64(expansions[first - 1])):
                if cursor + 4 <= word_limit:
                    cursor = encode_point(int64(expansions[i]), word_bytes, cursor)
                else:
                    word_limit = cursor
        accents += _accents(tables, point, cursor - word_start)
    return at, cursor, accents


@arguments
class _Character(NamedTuple):
    """A character between words, and what it begins or continues.

    Attributes:
        size: its bytes.
        run: what it folds to, if it is part of a run: a code point, or an expansion; else 0.
        is_word: whether a word begins with it.
        is_mark: whether it belongs to the character of the run before it.
        is_composing: whether it may compose with that.
        is_ignored: whether it is as if it were not there.
    """

    size: int
    run: int
    is_word: bool
    is_mark: bool
    is_composing: bool
    is_ignored: bool


@kernel(inline=True, allocates=False)
def _read_character(text: U8Array, at: int, tables: CharacterTables) -> _Character:
    """Return the character at a position between words."""
    folded = tables.ascii_folding[text[at]]
    if folded != NOT_ASCII:
        return _Character(int64(1), int64(0), folded != 0, False, False, False)
    point, size = decode_wide(text, at)
    cell = int64(tables.cells[int64(tables.pages[point >> 8]) << 8 | point & 255])
    kind = cell >> CLASS_SHIFT
    is_composing = kind == _COMPOSE
    is_mark = kind == _RUN_MARK
    run = cell & FOLDED_MASK
    if kind != _RUN and not is_composing and not is_mark:
        run = int64(0)
    return _Character(size, run, kind == _WORD, is_mark, is_composing, kind == _IGNORED)


@kernel(inline=True, allocates=False)
def _continue_run(
    character: _Character,
    at: int,
    expansions: U32Array,
    state: I64Array,
    buffers: TokenBuffers,
    count: int,
    cursor: int,
) -> tuple[int, int]:
    """Add a character, or what it expands to, to the open run, which it may open.

    Each joins the last one or completes it: then the bigram that ends with that is written.

    Returns:
        Count and cursor then.
    """
    run = character.run
    is_mark = character.is_mark
    end = at + character.size
    num_points: Any = 1
    first: Any = 0
    if run >= EXPANSION_BASE:
        first = run - EXPANSION_BASE + 1
        num_points = int64(expansions[first - 1])
    for i in range(num_points):
        if first > 0:
            run = int64(expansions[first + i])
            # ำ is a mark and a letter; no other expansion of a run has marks.
            is_mark = run == 0x0E4D or run == 0x0ECD
        if _attach(state, run, end, is_mark, character.is_composing):
            continue
        if state[_LAST] != 0 and state[_FIRST] != 0:
            count, cursor = _put_bigram(state, buffers, count, cursor)
            state[_NEXT] += 1
        state[_FIRST] = state[_LAST]
        state[_FIRST_START] = state[_LAST_START]
        state[_LAST] = run
        state[_LAST_START] = at
        state[_LAST_END] = end
    return count, cursor


@kernel(inline=True, allocates=False)
def _copy_word(word_bytes: U8Array, start: int, size: int, cursor: int) -> int:
    """Copy a word to the cursor; return the cursor after it."""
    for i in range(size):
        word_bytes[cursor + i] = word_bytes[start + i]
    return cursor + size


@kernel(inline=True, allocates=False)
def _add_symbols(
    symbols: U8Array, has_dot: bool, word_bytes: U8Array, start: int, cursor: int
) -> int:
    """Add its symbols to the word in ``word_bytes[start:cursor]``; return the cursor after them."""
    if has_dot:
        # The word moves to make way for its dot.
        for i in range(cursor - start):
            word_bytes[cursor - i] = word_bytes[cursor - i - 1]
        word_bytes[start] = 0x2E
        cursor += 1
    for i in range(len(symbols)):
        word_bytes[cursor + i] = symbols[i]
    return cursor + len(symbols)


@kernel(allocates=False)
def tokenize_span(
    text: U8Array,
    start: int,
    end: int,
    tables: CharacterTables,
    is_indexing: bool,
    state: I64Array,
    buffers: TokenBuffers,
) -> tuple[int, int]:
    """Cut ``text[start:end]`` into words until it ends or the output is full.

    Args:
        text: UTF-8 bytes.
        start: where to begin.
        end: where to stop.
        tables: `TABLES`.
        is_indexing: whether the last character of a run is a word too.
        state: int64[STATE_SIZE]; zeros for a new text but for the first item, the position of its
            first word. Carried over between calls for one text; the first item grows.
        buffers: where the words go.

    Returns:
        (number of words written, where to go on; `end` when the text is done).
    """
    word_bytes = buffers.word_bytes
    if state[_BEGIN] == 0:
        state[_BEGIN] = start + 1
    begin = state[_BEGIN] - 1
    count = 0
    cursor = 0
    # The margins hold what one turn of the loop can write, so nothing else checks the buffers.
    count_max = len(buffers.word_ends) - _MARGIN_WORDS
    cursor_max = len(word_bytes) - _MARGIN_BYTES
    at = start
    while at < end:
        # Between words, or inside a run.
        if count >= count_max or cursor >= cursor_max:
            return count, at
        character = _read_character(text, at, tables)
        if character.is_ignored:
            at += character.size
            if state[_LAST] != 0:
                state[_LAST_END] = at
            continue
        if character.run != 0:
            count, cursor = _continue_run(
                character, at, tables.expansions, state, buffers, count, cursor
            )
            at += character.size
            continue
        if state[_LAST] != 0:
            count, cursor = _end_run(state, is_indexing, buffers, count, cursor)
        if not character.is_word:
            at += character.size
            continue
        word_start = cursor
        source_start = at
        at, cursor, accents = _fold_word(text, at, end, tables, word_bytes, cursor)
        size = cursor - word_start
        num_symbols = _symbol_after(text, at, end)
        has_dot = _has_dot_before(text, source_start, begin)
        source_first = source_start  # where the word begins in the text, with its dot
        if (num_symbols > 0 or has_dot) and size <= _SYMBOL_WORD_BYTES_MAX:
            form_start = word_start  # of the form with the symbol
            if is_indexing:
                # Both forms: the word as it stands, then a copy that gets the symbol.
                count = _put_word(buffers, count, cursor, state[_NEXT], source_start, at)
                form_start = cursor
                cursor = _copy_word(word_bytes, word_start, size, cursor)
            symbols = text[at : at + num_symbols]
            cursor = _add_symbols(symbols, has_dot, word_bytes, form_start, cursor)
            source_first -= has_dot
            at += num_symbols
        count = _put_word(buffers, count, cursor, state[_NEXT], source_first, at)
        if is_indexing and accents != 0 and size <= _SPELT_WORD_BYTES_MAX:
            # The term of the spelling: of its accents, then of the folded word.
            cursor = _encode_spelling(accents, word_bytes, cursor)
            cursor = _copy_word(word_bytes, word_start, size, cursor)
            count = _put_word(buffers, count, cursor, state[_NEXT], source_start, at)
        state[_NEXT] += 1
    if state[_LAST] != 0:
        count, cursor = _end_run(state, is_indexing, buffers, count, cursor)
    state[_BEGIN] = 0
    return count, at
