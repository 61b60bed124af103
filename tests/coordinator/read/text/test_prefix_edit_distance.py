"""Edit distances of two words, against the whole table."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from coordinator.read.text.prefix_edit_distance import edit_distances


def naive_distance(word: str, other: str) -> int:
    table = {(-1, -1): 0}
    for i in range(len(word)):
        table[i, -1] = i + 1
    for j in range(len(other)):
        table[-1, j] = j + 1
    for i in range(len(word)):
        for j in range(len(other)):
            table[i, j] = min(
                table[i - 1, j] + 1,
                table[i, j - 1] + 1,
                table[i - 1, j - 1] + (word[i] != other[j]),
            )
            if i and j and word[i] == other[j - 1] and word[i - 1] == other[j]:
                table[i, j] = min(table[i, j], table[i - 2, j - 2] + 1)
    return table[len(word) - 1, len(other) - 1]


@given(st.text("abc", min_size=1, max_size=7), st.text("abc", max_size=9))
def test_distances_are_those_of_the_whole_table(word: str, candidate: str) -> None:
    whole = naive_distance(word, candidate)
    to_beginning = min(naive_distance(word, candidate[:n]) for n in range(len(candidate) + 1))
    for limit in (1, 2):
        found = edit_distances(word, candidate, limit)
        assert [one if one <= limit else None for one in found] == [
            one if one <= limit else None for one in (whole, to_beginning)
        ]
