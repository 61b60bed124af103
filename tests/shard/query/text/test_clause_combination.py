"""Queries of which some clauses must match: only documents that can be hits are scored."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from common.analysis.language_and_typos_by_field import Languages
from common.query_syntax_tree import Word
from shard.query.pruning.bit_sliced_bounds import add_up, at_least
from shard.query.text import clause_combination
from shard.query.text.clause_evaluation import ScoredDocs
from shard.query.text.prepared_query import PreparedQuery
from shard.query.text.text_search import match_text
from shard.segment.doc_sets import full_bitset
from shard.segment.field_registry import FieldRegistry
from shard.segment.snapshot import SegmentView
from tests.shard.query.text.naive_text_search import all_of, make_query
from tests.shard.text_model import make_segment

NUM_ITEMS = 2_000


@given(st.integers(1, 20), st.integers(1, 130), st.randoms(use_true_random=False))
def test_documents_in_enough_bitsets_are_counted_bit_by_bit(
    num_clauses: int, num_docs: int, choice: random.Random
) -> None:
    share = choice.choice((0.1, 0.5, 0.9))
    has = np.array([[choice.random() < share for _ in range(num_docs)] for _ in range(num_clauses)])
    padded = np.zeros((num_clauses, -(-num_docs // 64) * 64), np.uint8)
    padded[:, :num_docs] = has
    marked = np.packbits(padded, axis=1, bitorder="little").view(np.uint64)
    for required in range(1, num_clauses + 1):
        counts = add_up(marked, np.ones(num_clauses, np.int64))
        found = at_least(counts, full_bitset(num_docs), required)
        bits = np.unpackbits(found.view(np.uint8), bitorder="little").astype(bool)
        assert np.flatnonzero(bits).tolist() == np.flatnonzero(has.sum(0) >= required).tolist()


@pytest.mark.parametrize(("required", "is_leading"), [(1, True), (2, True), (3, False)])
@pytest.mark.parametrize("k", [None, 5])
def test_only_documents_with_enough_words_are_scored(
    required: int,
    is_leading: bool,
    k: int | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of a hundred words, each document has about ten."""
    choice = random.Random(3)
    words = [a + b for a in "bcdfghjklm" for b in ("aa", "ee", "ii", "oo", "uu", "ya", "ye")]
    items = [{"a": " ".join(choice.choices(words, k=10))} for _ in range(NUM_ITEMS)]
    registry = FieldRegistry()
    view = SegmentView(make_segment(items, registry))
    shape = all_of(*(Word(word) for word in words[:5]), paths=("a",))
    query = make_query({**shape, "required": required}, [view], [registry], NUM_ITEMS)
    query = structs.replace(query, is_leading=is_leading)

    num_scored: list[int] = []
    add_clause = clause_combination._add_clause

    def noting(found: ScoredDocs, *arguments: Any) -> None:
        num_scored.append(len(found.docs))
        add_clause(found, *arguments)

    monkeypatch.setattr(clause_combination, "_add_clause", noting)
    found = match_text(view, PreparedQuery(query, registry, Languages()), None, k)
    wanted = words[:5]
    num_matching = [
        next((i for i, word in enumerate(wanted) if word not in item["a"].split()), 5)
        if is_leading
        else len(set(item["a"].split()) & set(wanted))
        for item in items
    ]
    hits = [doc for doc, number in enumerate(num_matching) if number >= required]
    assert found.found.docs.tolist() == hits
    assert max(num_scored) <= len(hits) < NUM_ITEMS / 4
    if is_leading and k is not None:
        most = max(n for n in range(6) if sum(number >= n for number in num_matching) >= k)
        assert max(num_scored) <= sum(number >= most for number in num_matching)
        assert set(found.ranked.docs.tolist()) >= {
            doc for doc, number in enumerate(num_matching) if number > most
        }
