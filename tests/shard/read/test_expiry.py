"""An abandoned search ends between two steps, and keeps nothing."""

from __future__ import annotations

import msgspec
import pytest

from common.deadline import CALL_DEADLINE, Deadline
from common.errors import DeadlineExceeded
from common.index_configuration import IndexConfiguration
from common.protocol.messages import (
    FacetRequest,
    FieldWeight,
    FilterClause,
    ScoredClause,
    SearchRequest,
    StatisticsRequest,
    TextQuery,
)
from common.query_syntax_tree import NUM_MATCH_KINDS, And, AnyOf, Same, Word
from shard.collect.facets.drill_sideways import CountedMatches
from shard.collect.facets.facet_counts import count_facets
from shard.query.bm25_statistics.segment_statistics import doc_freqs
from shard.query.matches import Matches
from shard.query.terms import expansion
from shard.query.text import text_cost
from shard.read import corpus_statistics, matching, search_cost, searcher
from shard.read.field_classes_of_snapshot import field_classes_of
from shard.segment.field_registry import FieldRegistry
from shard.segment.snapshot import SegmentView, Snapshot
from tests.shard.collect.top_hits.test_top_k import request
from tests.shard.columns_model import Documents, World
from tests.shard.text_model import make_segment

WORDS = [Word(f"w{i}") for i in range(6)]
ITEMS = [
    {"name": " ".join(f"w{i}" for i in range(6) if i != k % 9), "tags": ["x"]} for k in range(40)
]


@pytest.fixture
def snapshot() -> Snapshot:
    """Return a state of two segments with texts."""
    registry = FieldRegistry(("name",))
    segments = [make_segment(items, registry) for items in (ITEMS[:25], ITEMS[25:])]
    return Snapshot(
        seq=1,
        revision=1,
        views=tuple(map(SegmentView, segments)),
        configuration=IndexConfiguration(),
        registry=registry,
        dictionaries={},
        dictionary_lengths={},
        documents=Documents({}),
    )


def scores(snapshot: Snapshot, asked: SearchRequest) -> list[tuple[list[int], list[float]]]:
    """Return documents and scores by segment."""
    found = matching.match(snapshot, asked)
    hits = found.counted.within(None)
    assert [one.docs.tolist() for one in hits] == [one.docs.tolist() for one in found.ranked]
    return [
        (one.docs.tolist(), [] if one.scores is None else one.scores.tolist())
        for one in found.ranked
    ]


def some_words(required: int = 2) -> SearchRequest:
    ones = (1.0,) * NUM_MATCH_KINDS
    query = TextQuery(
        clauses=tuple(ScoredClause(word, (ones,)) for word in WORDS),
        required=required,
        is_leading=False,
        excluded=(),
        fields=(FieldWeight("name", 1.0, 5.0),),
        k1=0.9,
        b=0.6,
        proximity=0.0,
    )
    return request(query=query)


@pytest.mark.parametrize("required", [2, len(WORDS)])
def test_given_up_between_clauses_it_leaves_no_trace(
    snapshot: Snapshot, monkeypatch: pytest.MonkeyPatch, required: int
) -> None:
    asked = msgspec.structs.replace(some_words(required), num_hits=100)
    expected = scores(snapshot, asked)
    num_checks = 0

    def count() -> None:
        nonlocal num_checks
        num_checks += 1

    with monkeypatch.context() as patched:
        patched.setattr(expansion, "check_call", count)
        scores(snapshot, asked)
    assert num_checks >= len(WORDS)
    for last in range(num_checks):
        left = last

        def give_up() -> None:
            nonlocal left
            left -= 1
            if left < 0:
                raise DeadlineExceeded("now")

        with monkeypatch.context() as patched:
            patched.setattr(expansion, "check_call", give_up)
            with pytest.raises(DeadlineExceeded):
                scores(snapshot, asked)
        assert scores(snapshot, asked) == expected


@pytest.mark.parametrize(
    "asked",
    [
        request(filters=(FilterClause(AnyOf("tags", ("x",))),)),
        request(facets=(FacetRequest("tags", False, 0),)),
    ],
)
def test_every_search_looks_at_the_clock(snapshot: Snapshot, asked: SearchRequest) -> None:
    world = World(ITEMS)
    token = CALL_DEADLINE.set(Deadline.after_ms(0))
    try:
        with pytest.raises(DeadlineExceeded):
            searcher.search(world.snapshot, asked)
        with pytest.raises(DeadlineExceeded):
            searcher.search(snapshot, some_words())
        with pytest.raises(DeadlineExceeded):
            corpus_statistics.statistics(snapshot, StatisticsRequest(1, 0, 0, tuple(WORDS)))
    finally:
        CALL_DEADLINE.reset(token)


@pytest.mark.parametrize(
    "facet",
    [
        FacetRequest("tags", False, 0, within=Same("tags", And(()))),
        FacetRequest("tags", False, 0, wants_missing=True),
    ],
)
def test_each_facet_that_is_slow_to_count_looks_at_the_clock(facet: FacetRequest) -> None:
    """Before its elements are counted, or the documents without a value."""
    snapshot = World(ITEMS).snapshot
    counted = CountedMatches.of([Matches(view, is_all=True) for view in snapshot.views])
    token = CALL_DEADLINE.set(Deadline.after_ms(0))
    try:
        with pytest.raises(DeadlineExceeded):
            count_facets(snapshot, (facet,), counted)
    finally:
        CALL_DEADLINE.reset(token)


def test_many_words_are_slow_and_few_are_not(
    snapshot: Snapshot, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not search_cost.is_slow(snapshot, some_words())
    monkeypatch.setattr(text_cost, "FAST_US", 12 * text_cost._WORD_US)
    assert search_cost.is_slow(snapshot, some_words())
    asked = StatisticsRequest(1, 0, 0, tuple(WORDS))
    assert search_cost.is_slow_to_count(snapshot, asked)


def test_words_of_a_large_segment_are_slow_if_their_lists_are_long(
    snapshot: Snapshot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_cost, "_DOC_US", 1_000.0)
    monkeypatch.setattr(text_cost, "_ENTRY_US", 0.0)
    assert not search_cost.is_slow(snapshot, some_words())
    monkeypatch.setattr(text_cost, "_ENTRY_US", 1_000.0)
    assert search_cost.is_slow(snapshot, some_words())


def test_half_typed_words_of_a_large_segment_are_slow_until_it_knows_them(
    snapshot: Snapshot, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = StatisticsRequest(1, 0, 0, (Word("w1", is_prefix=True),))
    monkeypatch.setattr(text_cost, "_DOC_US", 1_000.0)
    monkeypatch.setattr(text_cost, "_ENTRY_US", 0.0)
    assert search_cost.is_slow_to_count(snapshot, asked)
    for view in snapshot.views:
        doc_freqs(view, asked.words[0], field_classes_of(snapshot))
    assert not search_cost.is_slow_to_count(snapshot, asked)


def test_words_with_typos_are_slow_until_a_segment_knows_them(
    snapshot: Snapshot, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = StatisticsRequest(1, 0, 0, (Word("w11", typos=1),))
    monkeypatch.setattr(text_cost, "_TERM_US", 1_000.0)
    assert search_cost.is_slow_to_count(snapshot, asked)
    for view in snapshot.views:
        doc_freqs(view, asked.words[0], field_classes_of(snapshot))
    assert not search_cost.is_slow_to_count(snapshot, asked)
