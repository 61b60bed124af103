"""The result cache keeps within its bound and never answers for another state."""

from __future__ import annotations

from coordinator.read.result_cache import ResultCache, ResultKey
from coordinator.read.search_results import SearchResult, ShardSummary, Timings


def result(total: int, num_bytes: int = 0) -> SearchResult:
    return SearchResult(
        page=1,
        per_page=10,
        total=total,
        items=[b"x" * num_bytes],
        facets=[],
        ranges=[],
        seq=1,
        ignored_words=[],
        shards=ShardSummary(1, 1),
        timings=Timings(1, 1, 1, 1),
    )


def key(request: str, *, index: int = 1, revision: int = 1, horizon: int = 1) -> ResultKey:
    return ResultKey(index, revision, horizon, request)


def test_a_result_is_found_for_its_index_revision_horizon_and_request_only() -> None:
    cache = ResultCache(100_000)
    cache.put(key("a"), result(7))
    assert cache.get(key("a")) == result(7)
    for other in (key("b"), key("a", index=2), key("a", revision=2), key("a", horizon=2)):
        assert cache.get(other) is None
    assert (cache.num_hits, cache.num_misses) == (1, 4)


def test_the_least_recently_used_go_and_the_bound_holds() -> None:
    cache = ResultCache(10_000)
    for request in "abc":
        cache.put(key(request), result(1, 1_000))
    assert cache.get(key("a")) is not None
    for request in "defgh":
        cache.put(key(request), result(1, 1_000))
        assert 0 < cache.size <= 10_000
        assert cache.get(key("a")) is not None
    assert cache.get(key("b")) is None
    cache.put(key("a"), result(2))
    assert cache.get(key("a")) == result(2)


def test_a_result_too_large_for_its_share_is_not_kept() -> None:
    cache = ResultCache(10_000)
    cache.put(key("a"), result(1, 5_000))
    assert cache.get(key("a")) is None
    assert cache.size == 0


def test_without_bytes_it_is_off() -> None:
    assert not ResultCache(0).is_on
