"""Pruned top k equals the top k of scoring all documents."""

from __future__ import annotations

import gc
import weakref

import msgspec
import numpy as np
import pytest

from common.analysis.field_classes import FieldClasses
from common.protocol.messages import FieldWeight, ScoredClause, TextQuery
from common.query_syntax_tree import NUM_MATCH_KINDS, Phrase, Word
from shard.caches.background_derivation import BACKGROUND_TASKS
from shard.query.proximity.occurrences import WordTerms
from shard.query.pruning.max_score_disjunction import best_of_any, pays_off
from shard.query.pruning.score_bounds import find_bounds
from shard.query.pruning.single_term_top_k import (
    DEEP_HITS_MIN,
    NUM_CHAMPIONS,
    best_of_term,
    choose_pruning,
)
from shard.query.scoring.bm25f import FieldTfNorms
from shard.query.scoring.top_k_selection import kth_greatest, pick
from shard.query.text import any_clause_top_k
from shard.query.text.clause_evaluation import Evaluation, as_terms
from shard.query.text.prepared_query import PreparedQuery
from shard.query.text.strategy import Ranking, choose_strategy
from shard.query.text.text_search import best_hits, match_text
from shard.segment.doc_sets import NO_BITS
from shard.segment.field_registry import FieldRegistry
from shard.segment.segment import Segment
from shard.segment.snapshot import SegmentView
from tests.shard.text_model import make_segment, scores_of

NUM_DOCS = 8_000
CLASSES = FieldClasses()


@pytest.fixture(scope="module")
def registry() -> FieldRegistry:
    return FieldRegistry()


@pytest.fixture(scope="module")
def segment(registry: FieldRegistry) -> Segment:
    """Texts of random lengths, with `sea` up to five times in them, and in some titles."""
    rng = np.random.default_rng(7)
    items = []
    for _ in range(NUM_DOCS):
        words = ["filler"] * int(rng.integers(1, 60)) + ["sea"] * int(rng.integers(0, 6))
        title = "sea" if rng.random() < 0.02 else "tide"
        items.append({"text": " ".join(words), "title": title})
    return make_segment(items, registry)


def make_query(
    text: str, averages: tuple[float, float] = (30.0, 1.0), k1: float = 0.9
) -> TextQuery:
    """Return a query of words; one that ends with ~ says little."""
    clauses = tuple(
        ScoredClause(
            Word(word.rstrip("~"), is_stemmed=False),
            ((0.004 if word[-1] == "~" else 2.0, *[0.0] * (NUM_MATCH_KINDS - 1)),),
        )
        for word in text.split()
    )
    fields = (FieldWeight("text", 1.0, averages[0]), FieldWeight("title", 3.0, averages[1]))
    return TextQuery(clauses, len(clauses), False, (), fields, k1, 0.6, 0.2)


def bits_of(docs: np.ndarray) -> np.ndarray:
    bits = np.zeros((NUM_DOCS + 63) >> 6, np.uint64)
    np.bitwise_or.at(bits, docs >> 6, np.uint64(1) << (docs & 63).astype(np.uint64))
    return bits


@pytest.mark.parametrize("k", [1, 10, 20, DEEP_HITS_MIN, 300, 800])
@pytest.mark.parametrize("share", [1.0, 0.5, 0.01, 0.0])
def test_the_best_of_a_term_are_those_of_the_whole_list(
    segment: Segment, registry: FieldRegistry, k: int, share: float
) -> None:
    view = SegmentView(segment)
    allowed = None
    if share < 1.0:
        chance = np.random.default_rng(k).random(NUM_DOCS)
        allowed = bits_of(np.flatnonzero(chance < share))
    # Averages that drift a little (bounds are kept), then a lot (they are recomputed).
    for averages in ((30.0, 1.0), (30.05, 1.0), (29.95, 1.0), (11.0, 1.5), (30.0, 1.0)):
        query = make_query("sea", averages)
        everything = match_text(view, PreparedQuery(query, registry, CLASSES), allowed, None)
        match_text(view, PreparedQuery(query, registry, CLASSES), allowed, k)
        BACKGROUND_TASKS.run_all()
        best = match_text(view, PreparedQuery(query, registry, CLASSES), allowed, k)
        assert best.found.count == everything.found.count
        assert best.found.docs.tolist() == everything.found.docs.tolist()
        scores = dict(zip(everything.ranked.docs.tolist(), scores_of(everything), strict=True))
        ranked = best.ranked.docs.tolist()
        assert [scores[doc] for doc in ranked] == scores_of(best)
        worst = min(sorted(scores.values(), reverse=True)[:k], default=0.0)
        assert {doc for doc, score in scores.items() if score >= worst} <= set(ranked)


def test_most_of_a_long_list_is_left_out(segment: Segment, registry: FieldRegistry) -> None:
    query = make_query("sea")
    evaluation = Evaluation(segment, PreparedQuery(query, registry, CLASSES))
    single = evaluation.single(query.clauses[0].clause, query.clauses[0].weights)
    assert single is not None
    pruning = choose_pruning(evaluation.lists, single.term, single.mask, 3)
    assert pruning is not None
    docs, _ = best_of_term(evaluation.lists, single.term, single.weight, pruning, NO_BITS, 3)
    assert len(docs) < NUM_DOCS / 4


def test_champions_answer_instead_of_the_list(segment: Segment, registry: FieldRegistry) -> None:
    """From the second search of a term on, if enough of them pass; until tf norms change."""
    view = SegmentView(segment)

    def search(averages: tuple[float, float], allowed: np.ndarray | None, k: int) -> list[int]:
        prepared = PreparedQuery(make_query("sea", averages), registry, CLASSES)
        ranked: list[int] = match_text(view, prepared, allowed, k).ranked.docs.tolist()
        return ranked

    averages = (17.0, 1.0)
    search(averages, None, 10)
    prepared = PreparedQuery(make_query("sea", averages), registry, CLASSES)
    evaluation = Evaluation(segment, prepared)
    bounds = find_bounds(segment, evaluation.fields.choice)
    assert bounds is not None
    term = evaluation.singles[0].term
    assert bounds.champions[term].champions is None
    num_bytes = bounds.num_bytes
    expected = search(averages, None, 10)
    champions = bounds.champions[term].champions
    assert champions is not None
    assert 10 <= len(champions.docs) < NUM_CHAMPIONS + 1
    assert champions.tfs.min() > champions.reach
    assert bounds.num_bytes == num_bytes + champions.docs.nbytes + champions.tfs.nbytes

    # What the list says does not matter: with other champions, there are other hits.
    others = champions._replace(docs=champions.docs[::-1].copy() + 1)
    bounds.champions[term] = bounds.champions[term]._replace(champions=others)
    assert search(averages, None, 10) != expected
    bounds.champions[term] = bounds.champions[term]._replace(champions=champions)
    assert search(averages, bits_of(champions.docs), 10) == expected
    # Where few champions pass, the list is read.
    few = bits_of(np.concatenate((champions.docs[:5], np.arange(100, dtype=np.uint32))))
    found = search(averages, few, 10)
    assert len(found) >= 10
    assert set(champions.docs[:5].tolist()) <= set(found)
    # Other averages, for which the bounds still serve.
    search((17.01, 1.0), None, 10)
    assert find_bounds(segment, evaluation.fields.choice) is bounds
    assert bounds.champions[term].champions is None


def test_the_documents_of_several_terms_are_those_that_have_all(
    segment: Segment, registry: FieldRegistry
) -> None:
    view = SegmentView(segment)
    sea, tide, both = (
        match_text(view, PreparedQuery(make_query(text), registry, CLASSES), None, None)
        for text in ("sea", "tide", "sea tide filler")
    )
    expected = set(sea.found.docs.tolist()) & set(tide.found.docs.tolist())
    assert both.found.docs.tolist() == sorted(expected)
    few = match_text(view, PreparedQuery(make_query("sea tide filler"), registry, CLASSES), None, 5)
    best = sorted(scores_of(both), reverse=True)[:5]
    assert sorted(scores_of(few), reverse=True)[:5] == best
    assert few.found.docs.tolist() == both.found.docs.tolist()


@pytest.fixture(scope="module")
def common(registry: FieldRegistry) -> Segment:
    """Texts of random lengths in which four words are common, and some stand together."""
    rng = np.random.default_rng(11)
    words = np.array(["sea", "tide", "moon", "salt", "filler"])
    items = []
    for _ in range(3 * NUM_DOCS):
        size = int(rng.integers(2, 50))
        text = rng.choice(words, size, p=(0.08, 0.06, 0.04, 0.002, 0.818))
        items.append({"text": " ".join(text), "title": str(rng.choice(words))})
    return make_segment(items, registry)


@pytest.mark.parametrize("share", [1.0, 0.6])
@pytest.mark.parametrize(
    "text",
    [
        *("sea tide", "tide sea~", "tide sea moon", "moon salt", "sea tide moon salt"),
        "salt filler sea tide sea~ moon",
    ],
)
@pytest.mark.parametrize("needs_all", [True, False])
def test_the_best_of_several_terms_are_those_of_all(
    common: Segment, registry: FieldRegistry, text: str, share: float, *, needs_all: bool
) -> None:
    view = SegmentView(common)
    allowed = None
    if share < 1.0:
        chance = np.random.default_rng(len(text)).random(common.num_docs)
        allowed = np.zeros((common.num_docs + 63) >> 6, np.uint64)
        docs = np.flatnonzero(chance < share)
        np.bitwise_or.at(allowed, docs >> 6, np.uint64(1) << (docs & 63).astype(np.uint64))
    # Averages that drift a little (bounds are kept), then a lot (they are recomputed), as k1 does.
    for *averages, k1 in (
        *((30.0, 1.0, 0.9), (30.05, 1.0, 0.9), (29.95, 1.0, 0.9)),
        *((11.0, 1.5, 0.9), (11.0, 1.5, 3.0), (11.0, 1.5, 0.2)),
    ):
        query = make_query(text, (averages[0], averages[1]), k1)
        if not needs_all:
            query = msgspec.structs.replace(query, required=1)
        prepared = PreparedQuery(query, registry, CLASSES)
        everything = match_text(view, prepared, allowed, None)
        scores = dict(zip(everything.ranked.docs.tolist(), scores_of(everything), strict=True))
        descending = sorted(scores.values(), reverse=True)
        for k in (1, 10, 37, 150):
            worst = min(descending[:k], default=0.0)
            wanted = {doc for doc, score in scores.items() if score >= worst}
            for _ in range(2):  # without bounds, and with those that this schedules
                best = match_text(view, prepared, allowed, k)
                assert best.found.count == everything.found.count
                assert np.array_equal(best.found.docs, everything.found.docs)
                ranked = best.ranked.docs.tolist()
                assert [scores[doc] for doc in ranked] == scores_of(best)
                assert wanted <= set(ranked)
                BACKGROUND_TASKS.run_all()


@pytest.mark.parametrize(
    ("text", "required", "k"),
    [("tide sea", 2, 3), ("sea", 1, DEEP_HITS_MIN), ("tide sea", 1, 3)],
)
def test_bounds_say_which_documents_are_scored(
    common: Segment, registry: FieldRegistry, text: str, required: int, k: int
) -> None:
    query = msgspec.structs.replace(make_query(text), required=required)
    prepared = PreparedQuery(query, registry, CLASSES)
    evaluation = Evaluation(common, prepared)
    match_text(SegmentView(common), prepared, None, k)
    BACKGROUND_TASKS.run_all()
    all_bounds = find_bounds(common, evaluation.fields.choice)
    assert all_bounds is not None
    bounds = all_bounds.of_groups
    assert bounds.is_known.any()
    _, best, scores, _ = best_hits(choose_strategy(evaluation, k), NO_BITS, k)
    everything = match_text(SegmentView(common), prepared, None, None)
    assert len(best) < everything.found.count / 10
    first = int(best[np.argmax(scores)])

    codes = bounds.codes.reshape(len(bounds.is_known), -1)
    kept = codes[:, first >> 4].copy()
    codes[:, first >> 4] = 0
    try:
        others = best_hits(choose_strategy(evaluation, k), NO_BITS, k)
    finally:
        codes[:, first >> 4] = kept

    assert first not in others.ranked


def test_few_documents_with_any_of_some_terms_are_scored(
    common: Segment, registry: FieldRegistry
) -> None:
    query = msgspec.structs.replace(make_query("sea moon"), required=1, proximity=0.0)
    evaluation = Evaluation(common, PreparedQuery(query, registry, CLASSES))
    singles = [one.single for one in evaluation.plans if one.single is not None]
    words, docs, _ = best_of_any(
        evaluation.lists, as_terms(singles), NO_BITS, evaluation.proximity, 3
    )
    assert len(docs) < np.bitwise_count(words).sum() / 20


def test_proximity_adds_only_what_the_pairs_of_a_document_can_score(
    common: Segment, registry: FieldRegistry
) -> None:
    query = msgspec.structs.replace(make_query("sea salt tide moon filler"), required=1)
    evaluation = Evaluation(common, PreparedQuery(query, registry, CLASSES))
    terms = as_terms([one.single for one in evaluation.plans if one.single is not None])
    _, docs, _ = best_of_any(evaluation.lists, terms, NO_BITS, evaluation.proximity, 3)
    # Words without terms may be in any document.
    lists = evaluation.proximity.lists
    read = lists.read
    no_terms = WordTerms(read.terms[:0], read.masks[:0], read.words[:0])
    unknown = evaluation.proximity._replace(lists=lists._replace(read=no_terms))
    _, more, _ = best_of_any(evaluation.lists, terms, NO_BITS, unknown, 3)
    assert set(docs.tolist()) < set(more.tolist())
    assert len(docs) < len(more) / 4


@pytest.mark.parametrize(
    ("num_terms", "num_entries", "expected"),
    [
        (3, 100_000, True),
        (3, 1_000, False),  # short lists are scored sooner than bitsets of all are combined
        (8, 1_000_000, True),
        (9, 10_000_000, False),
    ],
)
def test_bitsets_are_combined_where_that_is_less_than_scoring_all(
    num_terms: int, num_entries: int, *, expected: bool
) -> None:
    assert pays_off(1_000_000, num_terms, num_entries) is expected


@pytest.mark.parametrize(
    ("text", "k", "ranking"),
    [
        ("sea", 3, Ranking.ONE_TERM),
        ("sea", NUM_DOCS, Ranking.SCORE_ALL),
        ("sea tide", 3, Ranking.SEVERAL_TERMS),
        ("sea", None, Ranking.SCORE_ALL),
        ('"sea tide"', 3, Ranking.SCORE_ALL),
        ("sea or tide", 3, Ranking.ANY_TERM),
        ("sea or tide", None, Ranking.SCORE_ALL),
        ("sea or tide or moon or filler", 3, Ranking.ANY_TERM),
        ("sea or tide or moon or salt or filler", 3, Ranking.ANY_CLAUSE),
        ("sea or tide or moon or salt or filler or nothing", 3, Ranking.ANY_CLAUSE),
        ("nothing or nowhere", 3, Ranking.SCORE_ALL),
    ],
)
def test_strategy_follows_from_the_query(
    common: Segment, registry: FieldRegistry, text: str, k: int | None, ranking: Ranking
) -> None:
    query = make_query(text.strip('"').replace(" or ", " "))
    if " or " in text:
        query = msgspec.structs.replace(query, required=1)
    if text.startswith('"'):
        weights = query.clauses[0].weights * 2
        phrase = ScoredClause(Phrase(("sea", "tide")), weights)
        query = msgspec.structs.replace(query, clauses=(phrase,), required=1)
    evaluation = Evaluation(common, PreparedQuery(query, registry, CLASSES))
    assert choose_strategy(evaluation, k).ranking is ranking


def test_few_entries_of_several_words_are_not_worth_sums_of_bounds(
    common: Segment, registry: FieldRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(any_clause_top_k, "_ENTRIES_MIN", 1_000_000)
    query = msgspec.structs.replace(make_query("sea tide moon salt filler"), required=1)
    evaluation = Evaluation(common, PreparedQuery(query, registry, CLASSES))
    assert choose_strategy(evaluation, 3).ranking is Ranking.ANY_TERM


@pytest.mark.parametrize("kind", ["few values", "many values", "equal", "ascending", "descending"])
def test_the_kth_greatest_and_those_that_reach_it(kind: str) -> None:
    rng = np.random.default_rng(3)
    scores = {
        "few values": rng.integers(0, 50, 1_000),
        "many values": rng.integers(-(1 << 60), 1 << 60, 1_000),
        "equal": np.full(1_000, 7),
        "ascending": np.arange(1_000),
        "descending": np.arange(1_000)[::-1].copy(),
    }[kind]
    docs = np.arange(1_000, dtype=np.uint32)
    for k in (1, 7, 128, 129, 500, 999, 1_000):
        worst = kth_greatest(scores, k)
        assert worst == np.sort(scores)[-k]
        picked, picked_scores = pick(docs, scores, worst, 45, scores)
        expected = np.flatnonzero((scores >= worst) & (scores <= 45))
        assert picked.tolist() == expected.tolist()
        assert picked_scores.tolist() == scores[expected].tolist()


def test_compared_tf_norms_do_not_keep_each_other(registry: FieldRegistry) -> None:
    segment = make_segment([{"text": "sea", "title": "tide"}], registry)
    first, second = (
        Evaluation(segment, PreparedQuery(make_query("sea", averages), registry, CLASSES)).fields
        for averages in ((30.0, 1.0), (11.0, 1.5))
    )
    assert first is not second
    assert first.drift_from(second) != 1.0
    assert second.drift_from(first) != 1.0
    assert not any(isinstance(one, FieldTfNorms) for one in gc.get_referents(first, second))
    held = [one for one in gc.get_referents(first, second) if isinstance(one, tuple)]
    assert not any(one is first or one is second for pair in held for one in pair)


def test_tf_norms_compared_by_another_thread_meanwhile_do_not_change_the_drift(
    registry: FieldRegistry,
) -> None:
    segment = make_segment([{"text": "sea", "title": "tide"}], registry)
    first, second = (
        Evaluation(segment, PreparedQuery(make_query("sea", averages), registry, CLASSES)).fields
        for averages in ((30.0, 1.0), (11.0, 1.5))
    )

    class Interrupted(weakref.ref[FieldTfNorms]):
        def __call__(self) -> FieldTfNorms:
            first._drift = weakref.ref(first), 99.0
            return second

    first._drift = Interrupted(second), 7.0
    assert first.drift_from(second) == 7.0
