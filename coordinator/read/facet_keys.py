"""Searching within the values of a facet: which keys match a pattern or an incomplete word?

* a pattern (`query`): matches the whole key, case and accents folded; `*` is any text;
* words (`facet_query`): each must match the start of some word of the key, typos tolerated as in
  full text.

The folded keys and their distinct words, sorted, are cached with the numbering until it grows. The
words with a prefix are a range of them. If the query word is long enough to have a typo, a
letter-mask filter in numpy passes some words to an edit distance.
Cost for 35,000 keys: some microseconds; with typos some milliseconds.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from itertools import accumulate, chain
from typing import Final

import numpy as np
from numpy.typing import NDArray

from common.analysis.analyzer import Analyzer, bare_word, typo_budget
from coordinator.read.facet_values import FacetValues

_LAST_CHARACTER: Final = chr(0x10FFFF)


@dataclass(frozen=True, slots=True)
class _FoldedKeys:
    """The folded keys of one facet."""

    keys: list[str]
    """By value number: words joined by single spaces."""
    words: list[str]
    """Distinct words of all keys, sorted."""
    masks: NDArray[np.uint32]
    """Letter mask, by word."""
    key_numbers: NDArray[np.int64]
    """Numbers of the keys that contain each word, word by word."""
    starts: list[int]
    """Where those of each word begin, with a sentinel."""

    def with_words(self, first: int, last: int) -> NDArray[np.int64]:
        """Return the numbers of the keys that contain one of the words ``[first, last)``."""
        return self.key_numbers[self.starts[first] : self.starts[last]]


def _letter_mask(word: str) -> int:
    mask = 0
    for character in word:
        mask |= 1 << (ord(character) & 31)
    return mask


def _folded_keys(values: FacetValues, analyzer: Analyzer) -> _FoldedKeys:
    folded = values.derived.get("folded_keys")
    if isinstance(folded, _FoldedKeys):
        return folded
    keys = [analyzer.fold(key) for key in values.values]
    numbers_by_word: dict[str, list[int]] = {}
    for number, key in enumerate(keys):
        words_of_key = key.split(" ")
        for word in dict.fromkeys([*words_of_key, *map(bare_word, words_of_key)]):
            numbers_by_word.setdefault(word, []).append(number)
    words = sorted(numbers_by_word)
    lists = [numbers_by_word[word] for word in words]
    folded = _FoldedKeys(
        keys,
        words,
        np.array([_letter_mask(word) for word in words], np.uint32),
        np.fromiter(chain.from_iterable(lists), np.int64),
        list(accumulate(map(len, lists), initial=0)),
    )
    values.derived["folded_keys"] = folded
    return folded


def accepted_keys(
    values: FacetValues,
    analyzer: Analyzer,
    pattern: str | None,
    key_query: str | None,
    *,
    prefers_typed: bool = False,
) -> NDArray[np.bool_] | None:
    """Return which values may be listed, by number; None if nothing restricts them.

    Args:
        values: the facet's numbering.
        analyzer: folds keys and query alike.
        pattern: must match the whole key; `*` is any text.
        key_query: words (or prefixes of words) that the key must contain.
        prefers_typed: whether a word may have typos only if no key has it as typed.
    """
    if not pattern and not key_query:
        return None
    accepted: NDArray[np.bool_] | None = None
    if pattern:
        folded = _folded_keys(values, analyzer)
        parts = [analyzer.fold(part) for part in pattern.split("*")]
        accepted = np.fromiter((_matches(key, parts) for key in folded.keys), np.bool_, len(values))
    for token in analyzer.tokenize(key_query or ""):
        folded = _folded_keys(values, analyzer)
        found = _with_word(folded, token.text, len(values), prefers_typed)
        accepted = found if accepted is None else accepted & found
    return accepted


def _matches(key: str, parts: list[str]) -> bool:
    """Return whether a folded key consists of the parts in order, with any text between them."""
    if len(parts) == 1:
        return key == parts[0]
    if not key.startswith(parts[0]):
        return False
    at = len(parts[0])
    for part in parts[1:-1]:
        found = key.find(part, at)
        if found < 0:
            return False
        at = found + len(part)
    return len(key) - at >= len(parts[-1]) and key.endswith(parts[-1])


def _with_word(
    folded: _FoldedKeys, word: str, num_keys: int, prefers_typed: bool
) -> NDArray[np.bool_]:
    """Return which keys contain a word that starts with `word`, give or take typos."""
    found = np.zeros(num_keys, np.bool_)
    first = bisect_left(folded.words, word)
    last = bisect_left(folded.words, word + _LAST_CHARACTER, first)
    found[folded.with_words(first, last)] = True
    typos = typo_budget(word)
    if typos and not (prefers_typed and first < last):
        missing = np.bitwise_count(np.uint32(_letter_mask(word)) & ~folded.masks)
        for i in np.flatnonzero(missing <= typos).tolist():
            if _prefix_distance(word, folded.words[i], typos) <= typos:
                found[folded.with_words(i, i + 1)] = True
    return found


def _prefix_distance(word: str, candidate: str, limit: int) -> int:
    """Return the least edit distance from `word` to a prefix of `candidate`.

    Optimal string alignment (a transposition is one edit), row by row over the letters of
    `candidate`; stops once every cell of a row exceeds `limit`.
    """
    above: list[int] = []
    row = list(range(len(word) + 1))
    best = row[-1]
    for i, letter in enumerate(candidate[: len(word) + limit], 1):
        if letter.isdigit():
            break  # typos never fall on digits, and the word has none
        two_above, above, row = above, row, [i]
        for j, wanted in enumerate(word, 1):
            cost = min(above[j] + 1, row[j - 1] + 1, above[j - 1] + (letter != wanted))
            if i > 1 and j > 1 and letter == word[j - 2] and candidate[i - 2] == wanted:
                cost = min(cost, two_above[j - 2] + 1)
            row.append(cost)
        best = min(best, row[-1])
        if min(row) > limit:
            break
    return best
