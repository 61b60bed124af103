"""The matching documents of one segment: what matching hands to collecting.

A collector asks for the form that suits it; each form is computed at most once:

    bitset                          counting by stored sets, ranges, walking a permutation
    docs     ordinals, ascending    counting codes, gathering sort keys; `scores` are parallel to it
    count    how many               totals

A text search may know `count` and its best hits without the documents; `list_docs` or `mark_docs`
then computes them.

Matches never hold a deleted document. `is_all` says that they are all live documents of the view:
stored totals then answer, and neither form is computed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from shard.segment.doc_sets import (
    bitset_of,
    complement,
    count_docs,
    full_bitset,
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

    __slots__ = (
        "_bitset",
        "_docs",
        "_list_docs",
        "_mark_docs",
        "_other_docs",
        "count",
        "is_all",
        "scorer",
        "scores",
        "view",
    )

    def __init__(
        self,
        view: SegmentView,
        *,
        bitset: NDArray[np.uint64] | None = None,
        docs: NDArray[np.uint32] | None = None,
        scores: NDArray[np.float64] | None = None,
        is_all: bool = False,
        count: int | None = None,
        list_docs: Callable[[], NDArray[np.uint32]] | None = None,
        mark_docs: Callable[[], NDArray[np.uint64]] | None = None,
        scorer: Scorer | None = None,
    ) -> None:
        self.view = view
        self.scorer = scorer
        self._bitset = bitset
        self._docs = docs
        self._list_docs = list_docs
        self._mark_docs = mark_docs
        self._other_docs: NDArray[np.uint32] | None = None
        self.scores = scores
        if is_all:
            self.count = view.num_docs
        elif count is not None:
            self.count = count
        elif docs is not None:
            self.count = len(docs)
        else:
            assert bitset is not None, "matches of no form"
            self.count = int(count_docs(bitset))
        self.is_all = is_all or self.count == view.num_docs

    @property
    def bitset(self) -> NDArray[np.uint64]:
        """The documents as a bitset."""
        if self._bitset is None:
            num_docs = self.view.segment.num_docs
            if self._mark_docs is not None:
                self._bitset = self._mark_docs()
            elif self.has_docs:
                self._bitset = bitset_of(self.docs, num_docs)
            else:
                live = self.view.live_mask
                self._bitset = full_bitset(num_docs) if live is None else live
        return self._bitset

    @property
    def docs(self) -> NDArray[np.uint32]:
        """The documents, ascending, uint32."""
        if self._docs is None:
            if self._list_docs is not None:
                self._docs = self._list_docs()
            elif self._has_no_form and self.view.deleted is None:
                self._docs = np.arange(self.count, dtype=np.uint32)
            else:
                self._docs = list_all_docs(self.bitset, self.count)
        return self._docs

    @property
    def has_docs(self) -> bool:
        """Whether `docs` is cached, or `list_docs` will supply it."""
        return self._docs is not None or self._list_docs is not None

    @property
    def _has_no_form(self) -> bool:
        """Whether neither form is computed, nor known how: then these are all live documents."""
        return self._bitset is None and self._mark_docs is None and not self.has_docs

    @property
    def is_everything(self) -> bool:
        """Whether these are all documents of the segment: none is deleted."""
        return self.is_all and self.view.deleted is None

    def first_docs(self, count: int) -> NDArray[np.uint32]:
        """Return the first documents without listing all."""
        if self.has_docs:
            return self.docs[:count]
        if self._has_no_form and self.view.deleted is None:
            return np.arange(min(count, self.count), dtype=np.uint32)
        return list_docs(self.bitset, min(count, self.count))

    def other_docs(self) -> NDArray[np.uint32]:
        """Return the live documents of the view that do not match."""
        if self._other_docs is None:
            others = complement(self.bitset, self.view.segment.num_docs)
            live = self.view.live_mask
            if live is not None:
                others &= live
            self._other_docs = list_all_docs(others, self.view.num_docs - self.count)
        return self._other_docs
