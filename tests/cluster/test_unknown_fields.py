"""A configuration that names a field that no item has: named in the warnings of every route."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cluster.conftest import FILMS, Index, error_of
from tests.service import Client, Reply

BOOST = {"boost": {"ratng": {"log": 1}}}
RULES = {"rules": [{"bury": ["yaer < 1995"]}]}


def changed(client: Client, method: str, path: str, document: Any) -> Reply:
    body = json.dumps(document).encode()
    return client.request(method, path, body, {"content-type": "application/json"})


@pytest.mark.parametrize(
    ("document", "path", "meant"),
    [
        (BOOST, "boost.ratng", "rating"),
        (RULES, "rules[0]", "year"),
        ({"display": {"title": "nmae"}}, "display.title", "name"),
        ({"infix": ["nmae"]}, "infix[0]", "name"),
        ({"algolia": {"attributeForDistinct": "tagss"}}, "algolia.attributeForDistinct", "tags"),
    ],
)
def test_every_route_names_it(films: Index, document: Any, path: str, meant: str) -> None:
    before = films.get("configuration").json
    address = f"{films.path}/configuration"
    for method in ("POST", "PUT", "PATCH"):
        for question in ("?preview=true", ""):
            reply = changed(films.client, method, address + question, document)
            assert reply.status == 200
            (warning,) = (one for one in reply.json["warnings"] if one.startswith(f"{path} names "))
            assert warning.endswith(f", which no item has; did you mean {meant}?")
    restored = films.client.post(address, before).json["warnings"]
    assert not any("which no item has" in one for one in restored)


@pytest.mark.parametrize(
    ("boost", "message"),
    [
        ({"ratng": {"log": 1}}, "no item has a number to boost by in 'ratng'; fields with numbers"),
        ({"name": {"linear": 1}}, "no item has a number to boost by in 'name'; fields with numbe"),
        ({"born": {"decay": "9d"}}, "no item has a date or number to boost by in 'born'; fields w"),
    ],
)
def test_the_boost_of_a_search_names_a_field_with_numbers(
    films: Index, boost: Any, message: str
) -> None:
    error = error_of(films.post("search", {"boost": boost}))
    assert (error["code"], error["param"]) == ("invalid_boost", f"boost.{next(iter(boost))}")
    assert error["message"].startswith(message)
    for fitting in ({"rating": {"log": 1}}, {"seen": {"linear": 1}}, {"name": {"decay": "9d"}}):
        assert films.search(boost=fitting)["pagination"]["total"] == 6


def test_fields_become_known_with_their_items(index: Index) -> None:
    # No items yet: nothing is known of fields.
    assert index.configure({**BOOST, "aggregations": {"tgas": {}}}).json["warnings"] == []
    index.put(FILMS)
    wanted = [
        "aggregations.tgas names 'tgas', which no item has; did you mean tags?",
        "boost.ratng names 'ratng', which no item has; did you mean rating?",
    ]
    path = f"{index.path}/configuration"
    for document in ({}, {"typo": 0}, {"boost": {"ratng": {"log": 2}}}):
        reply = changed(index.client, "PATCH", path, document)
        assert (reply.status, reply.json["warnings"]) == (200, wanted)
    index.put([{"id": 7, "ratng": 1, "tgas": "a"}])
    assert changed(index.client, "PATCH", path, {}).json["warnings"] == []
    # Without items again, nothing is known again.
    assert index.client.post(f"{index.path}/items/delete", {"filter": "id > 0"}).status == 200
    assert changed(index.client, "PATCH", path, {"boost": {"zzz": {"log": 2}}}).status == 200


def test_rules_ask_for_points_and_elements_that_the_index_has(client: Client) -> None:
    index = Index(client, "rules-of-places")
    near = {"hide": [9], "filter": "_geoRadius(48, 16, 2000)"}
    index.configure({"geo_fields": ["shop"], "rules": [near]})
    index.put(
        [
            {"id": 1, "shop": {"lat": 48, "lng": 16}, "sizes": [{"size": 1}]},
            {"id": 2, "shop": {"lat": 40, "lng": 16}, "_geo": {"lat": 48, "lng": 16}},
        ]
    )
    assert index.ids() == [1]
    assert index.ids(rules=[near]) == [1]
    for rule, message in (
        ({"bury": ["sizes{size > 1}"]}, "the nested fields of the configuration are none"),
        ({"filter": "_geoRadius(_geo, 48, 16, 2000)"}, "the geo_fields of the configuration are s"),
    ):
        error = error_of(index.configure({"geo_fields": ["shop"], "rules": [rule]}))
        assert (error["code"], error["param"]) == ("invalid_configuration", "rules[0]")
        assert message in error["message"]
        error = error_of(index.post("search", {"rules": [rule]}))
        assert (error["code"], error["param"]) == ("invalid_rules", "rules[0]")
        assert message in error["message"]
    index.client.delete(index.path)
