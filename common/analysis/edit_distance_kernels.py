"""Edit distance: how many typos a word and a term are apart, where they are few.

Optimal string alignment (OSA): insertion, deletion, substitution and the transposition of
neighbours cost 1 each; no substring is edited twice. No edit may touch a digit of the term: iphones
is not near iphone8, but iphnoe is near the beginning of iphone8.

    osa_distance       a band of the table of all pairs of beginnings, 2 limit + 1 cells a row
    distance_to_one    the limit of one edit, without a table: after the first character that
                       differs, the rest must be equal but for one of the four edits

Both also say how many bytes of the term suffice to know that it is too far: terms are sorted, so
the following ones that begin with these bytes need no comparison (`vocabulary.find_similar`).

Worked example: word "sae", term "sea", limit 1. Rows are the term's s, e, a; of each, the columns
next to the diagonal: (1 0 1), (1 1 1), (1 1 2). The distance is the middle cell of the last row: 1,
by transposition.
"""

from __future__ import annotations

import numpy as np

from common.kernels.decorator import kernel
from common.kernels.types import I32Array, Rows, U8Array
from common.kernels.utf8 import next_point


@kernel(allocates=False)
def osa_distance(
    word: I32Array,
    term_bytes: U8Array,
    start: int,
    end: int,
    edits_max: int,
    is_prefix: bool,
    band: Rows[np.int64],
) -> int:
    """Return the OSA distance of a word and a term, or a number that says it is too great.

    Rows are the term's characters, columns the word's; only cells with |row - column| <= edits_max
    are computed: cell d of a row is column row + d - edits_max. `band` is scratch for three rows (a
    transposition looks two rows back). With `is_prefix`, the distance to the nearest beginning of
    the term.

    Too great is edits_max + 1, or -n if no term with the same first n bytes can be near either. The
    word has no digits, so from the first digit of the term on, nothing is near.
    """
    length = len(word)
    over = edits_max + 1
    width = 2 * edits_max + 1
    for d in range(width):
        column = d - edits_max
        band[0, d] = column if 0 <= column <= length else over
        band[2, d] = over
    best = length if is_prefix and length <= edits_max else over
    row = 0
    at = start
    previous = -1
    while at < end:
        point, at = next_point(term_bytes, at)
        if 0x30 <= point <= 0x39:  # folding maps the digits of every script to these
            return best if best <= edits_max else start - at
        row += 1
        # Three rows take turns: this one, the one above, the one before that.
        current = row % 3
        above = (row + 2) % 3
        before = (row + 1) % 3
        least = over
        for d in range(width):
            column = row + d - edits_max
            cell = over
            if column == 0:
                # First column: all characters so far are insertions.
                cell = row
            elif 0 < column <= length:
                # The cells of a row shift by one against those above: the same d is the diagonal.
                letter = word[column - 1]
                cell = band[above, d] + (letter != point)  # substitution, or no edit
                if d > 0:
                    cell = min(cell, band[current, d - 1] + 1)  # deletion from the word
                if d + 1 < width:
                    cell = min(cell, band[above, d + 1] + 1)  # insertion
                if letter == previous and column > 1 and row > 1 and word[column - 2] == point:
                    cell = min(cell, band[before, d] + 1)  # transposition
                if is_prefix and column == length:
                    best = min(best, cell)
            cell = min(cell, over)
            band[current, d] = cell
            least = min(least, cell)
        # The whole row exceeds the limit: no further row can come back below it.
        if least == over:
            return best if best <= edits_max else start - at
        previous = point
    if is_prefix:
        return best
    d = length - row + edits_max
    return band[row % 3, d] if 0 <= d < width else over


@kernel(allocates=False)
def _compare_rest(
    word: I32Array,
    column: int,
    term_bytes: U8Array,
    at: int,
    end: int,
    is_prefix: bool,
) -> int:
    """Compare a word from a column on with a term from a byte on.

    Returns:
        0 if they are equal, or with `is_prefix` if the rest of the term begins with the rest of the
        word; `end` + 1 if the term ends before the word; else the byte after the first character
        that differs.
    """
    while column < len(word):
        if at >= end:
            return end + 1
        point, at = next_point(term_bytes, at)
        if point != word[column]:
            return at
        column += 1
    if is_prefix or at == end:
        return 0
    _, at = next_point(term_bytes, at)
    return at


@kernel(allocates=False)
def distance_to_one(
    word: I32Array, term_bytes: U8Array, start: int, end: int, is_prefix: bool
) -> int:
    """Return the same as `osa_distance` with a limit of one edit, without a table.

    Up to the first character that differs there is no edit; what follows it must be equal after
    one of the four.
    """
    length = len(word)
    column = 0
    at = start
    point = -1
    after = start
    while True:
        if column == length and (is_prefix or at == end):
            return 0
        if at == end:
            return 1 if column + 1 == length else 2
        point, after = next_point(term_bytes, at)
        if 0x30 <= point <= 0x39:
            return 1 if is_prefix and column + 1 == length else start - after
        if column == length:
            if after == end:
                return 1
            _, after = next_point(term_bytes, after)
            return start - after
        if point != word[column]:
            break
        column += 1
        at = after
    # Substitution, insertion, deletion.
    far = _compare_rest(word, column + 1, term_bytes, after, end, is_prefix)
    if far == 0:
        return 1
    more = _compare_rest(word, column, term_bytes, after, end, is_prefix)
    if more == 0:
        return 1
    far = max(far, more)
    more = _compare_rest(word, column + 1, term_bytes, at, end, is_prefix)
    if more == 0:
        return 1
    far = max(far, more)
    # Transposition: of the next character, only that it is not the word's matters to others.
    if column + 1 < length and word[column + 1] == point:
        if after == end:
            return 2
        point, after = next_point(term_bytes, after)
        far = max(far, after)
        if point == word[column]:
            more = _compare_rest(word, column + 2, term_bytes, after, end, is_prefix)
            if more == 0:
                return 1
            far = max(far, more)
    return 2 if far > end else start - far
