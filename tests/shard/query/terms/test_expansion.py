"""Cached expansions are bounded in bytes, whatever is typed."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from common.analysis import stemmer
from common.analysis.field_classes import FieldClasses
from common.protocol.messages import FieldWeight, ScoredClause, TextQuery
from common.query_syntax_tree import NUM_MATCH_KINDS, MatchKind, Word
from shard.caches.key_sizes import bytes_of
from shard.caches.query_cache import ENTRY_BYTES, QueryCacheBudget
from shard.query.scoring.bm25f import NUM_TIERS
from shard.query.terms import expansion, stem_classes
from shard.query.terms.expansion import expand_word, expansions_of
from shard.query.text.prepared_query import PreparedQuery
from shard.query.text.score_explanation import explain_score
from shard.query.text.text_search import match_text
from shard.segment.field_registry import FieldRegistry
from shard.segment.segment import Segment
from shard.segment.snapshot import SegmentView
from shard.segment.text.text_index import text_index
from tests.shard.text_model import make_segment

CLASSES = FieldClasses()
LETTERS = "abcdefgh"
BYTES_MAX = 64 * 1024


def make_words() -> Segment:
    words = ["".join(letters) for letters in itertools.product(LETTERS, repeat=4)]
    return make_segment([{"text": " ".join(words)}], FieldRegistry())


@pytest.fixture
def budget(monkeypatch: pytest.MonkeyPatch) -> QueryCacheBudget:
    budget = QueryCacheBudget(BYTES_MAX)
    monkeypatch.setattr(expansion, "QUERY_CACHE_BUDGET", budget)
    monkeypatch.setattr(stem_classes, "QUERY_CACHE_BUDGET", budget)
    return budget


def test_memory_of_expansions_is_bounded_over_all_segments(budget: QueryCacheBudget) -> None:
    segments = [make_words() for _ in range(3)]
    beginnings = [
        *LETTERS,
        *map("".join, itertools.product(LETTERS, repeat=2)),
        *map("".join, itertools.product(LETTERS, repeat=3)),
    ]
    most = 0
    for turn in range(2):
        for segment, beginning in itertools.product(segments, beginnings):
            word = Word(beginning, is_prefix=True, typos=turn)
            found = expand_word(segment, word, CLASSES)
            again = expand_word(segment, word, CLASSES)
            assert np.array_equal(found.terms, again.terms)
            caches = [expansions_of(one) for one in segments]
            kept = [entry for cache in caches for entry in cache.items()]
            sizes = [bytes_of(key[0]) + value.num_bytes for key, value in kept]
            held = sum(sizes) + len(kept) * ENTRY_BYTES
            assert held == budget.size <= BYTES_MAX
            most = max(most, held)
    assert most > BYTES_MAX // 2, "nothing is remembered"


def test_one_that_is_larger_than_half_the_budget_is_not_kept(budget: QueryCacheBudget) -> None:
    segment = make_words()
    budget.bytes_max = 10_000
    assert len(expand_word(segment, Word("a", is_prefix=True), CLASSES)) == 512
    assert not expansions_of(segment)
    expand_word(segment, Word("abc", is_prefix=True), CLASSES)
    assert len(expansions_of(segment)) == 1


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        (Word("case"), {"case": "EXACT", "cases": "STEM", "casing": "STEM"}),
        (
            Word("case", is_prefix=True),
            {"case": "EXACT", "cases": "COMPLETION_STEM", "casing": "STEM", "casework": "PREFIX"},
        ),
        (
            Word("cases", is_prefix=True),
            {"cases": "EXACT", "case": "STEM", "casing": "STEM"},
        ),
    ],
)
def test_forms_that_a_half_typed_word_begins_are_a_kind_of_their_own(
    word: Word, expected: dict[str, str]
) -> None:
    segment = make_segment([{"text": "case cases casing casework castle"}], FieldRegistry())
    found = expand_word(segment, word, FieldClasses("english"))
    vocabulary = text_index(segment).vocabulary
    kinds = zip(found.terms.tolist(), found.kinds.tolist(), strict=True)
    assert {vocabulary.term(term): MatchKind(kind).name for term, kind in kinds} == expected


def test_terms_of_a_few_letters_are_stemmed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A half-typed word of a few letters is expanded several times per search, never cached."""
    words = ["".join(letters) for letters in itertools.product("abcdefghijklmnop", repeat=3)]
    texts = " ".join(f"li{word} li{word}s" for word in words) + " li lis lied"
    segment = make_segment([{"text": texts}], FieldRegistry())
    english = FieldClasses("english")
    stemmed = []

    def stem_all(texts: list[str], language: str) -> list[str]:
        stemmed.append(len(texts))
        return stemmer.stem_all(texts, language)

    monkeypatch.setattr(stem_classes, "stem_all", stem_all)
    found = [expand_word(segment, Word("li", is_prefix=True), english) for _ in range(3)]

    assert not expansions_of(segment)
    assert stemmed == [2 * len(words) + 3]
    forms = {one for one in texts.split() if stemmer.stem(one, "english") == "li"}
    vocabulary = text_index(segment).vocabulary
    for one in found:
        assert one.terms.tolist() == found[0].terms.tolist()
        is_form = one.kinds <= MatchKind.STEM
        assert {vocabulary.term(term) for term in one.terms[is_form].tolist()} == forms
    assert len(forms) > 2


def test_a_search_looks_up_the_terms_of_a_few_letters_once(monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["".join(letters) for letters in itertools.product("abcdefghijklmnopq", repeat=3)]
    items = [{"text": f"sea x{one} x{other}"} for one, other in itertools.pairwise(words)]
    registry = FieldRegistry()
    segment = make_segment(items, registry)
    looked_up = []
    expand = expansion._expand

    def counted(segment: Segment, word: Word, classes: FieldClasses) -> Any:
        looked_up.append(word.text)
        return expand(segment, word, classes)

    monkeypatch.setattr(expansion, "_expand", counted)
    weights = [0.0] * NUM_MATCH_KINDS
    weights[MatchKind.EXACT], weights[MatchKind.PREFIX] = 2.0, 1.0
    clauses = [ScoredClause(Word(text, is_prefix=True), (tuple(weights),)) for text in ("sea", "x")]
    query = TextQuery(tuple(clauses), 2, False, (), (FieldWeight("text", 1.0, 3.0),), 0.9, 0.6, 0.2)
    prepared = PreparedQuery(query, registry, CLASSES)
    view = SegmentView(segment)
    ranked = match_text(view, prepared, None, 10).ranked
    for doc in ranked.docs[:5].tolist():
        assert explain_score(view, prepared, doc)["parts"]

    assert len(ranked.docs) >= 10
    assert looked_up.count("x") <= NUM_TIERS
