"""Other spacings of words: one word written as several, several as one; and other notations."""

from __future__ import annotations

import re
from itertools import pairwise

from tests.oracle.clauses import FUNCTION_WORDS, Clause, Text, rows_of
from tests.oracle.words import is_run

NOTATIONS = (
    ("1", "one"),
    ("2", "ii", "two"),
    ("7", "vii", "seven"),
    ("st", "saint"),
    ("mt", "mount"),
)
"""Groups of equal words, of an index without a language: those that tests use."""
CONJUNCTION = "and"


def in_parts(word: str) -> set[tuple[str, ...]]:
    """Return the ways to write a word in several words."""
    if is_run(word) or len(word) > 24:
        return set()
    if re.fullmatch("[0-9]+", word):
        return {tuple(f"{int(word):,}".split(","))} if len(word) > 3 and word[0] != "0" else set()
    found: set[tuple[str, ...]] = {
        (word[:at], word[at:])
        for at in range(1, len(word))
        if not (word[at - 1].isdigit() and word[at].isdigit())
    }
    if 3 <= len(word) <= 4 and not re.search("[0-9]", word):
        found.add(tuple(word))
    by_digits = tuple(re.findall("[0-9]+|[^0-9]+", word))
    return found | ({by_digits} if 3 <= len(by_digits) <= 4 else set())


def is_joined(row: list[tuple[str, int]]) -> tuple[bool, bool]:
    """Return whether words in a row may be one, and whether they are as good as that already."""
    words = [word for word, _ in row]
    if len(words) > 4 or any(map(is_run, words)) or sum(map(len, words)) > 24:
        return False, False
    is_close = True
    for (left, piece), (right, next_piece) in pairwise(row):
        digits = left[-1].isdigit(), right[0].isdigit()
        if all(digits) and not re.fullmatch("[0-9]{1,3} [0-9]{3}", f"{left} {right}"):
            return False, False
        is_close &= piece == next_piece or digits[0] != digits[1]
    return len(words) == 2 or is_close or all(len(word) == 1 for word in words), is_close


def codes(row: list[tuple[str, int]]) -> list[list[str]]:
    """Return the pieces of a row that are groups of digits of one code of seven to 24 letters."""
    pieces: dict[int, list[str]] = {}
    for word, piece in row:
        pieces.setdefault(piece, []).append(word)
    return [
        words
        for words in pieces.values()
        if 7 <= len("".join(words)) <= 24
        and re.search("[0-9] [0-9]", " ".join(words))
        and not any(map(is_run, words))
    ]


def said_beside(row: list[str], place: int) -> set[tuple[str, ...]]:
    """Return other notations of a word of a row, each with a word that was typed beside it."""
    word = row[place]
    others = {other for group in NOTATIONS if word in group for other in group} - {word}
    left, right = row[max(0, place - 1) : place], row[place + 1 : place + 2]
    pairs = {(*left, other) for other in others} | {(other, *right) for other in others}
    if word == CONJUNCTION:
        pairs.add((*left, *right))
    return {pair for pair in pairs if len(pair) == 2 and not any(map(is_run, pair))}


def spacings(
    query: str, wanted: list[Clause], texts: list[list[Text]], dropped: frozenset[str]
) -> dict[str, set[Clause]]:
    """Return what words of a query may also be written as, where enough items have it."""
    quoted = {one.words[0] for one in wanted if one.is_quoted and len(one.words) == 1}
    vocabularies = [{word for text in one for word in text} for one in texts]

    def count(*words: str) -> int:
        needed = set(words)
        return sum(
            Clause(words).is_in(text)
            for text, vocabulary in zip(texts, vocabularies, strict=True)
            if needed <= vocabulary
        )

    found: dict[str, set[Clause]] = {}
    for row in rows_of(query, dropped):
        for place, (word, _) in enumerate(row):
            for pair in said_beside([one for one, _ in row], place):
                if word not in quoted and count(*pair):
                    found.setdefault(word, set()).add(Clause(pair))
        for word in {word for word, _ in row} - quoted:
            for parts in in_parts(word):
                number = count(*parts)
                if number and 10 * number >= count(word):
                    found.setdefault(word, set()).add(Clause(parts))
        for size in (2, 3, 4):
            for start in range(len(row) - size + 1):
                words = row[start : start + size]
                may_join, is_close = is_joined(words)
                joined = "".join(word for word, _ in words)
                if may_join and quoted.isdisjoint(dict(words)) and count(joined):
                    are_initials = len(joined) == size
                    if is_close or are_initials or FUNCTION_WORDS.isdisjoint(dict(words)):
                        for word, _ in words:
                            found.setdefault(word, set()).add(Clause((joined,)))
        for code in codes(row):
            if quoted.isdisjoint(code) and count("".join(code)):
                for word in code:
                    found.setdefault(word, set()).add(Clause(("".join(code),)))
    return found
