"""`filters` as an object, and ranges of dates.

One row of the interface after another, against real processes with 1 and 3 shards.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.cluster.conftest import Index


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({"year": {"gte": 1995}}, [1, 4, 5, 6]),
        ({"year": {"gt": 1994, "lt": 1999}}, [6]),
        ({"rating": {"gte": 8, "lte": 8.6}}, [1, 4, 5]),
        ({"year": {"gte": 1999, "lte": 1999}, "rating": {"gt": 8}}, [1]),
        ({"name": {"gte": "F", "lt": "G"}}, [3, 4]),
        ({"tags": {"any": ["crime", "romance"]}}, [1, 2, 3, 5]),
        ({"tags": {"all": ["drama", "crime"]}}, [1]),
        ({"tags": {"none": ["drama"]}}, [2, 5, 6]),
        ({"tags": {"any": ["drama"], "none": ["crime"]}}, [3, 4]),
        ({"rating": {"exists": True}}, [1, 2, 3, 4, 5]),
        ({"rating": {"exists": False}}, [6]),
        ({"seen": {"exists": True}}, [6]),
        ({"year": {}}, [1, 2, 3, 4, 5, 6]),
    ],
)
def test_filter_objects_select_items(
    shared_films: Index, filters: dict[str, Any], expected: list[int]
) -> None:
    assert shared_films.ids(filters=filters) == expected


def test_dates_are_compared_as_texts(index: Index) -> None:
    index.configure({})
    index.put([{"id": i, "d": f"2024-0{i}-15"} for i in range(1, 7)])
    index.put([{"id": 7, "d": ""}, {"id": 8, "d": ["", "2024-01-01"]}, {"id": 9, "d": [""]}])

    assert index.ids(filters={"d": {"gte": "2024-02", "lt": "2024-04"}}) == [2, 3]
    assert index.ids(filters={"d": {"lt": "2024-03"}}) == [1, 2, 8]
    assert index.ids(filter='d <= "2024-01-31"') == [1, 8]
