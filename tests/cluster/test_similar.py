"""`similar_to`: the items that share the most telling words of one, against a naive model."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from threading import Event, Thread
from typing import Any

import pytest

from common.term_weights import inverse_doc_freq
from coordinator.read.more_like_this import MATCH, WORDS_MAX
from tests.cluster.conftest import Index, Services, error_of
from tests.service import Client

SHARD_COUNTS = (1, 2, 3, 5)
WORDS = [f"{a}{b}{c}" for a in "bdfgk" for b in "aeo" for c in "lmnrst"]


def made_items() -> list[dict[str, Any]]:
    rng = random.Random(4)
    weights = [1 / (i + 1) for i in range(len(WORDS))]
    return [
        {
            "id": number,
            "title": " ".join(rng.choices(WORDS, weights, k=rng.randint(0, 4))),
            "parts": [{"text": " ".join(rng.choices(WORDS, weights, k=12))}],
            "note": " ".join(rng.choices(WORDS, k=3)),
            "kind": rng.choice("abc"),
        }
        for number in range(300)
    ]


ITEMS = made_items()


def words_of(item: dict[str, Any]) -> list[tuple[str, float]]:
    """The searched words with the weights of their fields; `note` is not searched."""
    return [
        *((word, 3.0) for word in item["title"].split()),
        *((word, 1.0) for word in item["parts"][0]["text"].split()),
    ]


def telling(item: dict[str, Any], items: list[dict[str, Any]]) -> list[str]:
    freqs = Counter(word for one in items for word in {word for word, _ in words_of(one)})
    weights: Counter[str] = Counter()
    for word, weight in words_of(item):
        weights[word] += weight  # type: ignore[assignment]
    scores = {
        word: weight * inverse_doc_freq(freqs[word], len(items))
        for word, weight in weights.items()
        if freqs[word] > 1
    }
    return sorted(scores, key=lambda word: (-scores[word], word))[:WORDS_MAX]


def similar(item: dict[str, Any], items: list[dict[str, Any]]) -> set[int]:
    words = telling(item, items)
    required = max(1, len(words) * int(MATCH[:-1]) // 100)
    return {
        other["id"]
        for other in items
        if other is not item and len({word for word, _ in words_of(other)} & set(words)) >= required
    }


@pytest.fixture(scope="module", params=SHARD_COUNTS, ids=lambda count: f"{count}-shards")
def index(request: pytest.FixtureRequest, services_of_all_ways: Services) -> Iterator[Index]:
    index = Index(services_of_all_ways(request.param).client(), "similar")
    index.configure(
        {
            "aggregations": {"kind": {}},
            "searchable_fields": ["title^3", "parts"],
            "match": "all",
            "typo_lengths": [3, 5],
        }
    )
    for start in range(0, len(ITEMS), 120):
        index.put(ITEMS[start : start + 120])
    index.put([{"id": 999, "title": "unheard of"}])
    index.client.delete(f"{index.path}/items/999")
    yield index
    index.client.delete(index.path)
    index.client.close()


@pytest.mark.parametrize("number", [0, 7, 123, 299])
def test_hits_share_the_most_telling_words(index: Index, number: int) -> None:
    expected = similar(ITEMS[number], ITEMS)

    answer = index.search(similar_to=number, per_page=1_000)

    assert {item["id"] for item in answer["data"]["items"]} == expected
    assert answer["pagination"]["total"] == len(expected)
    kinds = Counter(ITEMS[one]["kind"] for one in expected)
    buckets = answer["data"]["aggregations"]["kind"]["buckets"]
    assert {one["key"]: one["doc_count"] for one in buckets} == kinds
    assert "did_you_mean" not in answer["meta"]


def test_filters_orders_and_cursors_apply(index: Index) -> None:
    expected = {one for one in similar(ITEMS[7], ITEMS) if ITEMS[one]["kind"] == "a"}
    asked: dict[str, Any] = {"similar_to": 7, "filters": {"kind": ["a"]}, "per_page": 5}

    pages = []
    cursor = "*"
    while cursor:
        answer = index.search(**asked, cursor=cursor)
        pages += [item["id"] for item in answer["data"]["items"]]
        cursor = answer["pagination"].get("cursor")

    assert len(pages) == len(set(pages))
    assert set(pages) == expected
    assert pages == index.ids(**{**asked, "per_page": 1_000})
    ordered = index.ids(**{**asked, "per_page": 1_000}, sort="id:desc")
    assert ordered == sorted(expected, reverse=True)
    other = {
        **asked,
        "similar_to": 8,
        "cursor": index.search(**asked, cursor="*")["pagination"]["cursor"],
    }
    assert index.post("search", other).status == 400


def test_a_search_reads_one_state_while_others_write(index: Index) -> None:
    has_ended = Event()

    def write() -> None:
        writer = Index(Client(index.client.port), index.name)
        while not has_ended.is_set():
            writer.put([{**ITEMS[1], "note": "written again"}])
        writer.client.close()

    expected = similar(ITEMS[7], ITEMS)
    writing = Thread(target=write)
    writing.start()
    try:
        for _ in range(30):
            answer = index.search(similar_to=7, per_page=1_000)
            assert {item["id"] for item in answer["data"]["items"]} == expected
    finally:
        has_ended.set()
        writing.join()
        index.put([ITEMS[1]])


def test_an_item_without_shared_words_has_no_like(index: Index) -> None:
    index.put([{"id": 1_000, "title": "unheard of"}, {"id": 1_001, "kind": "a"}])
    try:
        for number in (1_000, 1_001):
            assert index.search(similar_to=number)["pagination"]["total"] == 0
    finally:
        for number in (1_000, 1_001):
            index.client.delete(f"{index.path}/items/{number}")


def test_mistakes_are_named(index: Index) -> None:
    error = error_of(index.post("search", {"similar_to": 5_000}))
    assert (error["code"], error["param"]) == ("item_not_found", "similar_to")
    error = error_of(index.post("search", {"similar_to": 1, "query": "bal"}))
    assert (error["code"], error["param"]) == ("invalid_similar_to", "similar_to")
    error = error_of(index.post("search", {"similar_to": -1}))
    assert (error["code"], error["param"]) == ("invalid_similar_to", "similar_to")
    error = error_of(index.post("search", {"more_like_this": 1}))
    assert "similar_to takes the id of an item" in error["message"]
    assert index.post("explain", {"id": 7, "similar_to": 7}).json["data"]["reasons"] == [
        {"kind": "similar_to", "param": "similar_to"}
    ]
