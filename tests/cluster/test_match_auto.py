"""Without an item that has all words, function words and the last ones go, then any suffices."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.cluster.conftest import Index, filled
from tests.service import Client

ITEMS = [
    {"id": 1, "name": "red lamp", "kind": "light"},
    {"id": 2, "name": "red table", "kind": "furniture"},
    {"id": 3, "name": "green chair", "kind": "furniture"},
    {"id": 4, "name": "blue sofa", "kind": "furniture"},
]


CONFIGURATION = {
    "match": "auto",
    "searchable_fields": ["name"],
    "aggregations": {"kind": {"conjunction": False}},
}


@pytest.fixture
def shop(index: Index) -> Index:
    assert index.configure(CONFIGURATION).status == 200
    index.put(ITEMS)
    return index


@pytest.fixture(scope="module")
def shared_shop(client: Client) -> Iterator[Index]:
    """Read only."""
    yield from filled(Index(client, "generous-shop"), CONFIGURATION, ITEMS)


@pytest.mark.parametrize(
    ("query", "filters", "match", "ids"),
    [
        ("red lamp", {}, "all", [1]),
        ("red chair", {}, "last", [1, 2]),
        ("red lamp chair", {}, "last", [1, 2]),
        ("red chair sofa", {"kind": ["light"]}, "last", [1]),
        ("chair lamp", {"kind": ["light"]}, "any", [1]),
        ("lamp chair", {"kind": ["light"]}, "last", [1]),
        ("red lamp chair red lamp", {}, "last", [1, 2]),
        ("red lamp chair red lamp red", {}, "any", [1, 2, 3]),  # a sentence
        ("nothing nowhere", {}, "any", []),
        ("nothing", {}, "all", []),
        ("lamp", {"kind": ["none"]}, "all", []),
    ],
)
def test_the_first_mode_with_hits_is_taken(
    shared_shop: Index, query: str, filters: Any, match: str, ids: list[int]
) -> None:
    answer = shared_shop.search(query=query, filters=filters)
    assert sorted(item["id"] for item in answer["data"]["items"]) == ids
    assert answer["pagination"]["total"] == len(ids)
    assert answer["meta"]["match"] == match
    asked = {"name": "kind", "search_query": query, "filters": filters}
    facet = shared_shop.post("facet", asked).json
    buckets = answer["data"]["aggregations"]["kind"]["buckets"]
    assert facet["data"]["buckets"] == buckets


@pytest.mark.parametrize("how", [{"per_page": 0}, {"sort": "name"}, {"distinct": "kind"}, {}])
def test_pinned_items_do_not_decide_the_mode(shared_shop: Index, how: dict[str, Any]) -> None:
    """However the hits are ordered and whether any are shown."""
    rules = [{"pin": [4]}]
    answer = shared_shop.search(query="red chair", rules=rules, **how)

    assert (answer["meta"]["match"], answer["data"]["aggregations"]["kind"]["buckets"]) == (
        "last",
        [
            {"key": "furniture", "doc_count": 2, "selected": False},
            {"key": "light", "doc_count": 1, "selected": False},
        ],
    )
    asked = {"name": "kind", "search_query": "red chair", "rules": rules}
    facet = shared_shop.post("facet", asked).json
    assert facet["data"]["buckets"] == answer["data"]["aggregations"]["kind"]["buckets"]


def test_cursors_stay_with_the_mode(shop: Index) -> None:
    found: list[int] = []
    cursor: str | None = "*"
    while cursor is not None:
        answer = shop.search(query="red sofa chair", per_page=1, cursor=cursor)
        assert answer["meta"]["match"] == "last"
        found += [item["id"] for item in answer["data"]["items"]]
        cursor = answer["pagination"].get("cursor")
    assert sorted(found) == [1, 2]


@pytest.mark.parametrize(
    ("query", "language", "dropped", "match", "ids"),
    [
        ("the red lamp", "none", ["the"], "all", [1]),
        ("a lamp of the red", "english", ["a", "of", "the"], "all", [1]),
        ("der red lamp", "german", ["der"], "all", [1]),
        ("the red lamp", "german", None, "last", [9]),  # no German word: the first one is required
        ('the "red lamp"', "none", ["the"], "all", [1]),
        ('"the" red lamp', "none", None, "last", [9]),  # what is quoted is meant
        ("the red lamp chair", "none", ["the"], "last", [1, 2]),
        ("a lamp of the red blue", "none", None, "any", [1, 2, 4, 9]),  # a sentence
        ("the lamp -chair", "none", ["the"], "all", [1]),
        ("the of", "none", None, "all", [9]),  # they may be a name
        ("the into", "german", None, "all", [9]),
        ("red lamp", "none", None, "all", [1]),
    ],
)
def test_function_words_are_dropped_first(
    shop: Index, query: str, language: str, dropped: list[str] | None, match: str, ids: list[int]
) -> None:
    configuration = {"match": "auto", "searchable_fields": ["name"], "language": language}
    shop.configure(configuration | {"aggregations": {"kind": {}}})
    shop.put([{"id": 9, "name": "of the into a der", "kind": "words"}])
    answer = shop.search(query=query)

    assert sorted(item["id"] for item in answer["data"]["items"]) == ids
    assert answer["meta"].get("dropped_words") == dropped
    assert answer["meta"]["match"] == match
    facet = shop.post("facet", {"name": "kind", "search_query": query}).json
    assert facet["data"]["buckets"] == answer["data"]["aggregations"]["kind"]["buckets"]


def test_dropped_words_keep_no_item_out(shop: Index) -> None:
    shop.put([{"id": 9, "name": "the"}])
    for id, missing in ((1, []), (2, ["lamp"]), (3, ["red", "lamp"])):
        explained = shop.post("explain", {"id": id, "query": "the red lamp"}).json["data"]
        assert [reason["text"] for reason in explained["reasons"]] == missing


def test_a_name_is_whole_without_its_function_words(index: Index) -> None:
    index.configure({"searchable_fields": ["name", "text"], "match": "auto"})
    index.put(
        [
            {"id": 1, "name": "Hobbit lore", "text": "hobbit, hobbit and hobbit"},
            {"id": 2, "name": "Hobbit", "text": "a tale"},
            {"id": 3, "name": "Ox", "text": "the"},
        ]
    )
    assert index.ids(query="the hobbit") == [2, 1]


def test_function_words_are_no_stop_words(shop: Index) -> None:
    """If some item has them, all items must."""
    shop.put([{"id": 5, "name": "the red lamp"}])
    assert shop.ids(query="the red lamp") == [5]
    assert sorted(shop.ids(query="the red chair")) == [1, 2, 5]


def test_only_searches_are_generous(shop: Index) -> None:
    assert "match" not in shop.search(query="red lamp", match="all")["meta"]
    assert "match" not in shop.search(query="")["meta"]
    assert shop.ids(query="red chair", match="all") == []
    exported = shop.client.request("GET", f"{shop.path}/items?query=red+chair")
    assert exported.body == b""


def test_queries_of_too_many_words_are_cut_where_that_is_harmless(shop: Index) -> None:
    query = "red lamp " + "lamp " * 300
    answer = shop.search(query=query, match="all")
    assert [item["id"] for item in answer["data"]["items"]] == [1]
    assert answer["meta"]["words_cut"] == 46
    refused = shop.client.request("GET", f"{shop.path}/items?query={'lamp+' * 300}lamp")
    assert refused.status == 400
    assert refused.json["error"]["code"] == "query_too_long"


def test_typos_of_short_words_are_a_setting(index: Index) -> None:
    index.configure({"typo_lengths": [4, 8]})
    index.put([{"id": 1, "name": "laser printer"}])
    assert index.ids(query="lasr") == [1]
    index.configure({})
    assert index.ids(query="lasr") == []
    reply = index.configure({"typo_lengths": [4, 2]})
    assert reply.status == 400
    assert reply.json["error"]["message"].startswith(
        "typo_lengths must be two integers, the letters from which on a word may have one typo"
    )
