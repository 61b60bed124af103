"""Searches within the values of a facet: finds keys that match a pattern or an incomplete word.

* a pattern (`query`): matches the whole key, case and accents folded; `*` is any text. The sign
  of a number counts: 3 does not match -3;
* words (`facet_query`): each must match the start of some word of the key, typos tolerated as in
  full text.

The folded keys and their distinct words, sorted, are kept with the numbering, in blocks of
`_BLOCK_KEYS`: as values are added, only the last block is rebuilt. The words with a prefix are a
range of a block's words. If the query word is long enough to have a typo, a letter-mask filter in
numpy passes some of the words' prefixes before a digit to an edit distance.

Cost for 35,000 keys: a fraction of a millisecond; with typos some milliseconds. The first search
folds all keys, 4 µs each. All of it is done in steps, with other requests in between.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from itertools import accumulate, chain, takewhile
from typing import Final, cast

import numpy as np
from numpy.typing import NDArray

from common.analysis.analyzer import Analyzer, bare_word, typo_budget
from coordinator.parameters.parsed_parameters import KeyTypos
from coordinator.read.facets.global_ordinals import FacetValues
from coordinator.read.text.edit_distance import edit_distances

_LAST_CHARACTER: Final = chr(0x10FFFF)
_NEGATIVE: Final = re.compile(r"\s*-[0-9]").match
"""Finds the sign of a number, which folding drops like any punctuation."""
_BLOCK_KEYS: Final = 1_024
"""Keys that are folded and searched together."""
_STEP_KEYS: Final = 64
"""Keys folded in a step: a quarter of a millisecond."""
_STEP_BLOCKS: Final = 16
"""Blocks in which a word is looked up in a step."""


@dataclass(frozen=True, slots=True)
class _FoldedKeys:
    """The folded keys of a block of values."""

    keys: list[str]
    """By value, as numbered in the block: words joined by single spaces, after a number's sign."""
    words: list[str]
    """Distinct words of all keys, sorted."""
    stems: list[str]
    """What may have typos: the distinct prefixes of words, up to the first digit."""
    stem_masks: NDArray[np.uint32]
    """Letter mask of each."""
    stem_keys: list[NDArray[np.int64]]
    """Numbers of the keys that contain a word with each."""
    key_numbers: NDArray[np.int64]
    """Numbers of the keys that contain each word, word by word."""
    starts: list[int]
    """Start of each word's keys, with a sentinel."""

    def with_words(self, first: int, last: int) -> NDArray[np.int64]:
        """Return the numbers of the keys that contain one of the words ``[first, last)``."""
        return self.key_numbers[self.starts[first] : self.starts[last]]

    def words_from(self, prefix: str) -> tuple[int, int]:
        """Return the range of the words with a prefix."""
        first = bisect_left(self.words, prefix)
        return first, bisect_left(self.words, prefix + _LAST_CHARACTER, first)


def _before_digits(word: str) -> str:
    if word.isalpha():
        return word
    return "".join(takewhile(lambda letter: not letter.isdigit(), word))


def _signed(folded: str, text: str) -> str:
    """Return a folded text with the sign that it begins with, if it begins with a number."""
    return f"-{folded}" if _NEGATIVE(text) else folded


def _letter_mask(word: str) -> int:
    mask = 0
    for character in word:
        mask |= 1 << (ord(character) & 31)
    return mask


def _folded_blocks(
    values: FacetValues, num_values: int, analyzer: Analyzer
) -> Generator[None, None, list[_FoldedKeys]]:
    """Return the folded keys of the first values, block by block; the last may have more."""
    kept = cast(dict[int, _FoldedKeys], values.kept.setdefault("folded_keys", {}))
    blocks = []
    for start in range(0, num_values, _BLOCK_KEYS):
        end = min(start + _BLOCK_KEYS, len(values))
        block = kept.get(start)
        if block is None or start + len(block.keys) < end:
            block = kept[start] = yield from _folded(values.values[start:end], analyzer)
        blocks.append(block)
    return blocks


def _folded(texts: list[str], analyzer: Analyzer) -> Generator[None, None, _FoldedKeys]:
    """Fold the keys of a block."""
    keys: list[str] = []
    numbers_by_word: dict[str, list[int]] = {}
    for start in range(0, len(texts), _STEP_KEYS):
        keys += analyzer.fold_all(texts[start : start + _STEP_KEYS])
        for number in range(start, len(keys)):
            words_of_key = keys[number].split(" ")
            for word in dict.fromkeys([*words_of_key, *map(bare_word, words_of_key)]):
                numbers_by_word.setdefault(word, []).append(number)
        yield
    words = sorted(numbers_by_word)
    lists = [numbers_by_word[word] for word in words]
    yield
    numbers_by_stem: dict[str, list[int]] = {}
    for word, numbers in zip(words, lists, strict=True):
        numbers_by_stem.setdefault(_before_digits(word), []).extend(numbers)
    yield
    return _FoldedKeys(
        [_signed(key, text) for key, text in zip(keys, texts, strict=True)],
        words,
        list(numbers_by_stem),
        np.array([_letter_mask(stem) for stem in numbers_by_stem], np.uint32),
        [np.array(numbers, np.int64) for numbers in numbers_by_stem.values()],
        np.fromiter(chain.from_iterable(lists), np.int64),
        list(accumulate(map(len, lists), initial=0)),
    )


def accept_keys(
    values: FacetValues,
    analyzer: Analyzer,
    pattern: str | None,
    key_query: str | None,
    *,
    typos: KeyTypos = "always",
    counted: NDArray[np.bool_] | None = None,
) -> Generator[None, None, NDArray[np.bool_] | None]:
    """Find the values that may be listed; yield every half a millisecond.

    Args:
        values: the facet's numbering; it may grow meanwhile.
        analyzer: folds keys and query alike.
        pattern: must match the whole key; `*` is any text.
        key_query: words (or prefixes of words) that the key must contain.
        typos: when a word of `key_query` may have typos.
        counted: which values the counted items have, by number; only these count as typed. None:
            all.

    Returns:
        Whether each value is accepted, by number; None if nothing restricts them.
    """
    if not pattern and not key_query:
        return None
    num_values = len(values)
    words = analyzer.words(key_query or "")
    if not pattern and not words:
        return None
    blocks = yield from _folded_blocks(values, num_values, analyzer)
    accepted = np.ones(len(blocks) * _BLOCK_KEYS, np.bool_)
    is_counted = accepted.copy()
    if counted is not None:
        is_counted[: len(counted)] = counted[: len(accepted)]
        is_counted[len(counted) :] = False
    if pattern:
        start, *others = pattern.split("*")
        parts = [_signed(analyzer.fold(start), start), *map(analyzer.fold, others)]
        for block, found in _in_blocks(blocks, accepted):
            found[:] = np.fromiter((_matches(key, parts) for key in block.keys), np.bool_)
            yield
    for word in words:
        yield
        found_of_all = np.zeros(len(accepted), np.bool_)
        has_typed = False
        for number, (block, found) in enumerate(_in_blocks(blocks, found_of_all), 1):
            first, last = block.words_from(word)
            if first < last:
                keys = block.with_words(first, last)
                found[keys] = True
                has_typed |= bool(is_counted[(number - 1) * _BLOCK_KEYS + keys].any())
            if number % _STEP_BLOCKS == 0:
                yield
        num_typos = typo_budget(word)
        if num_typos and (typos == "always" or (typos == "unless_typed" and not has_typed)):
            for block, found in _in_blocks(blocks, found_of_all):
                _add_typos(block, word, num_typos, found)
                yield
        accepted &= found_of_all
    return accepted[:num_values]


def _in_blocks(
    blocks: list[_FoldedKeys], mask: NDArray[np.bool_]
) -> Iterator[tuple[_FoldedKeys, NDArray[np.bool_]]]:
    """Yield each block with its part of a mask by value."""
    for i, block in enumerate(blocks):
        start = i * _BLOCK_KEYS
        yield block, mask[start : start + len(block.keys)]


def _add_typos(block: _FoldedKeys, word: str, typos: int, found: NDArray[np.bool_]) -> None:
    """Mark the keys that contain a word that starts with `word`, give or take typos."""
    missing = np.bitwise_count(np.uint32(_letter_mask(word)) & ~block.stem_masks)
    for i in np.flatnonzero(missing <= typos).tolist():
        if edit_distances(word, block.stems[i], typos)[1] <= typos:
            found[block.stem_keys[i]] = True


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
