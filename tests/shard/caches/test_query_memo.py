"""All memos of queries share one budget; the one that learnt least recently is emptied first."""

from __future__ import annotations

from shard.caches.query_memo import ENTRY_BYTES, QueryMemo, QueryMemoBudget

VALUE_BYTES = 1_000
SIZE = VALUE_BYTES + ENTRY_BYTES


def filled(budget: QueryMemoBudget, num_values: int) -> QueryMemo[int, str]:
    memo: QueryMemo[int, str] = QueryMemo()
    for key in range(num_values):
        budget.keep(memo, key, "value", VALUE_BYTES)
    return memo


def test_the_one_that_learnt_least_recently_is_emptied() -> None:
    budget = QueryMemoBudget(10 * SIZE)
    first, second = filled(budget, 4), filled(budget, 4)
    budget.keep(first, 100, "value", VALUE_BYTES)
    third = filled(budget, 2)
    assert list(map(len, (first, second, third))) == [5, 0, 2]
    assert budget.size == 7 * SIZE


def test_many_indexes_take_no_more_than_one() -> None:
    budget = QueryMemoBudget(10 * SIZE)
    memos = [filled(budget, 3) for _ in range(1_000)]
    assert budget.size == sum(map(len, memos)) * SIZE <= budget.bytes_max


def test_a_single_one_is_emptied_when_it_is_full() -> None:
    budget = QueryMemoBudget(10 * SIZE)
    memo = filled(budget, 11)
    assert list(memo) == [10]
    assert budget.size == SIZE


def test_what_is_too_large_or_known_is_not_kept() -> None:
    budget = QueryMemoBudget(10 * SIZE)
    memo = filled(budget, 1)
    budget.keep(memo, 0, "again", VALUE_BYTES)
    budget.keep(memo, 1, "large", 5 * SIZE)
    assert memo == {0: "value"}
    assert budget.size == SIZE


def test_one_that_is_gone_takes_nothing() -> None:
    budget = QueryMemoBudget(10 * SIZE)
    for _ in range(3):
        filled(budget, 9)
    kept = filled(budget, 2)
    assert len(kept) == 2
    assert budget.size == 2 * SIZE
