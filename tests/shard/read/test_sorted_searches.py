"""Searches in the order of a field score no more hits than they show."""

from __future__ import annotations

import functools
import random

import numpy as np
import pytest
from msgspec import structs
from numpy.typing import NDArray

from common.protocol.messages import (
    Distinct,
    FieldWeight,
    FilterClause,
    Pin,
    ScoredClause,
    SearchRequest,
    SortKey,
    TextQuery,
)
from common.query_syntax_tree import NUM_MATCH_KINDS, AnyOf, Word
from shard.caches.background_derivation import BACKGROUND_TASKS
from shard.query.text import text_search
from shard.query.text.clause_evaluation import Evaluation
from shard.read import matching, searcher
from tests.shard.collect.top_hits.test_top_k import request
from tests.shard.columns_model import Item, World


@functools.cache
def _world_of_texts() -> World:
    """Return items with words; prices, ranks and names that many share or some lack."""
    rng = random.Random(8)
    items: list[Item] = []
    for number in range(6_000):
        item: Item = {
            "id": number,
            "text": " ".join(rng.choices(["sea", "green", "mile", "of"], k=rng.randint(0, 6))),
            "price": rng.randint(0, 4_000) / 100,
            "rank": rng.randint(0, 3),
            "category": f"c{rng.randint(0, 30)}",
        }
        if number % 7:
            item["name"] = f"n{rng.randint(0, 200)}"
        items.append(item)
    deleted = frozenset(rng.sample(range(6_000), 300))
    return World(items, cuts=[4_000], deleted=deleted, facets=("category",), has_texts=True)


@pytest.mark.parametrize("distinct", [None, Distinct("category"), Distinct("rank", 3)])
@pytest.mark.parametrize("num_hits", [1, 30, 400])
def test_a_sorted_search_gives_the_same_hits_whether_it_scores_few_or_all(
    distinct: Distinct | None, num_hits: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = _world_of_texts()
    clauses = [ScoredClause(Word(word), ((1.0,) * NUM_MATCH_KINDS,)) for word in ("sea", "green")]
    fields = (FieldWeight("text", 1.0, 3.0),)
    for sort in (
        (SortKey("price"),),
        (SortKey("price", True),),
        (SortKey("rank"), SortKey("price", True)),
        (SortKey("name"),),
        (SortKey("name", True, True),),
        (SortKey("unknown"),),
    ):
        for num_clauses in (1, 2):
            few = tuple(clauses[:num_clauses])
            query = TextQuery(few, len(few), False, (), fields, 0.9, 0.6, 0.2)
            asked = request(sort, query=query, distinct=distinct, num_hits=num_hits)
            searcher.search(world.snapshot, asked)
            BACKGROUND_TASKS.run_all()  # permutations
            late = searcher.search(world.snapshot, asked)
            with monkeypatch.context() as patch:
                patch.setattr(matching, "_is_scored_late", lambda _: False)
                early = searcher.search(world.snapshot, asked)
            uncounted = searcher.search(world.snapshot, structs.replace(asked, wants_total=False))
            assert (uncounted.places, uncounted.scores) == (late.places, late.scores)
            assert uncounted.distinct == late.distinct
            assert uncounted.total == late.total or uncounted.total > len(late.places) // 8
            assert late.places == early.places
            assert late.scores == early.scores
            assert (late.total, late.distinct) == (early.total, early.distinct)
            assert len(late.places) // 8 == min(
                num_hits, late.total if late.distinct is None else late.distinct.total
            )


@pytest.mark.parametrize("num_hits", [1, 400, 6_000])
@pytest.mark.parametrize("pins", [(), (Pin("4500", 1, "rule"), Pin("2", 3, "rule"))])
def test_a_query_of_nothing_but_exclusions_gives_the_first_items_without_scoring_others(
    pins: tuple[Pin, ...], num_hits: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = _world_of_texts()
    fields = (FieldWeight("text", 1.0, 3.0),)
    query = TextQuery((), 0, False, (Word("sea"),), fields, 0.9, 0.6, 0.2)
    asked = structs.replace(request((), query=query, num_hits=num_hits), pins=pins)
    with monkeypatch.context() as patch:
        patch.setattr(matching, "_are_first_best", lambda *_: False)
        expected = searcher.search(world.snapshot, asked)
    with monkeypatch.context() as patch:
        patch.setattr(matching, "match_text", None)
        found = searcher.search(world.snapshot, asked)
    assert 0 < found.total < 6_000
    assert structs.replace(found, timings_us=()) == structs.replace(expected, timings_us=())


@pytest.mark.parametrize("is_descending", [False, True])
def test_the_first_of_many_hits_are_found_without_all_if_no_total_is_wanted(
    is_descending: bool,
) -> None:
    world = _world_of_texts()
    clause = ScoredClause(Word("sea"), ((1.0,) * NUM_MATCH_KINDS,))
    query = TextQuery((clause,), 1, False, (), (FieldWeight("text", 1.0, 3.0),), 0.9, 0.6, 0.0)
    asked = request((SortKey("price", is_descending),), query=query, num_hits=3)
    for _ in range(3):
        all_hits = searcher.search(world.snapshot, asked)
        BACKGROUND_TASKS.run_all()  # permutations

    few = searcher.search(world.snapshot, structs.replace(asked, wants_total=False))
    filters = (FilterClause(AnyOf("category", ("c1",))),)
    filtered = structs.replace(asked, filters=filters)
    few_filtered = searcher.search(world.snapshot, structs.replace(filtered, wants_total=False))

    assert (few.places, few.scores) == (all_hits.places, all_hits.scores)
    assert 3 < few.total < 200 < all_hits.total
    assert few_filtered.places == searcher.search(world.snapshot, filtered).places


@pytest.mark.parametrize("is_descending", [False, True])
def test_pins_cursors_and_no_hits_look_beyond_the_first_hits(is_descending: bool) -> None:
    world = _world_of_texts()
    clause = ScoredClause(Word("sea"), ((1.0,) * NUM_MATCH_KINDS,))
    query = TextQuery((clause,), 1, False, (), (FieldWeight("text", 1.0, 3.0),), 0.9, 0.6, 0.0)
    key = SortKey("price", is_descending)
    first = structs.replace(
        request((key,), query=query, num_hits=3), wants_total=False, needs_scores=False
    )
    for _ in range(3):
        searcher.search(world.snapshot, first)
        BACKGROUND_TASKS.run_all()  # permutations
    all_hits = searcher.search(world.snapshot, structs.replace(first, num_hits=400))
    prices, places = all_hits.sort_column(0), np.frombuffer(all_hits.places, np.uint64).tolist()

    def places_of(asked: SearchRequest) -> list[int]:
        found: list[int] = np.frombuffer(
            searcher.search(world.snapshot, asked).places, np.uint64
        ).tolist()
        return found

    assert (
        places_of(structs.replace(first, after=(prices[299], None, places[299])))
        == (places[300:303])
    )
    assert places_of(structs.replace(first, num_hits=0)) == []
    choose = max if is_descending else min
    others = [(item["price"], item["id"]) for _, _, item in world.live if "sea" not in item["text"]]
    pinned = choose(others)[1]
    pins = (Pin(str(pinned), 1, "rule"),)
    assert places_of(structs.replace(first, pins=pins)) == [pinned, *places[:2]]


def test_a_search_sorted_by_prices_scores_few_of_its_hits(monkeypatch: pytest.MonkeyPatch) -> None:
    world = _world_of_texts()
    clause = ScoredClause(Word("sea"), ((1.0,) * NUM_MATCH_KINDS,))
    query = TextQuery((clause,), 1, False, (), (FieldWeight("text", 1.0, 3.0),), 0.9, 0.6, 0.0)
    scored: list[int] = []
    score = text_search._score

    def count(evaluation: Evaluation, docs: NDArray[np.uint32]) -> NDArray[np.float64]:
        scored.append(len(docs))
        return score(evaluation, docs)

    monkeypatch.setattr(text_search, "_score", count)
    found = searcher.search(world.snapshot, request((SortKey("price"),), query=query))
    assert found.total > 2_000
    assert 10 <= sum(scored) < 60
