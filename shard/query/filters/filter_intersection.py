"""Intersects the bitsets of filters: of all clauses, and of each group of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from common.query_syntax_tree import Filter
from shard.query.filters.disjunctive_facets import intersection
from shard.query.filters.filter_bitsets import resolve

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from shard.segment.snapshot import SegmentView, Snapshot


def narrow(
    snapshot: Snapshot,
    view: SegmentView,
    bitset: NDArray[np.uint64] | None,
    clauses: Iterable[Filter],
) -> NDArray[np.uint64] | None:
    """Return the documents of a bitset (None: all) that pass every clause."""
    for clause in clauses:
        bitset = intersection(bitset, resolve(snapshot, view, clause))
    return bitset


def resolve_groups(
    snapshot: Snapshot, view: SegmentView, groups: Mapping[str, Sequence[Filter]]
) -> dict[str, NDArray[np.uint64]]:
    """Return, by group, the documents that pass all its clauses."""
    resolved = {}
    for facet, clauses in groups.items():
        bitset = narrow(snapshot, view, None, clauses)
        assert bitset is not None, "a group without clauses"
        resolved[facet] = bitset
    return resolved
