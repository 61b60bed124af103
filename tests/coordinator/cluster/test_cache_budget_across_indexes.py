"""Pages of facets are cached within the budget of all indexes."""

from __future__ import annotations

from unittest.mock import Mock

from coordinator.cluster.cache_budget_across_indexes import CacheBudget
from coordinator.parameters.facet_specs import BucketOrder
from coordinator.read.facets.bucket_selection import Bucket
from coordinator.read.facets.facet_cache import FacetCache

PAGE = [Bucket(f"v{i}", i, False) for i in range(50)]
ORDER = BucketOrder()


def test_pages_of_all_indexes_are_bounded_together() -> None:
    budget = CacheBudget(100_000)
    caches = [FacetCache(Mock(num_shards=1), budget) for _ in range(100)]
    for size in range(50):
        for cache in caches:
            cache.remember_page(7, ("f", ORDER, 0, size), PAGE)
            assert budget.num_bytes <= 100_000
    kept = [
        size
        for cache in caches
        for size in range(50)
        if cache.page(7, ("f", ORDER, 0, size)) is not None
    ]
    assert kept
    assert len(kept) * len(PAGE) * 48 <= budget.num_bytes


def test_a_page_is_of_its_horizon() -> None:
    budget = CacheBudget()
    cache = FacetCache(Mock(num_shards=1), budget)
    key = ("f", ORDER, 0, 10)
    cache.remember_page(7, key, PAGE)
    cache.remember_page(7, key, PAGE)
    once = budget.num_bytes
    assert cache.page(7, key) is PAGE
    assert cache.page(8, key) is None
    cache.remember_page(8, key, PAGE[:1])
    cache.remember_page(7, key, PAGE)
    assert cache.page(8, key) == PAGE[:1]
    assert cache.page(7, key) is None
    assert 0 < budget.num_bytes < once
    cache.forget()
    assert budget.num_bytes == 0
