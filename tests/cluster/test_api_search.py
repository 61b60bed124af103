"""`/{index}/search`: the shape of an answer, pages, wrong parameters.

One row of the interface after another, against real processes with 1 and 3 shards.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.cluster.conftest import FILMS, Index, error_of

JSON = {"content-type": "application/json"}


def test_search_answer_has_its_documented_shape(shared_films: Index) -> None:
    reply = shared_films.post("search", {})
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


def test_post_without_body_equals_an_empty_object(shared_films: Index) -> None:
    assert shared_films.post("search").json["data"] == shared_films.post("search", {}).json["data"]


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
def test_page_and_per_page_choose_the_items(
    shared_films: Index, page: Any, per_page: Any, expected: list[int]
) -> None:
    answer = shared_films.search(page=page, per_page=per_page)

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
def test_wrong_parameters_are_refused_by_name(
    shared_films: Index, parameters: dict[str, Any], code: str | None, param: str | None
) -> None:
    reply = shared_films.post("search", parameters)

    if code is None:
        assert reply.status == 200
    else:
        error = error_of(reply)
        assert (error["status"], error["code"], error["param"]) == (400, code, param)


def test_facet_fields_change_what_is_shown_but_not_the_hits(shared_films: Index) -> None:
    answer = shared_films.search(facet_fields=["year", "unknown"], filters={"tags": ["drama"]})

    assert list(answer["data"]["aggregations"]) == ["year"]
    assert answer["pagination"]["total"] == 3


@pytest.mark.parametrize("alias", ["facet_fields", "facets_fields"])
def test_no_facet_is_computed_for_an_empty_list(shared_films: Index, alias: str) -> None:
    assert shared_films.search(**{alias: []})["data"]["aggregations"] == {}
