"""Texts with marks around the words that match: whole, or cut to the best of their windows.

    text      The Green Mile & other stories        marks: Green, Mile
    whole     The <em>Green</em> <em>Mile</em> &amp; other stories
    3 words   The <em>Green</em> <em>Mile</em> &amp;…

Everything but the marks is escaped for HTML.
"""

from __future__ import annotations

import html
import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from shard.read.grapheme_clusters import first_cut, last_cut
from shard.read.marked_words import Mark, SplitText
from shard.read.words_of_texts import Words

if TYPE_CHECKING:
    from numpy.typing import NDArray

_SNIPPET_WORD_BYTES: Final = 128
"""Bytes of a snippet for each of its words, with what stands between them: texts without words, or
with endless ones, are cut."""
_WEIGHT_UNIT: Final = 2.0**32
"""Weights are summed as integers, so that the order does not matter."""


@dataclass(frozen=True, slots=True)
class MarkStyle:
    """Text around marks and at the cut ends of snippets; not escaped."""

    pre: str = "<em>"
    post: str = "</em>"
    ellipsis: str = "…"


def mark_text(
    text: SplitText, marked: Sequence[Mark], style: MarkStyle, start: int, end: int
) -> str:
    """Return ``text[start:end]`` (bytes) escaped, with marks around the marked words inside."""
    if not marked:
        return _escape(text.encoded[start:end])
    spans: list[list[int]] = []
    starts, ends = text.words.starts, text.words.ends
    for mark in marked:
        first, last = int(starts[mark.word]), int(ends[mark.word])
        if first < start or last > end:
            continue
        if spans and first < spans[-1][1]:  # bigrams of one run overlap
            spans[-1][1] = max(spans[-1][1], last)
        else:
            spans.append([first, last])
    pieces = []
    at = start
    for first, last in spans:
        pieces += [
            _escape(text.encoded[at:first]),
            style.pre,
            _escape(text.encoded[first:last]),
            style.post,
        ]
        at = last
    pieces.append(_escape(text.encoded[at:end]))
    return "".join(pieces)


def cut_snippet(
    text: SplitText, marked: Sequence[Mark], style: MarkStyle, num_words: int
) -> tuple[float, str]:
    """Return the best window of `num_words` words, marked, and its value.

    Best: greatest weight of distinct clauses, then most marks, then earliest. The window begins a
    little before its first mark, for context on both sides.
    """
    value, begin, end = _best_part(text, marked, num_words)
    if end - begin > num_words * _SNIPPET_WORD_BYTES:
        begin, end = _shortened(text, marked, begin, end, num_words * _SNIPPET_WORD_BYTES)
    head = style.ellipsis if begin > 0 else ""
    tail = style.ellipsis if end < len(text.encoded) else ""
    return value, head + mark_text(text, marked, style, begin, end) + tail


def _best_part(text: SplitText, marked: Sequence[Mark], num_words: int) -> tuple[float, int, int]:
    """Return the value of the best window of `num_words` words, and where it begins and ends."""
    words = text.words
    if not len(words.positions):
        return 0.0, 0, text.end
    first_position = int(words.positions[0])
    last_position = int(words.positions[-1])
    value, wanted_start = _best_window(words, marked, num_words)
    start = max(first_position, min(wanted_start, last_position - num_words + 1))
    first, last = np.searchsorted(words.positions, (start, start + num_words)).tolist()
    # Of "net" and ".net" at one position, the second begins earlier.
    begin = 0 if start <= first_position else int(words.starts[first:last].min())
    is_end = start + num_words > last_position
    end = text.end if is_end else int(words.ends[first:last].max())
    return value, begin, end


def _shortened(
    text: SplitText, marked: Sequence[Mark], begin: int, end: int, bytes_max: int
) -> tuple[int, int]:
    """Return the beginning and end of the part of a window that is shown if it is too long.

    It begins a little before the first mark.
    """
    starts = text.words.starts[_ordinals_of(marked)].tolist()
    first = next((start for start in starts if begin <= start < end), begin)
    begin = max(begin, min(first - bytes_max // 4, end - bytes_max))
    begin = min(first, first_cut(text.encoded, begin))
    return begin, last_cut(text.encoded, min(end, begin + bytes_max), begin)


def _best_window(words: Words, marked: Sequence[Mark], num_words: int) -> tuple[float, int]:
    """Return the value of the best window of `num_words` words, and where it should begin.

    A sliding window over the marks: each mark begins one, so both ends only move forward. The
    beginning is a position.
    """
    best = (0, 0, 0)
    counts: dict[int, int] = defaultdict(int)  # marks in the window, by clause
    value = end = 0
    positions: list[int] = words.positions[_ordinals_of(marked)].tolist()
    for i, (_, clause, weight) in enumerate(marked):
        start = positions[i]
        while end < len(marked) and positions[end] < start + num_words:
            _, entering, gained = marked[end]
            if counts[entering] == 0:
                value += math.floor(gained * _WEIGHT_UNIT)
            counts[entering] += 1
            end += 1
        if (value, end - i) > best[:2]:
            slack = num_words - 1 - (positions[end - 1] - start)
            best = (value, end - i, start - slack // 2)
        counts[clause] -= 1
        if counts[clause] == 0:
            value -= math.floor(weight * _WEIGHT_UNIT)
    return best[0] / _WEIGHT_UNIT, best[2]


def _ordinals_of(marked: Sequence[Mark]) -> NDArray[np.intp]:
    return np.array([mark.word for mark in marked], np.intp)


def _escape(encoded: bytes) -> str:
    return html.escape(encoded.decode("utf-8", "replace"))
