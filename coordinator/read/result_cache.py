"""The result cache: answers of recent searches, each right for one state of one index only.

    (index, revision, horizon, request as it was sent, filter of the key) ─▶ SearchResult

The horizon is part of the key, and every acknowledged write moves it: an answer that a write could
have changed is never found again, so nothing has to be invalidated, and a hit is exactly what the
shards would answer. The least recently used go when the bound in bytes is reached.

It is off unless `result_cache_bytes` says otherwise: most searches take less than a millisecond
anyway. It pays where many people ask the same (the first page of a shop) and little is written.

Cost of a hit: one lookup by the bytes of the request. Not kept: partial answers, and pages of a
cursor (these hold on to a state of their own).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Final, NamedTuple

from coordinator.read.results import SearchResult

_RESULT_BYTES: Final = 1_000
"""About what a result takes without its items and buckets."""
_BUCKET_BYTES: Final = 120


class ResultKey(NamedTuple):
    """What a result depends on."""

    index_number: int
    revision: int
    horizon: int
    request: Hashable


class ResultCache:
    """Results by key, of at most `bytes_max` together.

    Attributes:
        size: bytes of all results, estimated.
        num_hits: searches that were answered from here.
        num_misses: searches that were not.
    """

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._results: OrderedDict[ResultKey, tuple[SearchResult, int]] = OrderedDict()
        self.size = 0
        self.num_hits = 0
        self.num_misses = 0

    @property
    def is_on(self) -> bool:
        """Whether anything is kept at all."""
        return self._bytes_max > 0

    def get(self, key: ResultKey) -> SearchResult | None:
        """Return a result, if it is here."""
        entry = self._results.get(key)
        if entry is None:
            self.num_misses += 1
            return None
        self.num_hits += 1
        self._results.move_to_end(key)
        return entry[0]

    def put(self, key: ResultKey, result: SearchResult) -> None:
        """Keep a complete result; one that is larger than a quarter of the bound is not kept."""
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
    num_buckets += sum(len(one.buckets) for one in result.ranges)
    num_bytes = sum(map(len, result.items)) + len(repr(key.request))
    return _RESULT_BYTES + num_bytes + num_buckets * _BUCKET_BYTES
