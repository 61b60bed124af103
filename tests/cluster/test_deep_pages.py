"""Shards send their share of hits and documents, and more where that was not enough."""

from __future__ import annotations

import pytest

from common.item_ids import canonical_id
from common.item_placement import shard_of_id
from tests.cluster.conftest import Index

NUM_ITEMS = 900


def _is_on_last_shard(number: int, num_shards: int) -> bool:
    canonical = canonical_id(number)
    assert canonical is not None
    return shard_of_id(canonical, num_shards) == num_shards - 1


@pytest.mark.parametrize("is_skewed", [False, True])
def test_all_pages_together_are_the_whole_order(index: Index, is_skewed: bool) -> None:
    """Also where all of one shard's items come before all others."""
    assert (
        index.configure({"sorting_fields": ["price"], "searchable_fields": ["text"]}).status == 200
    )
    num_shards = index.search()["meta"]["shards"]["total"]
    items = [
        {
            "id": number,
            "text": "sea",
            "price": number * 7919 % NUM_ITEMS
            + NUM_ITEMS * (is_skewed and _is_on_last_shard(number, num_shards)),
        }
        for number in range(NUM_ITEMS)
    ]
    assert index.put(items).status == 200
    expected = [item["id"] for item in sorted(items, key=lambda one: -int(str(one["price"])))]
    asked = {"sort_field": "price", "order": "desc"}
    for query, per_page in (("", 50), ("sea", 50), ("", 10)):
        found = []
        for page in range(1, NUM_ITEMS // per_page + 2):
            found += index.ids(**asked, query=query, page=page, per_page=per_page)
        assert found == expected, (query, per_page)
