"""Which reads are known to take long before they begin."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from common.boosts import Boost
from common.protocol.messages import (
    Distinct,
    FacetRequest,
    FieldWeight,
    FilterClause,
    FilterFactor,
    RangeRequest,
    ScoredClause,
    SearchRequest,
    SortKey,
    StatisticsRequest,
    TextQuery,
    ValueStatisticsRequest,
)
from common.query_syntax_tree import (
    NUM_MATCH_KINDS,
    AllOf,
    And,
    AnyOf,
    Clause,
    Contains,
    Phrase,
    Range,
    Same,
    Under,
    Word,
)
from shard.collect.nested import element_order
from shard.collect.top_hits import segment_top_k
from shard.query.filters import filter_bitsets
from shard.query.text import text_cost, whole_field_matches
from shard.read import corpus_statistics, search_cost, searcher
from shard.segment.columns import geo_columns, grouping_keys, sort_columns, text_ordinal_columns
from tests.shard.collect.top_hits.test_top_k import request
from tests.shard.columns_model import Item, World
from tests.shard.partition.local_shard import Shard, index_entry


def test_slow_searches_are_told_beforehand() -> None:
    world = World([{"name": "a", "year": 1}])
    assert not search_cost.is_slow(world.snapshot, request((SortKey("year"),)))
    assert search_cost.is_slow(world.snapshot, request((SortKey("name"),)))
    assert search_cost.is_slow(world.snapshot, request(num_hits=10**6))
    assert search_cost.is_slow(
        world.snapshot, request(filters=(FilterClause(AnyOf("name", ("a",))),))
    )
    searcher.search(world.snapshot, request((SortKey("name"),)))
    assert not search_cost.is_slow(world.snapshot, request((SortKey("name"),)))


def test_the_first_search_in_an_order_of_many_keys_is_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sort_columns, "COLUMN_FAST_MAX", 2)
    rows: list[Item] = [{"tags": name, "year": 7, "flag": True, "name": name} for name in "abc"]
    world = World(rows)
    for field in ("tags", "flag", "name"):
        asked = request((SortKey(field),))
        assert search_cost.is_slow(world.snapshot, asked)
        searcher.search(world.snapshot, asked)
        assert not search_cost.is_slow(world.snapshot, asked)
    assert not search_cost.is_slow(world.snapshot, request((SortKey("year"),)))
    assert not search_cost.is_slow(World(rows[:2]).snapshot, request((SortKey("flag"),)))


def test_telling_few_matches_apart_is_fast_however_many_items_there_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(search_cost, "DISTINCT_FAST_MAX", 3)
    items: list[Item] = [{"tags": "a", "text": "rare" if i < 2 else "common"} for i in range(6)]
    world = World(items, has_texts=True)

    def asked(*words: str, required: int) -> SearchRequest:
        clauses = tuple(ScoredClause(Word(word), ((1.0,) * NUM_MATCH_KINDS,)) for word in words)
        fields = (FieldWeight("text", 1.0, 1.0),)
        query = TextQuery(clauses, required, False, (), fields, 0.9, 0.6, 0.0)
        return request(query=query, distinct=Distinct("tags"))

    rare, common = asked("rare", required=1), asked("common", required=1)
    both, any_one = asked("rare", "common", required=2), asked("rare", "common", required=1)
    assert search_cost.is_slow(world.snapshot, rare), "not known to be rare"
    for one in (rare, common):
        searcher.search(world.snapshot, one)
    slow = [search_cost.is_slow(world.snapshot, one) for one in (rare, common, both, any_one)]
    assert slow == [False, True, False, True]
    assert search_cost.is_slow(world.snapshot, request(distinct=Distinct("tags")))
    few = World([{"tags": "a"}] * 3).snapshot
    assert not search_cost.is_slow(few, request(distinct=Distinct("tags")))


def _query(*clauses: Clause, required: int = 2, excluded: tuple[Clause, ...] = ()) -> TextQuery:
    kinds = (1.0,) * NUM_MATCH_KINDS
    scored = tuple(ScoredClause(one, (kinds,) * len(getattr(one, "words", "1"))) for one in clauses)
    fields = (FieldWeight("text", 1.0, 1.0),)
    return TextQuery(scored, required, False, excluded, fields, 0.9, 0.6, 0.0)


def _world_of_words(monkeypatch: pytest.MonkeyPatch, deleted: frozenset[int]) -> World:
    """Return 95 items, of which each entry that is read costs a hundredth of what is fast."""
    costs = {"FAST_US": 100.0, "_WORD_US": 0.0, "_DOC_US": 9.0, "_BOUND_US": 0.1}
    for name, value in (costs | {"_ENTRY_US": 1.0, "_RAREST_ENTRY_US": 1.0}).items():
        monkeypatch.setattr(text_cost, name, value)
    texts = ["common often" + " rare" * (i < 10) for i in range(95)]
    items: list[Item] = [{"text": text, "year": 1} for text in texts]
    return World(items, has_texts=True, deleted=deleted)


def test_words_that_must_all_match_take_what_the_rarest_one_takes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = _world_of_words(monkeypatch, frozenset())

    def is_slow(*clauses: Clause, required: int = 2, excluded: tuple[Clause, ...] = ()) -> bool:
        query = _query(*clauses, required=required, excluded=excluded)
        return search_cost.is_slow(world.snapshot, request(query=query))

    rare, common, often = (Word(one, is_stemmed=False) for one in ("rare", "common", "often"))
    assert not is_slow(rare, common)
    assert not is_slow(rare, common, often, required=3)
    assert not is_slow(Phrase(("common", "rare")), required=1)
    assert is_slow(common, often)
    assert is_slow(Phrase(("common", "often")), required=1)
    assert is_slow(rare, common, often, required=1), "any of them"
    assert is_slow(common, often, excluded=(rare,)), "the rarest is not among the hits' words"


def test_the_best_hits_of_one_word_take_the_bounds_of_its_list(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = _world_of_words(monkeypatch, frozenset())
    monkeypatch.setattr(text_cost, "_ENTRY_US", 1.1)

    def is_slow(word: str, **changes: Any) -> bool:
        query = _query(Word(word, is_stemmed=False), required=1)
        return search_cost.is_slow(world.snapshot, request(query=query, **changes))

    assert not is_slow("common")
    changes: list[dict[str, Any]] = [
        {"sort": (SortKey("year"),)},
        {"facets": (FacetRequest("tags", False, 0),)},
        {"filters": (FilterClause(Range("year", 0)),)},
        {"min_score": 1.0},
        {"num_hits": 1_000},
        {"wants_explanation": True},
    ]
    assert not any(is_slow("rare", **one) for one in changes)
    assert all(is_slow("common", **one) for one in changes)
    world = _world_of_words(monkeypatch, frozenset({0}))
    monkeypatch.setattr(text_cost, "_ENTRY_US", 1.1)
    assert is_slow("common"), "the number of hits is not that of the list"


def test_telling_apart_what_a_field_orders_takes_no_scores(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(search_cost, "DISTINCT_FAST_MAX", 3)
    monkeypatch.setattr(search_cost, "DISTINCT_ORDERED_FAST_MAX", 6)
    by_year = request((SortKey("year"),), distinct=Distinct("tags"))
    groups = request((SortKey("year"),), distinct=Distinct("tags", counts_groups=True))
    six, seven = (World([{"tags": "a", "year": 1}] * size).snapshot for size in (6, 7))
    assert not search_cost.is_slow(six, by_year)
    assert search_cost.is_slow(six, request(distinct=Distinct("tags")))
    assert search_cost.is_slow(six, groups)
    assert search_cost.is_slow(seven, by_year)


def test_telling_apart_by_many_values_is_slow_however_few_match(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(search_cost, "DISTINCT_VALUES_FAST_MAX", 3)
    world = World([{"year": i, "tags": "ab"[i % 2]} for i in range(4)])
    for field in ("year", "tags"):  # numbers their values
        searcher.search(world.snapshot, request(distinct=Distinct(field)))
    assert search_cost.is_slow(world.snapshot, request(distinct=Distinct("year")))
    assert not search_cost.is_slow(world.snapshot, request(distinct=Distinct("tags")))
    assert not search_cost.is_slow(world.snapshot, request(distinct=Distinct("absent")))


def test_boosting_many_matches_is_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search_cost, "BOOSTED_FAST_MAX", 5)
    one, two = (Boost("year", "log", 0.3),), (Boost("year", "log", 0.3), Boost("n", "linear", 1.0))
    world = World([{"year": i, "n": i} for i in range(4)])
    assert not search_cost.is_slow(world.snapshot, request(boosts=one))
    assert search_cost.is_slow(world.snapshot, request(boosts=two))
    world = World([{"year": i, "n": i} for i in range(6)])
    assert search_cost.is_slow(world.snapshot, request(boosts=one))
    assert not search_cost.is_slow(world.snapshot, request())


def test_matches_are_estimated_once_for_all_that_scores_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(search_cost, "DISTINCT_FAST_MAX", 5)
    monkeypatch.setattr(search_cost, "BOOSTED_FAST_MAX", 9)
    world = World([{"year": i, "tags": "a"} for i in range(6)])
    estimated: list[int] = []

    def estimate(*_: object) -> int:
        estimated.append(5)
        return 5

    monkeypatch.setattr(search_cost, "num_matches_max", estimate)
    one, two = (Boost("year", "log", 0.3),), (Boost("year", "log", 0.3),) * 2
    distinct = Distinct("tags")
    assert not search_cost.is_slow(world.snapshot, request(distinct=distinct, boosts=one))
    assert search_cost.is_slow(world.snapshot, request(distinct=distinct, boosts=two))
    assert len(estimated) == 2


def test_what_looks_at_all_values_of_a_long_facet_is_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Values are counted, sorted, hashed and folded on a reader thread where there are many."""
    monkeypatch.setattr(search_cost, "VALUES_FAST_MAX", 5)
    monkeypatch.setattr(text_ordinal_columns, "_SORTED_FAST_MAX", 5)
    monkeypatch.setattr(grouping_keys, "_HASHED_FAST_MAX", 5)
    monkeypatch.setattr(filter_bitsets, "KEYS_FAST_MAX", 5)

    def world(num_values: int) -> World:
        return World([{"tags": f"v{i}"} for i in range(num_values)])

    count = request(facets=(FacetRequest("tags", False, 0),))
    order = request((SortKey("tags"),))
    tell_apart = request(distinct=Distinct("tags"))
    contain = request(filters=(FilterClause(Contains("tags", "v")),))
    few, many = world(2), world(6)
    for asked in (count, order, tell_apart, contain):
        assert not search_cost.is_slow(few.snapshot, asked)
        assert search_cost.is_slow(many.snapshot, asked)
        searcher.search(many.snapshot, asked)
    for asked in (order, tell_apart):
        assert not search_cost.is_slow(many.snapshot, asked), "what was made is kept"


def test_putting_long_texts_in_the_order_of_a_language_is_slow(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of a facet and of few texts the first time; always where hits have texts to read again."""
    monkeypatch.setattr(text_ordinal_columns, "_COLLATED_FAST_BYTES", 1_000)
    monkeypatch.setattr(text_ordinal_columns, "_COLLATED_FAST_LENGTH", 500)
    for field, length, is_slow_again in (
        ("tags", 10, False),
        ("tags", 400, False),
        ("tags", 600, False),
        ("name", 10, False),
        ("name", 400, False),
        ("name", 600, True),
    ):
        world = World([{field: f"{i}" * length} for i in range(3)])
        searcher.search(world.snapshot, request((SortKey(field),)))
        assert not search_cost.is_slow(world.snapshot, request((SortKey(field),)))
        by_language = request((SortKey(field, collation="sv"),))
        assert search_cost.is_slow(world.snapshot, by_language) == (length > 10)
        searcher.search(world.snapshot, by_language)
        assert search_cost.is_slow(world.snapshot, by_language) == is_slow_again


def test_what_looks_at_all_values_of_a_tree_is_slow_the_first_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(filter_bitsets, "KEYS_FAST_MAX", 5)
    nodes = RangeRequest("tags", tree="tags", separator=" > ", parents=("",))
    for asked in (
        request(ranges=(nodes,)),
        request(filters=(FilterClause(Under("tags", ("v",), " > ")),)),
    ):
        for num_values, expected in ((2, False), (6, True)):
            world = World([{"tags": f"v > {i}"} for i in range(num_values)])
            assert search_cost.is_slow(world.snapshot, asked) == expected
            searcher.search(world.snapshot, asked)
            assert not search_cost.is_slow(world.snapshot, asked)
    absent = RangeRequest("absent", tree="absent", separator=" > ")
    assert not search_cost.is_slow(world.snapshot, request(ranges=(absent,)))


def test_a_factor_is_as_slow_as_its_filter() -> None:
    world = World([{"name": "a", "tags": "a"}])
    for field, expected in (("tags", False), ("name", True)):
        factor = FilterFactor(AnyOf(field, ("a",)), 2.0, "rule")
        assert search_cost.is_slow(world.snapshot, request(factors=(factor,))) == expected


def test_joint_counts_of_many_values_or_documents_are_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World([{"tags": f"v{i}", "n": i} for i in range(6)])

    def asked(num_keys: int) -> SearchRequest:
        keys = tuple(f"v{i}" for i in range(num_keys))
        facet = FacetRequest("tags", False, 0)
        return request(value_statistics=(ValueStatisticsRequest(facet, keys, ("n",)),))

    assert not search_cost.is_slow(world.snapshot, asked(3))
    monkeypatch.setattr(search_cost, "JOINT_KEYS_FAST_MAX", 4)
    assert not search_cost.is_slow(world.snapshot, asked(3))
    assert search_cost.is_slow(world.snapshot, asked(5))
    monkeypatch.setattr(search_cost, "JOINT_FAST_MAX", 5)
    assert search_cost.is_slow(world.snapshot, asked(3))


def test_the_first_statistics_of_a_text_read_the_lengths_of_all_fields(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(whole_field_matches, "_MARKED_FAST_MAX", 2)
    world = World([{"text": "red sea"} for _ in range(3)], has_texts=True)
    asked = StatisticsRequest(1, 0, 0, (), wholes=(("red", "sea"),))
    fields = (FieldWeight("text", 1.0, 1.0),)
    clause = ScoredClause(Word("red"), ((1.0,) * NUM_MATCH_KINDS,))
    query = TextQuery((clause,), 1, False, (), fields, 0.9, 0.6, 0.0, whole=("red", "sea"))
    assert search_cost.is_slow_to_count(world.snapshot, asked)
    assert search_cost.is_slow(world.snapshot, request(query=query))
    assert corpus_statistics.statistics(world.snapshot, asked).whole_freqs == (3,)
    assert not search_cost.is_slow_to_count(world.snapshot, asked)
    assert not search_cost.is_slow(world.snapshot, request(query=query))
    few = World([{"text": "red sea"}] * 2, has_texts=True).snapshot
    assert not search_cost.is_slow_to_count(few, asked)


def test_looking_up_many_texts_is_slow_the_first_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filter_bitsets, "_VALUES_FAST_MAX", 2)
    monkeypatch.setattr(filter_bitsets, "KEYS_FAST_MAX", 2)
    world = World([{"name": name, "tags": name} for name in "abc"])
    snapshot = world.snapshot
    searcher.search(snapshot, request((SortKey("name"),)))  # the texts are read

    def is_slow(*conditions: AnyOf | AllOf | Range) -> list[bool]:
        return [
            search_cost.is_slow(snapshot, request(filters=(FilterClause(one),)))
            for one in conditions
        ]

    many = AnyOf("name", ("a", "b", "x")), Range("name", "a", False, "b", False)
    assert is_slow(*many) == [True] * 2
    assert is_slow(AnyOf("name", ("a", "b")), AnyOf("tags", ("a", "b", "x"))) == [False] * 2
    for one in many:
        searcher.search(snapshot, request(filters=(FilterClause(one),)))
    assert is_slow(*many) == [False] * 2
    for field in ("name", "tags"):
        assert is_slow(AllOf(field, ("a", "b")), AllOf(field, ("a", "b", "c"))) == [False, True]


def test_orders_by_distance_and_by_elements_are_slow_until_they_are_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(geo_columns, "_POINTS_FAST_MAX", 2)
    monkeypatch.setattr(geo_columns, "_CLOSEST_SHARE", 100)
    monkeypatch.setattr(segment_top_k, "_WALK_MATCHES_MIN", 2)
    monkeypatch.setattr(element_order, "KEYS_FAST_MAX", 2)
    shard = Shard(tmp_path / "index", index_entry(nested=["parts"]))
    items = [
        {"id": i, "_geo": {"lat": i, "lng": 7}, "parts": [{"price": i}, {"price": 9}]}
        for i in range(4)
    ]
    shard.put(*items[:2])
    few = shard.partition.newest
    shard.put(*items[2:])
    shard.merge()
    snapshot = shard.partition.newest
    for key in (
        SortKey("_geo", point=(1.0, 2.0)),
        SortKey("parts.price", within=Same("parts", And(()))),
    ):
        asked = request((key,), num_hits=1)
        assert not search_cost.is_slow(few, asked)
        assert search_cost.is_slow(snapshot, asked)
        searcher.search(snapshot, asked)
        assert not search_cost.is_slow(snapshot, asked)
    assert search_cost.is_slow(
        snapshot, request((SortKey("_geo", is_descending=True, point=(1.0, 2.0)),))
    ), "the farthest ones are measured"
    elsewhere = request((SortKey("nowhere", point=(1.0, 2.0)),))
    assert not search_cost.is_slow(snapshot, elsewhere)
    shard.close()


def test_rings_around_a_point_measure_all_distances(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search_cost, "DISTANCES_FAST_MAX", 2)
    items: list[Item] = [{"_geo": {"lat": float(i), "lng": 7.0}} for i in range(3)]
    rings = request(ranges=(RangeRequest("_geo", (), origin=(1.0, 2.0), rings=(0.0, 100.0)),))
    assert search_cost.is_slow(World(items).snapshot, rings)
    assert not search_cost.is_slow(World(items[:2]).snapshot, rings)
