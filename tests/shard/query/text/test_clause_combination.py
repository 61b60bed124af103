"""Queries of which some clauses must match: only documents that can be hits are scored."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from numpy.typing import NDArray

from common.analysis.field_classes import FieldClasses
from common.query_syntax_tree import Word
from shard.query.pruning.bit_sliced_bounds import add_up, at_least
from shard.query.scoring.scratch_arrays import SCRATCH
from shard.query.text import clause_combination, text_search
from shard.query.text.clause_evaluation import Evaluation, ScoredDocs
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

    score_any = clause_combination.score_any

    def noting_any(evaluation: Evaluation, docs: NDArray[np.uint32]) -> ScoredDocs:
        num_scored.append(len(docs))
        return score_any(evaluation, docs)

    monkeypatch.setattr(clause_combination, "_add_clause", noting)
    monkeypatch.setattr(clause_combination, "score_any", noting_any)
    found = match_text(view, PreparedQuery(query, registry, FieldClasses()), None, k)
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


@pytest.mark.parametrize("fields", [("a",), ("a", "b")])
@pytest.mark.parametrize("counted_cost", [0, NUM_ITEMS * 10_000], ids=["counted", "bit by bit"])
def test_documents_with_enough_single_terms(
    counted_cost: int, fields: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    choice = random.Random(7)
    words = [a + b for a in "bcdfghjklm" for b in ("aa", "ee", "ii", "oo", "uu", "ya", "ye")]
    items = [
        {name: " ".join(choice.choices(words, range(70, 0, -1), k=8)) for name in ("a", "b")}
        for _ in range(NUM_ITEMS)
    ]
    registry = FieldRegistry()
    view = SegmentView(make_segment(items, registry))
    evaluated: list[Any] = []
    score = Evaluation.score
    monkeypatch.setattr(clause_combination, "_COUNTED_COST", counted_cost)

    def noting(self: Evaluation, *arguments: Any) -> ScoredDocs:
        evaluated.append(arguments)
        return score(self, *arguments)

    monkeypatch.setattr(Evaluation, "score", noting)
    for required, wanted in ((2, words[50:56]), (3, words[:12]), (7, words[30:55])):
        chosen = [*wanted, "nowhere"]
        shape = all_of(*(Word(word) for word in chosen), paths=fields)
        query = make_query({**shape, "required": required}, [view], [registry], NUM_ITEMS)
        for mask in (None, full_bitset(NUM_ITEMS) & np.uint64(0x0F0F_1111_FFFF_0001)):
            evaluated.clear()
            found = match_text(view, PreparedQuery(query, registry, FieldClasses()), mask, None)
            has = np.array(
                [
                    sum(any(word in item[name].split() for name in fields) for word in wanted)
                    for item in items
                ]
            )
            is_hit = has >= required
            if mask is not None:
                is_hit &= np.unpackbits(mask.view(np.uint8), bitorder="little")[:NUM_ITEMS] > 0
            assert found.found.docs.tolist() == np.flatnonzero(is_hit).tolist()
            assert not SCRATCH.counts.any()
            # Few hits are scored in one call, and score what they do one word at a time.
            with monkeypatch.context() as patch:
                patch.setattr(clause_combination, "has_single_terms", lambda _: False)
                assert bool(evaluated) == (is_hit.sum() * 64 >= NUM_ITEMS)
                one_by_one = match_text(
                    view, PreparedQuery(query, registry, FieldClasses()), mask, None
                )
            assert one_by_one.ranked.docs.tolist() == found.ranked.docs.tolist()
            assert one_by_one.ranked.scores is not None
            assert found.ranked.scores is not None
            assert one_by_one.ranked.scores.tolist() == found.ranked.scores.tolist()


def test_the_best_hits_without_excluded_words_are_not_all_scored(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    choice = random.Random(5)
    items = [
        {"a": " ".join(["wide"] + ["often"] * choice.randrange(3) + ["also"] * choice.randrange(3))}
        for _ in range(NUM_ITEMS)
    ]
    registry = FieldRegistry()
    view = SegmentView(make_segment(items, registry))
    shape = {**all_of(Word("wide"), Word("also"), paths=("a",)), "excluded": [Word("often")]}
    query = make_query(shape, [view], [registry], NUM_ITEMS)
    prepared = PreparedQuery(query, registry, FieldClasses())
    expected = match_text(view, prepared, None, None)
    assert expected.ranked.scores is not None

    def score_all(*_: Any) -> None:
        raise AssertionError("all hits are scored")

    monkeypatch.setattr(text_search, "_match", score_all)
    found = match_text(view, prepared, None, 5)
    hits = [
        doc for doc, item in enumerate(items) if "often" not in item["a"] and "also" in item["a"]
    ]
    assert found.found.docs.tolist() == hits
    assert expected.found.docs.tolist() == hits
    scores = dict(zip(expected.ranked.docs.tolist(), expected.ranked.scores.tolist(), strict=True))
    assert found.ranked.scores is not None
    ranked = dict(zip(found.ranked.docs.tolist(), found.ranked.scores.tolist(), strict=True))
    fifth = sorted(scores.values(), reverse=True)[4]
    assert ranked.items() >= {doc: one for doc, one in scores.items() if one >= fifth}.items()
