"""Which elements of a hit passed the conditions on their fields."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from common.distinct_values import distinct_values
from common.query_syntax_tree import And, Filter, Same
from shard.query.filters.filter_bitsets import element_view, resolve
from shard.segment.doc_sets import are_in

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from shard.segment.snapshot import Snapshot


def matching_elements(
    snapshot: Snapshot,
    views: NDArray[np.int64],
    docs: NDArray[np.uint32],
    filters: Sequence[Filter],
) -> tuple[dict[str, list[int]], ...]:
    """Return the elements of each hit and nested field that passed the field's condition.

    Args:
        snapshot: to search.
        views: of the hits: position of the segment in the snapshot.
        docs: of the hits: document of the segment.
        filters: all that a hit must pass. Given several conditions on one field, an element need
            pass only one to be returned.

    Returns:
        By hit, then nested field: ascending positions in the array.
    """
    found: list[dict[str, list[int]]] = [{} for _ in docs]
    for condition in _conditions_of(filters):
        for ordinal in distinct_values(views).tolist():
            elements = element_view(snapshot, snapshot.views[ordinal].segment, condition.field)
            if elements is None:
                continue
            bitset = resolve(snapshot, elements.view, condition.condition)
            for i in np.flatnonzero(views == ordinal).tolist():
                first, end = np.searchsorted(elements.docs, [docs[i], docs[i] + 1]).tolist()
                passes = are_in(bitset, np.arange(first, end, dtype=np.uint32))
                positions = found[i].setdefault(condition.field, [])
                positions += np.flatnonzero(passes).tolist()
    return tuple(
        {field: sorted(set(positions)) for field, positions in one.items()} for one in found
    )


def _conditions_of(filters: Sequence[Filter]) -> Iterator[Same]:
    """Yield the conditions on elements that every hit passes."""
    for one in filters:
        if isinstance(one, Same):
            yield one
        elif isinstance(one, And):
            yield from _conditions_of(one.children)
