"""The best hits of queries of which any word must match, against scoring every hit."""

from __future__ import annotations

import random
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from numpy.typing import NDArray

from common.protocol.messages import TextQuery
from common.query_syntax_tree import Phrase, Word
from shard.caches.background_derivation import BACKGROUND_TASKS
from shard.query.text import any_clause_top_k
from shard.query.text.clause_evaluation import Evaluation, ScoredDocs
from shard.query.text.prepared_query import PreparedQuery
from shard.query.text.text_search import match_text
from shard.segment.doc_sets import full_bitset
from shard.segment.field_registry import FieldRegistry
from shard.segment.snapshot import SegmentView
from tests.shard.query.text.naive_text_search import (
    ENGLISH,
    ITEMS,
    LISTS,
    all_of,
    make_query,
    queries,
)
from tests.shard.text_model import Lists, make_segment, scores_of


def expect_the_best(
    view: SegmentView, query: TextQuery, registry: FieldRegistry, k: int, mask: int
) -> None:
    """Compare the k best of the allowed documents, found with bounds, with scoring all."""
    allowed = full_bitset(view.segment.num_docs) & np.uint64(mask)
    whole = match_text(view, PreparedQuery(query, registry, ENGLISH), allowed, None)
    some = match_text(view, PreparedQuery(query, registry, ENGLISH), allowed, k)
    assert some.found.docs.tolist() == whole.found.docs.tolist()
    expected = dict(zip(whole.ranked.docs.tolist(), scores_of(whole), strict=True))
    ranked = dict(zip(some.ranked.docs.tolist(), scores_of(some), strict=True))
    assert ranked == {doc: expected[doc] for doc in ranked}
    best = sorted(expected.values(), reverse=True)[:k]
    if best:
        assert {doc for doc, score in expected.items() if score >= best[-1]} <= set(ranked)


def note_scored(num_scored: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Note how many documents are scored, each time that some are."""
    score = any_clause_top_k._score

    def noting(evaluation: Evaluation, docs: NDArray[np.uint32]) -> ScoredDocs:
        num_scored.append(len(docs))
        return score(evaluation, docs)

    monkeypatch.setattr(any_clause_top_k, "_score", noting)


@given(
    st.lists(ITEMS, min_size=1, max_size=3),
    queries(),
    LISTS,
    st.integers(1, 3),
    st.integers(0, 2**64 - 1) | st.just(2**64 - 1),
)
def test_the_best_are_those_of_scoring_all(
    parts: list[list[dict[str, Any]]], shape: dict[str, Any], lists: Lists, k: int, mask: int
) -> None:
    items = [item for part in parts for item in part]
    registry = FieldRegistry()
    view = SegmentView(make_segment(items, registry, lists))
    shape = {**shape, "required": 1, "is_leading": False, "excluded": []}
    query = make_query(shape, [view], [registry], len(items))
    with (
        mock.patch.object(any_clause_top_k, "_ENTRIES_MIN", 0),
        mock.patch.object(any_clause_top_k, "num_first", lambda k: k),
    ):
        expect_the_best(view, query, registry, k, mask)


@pytest.mark.parametrize("proximity", [0.0, 0.2, 3.0])
def test_few_documents_are_scored_where_words_have_typos(
    proximity: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    choice = random.Random(5)
    letters = str.maketrans("0123456789", "abcdefghij")  # words with digits match no typos
    # Each word is one typo from a few others: waaa, waab …
    vocabulary = ["w" + f"{i * 7 % 1000:03}".translate(letters) for i in range(200)]
    weights = [1 / (i + 3) for i in range(200)]
    items = [
        {"a": " ".join(choice.choices(vocabulary, weights, k=choice.randint(3, 12)))}
        for _ in range(5_000)
    ]
    registry = FieldRegistry()
    view = SegmentView(make_segment(items, registry))
    num_scored: list[int] = []
    note_scored(num_scored, monkeypatch)
    monkeypatch.setattr(any_clause_top_k, "_ENTRIES_MIN", 0)
    for num_words in (3, 6, 10, 30):
        words = [Word(word, typos=1) for word in choice.sample(vocabulary, num_words)]
        for clauses in (
            words,
            [*words[:-1], Word("wb", is_prefix=True)],
            [*words, Phrase(("waaa", "waah"))],
        ):
            shape = all_of(*clauses, paths=("a",)) | {"required": 1}
            query = make_query(shape, [view], [registry], len(items))
            query = structs.replace(query, proximity=proximity)
            num_scored.clear()
            found = match_text(view, PreparedQuery(query, registry, ENGLISH), None, 5)
            expect_the_best(view, query, registry, 5, 2**64 - 1)
            assert num_scored[0] < 100
            assert num_words > 10 or proximity > 1 or num_scored[1] < found.found.count / 4


def test_words_that_chain_can_score_twice() -> None:
    """The second document has more words and is scored first; the first has a longer chain."""
    items = [{"a": text} for text in ("sea moon tide", "sea moon rain tide salt", *["salt"] * 3)]
    registry = FieldRegistry()
    view = SegmentView(make_segment(items, registry))
    words = [Word(word) for word in ("sea", "moon", "tide", "salt")]
    shape = all_of(*words, paths=("a",)) | {"required": 1, "proximity": 3.0}
    query = make_query(shape, [view], [registry], len(items))
    weights = query.clauses[0].weights
    query = structs.replace(
        query, clauses=tuple(structs.replace(one, weights=weights) for one in query.clauses)
    )
    with (
        mock.patch.object(any_clause_top_k, "_ENTRIES_MIN", 0),
        mock.patch.object(any_clause_top_k, "num_first", lambda k: k),
        mock.patch("shard.query.text.strategy.max_score_disjunction.pays_off", return_value=False),
    ):
        expect_the_best(view, query, registry, 1, 2**64 - 1)


@pytest.mark.parametrize("fields", [("a",), ("a", "b")])
@pytest.mark.parametrize("proximity", [0.0, 0.2])
def test_bounds_of_groups_leave_out_most_documents(
    fields: tuple[str, ...], proximity: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some of the words are in half of all documents, some in a hundredth; b is one of them."""
    choice = random.Random(8)
    vocabulary = ["word" + str(i) for i in range(40)]
    weights = [1 / (i + 1) for i in range(40)]
    items: list[dict[str, Any]] = [
        {"a": " ".join(choice.choices(vocabulary, weights, k=choice.randint(3, 30)))}
        for _ in range(6_000)
    ]
    for item in items[::3]:
        item["b"] = choice.choice(vocabulary)
    registry = FieldRegistry()
    view = SegmentView(make_segment(items, registry))
    shape = all_of(*(Word(word) for word in vocabulary[:15]), paths=fields) | {"required": 1}
    query = make_query(shape, [view], [registry], len(items))
    query = structs.replace(query, proximity=proximity)
    num_scored: list[int] = []
    note_scored(num_scored, monkeypatch)
    monkeypatch.setattr(any_clause_top_k, "_ENTRIES_MIN", 0)
    numbers = {}
    for name in ("block bounds", "bounds of groups"):
        num_scored.clear()
        found = match_text(view, PreparedQuery(query, registry, ENGLISH), None, 5)
        numbers[name] = num_scored[1]
        for mask in (2**64 - 1, 0x5555_5555_5555_5555, 1):
            expect_the_best(view, query, registry, 5, mask)
        BACKGROUND_TASKS.run_all()
    assert found.found.count > 5_000
    if fields == ("a", "b"):
        assert numbers["bounds of groups"] < 0.7 * numbers["block bounds"]
    else:  # without all fields there are none
        assert numbers["bounds of groups"] == numbers["block bounds"]
