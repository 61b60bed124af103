"""Ranges of numbers within elements that `same` restricts, and branches of trees to exclude."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cluster.conftest import Index, error_of

SHIRTS = [
    {"id": 1, "v": [{"size": "M", "price": 2}, {"size": "L", "price": 9}]},
    {"id": 2, "v": [{"size": "L", "price": 1}, {"size": "M", "price": 15}]},
    {"id": 3, "v": [{"size": "M"}, {"size": "S", "price": 3}]},
    {"id": 4, "v": [{"size": "M", "price": [3, 4]}, {"size": "M", "price": 2.5}]},
    {"id": 5},
]


@pytest.fixture
def shirts(index: Index) -> Index:
    index.configure({"nested": ["v"], "aggregations": {"v.size": {"conjunction": False}}})
    index.put(SHIRTS)
    return index


def _ranges(shirts: Index, same: Any, options: Any, **more: Any) -> list[tuple[Any, int]]:
    filters = {"v": {"same": same}}
    answer = shirts.search(filters=filters, facet_ranges={"v.price": options}, **more)
    return [(one["key"], one["doc_count"]) for one in answer["data"]["ranges"]["v.price"]]


@pytest.mark.parametrize("own", [{}, {"price": {"lt": 3}}, {"price": {"gte": 100}}])
def test_ranges_count_elements_that_pass_all_but_their_own_condition(
    shirts: Index, own: Any
) -> None:
    options = {"ranges": [{"to": 4}, {"from": 4}], "missing": True}

    assert _ranges(shirts, {"size": ["M"], **own}, options) == [
        ("*-4", 2),
        ("4-*", 2),
        ("missing", 1),
    ]
    assert _ranges(shirts, {"size": ["M"], **own}, {"interval": 2}) == [
        (2.0, 2),
        (4.0, 1),
        (14.0, 1),
    ]
    by_price = dict(_ranges(shirts, {"size": ["M"]}, {"interval": 1}))
    for low, count in by_price.items():
        chosen = {"size": ["M"], "price": {"gte": low, "lt": low + 1}}
        found = shirts.search(filters={"v": {"same": chosen}})
        assert found["pagination"]["total"] == count


def test_an_object_of_ranges_needs_no_missing(shirts: Index) -> None:
    ranges = [{"to": 4}, {"from": 4}]

    found = _ranges(shirts, {"size": ["M"]}, {"ranges": ranges})
    assert found == _ranges(shirts, {"size": ["M"]}, ranges) == [("*-4", 2), ("4-*", 2)]
    wrongs: list[Any] = [{"ranges": ranges}, None, []]
    for wrong in wrongs:
        reply = shirts.post("search", {"facet_ranges": {"v.price": {"ranges": wrong}}})
        assert error_of(reply)["param"].startswith("facet_ranges.v.price")


def test_strict_ranges_count_elements_that_pass_everything(shirts: Index) -> None:
    same = {"size": ["M"], "price": {"lt": 3}}

    assert _ranges(shirts, same, {"interval": 2}, facet_mode="strict") == [(2.0, 2)]


def test_a_cube_counts_ranges_within_elements(shirts: Index) -> None:
    answer = shirts.search(
        filters={"v": {"same": {"size": ["M"]}}},
        facet_ranges={"v.price": {"ranges": [{"to": 4}, {"from": 4}], "missing": True}},
        facet_cube={"field": "id", "edges": [0, 3, 10]},
    )
    rows = answer["data"]["facet_cube"]["ranges"]["v.price"]

    assert [(one["key"], one["counts"]) for one in rows] == [
        ("*-4", [0, 1, 2]),
        ("4-*", [0, 1, 2]),
        ("missing", [0, 0, 1]),
    ]


def test_branches_of_trees_are_excluded_as_they_are_chosen(index: Index) -> None:
    index.configure(
        {
            "aggregations": {"kind": {}, "lvl0": {}, "lvl1": {}},
            "hierarchies": {
                "kind": {"path": "kind", "separator": " > "},
                "steps": {"levels": ["lvl0", "lvl1"]},
            },
        }
    )
    paths = ["A", "A > B", "A > B > C", "AB", "D > B", None]
    index.put(
        [
            {"id": i, "kind": path, "lvl0": path.split(" > ")[0], "lvl1": path}
            if path
            else {"id": i}
            for i, path in enumerate(paths)
        ]
    )
    for chosen, expected in (
        (["A"], [3, 4, 5]),
        (["A > B"], [0, 3, 4, 5]),
        (["A > B", "D"], [0, 3, 5]),
        ([], [0, 1, 2, 3, 4, 5]),
    ):
        assert index.ids(not_filters={"kind": chosen}) == expected
    assert index.ids(not_filters={"steps": ["A"]}) == [3, 4, 5]
    assert index.ids(not_filters={"steps": "A > B"}) == [0, 2, 3, 4, 5]
    assert index.ids(filters={"kind": "A"}, not_filters={"kind": "A > B"}) == [0]
    assert index.ids(filters={"kind": ""}, trees=["kind"]) == []
