"""Requests: query string and body, names of indexes, pages of an index that is not there.

One row of the interface after another, against real processes with 3 shards.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.cluster.conftest import Index, error_of, on_three_shards

pytestmark = on_three_shards

JSON = {"content-type": "application/json"}


def test_body_wins_over_the_query_string(shared_films: Index) -> None:
    reply = shared_films.post("search?per_page=5&page=2", {"per_page": 2})

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
def test_get_and_post_take_the_same_parameters(
    shared_films: Index, parameters: dict[str, Any]
) -> None:
    by_get = shared_films.get("search", **parameters).json
    by_post = shared_films.search(**parameters)

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
def test_query_string_takes_a_list_of_names_in_any_form(
    shared_films: Index, query_string: str
) -> None:
    target = f"{shared_films.path}/search?{query_string}".replace('"', "%22")
    reply = shared_films.client.request("GET", target)

    assert list(reply.json["data"]["aggregations"]) == ["tags", "year"]


def test_empty_values_in_a_query_string_count_as_absent(shared_films: Index) -> None:
    reply = shared_films.client.get(
        f"{shared_films.path}/search?query=&page=&filters=&sort_field=&order="
    )

    assert reply.json["pagination"] == {"per_page": 10, "page": 1, "total": 6}


def test_unknown_parameter_is_named_with_the_nearest_known_one(shared_films: Index) -> None:
    error = error_of(shared_films.post("search", {"qery": "x"}))

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
def test_index_name_that_is_not_allowed_is_refused(index: Index, path: str) -> None:
    reply = index.client.post(f"{path}/configuration", {})

    assert reply.status in (400, 404, 405)
    error_of(reply)
