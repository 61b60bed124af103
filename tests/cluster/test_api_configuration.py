"""The configuration of an index: posted, changed, wrong, removed.

One row of the interface after another, against real processes with 1 and 3 shards.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.cluster.conftest import CONFIGURATION, FILMS, Index, error_of, pairs


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
        ({"aggregations": ["tags"]}, "aggregations"),
        ({"aggregations": {"tags": {"size": "x"}}}, "aggregations.tags.size"),
        ({"aggregations": {"tags": {"size": 0}}}, "aggregations.tags.size"),
        ({"aggregations": {"tags": {"conjunction": "yes"}}}, "aggregations.tags.conjunction"),
        ({"aggregations": {"tags": 1}}, "aggregations.tags"),
        ({"searchable_fields": "name"}, "searchable_fields"),
        ({"searchable_fields": ["name^x"]}, "searchable_fields[0]"),
        ({"language": "klingon"}, "language"),
    ],
)
def test_wrong_configuration_is_refused_and_changes_nothing(
    films: Index, document: Any, param: str | None
) -> None:
    error = error_of(films.configure(document))

    assert (error["status"], error["code"]) == (400, "invalid_configuration")
    assert error.get("param") == param
    assert list(films.search()["data"]["aggregations"]) == ["seen", "tags", "year"]


def test_an_empty_list_is_an_empty_object_wherever_settings_or_options_are_meant(
    index: Index,
) -> None:
    """As PHP encodes one."""
    keys = ("algolia", "boost", "display", "hierarchies", "ranking", "suggestions")
    by_field = ("field_collations", "field_languages", "field_typo_lengths")
    settings: dict[str, Any] = {name: [] for name in (*keys, *by_field)}
    assert index.configure({**settings, "aggregations": {"tags": []}}).status == 200
    wanted: dict[str, Any] = {name: {} for name in settings}
    wanted["aggregations"] = {"tags": {}}
    assert index.get("configuration").json == wanted
    index.put(FILMS)
    path = f"{index.path}/configuration"
    patch = b'{"aggregations": [], "typo": 0}'
    reply = index.client.request("PATCH", path, patch, {"content-type": "application/json"})
    assert reply.json["changes"] == [{"path": "typo", "before": None, "after": 0}]
    plain = index.search()["data"]
    for asked in ("facets", "filters", "boost"):
        assert index.search(**{asked: []})["data"] == plain
    assert index.search(facets={"tags": []})["data"] == plain
    error = error_of(index.post("search", []))
    assert error["message"] == "the body must be a JSON object, {} rather than []"
    assert "{} rather than []" in error_of(index.configure([]))["message"]


@pytest.mark.parametrize("way", ["delete", "reset"])
def test_index_is_removed(films: Index, way: str) -> None:
    reply = films.client.delete(films.path) if way == "delete" else films.post("reset")

    assert reply.status == 200
    assert error_of(films.get("search"))["code"] == "index_not_found"
    films.configure({"aggregations": {"tags": {}}})
    assert films.search()["pagination"]["total"] == 0
    assert films.buckets("tags") == []
