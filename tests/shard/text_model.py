"""Naive text index for tests: dictionaries and loops, no arrays; and segments made from items."""

from __future__ import annotations

import itertools
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
from numpy.typing import NDArray

from common.analysis.analyzer import Analyzer
from shard.query.phrases.frequent_pairs import keep_frequent_pairs
from shard.query.text.text_search import TextMatch
from shard.segment.field_registry import FieldRegistry
from shard.segment.items.value_extraction import Extraction, extract
from shard.segment.segment import Segment
from shard.segment.text import bitset_postings as dense_lists
from shard.segment.text import prefix_lists
from shard.segment.text.positions import POSITION_GAP
from shard.segment.text.text_builder import build_text

ANALYZER = Analyzer()
Item = Mapping[str, Any]
Places = dict[str, dict[tuple[int, str], list[int]]]
"""Term → (document, path) → positions."""


class Lists(NamedTuple):
    """Which lists a segment has beside those of its terms; no answer may show it.

    Attributes:
        entries_min: of terms that begin alike, from which they have a prefix list.
        dense_docs_min: from which a segment has bitsets for long lists.
        docs_per_entry_max: of a term with a bitset.
        has_pairs: whether it is known where frequent words are adjacent.
        docs_per_prefix_entry_max: of a prefix list with a bitset.
    """

    entries_min: int = prefix_lists.ENTRIES_MIN
    dense_docs_min: int = dense_lists.DOCS_MIN
    docs_per_entry_max: int = dense_lists.DOCS_PER_ENTRY_MAX
    has_pairs: bool = False
    docs_per_prefix_entry_max: int = dense_lists.PREFIX_DOCS_PER_ENTRY_MAX

    @contextmanager
    def in_force(self) -> Iterator[None]:
        """Let segments be made like this."""
        with (
            mock.patch.object(prefix_lists, "ENTRIES_MIN", self.entries_min),
            mock.patch.object(prefix_lists, "ENTRIES_MAX", self.entries_min),
            mock.patch.object(dense_lists, "DOCS_MIN", self.dense_docs_min),
            mock.patch.object(dense_lists, "DOCS_PER_ENTRY_MAX", self.docs_per_entry_max),
            mock.patch.object(
                dense_lists, "PREFIX_DOCS_PER_ENTRY_MAX", self.docs_per_prefix_entry_max
            ),
        ):
            yield


AS_SERVED = Lists()


def extract_items(items: Sequence[Item], registry: FieldRegistry) -> Extraction:
    """Extract items as the writer does."""
    encoded = [json.dumps(item, ensure_ascii=False).encode() for item in items]
    ends = np.cumsum([len(one) + 1 for one in encoded], dtype=np.int64) - 1
    starts = np.array([0, *(ends[:-1] + 1)] if encoded else [], np.int64)
    body = np.frombuffer(bytearray(b"\n".join(encoded) + b"\n" + bytes(16)), np.uint8)
    return extract(body, starts, ends, registry)


def make_segment(
    items: Sequence[Item], registry: FieldRegistry, lists: Lists = AS_SERVED
) -> Segment:
    """Build the text structures of items, all fields searchable.

    Args:
        items: the documents.
        registry: grows.
        lists: which ones to make.
    """
    extraction = extract_items(items, registry)
    is_searchable = np.ones(len(registry.paths) + 1, np.bool_)
    with lists.in_force():
        segment = Segment(build_text(extraction, is_searchable), num_docs=len(items))
    if lists.has_pairs:
        keep_frequent_pairs(segment)
    return segment


def strings(value: Any, path: str = "") -> Iterable[tuple[str, str]]:
    """Yield path and text of every string of an item."""
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, dict):
        for key, child in value.items():
            yield from strings(child, f"{path}.{key}" if path else key)
    elif isinstance(value, list):
        for child in value:
            yield from strings(child, path)


def list_places(items: Sequence[Item]) -> tuple[Places, dict[tuple[int, str], int]]:
    """Return the places of all terms, and the length of every field of every document."""
    places: Places = defaultdict(lambda: defaultdict(list))
    lengths: dict[tuple[int, str], int] = defaultdict(int)
    for doc, item in enumerate(items):
        next_position: dict[str, int] = defaultdict(int)
        for path, text in strings(item):
            tokens = ANALYZER.tokenize(text, is_indexing=True)
            if not tokens:
                continue
            base = next_position[path]
            for token in tokens:
                places[token.text][doc, path].append(base + token.position)
            length = tokens[-1].position + 1
            lengths[doc, path] += length
            next_position[path] = base + length + POSITION_GAP
    return places, lengths


def osa_distance(left: str, right: str) -> int:
    """Return the optimal string alignment distance by the full table."""
    table = [[max(i, j) for j in range(len(right) + 1)] for i in range(len(left) + 1)]
    for i in range(1, len(left) + 1):
        for j in range(1, len(right) + 1):
            cost = left[i - 1] != right[j - 1]
            table[i][j] = min(table[i - 1][j] + 1, table[i][j - 1] + 1, table[i - 1][j - 1] + cost)
            if i > 1 and j > 1 and left[i - 1] == right[j - 2] and left[i - 2] == right[j - 1]:
                table[i][j] = min(table[i][j], table[i - 2][j - 2] + 1)
    return table[-1][-1]


def scores_of(match: TextMatch) -> list[float]:
    """Return the scores of the ranked documents."""
    assert match.ranked.scores is not None
    scores: list[float] = match.ranked.scores.tolist()
    return scores


def join(batches: Iterable[Mapping[str, NDArray[Any]]]) -> dict[str, NDArray[Any]]:
    """Return the arrays that a merge yields, all together."""
    return dict(itertools.chain.from_iterable(batch.items() for batch in batches))
