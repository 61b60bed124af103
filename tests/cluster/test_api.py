"""API.md sections 1-9, row by row, against real processes with 1, 2 and 3 shards."""

from __future__ import annotations

import gzip
import http.client
import itertools
import json
import sys
import zlib
from typing import Any
from urllib.parse import quote

import brotli
import pytest

from tests.cluster.conftest import Index, error_of, pairs
from tests.service import Client

FILMS = [
    {"id": 1, "name": "The Green Mile", "tags": ["drama", "crime"], "year": 1999, "rating": 8.6},
    {"id": 2, "name": "Pulp Fiction", "tags": ["crime"], "year": 1994, "rating": 8.9},
    {"id": 3, "name": "Forrest Gump", "tags": ["drama", "romance"], "year": 1994, "rating": 8.8},
    {"id": 4, "name": "Fight Club", "tags": ["drama"], "year": 1999, "rating": 8},
    {"id": 5, "name": "Amélie Poulain", "tags": ["romance"], "year": 2001, "rating": 8.3},
    {"id": 6, "name": "Se7en", "tags": [], "year": 1995, "seen": True},
]
CONFIGURATION = {
    "aggregations": {
        "tags": {"title": "Tags", "size": 10},
        "year": {"conjunction": False},
        "seen": {},
    }
}


@pytest.fixture
def films(index: Index) -> Index:
    """An index with six films."""
    assert index.configure(CONFIGURATION).status == 200
    assert index.put(FILMS).status == 200
    return index


# --- conventions ----------------------------------------------------------------------------------

JSON = {"content-type": "application/json"}


def test_body_wins_over_the_query_string(films: Index) -> None:
    reply = films.post("search?per_page=5&page=2", {"per_page": 2})

    assert reply.json["pagination"] == {"per_page": 2, "page": 2, "total": 6}
    assert [item["id"] for item in reply.json["data"]["items"]] == [3, 4]


@pytest.mark.parametrize(
    "parameters",
    [
        {"filters": {"tags": ["drama"]}, "facet_fields": ["tags", "year"], "sort_field": "year"},
        {"filters": {"year": [1994, 1999]}, "facet_fields": ["year"]},
        {"query": "fight", "not_filters": {"tags": ["crime"]}},
    ],
)
def test_get_and_post_take_the_same_parameters(films: Index, parameters: dict[str, Any]) -> None:
    by_get = films.get("search", **parameters).json
    by_post = films.search(**parameters)

    assert by_get["data"] == by_post["data"]
    assert by_get["pagination"] == by_post["pagination"]


@pytest.mark.parametrize(
    "query_string",
    [
        "facet_fields=tags,year",
        "facet_fields=tags&facet_fields=year",
        'facet_fields=["tags","year"]',
    ],
)
def test_list_of_names_in_a_query_string(films: Index, query_string: str) -> None:
    target = f"{films.path}/search?{query_string}".replace('"', "%22")
    reply = films.client.request("GET", target)

    assert list(reply.json["data"]["aggregations"]) == ["tags", "year"]


def test_empty_values_in_a_query_string_count_as_absent(films: Index) -> None:
    reply = films.client.get(f"{films.path}/search?query=&page=&filters=&sort_field=&order=")

    assert reply.json["pagination"] == {"per_page": 10, "page": 1, "total": 6}


def test_unknown_parameter_is_named_with_the_nearest_known_one(films: Index) -> None:
    error = error_of(films.post("search", {"qery": "x"}))

    assert error["status"] == 400
    assert error["param"] == "qery"
    assert "query" in error["message"]


@pytest.mark.parametrize("name", ["ü", "名前", "a b", "a%b", "x" * 64, "A-1", "é✓", "a.b", "-"])
def test_index_name_is_any_text(index: Index, name: str) -> None:
    named = Index(index.client, f"{name}"[:64])
    try:
        assert named.configure({}).status == 200
        assert named.put([{"id": 1}]).status == 200
        assert named.ids() == [1]
    finally:
        assert named.client.delete(named.path).status == 200


@pytest.mark.parametrize(
    "path", ["/_x", "/.x", "/" + "x" * 65, "/a%2Fb", "/a%00b", "/a%0Ab", "/dashboard", "/status"]
)
def test_index_name_that_is_not_allowed(index: Index, path: str) -> None:
    reply = index.client.post(f"{path}/configuration", {})

    assert reply.status in (400, 404, 405)
    error_of(reply)


# --- 1. search ------------------------------------------------------------------------------------


def test_shape_of_a_search_answer(films: Index) -> None:
    reply = films.post("search", {})
    answer = reply.json

    assert answer["pagination"] == {"per_page": 10, "page": 1, "total": 6}
    assert set(answer["timings"]) >= {"total", "search", "facets", "sort", "sorting"}
    assert all(isinstance(ms, int) and ms >= 0 for ms in answer["timings"].values())
    assert answer["data"]["items"] == FILMS
    tags = answer["data"]["aggregations"]["tags"]
    assert (tags["name"], tags["title"], tags["position"]) == ("tags", "Tags", 1)
    assert tags["buckets"][0] == {"key": "drama", "doc_count": 3, "selected": False}
    assert list(answer["data"]["aggregations"]) == ["seen", "tags", "year"]
    assert "server-timing" in reply.headers


def test_post_without_body_equals_an_empty_object(films: Index) -> None:
    assert films.post("search").json["data"] == films.post("search", {}).json["data"]


def test_items_come_back_byte_for_byte(index: Index) -> None:
    stored = [
        b'{"id": 1.0e0, "a" :1}'.replace(b"1.0e0", b"1"),
        b'{"z":1.50,"id":"x","a":1e3,"u":"\\u00e9\\/"}',
        b'{ "id" : 2 , "big":18446744073709551615,"d":1,"d":2 }',
    ]
    index.configure({})
    index.load(b"\n".join(stored))

    body = index.get("search").body

    assert b'"items":[' + b",".join(stored) + b"]" in body
    assert index.get("items/x").body == stored[1]


def test_of_several_members_named_id_the_last_one_counts(index: Index) -> None:
    index.configure({})
    for earlier in ("{}", "[1]", "1.5", "true", "null", "7", '"seven"'):
        item = f'{{"id":{earlier},"a":1,"id":8}}'.encode()

        assert index.load(item).status == 200
        assert index.get("items/8").body == item
        assert (
            index.client.request("PATCH", f"{index.path}/items/8", b'{"b":2}', JSON).status == 200
        )
        assert index.get("items/8").json == {"id": 8, "a": 1, "b": 2}
        assert index.client.delete(f"{index.path}/items/8").status == 200


@pytest.mark.parametrize(
    ("page", "per_page", "expected"),
    [
        (1, 2, [1, 2]),
        (3, 2, [5, 6]),
        (2, 4, [5, 6]),
        ("2", "4", [5, 6]),
        (4, 2, []),
        (999_999, 1000, []),
        (1, 0, []),
    ],
)
def test_pages(films: Index, page: Any, per_page: Any, expected: list[int]) -> None:
    answer = films.search(page=page, per_page=per_page)

    assert [item["id"] for item in answer["data"]["items"]] == expected
    assert answer["pagination"] == {"page": int(page), "per_page": int(per_page), "total": 6}
    assert answer["data"]["aggregations"]["tags"]["buckets"]


@pytest.mark.parametrize(
    ("parameters", "code", "param"),
    [
        ({"page": 0}, "invalid_page", "page"),
        ({"page": -1}, "invalid_page", "page"),
        ({"page": 1.5}, "invalid_page", "page"),
        ({"page": True}, "invalid_page", "page"),
        ({"page": "x"}, "invalid_page", "page"),
        ({"per_page": 1001}, "invalid_per_page", "per_page"),
        ({"per_page": -1}, "invalid_per_page", "per_page"),
        ({"query": 5}, "invalid_query", "query"),
        ({"filters": "x"}, "invalid_filters", "filters"),
        ({"filters": {"tags": {"nope": 1}}}, "invalid_filters", "filters.tags.nope"),
        ({"filters": {"tags": [None]}}, "invalid_filters", "filters.tags"),
        ({"not_filters": []}, None, None),
        ({"not_filters": 1}, "invalid_not_filters", "not_filters"),
        ({"order": "up"}, "invalid_order", "order"),
        ({"sort_field": 1}, "invalid_sort_field", "sort_field"),
        ({"facet_fields": 1}, "invalid_facet_fields", "facet_fields"),
    ],
)
def test_wrong_parameters(
    films: Index, parameters: dict[str, Any], code: str | None, param: str | None
) -> None:
    reply = films.post("search", parameters)

    if code is None:
        assert reply.status == 200
    else:
        error = error_of(reply)
        assert (error["status"], error["code"], error["param"]) == (400, code, param)


def test_facet_fields_change_what_is_shown_but_not_the_hits(films: Index) -> None:
    answer = films.search(facet_fields=["year", "unknown"], filters={"tags": ["drama"]})

    assert list(answer["data"]["aggregations"]) == ["year"]
    assert answer["pagination"]["total"] == 3


@pytest.mark.parametrize("alias", ["facet_fields", "facets_fields"])
def test_no_facet_is_computed_for_an_empty_list(films: Index, alias: str) -> None:
    assert films.search(**{alias: []})["data"]["aggregations"] == {}


# --- 2. facets ------------------------------------------------------------------------------------


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


def test_filters_name_values_as_text_or_as_their_own_type(films: Index) -> None:
    by_number = films.ids(filters={"year": [1994]})

    assert by_number == films.ids(filters={"year": ["1994"]}) == [2, 3]
    assert films.ids(filters={"year": 1994}) == by_number
    assert films.ids(filters={"seen": [True]}) == films.ids(filters={"seen": "true"}) == [6]


def test_conjunctive_facet_counts_within_the_hits(films: Index) -> None:
    answer = films.search(filters={"tags": ["drama", "crime"]})

    assert [item["id"] for item in answer["data"]["items"]] == [1]
    tags = answer["data"]["aggregations"]["tags"]["buckets"]
    assert tags == [
        {"key": "crime", "doc_count": 1, "selected": True},
        {"key": "drama", "doc_count": 1, "selected": True},
        {"key": "romance", "doc_count": 0, "selected": False},
    ]


def test_disjunctive_facet_leaves_out_its_own_filter(films: Index) -> None:
    answer = films.search(filters={"year": [1994, 2001], "tags": ["romance"]})

    assert [item["id"] for item in answer["data"]["items"]] == [3, 5]
    facets = answer["data"]["aggregations"]
    assert pairs(facets["year"]) == [("1994", 1), ("2001", 1), ("1995", 0), ("1999", 0)]
    assert pairs(facets["tags"]) == [("romance", 2), ("drama", 1), ("crime", 0)]


def test_disjunctive_facet_leaves_out_its_own_range(films: Index) -> None:
    answer = films.search(filters={"year": {"gte": 1999}})

    assert answer["pagination"]["total"] == 3
    assert pairs(answer["data"]["aggregations"]["year"]) == [
        ("1994", 2),
        ("1999", 2),
        ("1995", 1),
        ("2001", 1),
    ]
    assert pairs(answer["data"]["aggregations"]["tags"])[0] == ("drama", 2)


def test_not_filters_narrow_everything(films: Index) -> None:
    answer = films.search(filters={"year": [1994]}, not_filters={"tags": ["crime"]})

    assert [item["id"] for item in answer["data"]["items"]] == [3]
    assert pairs(answer["data"]["aggregations"]["year"])[:2] == [("1994", 1), ("1995", 1)]
    assert films.ids(exclude_filters={"tags": ["crime"]}) == [3, 4, 5, 6]


def test_not_filters_on_unknown_fields_and_values_change_nothing(films: Index) -> None:
    assert len(films.ids(not_filters={"nothing": ["x"], "tags": ["nobody"]})) == 6


def test_empty_list_restricts_nothing(films: Index) -> None:
    assert len(films.ids(filters={"tags": [], "year": []}, not_filters={"tags": []})) == 6


def test_filter_on_a_field_that_does_not_exist(films: Index) -> None:
    error = error_of(films.post("search", {"filters": {"nothing": ["x"]}}))

    assert (error["status"], error["param"]) == (400, "filters.nothing")


def test_filter_value_that_no_item_has_matches_nothing_and_is_no_bucket(films: Index) -> None:
    answer = films.search(filters={"tags": ["nobody"]})

    assert answer["pagination"]["total"] == 0
    assert pairs(answer["data"]["aggregations"]["tags"]) == [
        ("crime", 0),
        ("drama", 0),
        ("romance", 0),
    ]


def test_filter_on_a_field_that_is_no_facet(films: Index) -> None:
    assert films.ids(filters={"rating": [8.6, 8]}) == [1, 4]
    assert films.ids(filters={"name": "Se7en"}) == [6]


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
def test_order_and_choice_of_buckets(
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
def test_facet_stats_of_the_greatest_numbers(
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


def test_title_and_position(index: Index) -> None:
    index.configure({"aggregations": {"b": {"title": "Bé", "position": 7}, "a_field": {}}})

    facets = index.search()["data"]["aggregations"]

    assert list(facets) == ["a_field", "b"]
    assert (facets["b"]["title"], facets["b"]["position"]) == ("Bé", 7)
    assert facets["a_field"]["position"] == 2


def test_facet_page(index: Index) -> None:
    index.configure({"aggregations": {"f": {"size": 2}}})
    index.put([{"id": i, "f": f"value {i % 25:02}"} for i in range(60)])

    first = index.get("facet", name="f").json
    third = index.post("facet", {"name": "f", "page": 3, "per_page": 10}).json

    assert first["pagination"] == {"per_page": 10, "page": 1, "total": 25}
    assert [bucket["key"] for bucket in first["data"]["buckets"]] == [
        f"value {i:02}" for i in range(10)
    ]
    assert pairs(third["data"]) == [(f"value {i:02}", 2) for i in range(20, 25)]


def test_facet_page_without_zeros(index: Index) -> None:
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


def test_facet_page_of_an_unknown_facet(films: Index) -> None:
    assert error_of(films.get("facet"))["code"] == "missing_name"
    assert error_of(films.get("facet", name="nope"))["status"] in (400, 404)
    assert error_of(films.get("facet", name="tags", per_page="10001"))["status"] == 400


# --- 3. filters -----------------------------------------------------------------------------------


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
def test_filter_objects(films: Index, filters: dict[str, Any], expected: list[int]) -> None:
    assert films.ids(filters=filters) == expected


def test_range_of_dates(index: Index) -> None:
    index.configure({})
    index.put([{"id": i, "d": f"2024-0{i}-15"} for i in range(1, 7)])

    assert index.ids(filters={"d": {"gte": "2024-02", "lt": "2024-04"}}) == [2, 3]


# --- 4. order -------------------------------------------------------------------------------------


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
def test_sort_by_any_scalar_field(
    films: Index, sort_field: str, ascending: list[int], descending: list[int]
) -> None:
    assert films.ids(sort_field=sort_field) == ascending
    assert films.ids(sort_field=sort_field, order="asc") == ascending
    assert films.ids(sort_field=sort_field, order="desc") == descending


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


def test_unknown_sort_field(films: Index) -> None:
    error = error_of(films.post("search", {"sort_field": "nothing"}))

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


# --- 5. full text ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("green", {1}),
        ("GREEN mile", {1}),
        ("mile green", {1}),
        ("green fight", set()),
        ("amelie", {5}),
        ("AMÉLIE", {5}),
        ("crime", {1, 2}),
        ("drama green", {1}),
        ("f", {2, 3, 4}),
        ("fig", {4}),
        ("fig club", {4}),
        ("club fig", {4}),
        ("poulian", {5}),
        ("forest", {3}),
        ("se7en", {6}),
        ("se8en", set()),
        ('"green mile"', {1}),
        ('"mile green"', set()),
        ("drama -green", {3, 4}),
        ('drama -"fight club"', {1, 3}),
        ("-drama", {2, 5, 6}),
        ("zzzzz", set()),
        ("green zzzzz", {1}),
        ("", {1, 2, 3, 4, 5, 6}),
        ("!?", {1, 2, 3, 4, 5, 6}),
    ],
)
def test_full_text(films: Index, query: str, expected: set[int]) -> None:
    assert set(films.ids(query=query)) == expected


def test_ignored_words_are_named(films: Index) -> None:
    assert films.search(query="green zzzzz")["meta"]["ignored_words"] == ["zzzzz"]
    assert films.search(query="green")["meta"]["ignored_words"] == []


def test_cjk_is_found_by_any_part(index: Index) -> None:
    index.configure({})
    index.put([{"id": 1, "t": "東京都庁舎"}, {"id": 2, "t": "京都の寺"}, {"id": 3, "t": "ﾄｳｷｮｳ"}])

    assert set(index.ids(query="京都")) == {1, 2}
    assert index.ids(query="都庁") == [1]
    assert index.ids(query="東京都庁舎") == [1]
    assert index.ids(query="京庁") == []
    assert index.ids(query="トウキョウ") == [3]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"prefix": "none", "query": "gree"}, set()),
        ({"prefix": "all", "query": "gre mil"}, {1}),
        ({"prefix": "last", "query": "gre mil"}, {1}),
        ({"typo": 0, "query": "forest"}, set()),
        ({"typo": 1, "query": "clib "}, {4}),
        ({"typo": 2, "query": "frrrst gump"}, {3}),
        ({"match": "any", "query": "green fiction"}, {1, 2}),
        ({"match": "last", "query": "green fiction"}, {1}),
        ({"match": "50%", "query": "green fiction"}, {1, 2}),
        ({"match": "75%", "query": "-drama"}, {2, 5, 6}),
        ({"match": "any", "query": "-drama"}, {2, 5, 6}),
        ({"match": "75%", "query": "green drama fiction mile"}, {1}),
    ],
)
def test_options_of_the_text_search(
    films: Index, options: dict[str, Any], expected: set[int]
) -> None:
    assert set(films.ids(**options)) == expected


def test_every_string_is_searchable_unless_fields_are_named(index: Index) -> None:
    item = {"id": 1, "a": "one", "b": ["two", {"c": "three"}], "d": {"e": ["four"]}, "n": 5}
    index.configure({})
    index.put([item])
    everything = [len(index.ids(query=word)) for word in ("one", "two", "three", "four")]

    index.configure({"searchable_fields": ["a^3", "d.e"]})
    named = [len(index.ids(query=word)) for word in ("one", "two", "three", "four")]

    assert everything == [1, 1, 1, 1]
    assert named == [1, 0, 0, 1]


def test_ranking(index: Index) -> None:
    index.configure({"searchable_fields": ["name^5", "text"]})
    index.put(
        [
            {"id": "typo", "text": "chocolade cake"},
            {"id": "prefix", "text": "chocolates cake"},
            {"id": "apart", "text": "chocolate and a rather long way to the cake"},
            {"id": "near", "text": "a rather long way to and the chocolate cake"},
            {"id": "name", "name": "chocolate cake"},
        ]
    )

    assert index.ids(query="cake chocolate")[0] == "name"
    assert index.ids(query="chocolate cake")[:3] == ["name", "near", "apart"]
    # What a whole last word begins is near what it is: here in a much shorter text.
    ids = index.ids(query="cake chocolate")
    assert (ids[0], ids[-1]) == ("name", "typo")
    assert ids.index("near") < ids.index("apart")
    assert index.ids(query="cake chocolat")[-1] == "typo"


def test_stop_words_synonyms_and_language_apply_to_data_already_there(index: Index) -> None:
    index.configure({})
    index.put([{"id": 1, "t": "running television"}, {"id": 2, "t": "the runs"}])
    before = [index.ids(query=word) for word in ("ran the", "tv", "run ")]

    index.configure(
        {"language": "english", "stop_words": ["the"], "synonyms": [["tv", "television"]]}
    )

    assert before == [[2], [], [2, 1]] or before[1] == []
    assert index.ids(query="tv") == [1]
    assert set(index.ids(query="run ", prefix="none")) == {1, 2}
    assert index.ids(query="the television") == [1]


def test_what_is_there(index: Index) -> None:
    index.configure({})
    there: list[Any] = ["", [], [""], {}, {"b": None}, 0, False]
    index.put([{"id": i, "a": value} for i, value in enumerate(there)])
    index.put([{"id": 50, "a": None}, {"id": 51, "a": [None]}, {"id": 52}])

    assert index.ids(filters={"a": {"exists": True}}) == list(range(len(there)))
    assert index.ids(filters={"a": {"exists": False}}) == [50, 51, 52]


def test_synonyms_of_several_words_find_more_never_less(index: Index) -> None:
    items = [
        {"id": 1, "name": "dark house of a knight"},
        {"id": 2, "name": "a knight"},
        {"id": 3, "name": "knight"},
    ]
    index.configure({})
    index.put(items)
    assert index.ids(query="dark knight") == [1]
    index.configure({"synonyms": [["couch", "dark knight"]]})
    assert index.ids(query="dark knight") == index.ids(query="dark kniht") == [1]
    assert index.search(query="dark knight")["meta"]["ignored_words"] == []
    index.put([{"id": 4, "name": "couch"}, {"id": 5, "name": "the dark knight"}])
    assert index.ids(query="dark knight") == [5, 1, 4]
    assert index.ids(query="couch") == [4, 5]
    assert index.ids(query="a dark knight") == [1]


@pytest.mark.parametrize("synonym", ["notebook", "portable computer"])
def test_a_synonym_never_outranks_the_typed_word(index: Index, synonym: str) -> None:
    index.configure({"synonyms": [["laptop", synonym]]})
    index.put([{"id": f"s{i}", "name": synonym} for i in range(3)])
    texts = ("gaming laptop", "laptop bag", "grey " * 15 + "laptop")
    index.put([{"id": f"w{i}", "name": text} for i, text in enumerate(texts)])

    answer = index.search(query="laptop", show=["score_details"])

    items = answer["data"]["items"]
    assert {one["id"][0] for one in items[:3]} == {"w"}
    assert {one["id"] for one in items[3:]} == {"s0", "s1", "s2"}
    (part,) = (one for one in items[-1]["_score_details"]["parts"] if one["kind"] == "word")
    assert [one["match"] for one in part["occurrences"]] == ["synonym"]
    assert part["frequency"] == sum(one["frequency"] * one["gain"] for one in part["occurrences"])
    reversed_ids = index.ids(query=synonym)
    assert {one[0] for one in reversed_ids[:3]} == {"s"}


def test_scores_know_only_live_items(index: Index) -> None:
    index.configure({})
    index.put([{"id": i, "t": f"word{i % 7} word{i % 3} filler"} for i in range(40)])
    fresh = index.search(query="word1 word2", show=["score"], match="any", per_page=100)
    index.put([{"id": 100 + i, "t": "word1 word1 word2 " * 5} for i in range(40)])
    for i in range(40):
        index.client.delete(f"{index.path}/items/{100 + i}")

    after = index.search(query="word1 word2", show=["score"], match="any", per_page=100)

    assert after["data"]["items"] == fresh["data"]["items"]


# --- 6. items -------------------------------------------------------------------------------------


def test_get_item(films: Index) -> None:
    assert films.get("items/3").json == FILMS[2]
    error = error_of(films.get("items/99"))
    assert (error["status"], error["code"]) == (404, "item_not_found")


def test_integer_and_text_ids_are_one(index: Index) -> None:
    index.configure({})
    index.put([{"id": 5, "v": 1}])
    index.put([{"id": "5", "v": 2}])

    assert index.get("items/5").json == {"id": "5", "v": 2}
    assert index.search()["pagination"]["total"] == 1


@pytest.mark.parametrize("item_id", ["ü/ö", "a b", "%", "..", "名", "x" * 256, "007", "?&#"])
def test_id_is_any_text(index: Index, item_id: str) -> None:
    index.configure({})
    path = "items/" + quote(item_id, safe="")

    assert index.put([{"id": item_id}]).status == 200
    assert index.get(path).json == {"id": item_id}
    assert index.post(f"{path}/partial", {"a": 1}).status == 200
    assert index.get(path).json == {"id": item_id, "a": 1}
    assert index.client.delete(f"{index.path}/{path}").json["id"] == item_id
    assert index.get(path).status == 404


def test_update_replaces_the_whole_item(films: Index) -> None:
    reply = films.post("items/4/update", {"name": "New"})

    assert reply.status == 200
    assert reply.json["status"] == "updated"
    assert films.get("items/4").json["name"] == "New"
    assert "tags" not in films.get("items/4").json
    assert films.ids(query="new") == [4]
    assert films.ids(query="fight") == []
    assert ("drama", 2) in films.buckets("tags")
    assert films.ids() == [1, 2, 3, 4, 5, 6]


def test_update_with_the_same_id_and_with_another(films: Index) -> None:
    assert films.post("items/4/update", {"id": 4, "name": "a"}).status == 200
    assert films.post("items/4/update", {"id": "4", "name": "a"}).status == 200
    error = error_of(films.post("items/4/update", {"id": 5, "name": "a"}))
    assert (error["status"], error["code"]) == (400, "id_mismatch")
    assert error_of(films.post("items/99/update", {"name": "a"}))["code"] == "item_not_found"


def test_partial_update_merges_shallowly(films: Index) -> None:
    reply = films.post("items/1/partial", {"tags": ["new"], "year": None, "extra": {"x": 1}})

    assert reply.status == 200
    assert reply.json["status"] == "updated"
    assert films.get("items/1").json == FILMS[0] | {
        "tags": ["new"],
        "year": None,
        "extra": {"x": 1},
    }
    assert ("new", 1) in films.buckets("tags")
    assert ("1999", 1) in films.buckets("year")
    assert error_of(films.post("items/99/partial", {"a": 1}))["code"] == "item_not_found"
    assert error_of(films.post("items/1/partial", {"id": 2}))["code"] == "id_mismatch"


def test_delete_item(films: Index) -> None:
    reply = films.client.delete(f"{films.path}/items/2")

    assert reply.status == 200
    assert (reply.json["status"], reply.json["id"]) == ("deleted", 2)
    assert films.get("items/2").status == 404
    assert films.ids() == [1, 3, 4, 5, 6]
    assert ("crime", 1) in films.buckets("tags")
    assert error_of(films.client.delete(f"{films.path}/items/2"))["code"] == "item_not_found"


def test_answer_to_a_write(index: Index) -> None:
    index.configure({})
    first = index.put([{"id": 1}, {"id": 2}, {"a": 1}]).json
    second = index.put([{"id": 1}, {"id": 3}]).json

    assert first["status"] == "indexed"
    assert (first["created"], first["updated"], first["rejected"]) == (3, 0, 0)
    assert first["errors"] == []
    assert (second["created"], second["updated"]) == (1, 1)
    assert second["seq"] > first["seq"]


def test_write_is_seen_when_it_is_acknowledged(index: Index) -> None:
    index.configure({"aggregations": {"v": {"size": 100}}})
    for i in range(30):
        index.put([{"id": i, "v": str(i), "t": f"word{i}"}])
        assert index.get(f"items/{i}").status == 200
        assert index.ids(query=f'"word{i}"') == [i]
        assert len(index.buckets("v")) == i + 1


@pytest.mark.parametrize(
    ("bad", "code"),
    [
        ({"id": -1}, "invalid_id"),
        ({"id": 1.5}, "invalid_id"),
        ({"id": ""}, "invalid_id"),
        ({"id": None}, "invalid_id"),
        ({"id": [1]}, "invalid_id"),
        ({"id": 2**63}, "invalid_id"),
        (5, "invalid_item"),
        ([], "invalid_item"),
        (None, "invalid_item"),
        ({"a": 2**64}, "invalid_number"),
        ({f"f{i}": i for i in range(513)}, "too_many_fields"),
    ],
)
def test_one_bad_item_refuses_the_batch(index: Index, bad: Any, code: str) -> None:
    index.configure({})
    reply = index.put([{"id": "a"}, bad, {"id": "b"}, bad])

    error = error_of(reply)
    assert error["status"] == 400
    named = error["items"] if "items" in error else error["errors"]
    assert [(one["index"], one["code"]) for one in named] == [(1, code), (3, code)]
    assert index.search()["pagination"]["total"] == 0


@pytest.mark.parametrize("body", [b"[{]", b"[{}", b"", b"{", b"[1,]", b"5", b"\xff"])
def test_body_that_is_neither_an_item_nor_an_array_of_items(index: Index, body: bytes) -> None:
    index.configure({})
    path = f"{index.path}/items"
    reply = index.client.request("POST", path, body, {"content-type": "application/json"})

    assert error_of(reply)["status"] == 400


def test_last_item_of_an_id_wins_within_a_batch(index: Index) -> None:
    index.configure({"aggregations": {"v": {}}})
    reply = index.put([{"id": 1, "v": "a"}, {"id": 2, "v": "b"}, {"id": 1, "v": "c"}])

    assert reply.json["created"] + reply.json["updated"] in (2, 3)
    assert reply.json["created"] == 2
    assert index.search()["data"]["items"] == [{"id": 1, "v": "c"}, {"id": 2, "v": "b"}]
    assert index.buckets("v") == [("b", 1), ("c", 1)]


def test_items_without_id_are_added_anew_by_each_load(index: Index) -> None:
    index.configure({"aggregations": {"v": {}}})
    for _ in range(3):
        index.put([{"v": "x"}, {"v": "y"}])

    assert index.buckets("v") == [("x", 3), ("y", 3)]
    assert index.search()["data"]["items"] == [{"v": "x"}, {"v": "y"}] * 3


LINES = b'{"id":1,"t":"one"}\n\n{"id":2,"t":"two"}\r\n{"id":"3","t":"three"}'
ARRAY = b' [ {"id":1,"t":"one"},\n{"id":2,"t":"two"} , {"id":"3","t":"three"} ] '


@pytest.mark.parametrize("body", [LINES, ARRAY, LINES + b"\n", b"\n" + LINES])
@pytest.mark.parametrize("encoding", ["", "gzip", "deflate", "br"])
def test_bulk_load(index: Index, body: bytes, encoding: str) -> None:
    packers = {"gzip": gzip.compress, "deflate": zlib.compress, "br": brotli.compress}
    headers = {"content-encoding": encoding} if encoding else {}
    index.configure({})
    index.put([{"id": 0}])

    packed = packers[encoding](body) if encoding else body
    reply = index.load(packed, **headers)

    assert reply.status == 200, reply.body
    assert (reply.json["status"], reply.json["created"]) == ("indexed", 3)
    assert index.ids() == [0, 1, 2, "3"]


@pytest.mark.parametrize(
    "body",
    [
        b'{"id":1}\n{"id":2',
        b'[{"id":1},{"id":2}',
        b'[{"id":1},{"id":2},]',
        b'{"id":1}\n{"id":-2}\n',
        b'{"id":1}\nnot json\n',
        b'[{"id":1}] x',
    ],
)
def test_bulk_load_that_is_broken_changes_nothing(index: Index, body: bytes) -> None:
    index.configure({})

    assert error_of(index.load(body))["status"] == 400
    assert index.search()["pagination"]["total"] == 0


def test_bulk_load_skips_bad_lines_where_asked(index: Index) -> None:
    index.configure({})
    body = b'{"id":1}\n{"id":2\n{"id":-3}\n5\n{"id":"four"}\n'

    reply = index.load(body, "?on_error=skip")

    assert reply.status == 200
    assert (reply.json["created"], reply.json["rejected"]) == (2, 3)
    assert [(error["line"], error["code"]) for error in reply.json["errors"]] == [
        (2, "invalid_json"),
        (3, "invalid_id"),
        (4, "invalid_item"),
    ]
    assert index.ids() == [1, "four"]


def test_large_bulk_load(index: Index) -> None:
    index.configure({"aggregations": {"v": {"size": 10}}})
    body = b"".join(
        b'{"id":%d,"v":"%d","t":"word%d"}\n' % (i, i % 7, i % 100) for i in range(30_000)
    )

    reply = index.load(body)

    assert reply.json["created"] == 30_000
    answer = index.search(query="word42", prefix="none", typo=0, page=30, per_page=10)
    assert answer["pagination"]["total"] == 300
    assert [item["id"] for item in answer["data"]["items"]] == [29042 + 100 * i for i in range(10)]
    assert [count for _, count in index.buckets("v")] == [4286] * 5 + [4285] * 2


def test_content_types(index: Index) -> None:
    index.configure({})
    path = f"{index.path}/items"

    for content_type, status in [
        ("application/json", 200),
        ("application/json; charset=utf-8", 200),
        ("application/xml", 415),
        ("image/png", 415),
    ]:
        reply = index.client.request("POST", path, b'[{"id":1}]', {"content-type": content_type})
        assert reply.status == status, content_type
    for content_type, status in [("text/plain", 200), ("text/plain; charset=utf-8", 200),
                                 ("image/png", 415)]:  # fmt: skip
        reply = index.client.request(
            "POST", f"{index.path}/index", b'[{"id":1}]', {"content-type": content_type}
        )
        assert reply.status == status, content_type


# --- 7. configuration -----------------------------------------------------------------------------


def test_configuration_comes_back_as_posted(index: Index) -> None:
    document = {
        "aggregations": {"tags": {"size": 5, "own": 1}},
        "x-note": "é",
        "sorting_fields": [],
    }
    reply = index.configure(document)

    assert reply.json["status"] == "configuration accepted"
    assert len(reply.json["warnings"]) == 2
    assert any("x-note" in warning for warning in reply.json["warnings"])
    assert index.get("configuration").json == document
    effective = index.get("configuration", effective="true").json
    assert effective["aggregations"]["tags"]["conjunction"] is True
    assert effective["match"] == "all"


def test_new_index_is_empty_and_searchable(index: Index) -> None:
    index.configure(CONFIGURATION)

    answer = index.search(query="x", filters={"tags": ["a"]}, sort_field="year")

    assert answer["pagination"]["total"] == 0
    assert answer["data"]["items"] == []
    assert answer["data"]["aggregations"]["tags"]["buckets"] == []


def test_configuration_changes_live(films: Index) -> None:
    films.configure({"aggregations": {"rating": {}, "tags": {"conjunction": False}}})

    answer = films.search(filters={"tags": ["crime", "romance"]})

    assert [item["id"] for item in answer["data"]["items"]] == [1, 2, 3, 5]
    assert list(answer["data"]["aggregations"]) == ["rating", "tags"]
    assert pairs(answer["data"]["aggregations"]["tags"])[0] == ("crime", 2)
    assert len(answer["data"]["aggregations"]["rating"]["buckets"]) == 5


@pytest.mark.parametrize(
    ("document", "param"),
    [
        ([], None),
        ({"aggregations": []}, "aggregations"),
        ({"aggregations": {"tags": {"size": "x"}}}, "aggregations.tags.size"),
        ({"aggregations": {"tags": {"size": 0}}}, "aggregations.tags.size"),
        ({"aggregations": {"tags": {"conjunction": "yes"}}}, "aggregations.tags.conjunction"),
        ({"aggregations": {"tags": 1}}, "aggregations.tags"),
        ({"searchable_fields": "name"}, "searchable_fields"),
        ({"searchable_fields": ["name^x"]}, "searchable_fields[0]"),
        ({"language": "klingon"}, "language"),
    ],
)
def test_wrong_configuration(films: Index, document: Any, param: str | None) -> None:
    error = error_of(films.configure(document))

    assert (error["status"], error["code"]) == (400, "invalid_configuration")
    assert error.get("param") == param
    assert list(films.search()["data"]["aggregations"]) == ["seen", "tags", "year"]


@pytest.mark.parametrize("way", ["delete", "reset"])
def test_index_is_removed(films: Index, way: str) -> None:
    reply = films.client.delete(films.path) if way == "delete" else films.post("reset")

    assert reply.status == 200
    assert error_of(films.get("search"))["code"] == "index_not_found"
    films.configure({"aggregations": {"tags": {}}})
    assert films.search()["pagination"]["total"] == 0
    assert films.buckets("tags") == []


# --- 8, 9. other pages, errors --------------------------------------------------------------------


def test_pages_for_people(films: Index) -> None:
    client = films.client
    root = client.request("GET", "/")

    assert root.status in (301, 302, 303, 307, 308)
    assert root.headers["location"] == "dashboard"
    for page in ("/dashboard", f"/dashboard/{films.name}"):
        reply = client.get(page)
        assert reply.status == 200
        assert reply.headers["content-type"].startswith("text/html")
    assert client.get("/status").json["status"] == "ok"
    assert films.get("status").json["status"] == "ok"


@pytest.mark.parametrize(
    ("method", "page"),
    [
        ("GET", "search"),
        ("POST", "search"),
        ("GET", "facet?name=x"),
        ("POST", "items"),
        ("POST", "index"),
        ("GET", "items/1"),
        ("POST", "items/1/update"),
        ("POST", "items/1/partial"),
        ("DELETE", "items/1"),
        ("GET", "configuration"),
        ("GET", "status"),
        ("DELETE", ""),
        ("POST", "reset"),
    ],
)
def test_operations_before_any_configuration(index: Index, method: str, page: str) -> None:
    content_type = "text/plain" if page == "index" else "application/json"
    body = b"[]" if method == "POST" else None
    path = f"{index.path}/{page}".rstrip("/")
    reply = index.client.request(method, path, body, {"content-type": content_type})

    error = error_of(reply)
    assert (error["status"], error["code"]) == (404, "index_not_found")
    assert "configuration" in error["message"]


def test_an_index_in_short(films: Index) -> None:
    shown = films.client.get(films.path).json
    assert shown["name"] == films.name
    assert shown["items"] == films.search()["pagination"]["total"]
    assert shown["state"] == "ready"
    names = [facet["name"] for facet in shown["facets"]]
    assert names == sorted(films.get("configuration").json["aggregations"])
    assert set(names) <= set(shown["fields"])
    assert films.client.get("/nothing-there").status == 404


def test_patch_of_an_item_keeps_what_it_does_not_name(index: Index) -> None:
    index.configure({})
    put = index.client.request("PUT", f"{index.path}/items/7", b'{"name":"a","year":1}', JSON)
    assert put.json["created"] == 1
    patched = index.client.request("PATCH", f"{index.path}/items/7", b'{"name":"c"}', JSON)
    assert patched.json["updated"] == 1
    stored = index.get("items/7")
    assert stored.json == {"id": 7, "name": "c", "year": 1}
    match = {**JSON, "if-match": stored.headers["etag"]}
    for status in (200, 409):
        reply = index.client.request("PUT", f"{index.path}/items/7", b'{"name":"d"}', match)
        assert reply.status == status
    missing = index.client.request("PUT", f"{index.path}/items/8", b'{"name":"d"}', match)
    assert missing.status == 404


def test_method_not_allowed(films: Index) -> None:
    reply = films.client.request("PUT", f"{films.path}/search", b"{}")

    assert error_of(reply)["code"] == "method_not_allowed"
    assert "GET" in reply.headers["allow"]


def test_unknown_route(films: Index) -> None:
    assert error_of(films.get("nothing/here"))["code"] == "not_found"


def test_broken_json(films: Index) -> None:
    path = f"{films.path}/search"
    reply = films.client.request("POST", path, b"{", {"content-type": "application/json"})

    assert (reply.status, error_of(reply)["code"]) == (400, "invalid_json")


def test_several_mistakes_are_named_at_once(films: Index) -> None:
    error = error_of(films.post("search", {"page": 0, "per_page": -1, "nope": 1}))

    assert {one["param"] for one in error["errors"]} == {"page", "per_page", "nope"}


def test_request_of_the_http_library_that_it_refuses_itself(client: Client) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", client.port, timeout=10)
    connection.putrequest("GET", "/status", skip_host=False)
    connection.putheader("x-long", "x" * 20_000)
    connection.endheaders()
    answer = connection.getresponse()
    body = json.loads(answer.read())
    connection.close()

    assert answer.status in (400, 431)
    assert body["error"]["status"] == answer.status
