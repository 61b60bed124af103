"""A configuration that names a field that no item has: refused wherever it can be posted."""

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
    ("document", "param", "meant"),
    [
        (BOOST, "boost.ratng", "rating"),
        (RULES, "rules[0]", "year"),
        ({"display": {"title": "nmae"}}, "display.title", "name"),
        ({"infix": ["nmae"]}, "infix[0]", "name"),
        ({"algolia": {"attributeForDistinct": "tagss"}}, "algolia.attributeForDistinct", "tags"),
    ],
)
def test_no_route_takes_it(films: Index, document: Any, param: str, meant: str) -> None:
    before = films.get("configuration").json
    path = f"{films.path}/configuration"
    for method in ("POST", "PUT", "PATCH"):
        for question in ("", "?preview=true"):
            error = error_of(changed(films.client, method, path + question, document))
            assert (error["status"], error["code"], error["param"]) == (
                *(400, "invalid_configuration"),
                param,
            )
            assert f"did you mean {meant}?" in error["message"]
    assert films.get("configuration").json == before


def test_algolias_protocol_takes_none(films: Index) -> None:
    path = f"/1/indexes/{films.name}"

    def put(path: str, document: Any) -> Reply:
        return changed(films.client, "PUT", path, document)

    rule = {"objectID": "r", "consequence": {"params": {"filters": "yaer:1994"}}}
    for reply, wrong in (
        (put(f"{path}/settings", {"attributeForDistinct": "tagss"}), "'tagss'"),
        (put(f"{path}/settings", {"attributesToRetrieve": ["nmae"]}), "'nmae'"),
        (put(f"{path}/rules/r", rule), "'yaer'"),
        (films.client.post(f"{path}/rules/batch", [rule]), "'yaer'"),
    ):
        assert reply.status == 400
        assert f"names {wrong}, which no item has; did you mean " in reply.json["message"]
    assert put(f"{path}/settings", {"attributeForDistinct": "tags"}).status == 200


def test_what_is_declared_accepted_before_or_not_yet_known_is_taken(index: Index) -> None:
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
    error = error_of(changed(index.client, "PATCH", path, RULES))
    assert error["param"] == "rules[0]"
    # A field that items will have later is declared.
    reply = changed(index.client, "PATCH", path, {**RULES, "sorting_fields": ["yaer"]})
    assert reply.status == 200
    assert [one.split()[0] for one in reply.json["warnings"]] == [
        *("aggregations.tgas", "sorting_fields[0]", "boost.ratng")
    ]
    index.put([{"id": 7, "yaer": 1, "ratng": 1, "tgas": "a"}])
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
