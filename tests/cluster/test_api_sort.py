"""The order of hits: insertion, sort fields of any type, pages that partition them.

One row of the interface after another, against real processes with 1 and 3 shards.
"""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from tests.cluster.conftest import Index, error_of


def test_insertion_order_survives_updates_but_not_delete_and_add(films: Index) -> None:
    films.put([{"id": 2, "name": "changed"}, {"id": 7}])
    films.client.delete(f"{films.path}/items/1")
    films.put([{"id": 1, "name": "back"}])

    assert films.ids() == [2, 3, 4, 5, 6, 7, 1]
    assert films.ids(order="desc") == [1, 7, 6, 5, 4, 3, 2]


@pytest.mark.parametrize(
    ("sort_field", "ascending", "descending"),
    [
        ("year", [2, 3, 6, 1, 4, 5], [5, 1, 4, 6, 2, 3]),
        ("rating", [4, 5, 1, 3, 2, 6], [2, 3, 1, 5, 4, 6]),
        ("name", [5, 4, 3, 2, 6, 1], [1, 6, 2, 3, 4, 5]),
    ],
)
def test_any_scalar_field_orders_hits(
    shared_films: Index, sort_field: str, ascending: list[int], descending: list[int]
) -> None:
    assert shared_films.ids(sort_field=sort_field) == ascending
    assert shared_films.ids(sort_field=sort_field, order="asc") == ascending
    assert shared_films.ids(sort_field=sort_field, order="desc") == descending


def test_mixed_types_have_an_order(index: Index) -> None:
    index.configure({"sorting_fields": ["v"]})
    values: list[Any] = ["b", 2, None, True, "a", -1.5, [1], False, 10, "B", {"x": 1}, "", 2**60]
    index.put([{"id": i, "v": value} for i, value in enumerate(values)])
    index.put([{"id": "none"}])

    in_order = [-1.5, 2, 10, 2**60, "", "B", "a", "b", False, True]
    rest = [2, 6, 10, "none"]
    expected = [i for value in in_order for i, other in enumerate(values)
                if other == value and type(other) is type(value)]  # fmt: skip
    assert index.ids(sort_field="v", per_page=100) == expected + rest
    assert index.ids(sort_field="v", order="desc", per_page=100) == expected[::-1] + rest


def test_numbers_that_are_no_doubles_are_ordered_exactly(index: Index) -> None:
    index.configure({})
    numbers = [2**53 + 1, 2**53, 2**53 + 2, 2**64 - 1, 2**64 - 2, -(2**63), -(2**63) + 1]
    index.put([{"id": str(number), "v": number} for number in numbers])

    assert index.ids(sort_field="v") == [str(number) for number in sorted(numbers)]


def test_dotted_path_is_sortable(index: Index) -> None:
    index.configure({})
    index.put([{"id": i, "a": {"b": (i * 7) % 5}} for i in range(5)])

    assert index.ids(sort_field="a.b") == sorted(range(5), key=lambda i: (i * 7) % 5)


def test_values_of_both_spellings_of_a_path_are_no_value_to_sort_by(index: Index) -> None:
    """The text that a shard had seen first counted, and a number before any text."""
    index.configure({"aggregations": {"a.b": {}}})
    index.put([{"id": i, "a.b": text} for i, text in enumerate("zyxzyx")])
    index.put([{"id": 10 + i, "a.b": "x", "a": {"b": "z"}} for i in range(4)])
    index.put([{"id": 20, "a.b": "y", "a": {"b": 1}}, {"id": 21, "a.b": 1, "a": {"b": 1.0}}])
    index.put([{"id": 22, "a.b": "y", "a": {"b": None}}, {"id": 23, "a.b": "", "a": {"b": "x"}}])

    assert index.ids(sort_field="a.b", per_page=20) == [
        *(21, 2, 5, 23, 1, 4, 22, 0, 3),
        *(10, 11, 12, 13, 20),
    ]
    # Such values are a set, as those of an array are.
    assert index.ids(distinct="a.b", per_page=20) == [0, 1, 2, 10, 20, 21]


def test_unknown_sort_field_is_refused(shared_films: Index) -> None:
    error = error_of(shared_films.post("search", {"sort_field": "nothing"}))

    assert (error["status"], error["param"]) == (400, "sort_field")


@pytest.mark.parametrize("parameters", [{}, {"sort_field": "v"}, {"query": "word"}])
def test_pages_partition_the_hits(index: Index, parameters: dict[str, Any]) -> None:
    index.configure({})
    index.put([{"id": i, "v": i % 3, "text": "word " * (i % 4 + 1)} for i in range(50)])

    pages = [index.ids(page=page, per_page=7, **parameters) for page in range(1, 9)]

    assert [len(page) for page in pages] == [7] * 7 + [1]
    together = list(itertools.chain(*pages))
    assert together == index.ids(per_page=1000, **parameters)
    assert sorted(together) == list(range(50))
