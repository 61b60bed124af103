"""Searching within the values of a facet: which keys match a pattern or an incomplete word?

* a pattern (`query`): matches the whole key, case and accents folded; `*` is any text;
* words (`facet_query`): each must match the start of some word of the key, typos tolerated as in
  full text.

The folded keys and their distinct words are cached with the numbering until it grows. A search
visits every distinct word once: a prefix test for all of them and, if the query word is long
enough to have a typo, a letter-mask filter in numpy followed by an edit distance for the few words
that pass.
Cost for 35,000 keys: some milliseconds.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from common.analysis.analyzer import Analyzer, bare_word, typo_budget
from coordinator.read.facet_values import FacetValues


@dataclass(frozen=True, slots=True)
class _FoldedKeys:
    """The folded keys of one facet."""

    keys: list[str]
    """By value number: words joined by single spaces."""
    words: list[str]
    """Distinct words of all keys."""
    masks: NDArray[np.uint32]
    """Letter mask, by word."""
    key_numbers: list[list[int]]
    """By word: numbers of the keys that contain it."""


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
    words = list(numbers_by_word)
    folded = _FoldedKeys(
        keys,
        words,
        np.array([_letter_mask(word) for word in words], np.uint32),
        list(numbers_by_word.values()),
    )
    values.derived["folded_keys"] = folded
    return folded


def accepted_keys(
    values: FacetValues, analyzer: Analyzer, pattern: str | None, key_query: str | None
) -> NDArray[np.bool_] | None:
    """Return which values may be listed, by number; None if nothing restricts them.

    Args:
        values: the facet's numbering.
        analyzer: folds keys and query alike.
        pattern: must match the whole key; `*` is any text.
        key_query: words (or prefixes of words) that the key must contain.
    """
    if not pattern and not key_query:
        return None
    accepted: NDArray[np.bool_] | None = None
    if pattern:
        folded = _folded_keys(values, analyzer)
        parts = [analyzer.fold(part) for part in pattern.split("*")]
        accepted = np.fromiter((_matches(key, parts) for key in folded.keys), np.bool_, len(values))
    for token in analyzer.tokenize(key_query or ""):
        found = _with_word(_folded_keys(values, analyzer), token.text, len(values))
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


def _with_word(folded: _FoldedKeys, word: str, num_keys: int) -> NDArray[np.bool_]:
    """Return which keys contain a word that starts with `word`, give or take typos."""
    found = np.zeros(num_keys, np.bool_)
    for i, candidate in enumerate(folded.words):
        if candidate.startswith(word):
            found[folded.key_numbers[i]] = True
    typos = typo_budget(word)
    if typos:
        missing = np.bitwise_count(np.uint32(_letter_mask(word)) & ~folded.masks)
        for i in np.flatnonzero(missing <= typos).tolist():
            if _prefix_distance(word, folded.words[i], typos) <= typos:
                found[folded.key_numbers[i]] = True
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
