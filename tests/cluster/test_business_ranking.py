"""Boosts, score thresholds, steps of scores and random orders: the same on any number of shards."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest

from tests.cluster.conftest import Index, Services
from tests.cluster.test_against_oracle import stable
from tests.service import Client

ITEMS: list[dict[str, Any]] = [
    {
        "id": number,
        "name": random.Random(number).choice(
            ["red lamp", "lamp", "red table lamp", "old red lamp"]
        ),
        "popularity": [number * number % 97, None, "many", [1, 2], True, 0.5, -3][
            number % 7 if number % 5 == 0 else 0
        ],
        "released": [f"2025-{number % 12 + 1:02}-11", "soon", 1_700_000_000 + number][
            number % 3 if number % 4 == 0 else 0
        ],
        "brand": f"brand {number % 3}",
    }
    for number in range(200)
]
CONFIGURATION = {
    "searchable_fields": ["name"],
    "aggregations": {"brand": {"conjunction": False, "hide_zero_doc_count": True}},
}
BOOST = {"popularity": {"log": 0.3}, "released": {"decay": "100d", "origin": "2025-06-01"}}


@pytest.fixture(scope="module")
def indexes(services: Services) -> Any:
    """The same items on 1, 2, 3 and 5 shards, in several segments, some replaced and deleted."""
    made = [Index(services(count).client(), "business") for count in (1, 2, 3, 5)]
    for index in made:
        assert index.configure(CONFIGURATION).status == 200
        for start in range(0, len(ITEMS), 50):
            assert index.put(ITEMS[start : start + 50]).status == 200
        assert index.put([{**ITEMS[7], "name": "nothing"}]).status == 200
        assert index.put([ITEMS[7]]).status == 200
    yield made
    for index in made:
        index.client.delete(index.path)
        index.client.close()


def answered(indexes: list[Index], **parameters: Any) -> Any:
    """Return the answer to a search, which must be the same bytes for all numbers of shards."""
    replies = [index.post("search", parameters) for index in indexes]
    assert [reply.status for reply in replies] == [200] * len(replies), replies[0].body
    assert len({stable(reply.body) for reply in replies}) == 1
    return replies[0].json


def factor(item: dict[str, Any]) -> float:
    """Return what `BOOST` multiplies the score of an item by."""
    value, released = item["popularity"], item["released"]
    log = 1.0
    if isinstance(value, bool | int | float):
        log += 0.3 * math.log(1 + max(value, 0))
    days = None
    if isinstance(released, int):
        days = (released - 1_748_736_000) / 86_400
    elif released != "soon":
        starts = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334]
        days = starts[int(released[5:7]) - 1] + 10 - 151
    return log * (1.0 if days is None else 1 + 0.5 ** (abs(days) / 100))


def test_without_a_query_the_order_is_that_of_the_factors(indexes: list[Index]) -> None:
    answer = answered(indexes, boost=BOOST, per_page=200, show=["score", "score_details"])
    items = answer["data"]["items"]
    assert [item["_score"] for item in items] == pytest.approx(
        sorted(map(factor, ITEMS), reverse=True), rel=1e-5
    )
    for item in items:
        assert item["_score"] == pytest.approx(factor(item), rel=1e-5)
        details = item["_score_details"]
        assert details["score"] == item["_score"]
        assert sum(part["score"] for part in details["parts"]) == item["_score"]
    assert items[0]["_score_details"]["parts"][1]["kind"] == "boost"
    assert items[0]["_score_details"]["parts"][1]["field"] == "popularity"
    assert items[0]["_score_details"]["parts"][1]["value"] == items[0]["popularity"]


def test_scores_of_words_are_multiplied(indexes: list[Index]) -> None:
    plain = answered(indexes, query="red lamp", per_page=200, show=["score"])
    scores = {item["id"]: item["_score"] for item in plain["data"]["items"]}
    answer = answered(indexes, query="red lamp", boost=BOOST, per_page=200, show=["score_details"])
    assert answer["pagination"]["total"] == plain["pagination"]["total"]
    assert answer["data"]["aggregations"] == plain["data"]["aggregations"]
    found = answer["data"]["items"]
    assert found == sorted(found, key=lambda item: -item["_score"])
    for item in found:
        assert item["_score"] == pytest.approx(scores[item["id"]] * factor(item), rel=1e-5)
        assert sum(p["score"] for p in item["_score_details"]["parts"]) == item["_score"]


def test_configured_boosts_hold_until_a_request_names_others(services: Services) -> None:
    index = Index(services(2).client(), "configured")
    assert index.configure({"boost": {"popularity": {"linear": 1}}}).status == 200
    index.put([{"id": n, "name": "lamp", "popularity": n} for n in range(5)])
    assert index.ids(query="lamp") == index.ids() == [4, 3, 2, 1, 0]
    assert index.ids(query="lamp", boost={}) == index.ids(boost={}) == [0, 1, 2, 3, 4]
    assert index.ids(boost={"popularity": {"decay": 1, "origin": 2}}) == [2, 1, 3, 0, 4]
    assert index.ids(sort_field="id") == [0, 1, 2, 3, 4]
    assert index.ids(order="desc") == [4, 3, 2, 1, 0]
    shown = index.get("configuration", effective="true").json
    assert shown["boost"] == {"popularity": {"linear": 1.0}}
    exported = index.client.request("GET", f"{index.path}/items").body.splitlines()
    assert [line[:8] for line in exported] == [b'{"id": %d' % n for n in range(5)]
    index.client.delete(index.path)
    index.client.close()


@pytest.mark.parametrize(
    ("query", "boost"),
    [(query, BOOST) for query in ("red lamp", "table lamp", "lam", "")] + [("lam", {})],
)
@pytest.mark.parametrize("filters", [{}, {"brand": ["brand 1"]}])
def test_a_threshold_leaves_exact_totals_and_facets(
    indexes: list[Index], query: str, boost: dict[str, Any], filters: dict[str, Any]
) -> None:
    asked = {"query": query, "boost": boost, "per_page": 200, "show": ["score"]}
    every = answered(indexes, **asked)["data"]["items"]
    min_score = sorted(item["_score"] for item in every)[len(every) // 3]
    kept = [item for item in every if item["_score"] >= min_score]
    answer = answered(indexes, **asked, min_score=min_score, filters=filters)
    brands = filters.get("brand") or ["brand 0", "brand 1", "brand 2"]
    assert answer["data"]["items"] == [item for item in kept if item["brand"] in brands]
    assert answer["pagination"]["total"] == len(answer["data"]["items"])
    buckets = answer["data"]["aggregations"]["brand"]["buckets"]
    counts = {bucket["key"]: bucket["doc_count"] for bucket in buckets}
    expected = [item["brand"] for item in kept]
    assert counts == {brand: expected.count(brand) for brand in set(expected)}
    assert answered(indexes, **{**asked, "per_page": 0}, min_score=min_score, filters=filters)[
        "pagination"
    ] == {"per_page": 0, "page": 1, "total": answer["pagination"]["total"]}


@pytest.mark.parametrize("order", [{"sort": "popularity:desc"}, {"order": "desc"}, {}])
def test_a_threshold_holds_in_every_order(indexes: list[Index], order: dict[str, Any]) -> None:
    asked = {"boost": BOOST, "per_page": 200, "facet_fields": []}
    kept = answered(indexes, **asked, min_score=1.5)["data"]["items"]
    assert 0 < len(kept) < len(ITEMS)
    every = answered(indexes, **asked, **order)["data"]["items"]
    answer = answered(indexes, **asked, **order, min_score=1.5)
    assert answer["data"]["items"] == [item for item in every if item in kept]
    assert answer["pagination"]["total"] == len(kept)
    if order:
        out = next(item["id"] for item in every if item not in kept)
        parameters = {**asked, **order, "min_score": 1.5, "id": out}
        (reason,) = indexes[1].post("explain", parameters).json["data"]["reasons"]
        assert reason["kind"] == "min_score"
        assert 1 <= reason["score"] < 1.5


def test_similar_scores_are_ordered_by_the_next_key(indexes: list[Index]) -> None:
    asked: dict[str, Any] = {
        "query": "red lamp",
        "boost": BOOST,
        "per_page": 200,
        "show": ["score"],
    }
    every = answered(indexes, **asked)["data"]["items"]
    height = (every[0]["_score"] * 2**32 // 4 + 1) / 2**32
    in_objects = [{"field": "_score", "buckets": 4}, {"field": "id", "order": "desc"}]
    for sort in (["_score:buckets=4:desc", "id:desc"], in_objects):
        found = answered(indexes, **asked, sort=sort)["data"]["items"]
        assert found == sorted(every, key=lambda i: (-(i["_score"] // height), -i["id"]))
    pages = [
        answered(indexes, **{**asked, "per_page": 15}, sort="_score:buckets=4,id:desc", page=page)
        for page in range(1, 20)
    ]
    assert [item for page in pages for item in page["data"]["items"]] == found
    assert len({math.floor(item["_score"] / height) for item in every}) > 1


def test_random_orders_are_named_by_their_seeds(indexes: list[Index]) -> None:
    orders = []
    for sort in ("_random:1", "_random:2", [{"field": "_random", "seed": 1, "order": "desc"}]):
        found = answered(indexes, sort=sort, per_page=200)["data"]["items"]
        orders.append([item["id"] for item in found])
        assert sorted(orders[-1]) == list(range(200))
    assert orders[0] != orders[1]
    assert orders[0] == orders[2][::-1]
    assert orders[0] != sorted(orders[0])
    pages = [answered(indexes, sort="_random:1", per_page=30, page=page) for page in range(1, 8)]
    assert [item["id"] for page in pages for item in page["data"]["items"]] == orders[0]


@pytest.mark.parametrize(
    "sort", ["_random:5", "_score:buckets=3,id:desc", "brand,_random:7", "_score"]
)
def test_cursors_go_through_these_orders(indexes: list[Index], sort: str) -> None:
    asked: dict[str, Any] = {"query": "lamp", "boost": BOOST, "sort": sort}
    whole = [item["id"] for item in answered(indexes, **asked, per_page=200)["data"]["items"]]
    for index in indexes:
        found: list[int] = []
        cursor: str | None = "*"
        while cursor is not None:
            answer = index.search(**asked, per_page=17, cursor=cursor)
            found += [item["id"] for item in answer["data"]["items"]]
            cursor = answer["pagination"].get("cursor")
        assert found == whole


@pytest.mark.parametrize(
    ("parameters", "param", "message"),
    [
        ({"sort": "_random"}, "sort[0]", 'needs a seed after _random, for example "_random:42"'),
        ({"sort": "_random:x"}, "sort[0]", "must be an integer from 0 to 999999999"),
        ({"sort": "year:buckets=3"}, "sort[0]", "has buckets, which only _score takes"),
        ({"sort": "_score:buckets=0"}, "sort[0]", "must be an integer from 1 to 1000"),
        ({"sort": [{"field": "year", "seed": 3}]}, "sort[0]", "has a seed, which only _random"),
        (
            {"sort": [{"field": "_random", "seed": 3, "point": [1, 2]}]},
            "sort[0]",
            "has a point, which only fields of points take",
        ),
        (
            {"sort": [{"field": "_score", "point": [1, 2]}]},
            "sort[0]",
            "has a point, which only fields of points take",
        ),
        ({"sort": "year", "order": "desc"}, "sort", "and order exclude each other; write the dire"),
        ({"boost": {"popularity": {"cube": 1}}}, "boost.popularity", "must be an object with one"),
        ({"boost": {f"f{n}": {"log": 1} for n in range(17)}}, "boost", "names 17 fields, more"),
        ({"boost": 3}, "boost", "must be an object, of boosts by field"),
        ({"min_score": -1}, "min_score", "must be a number from 0 to 1e+12"),
        ({"min_score": "much"}, "min_score", "must be a number from 0 to 1e+12"),
    ],
)
def test_mistakes_name_what_would_be_valid(
    client: Client, index: Index, parameters: dict[str, Any], param: str, message: str
) -> None:
    index.configure({})
    reply = index.post("search", parameters)
    assert reply.status == 400
    assert reply.json["error"]["param"] == param
    assert reply.json["error"]["message"].startswith(f"{param} {message}")
