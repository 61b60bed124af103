"""The best of one word of many terms are those of scoring all; other words narrow it first."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from msgspec import structs

from common.analysis.field_classes import FieldClasses
from common.protocol.messages import FieldWeight, ScoredClause, TextQuery
from common.query_syntax_tree import MatchKind, Word
from shard.query.pruning import expanded_word_top_k, kept_words
from shard.query.text import clause_combination
from shard.query.text.clause_evaluation import Evaluation
from shard.query.text.prepared_query import PreparedQuery
from shard.query.text.strategy import Ranking, choose_strategy
from shard.query.text.text_search import match_text
from shard.segment.field_registry import FieldRegistry
from shard.segment.segment import Segment
from shard.segment.snapshot import SegmentView
from tests.shard.query.pruning.best_hits import NUM_DOCS, check, some_docs
from tests.shard.text_model import make_segment, scores_of

CLASSES = FieldClasses()
FIELDS = ("text", "title", "note")
REGISTRY = FieldRegistry()
PREFIX = {MatchKind.PREFIX: 2.0}
EXACT_OR_COMPLETED = {MatchKind.EXACT: 2.0, MatchKind.COMPLETION: 0.9}
TYPOS = {MatchKind.TYPO_1: 1.5, MatchKind.TYPO_2: 0.5}
SEA = Word("sea", is_prefix=True, is_stemmed=False)
SEA_COMPLETED = Word("sea", is_prefix=True, is_stemmed=False, is_completed=True)
MISTYPED = Word("seaob", typos=2, is_stemmed=False)
MISTYPED_TWICE = Word("seaobq", typos=2, is_stemmed=False)


@pytest.fixture(scope="module")
def segment() -> Segment:
    """Texts in which words with one beginning are frequent, up to three times, in three fields."""
    rng = np.random.default_rng(7)
    words = np.array(["sea", *(f"sea{one}{other}" for one in "abcdefgh" for other in "abcde")])
    items = []
    for doc in range(NUM_DOCS):
        seas = rng.choice(words, int(rng.integers(0, 3)) if doc % 9 else 6).tolist()
        text = ["filler"] * int(rng.integers(1, 40)) + seas * int(rng.integers(1, 4))
        item = {"text": " ".join(text), "title": "tide" if doc % 3 else str(rng.choice(words))}
        if doc % 7 == 0:  # a field that few documents have
            item["note"] = f"note {rng.choice(words)}"
        items.append(item)
    return make_segment(items, REGISTRY)


@pytest.fixture(autouse=True)
def no_word_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Words are read from their lists, however often they are searched."""
    monkeypatch.setattr(kept_words, "ENTRIES_MIN", 1 << 40)


def prepare(
    clauses: Sequence[tuple[Word, dict[MatchKind, float]]],
    fields: Sequence[str] = FIELDS,
    averages: float = 20.0,
) -> PreparedQuery:
    scored = tuple(
        ScoredClause(word, (tuple(weights.get(kind, 0.0) for kind in MatchKind),))
        for word, weights in clauses
    )
    weights = tuple(FieldWeight(name, 1.0 + i, averages) for i, name in enumerate(fields))
    query = TextQuery(scored, len(scored), False, (), weights, 0.9, 0.6, 0.2)
    return PreparedQuery(query, REGISTRY, CLASSES)


@pytest.mark.parametrize("k", [1, 10, 100, 900])
@pytest.mark.parametrize("share", [1.0, 0.6, 0.02, 0.0])
@pytest.mark.parametrize(
    ("word", "weights"),
    [(SEA, PREFIX), (SEA_COMPLETED, EXACT_OR_COMPLETED), (MISTYPED, TYPOS)],
)
def test_the_best_of_a_word_of_many_terms_are_those_of_all(
    segment: Segment,
    word: Word,
    weights: dict[MatchKind, float],
    share: float,
    k: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(expanded_word_top_k, "ENTRIES_MIN", 100)
    monkeypatch.setattr(expanded_word_top_k, "_ENTRIES_PER_HIT", 1)
    view, allowed = SegmentView(segment), some_docs(share)
    prepared = prepare([(word, weights)])
    strategy = choose_strategy(Evaluation(segment, prepared), k)
    assert strategy.ranking is Ranking.ONE_WORD
    everything = match_text(view, prepare([(word, weights)]), allowed, None)
    check(match_text(view, prepared, allowed, k), everything, k)


def test_few_documents_are_scored(segment: Segment, monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at: list[int] = []

    def note(segment: Segment) -> list[int]:
        codes = least_codes(segment)
        looked_at.append(len(codes))
        return codes

    least_codes = expanded_word_top_k._least_codes
    monkeypatch.setattr(expanded_word_top_k, "_least_codes", note)
    prepared = prepare([(SEA, PREFIX)])
    best = match_text(SegmentView(segment), prepared, None, 10)
    assert looked_at == [len(FIELDS)]
    assert best.found.count > 3_000
    assert len(best.ranked.docs) < 100


@pytest.mark.parametrize(
    ("clauses", "fields", "k"),
    [
        ([(SEA, PREFIX)], ("text", "title"), 10),  # a field does not count
        ([(SEA, PREFIX)], FIELDS, 1_000),  # a deep page
        ([(SEA, PREFIX), (Word("tide", is_stemmed=False), {MatchKind.EXACT: 1.0})], FIELDS, 10),
    ],
)
def test_other_searches_do_without(
    segment: Segment,
    clauses: list[tuple[Word, dict[MatchKind, float]]],
    fields: Sequence[str],
    k: int,
) -> None:
    prepared = prepare(clauses, fields)
    strategy = choose_strategy(Evaluation(segment, prepared), k)
    assert strategy.ranking is not Ranking.ONE_WORD
    everything = match_text(SegmentView(segment), prepare(clauses, fields), None, None)
    check(match_text(SegmentView(segment), prepared, None, k), everything, k)


@pytest.mark.parametrize("k", [None, 5])
@pytest.mark.parametrize("share", [1.0, 0.3])
@pytest.mark.parametrize(
    "word",
    [
        structs.replace(SEA, text="seaa"),
        structs.replace(SEA_COMPLETED, text="seaa"),
        MISTYPED_TWICE,
    ],
)
def test_a_word_that_others_narrow_scores_what_it_scores_alone(
    segment: Segment, word: Word, share: float, k: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    weights = PREFIX | EXACT_OR_COMPLETED | TYPOS
    clauses = [(word, weights), (Word("filler", is_stemmed=False), {MatchKind.EXACT: 1.0})]
    view, allowed = SegmentView(segment), some_docs(share)
    monkeypatch.setattr(clause_combination, "_MARKED_ENTRIES_MIN", 1 << 40)
    expected = match_text(view, prepare(clauses), allowed, k)
    monkeypatch.setattr(clause_combination, "_MARKED_ENTRIES_MIN", 1)
    marked: list[Evaluation] = []
    mark_hits = clause_combination.mark_hits

    def note(evaluation: Evaluation, allowed: np.ndarray) -> np.ndarray:
        marked.append(evaluation)
        return mark_hits(evaluation, allowed)

    monkeypatch.setattr(clause_combination, "mark_hits", note)
    found = match_text(view, prepare(clauses), allowed, k)
    assert marked
    assert found.found.docs.tolist() == expected.found.docs.tolist()
    assert found.ranked.docs.tolist() == expected.ranked.docs.tolist()
    assert scores_of(found) == scores_of(expected)
