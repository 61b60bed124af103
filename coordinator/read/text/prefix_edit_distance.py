"""Edit distance of two words: insertion, deletion, substitution and transposition cost 1 each."""

from __future__ import annotations


def edit_distances(word: str, candidate: str, limit: int) -> tuple[int, int]:
    """Return the edit distance from a word to a candidate, and to its nearest prefix.

    Optimal string alignment (a transposition is one edit), row by row over the letters of
    `candidate`; stops once every cell of a row exceeds `limit`. A distance beyond the limit may be
    any number beyond it.
    """
    above: list[int] = []
    row = list(range(len(word) + 1))
    to_prefix = row[-1]
    for i, letter in enumerate(candidate[: len(word) + limit], 1):
        two_above, above, row = above, row, [i]
        for j, wanted in enumerate(word, 1):
            cost = min(above[j] + 1, row[j - 1] + 1, above[j - 1] + (letter != wanted))
            if i > 1 and j > 1 and letter == word[j - 2] and candidate[i - 2] == wanted:
                cost = min(cost, two_above[j - 2] + 1)
            row.append(cost)
        to_prefix = min(to_prefix, row[-1])
        if min(row) > limit:
            return limit + 1, to_prefix
    is_read = len(candidate) <= len(word) + limit
    return row[-1] if is_read else limit + 1, to_prefix
