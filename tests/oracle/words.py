"""Words of a text, and when one is a match for another: prefixes, typos, runs of Han or Kana."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from typing import Any

_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]+|[^\W_\u3040-\u30ff\u3400-\u9fff]+")


def words_in(text: str) -> list[str]:
    """Cut a text into folded words; a run of Han or Kana stays one word."""
    decomposed = unicodedata.normalize("NFKD", text).casefold()
    kept = "".join(c for c in decomposed if not unicodedata.combining(c))
    return _WORD.findall(kept)


def is_like(key: str, pattern: str) -> bool:
    """Return whether the words of a facet value are a pattern's; `*` is any text.

    White space beside a `*` is the end of a word; it may end one part and begin the next.
    """
    form = ""
    for part in re.split(r"(\s*\*\s*)", pattern.strip()):
        if "*" in part:
            form += r"\b(?= )" * part[0].isspace() + ".*" + r"(?<= )\b" * part[-1].isspace()
        else:
            form += re.escape(" ".join(words_in(part)))
    return re.fullmatch(form, " ".join(words_in(key)), re.DOTALL) is not None


def is_run(word: str) -> bool:
    return "\u3040" <= word[0] <= "\u9fff"


def pieces_of(word: str) -> list[str]:
    """Cut a run into overlapping pairs."""
    if not is_run(word) or len(word) < 3:
        return [word]
    return [word[at : at + 2] for at in range(len(word) - 1)]


@lru_cache(maxsize=1_000_000)
def word_matches(word: str, is_prefix: bool, typos: int, term: str) -> bool:
    if is_run(word) or is_run(term):
        return is_run(word) and word in term
    if not typos:
        return term.startswith(word) if is_prefix else term == word
    beginning = term[: len(word) + typos]  # longer ones are too far away
    if len(beginning) < len(word) - typos or not (is_prefix or beginning == term):
        return False
    # Typos never fall on digits, of which the word has none.
    digit = next((i for i, c in enumerate(beginning) if c.isdigit()), None)
    if digit is not None:
        return is_prefix and is_near(word, term, min(distances(word, term[:digit])), typos)
    found = distances(word, beginning)
    return is_near(word, term, min(found) if is_prefix else found[-1], typos)


def distances(word: str, term: str) -> list[int]:
    """Return the edit distance (neighbours swapped: one) of a word to each beginning of a term."""
    rows = [list(range(len(word) + 1))]
    for i, letter in enumerate(term, 1):
        row = [i]
        for j, wanted in enumerate(word, 1):
            cost = min(rows[-1][j] + 1, row[-1] + 1, rows[-1][j - 1] + (letter != wanted))
            if i > 1 and j > 1 and letter == word[j - 2] and term[i - 2] == wanted:
                cost = min(cost, rows[-2][j - 2] + 1)
            row.append(cost)
        rows.append(row)
    return [row[-1] for row in rows]


def is_near(word: str, term: str, distance: int, typos: int) -> bool:
    """Return whether a distance is allowed; another first letter makes it one more, up to two."""
    return distance <= typos and distance + (word[0] != term[0]) <= 2


def typo_budget(word: str, mode: Any, lengths: Any = (5, 9)) -> int:
    """Return the edits that are forgiven in a word."""
    if lengths == "none" or is_run(word) or any(c.isdigit() for c in word):
        return 0
    if mode == "auto":
        return sum(len(word) >= length for length in lengths)
    return min(int(mode), (len(word) - 1) // 2)
