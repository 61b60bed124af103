"""The result cache: results of recent searches, each valid for one state of one index.

    (index, revision, horizon, request as it was sent, filter of the key) ─▶ SearchResult

The horizon is part of the cache key, and every acknowledged write advances it. A result that a
write could have changed is never found again: nothing needs invalidation, and a cache hit is
exactly what the shards would return. Past the bound in bytes, the least recently used go first.

Off unless `result_cache_bytes` is set: most searches take less than a millisecond anyway. It pays
off where many users send the same request (the first page of a shop) and writes are rare.

Cost of a cache hit: one lookup by the bytes of the request. Partial results are not cached, nor are
pages of a cursor (these refer to a state of their own).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Final, NamedTuple

from coordinator.read.search_results import SearchResult

_RESULT_BYTES: Final = 1_000
"""Approximate size of a result without its items and buckets."""
_BUCKET_BYTES: Final = 120


class ResultKey(NamedTuple):
    """Everything a result depends on."""

    index_number: int
    revision: int
    horizon: int
    request: Hashable


class ResultCache:
    """LRU cache of results, bounded by their total size.

    Attributes:
        size: estimated bytes of all results.
        num_hits: searches served from the cache.
        num_misses: searches that were not in it.
    """

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._results: OrderedDict[ResultKey, tuple[SearchResult, int]] = OrderedDict()
        self.size = 0
        self.num_hits = 0
        self.num_misses = 0

    @property
    def is_on(self) -> bool:
        """Whether the cache is enabled."""
        return self._bytes_max > 0

    def get(self, key: ResultKey) -> SearchResult | None:
        """Return the cached result, or None."""
        entry = self._results.get(key)
        if entry is None:
            self.num_misses += 1
            return None
        self.num_hits += 1
        self._results.move_to_end(key)
        return entry[0]

    def put(self, key: ResultKey, result: SearchResult) -> None:
        """Cache a complete result, unless it is larger than a quarter of the bound."""
        size = _size_of(key, result)
        if 4 * size > self._bytes_max:
            return
        replaced = self._results.pop(key, None)
        if replaced is not None:
            self.size -= replaced[1]
        self._results[key] = (result, size)
        self.size += size
        while self.size > self._bytes_max:
            _, (_, dropped) = self._results.popitem(last=False)
            self.size -= dropped


def _size_of(key: ResultKey, result: SearchResult) -> int:
    num_buckets = sum(len(facet.buckets) for facet in result.facets)
    num_buckets += sum(len(one.keys) for one in result.ranges)
    num_bytes = sum(map(len, result.items)) + len(repr(key.request))
    return _RESULT_BYTES + num_bytes + num_buckets * _BUCKET_BYTES
