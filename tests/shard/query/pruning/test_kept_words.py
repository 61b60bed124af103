"""Words that are searched again are answered from what is kept of them, as from their lists."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import NamedTuple

import numpy as np
import pytest
from msgspec import structs

from common.analysis.field_classes import FieldClasses
from common.protocol.messages import FieldWeight, ScoredClause, TextQuery
from common.query_syntax_tree import MatchKind, Word
from shard.caches.lru_cache import WORDS_CACHE
from shard.query.matches import Matches
from shard.query.pruning import kept_words
from shard.query.terms import kept_terms_of_docs
from shard.query.text import clause_evaluation, text_search
from shard.query.text.clause_combination import mark_hits
from shard.query.text.clause_evaluation import Evaluation
from shard.query.text.prepared_query import PreparedQuery
from shard.query.text.strategy import Ranking, choose_strategy
from shard.query.text.text_search import TextMatch, find_text, match_text, match_to_sort
from shard.segment.field_registry import FieldRegistry
from shard.segment.segment import Segment
from shard.segment.snapshot import SegmentView
from tests.shard.query.pruning.best_hits import NUM_DOCS, check, some_docs
from tests.shard.text_model import Lists, make_segment

CLASSES = FieldClasses()
FIELDS = ("text", "title")
REGISTRY = FieldRegistry()
EXACT = {MatchKind.EXACT: 2.0}
TIDE = (Word("tide", is_stemmed=False), EXACT)
FILLER = (Word("filler", is_stemmed=False), EXACT)
SEA = (Word("sea", is_prefix=True, is_stemmed=False), {MatchKind.PREFIX: 1.0})
LAKE = (Word("lake", is_prefix=True, is_stemmed=False), {MatchKind.PREFIX: 1.5})
MISTYPED = (Word("seaob", typos=2, is_stemmed=False), {MatchKind.TYPO_2: 0.5})
TYPED_OR_BEGUN = (SEA[0], EXACT | SEA[1])

Clause = tuple[Word, dict[MatchKind, float]]


class Search(NamedTuple):
    """A text query before it is prepared, which each search does again."""

    clauses: Sequence[Clause]
    averages: float = 20.0
    weight: float = 1.0
    excluded: tuple[Word, ...] = ()

    def prepare(self) -> PreparedQuery:
        scored = tuple(
            ScoredClause(word, (tuple(weights.get(kind, 0.0) for kind in MatchKind),))
            for word, weights in self.clauses
        )
        fields = tuple(FieldWeight(name, self.weight, self.averages) for name in FIELDS)
        query = TextQuery(scored, len(scored), False, self.excluded, fields, 0.9, 0.6, 0.2)
        return PreparedQuery(query, REGISTRY, CLASSES)


def make_items() -> list[dict[str, str]]:
    """Texts in which words with two beginnings are frequent, and two words by themselves."""
    rng = np.random.default_rng(11)
    seas = np.array(["sea", *(f"sea{one}{other}" for one in "abcdefgh" for other in "abcde")])
    lakes = np.array([f"lake{one}" for one in "abcdefgh"])
    items = []
    for doc in range(NUM_DOCS):
        words = ["filler"] * int(rng.integers(1, 20))
        words += rng.choice(seas, int(rng.integers(0, 2))).tolist()
        words += rng.choice(lakes, int(rng.integers(0, 2))).tolist()
        words += ["tide"] * int(rng.integers(0, 2))
        rng.shuffle(words)
        items.append({"text": " ".join(words), "title": "" if doc % 5 else str(rng.choice(seas))})
    return items


@pytest.fixture(scope="module", params=[False, True], ids=["terms", "prefix lists"])
def segment(request: pytest.FixtureRequest) -> Segment:
    """The terms of a beginning have a list together, without a bitset; or each only its own."""
    lists = Lists(entries_min=64, dense_docs_min=1, docs_per_prefix_entry_max=1)
    return make_segment(make_items(), REGISTRY, lists if request.param else Lists())


@pytest.fixture(autouse=True)
def few_entries_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_words, "ENTRIES_MIN", 16)
    monkeypatch.setattr(kept_words, "schedule", lambda key, owner, make: make(owner))
    for key in list(WORDS_CACHE._entries):
        WORDS_CACHE._drop(key)


def unkept(view: SegmentView, search: Search, allowed: np.ndarray | None) -> TextMatch:
    """Return all hits with their scores, as lists tell them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kept_words, "ENTRIES_MIN", 1 << 40)
        return match_text(view, search.prepare(), allowed, None)


def forbid_reading(patch: pytest.MonkeyPatch) -> None:
    """Let every way to read the lists of a word of several terms fail."""
    patch.setattr(clause_evaluation, "add_terms", None)
    patch.setattr(text_search, "best_of_word", None)
    patch.setattr(kept_words, "_sum_up", None)


@pytest.mark.parametrize("k", [1, 10, 900])
@pytest.mark.parametrize("share", [1.0, 0.6, 0.02, 0.0])
@pytest.mark.parametrize(
    "clauses",
    [
        [SEA],
        [MISTYPED],
        [TIDE, SEA],
        [LAKE, SEA],
        [FILLER, LAKE, SEA],
        [MISTYPED, FILLER, TIDE],
    ],
    ids=lambda clauses: " ".join(word.text for word, _ in clauses),
)
def test_a_word_searched_again_is_not_read(
    segment: Segment, clauses: Sequence[Clause], share: float, k: int
) -> None:
    view, allowed, search = SegmentView(segment), some_docs(share), Search(clauses)
    everything = unkept(view, search, allowed)
    check(match_text(view, search.prepare(), allowed, k), everything, k)
    for _ in range(2):
        match_text(view, search.prepare(), None, k)
    with pytest.MonkeyPatch.context() as patch:
        forbid_reading(patch)
        check(match_text(view, search.prepare(), allowed, k), everything, k)


def test_one_search_is_one_search_however_often_it_asks(segment: Segment) -> None:
    search = Search([TIDE, MISTYPED])
    for _ in range(2):
        match_text(SegmentView(segment), search.prepare(), None, 10)
    evaluation = Evaluation(segment, search.prepare())
    assert choose_strategy(evaluation, 10).ranking is Ranking.KEPT_WORDS
    other = Search([TIDE, (MISTYPED[0], {MatchKind.TYPO_2: 0.25})])  # as good as the same
    prepared = other.prepare()
    for _ in range(3):
        again = choose_strategy(Evaluation(segment, prepared), 10)
        assert again.ranking is Ranking.KEPT_WORDS
    fresh = Search([TIDE, (structs.replace(MISTYPED[0], text="seaoc"), MISTYPED[1])]).prepare()
    for _ in range(3):
        strategy = choose_strategy(Evaluation(segment, fresh), 10)
        assert strategy.ranking is not Ranking.KEPT_WORDS


def test_under_other_tf_norms_the_word_is_read_again(segment: Segment) -> None:
    view = SegmentView(segment)
    for averages in np.repeat([20.0, 30.0, 20.0], 3).tolist():
        search = Search([TIDE, MISTYPED], averages)
        check(match_text(view, search.prepare(), None, 10), unkept(view, search, None), 10)


def test_the_same_terms_in_another_tier_score_by_its_weight(segment: Segment) -> None:
    view = SegmentView(segment)
    completed = structs.replace(SEA[0], is_completed=True), {MatchKind.COMPLETION: 2.0}
    for clause in (SEA, completed):
        search = Search([TIDE, clause])
        for _ in range(3):
            check(match_text(view, search.prepare(), None, 10), unkept(view, search, None), 10)


def test_lists_are_read_until_a_word_is_kept(
    segment: Segment, monkeypatch: pytest.MonkeyPatch
) -> None:
    view, search = SegmentView(segment), Search([TIDE, MISTYPED])
    everything = unkept(view, search, None)
    scheduled: dict[Hashable, Callable[[Segment], None]] = {}

    def note(key: Hashable, owner: Segment, make: Callable[[Segment], None]) -> None:
        assert owner is segment
        scheduled[key] = make

    monkeypatch.setattr(kept_words, "schedule", note)
    for _ in range(3):
        check(match_text(view, search.prepare(), None, 10), everything, 10)
    assert len(scheduled) == 1
    # A write comes first: other tf norms count, and these are kept, but not used.
    written = search._replace(averages=30.0)
    match_text(view, written.prepare(), None, 10)
    scheduled.popitem()[1](segment)
    check(match_text(view, written.prepare(), None, 10), unkept(view, written, None), 10)
    ranking = choose_strategy(Evaluation(segment, search.prepare()), 10).ranking
    assert ranking is not Ranking.KEPT_WORDS


def test_tf_norms_that_are_gone_are_not_kept(
    segment: Segment, monkeypatch: pytest.MonkeyPatch
) -> None:
    scheduled: list[Callable[[Segment], None]] = []
    monkeypatch.setattr(kept_words, "schedule", lambda key, owner, make: scheduled.append(make))
    search = Search([TIDE, MISTYPED], averages=50.0)
    for _ in range(2):
        match_text(SegmentView(segment), search.prepare(), None, 10)
    clause_evaluation._kept_tf_norms(segment).clear()
    size = WORDS_CACHE.size
    scheduled[0](segment)
    assert WORDS_CACHE.size == size


def test_a_word_of_several_tiers_is_counted_by_what_is_kept(segment: Segment) -> None:
    view, search = SegmentView(segment), Search([TIDE, TYPED_OR_BEGUN])
    everything = unkept(view, search, None)
    for _ in range(2):
        check(match_text(view, search.prepare(), None, 10), everything, 10)
    with pytest.MonkeyPatch.context() as patch:
        marked: list[int] = []

        def note(evaluation: Evaluation, allowed: np.ndarray) -> np.ndarray:
            patch.setattr(evaluation.lists.__class__, "mark", None)
            marked.append(1)
            return mark_hits(evaluation, allowed)

        patch.setattr(text_search, "mark_hits", note)
        if len(Evaluation(segment, search.prepare()).terms_to_read(SEA[0])) > 1:
            check(match_text(view, search.prepare(), None, 10), everything, 10)
            assert marked


def test_too_many_different_tfs_are_not_kept(
    segment: Segment, monkeypatch: pytest.MonkeyPatch
) -> None:
    view, search = SegmentView(segment), Search([TIDE, MISTYPED])
    everything = unkept(view, search, None)
    monkeypatch.setattr(kept_words, "_CODES_MAX", 3)
    for _ in range(3):
        check(match_text(view, search.prepare(), None, 10), everything, 10)
    assert choose_strategy(Evaluation(segment, search.prepare()), 10).ranking is Ranking.SCORE_ALL


@pytest.mark.parametrize("num_tfs", [0, 1, 1_000, 1 << 16])
def test_each_document_has_the_code_of_its_tf(num_tfs: int) -> None:
    rng = np.random.default_rng(3)
    different = np.unique(rng.integers(0, 1 << 61, num_tfs))
    of_docs = rng.permutation(np.concatenate((different, different[:100])))
    codes, tfs = kept_words._encode(of_docs, 1 << 16)
    assert tfs[codes].tolist() == of_docs.tolist()
    assert len(tfs) == len(different)
    if num_tfs:
        codes, tfs = kept_words._encode(of_docs, num_tfs - 1)
        assert len(codes) == len(tfs) == 0


def test_the_greatest_tfs_are_kept(segment: Segment) -> None:
    view, search = SegmentView(segment), Search([TIDE, MISTYPED], weight=1_000.0)
    everything = unkept(view, search, None)
    for _ in range(3):
        check(match_text(view, search.prepare(), None, 10), everything, 10)


@pytest.mark.parametrize("share", [1.0, 0.3])
@pytest.mark.parametrize(
    "find",
    [
        lambda view, prepared, allowed: match_text(view, prepared, allowed, None).ranked,
        find_text,
        match_to_sort,
    ],
    ids=["all", "counted", "sorted"],
)
def test_other_searches_use_what_is_kept(
    segment: Segment, share: float, find: Callable[..., Matches]
) -> None:
    view, allowed = SegmentView(segment), some_docs(share)
    search = Search([FILLER, MISTYPED], excluded=(LAKE[0],))
    expected = unkept(view, search, allowed).ranked
    for _ in range(3):
        found = find(view, search.prepare(), allowed)
        assert found.docs.tolist() == expected.docs.tolist()
        scores = found.scores
        if find is find_text:
            continue
        if scores is None:
            assert found.scorer is not None
            scores = found.scorer(found.docs)
        assert expected.scores is not None
        assert scores.tolist() == expected.scores.tolist()


@pytest.mark.parametrize("k", [None, 10])
def test_words_are_as_close_as_their_positions_tell(
    k: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A document has several terms of a word, of which any may be the one next to another word."""
    rng = np.random.default_rng(5)
    words = np.array(["tide", "filler", *(f"sea{one}" for one in "abc")])
    items = [
        {"text": " ".join(rng.choice(words, 12)), "title": str(rng.choice(words))}
        for _ in range(500)
    ]
    view = SegmentView(make_segment(items, REGISTRY))
    search = Search([TIDE, SEA, FILLER])
    everything = unkept(view, search, None)
    monkeypatch.setattr(kept_terms_of_docs, "TERMS_MIN", 2)
    monkeypatch.setattr(kept_terms_of_docs, "schedule", lambda key, owner, make: make(owner))
    for _ in range(3):
        check(match_text(view, search.prepare(), None, k), everything, k or 500)
    with pytest.MonkeyPatch.context() as patch:
        read: list[int] = []
        patch.setattr(kept_terms_of_docs, "schedule", lambda *task: read.append(1))
        check(match_text(view, search.prepare(), None, k), everything, k or 500)
        assert not read


@pytest.mark.parametrize("share", [1.0, 0.9])
def test_a_deep_page_of_a_single_term_is_not_computed_twice(
    share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Some 14 documents share each score.
    items = [
        {"text": "tide " * (1 + doc % 7) + "filler " * (doc % 61), "title": ""}
        for doc in range(NUM_DOCS)
    ]
    segment = make_segment(items, REGISTRY)
    monkeypatch.setattr(kept_words, "DEEP_HITS_MIN", 3)
    view, allowed, search = SegmentView(segment), some_docs(share), Search([TIDE])
    everything = unkept(view, search, allowed)
    strategy = choose_strategy(Evaluation(segment, search.prepare()), 9)
    assert strategy.ranking is Ranking.ONE_TERM
    for k in (3, 3, 9, 9):  # more than was kept: again
        check(match_text(view, search.prepare(), allowed, k), everything, k)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_search, "best_of_term", None)
        for k in (9, 8):
            check(match_text(view, search.prepare(), allowed, k), everything, k)
        with pytest.raises(TypeError):  # too few champions pass
            match_text(view, search.prepare(), some_docs(0.02), 9)
        with pytest.raises(TypeError):  # under other tf norms there may be others
            match_text(view, search._replace(averages=40.0).prepare(), None, 9)
        with pytest.raises(TypeError):  # an ordinary page
            match_text(view, search.prepare(), None, 2)
    few = some_docs(0.02)
    check(match_text(view, search.prepare(), few, 9), unkept(view, search, few), 9)


def test_what_does_not_fit_the_cache_is_not_made(
    segment: Segment, monkeypatch: pytest.MonkeyPatch
) -> None:
    view, search = SegmentView(segment), Search([LAKE, MISTYPED])
    everything = unkept(view, search, None)
    monkeypatch.setattr(WORDS_CACHE, "bytes_max", 4_000)
    monkeypatch.setattr(kept_words, "_sum_up", None)
    monkeypatch.setattr(kept_words, "DEEP_HITS_MIN", 1)
    monkeypatch.setattr(kept_terms_of_docs, "TERMS_MIN", 1)
    monkeypatch.setattr(kept_terms_of_docs, "schedule", None)
    for _ in range(4):
        check(match_text(view, search.prepare(), None, 10), everything, 10)
