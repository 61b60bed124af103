"""Disjunctive facets: matches narrowed by the clauses of all facets, and of all facets but one.

    groups            brand ∈ {acme}     color ∈ {red, blue}
    hits              both groups        counts of every other facet
    without brand     color              counts of brand: as if nothing were selected in it
    without color     brand              counts of color

`filter_only_matches` does the same where so few documents pass that each clause is tested on a
list.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import numpy as np

from common.kernels.decorator import kernel
from common.kernels.types import U16, U16Array, U32Array, U64Array, uint16
from shard.query.matches import Matches
from shard.segment.doc_sets import has_bit

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from shard.segment.snapshot import SegmentView

_SEVERAL: Final = 0xFFFF
"""Stands for the number of a group: the document fails several."""


@kernel
def _note_failures(bitset: U64Array, docs: U32Array, group: U16, failed: U16Array) -> None:
    """Note a group, numbered from 1, as failed for every document that is not in its bitset."""
    for i in range(len(docs)):
        if not has_bit(bitset, docs[i]):
            failed[i] = group if failed[i] == 0 else uint16(_SEVERAL)


@kernel
def _pick_docs(docs: U32Array, failed: U16Array, ignored: U16, picked: U32Array) -> int:
    """Write the documents that fail no group but the ignored one; return how many."""
    count = 0
    for i in range(len(docs)):
        picked[count] = docs[i]  # overwritten by the next one if it does not count: no branch
        count += 1 if (failed[i] == 0) | (failed[i] == ignored) else 0
    return count


def leave_out_each(
    view: SegmentView,
    docs: NDArray[np.uint32],
    groups: Mapping[str, NDArray[np.uint64]],
) -> dict[str, Matches]:
    """Narrow documents by all groups of clauses but one, for each of the groups.

    One pass per group notes which documents fail it; one pass per result picks those that fail
    nothing else. That is cheaper than one intersection per pair of groups.

    Args:
        view: the segment and its deletions.
        docs: live documents that match the query, before any group narrows them, ascending.
        groups: bitset of the documents that pass, by disjunctive facet.

    Returns:
        By facet, the documents that pass all other groups.
    """
    assert len(groups) < _SEVERAL, "each facet has a number"
    failed = np.zeros(len(docs), np.uint16)
    for group, bitset in enumerate(groups.values(), 1):
        _note_failures(bitset, docs, group, failed)
    without: dict[str, Matches] = {}
    for group, facet in enumerate(groups, 1):
        picked = np.empty(len(docs) + 1, np.uint32)
        count = _pick_docs(docs, failed, group, picked)
        without[facet] = Matches(view, docs=picked[:count])
    return without


def narrow_each(
    view: SegmentView,
    base: NDArray[np.uint64] | None,
    groups: Mapping[str, NDArray[np.uint64]],
) -> tuple[Matches, dict[str, Matches]]:
    """Narrow a bitset by all groups of clauses, and by all groups but one.

    Args:
        view: the segment and its deletions.
        base: live documents that pass the common clauses; None if all documents do.
        groups: bitset of the documents that pass, by disjunctive facet.

    Returns:
        The documents that pass all groups, and by facet those that pass all others. F groups cost 3
        F ANDs, from prefixes and suffixes of the list of groups.
    """
    parts = list(groups.values())
    suffixes: list[NDArray[np.uint64] | None] = [None] * (len(parts) + 1)
    for i in range(len(parts) - 1, 0, -1):
        suffixes[i] = intersection(parts[i], suffixes[i + 1])
    prefix = base
    without: dict[str, Matches] = {}
    for i, facet in enumerate(groups):
        others = intersection(prefix, suffixes[i + 1])
        without[facet] = Matches(view, bitset=others, is_all=others is None)
        prefix = intersection(prefix, parts[i])
    return Matches(view, bitset=prefix, is_all=prefix is None), without


def intersection(
    left: NDArray[np.uint64] | None, right: NDArray[np.uint64] | None
) -> NDArray[np.uint64] | None:
    """Return the intersection of two bitsets; None means all documents."""
    if left is None:
        return right
    return left if right is None else left & right
