"""All query caches share one budget; the one least recently added to is emptied first."""

from __future__ import annotations

from shard.caches.query_cache import ENTRY_BYTES, QueryCache, QueryCacheBudget

VALUE_BYTES = 1_000
SIZE = VALUE_BYTES + ENTRY_BYTES


def filled(budget: QueryCacheBudget, num_values: int) -> QueryCache[int, str]:
    cache: QueryCache[int, str] = QueryCache()
    for key in range(num_values):
        budget.keep(cache, key, "value", VALUE_BYTES)
    return cache


def test_the_one_that_learnt_least_recently_is_emptied() -> None:
    budget = QueryCacheBudget(10 * SIZE)
    first, second = filled(budget, 4), filled(budget, 4)
    budget.keep(first, 100, "value", VALUE_BYTES)
    third = filled(budget, 2)
    assert list(map(len, (first, second, third))) == [5, 0, 2]
    assert budget.size == 7 * SIZE


def test_many_indexes_take_no_more_than_one() -> None:
    budget = QueryCacheBudget(10 * SIZE)
    caches = [filled(budget, 3) for _ in range(1_000)]
    assert budget.size == sum(map(len, caches)) * SIZE <= budget.bytes_max


def test_a_single_one_is_emptied_when_it_is_full() -> None:
    budget = QueryCacheBudget(10 * SIZE)
    cache = filled(budget, 11)
    assert list(cache) == [10]
    assert budget.size == SIZE


def test_what_is_too_large_or_known_is_not_kept() -> None:
    budget = QueryCacheBudget(10 * SIZE)
    cache = filled(budget, 1)
    budget.keep(cache, 0, "again", VALUE_BYTES)
    budget.keep(cache, 1, "large", 5 * SIZE)
    assert cache == {0: "value"}
    assert budget.size == SIZE


def test_one_that_is_gone_takes_nothing() -> None:
    budget = QueryCacheBudget(10 * SIZE)
    for _ in range(3):
        filled(budget, 9)
    kept = filled(budget, 2)
    assert len(kept) == 2
    assert budget.size == 2 * SIZE
