"""Filters give, for every segment layout, the items of a naive filter."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.query_syntax_tree import (
    AllOf,
    And,
    AnyOf,
    Contains,
    Exists,
    Filter,
    Ids,
    IsEmpty,
    IsNull,
    Not,
    Or,
    Range,
    StartsWith,
)
from common.value_kinds_and_facet_keys import Shape, facet_key
from shard.caches.lru_cache import LruCache
from shard.query.filters import filter_bitsets
from shard.query.filters.filter_bitsets import is_slow, resolve
from shard.query.filters.starts_with_and_contains import fold_key
from tests.shard.columns_model import (
    FACETS,
    PATHS,
    Item,
    World,
    keys_of,
    leaves,
    numbers,
    numbers_of,
    scalars,
    texts,
    texts_of,
    worlds,
)

paths = st.sampled_from(PATHS)
keys = scalars.map(facet_key).filter(lambda key: key is not None) | texts


@st.composite
def ranges(draw: st.DrawFn) -> Range:
    kinds: list[st.SearchStrategy[Any]] = [numbers, texts]
    bound = st.none() | draw(st.sampled_from(kinds))
    lower, upper = draw(bound), draw(bound)
    return Range(draw(paths), lower, draw(st.booleans()), upper, draw(st.booleans()))


leaf_filters = (
    st.builds(AnyOf, paths, st.lists(keys, max_size=7).map(tuple))
    | st.builds(AllOf, paths, st.lists(keys, max_size=3).map(tuple))
    | ranges()
    | st.builds(Exists, paths)
    | st.builds(IsNull, paths)
    | st.builds(IsEmpty, paths)
    | st.builds(StartsWith, paths, texts)
    | st.builds(Contains, paths, texts)
)
conditions = st.recursive(
    leaf_filters,
    lambda inner: (
        st.builds(And, st.lists(inner, max_size=3).map(tuple))
        | st.builds(Or, st.lists(inner, max_size=3).map(tuple))
        | st.builds(Not, inner)
    ),
    max_leaves=5,
)


def passes(item: Item, condition: Filter) -> bool:
    """Return whether an item passes, the naive way."""
    match condition:
        case And(children=children):
            return all(passes(item, child) for child in children)
        case Or(children=children):
            return any(passes(item, child) for child in children)
        case Not(child=child):
            return not passes(item, child)
        case AnyOf(field=path, values=wanted):
            return not keys_of(item, path).isdisjoint(wanted)
        case AllOf(field=path, values=wanted):
            return keys_of(item, path).issuperset(wanted)
        case Range(field=path, lower=lower, upper=upper):
            of_texts = isinstance(lower, str) or isinstance(upper, str)
            values: list[Any] = list(texts_of(item, path) if of_texts else numbers_of(item, path))
            above = operator.gt if condition.is_lower_open else operator.ge
            below = operator.lt if condition.is_upper_open else operator.le
            return any(
                (lower is None or above(value, lower)) and (upper is None or below(value, upper))
                for value in values
            )
        case Ids(ids=ids):
            return str(item.get("id")) in ids
        case Exists(field=path):
            found = leaves(item, path)
            inside = any(leaves(item, inner) for inner in PATHS if inner.startswith(path + "."))
            return inside or any(value is not None for value, _ in found)
        case IsNull(field=path):
            return (None, Shape.SCALAR) in leaves(item, path)
        case IsEmpty(field=path):
            return any(
                shape == Shape.SCALAR and value in ("", [], {})
                for value, shape in leaves(item, path)
            )
        case StartsWith(field=path, text=text):
            return any(fold_key(key).startswith(fold_key(text)) for key in keys_of(item, path))
        case Contains(field=path, text=text):
            return any(fold_key(text) in fold_key(key) for key in keys_of(item, path))
        case _:
            raise AssertionError("conditions on objects are compared elsewhere")


def found(world: World, condition: Filter) -> set[int]:
    snapshot = world.snapshot
    return world.records([resolve(snapshot, view, condition) for view in snapshot.views])


def expected(world: World, condition: Filter) -> set[int]:
    return {record for _, record, item in world.live if passes(item, condition)}


@given(worlds(), conditions)
def test_filters_agree_with_a_naive_look_at_each_item(world: World, condition: Filter) -> None:
    assert found(world, condition) == expected(world, condition)
    assert found(world, condition) == expected(world, condition), "remembered result differs"


@given(worlds(facets=()), leaf_filters)
def test_fields_that_are_not_facets_are_filtered_alike(world: World, condition: Filter) -> None:
    assert found(world, condition) == expected(world, condition)


def test_texts_are_read_again_for_an_older_snapshot_with_more_live_documents() -> None:
    items = [{"name": "a"}, {"name": "b"}, {"name": "a"}]
    newer = World(items, deleted=frozenset({0}), facets=())
    older = World(items, facets=())
    object.__setattr__(older.snapshot, "views", ())
    older.snapshot.views = tuple(type(view)(view.segment, None) for view in newer.snapshot.views)
    condition = AnyOf("name", ("a",))
    assert found(newer, condition) == {2}
    assert found(older, condition) == {0, 2}
    assert found(newer, condition) == {2}


@pytest.mark.parametrize(
    ("condition", "expected_slow"),
    [
        (AnyOf("name", ("a",)), True),
        (And((AnyOf("tags", ("a",)), Not(AnyOf("name", ("a",))))), True),
        (AnyOf("tags", ("a",)), False),
        (Range("name", 1, False, 2, False), False),
        (Range("name", "a", False, None, False), True),
        (Exists("name"), False),
        (AnyOf("unknown", ("a",)), False),
    ],
)
def test_only_texts_that_are_not_columns_yet_are_slow(
    condition: Filter, expected_slow: bool
) -> None:
    world = World([{"name": "a", "tags": "a"}], facets=FACETS)
    (view,) = world.snapshot.views
    assert is_slow(world.snapshot, view, condition) == expected_slow
    resolve(world.snapshot, view, condition)
    assert not is_slow(world.snapshot, view, condition)


@pytest.mark.parametrize("least", [-128, -32_768, -(2**31), -(2**63)])
def test_many_numbers_do_not_match_items_without_one(least: int) -> None:
    """A column marks a missing number by the least value of its type."""
    items: list[Item] = [{"n": number} for number in (least + 1, 1, 2, 3, 4)] + [{"name": "a"}] * 5
    world = World(items, facets=())
    wanted = tuple(str(number) for number in (least, 1, 2, 3, 4))
    assert found(world, AnyOf("n", wanted)) == {1, 2, 3, 4}


@pytest.mark.parametrize("others", [(), ("1", "2", "3", "4")])
@pytest.mark.parametrize("facets", [(), ("n",)])
@pytest.mark.parametrize(
    ("number", "key"),
    [
        (2**53, str(2**53 + 1)),
        (2.0**64, str(2**64 + 1)),
        (1e21, str(10**21)),
        (1.0, "1" * 400),
        (1.0, "-" + "9" * 5_000),
    ],
)
def test_a_key_names_one_number_only(
    number: float, key: str, facets: tuple[str, ...], others: tuple[str, ...]
) -> None:
    """Not the one that has the same double: many keys are compared as doubles."""
    world = World([{"n": number}, {"n": 0.5}], facets=facets)
    key_of_it = facet_key(number)
    assert key_of_it is not None
    others = tuple(one for one in others if one != key_of_it)

    assert found(world, AnyOf("n", (key, *others, "5"))) == set()
    assert found(world, AnyOf("n", (key_of_it, *others, "5"))) == {0}


def test_a_field_that_no_item_has_takes_no_memory() -> None:
    world = World([{"box": {"in": 1}, "name": "a"}], facets=())
    for path in ("box", "name", *[f"absent{i}" for i in range(5)]):
        assert found(world, Exists(path)) == (set() if path.startswith("absent") else {0})
    assert set(filter_bitsets._inner_fields(world.snapshot)) == {"box", "name"}


def _remembered(cache: LruCache) -> int:
    """Return the bytes of all arrays that a cache really holds."""
    return sum(kept.nbytes for kept, *_ in cache._entries.values())


def test_filters_of_few_documents_are_remembered_in_few_bytes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And give the same bitset again, whichever way they were kept."""
    cache = LruCache(1 << 20)
    monkeypatch.setattr(filter_bitsets, "FILTER_CACHE", cache)
    world = World([{"tags": [f"rare-{i}", f"half-{i % 2}"]} for i in range(2_000)])
    (view,) = world.snapshot.views
    for condition, num_bytes in (
        (AnyOf("tags", ("rare-7",)), 4),
        (AnyOf("tags", ("rare-9", "rare-64", "rare-1999")), 12),
        (AnyOf("tags", ("half-1",)), 32 * 8),  # 1,000 documents: a bitset is shorter
        (AnyOf("tags", ("nobody",)), 0),
    ):
        before = _remembered(cache)
        first = resolve(world.snapshot, view, condition)
        assert _remembered(cache) - before == num_bytes
        assert np.array_equal(resolve(world.snapshot, view, condition), first)
        assert found(world, condition) == expected(world, condition)


def test_memory_of_filters_is_bounded_however_many_there_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cache = LruCache(64 * 1024)
    monkeypatch.setattr(filter_bitsets, "FILTER_CACHE", cache)
    world = World([{"tags": [f"rare-{i}", f"part-{i % 7}"], "year": i} for i in range(3_000)])
    (view,) = world.snapshot.views
    for i in range(1_500):
        condition: Filter = AnyOf("tags", (f"rare-{i}", f"part-{i % 7}"))
        if i % 3 == 0:
            condition = Range("year", i, False, None, False)
        assert len(np.flatnonzero(resolve(world.snapshot, view, condition)))
        assert _remembered(cache) <= cache.size <= cache.bytes_max
    assert len(cache) > 10
