"""Rules of curation over HTTP, against a list that is curated by hand, on 1, 2, 3 and 5 shards."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests.cluster.conftest import Index, Services, error_of
from tests.cluster.test_business_ranking import answered

ITEMS: list[dict[str, Any]] = [
    {
        "id": number,
        "name": ["red lamp", "lamp", "chair"][number % 3],
        "brand": ["acme", "bolt"][number % 2],
        "price": number,
    }
    for number in range(90)
]
NUM_FIRST_PAGES = 12
EVERYTHING = {"filter": "price >= 0", "factor": 1_000}
CONFIGURATION = {
    "searchable_fields": ["name"],
    "aggregations": {"brand": {"conjunction": False, "hide_zero_doc_count": True}},
}


@pytest.fixture(scope="module")
def indexes(services: Services) -> Any:
    made = [Index(services(count).client(), "curated") for count in (1, 2, 3, 5)]
    for i, index in enumerate(made):
        assert index.configure(CONFIGURATION).status == 200
        for start in range(0, len(ITEMS), 30 + i):
            assert index.put(ITEMS[start : start + 30 + i]).status == 200
    yield made
    for index in made:
        index.client.delete(index.path)
        index.client.close()


def by_hand(
    plain: list[dict[str, Any]], pins: list[tuple[int, int]], passes: Any
) -> list[dict[str, Any]]:
    """Return hits with pinned items in their places, one position after the other."""
    pinned = [(position, number) for number, position in pins if passes(ITEMS[number])]
    pinned.sort(key=lambda pair: pair[0])
    others = [item for item in plain if item["id"] not in {number for _, number in pinned}]
    result: list[dict[str, Any]] = []
    while others or pinned:
        if pinned and (pinned[0][0] <= len(result) + 1 or not others):
            result.append(ITEMS[pinned.pop(0)[1]])
        else:
            result.append(others.pop(0))
    return result


@pytest.mark.parametrize("query", ["lamp", "red lamp", "", "chair", "nothing"])
@pytest.mark.parametrize("brands", [[], ["acme"]])
@pytest.mark.parametrize("per_page", [1, 7, 100])
def test_pinned_items_stand_where_they_are_pinned(
    indexes: list[Index], query: str, brands: list[str], per_page: int
) -> None:
    pins = [(80, 1), (3, 2), (5, 2), (999, 3), (17, 9), (60, 9_000)]
    known = [pin for pin in pins if pin[0] < len(ITEMS)]
    filters = {"brand": brands} if brands else {}
    rule = {"pin": [{"id": number, "position": position} for number, position in pins]}
    asked: dict[str, Any] = {"query": query, "filters": filters}
    plain = answered(indexes, **asked, per_page=100)["data"]["items"]
    expected = by_hand(plain, known, lambda item: not brands or item["brand"] in brands)
    last = len(expected) // per_page + 1
    for page in range(1, last + 1):
        if NUM_FIRST_PAGES < page < last - 1:
            continue  # no item is pinned there
        answer = answered(indexes, **asked, rules=[rule], per_page=per_page, page=page)
        assert answer["pagination"]["total"] == len(expected)
        start = (page - 1) * per_page
        assert answer["data"]["items"] == expected[start : start + per_page], page
    assert answer["meta"]["rules"] == ["rule 1"]
    hits = by_hand(answered(indexes, query=query, per_page=100)["data"]["items"], known, bool)
    counts = {brand: sum(item["brand"] == brand for item in hits) for brand in ("acme", "bolt")}
    buckets = answer["data"]["aggregations"]["brand"]["buckets"]
    assert {bucket["key"]: bucket["doc_count"] for bucket in buckets} == counts
    assert answered(indexes, **asked, rules=[rule], per_page=0)["pagination"]["total"] == len(
        expected
    )
    for index in indexes:
        by_cursor: list[Any] = []
        cursor: str | None = "*"
        while cursor is not None:
            page_of_cursor = index.search(
                **asked, rules=[rule], per_page=max(per_page, 7), cursor=cursor
            )
            by_cursor += page_of_cursor["data"]["items"]
            cursor = page_of_cursor["pagination"].get("cursor")
        assert by_cursor == expected


def test_pinned_items_are_hits_of_any_order(indexes: list[Index]) -> None:
    rule = {"pin": [2, 5]}
    answer = answered(indexes, query="red", rules=[rule], sort_field="price", per_page=100)
    assert [item["id"] for item in answer["data"]["items"]] == sorted(
        {2, 5, *(item["id"] for item in ITEMS if item["name"] == "red lamp")}
    )


def test_hidden_items_do_not_count(indexes: list[Index]) -> None:
    hidden = random.Random(3).sample(range(90), 30)
    answer = answered(indexes, query="lamp", rules=[{"hide": hidden}], per_page=100)
    left = [one for one in ITEMS if "lamp" in one["name"] and one["id"] not in hidden]
    assert answer["pagination"]["total"] == len(left)
    assert sorted(item["id"] for item in answer["data"]["items"]) == [one["id"] for one in left]
    buckets = answer["data"]["aggregations"]["brand"]["buckets"]
    expected = [one["brand"] for one in left]
    assert {one["key"]: one["doc_count"] for one in buckets} == {
        brand: expected.count(brand) for brand in set(expected)
    }
    facet = indexes[1].post("facet", {"name": "brand", "rules": [{"hide": hidden}]}).json
    visible = [one["brand"] for one in ITEMS if one["id"] not in hidden]
    assert {one["key"]: one["doc_count"] for one in facet["data"]["buckets"]} == {
        brand: visible.count(brand) for brand in set(visible)
    }


def test_rules_boost_bury_and_narrow(indexes: list[Index]) -> None:
    rules = [
        {"name": "ours", "boost": [{"filter": "brand = acme", "factor": 2}]},
        {"name": "cheap", "bury": ["price < 40"]},
        {"filter": "price < 50", "when": {"query": {"contains": "lamp"}}},
    ]
    answer = answered(
        indexes, query="red lamp", rules=rules, per_page=100, show=["score", "score_details"]
    )
    found = answer["data"]["items"]
    wanted = [one for one in ITEMS if one["name"] == "red lamp" and one["price"] < 50]
    assert [item["id"] for item in found] == [
        one["id"] for one in sorted(wanted, key=lambda o: (o["price"] < 40, o["brand"] != "acme"))
    ]
    assert answer["meta"]["rules"] == ["ours", "cheap", "rule 3"]
    for item in found:
        details = item["_score_details"]
        assert sum(part["score"] for part in details["parts"]) == details["score"] == item["_score"]
        rules_named = [part["rule"] for part in details["parts"] if part["kind"] == "rule"]
        assert rules_named == ["ours"] * (item["brand"] == "acme") + ["cheap"] * (
            item["price"] < 40
        )


def test_answers_list_the_data_of_the_rules_that_applied(indexes: list[Index]) -> None:
    rules = [
        {"name": "a", "data": {"banner": 1}},
        {"name": "b", "data": {"banner": 2}, "when": {"query": {"contains": "sofa"}}},
        {"name": "c", "hide": [5]},
        {"name": "d", "data": {"banner": 4}, "filter": "price < 50"},
        {"name": "d", "data": {"banner": 4}, "when": {"query": {"contains": "lamp"}}},
    ]
    meta = answered(indexes, query="red lamp", rules=rules)["meta"]
    assert meta["rules"] == ["a", "c", "d", "d"]
    assert meta["rule_data"] == [{"banner": 1}, {"banner": 4}], "what a rule says, it says once"
    assert "rule_data" not in answered(indexes, query="lamp", rules=rules[2:3])["meta"]
    refused = indexes[0].post("search", {"rules": [{"data": "x"}]})
    assert (refused.status, refused.json["error"]["param"]) == (400, "rules[0].data")


def test_any_number_of_factors_leaves_scores_that_are_explained(indexes: list[Index]) -> None:
    for factors in ({"bury": ["price >= 0"] * 8}, {"boost": [EVERYTHING] * 8}):
        answer = answered(
            indexes, query="lamp", rules=[factors] * 20, show=["score", "score_details"], per_page=3
        )
        for item in answer["data"]["items"]:
            assert item["_score"] == item["_score_details"]["score"] > 0
            assert {part["kind"] for part in item["_score_details"]["parts"]} >= {"word", "rule"}


@pytest.mark.parametrize(
    "rule",
    [
        {"filter": "brnad = acme"},
        {"boost": [{"filter": "brnad = acme", "factor": 3}]},
        {"bury": ["price < 3 OR NOT brnad = acme"]},
    ],
)
def test_the_rules_of_a_request_name_fields_that_items_have(
    indexes: list[Index], rule: dict[str, Any]
) -> None:
    for index in indexes:
        error = error_of(index.post("search", {"query": "lamp", "rules": [rule]}))
        assert (error["code"], error["param"]) == ("unknown_facet", "rules")
        assert "'brnad'" in error["message"]
        other = {**rule, "when": {"query": "another"}}
        assert index.post("search", {"query": "lamp", "rules": [other]}).status == 200


def test_configured_rules_may_name_fields_that_no_item_has_yet(services: Services) -> None:
    index = Index(services(2).client(), "curated-early")
    index.configure({"rules": [{"bury": ["sold_out = true"]}]})
    index.put([{"id": 1, "name": "lamp"}])
    assert index.ids(query="lamp") == [1]
    index.client.delete(index.path)
    index.client.close()


def test_score_details_name_the_rule_of_a_pin(indexes: list[Index]) -> None:
    rule = {"name": "sale", "pin": [2, 0]}
    asked = {"query": "red lamp", "rules": [rule], "show": ["score_details"], "per_page": 3}
    items = answered(indexes, **asked)["data"]["items"]
    assert [item["id"] for item in items[:2]] == [2, 0]
    assert items[0]["_score_details"] == {
        "score": 0.0,
        "parts": [{"kind": "pin", "score": 0.0, "rule": "sale", "position": 1}],
    }
    assert items[1]["_score"] == items[1]["_score_details"]["score"] > 0
    assert items[1]["_score_details"]["parts"][-1]["position"] == 2
    assert all(part["kind"] != "pin" for part in items[2]["_score_details"]["parts"])


def test_configured_rules_hold_and_a_key_still_restricts(services: Services) -> None:
    index = Index(services(2).client(), "configured-rules")
    rule = {
        "name": "tv week",
        "when": {"query": "lamp", "from": "2020-01-01", "until": "2999-01-01"},
        "pin": [2],
        "hide": [1],
    }
    over = {**rule, "name": "over", "when": {"until": "2020-01-01"}}
    assert index.configure({**CONFIGURATION, "rules": [rule, over]}).status == 200
    index.put(ITEMS[:6])
    assert index.ids(query="lamp") == [2, 4, 0, 3]
    assert index.ids(query="lamp", rules=[]) == [1, 4, 0, 3]
    assert index.ids(query="lamp", filters={"price": {"gte": 3}}) == [4, 3]
    assert index.get("configuration", effective="true").json["rules"] == [
        {**rule, "when": {**rule["when"], "query": {"is": "lamp"}}, "hide": ["1"],  # type: ignore[dict-item]
         "pin": [{"id": "2", "position": 1}]},
        {**over, "hide": ["1"], "pin": [{"id": "2", "position": 1}]},
    ]  # fmt: skip
    exported = index.client.request("GET", f"{index.path}/items?query=lamp").body.splitlines()
    assert sorted(line[:8] for line in exported) == [b'{"id": %d' % n for n in (0, 1, 3, 4)]
    reply = index.configure({"rules": [{"filter": "price >"}]})
    assert reply.status == 400
    assert reply.json["error"]["code"] == "invalid_configuration"
    assert reply.json["error"]["param"] == "rules[0]"
    reply = index.post("search", {"rules": [{"pin": [1.5]}]})
    assert (reply.status, reply.json["error"]["param"]) == (400, "rules[0].pin[0]")
    index.client.delete(index.path)
    index.client.close()


def test_fewer_words_are_tried_where_only_pinned_items_are_hits(indexes: list[Index]) -> None:
    asked: dict[str, Any] = {"query": "red chair", "match": "auto"}
    assert answered(indexes, **asked)["pagination"]["total"] == 30
    assert answered(indexes, **asked, rules=[{"pin": [80]}])["pagination"]["total"] == 31


def test_facets_count_pinned_items_below_a_threshold(indexes: list[Index]) -> None:
    asked: dict[str, Any] = {
        "rules": [{"boost": [{"filter": "price < 10", "factor": 3}], "pin": [40, 41]}],
        "min_score": 2,
        "per_page": 0,
    }
    for query in ("", "lamp"):
        counts = [
            answered(indexes, **asked, query=query, filters={"brand": [brand]})
            for brand in ("acme", "bolt")
        ]
        totals = {
            brand: one["pagination"]["total"]
            for brand, one in zip(("acme", "bolt"), counts, strict=True)
        }
        for one in counts:
            buckets = one["data"]["aggregations"]["brand"]["buckets"]
            assert {bucket["key"]: bucket["doc_count"] for bucket in buckets} == totals


def test_rules_for_a_query_do_not_hold_for_similar_items(indexes: list[Index]) -> None:
    plain = answered(indexes, similar_to=1)
    rules = [{"when": {"query": {"contains": "lamp"}}, "hide": [4]}, {"name": "all", "hide": [7]}]
    answer = answered(indexes, similar_to=1, rules=rules)
    assert answer["meta"]["rules"] == ["all"]
    assert answer["pagination"]["total"] == plain["pagination"]["total"] - 1


@pytest.mark.parametrize("query", ["lamp", "red", ""])
def test_pinned_items_keep_their_score_below_a_threshold(indexes: list[Index], query: str) -> None:
    asked: dict[str, Any] = {
        "query": query,
        "rules": [{"boost": [{"filter": "price < 10", "factor": 3}], "pin": [40, 41, 44, 3]}],
        "sort": ["_score:desc"],
        "per_page": 100,
        "show": ["score", "score_details"],
    }
    every = answered(indexes, **asked)["data"]["items"]
    least = sorted(item["_score"] for item in every)[-4]
    answer = answered(indexes, **asked, min_score=least)
    assert answer["data"]["items"] == [
        item for item in every if item["_score"] >= least or item["id"] in (40, 41, 44, 3)
    ]
    assert answer["pagination"]["total"] == len(answer["data"]["items"]) < len(every)


def test_pinned_items_do_not_hide_that_nothing_was_found(indexes: list[Index]) -> None:
    asked: dict[str, Any] = {"rules": [{"pin": [40]}], "typo": 0, "prefix": "none"}
    for query, meant in (("chiar", "chair"), ("red tabel", None), ("chair", None)):
        answer = answered(indexes, **asked, query=query)
        assert answer["pagination"]["total"] == (31 if query != "chiar" else 1)
        assert answer["meta"].get("did_you_mean") == meant
    # Only the pinned item has the words: they are not a mistake.
    one = {"filters": {"price": [40]}}
    assert answered(indexes, **asked, **one, query="lamp")["meta"].get("did_you_mean") is None
