"""Histograms count the same before they are columns and after."""

from __future__ import annotations

import sys
from collections import Counter
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.errors import PayloadTooLarge
from common.protocol.messages import RangeRequest
from shard.caches.lru_cache import LruCache
from shard.collect.facets import bucket_counts, calendar_buckets, histograms
from shard.collect.facets.bucket_counts import count_ranges
from shard.collect.facets.histograms import histogram_of
from shard.query.matches import Matches
from shard.read import search_cost, searcher
from shard.segment.snapshot import Snapshot
from tests.shard.collect.top_hits.test_top_k import request as searched
from tests.shard.columns_model import Item, World

ITEMS: list[Item] = [{"price": [i, i + 7] if i % 5 == 0 else i} for i in range(80)]
SOME = [3, 5, 20, 21, 63]


def counted(snapshot: Snapshot, request: RangeRequest) -> dict[Any, int]:
    matches = [Matches(view, docs=np.array(SOME, np.uint32)) for view in snapshot.views]
    found = count_ranges(snapshot, request, matches)
    return dict(zip(found.listed_keys, found.listed_counts, strict=True))


REQUEST = RangeRequest("price", interval=10)


def expected() -> Counter[int]:
    found: Counter[int] = Counter()
    for doc in SOME:
        prices = ITEMS[doc]["price"]
        found.update({p // 10 for p in (prices if isinstance(prices, list) else [prices])})
    return found


def test_what_few_items_have_is_read_from_a_column_after_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    snapshot = World(ITEMS).snapshot
    uses: list[bool] = []

    def note(*arguments: Any) -> Any:
        uses.append(True)
        return histogram_of(*arguments)

    monkeypatch.setattr(histograms, "histogram_of", note)

    assert counted(snapshot, REQUEST) == expected()
    assert uses == [], "five of eighty items"
    for _ in range(3):
        assert counted(snapshot, REQUEST) == expected()
    assert len(uses) == 3, "ten of eighty, then the column is there"


def test_a_column_that_was_evicted_is_made_again_after_as_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    snapshot = World(ITEMS).snapshot
    for _ in range(2):
        cache = LruCache(1 << 20)
        monkeypatch.setattr(histograms, "COLUMN_CACHE", cache)
        assert counted(snapshot, REQUEST) == expected()
        assert len(cache) == 0
        assert counted(snapshot, REQUEST) == expected()
        assert len(cache) == 1


def test_a_search_that_numbers_many_documents_is_slow_until_their_column_is_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    snapshot = World(ITEMS).snapshot
    search = searched(ranges=(REQUEST,))
    monkeypatch.setattr(search_cost, "NUMBERED_FAST_MAX", len(ITEMS))
    assert not search_cost.is_slow(snapshot, search)
    monkeypatch.setattr(search_cost, "NUMBERED_FAST_MAX", len(ITEMS) - 1)
    assert search_cost.is_slow(snapshot, search)

    searcher.search(snapshot, search)

    assert not search_cost.is_slow(snapshot, search)


def test_the_names_of_buckets_count_in_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    cache = LruCache(1 << 20)
    monkeypatch.setattr(calendar_buckets, "COLUMN_CACHE", cache)
    items: list[Item] = [{"tags": f"2020-01-01T00:{minute:02}:00"} for minute in range(60)]
    snapshot = World(items).snapshot
    request = RangeRequest("tags", calendar="1m")
    found = count_ranges(snapshot, request, [Matches(view, is_all=True) for view in snapshot.views])
    assert cache.size >= sum(map(sys.getsizeof, found.listed_keys))


def test_values_of_a_field_that_is_no_facet_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    items: list[Item] = [{"tags": "x" * 10 + str(number % 3)} for number in range(9)]
    snapshot = World(items).snapshot
    request = RangeRequest("tags", is_of_values=True)
    matches = [Matches(view, is_all=True) for view in snapshot.views]

    monkeypatch.setattr(bucket_counts, "_VALUES_CHARS_MAX", 33)
    assert count_ranges(snapshot, request, matches).listed_counts == [3, 3, 3]
    monkeypatch.setattr(bucket_counts, "_VALUES_CHARS_MAX", 32)
    with pytest.raises(PayloadTooLarge, match="name it in the configuration's aggregations"):
        count_ranges(snapshot, request, matches)


LONG = st.builds(
    lambda edge, distance: edge + distance,
    st.sampled_from([2**53, 10**18, 2**63, 2**64 - 2000, -(2**53), -(10**18), -(2**63) + 2000]),
    st.integers(-1500, 1500),
)
"""Integers that doubles do not tell apart."""


@given(
    st.lists(LONG, min_size=1, max_size=20),
    st.sampled_from([2500.5, 10_000.7, 1e16, 1e17 / 3]),
    st.sampled_from([(), (0.5,)]),
)
def test_numbers_that_no_double_holds_lie_between_the_edges_of_their_bucket(
    numbers: list[int], interval: float, beside: tuple[float, ...]
) -> None:
    snapshot = World([{"price": [number, *beside]} for number in numbers]).snapshot
    request = RangeRequest("price", interval=interval)
    buckets = [{bucket_of_number(number, interval), *map(int, beside)} for number in numbers]
    for docs in (range(1), range(len(numbers))):  # few are counted one by one, all by a column
        matches = [Matches(view, docs=np.array(docs, np.uint32)) for view in snapshot.views]
        found = count_ranges(snapshot, request, matches)
        expected = Counter(bucket for doc in docs for bucket in buckets[doc])
        assert dict(zip(found.listed_keys, found.listed_counts, strict=True)) == expected


def bucket_of_number(number: int, interval: float) -> int:
    """Return the bucket between whose edges, as they are sent, a number lies."""
    bucket = int(number // Fraction(interval))
    while number < bucket * interval:
        bucket -= 1
    while number >= (bucket + 1) * interval:
        bucket += 1
    return bucket
