"""Text search against comparing every document; the same scores however items are spread."""

from __future__ import annotations

import random
from collections.abc import Callable, Hashable
from itertools import product
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from numpy.typing import NDArray
from pyroaring import FrozenBitMap

from common.analysis.field_classes import FieldClass, FieldClasses
from common.protocol.messages import FieldWeight, ScoredClause, TextQuery
from common.query_syntax_tree import NUM_MATCH_KINDS, MatchKind, Phrase, Word
from shard.caches.query_cache import QUERY_CACHE_BUDGET
from shard.query.bm25_statistics.segment_statistics import doc_freqs
from shard.query.postings.term_lists import TermLists
from shard.query.pruning import expanded_word_top_k, kept_words
from shard.query.terms import kept_terms_of_docs
from shard.query.text import text_search
from shard.query.text.clause_evaluation import Evaluation
from shard.query.text.prepared_query import PreparedQuery
from shard.query.text.score_explanation import explain_score
from shard.query.text.text_search import find_text, match_among, match_text, match_to_sort
from shard.segment.doc_sets import bitset_of, full_bitset
from shard.segment.field_registry import FieldRegistry
from shard.segment.segment import Segment
from shard.segment.snapshot import SegmentView
from tests.shard.query.text.naive_text_search import (
    ENGLISH,
    ITEMS,
    K1,
    LISTS,
    B,
    NaiveSearch,
    all_of,
    make_query,
    queries,
)
from tests.shard.text_model import (
    Lists,
    make_segment,
    scores_of,
)


@given(ITEMS, queries(), LISTS)
def test_finds_and_scores_what_comparing_every_document_does(
    items: list[dict[str, Any]], shape: dict[str, Any], lists: Lists
) -> None:
    registry = FieldRegistry()
    view = SegmentView(make_segment(items, registry, lists))
    query = make_query(shape, [view], [registry], len(items))
    match = match_text(view, PreparedQuery(query, registry, ENGLISH), None, None)

    expected = NaiveSearch(items, query.fields).search(query)
    assert dict(zip(match.ranked.docs.tolist(), scores_of(match), strict=True)) == expected
    for doc, score in expected.items():
        explanation = explain_score(view, PreparedQuery(query, registry, ENGLISH), doc)
        assert explanation["score"] == score
        assert sum(part["score"] for part in reversed(explanation["parts"])) == score


@given(ITEMS, queries(), LISTS, st.data())
def test_scores_do_not_depend_on_segments_deletions_and_field_numbers(
    items: list[dict[str, Any]], shape: dict[str, Any], lists: Lists, data: st.DataObject
) -> None:
    is_live = data.draw(st.lists(st.booleans(), min_size=len(items), max_size=len(items)))
    live = [item for item, one in zip(items, is_live, strict=True) if one]
    registry = FieldRegistry()
    whole = SegmentView(make_segment(live, registry))
    query = make_query(shape, [whole], [registry], len(live))
    match = match_text(whole, PreparedQuery(query, registry, ENGLISH), None, None)

    cut = data.draw(st.integers(0, len(items)))
    views = []
    registries = []
    for start, end, paths in ((0, cut, "cba"), (cut, len(items), "x")):
        registries.append(FieldRegistry(paths))
        deleted = FrozenBitMap(i - start for i in range(start, end) if not is_live[i])
        segment = make_segment(items[start:end], registries[-1], lists)
        views.append(SegmentView(segment, deleted if len(deleted) else None))
    split_query = make_query(shape, views, registries, len(live))
    assert split_query == query
    scores: list[float] = []
    docs: list[int] = []
    for view, own, start in zip(views, registries, (0, cut), strict=True):
        found = match_text(view, PreparedQuery(split_query, own, ENGLISH), view.live_mask, None)
        docs += [start + doc for doc in found.found.docs.tolist()]
        scores += scores_of(found)
    renumbered = [i for i, one in enumerate(is_live) if one]
    assert docs == [renumbered[doc] for doc in match.found.docs.tolist()]
    assert scores == scores_of(match)


@given(ITEMS, queries(), LISTS, st.integers(0, 2**10))
def test_among_some_documents_are_the_hits_of_all_with_the_same_scores(
    items: list[dict[str, Any]], shape: dict[str, Any], lists: Lists, mask: int
) -> None:
    registry = FieldRegistry()
    view = SegmentView(make_segment(items, registry, lists))
    prepared = PreparedQuery(make_query(shape, [view], [registry], len(items)), registry, ENGLISH)
    everything = match_text(view, prepared, None, None)
    scores = dict(zip(everything.found.docs.tolist(), scores_of(everything), strict=True))
    some = np.array([doc for doc in range(len(items)) if mask >> doc & 1], np.uint32)

    docs, own = match_among(view, prepared, some)

    assert docs.tolist() == [doc for doc in some.tolist() if doc in scores]
    assert own.tolist() == [scores[doc] for doc in docs.tolist()]


def test_hits_that_are_only_counted_are_not_scored(monkeypatch: pytest.MonkeyPatch) -> None:
    registry = FieldRegistry()
    items = [{"a": text} for text in ("sea tide", "tide sea", "sea", "moon")]
    view = SegmentView(make_segment(items, registry))

    def count(shape: dict[str, Any], allowed: NDArray[np.uint64] | None = None) -> int:
        query = make_query(shape, [view], [registry], len(items))
        return find_text(view, PreparedQuery(query, registry, ENGLISH), allowed).count

    sea, tide = Word("sea"), Word("tide")
    with monkeypatch.context() as patch:
        patch.setattr(TermLists, "match", None)  # the number of documents of one term is stored
        assert count(all_of(sea, paths=("a",))) == 3
    passing = bitset_of(np.array([1, 3], np.uint32), len(items))
    assert count(all_of(sea, paths=("a",)), passing) == 1
    unscored = mock.Mock(side_effect=AssertionError)
    monkeypatch.setattr(text_search, "choose_strategy", unscored)
    monkeypatch.setattr(text_search, "mark_hits", unscored)  # a bitset is as long as the segment
    assert count(all_of(sea, tide, paths=("a",))) == 2
    assert count(all_of(Phrase(("sea", "tide")), paths=("a",))) == 1


BEGUN = st.sampled_from(("seal", "seam", "seat", "sear", "tide", "rain"))


def make_at_once(key: Hashable, owner: Segment, make: Callable[[Segment], None]) -> None:
    """Do what is otherwise scheduled in the background."""
    make(owner)


def check_best(
    view: SegmentView, query: TextQuery, registry: FieldRegistry, num_ranked: int, mask: int
) -> None:
    """Compare the best of the documents in a mask with all hits, each with its score.

    However often: what is kept of a search answers the next ones.
    """
    num_docs = view.segment.num_docs
    everything = match_text(view, PreparedQuery(query, registry, ENGLISH), None, None)
    scores = dict(zip(everything.found.docs.tolist(), scores_of(everything), strict=True))
    allowed = full_bitset(max(num_docs, 1)) & np.uint64(mask)
    passing = [doc for doc in scores if mask >> doc & 1]
    best = sorted((scores[doc] for doc in passing), reverse=True)[:num_ranked]
    for _ in range(3):
        with (
            mock.patch.object(kept_words, "ENTRIES_MIN", 1),
            mock.patch.object(kept_words, "DEEP_HITS_MIN", 1),
            mock.patch.object(kept_terms_of_docs, "TERMS_MIN", 1),
            mock.patch.object(kept_terms_of_docs, "schedule", make_at_once),
        ):
            some = match_text(view, PreparedQuery(query, registry, ENGLISH), allowed, num_ranked)
            unscored = find_text(view, PreparedQuery(query, registry, ENGLISH), allowed)
        for found in (some.found, unscored):
            assert found.count == len(passing)
            assert found.docs.tolist() == passing
        ranked = dict(zip(some.ranked.docs.tolist(), scores_of(some), strict=True))
        assert ranked == {doc: scores[doc] for doc in ranked}
        if best:
            assert {doc for doc in passing if scores[doc] >= best[-1]} <= set(ranked)


@given(ITEMS, queries(), LISTS, st.integers(1, 4), st.integers(0, 2**10))
def test_the_best_are_the_same_when_only_they_are_asked_for_and_filters_only_narrow(
    items: list[dict[str, Any]], shape: dict[str, Any], lists: Lists, num_ranked: int, mask: int
) -> None:
    registry = FieldRegistry()
    view = SegmentView(make_segment(items, registry, lists))
    query = make_query(shape, [view], [registry], len(items))
    check_best(view, query, registry, num_ranked, mask)


@given(
    st.lists(
        st.fixed_dictionaries(
            {
                "a": st.lists(BEGUN, max_size=5).map(" ".join),
                "b": st.lists(BEGUN, max_size=2).map(" ".join),
            }
        ),
        min_size=4,
        max_size=10,
    ),
    st.integers(1, 3),
    st.integers(0, 2**10),
)
def test_the_best_of_a_half_typed_word_are_the_same(
    items: list[dict[str, Any]], num_ranked: int, mask: int
) -> None:
    registry = FieldRegistry()
    view = SegmentView(make_segment(items, registry))
    shape = all_of(Word("sea", is_prefix=True), paths=("a", "b"))
    query = make_query(shape, [view], [registry], len(items))
    with (
        mock.patch.object(expanded_word_top_k, "ENTRIES_MIN", 1),
        mock.patch.object(expanded_word_top_k, "_ENTRIES_PER_HIT", 1),
    ):
        check_best(view, query, registry, num_ranked, mask)


@given(ITEMS, queries(), LISTS, st.integers(0, 2**10), st.booleans())
def test_what_is_to_be_sorted_has_the_scores_of_all_at_once_or_later(
    items: list[dict[str, Any]], shape: dict[str, Any], lists: Lists, mask: int, is_late: bool
) -> None:
    registry = FieldRegistry()
    view = SegmentView(make_segment(items, registry, lists))
    query = make_query(shape, [view], [registry], len(items))
    some = np.array([doc for doc in range(len(items)) if mask >> doc & 1], np.uint32)
    for allowed in (None, bitset_of(some, len(items))) * 2:
        prepared = PreparedQuery(query, registry, ENGLISH)
        expected = match_text(view, prepared, allowed, None)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(text_search, "_SCORED_AT_ONCE", -1 if is_late else 1_000)
            patch.setattr(kept_words, "ENTRIES_MIN", 1)
            found = match_to_sort(view, prepared, allowed)
        assert found.docs.tolist() == expected.found.docs.tolist()
        if found.scores is None:
            assert found.scorer is not None
            found.scores = found.scorer(found.docs)
        elif prepared.needs_all and found.count:
            assert not is_late
        assert found.scores.tolist() == scores_of(expected)


@pytest.mark.parametrize("lists", [Lists(), Lists(1, 1, 16, False, 16)])
def test_another_form_is_found_where_the_word_itself_is_in_another_field(lists: Lists) -> None:
    items = [{"a": "stars", "c": "star"}, {"a": "starship"}]
    registry = FieldRegistry()
    view = SegmentView(make_segment(items, registry, lists))
    shape = all_of(Word("star", is_prefix=True), paths=("a",))
    query = make_query(shape, [view], [registry], len(items))
    match = match_text(view, PreparedQuery(query, registry, ENGLISH), None, None)

    assert match.found.docs.tolist() == [0, 1]
    assert scores_of(match)[0] > scores_of(match)[1] + 1


def test_typed_comes_before_begun_before_mistyped_whatever_the_rarity() -> None:
    items = [{"a": text} for text in ("starf", "stra star1 starz", "starship", "star filler " * 9)]
    items += [{"a": "star filler"}] * 5
    registry = FieldRegistry()
    view = SegmentView(make_segment(items, registry))
    shape = all_of(Word("star", is_prefix=True, typos=1), paths=("a",))
    query = make_query(shape, [view], [registry], len(items))
    match = match_text(view, PreparedQuery(query, registry, ENGLISH), None, None)
    scores = dict(zip(match.ranked.docs.tolist(), scores_of(match), strict=True))
    assert len(scores) == len(items)
    assert min(scores[3], scores[4]) > max(scores[0], scores[1], scores[2])


@pytest.mark.parametrize(
    "word", [Word("star", is_prefix=True), Word("star", synonyms=(("starfish", "stars"),))]
)
def test_a_sum_of_frequencies_beyond_all_bits_changes_no_tier(word: Word) -> None:
    items = [{"a": "starfish stars " * 200}, {"a": "starship"}, {"a": "star stars"}]
    registry = FieldRegistry()
    view = SegmentView(make_segment(items, registry))
    query = make_query(all_of(word, paths=("a",)), [view], [registry], len(items))
    # As much as a field of weight 1,000 has with b = 0 where a text is one word 8,000,000 times.
    heavy = tuple([structs.replace(field, weight=1e9) for field in query.fields])
    query = structs.replace(query, fields=heavy)
    match = match_text(view, PreparedQuery(query, registry, ENGLISH), None, None)
    found = dict(zip(match.ranked.docs.tolist(), scores_of(match), strict=True))
    assert found == NaiveSearch(items, heavy).search(query)


def test_hits_whose_scores_differ_by_less_than_doubles_hold_are_tied() -> None:
    items = [{"a": "star green filler filler"}, {"a": "star green green green"}]
    registry = FieldRegistry()
    view = SegmentView(make_segment(items, registry))
    query = make_query(
        {**all_of(Word("star"), Word("green"), paths=("a",)), "required": 1, "is_leading": True},
        [view],
        [registry],
        len(items),
    )
    for weight, num_ranked in ((2.0**18, 1), (2.0**23, 2)):
        weights = (weight, 2.0**-31)  # the second word: one or two units of a score
        clauses = tuple(
            ScoredClause(scored.clause, ((one, *[0.0] * (NUM_MATCH_KINDS - 1)),))
            for scored, one in zip(query.clauses, weights, strict=True)
        )
        huge = structs.replace(query, clauses=clauses, proximity=0.0)
        match = match_text(view, PreparedQuery(huge, registry, ENGLISH), None, 1)
        assert len(match.ranked.docs) == num_ranked
        assert len(set(scores_of(match))) == 1


def test_words_together_beat_the_same_words_apart() -> None:
    filler = "one two three four five six seven eight nine ten"
    items = [{"a": f"green {filler} mile"}, {"a": f"mile green {filler}"}]
    items += [{"a": f"{filler} green mile"}]
    registry = FieldRegistry()
    view = SegmentView(make_segment(items, registry))
    shape = all_of(Word("green"), Word("mile"), paths=("a",))
    query = make_query(shape, [view], [registry], len(items))
    match = match_text(view, PreparedQuery(query, registry, ENGLISH), None, None)
    assert np.argsort(scores_of(match)).tolist() == [0, 1, 2]


def test_phrases_and_proximity_do_not_reach_across_values() -> None:
    items = [{"a": ["green", "mile"]}, {"a": ["green mile"]}]
    registry = FieldRegistry()
    view = SegmentView(make_segment(items, registry))
    shape = all_of(Phrase(("green", "mile")), paths=("a",))
    query = make_query(shape, [view], [registry], len(items))
    assert match_text(
        view, PreparedQuery(query, registry, ENGLISH), None, None
    ).found.docs.tolist() == [1]


def test_a_stem_counts_in_fields_of_its_language_only() -> None:
    classes = FieldClasses(None, {"en": "english", "de": "russian"})
    items = [{"en": "houses"}, {"de": "houses"}, {"xx": "houses"}, {"xx": "house"}]
    registry = FieldRegistry()
    view = SegmentView(make_segment(items, registry))
    weights = [0.0] * NUM_MATCH_KINDS
    weights[MatchKind.EXACT] = weights[MatchKind.STEM] = 1.0
    query = TextQuery(
        (ScoredClause(Word("house"), (tuple(weights),)),),
        1,
        False,
        (),
        tuple(FieldWeight(path, 1.0, 1.0) for path in ("de", "en", "xx")),
        K1,
        B,
        0.0,
    )
    match = match_text(view, PreparedQuery(query, registry, classes), None, None)
    assert match.found.docs.tolist() == [0, 3]


def test_a_search_of_one_field_does_not_visit_all_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even where the tf norms of all fields are too large to keep."""
    monkeypatch.setattr(QUERY_CACHE_BUDGET, "bytes_max", 100_000)
    visited: list[str] = []
    class_of = FieldClasses.class_of

    def counted(self: FieldClasses, path: str) -> FieldClass:
        visited.append(path)
        return class_of(self, path)

    monkeypatch.setattr(FieldClasses, "class_of", counted)
    registry = FieldRegistry()
    items = [{"title": "sea", **{f"name{i}": "said" for i in range(400)}}]
    view = SegmentView(make_segment(items, registry))
    shape = all_of(Word("sea"), paths=("title",))
    query = make_query(shape, [view], [registry], len(items))
    for b in (0.5, 0.75):
        prepared = PreparedQuery(structs.replace(query, b=b), registry, ENGLISH)
        match = match_text(view, prepared, None, None)
        assert match.found.docs.tolist() == [0]
    assert len(visited) == len(set(visited)) == 401


@pytest.mark.parametrize("text", ["the", "run", "running", "happiness", "x"])
@pytest.mark.parametrize("is_prefix", [False, True])
def test_frequencies_count_live_documents_with_any_form_once(text: str, is_prefix: bool) -> None:
    items = [{"a": "running runs run"}, {"a": "runs"}, {"a": "happy the"}, {"a": "the the x"}]
    registry = FieldRegistry()
    segment = make_segment(items, registry)
    word = Word(text, is_prefix)
    counts = doc_freqs(SegmentView(segment), word, ENGLISH).tolist()
    without = doc_freqs(SegmentView(segment, FrozenBitMap([1, 3])), word, ENGLISH).tolist()
    expected = {
        "the": ([2, 0], [1, 0]),
        "run": ([1, 1], [1, 0]),
        "running": ([1, 1], [1, 0]),
        "happiness": ([0, 1], [0, 1]),
        "x": ([1, 0], [0, 0]),
    }
    kinds = (MatchKind.EXACT, MatchKind.STEM)
    assert tuple([one[kind] for kind in kinds] for one in (counts, without)) == expected[text]
    assert not counts[MatchKind.COMPLETION_STEM]  # STEM has these


def test_other_lists_change_neither_hits_nor_scores_of_many_documents() -> None:
    """Words that stand near each other, begun with one letter to four, among nested prefixes."""
    choice = random.Random(7)
    vocabulary = sorted(
        {"".join(choices) for size in range(1, 6) for choices in product("abé", repeat=size)}
    )
    items = [
        {
            "a": " ".join(choice.sample(vocabulary, 4)),
            "b": " ".join(choice.choices(vocabulary, k=9)),
        }
        for _ in range(500)
    ]
    registry = FieldRegistry()
    kinds = (Lists(), Lists(1), Lists(40), Lists(1, 1), Lists(40, 1), Lists(40, 1, 2, True, 16))
    views = [SegmentView(make_segment(items, registry, lists)) for lists in kinds]
    for prefix in ("a", "b", "é", "ab", "ba", "éé", "aba", "bbb", "abéa"):
        for first in ("a", "bé", "abb", "ééba"):
            shape = all_of(Word(first), Word(prefix, is_prefix=True), paths=("a", "b"))
            found = []
            for view in views:
                query = make_query(shape, [view], [registry], len(items))
                whole = match_text(view, PreparedQuery(query, registry, ENGLISH), None, None)
                best = match_text(view, PreparedQuery(query, registry, ENGLISH), None, 5)
                found.append(
                    (
                        whole.found.docs.tolist(),
                        scores_of(whole),
                        sorted(scores_of(best))[-5:],
                    )
                )
            assert all(one == found[0] for one in found)
            assert found[0][2] == sorted(found[0][1])[-5:]


def _without_typos_but_first(query: TextQuery) -> TextQuery:
    """Give the typos of all words but the first no weight; proximity finds them all the same."""
    clauses = list(query.clauses[:1])
    for one in query.clauses[1:]:
        weights = list(one.weights[0])
        weights[MatchKind.TYPO_1] = 0.0
        clauses.append(structs.replace(one, weights=(tuple(weights),)))
    return structs.replace(query, clauses=tuple(clauses))


@pytest.mark.parametrize(("required", "share"), [(1, 0.02), (2, 0.03), (4, 0.2)])
def test_the_best_with_some_of_many_words_are_found_by_measuring_few(
    required: int, share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    choice = random.Random(11)
    letters = str.maketrans("0123456789", "abcdefghij")  # words with digits match no typos
    vocabulary = ["w" + str(i).translate(letters) for i in range(40)]
    items = [
        {
            "a": " ".join(
                choice.choices(vocabulary, weights=range(41, 1, -1), k=choice.randint(2, 9))
            )
        }
        for _ in range(3_000)
    ]
    registry = FieldRegistry()
    view = SegmentView(make_segment(items, registry))
    ranked_docs: list[int] = []
    rank = Evaluation.rank

    def noting(
        self: Evaluation, docs: NDArray[np.uint32], totals: NDArray[np.int64], k: int
    ) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        ranked_docs.append(len(docs))
        return rank(self, docs, totals, k)

    mistyped = [Word(word, typos=1) for word in choice.sample(vocabulary, 12)]
    for clauses in (
        [Word(word) for word in vocabulary[:10]],
        [Word(word) for word in choice.sample(vocabulary, 12)],
        [*(Word(word) for word in vocabulary[:8]), Word("wd", is_prefix=True)],
        [*(Word(word) for word in vocabulary[:5]), Phrase(("wa", "wb")), Word("wj"), Word("wa")],
        [Word(word) for word in choice.sample(vocabulary, 35) + choice.sample(vocabulary, 35)],
        mistyped,
    ):
        shape = all_of(*clauses, paths=("a",)) | {"required": required}
        query = make_query(shape, [view], [registry], len(items))
        query = _without_typos_but_first(query)
        whole = match_text(view, PreparedQuery(query, registry, ENGLISH), None, None)
        expected = dict(zip(whole.found.docs.tolist(), scores_of(whole), strict=True))
        with monkeypatch.context() as patch:
            patch.setattr(Evaluation, "rank", noting)
            some = match_text(view, PreparedQuery(query, registry, ENGLISH), None, 5)
        ranked = dict(zip(some.ranked.docs.tolist(), scores_of(some), strict=True))
        assert ranked == {doc: expected[doc] for doc in ranked}
        fifth = sorted(expected.values())[-5]
        assert {doc for doc, score in expected.items() if score >= fifth} <= set(ranked)
        # (Words that match many others are often next to each other.)
        assert clauses is mistyped or ranked_docs[-1] < share * len(expected)
