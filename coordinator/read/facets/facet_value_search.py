"""Searches within the values of a facet: finds keys that match a pattern or an incomplete word.

* a pattern (`query`): matches the whole key, case and accents folded, signs as if they were spaces;
  `*` is any text. A space beside it is the end of a word: `war *` does not match warfare. The sign
  of a number counts: 3 does not match -3;
* words (`facet_query`): each must match the start of some word of the key, typos tolerated as in
  full text.

The folded keys are kept with the numbering, in blocks of `_BLOCK_KEYS`; added values are appended
to the last. Each word is a scan of all of them (`folded_facet_key_matching`): a thread can do it
while the event loop runs.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Final, cast

import numpy as np
from numpy.typing import NDArray

from common.analysis.analyzer import Analyzer
from common.analysis.typo_budget import typo_budget
from common.deadline import NEVER, Deadline
from coordinator.parameters.facet_specs import KeyTypos
from coordinator.read.facets.folded_facet_key_matching import (
    KeyWords,
    fold_keys,
    joined,
    mark_matches,
    mark_similar_words,
    mark_words,
    pattern_of,
)
from coordinator.read.facets.global_ordinals import FacetValues

KEYS_SEARCHED_FAST_MAX: Final = 1_000
"""More keys are searched on a thread: folding these takes 0.3 ms, at the first search."""
_BLOCK_KEYS: Final = 65_536
"""Keys that a thread folds (15 ms) or reads (1 ms) between two looks at the deadline."""
_NEGATIVE: Final = re.compile(r"\s*-[0-9]").match
"""Finds the sign of a number, which folding drops like any punctuation."""


def accept_keys(
    values: FacetValues,
    analyzer: Analyzer,
    pattern: str | None,
    key_query: str | None,
    *,
    typos: KeyTypos = "always",
    counted: NDArray[np.bool_] | None = None,
    deadline: Deadline = NEVER,
) -> NDArray[np.bool_] | None:
    """Find the values that may be listed; of one numbering on one thread at a time.

    Args:
        values: the facet's numbering; it may grow meanwhile.
        analyzer: folds the query as keys are folded.
        pattern: must match the whole key; `*` is any text.
        key_query: words (or prefixes of words) that the key must contain.
        typos: when a word of `key_query` may have typos.
        counted: which values the counted items have, by number; only these count as typed. None:
            all.
        deadline: of the request.

    Returns:
        Whether each value is accepted, by number; None if nothing restricts them.

    Raises:
        DeadlineExceeded: it is too late; what has been folded is kept.
    """
    words = analyzer.words(key_query or "")
    if not pattern and not words:
        return None
    blocks = _folded_blocks(values, deadline)
    restricting: list[NDArray[np.bool_]] = []
    if pattern:
        parts = pattern_of(_folded_parts(pattern, analyzer))
        restricting.append(_marked(blocks, deadline, partial(mark_matches, parts)))
    for word in words:
        found = _marked(blocks, deadline, partial(mark_words, word))
        num_typos = typo_budget(word)
        if num_typos and (
            typos == "always" or (typos == "unless_typed" and not _has_any(found, counted))
        ):
            found |= _marked(blocks, deadline, partial(mark_similar_words, word, num_typos))
        restricting.append(found)
    accepted: NDArray[np.bool_] = np.logical_and.reduce(restricting)
    return accepted


def _folded_blocks(values: FacetValues, deadline: Deadline) -> list[KeyWords]:
    """Return the folded keys of all values; all blocks but the last are full."""
    blocks = cast(list[KeyWords], values.kept.setdefault("key_words", []))
    num_values = len(values)
    num_folded = sum(block.num_keys for block in blocks)
    while num_folded < num_values:
        deadline.check()
        end = min(num_folded - num_folded % _BLOCK_KEYS + _BLOCK_KEYS, num_values)
        folded = fold_keys(values.arena(num_folded, end))
        if num_folded % _BLOCK_KEYS:
            blocks[-1] = joined([blocks[-1], folded])
        else:
            blocks.append(folded)
        num_folded = end
    return blocks


def _marked(
    blocks: list[KeyWords],
    deadline: Deadline,
    mark: Callable[[KeyWords, NDArray[np.bool_]], None],
) -> NDArray[np.bool_]:
    """Return what a function marks among the keys of all blocks."""
    found = np.empty(sum(block.num_keys for block in blocks), np.bool_)
    for i, block in enumerate(blocks):
        deadline.check()
        start = i * _BLOCK_KEYS
        mark(block, found[start : start + block.num_keys])
    return found


def _folded_parts(pattern: str, analyzer: Analyzer) -> list[str]:
    """Return what stands between the asterisks of a pattern, with a space where words end."""
    texts = pattern.split("*")
    folded = list(map(analyzer.fold, texts))
    parts = [_signed(folded[0], texts[0]), *folded[1:]]
    last = len(texts) - 1
    for i, (text, part) in enumerate(zip(texts, parts, strict=True)):
        begins = i > 0 and text[:1].isspace() and (part != "" or i < last)
        ends = i < last and text[-1:].isspace() and (part != "" or i > 0)
        parts[i] = " " * begins + part + " " * ends if part else " " * (begins or ends)
    return parts


def _signed(folded: str, text: str) -> str:
    """Return a folded text with the sign that it begins with, if it begins with a number."""
    return f"-{folded}" if _NEGATIVE(text) else folded


def _has_any(found: NDArray[np.bool_], counted: NDArray[np.bool_] | None) -> bool:
    """Return whether a value was found that counts as typed."""
    if counted is None:
        return bool(found.any())
    length = min(len(found), len(counted))
    return bool((found[:length] & counted[:length]).any())
