"""The elements of a segment that pass a condition."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from shard.caches.lru_cache import FILTER_CACHE
from shard.query.filters.filter_bitsets import resolve
from shard.segment.doc_sets import count_docs, list_all_docs, list_docs

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from common.query_syntax_tree import Filter
    from shard.query.filters.filter_bitsets import ElementView
    from shard.segment.snapshot import Snapshot


def list_passing(
    snapshot: Snapshot, elements: ElementView, condition: Filter
) -> NDArray[np.uint32]:
    """Return the elements that pass a condition, ascending; cached for the next facet."""
    segment = elements.view.segment
    key = ("passing", segment.uid, condition)
    passing: NDArray[np.uint32] | None = FILTER_CACHE.get(key)
    if passing is None:
        bitset = resolve(snapshot, elements.view, condition)
        passing = list_all_docs(bitset, int(count_docs(bitset)))
        FILTER_CACHE.put(key, passing, passing.nbytes, segment)
    return passing


def listed_if_few(bitset: NDArray[np.uint64]) -> NDArray[Any]:
    """Return a bitset, or its elements as a list where there is not even one in each word."""
    count = int(count_docs(bitset))
    return bitset if count > len(bitset) else list_docs(bitset, count)
