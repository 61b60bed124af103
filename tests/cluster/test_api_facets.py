"""Facets: values, counts, order and choice of buckets, statistics, the page of one facet.

One row of the interface after another, against real processes with 1 and 3 shards.
"""

from __future__ import annotations

import sys
from typing import Any

import pytest

from tests.cluster.conftest import Index, error_of, pairs

JSON = {"content-type": "application/json"}


def test_facet_values_are_distinct_scalars_as_text(index: Index) -> None:
    index.configure({"aggregations": {"f": {"size": 50}, "a.b": {}}})
    values: list[Any] = ["x", 1994, 1994.0, True, False, 9.5, 1e21, -0.0, "", None, {"k": 1}]
    index.put([{"id": i, "f": value} for i, value in enumerate(values)])
    index.put([{"id": "list", "f": ["x", "x", 1994, "1994", ["nested"], {"n": "o"}, None, ""]}])
    index.put([{"id": "path", "a": [{"b": "p"}, {"b": ["q", "p"]}]}])

    assert index.buckets("f") == [
        ("1994", 3),
        ("x", 2),
        ("0", 1),
        ("1e+21", 1),
        ("9.5", 1),
        ("false", 1),
        ("true", 1),
    ]
    assert index.buckets("a.b") == [("p", 1), ("q", 1)]


def test_filters_name_values_as_text_or_as_their_own_type(shared_films: Index) -> None:
    by_number = shared_films.ids(filters={"year": [1994]})

    assert by_number == shared_films.ids(filters={"year": ["1994"]}) == [2, 3]
    assert shared_films.ids(filters={"year": 1994}) == by_number
    assert (
        shared_films.ids(filters={"seen": [True]})
        == shared_films.ids(filters={"seen": "true"})
        == [6]
    )


def test_conjunctive_facet_counts_within_the_hits(shared_films: Index) -> None:
    answer = shared_films.search(filters={"tags": ["drama", "crime"]})

    assert [item["id"] for item in answer["data"]["items"]] == [1]
    tags = answer["data"]["aggregations"]["tags"]["buckets"]
    assert tags == [
        {"key": "crime", "doc_count": 1, "selected": True},
        {"key": "drama", "doc_count": 1, "selected": True},
        {"key": "romance", "doc_count": 0, "selected": False},
    ]


def test_disjunctive_facet_leaves_out_its_own_filter(shared_films: Index) -> None:
    answer = shared_films.search(filters={"year": [1994, 2001], "tags": ["romance"]})

    assert [item["id"] for item in answer["data"]["items"]] == [3, 5]
    facets = answer["data"]["aggregations"]
    assert pairs(facets["year"]) == [("1994", 1), ("2001", 1), ("1995", 0), ("1999", 0)]
    assert pairs(facets["tags"]) == [("romance", 2), ("drama", 1), ("crime", 0)]


def test_disjunctive_facet_leaves_out_its_own_range(shared_films: Index) -> None:
    answer = shared_films.search(filters={"year": {"gte": 1999}})

    assert answer["pagination"]["total"] == 3
    assert pairs(answer["data"]["aggregations"]["year"]) == [
        ("1994", 2),
        ("1999", 2),
        ("1995", 1),
        ("2001", 1),
    ]
    assert pairs(answer["data"]["aggregations"]["tags"])[0] == ("drama", 2)


def test_not_filters_narrow_everything(shared_films: Index) -> None:
    answer = shared_films.search(filters={"year": [1994]}, not_filters={"tags": ["crime"]})

    assert [item["id"] for item in answer["data"]["items"]] == [3]
    assert pairs(answer["data"]["aggregations"]["year"])[:2] == [("1994", 1), ("1995", 1)]
    assert shared_films.ids(exclude_filters={"tags": ["crime"]}) == [3, 4, 5, 6]


def test_not_filters_on_unknown_fields_and_values_change_nothing(shared_films: Index) -> None:
    assert len(shared_films.ids(not_filters={"nothing": ["x"], "tags": ["nobody"]})) == 6


def test_empty_list_restricts_nothing(shared_films: Index) -> None:
    assert len(shared_films.ids(filters={"tags": [], "year": []}, not_filters={"tags": []})) == 6


def test_filter_on_a_field_that_does_not_exist_is_refused(shared_films: Index) -> None:
    error = error_of(shared_films.post("search", {"filters": {"nothing": ["x"]}}))

    assert (error["status"], error["param"]) == (400, "filters.nothing")


def test_filter_value_that_no_item_has_matches_nothing_and_is_no_bucket(
    shared_films: Index,
) -> None:
    answer = shared_films.search(filters={"tags": ["nobody"]})

    assert answer["pagination"]["total"] == 0
    assert pairs(answer["data"]["aggregations"]["tags"]) == [
        ("crime", 0),
        ("drama", 0),
        ("romance", 0),
    ]


def test_filter_may_name_a_field_that_is_no_facet(shared_films: Index) -> None:
    assert shared_films.ids(filters={"rating": [8.6, 8]}) == [1, 4]
    assert shared_films.ids(filters={"name": "Se7en"}) == [6]


def test_value_that_no_item_has_any_more_is_gone(films: Index) -> None:
    films.client.delete(f"{films.path}/items/5")
    films.client.delete(f"{films.path}/items/3")

    assert films.buckets("tags") == [("crime", 2), ("drama", 2)]
    assert films.buckets("year") == [("1999", 2), ("1994", 1), ("1995", 1)]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, ["b+", "a", "c", "d"]),
        ({"size": 2}, ["b+", "a"]),
        ({"size": 1}, ["b+"]),
        ({"sort": "term"}, ["b+", "a", "c", "d"]),
        ({"sort": "key", "order": "desc"}, ["b+", "d", "c", "a"]),
        ({"sort": "count", "order": "asc"}, ["b+", "d", "c", "a"]),
        ({"sort": "count", "chosen_filters_on_top": False}, ["a", "b+", "c", "d"]),
        ({"sort": ["count:desc", "key:desc"]}, ["a", "c", "b+", "d"]),
        ({"sort": ["selected", "count", "key"], "order": ["desc", "asc", "desc"]},
         ["b+", "d", "c", "a"]),
        ({"sort": ["key"], "order": ["desc"]}, ["d", "c", "b+", "a"]),
        ({"hide_zero_doc_count": True}, ["b+", "a", "c"]),
    ],
)  # fmt: skip
def test_settings_of_a_facet_order_and_choose_its_buckets(
    index: Index, settings: dict[str, Any], expected: list[str]
) -> None:
    """Counted: a 3, b 1 (selected), c 1, d 0; b's own filter is left out."""
    index.configure({"aggregations": {"f": settings | {"conjunction": False}, "g": {}}})
    values = ["a", "a", "a", "b", "c"]
    index.put([{"id": i, "f": value, "g": 1} for i, value in enumerate(values)])
    index.put([{"id": "d", "f": "d", "g": 2}])

    answer = index.search(filters={"f": ["b"], "g": [1]})

    buckets = answer["data"]["aggregations"]["f"]["buckets"]
    assert [one["key"] + "+" * one["selected"] for one in buckets] == expected


def test_facet_stats_are_those_of_the_hits(index: Index) -> None:
    index.configure({"aggregations": {"price": {"show_facet_stats": True, "conjunction": False}}})
    index.put([{"id": i, "price": price} for i, price in enumerate([1, 2.5, 2.5, "x", [4, 6]])])

    facet = index.search()["data"]["aggregations"]["price"]
    filtered = index.search(filters={"price": [2.5]})["data"]["aggregations"]["price"]

    assert facet["facet_stats"] == {"min": 1, "max": 6, "avg": 3.2, "sum": 16, "count": 5}
    assert filtered["facet_stats"] == {"min": 2.5, "max": 2.5, "avg": 2.5, "sum": 5, "count": 2}


@pytest.mark.parametrize(
    ("prices", "average", "total"),
    [
        ([1e308, 1e308, 1e308], 1e308, sys.float_info.max),
        ([sys.float_info.max, -sys.float_info.max, 7.0], 7 / 3, 7.0),
        ([-1e308] * 5, -1e308, -sys.float_info.max),
        ([1e308, -1e308, 1e300, 5e-324], 2.5e299, 1e300),
    ],
)
def test_facet_stats_are_answered_for_the_greatest_numbers(
    index: Index, prices: list[float], average: float, total: float
) -> None:
    """Their sum may exceed all numbers that JSON has; one such item breaks no search."""
    index.configure({"aggregations": {"price": {"show_facet_stats": True}}})
    index.put([{"id": i, "price": price} for i, price in enumerate(prices)])

    stats = index.search()["data"]["aggregations"]["price"]["facet_stats"]

    assert (stats["min"], stats["max"]) == (min(prices), max(prices))
    assert stats["count"] == len(prices)
    assert stats["avg"] == pytest.approx(average)
    assert stats["sum"] == pytest.approx(total)


def test_title_and_position_come_from_the_configuration(index: Index) -> None:
    index.configure({"aggregations": {"b": {"title": "Bé", "position": 7}, "a_field": {}}})

    facets = index.search()["data"]["aggregations"]

    assert list(facets) == ["a_field", "b"]
    assert (facets["b"]["title"], facets["b"]["position"]) == ("Bé", 7)
    assert facets["a_field"]["position"] == 2


def test_pages_of_a_facet_continue_past_its_size(index: Index) -> None:
    index.configure({"aggregations": {"f": {"size": 2}}})
    index.put([{"id": i, "f": f"value {i % 25:02}"} for i in range(60)])

    first = index.get("facet", name="f").json
    third = index.post("facet", {"name": "f", "page": 3, "per_page": 10}).json

    assert first["pagination"] == {"per_page": 10, "page": 1, "total": 25}
    assert [bucket["key"] for bucket in first["data"]["buckets"]] == [
        f"value {i:02}" for i in range(10)
    ]
    assert pairs(third["data"]) == [(f"value {i:02}", 2) for i in range(20, 25)]


def test_facet_page_leaves_out_zeros_where_the_request_says_so(index: Index) -> None:
    index.configure({"aggregations": {"tag": {}, "kind": {"hide_zero_doc_count": True}}})
    index.put([{"id": n, "kind": "ab"[n % 2], "tag": f"t{n:02}"} for n in range(40)])

    def page(name: str, **parameters: Any) -> tuple[int, list[str]]:
        found = index.post("facet", {"name": name, "filters": {"kind": ["a"]}, **parameters}).json
        return found["pagination"]["total"], [one["key"] for one in found["data"]["buckets"]]

    assert page("tag", page=2) == (40, [f"t{n:02}" for n in range(20, 40, 2)])
    assert page("tag", page=2, hide_zero=True) == (20, [f"t{n:02}" for n in range(20, 40, 2)])
    assert page("tag", page=3, hide_zero=True) == (20, [])
    assert page("kind") == (1, ["a"])
    assert page("kind", hide_zero=False) == (2, ["a", "b"])


@pytest.mark.parametrize(
    ("parameters", "keys"),
    [
        ({"query": "crème brûlée"}, ["Crème Brûlée"]),
        ({"query": "CREME*"}, ["Crème Brûlée", "Crème fraîche"]),
        ({"query": "*he"}, ["Crème fraîche"]),
        ({"query": "creme"}, []),
        ({"query": "*"}, ["Crème Brûlée", "Crème fraîche", "Ice", "Parfait"]),
        ({"facet_query": "frai"}, ["Crème fraîche"]),
        ({"facet_query": "fraichr"}, ["Crème fraîche"]),
        ({"facet_query": "parfiat"}, ["Parfait"]),
        ({"filters": {"g": [1]}}, ["Crème Brûlée", "Crème fraîche"]),
        ({"not_filters": {"g": [1]}}, ["Ice", "Parfait"]),
        ({"search_query": "cold"}, ["Ice"]),
        ({"search_query": "cold", "query": "p*"}, []),
    ],
)
def test_values_of_a_facet_are_searched(
    index: Index, parameters: dict[str, Any], keys: list[str]
) -> None:
    index.configure({"aggregations": {"f": {"hide_zero_doc_count": True}, "g": {}}})
    index.put(
        [
            {"id": 1, "f": "Crème Brûlée", "g": 1},
            {"id": 2, "f": "Crème fraîche", "g": 1},
            {"id": 3, "f": "Ice", "g": 2, "text": "cold"},
            {"id": 4, "f": "Parfait", "g": 2},
        ]
    )

    answer = index.post("facet", {"name": "f", **parameters}).json

    assert [bucket["key"] for bucket in answer["data"]["buckets"]] == keys
    assert answer["pagination"]["total"] == len(keys)


@pytest.mark.parametrize("is_hidden", [True, False])
@pytest.mark.parametrize("hides", [True, False, None])
def test_the_facet_page_hides_zeros_as_the_request_or_else_the_configuration_says(
    index: Index, is_hidden: bool, hides: bool | None
) -> None:
    index.configure({"aggregations": {"f": {"hide_zero_doc_count": is_hidden}, "g": {}}})
    index.put([{"id": n, "f": f"value {n}", "g": n % 2} for n in range(6)])
    parameters = {} if hides is None else {"hide_zero": hides}

    page = index.post("facet", {"name": "f", "filters": {"g": [1]}, **parameters}).json

    total = 3 if (is_hidden if hides is None else hides) else 6
    assert page["pagination"]["total"] == len(page["data"]["buckets"]) == total


def test_facet_page_needs_the_name_of_a_facet(shared_films: Index) -> None:
    assert error_of(shared_films.get("facet"))["code"] == "missing_name"
    assert error_of(shared_films.get("facet", name="nope"))["status"] in (400, 404)
    assert error_of(shared_films.get("facet", name="tags", per_page="10001"))["status"] == 400
