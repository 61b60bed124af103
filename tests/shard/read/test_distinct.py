"""The best hits of each value of a field."""

from __future__ import annotations

from collections import Counter

import numpy as np
import orjson
import pytest

from common.protocol.messages import (
    Distinct,
    FilterClause,
    SortKey,
)
from common.query_syntax_tree import Range
from common.value_kinds_and_facet_keys import NO_TOKEN
from shard.collect.grouping.distinct_hits import MatchValues
from shard.read import searcher
from shard.segment.columns import grouping_keys
from shard.segment.columns.sort_columns import sort_column
from shard.segment.columns.text_ordinal_columns import text_column
from tests.shard.collect.top_hits.test_top_k import request
from tests.shard.columns_model import Item, World


def test_distinct_keeps_the_best_hits_of_each_value() -> None:
    items: list[Item] = [{"brand": f"b{n % 3}" if n % 5 else None, "n": n} for n in range(100)]
    world = World(items, cuts=[40], facets=("brand",))
    asked = request((SortKey("n", True),), distinct=Distinct("brand", 2), num_documents=10)
    found = searcher.search(world.snapshot, asked)
    seen: Counter[str] = Counter()
    expected = []
    for item in reversed(items):
        brand = item["brand"]
        if brand is None or seen[brand] < 2:
            expected.append(item["n"])
            seen[brand] += brand is not None
    assert [orjson.loads(one)["n"] for one in found.documents] == expected[:10]
    assert found.total == 100
    assert found.distinct is not None
    assert (found.distinct.total, found.distinct.num_missing) == (6 + 20, 20)
    tokens = np.frombuffer(found.distinct.hit_tokens, np.uint64).tolist()
    by_brand = {(items[n]["brand"], token) for n, token in zip(expected, tokens, strict=False)}
    assert len(tokens) == len(found.places) // 8
    assert (None, NO_TOKEN) in by_brand
    assert len(by_brand) == len({token for _, token in by_brand}) == 4


def test_a_field_of_one_text_an_item_is_numbered_as_any_other() -> None:
    items: list[Item] = [{"n": n, "v": None if n % 4 == 0 else f"v{n % 7}"} for n in range(200)]
    world = World(items, cuts=[3, 90], facets=("v",))  # the first part has not all values
    field = world.snapshot.registry.number("v")
    assert field is not None
    for view in world.snapshot.views:
        texts = text_column(world.snapshot, view, field)
        assert texts is not None
        column = sort_column(world.snapshot, view, field)
        found = grouping_keys.grouping_keys(world.snapshot, view, field)
        expected = grouping_keys._make(view.segment, field, column, texts)
        assert found.numbers.tolist() == expected.numbers.tolist()
        assert found.tokens.tolist() == expected.tokens.tolist()
        assert found.numbers.dtype == expected.numbers.dtype
        assert found.tokens.dtype == expected.tokens.dtype


@pytest.mark.parametrize("limit", [1, 2])
@pytest.mark.parametrize("num_hits", [0, 1, 9, 400])
@pytest.mark.parametrize("facets", [(), ("v",)])
def test_distinct_looks_past_the_many_hits_of_few_values(
    limit: int, num_hits: int, facets: tuple[str, ...]
) -> None:
    kinds = ["1", 1, 1.0, True, False, "", "é", 2**53 + 1, 2**53, 2**64 - 1, 0, -0.0, None, []]
    items: list[Item] = [
        {"n": n, "v": kinds[13 - n // 100] if n < 1_400 else "common", "t": "word " * (n % 7 + 1)}
        for n in range(3_000)
    ]
    world = World(items, cuts=[900, 1_700], deleted=frozenset({1, 150}), facets=facets)
    asked = request(
        (SortKey("n", True),),
        distinct=Distinct("v", limit),
        num_hits=num_hits,
        num_documents=num_hits,
        wants_distinct_values=True,
    )
    seen: Counter[tuple[bool, object]] = Counter()
    expected = []
    for _, _, item in reversed(world.live):
        value = item["v"]
        seen[isinstance(value, bool), None if value == [] else value] += 1
        if value is None or value == [] or seen[isinstance(value, bool), value] <= limit:
            expected.append(item["n"])

    found = searcher.search(world.snapshot, asked)

    assert [orjson.loads(one)["n"] for one in found.documents] == expected[:num_hits]
    assert found.distinct is not None
    assert (found.distinct.total, found.distinct.num_missing) == (len(expected), 198)
    assert set(found.distinct.counts) == {limit}
    assert len(found.distinct.tokens) == 8 * len(found.distinct.counts)
    assert len(found.distinct.counts) == (len(expected) - 198) // limit


def test_distinct_makes_no_list_of_all_matches(monkeypatch: pytest.MonkeyPatch) -> None:
    """One pass counts a million hits by value, in a few milliseconds."""
    monkeypatch.setattr(MatchValues, "of_matches", None)
    items: list[Item] = [{"v": n % 7, "n": n} for n in range(500)]
    for deleted in (frozenset[int](), frozenset({3, 400})):
        world = World(items, cuts=[200], deleted=deleted)
        for narrowing in ((), (FilterClause(Range("n", 100)),)):
            asked = request(distinct=Distinct("v"), num_hits=7, num_documents=7, filters=narrowing)
            found = searcher.search(world.snapshot, asked)
            left = [n for n in range(100 if narrowing else 0, 500) if n not in deleted]
            assert (found.total, found.distinct and found.distinct.total) == (len(left), 7)
            shown = [orjson.loads(one)["n"] for one in found.documents]
            assert shown == sorted({n % 7: n for n in reversed(left)}.values())


def test_an_array_is_the_set_of_its_values() -> None:
    items: list[Item] = [{"v": 1}, {"v": [1]}, {"v": [[2], 3]}, {"v": []}, {"w": 1}, {"v": [3, 1]}]
    items += [{"v": [1, 3, 1]}, {"v": "a"}, {"v": ["a", "a"]}, {"v": ["a", 1]}, {"v": [1, "a", {}]}]
    world = World(items, cuts=[2, 6])
    found = searcher.search(world.snapshot, request(distinct=Distinct("v"), num_hits=20))
    assert found.distinct is not None
    assert (found.distinct.total, found.distinct.num_missing) == (7, 2)
    assert np.frombuffer(found.places, np.uint64).tolist() == [0, 2, 3, 4, 5, 7, 9]
