"""The matching documents of one segment: what matching hands to collecting.

A collector asks for the form that suits it; each form is computed at most once:

    words    bitset                 counting by stored sets, ranges, walking a permutation
    docs     ordinals, ascending    counting codes, gathering sort keys; `scores` are parallel to it
    count    how many               totals

A text search may know `count` and its best hits without `docs`; `list_docs` then computes them.

Matches never hold a deleted document. `is_all` says that they are all live documents of the view:
stored totals then answer, and neither form is computed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from common.kernels.decorator import kernel
from common.kernels.types import U64, U32Array, U64Array, uint64
from shard.segment.doc_sets import (
    bitset_of,
    complement,
    count_docs,
    full_bitset,
    has_bit,
    list_all_docs,
    list_docs,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from shard.segment.snapshot import SegmentView


Scorer: TypeAlias = Callable[["NDArray[np.uint32]"], "NDArray[np.float64]"]


class Matches:
    """Documents of one view; immutable but for the forms it caches.

    Attributes:
        view: the segment and its deletions.
        count: number of documents.
        is_all: whether these are all live documents of the view.
        scores: float64 by position in `docs`; None without a query, or if there is a scorer.
        scorer: returns the scores of some of the documents, ascending; None if `scores` has them,
            or there are none.
    """

    __slots__ = ("_docs", "_list_docs", "_words", "count", "is_all", "scorer", "scores", "view")

    def __init__(
        self,
        view: SegmentView,
        *,
        words: NDArray[np.uint64] | None = None,
        docs: NDArray[np.uint32] | None = None,
        scores: NDArray[np.float64] | None = None,
        is_all: bool = False,
        count: int | None = None,
        list_docs: Callable[[], NDArray[np.uint32]] | None = None,
        scorer: Scorer | None = None,
    ) -> None:
        self.view = view
        self.scorer = scorer
        self._words = words
        self._docs = docs
        self._list_docs = list_docs
        self.scores = scores
        if is_all:
            self.count = view.num_docs
        elif count is not None:
            self.count = count
        elif docs is not None:
            self.count = len(docs)
        else:
            assert words is not None, "matches of no form"
            self.count = int(count_docs(words))
        self.is_all = is_all or self.count == view.num_docs

    @property
    def words(self) -> NDArray[np.uint64]:
        """The documents as a bitset."""
        if self._words is None:
            num_docs = self.view.segment.num_docs
            if self.has_docs:
                self._words = bitset_of(self.docs, num_docs)
            else:
                live = self.view.live_mask
                self._words = full_bitset(num_docs) if live is None else live
        return self._words

    @property
    def docs(self) -> NDArray[np.uint32]:
        """The documents, ascending, uint32."""
        if self._docs is None:
            if self._list_docs is not None:
                self._docs = self._list_docs()
            elif self._words is None and self.view.deleted is None:
                self._docs = np.arange(self.count, dtype=np.uint32)
            else:
                self._docs = list_all_docs(self.words, self.count)
        return self._docs

    @property
    def has_docs(self) -> bool:
        """Whether `docs` is cached, or `list_docs` will supply it."""
        return self._docs is not None or self._list_docs is not None

    @property
    def is_everything(self) -> bool:
        """Whether these are all documents of the segment: none is deleted."""
        return self.is_all and self.view.deleted is None

    def first_docs(self, count: int) -> NDArray[np.uint32]:
        """Return the first documents without listing all."""
        if self.has_docs:
            return self.docs[:count]
        if self._words is None and self.view.deleted is None:
            return np.arange(min(count, self.count), dtype=np.uint32)
        return list_docs(self.words, min(count, self.count))

    def other_docs(self) -> NDArray[np.uint32]:
        """Return the live documents of the view that do not match."""
        others = complement(self.words, self.view.segment.num_docs)
        live = self.view.live_mask
        if live is not None:
            others &= live
        listed: NDArray[np.uint32] = list_all_docs(others, self.view.num_docs - self.count)
        return listed


# --- matches narrowed by the clauses of disjunctive facets ---------------------------------------


@kernel
def _note_failures(words: U64Array, docs: U32Array, bit: U64, failures: U64Array) -> None:
    """Set a bit in `failures` for every document that is not in a bitset."""
    for i in range(len(docs)):
        if not has_bit(words, docs[i]):
            failures[i] |= bit


@kernel
def _pick_docs(docs: U32Array, failures: U64Array, ignored: U64, picked: U32Array) -> int:
    """Write the documents that fail nothing but the ignored groups; return how many."""
    count = 0
    for i in range(len(docs)):
        picked[count] = docs[i]  # overwritten by the next one if it does not count: no branch
        count += 1 if failures[i] & ~ignored == 0 else 0
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
    failures = np.zeros(len(docs), np.uint64)
    bits = {facet: uint64(1 << i) for i, facet in enumerate(groups)}
    for facet, words in groups.items():
        _note_failures(words, docs, bits[facet], failures)
    without: dict[str, Matches] = {}
    for facet in groups:
        picked = np.empty(len(docs) + 1, np.uint32)
        count = _pick_docs(docs, failures, bits[facet], picked)
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
        suffixes[i] = both(parts[i], suffixes[i + 1])
    prefix = base
    without: dict[str, Matches] = {}
    for i, facet in enumerate(groups):
        others = both(prefix, suffixes[i + 1])
        without[facet] = Matches(view, words=others, is_all=others is None)
        prefix = both(prefix, parts[i])
    return Matches(view, words=prefix, is_all=prefix is None), without


def both(
    left: NDArray[np.uint64] | None, right: NDArray[np.uint64] | None
) -> NDArray[np.uint64] | None:
    """Return the intersection of two bitsets; None means all documents."""
    if left is None:
        return right
    return left if right is None else left & right
