"""Rules, boosts, thresholds, groups, orders, pages and explanations together, by a naive model."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

import pytest

from tests.cluster.conftest import Index, Services
from tests.cluster.shop_model import CONFIGURATION, FACETS, Scores, ShopModel, ShopSearches
from tests.oracle.items import Item
from tests.service import Client

NUM_IDS = 120
ALL = 500
SEARCHES_BETWEEN_WRITES = 12
PLAIN = {"typo": 0, "prefix": "none", "rules": [], "boost": {}}


class Shop:
    """One index of drawn items, and the same items in a dictionary.

    Args:
        client: of a service.
        seed: of what is drawn.
    """

    def __init__(self, client: Client, seed: int) -> None:
        self.drawn = ShopSearches(seed)
        self.index = Index(client, f"shop-{seed}")
        self.items: dict[str, Item] = {}
        self.index.configure(CONFIGURATION)
        for start in range(0, NUM_IDS * 3 // 4, 15):
            self._put(range(start, start + 15))

    def _put(self, numbers: Any) -> None:
        batch = {str(item["id"]): item for item in map(self.drawn.item, numbers)}
        assert self.index.put(list(batch.values())).status == 200
        self.items |= batch

    def change(self) -> None:
        """Write, replace and delete some items; small segments are merged meanwhile."""
        chance = self.drawn.chance
        self._put([chance.randrange(NUM_IDS) for _ in range(chance.randint(1, 25))])
        for id in chance.sample(list(self.items), 3):
            path = f"{self.index.path}/items/{quote(id)}"
            assert self.index.client.request("DELETE", path).status == 200
            del self.items[id]

    def ask(self, search: Any, **more: Any) -> Any:
        return self.index.search(**search, **more, fields=["id"])

    def compare(self) -> None:
        """Compare the answers to one drawn search with the model's."""
        search = self.drawn.search(list(self.items))
        try:
            self._compare(search)
        except AssertionError as error:
            raise AssertionError(json.dumps(search, ensure_ascii=False)) from error

    def _compare(self, search: Any) -> None:
        def scores_of(match: str) -> Scores:
            plain = {**PLAIN, "query": search["query"], "match": match, "per_page": ALL}
            found = self.ask(plain, show=["score"])["data"]["items"]
            return {str(item["id"]): item["_score"] for item in found}

        model = ShopModel(self.items, search, scores_of)
        wanted = model.answer()
        found = self.ask(search, per_page=ALL, show=["score"])
        assert ids_of(found) == wanted.listed
        assert found["pagination"]["total"] == len(wanted.listed)
        assert found["meta"].get("rules", []) == wanted.rules
        if search.get("match") == "auto" and search["query"]:
            assert found["meta"]["match"] == wanted.match
        for item in found["data"]["items"]:
            score = wanted.scores.get(str(item["id"]), 0) if model.orders_by_score else None
            assert item["_score"] == score
        for name in FACETS:
            buckets = found["data"]["aggregations"][name]["buckets"]
            counts = {one["key"]: one["doc_count"] for one in buckets if one["doc_count"]}
            assert counts == wanted.facets[name]
        self._compare_pages(search, wanted.listed)
        self._compare_explanation(search, model)

    def _compare_pages(self, search: Any, listed: list[str]) -> None:
        size = self.drawn.chance.choice((1, 2, 7, 50))
        number = self.drawn.chance.randint(0, len(listed) // size)
        page = self.ask(search, per_page=size, page=number + 1, facet_fields=[])
        assert ids_of(page) == listed[number * size : (number + 1) * size]
        if number > 5:
            return
        found: list[str] = []
        cursor: str | None = "*"
        while cursor is not None and len(found) <= number * size:
            page = self.ask(search, per_page=size, cursor=cursor, facet_fields=[])
            found += ids_of(page)
            cursor = page["pagination"].get("cursor")
        assert found == listed[: len(found)]
        assert cursor is not None or found == listed

    def _compare_explanation(self, search: Any, model: ShopModel) -> None:
        id = self.drawn.chance.choice([*self.items, *self.items, *map(str, model.pins)])
        explained = self.index.post("explain", {**search, "id": self.items[id]["id"]}).json["data"]
        reasons = {
            one.get("rule") or (one["param"] if one["kind"] == "filter" else one["kind"])
            for one in explained["reasons"]
        }
        assert reasons == model.reasons(id)
        assert explained["is_hit"] == (not reasons)


def ids_of(answer: Any) -> list[str]:
    return [str(item["id"]) for item in answer["data"]["items"]]


def play(client: Client, seed: int, num_searches: int) -> None:
    """Compare the answers to many searches, with writes in between."""
    shop = Shop(client, seed)
    for number in range(num_searches):
        if number % SEARCHES_BETWEEN_WRITES == SEARCHES_BETWEEN_WRITES - 1:
            shop.change()
        shop.compare()
    client.delete(shop.index.path)


@pytest.mark.parametrize("num_shards", [pytest.param(2, marks=pytest.mark.long), 3])
def test_what_a_shop_does_to_its_hits_combines(services: Services, num_shards: int) -> None:
    client = services(num_shards).client()
    play(client, seed=num_shards, num_searches=80)
    client.close()


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("num_shards", [1, 2, 3, 5])
def test_what_a_shop_does_combines_at_length(services: Services, num_shards: int) -> None:
    client = services(num_shards).client()
    for seed in range(100, 140):
        play(client, seed, num_searches=200)
    client.close()
